#include "api/compliance/sample_internal.h"

#define SAMPLE_FORMAT "svc.compliance.population-sample.v1"

static void put_window(struct jout *jout, const struct load_counts *counts)
{
    jout_key(jout, "evidence_window");
    jout_object(jout);
    jout_key_int(jout, "days", EVIDENCE_WINDOW_DAYS);
    jout_key_time(jout, "from", counts->window.from);
    jout_key_time(jout, "to", counts->window.to);
    jout_object_end(jout);
}

static void put_population(struct jout *jout, const struct sample *sample)
{
    const struct framework_prerequisite *prerequisite = sample->wish->prerequisite;
    jout_key(jout, "population");
    jout_object(jout);
    jout_key_int(jout, "first_sequence", sample->population.first);
    jout_key_int(jout, "last_sequence", sample->population.last);
    jout_key_text(
        jout, "query",
        prerequisite != NULL
            ? "audit records of the tenant of these types, evidence_window.from <= time <= evidence_window.to, "
              "archived_through < sequence <= head_sequence; ranked from 1 by time, then sequence"
            : "audit records of the tenant, evidence_window.from <= time <= evidence_window.to, "
              "archived_through < sequence <= head_sequence; ranked from 1 by time, then sequence");
    jout_key_int(jout, "total", sample->population.count);
    if (prerequisite != NULL) {
        jout_key(jout, "types");
        jout_array(jout);
        for (size_t i = 0; i < prerequisite->type_count; i++) {
            jout_text(jout, prerequisite->types[i]);
        }
        jout_array_end(jout);
    }
    jout_object_end(jout);
}

static void put_head(struct jout *jout, const struct op *op, const struct sample *sample)
{
    const struct sample_wish *wish = sample->wish;
    jout_key_text(jout, "format", SAMPLE_FORMAT);
    jout_key_text(jout, "tenant_id", op->tenant.text);
    jout_key_text(jout, "framework", wish->framework->id);
    jout_key_text(jout, "control", wish->control != NULL ? wish->control->id : NULL);
    jout_key_text(jout, "prerequisite", wish->prerequisite != NULL ? wish->prerequisite->name : NULL);
    put_window(jout, &sample->counts);
    put_population(jout, sample);
    jout_key(jout, "audit");
    jout_object(jout);
    jout_key_int(jout, "archived_through", sample->trail.archived_through);
    jout_key_int(jout, "generation", sample->trail.generation);
    jout_key_int(jout, "head_sequence", sample->counts.through);
    jout_object_end(jout);
    jout_key_text(jout, "algorithm", SAMPLE_ALGORITHM);
    jout_key_text(jout, "seed", wish->seed);
    jout_key(jout, "ranks");
    jout_array(jout);
    for (size_t i = 0; i < sample->n; i++) {
        jout_int(jout, sample->ranks[i]);
    }
    jout_array_end(jout);
}

static void put_record(struct jout *jout, int64_t rank, const struct evidence_event *event)
{
    jout_object(jout);
    jout_key_int(jout, "rank", rank);
    jout_key(jout, "reference");
    jout_object(jout);
    jout_key_hex(jout, "chain", SPAN_ARRAY(event->chain.at));
    jout_key_text(jout, "event_id", event->event_id);
    jout_key_time(jout, "observed_at", event->time);
    jout_key_int(jout, "sequence", event->sequence);
    jout_key_text(jout, "type", event->type);
    jout_object_end(jout);
    jout_key_raw(jout, "record", event->record);
    jout_object_end(jout);
}

/* Record by record: none but the one at hand is in memory besides the answer. */
static struct fault put_records(struct tx *tx, const struct sample *sample, struct jout *jout)
{
    jout_key(jout, "records");
    jout_array(jout);
    for (size_t i = 0; i < sample->n; i++) {
        CLEANUP(rows_freep) struct rows *rows = NULL;
        struct evidence_event event;
        TRY(load_one(tx, sample->sequences[i], &rows));
        TRY(load_event(rows, 0, &event));
        put_record(jout, sample->ranks[i], &event);
    }
    jout_array_end(jout);
    return OK;
}

struct fault sample_print(struct op *op, struct tx *tx, const struct sample *sample, struct jout *jout)
{
    put_head(jout, op, sample);
    return put_records(tx, sample, jout);
}
