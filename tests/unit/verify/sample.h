/* An audit export as the exporter writes it, in pieces, so that a test can alter one piece and put them together again.
 */
#ifndef TESTS_VERIFY_SAMPLE_H
#define TESTS_VERIFY_SAMPLE_H

#include "testlib.h"

#include "api/audit/verify.h"
#include "api/projection/chain.h"
#include "appliance/base/codec.h"
#include "appliance/base/crypto.h"

#define SAMPLE_MAX 8

struct sample_entry {
    struct buf record;
    struct sha256 chain;
    size_t from, to; /* where the entry stands in the payload that was printed last */
};
struct sample {
    struct sha256 seed, head;
    int64_t count, first, last; /* as stated */
    const char *format, *tenant;
    struct sample_entry at[SAMPLE_MAX];
    size_t entries;
};

static inline void sample_record(const char *tenant, int64_t sequence, struct buf *out)
{
    static const char *const roles[] = { "operator", "ci" };
    static const char *const subjects[] = { "alice", "b\xc3\xb6rge \"}]\\" };
    struct event_view event = {
        .lane = "codesign",
        .type = sequence % 2 == 0 ? "codesign.signed" : "codesign.requested",
        .schema_version = 1,
        .time = 1795233036123456 + sequence,
        .actor_subject = subjects[sequence % 2],
        .actor_roles = roles,
        .actor_role_count = (size_t)(sequence % 3),
        .trace_id = "",
        .data = span_text(sequence % 3 == 0 ? /* a fraction takes the verifier's long way */
                              "{\"a\":[1,2.5,{\"b\":\"],\\\"tenant_id\\\":\\\"\"}],\"z\":\"\\n\"}"
                                            : "{\"a\":[1,-25,{\"b\":\"],\\\"tenant_id\\\":\\\"\"}],\"z\":\"\\n\"}"),
    };
    char id[37];
    (void)snprintf(id, sizeof(id), "00000000-0000-8000-8000-%012lld", (long long)sequence);
    assert_fault(uuid_parse(span_text(id), &event.id), NONE);
    assert_fault(tenant_id_parse(span_text(tenant), &event.tenant), NONE);
    out->max = AUDIT_RECORD_MAX;
    assert_fault(audit_record_bytes(&event, sequence, out), NONE);
}

/* What a forger does who knows how it is done: each chain value made to fit its record, and the head the last. */
static inline void sample_rechain(struct sample *sample)
{
    sample->head = sample->seed;
    for (size_t i = 0; i < sample->entries; i++) {
        assert_fault(audit_chain_next(&sample->head, buf_span(&sample->at[i].record), &sample->head), NONE);
        sample->at[i].chain = sample->head;
    }
}

/* Records first .. first + count - 1 of the tenant "acme"; the seed is the chain before them. */
static inline void sample_make(int64_t first, size_t count, struct sample *sample)
{
    *sample = (struct sample){
        .count = (int64_t)count,
        .first = count == 0 ? 0 : first,
        .last = count == 0 ? 0 : first + (int64_t)count - 1,
        .format = AUDIT_EXPORT_FORMAT1,
        .tenant = "acme",
        .entries = count,
    };
    CLEANUP(buf_free) struct buf before = { 0 };
    for (int64_t sequence = 1; sequence < first; sequence++) {
        sample_record("acme", sequence, &before);
        assert_fault(audit_chain_next(&sample->seed, buf_span(&before), &sample->seed), NONE);
    }
    for (size_t i = 0; i < count; i++) {
        sample_record("acme", first + (int64_t)i, &sample->at[i].record);
    }
    sample_rechain(sample);
}

static inline void sample_clear(struct sample *sample)
{
    for (size_t i = 0; i < SAMPLE_MAX; i++) {
        buf_free(&sample->at[i].record);
    }
}

/* Puts other bytes in the place of a record. */
static inline void sample_put(struct sample *sample, size_t i, const char *record)
{
    buf_clear(&sample->at[i].record);
    assert_fault(buf_text(&sample->at[i].record, record), NONE);
}

static inline void sample_swap(struct sample *sample, size_t a, size_t b)
{
    struct sample_entry kept = sample->at[a];
    sample->at[a] = sample->at[b];
    sample->at[b] = kept;
}

/* Entry i is gone, what is stated stays. */
static inline void sample_drop(struct sample *sample, size_t i)
{
    for (; i + 1 < sample->entries; i++) {
        sample_swap(sample, i, i + 1);
    }
    sample->entries--;
}

/* A copy of entry `from` stands before entry `to`. */
static inline void sample_insert(struct sample *sample, size_t from, size_t to)
{
    size_t end = sample->entries++;
    sample->at[end].record.max = AUDIT_RECORD_MAX;
    buf_clear(&sample->at[end].record);
    assert_fault(buf_put(&sample->at[end].record, buf_span(&sample->at[from].record)), NONE);
    sample->at[end].chain = sample->at[from].chain;
    for (; end > to; end--) {
        sample_swap(sample, end, end - 1);
    }
}

/* The members in the exporter's order and form. */
static inline void sample_print(struct sample *sample, struct buf *out)
{
    buf_clear(out);
    assert_fault(buf_text(out, "{\"chain_head\":\""), NONE);
    assert_fault(hex_encode(SPAN_ARRAY(sample->head.at), out), NONE);
    assert_fault(buf_text(out, "\",\"chain_seed\":\""), NONE);
    assert_fault(hex_encode(SPAN_ARRAY(sample->seed.at), out), NONE);
    assert_fault(buf_printf(out,
                            "\",\"count\":%lld,\"exported_at\":\"2026-11-21T03:50:36.123456Z\",\"first_sequence\":%lld,"
                            "\"format\":\"%s\",\"last_sequence\":%lld,\"records\":[",
                            (long long)sample->count, (long long)sample->first, sample->format,
                            (long long)sample->last),
                 NONE);
    for (size_t i = 0; i < sample->entries; i++) {
        struct sample_entry *entry = &sample->at[i];
        assert_fault(buf_text(out, i > 0 ? "," : ""), NONE);
        entry->from = out->len;
        assert_fault(buf_text(out, "{\"chain\":\""), NONE);
        assert_fault(hex_encode(SPAN_ARRAY(entry->chain.at), out), NONE);
        assert_fault(buf_text(out, "\",\"record\":"), NONE);
        assert_fault(buf_put(out, buf_span(&entry->record)), NONE);
        assert_fault(buf_text(out, "}"), NONE);
        entry->to = out->len;
    }
    assert_fault(buf_printf(out, "],\"tenant_id\":\"%s\"}", sample->tenant), NONE);
}

/* The sequence that belongs to the entry at this place of the payload; 0 when none stands there. */
static inline int64_t sample_sequence_at(const struct sample *sample, size_t place)
{
    for (size_t i = 0; i < sample->entries; i++) {
        if (place >= sample->at[i].from && place < sample->at[i].to) {
            return sample->first + (int64_t)i;
        }
    }
    return 0;
}

#endif
