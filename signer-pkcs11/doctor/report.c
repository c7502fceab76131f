#include "signer-pkcs11/doctor/report.h"

#include "appliance/base/alloc.h"
#include "appliance/base/json.h"

#define STEPS_MAX 160
#define TIMES_MAX 64
#define FACTS_MAX 32
#define JSON_MAX  ((size_t)1 << 20)

struct step {
    char name[48], detail[320], advice[256], refusal[80];
    enum step_result result;
};
struct times {
    char operation[48];
    size_t count;
    int64_t p50, p99, worst;
};
struct fact {
    char name[24], text[200];
};

struct report {
    bool json, failed;
    pthread_mutex_t lock;
    size_t step_count, times_count, fact_count;
    struct step steps[STEPS_MAX];
    struct times times[TIMES_MAX];
    struct fact facts[FACTS_MAX];
    char given[512], needed[512]; /* words of quirks */
};

static const char *const result_texts[] = {
    [STEP_OK] = "ok", [STEP_NOTE] = "note", [STEP_FAILED] = "FAILED", [STEP_SKIPPED] = "skipped"
};
static const char *const result_json[] = {
    [STEP_OK] = "ok", [STEP_NOTE] = "note", [STEP_FAILED] = "failed", [STEP_SKIPPED] = "skipped"
};

struct fault report_new(bool json, struct report **ret_report)
{
    struct report *report = NULL;
    TRY(mem_new(1, sizeof(*report), (void *)&report));
    report->json = json;
    BUG_IF(pthread_mutex_init(&report->lock, NULL) != 0);
    *ret_report = report;
    return OK;
}

void report_free(struct report *report)
{
    if (report != NULL) {
        (void)pthread_mutex_destroy(&report->lock);
        mem_free(report);
    }
}

/* Texts of modules may hold anything: what is no printable ASCII becomes a question mark. */
static void plain(char *text)
{
    for (; *text != '\0'; text++) {
        *text = *text < 0x20 || *text > 0x7e ? '?' : *text;
    }
}

static void print_step(const struct step *step)
{
    bool more = step->detail[0] != '\0';
    (void)printf("%-8s %-*s%s%s\n", result_texts[step->result], more ? 30 : 0, step->name, more ? " " : "",
                 step->detail);
    if (step->refusal[0] != '\0') {
        (void)printf("%-8s %-30s   %s\n", "", "", step->refusal);
    }
    if (step->advice[0] != '\0') {
        (void)printf("%-8s %-30s   -> %s\n", "", "", step->advice);
    }
    (void)fflush(stdout);
}

static void add(struct report *report, struct step *step)
{
    plain(step->detail);
    plain(step->advice);
    plain(step->refusal);
    token_lock(&report->lock);
    report->failed = report->failed || step->result == STEP_FAILED;
    if (report->step_count < STEPS_MAX) {
        report->steps[report->step_count++] = *step;
        if (!report->json) {
            print_step(step);
        }
    }
    token_unlock(&report->lock);
}

void report_step(struct report *report, const char *name, enum step_result result, const char *advice,
                 const char *format, ...)
{
    struct step step = { .result = result };
    va_list args;
    (void)snprintf(step.name, sizeof(step.name), "%s", name);
    (void)snprintf(step.advice, sizeof(step.advice), "%s", advice);
    va_start(args, format);
    (void)vsnprintf(step.detail, sizeof(step.detail), format, args);
    va_end(args);
    add(report, &step);
}

void report_call(struct report *report, const char *name, const struct call *call)
{
    struct step step = { .result = STEP_FAILED };
    const struct ckr_row *row = call->refusal;
    (void)snprintf(step.name, sizeof(step.name), "%s", name);
    (void)snprintf(step.detail, sizeof(step.detail), "%s", row != NULL ? row->cause : "the step was not carried out");
    if (row != NULL) {
        (void)snprintf(step.advice, sizeof(step.advice), "%s", row->action);
        (void)snprintf(step.refusal, sizeof(step.refusal), "%s: %s (0x%lx)", call->function, row->name, call->rv);
    }
    add(report, &step);
}

void report_op(struct report *report, const char *name, struct op *op, struct fault fault)
{
    struct step step = { .result = STEP_FAILED };
    (void)snprintf(step.name, sizeof(step.name), "%s", name);
    (void)snprintf(step.detail, sizeof(step.detail), "%s",
                   op->note.set && op->note.detail[0] != '\0' ? op->note.detail : fault_row(fault.code)->title);
    (void)snprintf(step.refusal, sizeof(step.refusal), "%.79s", op->note.log_detail);
    op->note = (struct fault_note){ 0 };
    add(report, &step);
}

