#include "api/store/internal.h"

#include "appliance/base/alloc.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

#define PENDING_MAX 256u /* answers in flight: beyond it, queueing waits */
#define ARGS_MAX    40u
#define ALIVE_READS 8
#define SCRATCH_MAX ((size_t)16 << 20)

static const struct sql SQL_ROLLBACK = { "svc_rollback", "ROLLBACK", 0 };

enum pending_kind { PENDING_PREPARE, PENDING_STATEMENT, PENDING_SYNC };
struct pending {
    enum pending_kind kind;
    struct prepared *prepared;
};
struct connection {
    PGconn *pg;
    bool broken;
    struct prepared_set prepared;
    struct buf scratch;
    struct fault early; /* of answers that were collected while queueing */
    size_t part_end;    /* answers before it belong to the part that was sent ahead */
    bool keeps;         /* the answer of pending[keep_at] is kept */
    size_t keep_at;
    struct fault part_fault;
    PGresult *kept;
    size_t pending_count;
    struct pending pending[PENDING_MAX];
};

static struct fault break_connection(struct op *op, struct connection *connection, const char *doing)
{
    connection->broken = true;
    return store_fail_connection(op, connection->pg, doing);
}

/* poll(2) on the connection's socket until `deadline`: the events, 0 when time is up. */
static int wait_socket(const struct connection *connection, short events, mono_ns deadline)
{
    for (;;) {
        struct pollfd poller = { .fd = PQsocket(connection->pg), .events = events };
        int ready = poll(&poller, 1, clock_ms_left(deadline));
        if (ready >= 0) {
            return ready == 0 ? 0 : poller.revents;
        }
        if (errno != EINTR) {
            return POLLERR;
        }
    }
}

static struct fault connect_until(struct op *op, struct connection *connection, mono_ns deadline)
{
    for (PostgresPollingStatusType next = PGRES_POLLING_WRITING; next != PGRES_POLLING_OK;) {
        if (next == PGRES_POLLING_FAILED) {
            return break_connection(op, connection, "connect");
        }
        if (wait_socket(connection, next == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline) == 0) {
            connection->broken = true;
            return op_fail(op, FAULT(STORE_UNAVAILABLE), "the database did not accept a connection in time");
        }
        next = PQconnectPoll(connection->pg);
    }
    return OK;
}

static void drop_notice(void *arg, const PGresult *result)
{
    (void)arg;
    (void)result;
}

struct fault connection_open(struct op *op, const struct endpoint *endpoint, mono_ns deadline,
                             struct connection **ret_connection)
{
    CLEANUP(connection_closep) struct connection *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    made->scratch = (struct buf)BUF_INIT(SCRATCH_MAX);
    made->pg = PQconnectStartParams(endpoint_keys(endpoint), endpoint_values(endpoint), 0);
    REQUIRE(made->pg != NULL, NO_MEMORY);
    if (PQstatus(made->pg) == CONNECTION_BAD) {
        return break_connection(op, made, "connect");
    }
    (void)PQsetNoticeReceiver(made->pg, drop_notice, NULL);
    TRY(connect_until(op, made, deadline));
    if (PQsetnonblocking(made->pg, 1) != 0 || PQenterPipelineMode(made->pg) != 1) {
        return break_connection(op, made, "pipeline mode");
    }
    *ret_connection = TAKE(made);
    return OK;
}

void connection_close(struct connection *connection)
{
    if (connection == NULL) {
        return;
    }
    PQclear(connection->kept);
    PQfinish(connection->pg);
    prepared_clear(&connection->prepared);
    buf_free(&connection->scratch);
    mem_free(connection);
}

bool connection_alive(struct connection *connection)
{
    /* A server that ends a session says so and hangs up: the first read gives the words, the next one the end. */
    for (int reads = 0; reads < ALIVE_READS && !connection->broken; reads++) {
        struct pollfd poller = { .fd = PQsocket(connection->pg), .events = POLLIN };
        if (PQstatus(connection->pg) != CONNECTION_OK || poll(&poller, 1, 0) < 0) {
            connection->broken = true;
        } else if (poller.revents == 0) {
            return true;
        } else if (PQconsumeInput(connection->pg) != 1) {
            connection->broken = true;
        }
    }
    return !connection->broken;
}

