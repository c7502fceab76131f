#include "api/tsa/clock_watch.h"

#include "appliance/base/json.h"

#include <stdio.h>

bool clock_changes_note(struct clock_changes *changes, const struct clock_state *state, utc_us at)
{
    bool trusted = state->reason == CLOCK_TRUSTED;
    bool starting = state->reason == CLOCK_STARTING && !changes->known; /* not a state yet */
    if (starting || (changes->known && changes->trusted == trusted)) {
        return false;
    }
    changes->known = true;
    changes->trusted = trusted;
    if (changes->count == CLOCK_CHANGES_MAX) {
        changes->count--; /* the opposite of this one */
        return true;
    }
    changes->waiting[changes->count++] = (struct clock_change){ .number = changes->next++, .state = *state, .at = at };
    return true;
}

void clock_changes_sent(struct clock_changes *changes, uint64_t number)
{
    if (changes->count == 0 || changes->waiting[0].number != number) {
        return;
    }
    changes->count--;
    memmove(&changes->waiting[0], &changes->waiting[1], changes->count * sizeof(changes->waiting[0]));
}

static struct fault describe(struct uuid instance, const struct clock_change *change, struct buf *out)
{
    const struct clock_state *state = &change->state;
    struct jout json;
    jout_init(&json, out);
    jout_object(&json);
    jout_key_text(&json, "instance", instance.text);
    jout_key_text(&json, "reason", clock_reason_text(state->reason));
    jout_key_time(&json, "since", change->at);
    jout_key_bool(&json, "trusts_host", state->trusts_host);
    jout_key_bool(&json, "kernel_synchronised", state->kernel_synchronised);
    jout_key_int(&json, "servers", state->servers);
    jout_key_int(&json, "servers_agreed", state->agreed);
    if (state->bound_us >= 0) {
        jout_key_int(&json, "max_error_us", state->bound_us);
    }
    if (state->offset_known) {
        jout_key_int(&json, "offset_us", state->offset_us);
    }
    jout_object_end(&json);
    return jout_end(&json);
}

struct fault clock_changes_send(struct op *op, struct event_log *log, struct uuid instance,
                                const struct clock_change *change)
{
    char number[24];
    uint64_t sequence = 0;
    CLEANUP(buf_free) struct buf data = BUF_INIT(1024);
    TRY(describe(instance, change, &data));
    (void)snprintf(number, sizeof(number), "%llu", (unsigned long long)change->number);
    struct event event = {
        .type = change->state.reason == CLOCK_TRUSTED ? "tsa.clock.trusted" : "tsa.clock.lost",
        .schema_version = 1,
        .data = buf_span(&data),
    };
    struct event_append append = { .lane = "tsa-clock", .events = &event, .count = 1 };
    const struct span parts[] = { span_text(instance.text), span_text(number) };
    TRY(uuid_derive("tsa.clock", parts, COUNT_OF(parts), &append.message_id));
    return events_append(op, log, &append, &sequence);
}
