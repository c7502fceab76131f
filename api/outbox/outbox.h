/*
 * The outbox: rows that the projector queued, leased by a worker thread, handled outside any transaction, settled by the
 * next event. At least once: a handler must be safe to run again with the same key. Rotates over tenants and
 * destinations with caps for each.
 */
#ifndef API_OUTBOX_OUTBOX_H
#define API_OUTBOX_OUTBOX_H

#include "api/projection/projection.h"

struct outbox;
struct services;

struct outbox_item {
    const char *key;
    struct span payload; /* canonical JSON */
    unsigned attempt;    /* 1 = first */
    bool last_attempt;   /* a failure now dead-letters the row: record the terminal fact first */
    uint64_t id;
};
/* Runs for op's tenant with op's deadline. OK: the handler has appended the event whose projection settles the row. A
 * fault with retry class LATER (or DEADLINE): tried again with backoff until `attempts`; any other, or the last: the
 * handler has appended its failure event, and the row is dead-lettered. */
typedef struct fault (*outbox_fn)(struct op *op, struct services *services, const struct outbox_item *item);

struct outbox_row {
    const char *destination; /* "codesign.command" */
    outbox_fn handler;
    int deadline_ms;
    unsigned attempts;
    unsigned cap_tenant, cap_destination; /* in flight */
    const char *doc;
};

struct outbox_config {
    struct store *store;
    struct services *services;
    const struct outbox_row *const *tables;
    const size_t *counts;
    size_t table_count;
    unsigned threads;
};
struct fault outbox_start(const struct outbox_config *config, struct outbox **ret_outbox);
void outbox_wake(struct outbox *outbox); /* rows may be due */
void outbox_stop(struct outbox *outbox); /* no new leases, waits for handlers, one final sweep is the caller's choice */

#endif
