/* The file of figures: read once at start, checked member by member, handed out as it stands. */
#include "api/scale/internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/file.h"

#include <stdio.h>

#define FORMAT   "svc.scale.measured.v1"
#define ROWS_MAX 64

struct run_file {
    const char *format;
    struct span runs;
};
static const struct jin_field file_fields[] = {
    JIN_TEXT(struct run_file, format, JIN_REQUIRED, 1, 64),
    JIN_RAW(struct run_file, runs, JIN_REQUIRED, 2, (int64_t)SCALE_FILE_MAX),
};

struct run {
    const char *gate, *profile, *machine, *command, *version, *note;
    utc_us measured_at;
    bool passed;
    struct span rows, figures;
};
static const struct jin_field run_fields[] = {
    JIN_TEXT(struct run, gate, JIN_REQUIRED, 1, 16),     JIN_TEXT(struct run, profile, JIN_OPTIONAL, 0, 32),
    JIN_TIME(struct run, measured_at, JIN_REQUIRED),     JIN_TEXT(struct run, machine, JIN_REQUIRED, 1, 200),
    JIN_TEXT(struct run, command, JIN_REQUIRED, 1, 200), JIN_TEXT(struct run, version, JIN_REQUIRED, 1, 64),
    JIN_TEXT(struct run, note, JIN_OPTIONAL, 0, 400),    JIN_BOOL(struct run, passed, JIN_REQUIRED),
    JIN_RAW(struct run, rows, JIN_REQUIRED, 2, 65536),   JIN_RAW(struct run, figures, JIN_OPTIONAL, 2, 16384),
};

/* Whole numbers of the smallest unit that matters, so that the file has one spelling. */
struct row {
    const char *name, *slo, *phase;
    int64_t requests, errors, per_second, p50_us, p95_us, p99_us, max_us, queue_percent, lag_events;
    bool passed;
};
#define NUMBER(member, flags) JIN_INT(struct row, member, flags, 0, (int64_t)1 << 53)
static const struct jin_field row_fields[] = {
    JIN_TEXT(struct row, name, JIN_REQUIRED, 1, 64),
    JIN_TEXT(struct row, slo, JIN_OPTIONAL, 0, 16),
    JIN_TEXT(struct row, phase, JIN_REQUIRED, 1, 16),
    JIN_BOOL(struct row, passed, JIN_REQUIRED),
    NUMBER(requests, JIN_REQUIRED),
    NUMBER(errors, JIN_REQUIRED),
    NUMBER(per_second, JIN_REQUIRED),
    NUMBER(p50_us, JIN_REQUIRED),
    NUMBER(p95_us, JIN_REQUIRED),
    NUMBER(p99_us, JIN_REQUIRED),
    NUMBER(max_us, JIN_REQUIRED),
    NUMBER(queue_percent, JIN_OPTIONAL),
    NUMBER(lag_events, JIN_OPTIONAL),
};

static const char *const gates[GATE_COUNT] = {
    [GATE_SMOKE] = "smoke", [GATE_LIVE] = "live", [GATE_SOAK] = "soak",
    [GATE_BURST] = "burst", [GATE_BAND] = "band", [GATE_FAILOVER] = "failover",
};

const char *scale_gate_text(enum scale_gate gate)
{
    return gates[gate];
}

static struct fault find_gate(struct op *op, const char *text, enum scale_gate *ret_gate)
{
    for (size_t i = 0; i < GATE_COUNT; i++) {
        if (strcmp(gates[i], text) == 0) {
            *ret_gate = (enum scale_gate)i;
            return OK;
        }
    }
    return op_fail(op, FAULT(CONFIG), "a run names a gate that scripts/perf does not have");
}

static struct fault check_rows(struct op *op, struct span json)
{
    struct span *items = NULL;
    size_t count = 0;
    TRY(jin_array(op, json, ROWS_MAX, &items, &count));
    for (size_t i = 0; i < count; i++) {
        struct row row = { 0 };
        TRY(jin_decode(op, items[i], row_fields, COUNT_OF(row_fields), &row));
    }
    return OK;
}

static struct fault take_run(struct op *op, struct span json, struct scale *scale)
{
    struct run run = { .profile = "" };
    struct scale_run *kept = &scale->runs[scale->count];
    TRY(jin_decode(op, json, run_fields, COUNT_OF(run_fields), &run));
    TRY(find_gate(op, run.gate, &kept->gate));
    TRY(check_rows(op, run.rows));
    (void)snprintf(kept->profile, sizeof(kept->profile), "%s", run.profile);
    kept->at = scale->text.len;
    kept->len = json.len;
    TRY(buf_put(&scale->text, json));
    scale->count++;
    return OK;
}

static struct fault take_runs(struct op *op, struct span json, struct scale *scale)
{
    struct run_file file = { 0 };
    struct span *items = NULL;
    size_t count = 0;
    TRY(jin_decode(op, json, file_fields, COUNT_OF(file_fields), &file));
    if (strcmp(file.format, FORMAT) != 0) {
        return op_fail(op, FAULT(CONFIG), "its format is not " FORMAT);
    }
    TRY(jin_array(op, file.runs, SCALE_RUNS_MAX, &items, &count));
    for (size_t i = 0; i < count; i++) {
        TRY(take_run(op, items[i], scale));
    }
    return OK;
}

struct fault scale_parse(struct op *op, struct span json, struct scale **ret_scale)
{
    CLEANUP(scale_freep) struct scale *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    made->text.max = SCALE_FILE_MAX;
    TRY(take_runs(op, json, made));
    *ret_scale = TAKE(made);
    return OK;
}

struct fault scale_load(struct op *op, const char *policy_dir, struct scale **ret_scale)
{
    char path[512];
    CLEANUP(buf_free) struct buf text = BUF_INIT(SCALE_FILE_MAX);
    (void)snprintf(path, sizeof(path), "%s/scale/measured.json", policy_dir);
    struct fault fault = file_read(path, &text);
    if (fault.code == FAULT_NOT_FOUND) {
        return scale_parse(op, span_text("{\"format\":\"" FORMAT "\",\"runs\":[]}"), ret_scale);
    }
    if (!FAULTED(fault)) {
        fault = scale_parse(op, buf_span(&text), ret_scale);
    }
    if (FAULTED(fault)) {
        struct fault_note inner = op->note;
        op->note = (struct fault_note){ 0 };
        return op_fail(op, FAULT(CONFIG),
                       "scale/measured.json of policy_dir cannot be used (%s%s%s): write it anew with "
                       "scripts/perf --record, or take it away",
                       inner.pointer, inner.pointer[0] != '\0' ? ": " : "",
                       inner.set ? inner.detail : fault_row(fault.code)->text);
    }
    return OK;
}

void scale_free(struct scale *scale)
{
    if (scale != NULL) {
        buf_free(&scale->text);
        mem_free(scale);
    }
}

const struct scale_run *scale_latest(const struct scale *scale, enum scale_gate gate, const char *profile)
{
    for (size_t i = scale->count; i > 0; i--) {
        const struct scale_run *run = &scale->runs[i - 1];
        if (run->gate == gate && (profile == NULL || strcmp(run->profile, profile) == 0)) {
            return run;
        }
    }
    return NULL;
}

void scale_print_latest(struct jout *out, const char *key, const struct scale *scale, enum scale_gate gate,
                        const char *profile)
{
    const struct scale_run *run = scale_latest(scale, gate, profile);
    jout_key(out, key);
    if (run != NULL) {
        jout_raw(out, span_of(scale->text.at + run->at, run->len));
    } else {
        jout_null(out);
    }
}
