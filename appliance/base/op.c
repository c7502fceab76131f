#include "appliance/base/op.h"

#include "appliance/base/alloc.h"
#include "appliance/base/codec.h"
#include "appliance/base/utf8.h"

#include <stdarg.h>
#include <stdio.h>

struct fault op_new(const char *subject, struct tenant_id tenant, int timeout_ms, struct op **ret_op)
{
    CLEANUP(op_freep) struct op *op = NULL;
    TRY(mem_new(1, sizeof(*op), &op));
    TRY(arena_new(ARENA_DEFAULT_MAX, &op->arena));
    uint8_t ids[24];
    TRY(random_bytes(ids, sizeof(ids)));
    hex_text(span_of(ids, 16), op->trace_id, sizeof(op->trace_id));
    hex_text(span_of(ids + 16, 8), op->span_id, sizeof(op->span_id));
    (void)snprintf(op->principal.subject, sizeof(op->principal.subject), "%s", subject);
    op->tenant = tenant;
    op->deadline = clock_mono() + (mono_ns)timeout_ms * NS_PER_MS;
    *ret_op = TAKE(op);
    return OK;
}

void op_free(struct op *op)
{
    if (op == NULL) {
        return;
    }
    BUG_IF(op->tx_open != 0);
    arena_free(op->arena);
    mem_free(op);
}

static bool note_first(struct op *op, struct fault fault, const char *file, int line)
{
    if (op == NULL || op->note.set) {
        return false;
    }
    op->note.set = true;
    op->note.code = fault.code;
    op->note.file = file;
    op->note.line = line;
    return true;
}

struct fault op_fail_at(struct op *op, struct fault fault, const char *file, int line, const char *detail, ...)
{
    if (note_first(op, fault, file, line)) {
        va_list args;
        va_start(args, detail);
        (void)vsnprintf(op->note.detail, sizeof(op->note.detail), detail, args);
        va_end(args);
        utf8_repair(op->note.detail);
    }
    return fault;
}

struct fault op_fail_field(struct op *op, struct fault fault, const char *pointer, const char *detail, ...)
{
    if (note_first(op, fault, "", 0)) {
        (void)snprintf(op->note.pointer, sizeof(op->note.pointer), "%s", pointer);
        va_list args;
        va_start(args, detail);
        (void)vsnprintf(op->note.detail, sizeof(op->note.detail), detail, args);
        va_end(args);
        utf8_repair(op->note.pointer);
        utf8_repair(op->note.detail);
    }
    return fault;
}

void op_note_log(struct op *op, const char *format, ...)
{
    if (op == NULL || op->note.log_detail[0] != 0) {
        return;
    }
    va_list args;
    va_start(args, format);
    (void)vsnprintf(op->note.log_detail, sizeof(op->note.log_detail), format, args);
    va_end(args);
    utf8_repair(op->note.log_detail);
}
