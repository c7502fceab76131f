#include "api/audit/verify_internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/crypto.h"

#include <stdarg.h>
#include <stdio.h>

#define OP_LIMIT_MS   (24 * 3600 * 1000)
#define SCRATCH_MAX   ((size_t)64 << 20)
#define PROGRESS_STEP ((int64_t)4 << 20)

struct fault audit_verify_op(size_t size, struct op **ret_op)
{
    CLEANUP(op_freep) struct op *op = NULL;
    TRY(op_new("offline", (struct tenant_id){ 0 }, OP_LIMIT_MS, &op));
    struct arena *arena = NULL;
    TRY(arena_new(size * 2 + SCRATCH_MAX, &arena));
    arena_free(op->arena);
    op->arena = arena;
    *ret_op = TAKE(op);
    return OK;
}

static void say(struct audit_verdict *verdict, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
static void say(struct audit_verdict *verdict, const char *format, va_list args)
{
    if (verdict->reason[0] == '\0') {
        (void)vsnprintf(verdict->reason, sizeof(verdict->reason), format, args);
    }
}

struct fault walk_refuse(struct audit_walk *walk, struct fault fault, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(&walk->verdict, format, args);
    va_end(args);
    return fault;
}

struct fault walk_break(struct audit_walk *walk, struct fault fault, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(&walk->verdict, format, args);
    va_end(args);
    walk->verdict.broken_sequence = walk->next;
    walk->verdict.broken_line = walk->line;
    return fault;
}

/* ---- sources ---- */

static struct fault read_memory(void *context, uint8_t *at, size_t size, size_t *ret_len)
{
    struct span *left = context;
    size_t len = size < left->len ? size : left->len;
    if (len > 0) {
        memcpy(at, left->at, len);
    }
    *left = span_of(left->at + len, left->len - len);
    *ret_len = len;
    return OK;
}

struct audit_source audit_source_of(struct span *left)
{
    return (struct audit_source){ .read = read_memory, .context = left };
}

static struct fault read_source(void *context, uint8_t *at, size_t size, size_t *ret_len)
{
    struct audit_walk *walk = context;
    TRY(walk->source.read(walk->source.context, at, size, ret_len));
    walk->verdict.bytes += (int64_t)*ret_len;
    if (walk->source.progress != NULL && walk->verdict.bytes >= walk->told + PROGRESS_STEP) {
        walk->source.progress(walk->source.context, walk->verdict.bytes, walk->verdict.checked);
        walk->told = walk->verdict.bytes;
    }
    return OK;
}

/* ---- the walk ---- */

void audit_walk_free(struct audit_walk *walk)
{
    if (walk == NULL) {
        return;
    }
    window_free(&walk->input);
    window_free(&walk->payload);
    buf_free(&walk->canonical);
    buf_free(&walk->rendered);
    buf_free(&walk->first_record);
    buf_free(&walk->head);
    jws_stream_free(walk->signature);
    EVP_MD_CTX_free(walk->stream_md);
    op_free(walk->scratch);
    mem_free(walk);
}

/* By the first bytes: no shape begins like another. */
static bool shape_of(struct span bytes, enum audit_shape *ret_shape)
{
    static const struct {
        const char *text;
        enum audit_shape shape;
    } beginnings[] = {
        { "{\"chain\":", AUDIT_NDJSON }, { "{\"trailer\":", AUDIT_NDJSON },
        { "CEF:", AUDIT_CEF },           { "sequence,", AUDIT_CSV },
        { "{\"", AUDIT_OCSF },           { "eyJ", AUDIT_JWS },
    };
    for (size_t i = 0; i < COUNT_OF(beginnings); i++) {
        size_t len = strlen(beginnings[i].text);
        if (bytes.len >= len && memcmp(bytes.at, beginnings[i].text, len) == 0) {
            *ret_shape = beginnings[i].shape;
            return true;
        }
    }
    return false;
}

static struct fault check_pins(struct audit_walk *walk)
{
    const struct audit_pins *pins = walk->pins;
    bool keys = pins->keys != NULL, roots = pins->tsa_roots.len > 0;
    if (walk->shape == AUDIT_JWS && !keys) {
        return walk_refuse(walk, FAULT(AUDIT_PINS), "a JWS bundle is judged by pinned keys: give the JWK set");
    }
    if (!keys && !roots) {
        return walk_refuse(walk, FAULT(AUDIT_PINS),
                           "a record stream is judged by pinned keys, a pinned time-stamping root, or both: neither "
                           "was given");
    }
    if (pins->max_anchor_delay_us > 0 && !roots) {
        return walk_refuse(walk, FAULT(AUDIT_PINS),
                           "the longest anchor delay is judged by a time stamp: give the root");
    }
    return OK;
}

static struct fault begin(struct audit_walk *walk)
{
    bool more = true;
    while (more && window_rest(&walk->input).len < 16) {
        TRY(window_more(&walk->input, &more));
    }
    if (window_rest(&walk->input).len == 0) {
        return walk_refuse(walk, FAULT(AUDIT_TRUNCATED), "there is nothing in it");
    }
    if (!shape_of(window_rest(&walk->input), &walk->shape)) {
        return walk_refuse(walk, FAULT(JWS_FORMAT),
                           "this is no audit export: neither a compact JWS nor one of the record streams (NDJSON, CSV, "
                           "CEF, OCSF)");
    }
    walk->verdict.shape = walk->shape;
    TRY(check_pins(walk));
    return walk->shape == AUDIT_JWS ? bundle_begin(walk) : stream_begin(walk);
}

static struct fault make(struct op *op, const struct audit_source *source, const struct audit_pins *pins,
                         const struct audit_trail *trail, struct audit_walk **ret_walk)
{
    CLEANUP(audit_walk_freep) struct audit_walk *walk = NULL;
    TRY(mem_new(1, sizeof(*walk), &walk));
    TRY(audit_verify_op(0, &walk->scratch));
    walk->op = op;
    walk->source = *source;
    walk->pins = pins;
    if (trail != NULL) {
        walk->trail = *trail;
    }
    walk->input = (struct window){ .max = AUDIT_LINE_MAX + WINDOW_FIRST, .read = read_source, .context = walk };
    walk->canonical = (struct buf)BUF_INIT(AUDIT_RECORD_MAX + 1024);
    walk->rendered = (struct buf)BUF_INIT(AUDIT_LINE_MAX + 1024);
    walk->first_record = (struct buf)BUF_INIT(AUDIT_RECORD_MAX + 1024);
    walk->head = (struct buf)BUF_INIT((size_t)256 << 10);
    *ret_walk = TAKE(walk);
    return OK;
}

/* A failure that accuses no record. */
static bool is_ours(struct fault fault)
{
    return fault_row(fault.code)->http >= 500;
}

/* What the verdict says when the walk ends, well or not. */
static struct fault settle(struct audit_walk *walk, struct fault fault)
{
    struct audit_verdict *verdict = &walk->verdict;
    verdict->tenant = walk->trail.tenant;
    verdict->head = walk->chain;
    if (walk->shape == AUDIT_JWS && FAULTED(fault) && !is_ours(fault)) {
        bundle_drain(walk);
    }
    walk->ended = true;
    if (is_ours(fault)) {
        verdict->broken_sequence = verdict->broken_line = 0;
    }
    if (FAULTED(fault) && verdict->reason[0] == '\0') {
        (void)walk_refuse(walk, fault, "%s", fault_row(fault.code)->title);
    }
    return fault;
}

struct fault audit_walk_new(struct op *op, const struct audit_source *source, const struct audit_pins *pins,
                            const struct audit_trail *trail, struct audit_walk **ret_walk)
{
    CLEANUP(audit_walk_freep) struct audit_walk *walk = NULL;
    TRY(make(op, source, pins, trail, &walk));
    walk->ends_with = begin(walk); /* told by the first audit_walk_next, so that there is a verdict */
    if (FAULTED(walk->ends_with)) {
        walk->ends_with = settle(walk, walk->ends_with);
    }
    *ret_walk = TAKE(walk);
    return OK;
}

struct fault audit_walk_next(struct audit_walk *walk, struct audit_entry *ret_entry, bool *ret_more)
{
    if (walk->ended) {
        *ret_more = false;
        return walk->ends_with;
    }
    bool more = true;
    arena_clear(walk->scratch->arena);
    struct fault fault =
        walk->shape == AUDIT_JWS ? bundle_next(walk, ret_entry, &more) : stream_next(walk, ret_entry, &more);
    if (FAULTED(fault) || !more) {
        *ret_more = false;
        walk->ends_with = settle(walk, fault);
        return walk->ends_with;
    }
    *ret_more = true;
    return OK;
}

const struct audit_verdict *audit_walk_verdict(const struct audit_walk *walk)
{
    return &walk->verdict;
}

/* ---- the whole ---- */

static struct fault run(struct audit_walk *walk)
{
    struct audit_entry entry;
    for (bool more = true; more;) {
        TRY(audit_walk_next(walk, &entry, &more));
    }
    return OK;
}

struct fault audit_verify(struct op *op, const struct audit_source *source, const struct audit_pins *pins,
                          struct audit_trail *trail, struct audit_verdict *ret_verdict)
{
    CLEANUP(audit_walk_freep) struct audit_walk *walk = NULL;
    *ret_verdict = (struct audit_verdict){ 0 };
    TRY(audit_walk_new(op, source, pins, trail, &walk));
    struct fault fault = run(walk);
    *ret_verdict = walk->verdict;
    if (!FAULTED(fault) && trail != NULL) {
        *trail = walk->trail;
    }
    return fault;
}

struct fault audit_verify_jws(struct op *op, struct span compact, const struct jwk_set *keys,
                              struct audit_verdict *ret_verdict)
{
    struct audit_source source = audit_source_of(&compact);
    struct audit_pins pins = { .keys = keys, .anchor_ignored = true };
    return audit_verify(op, &source, &pins, NULL, ret_verdict);
}

struct fault audit_verify_payload(struct op *op, struct span payload, struct audit_verdict *verdict)
{
    CLEANUP(audit_walk_freep) struct audit_walk *walk = NULL;
    static const struct jwk_set none = { 0 };
    struct audit_source source = audit_source_of(&payload);
    struct audit_pins pins = { .keys = &none, .anchor_ignored = true };
    TRY(make(op, &source, &pins, NULL, &walk));
    struct fault fault = bundle_payload_begin(walk);
    if (!FAULTED(fault)) {
        fault = run(walk);
    } else {
        fault = settle(walk, fault);
    }
    *verdict = walk->verdict;
    return fault;
}