/* libpq copies parameters at once, so the scratch buffer serves one call. Integers and booleans go as text, whose
 * conversion fits any column type; bytea goes binary. */
struct parameters {
    const char *values[ARGS_MAX];
    int lengths[ARGS_MAX], formats[ARGS_MAX];
};
static struct fault parameters_fill(struct connection *connection, const struct sql_arg *args, size_t count,
                                    struct parameters *ret_parameters)
{
    BUG_IF(count > ARGS_MAX);
    size_t need = 1;
    for (size_t i = 0; i < count; i++) {
        bool bytes = args[i].kind == SQL_ARG_TEXT || args[i].kind == SQL_ARG_BYTES;
        REQUIRE(args[i].bytes.len < SCRATCH_MAX / 2, TOO_LARGE);
        need += 32 + (bytes ? args[i].bytes.len : 0);
    }
    uint8_t *at = NULL;
    buf_clear(&connection->scratch);
    TRY(buf_reserve(&connection->scratch, need, &at));
    for (size_t i = 0; i < count; i++) {
        const struct sql_arg *arg = &args[i];
        size_t len = arg->bytes.len;
        ret_parameters->values[i] = arg->kind == SQL_ARG_NULL ? NULL : (const char *)at;
        ret_parameters->formats[i] = arg->kind == SQL_ARG_BYTES;
        switch (arg->kind) {
        case SQL_ARG_NULL:
            len = 0;
            break;
        case SQL_ARG_INT:
            len = (size_t)snprintf((char *)at, 24, "%lld", (long long)arg->number);
            break;
        case SQL_ARG_BOOL:
            len = 1;
            at[0] = arg->number != 0 ? 't' : 'f';
            break;
        case SQL_ARG_TEXT:
            REQUIRE(len == 0 || memchr(arg->bytes.at, 0, len) == NULL, BAD_ARGUMENT);
            [[fallthrough]];
        case SQL_ARG_BYTES:
            if (len > 0) {
                memcpy(at, arg->bytes.at, len);
            }
            break;
        }
        at[len] = '\0';
        ret_parameters->lengths[i] = (int)len;
        at += len + 1;
    }
    return OK;
}

static void pending_add(struct connection *connection, enum pending_kind kind, struct prepared *prepared)
{
    BUG_IF(connection->pending_count >= PENDING_MAX);
    connection->pending[connection->pending_count++] = (struct pending){ kind, prepared };
}

static struct fault send_sync(struct op *op, struct connection *connection)
{
    if (connection->pending_count == 0 || connection->pending[connection->pending_count - 1].kind == PENDING_SYNC) {
        return OK;
    }
    if (PQpipelineSync(connection->pg) != 1) {
        return break_connection(op, connection, "sync");
    }
    pending_add(connection, PENDING_SYNC, NULL);
    return OK;
}

static struct fault timed_out(struct op *op, struct connection *connection)
{
    connection->broken = true;
    return op_fail(op, FAULT(STORE_BUSY),
                   "the database did not answer within the deadline: repeat the request as it is");
}

static struct fault next_result(struct op *op, struct connection *connection, mono_ns deadline, PGresult **ret_result)
{
    while (PQisBusy(connection->pg) != 0) {
        int unsent = PQflush(connection->pg);
        short events = (short)(unsent == 1 ? POLLIN | POLLOUT : POLLIN);
        int ready = unsent < 0 ? POLLIN : wait_socket(connection, events, deadline);
        if (ready == 0) {
            return timed_out(op, connection);
        }
        if ((ready & ~POLLOUT) != 0 && PQconsumeInput(connection->pg) != 1 &&
            PQstatus(connection->pg) != CONNECTION_BAD) {
            return break_connection(op, connection, "receive");
        }
    }
    *ret_result = PQgetResult(connection->pg);
    return OK;
}

static bool result_is_good(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    return status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
}

