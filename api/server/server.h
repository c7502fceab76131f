/*
 * The HTTP server of svc-api: three listeners over one pipeline.
 *
 *   http.listen        HTTPS, every route
 *   http.plain_listen  plain http, only routes with ROUTE_PLAIN_TOO; empty = none
 *   http.probe_listen  plain http, only routes with ROUTE_PROBE; empty = none
 *
 * Order of stopping: server_leave (readiness ends, answers close their connections, all is taken still),
 * server_stop_accepting (new connections are refused, what runs goes on), server_drain, then server_stop. Each implies
 * those before it. The probe listener answers until server_stop.
 *
 *     TRY(server_start(&(struct server_config){ services, features, count }, &why, &server));
 *     ... SIGTERM ...
 *     server_stop_accepting(server);
 *     server_stop(server, 30000);
 *
 * Call all of these from one thread. SIGPIPE must be ignored by the program.
 */
#ifndef API_SERVER_SERVER_H
#define API_SERVER_SERVER_H

#include "api/feature.h"
#include "api/server/message.h"
#include "api/services.h"

struct server_config {
    struct services *services; /* borrowed for the server's life, as are the features */
    const struct feature *const *features;
    size_t feature_count;
    bool probes_only; /* only http.probe_listen is opened: what does not serve tells why */
};

struct server;

/* Serving when it returns OK. CONFIG (a table, an address, a certificate) or IO (a port is taken) with a line in `why`.
 */
struct fault server_start(const struct server_config *config, struct buf *why, struct server **ret_server);
void server_leave(struct server *server);
void server_stop_accepting(struct server *server);
/* Waits until no request is in hand, at most drain_ms; then cuts the connections of those that are left, and returns
 * how many. */
size_t server_drain(struct server *server, int64_t drain_ms);
/* server_drain, then ends all threads (a handler that is still running is waited
 * for: it ends with its operation's deadline). Implies server_stop_accepting. NULL is fine. */
void server_stop(struct server *server, int drain_ms);

/* The port that a listener got (0 = not open): for addresses that leave it to the system. */
int server_port(const struct server *server, enum listener_kind listener);

#endif
