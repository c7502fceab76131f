/*
 * Sums that many events of a batch add to. One row that every event of a busy key wrote would be written thousands of
 * times a second, each time anew; so the batch adds up in memory, and writes each sum once, in its own transaction.
 */
#include "api/projection/internal.h"

#include <stdio.h>

static struct fault write_tally(struct projection *projection, const struct tally *tally)
{
    const struct sql_arg args[] = { SQL_TEXT(tally->tenant.text), SQL_TEXT(tally->key), SQL_INT(tally->sum),
                                    SQL_INT(tally->last) };
    TRY(tx_set_tenant(projection->tx, tally->tenant));
    return tx_queue(projection->tx, tally->sql, args, COUNT_OF(args));
}

struct fault projection_tallies_write(struct projection *projection)
{
    for (size_t i = 0; i < projection->tally_count; i++) {
        TRY(write_tally(projection, &projection->tallies[i]));
    }
    projection->tally_count = 0;
    return OK;
}

static struct tally *find(struct projection *projection, const struct sql *sql, const char *key)
{
    for (size_t i = projection->tally_count; i-- > 0;) {
        struct tally *tally = &projection->tallies[i];
        if (tally->sql == sql && strcmp(tally->key, key) == 0 &&
            tenant_id_equal(tally->tenant, projection->event->tenant)) {
            return tally;
        }
    }
    return NULL;
}

struct fault projection_tally(struct projection *projection, const struct sql *sql, const char *key, int64_t by)
{
    const struct event_view *event = projection->event;
    BUG_IF(sql->args != 4);
    REQUIRE(strlen(key) <= TALLY_KEY_MAX, BAD_ARGUMENT);
    struct tally *tally = find(projection, sql, key);
    if (tally == NULL && projection->tally_count == TALLIES_MAX) {
        TRY(projection_tallies_write(projection));
        TRY(tx_set_tenant(projection->tx, event->tenant)); /* the event is not yet applied to its end */
    }
    if (tally == NULL) {
        tally = &projection->tallies[projection->tally_count++];
        *tally = (struct tally){ .tenant = event->tenant, .sql = sql };
        (void)snprintf(tally->key, sizeof(tally->key), "%s", key);
    }
    tally->sum += by;
    tally->last = event->time > tally->last ? event->time : tally->last;
    return OK;
}
