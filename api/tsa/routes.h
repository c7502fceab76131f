/* The routes of the TSA, for feature.c. */
#ifndef API_TSA_ROUTES_H
#define API_TSA_ROUTES_H

#include "api/feature.h"

#define TSA_ROUTE_COUNT 2
extern const struct route tsa_routes[TSA_ROUTE_COUNT];

#endif
