/* The web console: its files travel inside svc-api and are served at /console/ (docs/console.md). What it shows and
 * does goes through the API with the user's own token; nothing here knows a tenant. */
#ifndef API_CONSOLE_CONSOLE_H
#define API_CONSOLE_CONSOLE_H

#include "api/feature.h"

extern const struct feature console_feature;

#endif
