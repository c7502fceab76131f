/* What a report says: an evidence pack, or one part of the evidence, signed by the same key. */
#include "api/compliance/schedules.h"

#include "api/compliance/verify.h"
#include "appliance/base/json_view.h"

#define READ_MAX (4 * REPORT_DOCUMENT_MAX)
#define NOTICE   "This report states what was recorded and observed. It makes no claim of compliance or certification."

/* ---- an evidence pack ---- */

static struct fault time_of(struct op *op, struct view window, const char *name, utc_us *ret_time)
{
    const char *text = view_member(op, window, name);
    REQUIRE(text != NULL, INTERNAL);
    return rfc3339_parse(span_text(text), ret_time);
}

static struct fault make_pack(struct op *op, struct services *services, const struct schedule *schedule,
                              struct buf *document, struct report_window *ret_window)
{
    CLEANUP(arena_freep) struct arena *arena = NULL;
    struct op scratch = { .tenant = op->tenant, .deadline = op->deadline };
    struct sha256 digest;
    struct view pack;
    TRY(pack_make(op, services, schedule->definition.framework, document, &digest));
    TRY(arena_new(READ_MAX, &arena));
    scratch.arena = arena;
    TRY(view_of(&scratch, buf_span(document), &pack));
    struct view window = view_get(pack, "signed_export.manifest.evidence_window");
    TRY(time_of(&scratch, window, "from", &ret_window->from));
    return time_of(&scratch, window, "to", &ret_window->to);
}

/* ---- our own ---- */

static void put_schedule(const struct schedule *schedule, struct jout *jout)
{
    jout_key(jout, "schedule");
    jout_object(jout);
    jout_key_text(jout, "framework", schedule->definition.framework);
    jout_key_text(jout, "name", schedule->definition.name);
    jout_key_text(jout, "recipient_ref", schedule->definition.recipient_ref);
    jout_key_text(jout, "schedule_id", schedule->id.text);
    jout_key_int(jout, "version", schedule->version);
    jout_object_end(jout);
}

static void put_audit(const struct evidence *evidence, struct jout *jout)
{
    jout_key(jout, "audit");
    jout_object(jout);
    jout_key_int(jout, "archived_through", evidence->archived_through);
    jout_key_hex(jout, "chain_head", SPAN_ARRAY(evidence->chain_head.at));
    jout_key_int(jout, "generation", evidence->generation);
    jout_key_int(jout, "head_sequence", evidence->head_sequence);
    jout_object_end(jout);
}

static void put_population(const struct evidence *evidence, struct jout *jout)
{
    jout_key(jout, "population");
    jout_object(jout);
    jout_key_int(jout, "archived_in_window", evidence->archived_total);
    jout_key(jout, "by_type");
    jout_array(jout);
    for (size_t i = 0; i < evidence->type_count; i++) {
        jout_object(jout);
        jout_key_int(jout, "count", evidence->types[i].count);
        jout_key_text(jout, "type", evidence->types[i].type);
        jout_object_end(jout);
    }
    jout_array_end(jout);
    jout_key_int(jout, "first_sequence", evidence->window_first);
    jout_key_int(jout, "last_sequence", evidence->window_last);
    jout_key_int(jout, "outside_window", evidence->outside_total);
    jout_key_text(jout, "query", "every record of the served trail of this tenant whose time lies in the window");
    jout_key_int(jout, "total", evidence->window_total);
    jout_object_end(jout);
}

static struct fault put_body(enum report_type type, const struct evidence *evidence, struct jout *jout)
{
    switch (type) {
    case REPORT_INVENTORY_SNAPSHOT:
        jout_key_raw(jout, "adcs", evidence->adcs);
        jout_key_raw(jout, "custody", evidence->custody);
        jout_key_raw(jout, "inventory_counts", evidence->counts);
        return OK;
    case REPORT_CBOM_POSTURE:
        jout_key_raw(jout, "cbom", evidence->cbom);
        jout_key_raw(jout, "crypto_readiness", evidence->readiness);
        return OK;
    case REPORT_AUDIT_SUMMARY:
        put_population(evidence, jout);
        return OK;
    case REPORT_EVIDENCE_PACK:
    case REPORT_TYPE_COUNT:
        break;
    }
    return FAULT(INTERNAL);
}

