/* Looks into answers of the server: their home is appliance/base/json_view.h, for every client to share. */
#ifndef API_CLI_VIEW_H
#define API_CLI_VIEW_H

#include "appliance/base/json_view.h"

#endif