static int by_size(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

void report_times(struct report *report, const char *operation, int64_t *ns, size_t count)
{
    if (count == 0) {
        return;
    }
    qsort(ns, count, sizeof(*ns), by_size);
    struct times times = { .count = count, .p50 = ns[count / 2], .p99 = ns[count * 99 / 100], .worst = ns[count - 1] };
    (void)snprintf(times.operation, sizeof(times.operation), "%s", operation);
    token_lock(&report->lock);
    if (report->times_count < TIMES_MAX) {
        report->times[report->times_count++] = times;
    }
    token_unlock(&report->lock);
}

static void words_of(const struct token_quirks *quirks, char *out, size_t size)
{
    CLEANUP(buf_free) struct buf words = BUF_INIT(4096);
    const char *text = "";
    if (!FAULTED(quirks_print(quirks, &words)) && !FAULTED(buf_cstr(&words, &text))) {
        (void)snprintf(out, size, "%s", text);
    }
}

void report_quirks(struct report *report, const struct token_quirks *given, const struct token_quirks *needed)
{
    token_lock(&report->lock);
    words_of(given, report->given, sizeof(report->given));
    words_of(needed, report->needed, sizeof(report->needed));
    token_unlock(&report->lock);
}

void report_fact(struct report *report, const char *name, const char *format, ...)
{
    struct fact fact = { 0 };
    va_list args;
    (void)snprintf(fact.name, sizeof(fact.name), "%s", name);
    va_start(args, format);
    (void)vsnprintf(fact.text, sizeof(fact.text), format, args);
    va_end(args);
    plain(fact.text);
    token_lock(&report->lock);
    if (report->fact_count < FACTS_MAX) {
        report->facts[report->fact_count++] = fact;
        if (!report->json) {
            (void)printf("%-8s %-30s %s\n", "", fact.name, fact.text);
        }
    }
    token_unlock(&report->lock);
}

bool report_good(struct report *report)
{
    token_lock(&report->lock);
    bool good = !report->failed;
    token_unlock(&report->lock);
    return good;
}

/* ---- the end ---- */

static void print_end(const struct report *report)
{
    for (size_t i = 0; i < report->times_count; i++) {
        const struct times *times = &report->times[i];
        if (i == 0) {
            (void)printf("\n%-30s %8s %10s %10s %10s\n", "operation", "count", "p50 us", "p99 us", "worst us");
        }
        (void)printf("%-30s %8zu %10lld %10lld %10lld\n", times->operation, times->count, (long long)times->p50 / 1000,
                     (long long)times->p99 / 1000, (long long)times->worst / 1000);
    }
    if (strcmp(report->given, report->needed) != 0) {
        (void)printf("\nThe token needs these settings:\n\ntoken:\n  quirks: [%s]\n", report->needed);
    }
    (void)printf("\n%s\n", report->failed ? "Something failed: see above." : "The token is fit for the signer.");
}

static void write_steps(struct jout *json, const struct report *report)
{
    jout_key(json, "steps");
    jout_array(json);
    for (size_t i = 0; i < report->step_count; i++) {
        const struct step *step = &report->steps[i];
        jout_object(json);
        jout_key_text(json, "step", step->name);
        jout_key_text(json, "result", result_json[step->result]);
        jout_key_text(json, "detail", step->detail);
        if (step->refusal[0] != '\0') {
            jout_key_text(json, "refusal", step->refusal);
        }
        if (step->advice[0] != '\0') {
            jout_key_text(json, "advice", step->advice);
        }
        jout_object_end(json);
    }
    jout_array_end(json);
}

static void write_times(struct jout *json, const struct report *report)
{
    jout_key(json, "times");
    jout_array(json);
    for (size_t i = 0; i < report->times_count; i++) {
        const struct times *times = &report->times[i];
        jout_object(json);
        jout_key_text(json, "operation", times->operation);
        jout_key_int(json, "count", (int64_t)times->count);
        jout_key_int(json, "p50_us", times->p50 / 1000);
        jout_key_int(json, "p99_us", times->p99 / 1000);
        jout_key_int(json, "worst_us", times->worst / 1000);
        jout_object_end(json);
    }
    jout_array_end(json);
}

static bool print_json(const struct report *report)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(JSON_MAX);
    struct jout json;
    jout_init(&json, &out);
    jout_object(&json);
    jout_key_text(&json, "result", report->failed ? "failed" : "ok");
    jout_key(&json, "facts");
    jout_object(&json);
    for (size_t i = 0; i < report->fact_count; i++) {
        jout_key_text(&json, report->facts[i].name, report->facts[i].text);
    }
    jout_object_end(&json);
    write_steps(&json, report);
    write_times(&json, report);
    jout_key(&json, "quirks");
    jout_object(&json);
    jout_key_text(&json, "given", report->given);
    jout_key_text(&json, "needed", report->needed);
    jout_object_end(&json);
    jout_object_end(&json);
    if (FAULTED(jout_end(&json)) || FAULTED(buf_text(&out, "\n"))) {
        return false;
    }
    return fwrite(out.at, 1, out.len, stdout) == out.len;
}

enum doctor_verdict report_end(struct report *report)
{
    bool told = true;
    token_lock(&report->lock);
    if (report->json) {
        told = print_json(report);
    } else {
        print_end(report);
    }
    told = fflush(stdout) == 0 && told;
    bool failed = report->failed;
    token_unlock(&report->lock);
    return failed || !told ? DOCTOR_FAILED : DOCTOR_FINE;
}