static struct fault print_manifest(const struct op *op, const struct schedule *schedule,
                                   const struct evidence *evidence, utc_us generated, struct buf *canonical)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(REPORT_DOCUMENT_MAX);
    struct jout jout;
    jout_init(&jout, &json);
    jout_object(&jout);
    jout_key_text(&jout, "format", EVIDENCE_REPORT_FORMAT);
    jout_key_time(&jout, "generated_at", generated);
    jout_key_text(&jout, "notice", NOTICE);
    jout_key_text(&jout, "report_type", report_type_text(schedule->definition.type));
    jout_key_text(&jout, "tenant_id", op->tenant.text);
    jout_key(&jout, "window");
    jout_object(&jout);
    jout_key_int(&jout, "days", EVIDENCE_WINDOW_DAYS);
    jout_key_time(&jout, "from", evidence->facts.window.from);
    jout_key_time(&jout, "to", evidence->facts.window.to);
    jout_object_end(&jout);
    put_schedule(schedule, &jout);
    put_audit(evidence, &jout);
    TRY(put_body(schedule->definition.type, evidence, &jout));
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return json_canonical(buf_span(&json), canonical);
}

static struct fault print_document(enum report_type type, const struct managed_key *key, struct span manifest,
                                   const struct buf *jws, struct buf *document)
{
    struct sha256 digest;
    struct jout jout;
    char kid[44];
    TRY(jwk_kid(key->spki, kid));
    TRY(sha256_of(manifest, &digest));
    jout_init(&jout, document);
    jout_object(&jout);
    jout_key_text(&jout, "format", EVIDENCE_REPORT_FORMAT);
    jout_key_text(&jout, "report_type", report_type_text(type));
    jout_key(&jout, "signed_export");
    jout_object(&jout);
    jout_key_raw(&jout, "manifest", manifest);
    jout_key_hex(&jout, "manifest_sha256", SPAN_ARRAY(digest.at));
    jout_key_text(&jout, "algorithm", EVIDENCE_JWS_ALG);
    jout_key_text(&jout, "key_id", kid);
    jout_key(&jout, "jws");
    jout_span_text(&jout, buf_span(jws));
    jout_object_end(&jout);
    jout_key_base64(&jout, "public_key_der", key->spki);
    jout_object_end(&jout);
    return jout_end(&jout);
}

static struct fault make_own(struct op *op, struct services *services, const struct schedule *schedule,
                             struct buf *document, struct report_window *ret_window)
{
    CLEANUP(buf_free) struct buf manifest = BUF_INIT(REPORT_DOCUMENT_MAX), jws = BUF_INIT(REPORT_DOCUMENT_MAX);
    struct evidence evidence = { 0 };
    struct managed_key key;
    TRY(pack_key(op, services, &key)); /* first: making it is an event of its own */
    TRY(evidence_load(op, services, NULL, clock_utc(), &evidence));
    /* The key's times are by the clock of whoever activated it. */
    utc_us generated = evidence.now > key.activated ? evidence.now : key.activated;
    TRY(print_manifest(op, schedule, &evidence, generated, &manifest));
    TRY(pack_sign(op, services, &key, EVIDENCE_REPORT_TYP, buf_span(&manifest), &jws));
    *ret_window = (struct report_window){ evidence.facts.window.from, evidence.facts.window.to };
    return print_document(schedule->definition.type, &key, buf_span(&manifest), &jws, document);
}

struct fault report_document_make(struct op *op, struct services *services, const struct schedule *schedule,
                                  struct buf *document, struct report_window *ret_window)
{
    return schedule->definition.type == REPORT_EVIDENCE_PACK ? make_pack(op, services, schedule, document, ret_window)
                                                             : make_own(op, services, schedule, document, ret_window);
}
