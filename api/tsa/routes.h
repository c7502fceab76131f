/* The routes of the TSA, for feature.c. */
#ifndef API_TSA_ROUTES_H
#define API_TSA_ROUTES_H

#include "api/feature.h"

#define TSA_ROUTE_COUNT 11
extern const struct route tsa_routes[TSA_ROUTE_COUNT];

/* qualify_route.c */
#define TSA_QUALIFY_ANSWERS 7
extern const struct answer_field tsa_qualify_answer[TSA_QUALIFY_ANSWERS];
struct fault tsa_qualify(struct request *request);

#endif
