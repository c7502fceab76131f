/* What a person, or a program, reads of an audit export's verdict. */
#include "api/cli/audit_verdict.h"

#include "api/cli/print.h"
#include "appliance/base/codec.h"

#define JSON_MAX ((size_t)1 << 20)

static void key_time(struct jout *jout, const char *key, utc_us time)
{
    if (time != 0) {
        jout_key_time(jout, key, time);
    }
}

void verdict_put(struct jout *jout, const char *file, const struct audit_verdict *verdict, struct fault fault)
{
    jout_object(jout);
    jout_key_text(jout, "file", file);
    jout_key_bool(jout, "valid", !FAULTED(fault));
    jout_key_text(jout, "code", FAULTED(fault) ? fault_row(fault.code)->text : NULL);
    jout_key_text(jout, "reason", verdict->reason[0] != '\0' ? verdict->reason : NULL);
    jout_key_text(jout, "shape", audit_shape_name(verdict->shape));
    jout_key_bool(jout, "signature_good", verdict->signature_good);
    jout_key_bool(jout, "chain_good", verdict->chain_good);
    jout_key_bool(jout, "tree_good", verdict->tree_good);
    jout_key_bool(jout, "anchor_good", verdict->anchor_good);
    jout_key_text(jout, "kid", verdict->kid);
    jout_key_text(jout, "tenant_id", verdict->tenant.text);
    jout_key_int(jout, "generation", verdict->generation);
    jout_key_int(jout, "first_sequence", verdict->first_sequence);
    jout_key_int(jout, "last_sequence", verdict->last_sequence);
    jout_key_int(jout, "records", verdict->count);
    jout_key_int(jout, "records_good", verdict->checked);
    if (verdict->broken_sequence != 0) {
        jout_key_int(jout, "broken_sequence", verdict->broken_sequence);
    }
    if (verdict->broken_line != 0) {
        jout_key_int(jout, "broken_line", verdict->broken_line);
    }
    jout_key_hex(jout, "chain_seed", SPAN_ARRAY(verdict->seed.at));
    jout_key_hex(jout, "chain_head", SPAN_ARRAY(verdict->head.at));
    jout_key_text(jout, "exported_at", verdict->exported_at);
    key_time(jout, "newest_record_at", verdict->newest_at);
    key_time(jout, "anchored_at", verdict->anchor_at);
    jout_key_text(jout, "anchored_by", verdict->anchor_signer);
    jout_key_int(jout, "bytes", verdict->bytes);
    jout_object_end(jout);
}

void verdict_show(const char *file, const struct audit_verdict *verdict)
{
    char head[2 * SHA256_LEN + 1], time[RFC3339_MAX];
    hex_text(SPAN_ARRAY(verdict->head.at), head, sizeof(head));
    (void)printf("good audit export: ");
    print_safe(stdout, span_text(file));
    (void)printf("\n  shape     %s\n  tenant    %s\n  records   %lld to %lld, each recomputed: %lld\n  head      %s\n"
                 "  tree      %s\n  exported  %s, generation %lld of the history\n  signed by %s\n",
                 audit_shape_name(verdict->shape), verdict->tenant.text, (long long)verdict->first_sequence,
                 (long long)verdict->last_sequence, (long long)verdict->checked, head,
                 verdict->tree_good ? "root recomputed" : "not recomputed: that takes the records from 1 on",
                 verdict->exported_at, (long long)verdict->generation,
                 verdict->kid != NULL ? verdict->kid : "(not judged: no keys were given)");
    if (!verdict->anchor_good) {
        (void)printf("  anchored  no\n");
        return;
    }
    rfc3339_print(verdict->anchor_at, time);
    (void)printf("  anchored  %s by ", time);
    print_safe(stdout, span_text(verdict->anchor_signer != NULL ? verdict->anchor_signer : "(unnamed)"));
    (void)printf("\n");
}

void verdict_refuse(const char *file, const struct audit_verdict *verdict, struct fault fault)
{
    const struct fault_row *row = fault_row(fault.code);
    CLEANUP(buf_free) struct buf line = BUF_INIT(2048);
    IGNORE(buf_printf(&line, "svc-cli: %s: %s: %s: %s\n", row->text, file, row->title, verdict->reason));
    print_safe(stderr, span_of(line.at, line.len > 0 ? line.len - 1 : 0));
    (void)fputc('\n', stderr);
    if (verdict->broken_sequence != 0) {
        hint("the first record that does not hold is sequence %lld; %lld before it do",
             (long long)verdict->broken_sequence, (long long)verdict->checked);
    }
    if (fault.code == FAULT_AUDIT_PINS) {
        hint("--audit-jwks FILE: pinned verification keys; --tsa-root PEM: pinned root of the time-stamping authority");
    }
    if (verdict->broken_sequence != 0 && verdict->shape == AUDIT_JWS) {
        hint(verdict->signature_good ? "the signature is good: whoever holds the key signed it so"
                                     : "the signature does not hold either: it was altered after it was signed");
    }
}

struct fault comparison_put(const char *const files[2], const struct audit_comparison *comparison, struct fault fault,
                            int refused)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(JSON_MAX);
    struct jout jout;
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key_text(&jout, "relation", FAULTED(fault) ? NULL : audit_relation_name(comparison->relation));
    jout_key_text(&jout, "code", FAULTED(fault) ? fault_row(fault.code)->text : NULL);
    jout_key_text(&jout, "explanation", comparison->explanation[0] != '\0' ? comparison->explanation : NULL);
    if (comparison->common_first != 0) {
        jout_key_int(&jout, "agree_from", comparison->common_first);
        jout_key_int(&jout, "agree_to", comparison->common_last);
    }
    if (comparison->parts_at != 0) {
        jout_key_int(&jout, "parts_at", comparison->parts_at);
        jout_key_bool(&jout, "may_part_before", comparison->earlier);
        jout_key(&jout, "chains");
        jout_array(&jout);
        jout_hex(&jout, SPAN_ARRAY(comparison->chains[0].at));
        jout_hex(&jout, SPAN_ARRAY(comparison->chains[1].at));
        jout_array_end(&jout);
    }
    jout_key(&jout, "exports");
    jout_array(&jout);
    for (int i = 0; i < 2; i++) {
        verdict_put(&jout, files[i], &comparison->verdicts[i], refused == i ? fault : OK);
    }
    jout_array_end(&jout);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    print_json(buf_span(&out));
    return OK;
}

void comparison_show(const char *const files[2], const struct audit_comparison *comparison)
{
    (void)printf("%s: %s\n", audit_relation_name(comparison->relation), comparison->explanation);
    for (int i = 0; i < 2; i++) {
        const struct audit_verdict *verdict = &comparison->verdicts[i];
        char chain[2 * SHA256_LEN + 1];
        bool parts = comparison->parts_at != 0;
        const struct sha256 *shown = parts ? &comparison->chains[i] : &verdict->head;
        hex_text(SPAN_ARRAY(shown->at), chain, sizeof(chain));
        (void)printf("  ");
        print_safe(stdout, span_text(files[i]));
        (void)printf(": records %lld to %lld, generation %lld\n    %s %s\n", (long long)verdict->first_sequence,
                     (long long)verdict->last_sequence, (long long)verdict->generation, parts ? "chain there" : "head",
                     chain);
    }
}