/* One pending answer. The first bad one is noted in *first. */
static struct fault collect_one(struct op *op, struct connection *connection, const struct pending *pending,
                                mono_ns deadline, struct fault *first, PGresult **last)
{
    PGresult *result = NULL;
    TRY(next_result(op, connection, deadline, &result));
    bool good = result_is_good(result);
    if (pending->kind == PENDING_SYNC) {
        bool synced = PQresultStatus(result) == PGRES_PIPELINE_SYNC;
        PQclear(result);
        return synced ? OK : break_connection(op, connection, "pipeline out of step");
    }
    if (pending->kind == PENDING_PREPARE) {
        pending->prepared->state = good ? PREPARED_YES : PREPARED_NOT;
    }
    if (!good && !FAULTED(*first)) {
        *first = store_fail_result(op, result);
    }
    if (good && last != NULL) {
        PQclear(*last);
        *last = TAKE(result);
    }
    PQclear(result);
    if (PQstatus(connection->pg) == CONNECTION_BAD) {
        return break_connection(op, connection, "receive");
    }
    TRY(next_result(op, connection, deadline, &result)); /* the NULL that ends a statement's results */
    if (result != NULL) {
        PQclear(result);
        return break_connection(op, connection, "more than one result");
    }
    return OK;
}

static struct fault collect(struct op *op, struct connection *connection, mono_ns deadline, PGresult **ret_result)
{
    struct fault first = connection->early;
    PGresult *last = NULL;
    struct fault fault = OK;
    for (size_t i = 0; i < connection->pending_count && !FAULTED(fault); i++) {
        bool part = i < connection->part_end;
        PGresult **result = ret_result != NULL && !part ? &last : NULL;
        if (connection->keeps && i == connection->keep_at) {
            result = &connection->kept;
        }
        fault = collect_one(op, connection, &connection->pending[i], deadline, part ? &connection->part_fault : &first,
                            result);
        if (part && FAULTED(fault) && !FAULTED(connection->part_fault)) {
            connection->part_fault = fault;
        }
    }
    connection->pending_count = connection->part_end = 0;
    connection->keeps = false;
    connection->early = OK;
    if (!FAULTED(first)) {
        first = fault;
    }
    if (FAULTED(first) || ret_result == NULL) {
        PQclear(last);
        return first;
    }
    *ret_result = last;
    return OK;
}

static struct fault make_room(struct op *op, struct connection *connection, mono_ns deadline)
{
    if (connection->pending_count + 4 <= PENDING_MAX) {
        return OK;
    }
    TRY(send_sync(op, connection));
    struct fault fault = collect(op, connection, deadline, NULL);
    connection->early = fault; /* belongs to whoever finishes */
    return connection->broken ? fault : OK;
}

static struct fault send_statement(struct op *op, struct connection *connection, const struct sql *sql,
                                   const struct parameters *parameters)
{
    struct prepared *prepared = NULL;
    TRY(prepared_get(&connection->prepared, sql, &prepared));
    if (prepared->state == PREPARED_NOT) {
        if (PQsendPrepare(connection->pg, sql->name, sql->text, 0, NULL) != 1) {
            return break_connection(op, connection, "prepare");
        }
        prepared->state = PREPARED_SENT;
        pending_add(connection, PENDING_PREPARE, prepared);
    }
    if (PQsendQueryPrepared(connection->pg, sql->name, (int)sql->args, parameters->values, parameters->lengths,
                            parameters->formats, 1) != 1) {
        return break_connection(op, connection, "send");
    }
    pending_add(connection, PENDING_STATEMENT, prepared);
    return OK;
}

struct fault connection_queue(struct op *op, struct connection *connection, const struct sql *sql,
                              const struct sql_arg *args, size_t count)
{
    BUG_IF(count != sql->args);
    REQUIRE(!connection->broken, STORE_UNAVAILABLE);
    TRY(make_room(op, connection, op->deadline));
    struct parameters parameters;
    TRY(parameters_fill(connection, args, count, &parameters));
    return send_statement(op, connection, sql, &parameters);
}

