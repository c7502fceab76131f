/* Who gets how many of the free workers: one row for each pair in turn, within the caps. */
#include "api/outbox/internal.h"

#define RETRY_FIRST_US (250000)
#define RETRY_MOST_US  (60 * US_PER_S)

#define SPARES 8u /* one thread in so many is kept from a destination that would take them all */

void share_caps(struct outbox *outbox)
{
    const struct outbox_config *config = &outbox->config;
    unsigned spare = config->threads / SPARES;
    unsigned destination = config->outbound ? config->threads - spare : 0;
    /* Outbound, less: or one tenant would fill a destination. Otherwise a thread is free again soon. */
    unsigned tenant = config->outbound ? destination - spare : config->threads - 1;
    outbox->tenant_most = config->cap_tenant > 0 ? config->cap_tenant : tenant;
    outbox->lone_takes_all = !config->outbound && config->cap_tenant == 0;
    outbox->destination_most = config->cap_destination > 0 ? config->cap_destination : destination;
}

static bool same_pair(const struct pair *pair, const struct outbox_row *row, struct tenant_id tenant)
{
    return pair->row == row && tenant_id_equal(pair->tenant, tenant);
}

struct pair *flight_of(struct outbox *outbox, const struct outbox_row *row, struct tenant_id tenant)
{
    struct pair *vacant = NULL;
    for (size_t i = 0; i < OUTBOX_THREADS_MAX; i++) {
        struct pair *flight = &outbox->flights[i];
        if (flight->count > 0 && same_pair(flight, row, tenant)) {
            return flight;
        }
        if (flight->count == 0 && vacant == NULL) {
            vacant = flight;
        }
    }
    BUG_IF(vacant == NULL); /* no more flights than threads */
    *vacant = (struct pair){ .row = row, .tenant = tenant };
    return vacant;
}

static unsigned in_flight(const struct outbox *outbox, const struct outbox_row *row, const struct tenant_id *tenant)
{
    unsigned sum = 0;
    for (size_t i = 0; i < OUTBOX_THREADS_MAX; i++) {
        const struct pair *flight = &outbox->flights[i];
        bool counts = flight->count > 0 && flight->row == row;
        sum += counts && (tenant == NULL || tenant_id_equal(flight->tenant, *tenant)) ? flight->count : 0;
    }
    return sum;
}

static unsigned given(const struct pair *pairs, size_t count, const struct outbox_row *row)
{
    unsigned sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += pairs[i].row == row ? pairs[i].count : 0;
    }
    return sum;
}

/* In flight and given now, whatever the destination. */
static unsigned of_tenant(const struct outbox *outbox, const struct pair *pairs, size_t count,
                          const struct tenant_id *tenant)
{
    unsigned sum = 0;
    for (size_t i = 0; i < OUTBOX_THREADS_MAX; i++) {
        const struct pair *flight = &outbox->flights[i];
        sum += flight->count > 0 && tenant_id_equal(flight->tenant, *tenant) ? flight->count : 0;
    }
    for (size_t i = 0; i < count; i++) {
        sum += tenant_id_equal(pairs[i].tenant, *tenant) ? pairs[i].count : 0;
    }
    return sum;
}

static bool is_alone(const struct pair *pairs, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (!tenant_id_equal(pairs[i].tenant, pairs[0].tenant)) {
            return false;
        }
    }
    return true;
}

static bool fits(const struct outbox *outbox, const struct pair *pairs, size_t count, const struct pair *pair,
                 unsigned tenant_most)
{
    const struct outbox_row *row = pair->row;
    unsigned tenant = in_flight(outbox, row, &pair->tenant) + pair->count;
    unsigned destination = in_flight(outbox, row, NULL) + given(pairs, count, row);
    return (row->cap_tenant == 0 || tenant < row->cap_tenant) &&
           (row->cap_destination == 0 || destination < row->cap_destination) &&
           (outbox->destination_most == 0 || destination < outbox->destination_most) &&
           (tenant_most == 0 || of_tenant(outbox, pairs, count, &pair->tenant) < tenant_most);
}

void share_out(const struct outbox *outbox, unsigned capacity, struct pair *pairs, size_t *count)
{
    for (size_t i = 0; i < *count; i++) {
        pairs[i].count = 0;
    }
    unsigned tenant_most = outbox->lone_takes_all && is_alone(pairs, *count) ? 0 : outbox->tenant_most;
    bool any = true;
    while (capacity > 0 && any) {
        any = false;
        for (size_t i = 0; i < *count && capacity > 0; i++) {
            if (fits(outbox, pairs, *count, &pairs[i], tenant_most)) {
                pairs[i].count++;
                capacity--;
                any = true;
            }
        }
    }
    size_t kept = 0;
    for (size_t i = 0; i < *count; i++) {
        if (pairs[i].count > 0) {
            pairs[kept++] = pairs[i];
        }
    }
    *count = kept;
}

int64_t retry_delay_us(int64_t attempt)
{
    int64_t delay = RETRY_FIRST_US;
    for (int64_t i = 1; i < attempt && delay < RETRY_MOST_US; i++) {
        delay *= 2;
    }
    return delay < RETRY_MOST_US ? delay : RETRY_MOST_US;
}
