/*
 * What the files of api/store/ share, and the only header of the tree that knows libpq.
 *
 * A connection stays in pipeline mode: statements are queued (each prepared by name at its first use), and one
 * round trip sends them all and collects all results. What is awaited stands in the connection's list of pending
 * answers, so a transaction can leave its ROLLBACK behind for the next user to collect. One thread at a time.
 */
#ifndef API_STORE_INTERNAL_H
#define API_STORE_INTERNAL_H

#include "api/store/store.h"

#include <libpq-fe.h>

/* Where and as whom to connect: keyword/value arrays for libpq. */
struct endpoint;
struct fault endpoint_new(const struct config *config, const char *user, struct buf *why,
                          struct endpoint **ret_endpoint);
void endpoint_free(struct endpoint *endpoint);
DEFINE_FREEP(struct endpoint, endpoint_free)
const char *const *endpoint_keys(const struct endpoint *endpoint); /* NULL-terminated, as are the values */
const char *const *endpoint_values(const struct endpoint *endpoint);

struct connection;
struct fault connection_open(struct op *op, const struct endpoint *endpoint, mono_ns deadline,
                             struct connection **ret_connection);
void connection_close(struct connection *connection);
DEFINE_FREEP(struct connection, connection_close)
/* False once it failed, or when the server has hung up (one system call). */
bool connection_alive(struct connection *connection);
/* Adds one statement to what the next round trip sends. Sends early (without waiting for answers) when much is queued.
 */
struct fault connection_queue(struct op *op, struct connection *connection, const struct sql *sql,
                              const struct sql_arg *args, size_t count);
/* One round trip: sends, collects every answer until `deadline`. The first failing statement is the fault; the last
 * statement's result goes to *ret_result when it is not NULL. */
struct fault connection_finish(struct op *op, struct connection *connection, mono_ns deadline, PGresult **ret_result);
/* The answer of the statement that was queued last is kept beside what connection_finish gives, for
 * connection_kept(). One at a time. */
void connection_keep(struct connection *connection);
/* What is queued so far is a part of its own: it is sent now, its failure is not that of what follows, and both come
 * with the same connection_finish. */
struct fault connection_part(struct op *op, struct connection *connection);
/* The part's fault, or its kept answer (NULL when nothing was kept), once. */
struct fault connection_kept(struct connection *connection, PGresult **ret_result);
/* Queues a ROLLBACK behind all that is open and sends without waiting. */
void connection_abandon(struct connection *connection);
/* Counts as broken from now on, so that its pool replaces it. */
void connection_hang_up(struct connection *connection);
/* Collects what connection_abandon left; afterwards the session is idle, or the connection counts as broken. */
struct fault connection_settle(struct op *op, struct connection *connection, mono_ns deadline);
/* Several statements of trusted text, without parameters (migrations). Nothing may be queued. */
struct fault connection_script(struct op *op, struct connection *connection, const char *text, mono_ns deadline);
/* One statement in its own transaction: queue and finish. */
struct fault connection_run(struct op *op, struct connection *connection, const struct sql *sql,
                            const struct sql_arg *args, size_t count, mono_ns deadline, struct rows **ret_rows);

/* Which statements a connection has prepared, by name. */
enum prepared_state { PREPARED_NOT, PREPARED_SENT, PREPARED_YES };
struct prepared {
    const char *name, *text; /* borrowed from the constant struct sql */
    enum prepared_state state;
};
struct prepared_set {
    struct prepared **slots; /* open addressing by name; the entries do not move */
    size_t size, count;
};
struct fault prepared_get(struct prepared_set *set, const struct sql *sql, struct prepared **ret_prepared);
void prepared_clear(struct prepared_set *set);

/* Foreign errors. `result` may be NULL (the connection itself failed). */
struct fault sqlstate_fault(const char *sqlstate, const char **ret_detail);
struct fault store_fail_result(struct op *op, const PGresult *result);
struct fault store_fail_connection(struct op *op, PGconn *pg, const char *doing);
/* The message with everything between quotes masked, except what is in `keep` (NULL-terminated list of names). */
void message_mask(const char *message, const char *const *keep, char *out, size_t size);

/* Takes over `result`. */
struct fault rows_new(PGresult *result, struct rows **ret_rows);

struct pool;
struct slot {
    struct connection *connection; /* NULL until it is (re)connected; used by the slot's taker only */
    struct slot *next;
    struct pool *pool;
};
/* Connects all `size` connections at once. */
struct fault pool_open(struct op *op, enum store_pool which, const struct endpoint *endpoint, unsigned size,
                       int64_t acquire_ns, struct pool **ret_pool);
void pool_close(struct pool *pool);
DEFINE_FREEP(struct pool, pool_close)
/* First come, first served. The connection is alive and idle. */
struct fault pool_take(struct op *op, struct pool *pool, struct slot **ret_slot);
void pool_give(struct slot *slot);
/* Another session in a slot that is taken, in place of a broken one. On failure the slot's session stays broken. */
struct fault pool_renew(struct op *op, struct slot *slot);
void pool_stats(struct pool *pool, struct store_pool_stats *ret_stats);

struct store {
    const struct config *config;
    struct endpoint *app, *worker;
    struct pool *pools[STORE_POOL_COUNT];
};

/* Refuses unsafe roles and tables without forced row-level security; checks that exactly our migrations are applied. */
struct fault store_check(struct op *op, struct connection *connection, const struct config *config, struct buf *why);

/* The files of migrations/, in file name order (generated: cmake/EmbedMigrations.cmake). */
struct migration {
    int64_t version;
    const char *name;   /* file name without folder and ".sql" */
    const char *sha256; /* hex, of the file */
    const char *sql;
};
extern const struct migration store_migrations[];
extern const size_t store_migration_count;
/* Compares applied rows (version, name, sha256 ascending) with ours. *ret_missing: index of the first of ours that is
 * not applied. STORE_SCHEMA when an applied one is unknown or differs. */
struct fault migrations_compare(const struct rows *applied, const struct migration *ours, size_t count, struct buf *why,
                                size_t *ret_missing);

#endif