struct fault connection_finish(struct op *op, struct connection *connection, mono_ns deadline, PGresult **ret_result)
{
    REQUIRE(!connection->broken, STORE_UNAVAILABLE);
    TRY(send_sync(op, connection));
    if (op != NULL) {
        op->store_waits++;
    }
    return collect(op, connection, deadline, ret_result);
}

void connection_keep(struct connection *connection)
{
    BUG_IF(connection->pending_count == 0 || connection->keeps);
    PQclear(TAKE(connection->kept));
    connection->keeps = true;
    connection->keep_at = connection->pending_count - 1;
}

struct fault connection_part(struct op *op, struct connection *connection)
{
    BUG_IF(connection->part_end != 0);
    TRY(send_sync(op, connection));
    connection->part_end = connection->pending_count;
    connection->part_fault = OK;
    return OK;
}

struct fault connection_kept(struct connection *connection, PGresult **ret_result)
{
    PGresult *kept = TAKE(connection->kept);
    struct fault fault = connection->part_fault;
    connection->part_fault = OK;
    if (FAULTED(fault)) {
        PQclear(kept);
        return fault;
    }
    *ret_result = kept;
    return OK;
}

void connection_abandon(struct connection *connection)
{
    static const struct parameters none = { 0 };
    /* Too much is queued to send a ROLLBACK behind it without waiting: hanging up rolls back as well. */
    bool room = connection->pending_count + 4 <= PENDING_MAX;
    if (connection->broken || !room || FAULTED(send_sync(NULL, connection)) ||
        FAULTED(send_statement(NULL, connection, &SQL_ROLLBACK, &none)) || FAULTED(send_sync(NULL, connection)) ||
        PQflush(connection->pg) < 0) {
        connection->broken = true;
    }
}

void connection_hang_up(struct connection *connection)
{
    connection->broken = true;
}

struct fault connection_settle(struct op *op, struct connection *connection, mono_ns deadline)
{
    REQUIRE(!connection->broken, STORE_UNAVAILABLE);
    /* What an abandoned transaction failed at concerns nobody any more, so no note is taken. */
    IGNORE(collect(NULL, connection, deadline, NULL));
    PQclear(TAKE(connection->kept));
    connection->part_fault = OK;
    if (!connection->broken && PQtransactionStatus(connection->pg) != PQTRANS_IDLE) {
        struct fault queued = connection_queue(op, connection, &SQL_ROLLBACK, NULL, 0);
        if (!FAULTED(queued)) {
            IGNORE(connection_finish(NULL, connection, deadline, NULL));
        }
    }
    if (connection->broken || PQtransactionStatus(connection->pg) != PQTRANS_IDLE) {
        connection->broken = true;
        return FAULT(STORE_UNAVAILABLE);
    }
    return OK;
}

struct fault connection_script(struct op *op, struct connection *connection, const char *text, mono_ns deadline)
{
    BUG_IF(connection->pending_count != 0);
    REQUIRE(!connection->broken, STORE_UNAVAILABLE);
    if (PQexitPipelineMode(connection->pg) != 1 || PQsendQuery(connection->pg, text) != 1) {
        return break_connection(op, connection, "script");
    }
    struct fault first = OK;
    for (;;) {
        PGresult *result = NULL;
        TRY(next_result(op, connection, deadline, &result));
        if (result == NULL) {
            break;
        }
        if (!result_is_good(result) && !FAULTED(first)) {
            first = store_fail_result(op, result);
        }
        PQclear(result);
    }
    if (PQstatus(connection->pg) != CONNECTION_OK || PQenterPipelineMode(connection->pg) != 1) {
        struct fault broken = break_connection(op, connection, "script");
        return FAULTED(first) ? first : broken;
    }
    return first;
}

struct fault connection_run(struct op *op, struct connection *connection, const struct sql *sql,
                            const struct sql_arg *args, size_t count, mono_ns deadline, struct rows **ret_rows)
{
    PGresult *result = NULL;
    TRY(connection_queue(op, connection, sql, args, count));
    TRY(connection_finish(op, connection, deadline, &result));
    if (ret_rows == NULL) {
        PQclear(result);
        return OK;
    }
    return rows_new(result, ret_rows);
}
