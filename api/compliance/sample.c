/*
 * A sample of a population: which records, as of which window and head, drawn how (verify_sample.h), so that it can be
 * drawn again later and by others. What is answered is recorded first (compliance.pack.read).
 */
#include "api/compliance/sample_internal.h"

#define SAMPLE_DEFAULT 25
#define ANSWER_MAX     ((size_t)64 << 20)

static struct fault refuse(struct request *request, const char *name, const char *what)
{
    return op_fail_field(request->op, FAULT(QUERY), name, "%s: %s", name, what);
}

static struct fault number_from(struct request *request, const char *name, int64_t most, int64_t fallback,
                                int64_t *ret_number)
{
    const char *text = request_query(request, name);
    size_t len = text != NULL ? strlen(text) : 0;
    int64_t number = 0;
    *ret_number = fallback;
    if (text == NULL) {
        return OK;
    }
    if (len > 0 && len <= 18 && strspn(text, "0123456789") == len) {
        number = strtoll(text, NULL, 10);
    }
    if (number < 1 || number > most) {
        return op_fail_field(request->op, FAULT(QUERY), name, "%s: must be a number from 1 to %lld", name,
                             (long long)most);
    }
    *ret_number = number;
    return OK;
}

static struct fault read_seed(struct request *request, const char **ret_seed)
{
    const char *seed = request_query(request, "seed");
    size_t len = seed != NULL ? strlen(seed) : 0;
    bool good = len >= 1 && len <= SAMPLE_SEED_MAX;
    for (size_t i = 0; good && i < len; i++) {
        good = seed[i] > ' ' && seed[i] <= '~';
    }
    if (!good) {
        return refuse(request, "seed",
                      "must be 1 to 64 printable ASCII characters without a space: note it down, the "
                      "same seed draws the same records");
    }
    *ret_seed = seed;
    return OK;
}

static struct fault find_prerequisite(struct request *request, struct sample_wish *wish)
{
    const char *control = request_query(request, "control"), *name = request_query(request, "prerequisite");
    if (control == NULL && name == NULL) {
        return OK;
    }
    if (control == NULL || name == NULL) {
        return refuse(
            request, control == NULL ? "control" : "prerequisite",
            "control and prerequisite go together; without both the population is every record of the window");
    }
    for (size_t i = 0; i < wish->framework->control_count && wish->control == NULL; i++) {
        wish->control = strcmp(wish->framework->controls[i].id, control) == 0 ? &wish->framework->controls[i] : NULL;
    }
    if (wish->control == NULL) {
        return refuse(request, "control", "the framework has no such control: an evidence pack lists them");
    }
    for (size_t i = 0; i < wish->control->prerequisite_count; i++) {
        const struct framework_prerequisite *prerequisite = &wish->control->prerequisites[i];
        wish->prerequisite = strcmp(prerequisite->name, name) == 0 ? prerequisite : wish->prerequisite;
    }
    if (wish->prerequisite == NULL || wish->prerequisite->kind != PREREQUISITE_EVENT) {
        return refuse(request, "prerequisite",
                      wish->prerequisite == NULL ? "the control has no such prerequisite: an evidence pack lists them"
                                                 : "is not about audit records: it has no population to sample");
    }
    return OK;
}

static struct fault read_wish(struct request *request, utc_us now, struct sample_wish *wish)
{
    const char *to = request_query(request, "to");
    TRY(pack_framework(request->op, request_path(request, "framework"), &wish->framework));
    TRY(find_prerequisite(request, wish));
    TRY(number_from(request, "n", SAMPLE_MAX, SAMPLE_DEFAULT, &wish->n));
    TRY(number_from(request, "head_sequence", INT64_MAX, 0, &wish->through));
    TRY(read_seed(request, &wish->seed));
    wish->to = now;
    if (to != NULL && (FAULTED(rfc3339_parse(span_text(to), &wish->to)) || wish->to > now || wish->to < 0)) {
        return refuse(request, "to", "must be an RFC 3339 time that is past, such as evidence_window.to of a pack");
    }
    return OK;
}

static struct fault make_answer(struct request *request, const struct sample_wish *wish, struct buf *out)
{
    struct op *op = request->op;
    struct sample sample;
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    struct jout jout;
    TRY(tx_begin_snapshot(op, request->services->store, STORE_REQUEST, &tx));
    TRY(sample_choose(op, tx, wish, &sample));
    jout_init(&jout, out);
    jout_object(&jout);
    TRY(sample_print(op, tx, &sample, &jout));
    jout_object_end(&jout);
    return jout_end(&jout);
}

struct fault route_population_sample(struct request *request)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(ANSWER_MAX);
    struct sample_wish wish = { 0 };
    struct sha256 digest;
    TRY(read_wish(request, clock_utc(), &wish));
    TRY(make_answer(request, &wish, &out));
    TRY(sha256_of(buf_span(&out), &digest));
    TRY(pack_record_read(request->op, request->services, "population-sample", wish.framework->id, &digest));
    return response_json(request, 0, &out);
}
