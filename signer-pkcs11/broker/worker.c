#include "signer-pkcs11/broker/broker_internal.h"

#include "appliance/base/alloc.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#define SESSION_WAIT_MS 10000

static void ring(struct broker *broker)
{
    const uint64_t one = 1;
    /* It only fails when the bell has been rung 2^64 - 1 times unheard. */
    BUG_IF(write(broker->bell, &one, sizeof(one)) != (ssize_t)sizeof(one));
}

struct fault workers_ask(struct broker *broker, struct connection *connection)
{
    struct fault fault = line_push(&broker->line, connection);
    if (FAULTED(fault)) {
        return op_fail(connection->op, fault, "the signer's queue is full: repeat the request");
    }
    ring(broker);
    return OK;
}

static void run(struct worker *worker, struct connection *connection)
{
    bool later = false;
    struct fault fault = connection_run(connection, worker->session, &later);
    if (!later) {
        connection_answer(connection, fault, &worker->frame);
    }
}

static void run_line(struct worker *worker)
{
    struct line *line = &worker->broker->line;
    for (struct connection *c = line_pop(line); c != NULL; c = line_pop(line)) {
        if (op_expired(c->op)) {
            connection_answer_late(c, &worker->frame);
        } else {
            run(worker, c);
        }
    }
}

/* The next connection with input, or NULL when the bell rang. */
static struct connection *await_input(struct broker *broker)
{
    struct epoll_event event = { .data.ptr = NULL };
    atomic_fetch_add(&broker->listening, 1);
    int count = epoll_wait(broker->epoll, &event, 1, -1);
    atomic_fetch_sub(&broker->listening, 1);
    BUG_IF(count < 0 && errno != EINTR);
    return count == 1 ? event.data.ptr : NULL;
}

static void *worker_main(void *arg)
{
    struct worker *worker = arg;
    struct broker *broker = worker->broker;
    (void)pthread_setname_np(pthread_self(), "worker");
    for (;;) {
        struct connection *connection = await_input(broker);
        if (connection != NULL) {
            if (connection_own(connection) && connection_request(connection, &worker->frame)) {
                run(worker, connection);
            }
        } else if (atomic_load(&broker->ended)) {
            return NULL; /* and leaves the bell ringing for the others */
        } else {
            uint64_t rung = 0;
            ssize_t got = read(broker->bell, &rung, sizeof(rung)); /* before the line is looked at */
            BUG_IF(got < 0 && errno != EAGAIN && errno != EINTR);
        }
        run_line(worker);
    }
}

static struct fault worker_start(struct broker *broker, struct worker *worker)
{
    CLEANUP(op_freep) struct op *op = NULL;
    worker->broker = broker;
    worker->frame = (struct buf)BUF_INIT(FRAME_HEADER + FRAME_MAX);
    TRY(op_new("svc-signer", (struct tenant_id){ 0 }, SESSION_WAIT_MS, &op));
    TRY(token_session_take(op, broker->parts.token, &worker->session));
    REQUIRE(pthread_create(&worker->thread, NULL, worker_main, worker) == 0, NO_MEMORY);
    worker->runs = true;
    return OK;
}

struct fault workers_start(struct broker *broker)
{
    unsigned count = (unsigned)broker->parts.config->signer_sessions;
    TRY(mem_new(count, sizeof(*broker->workers), &broker->workers));
    broker->worker_count = count;
    for (unsigned i = 0; i < count; i++) {
        TRY(worker_start(broker, &broker->workers[i]));
    }
    return OK;
}

void workers_stop(struct broker *broker)
{
    atomic_store(&broker->ended, true);
    ring(broker);
    for (unsigned i = 0; i < broker->worker_count; i++) {
        struct worker *worker = &broker->workers[i];
        BUG_IF(worker->runs && pthread_join(worker->thread, NULL) != 0);
        token_session_put(worker->session);
        buf_free(&worker->frame);
    }
    mem_free(TAKE(broker->workers));
    broker->worker_count = 0;
}
