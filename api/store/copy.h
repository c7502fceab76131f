/*
 * Whole tables out of the database and into it, by COPY in PostgreSQL's binary form. Each has a connection of its own
 * that no pool knows, so that nobody waits for it, and one transaction.
 *
 * Out: as svc_worker, all of it as of one moment (REPEATABLE READ, READ ONLY). Rows of a table of one tenant's scope
 * come for the tenant that was set; see svc.tables.
 * In: as svc_owner, every table that a projection writes is emptied and filled again; until copy_in_commit nobody sees
 * anything of it, and without it nothing happened.
 *
 * Waits for the database until op's deadline; there is no other time limit.
 */
#ifndef API_STORE_COPY_H
#define API_STORE_COPY_H

#include "api/store/store.h"

enum copy_scope { COPY_SYSTEM, COPY_TENANT, COPY_ALL }; /* COPY_ALL: the worker sees every tenant's rows at once */
struct copy_table {
    const char *name;    /* without its schema */
    const char *columns; /* a list of names as SQL takes it */
    enum copy_scope scope;
};
typedef struct fault (*copy_fn)(void *arg, struct span bytes);

struct copy;
void copy_free(struct copy *copy); /* rolls back what was not committed */
DEFINE_FREEP(struct copy, copy_free)

struct fault copy_out_begin(struct op *op, const struct config *config, struct buf *why, struct copy **ret_copy);
struct fault copy_out_tenant(struct op *op, struct copy *copy, struct tenant_id tenant);
/* One COPY ... TO STDOUT. A fault of `take` ends it, and the transaction with it. */
struct fault copy_out_table(struct op *op, struct copy *copy, const char *statement, copy_fn take, void *arg,
                            uint64_t *ret_rows);

/* CONFLICT while a projector runs. Empties the tables. */
struct fault copy_in_begin(struct op *op, const struct config *config, struct buf *why, struct copy **ret_copy);
/* `table` is one of copy_tables. Then copy_in_put as often as there is something, and copy_in_end. */
struct fault copy_in_table(struct op *op, struct copy *copy, const struct copy_table *table);
struct fault copy_in_put(struct op *op, struct copy *copy, struct span bytes);
struct fault copy_in_end(struct op *op, struct copy *copy, uint64_t *ret_rows);
struct fault copy_in_commit(struct op *op, struct copy *copy);

/* The tables that projections write, by name, in op's arena. */
struct fault copy_tables(struct op *op, struct copy *copy, struct copy_table **ret_tables, size_t *ret_count);
/* A constant statement without parameters. */
struct fault copy_query(struct op *op, struct copy *copy, const char *text, struct rows **ret_rows);

/* A digest over the names and contents of this program's migrations: what a database of this version has applied. */
struct fault store_schema_digest(struct sha256 *ret_digest);

#endif
