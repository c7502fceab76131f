#include "api/cli/signing.h"

#include "api/cli/bundle.h"
#include "api/cli/pace.h"
#include "api/cli/print.h"

#define LINE_MAX_LEN  1024
#define LOOK_LIMIT_MS (10 * 60 * 1000)
#define LOOK_MAX      ((size_t)4 << 20)
#define WAIT_DEFAULT  (60 * NS_PER_S)

static bool worth_repeating(long status)
{
    return status == 429 || status == 502 || status == 503 || status == 504;
}

static bool is_pending(struct op *op, struct view operation)
{
    const char *state = view_member(op, operation, "transparency.state");
    return state != NULL && strcmp(state, "pending") == 0;
}

/* One look, in an arena of its own; `ret_over` when there is nothing to wait for any more. */
static struct fault look(struct cli *cli, const struct api_call *call, struct http_answer *answer, bool *ret_over)
{
    CLEANUP(op_freep) struct op *op = NULL;
    char why[LINE_MAX_LEN] = "";
    struct view operation;
    TRY(op_new("svc-cli", (struct tenant_id){ 0 }, LOOK_LIMIT_MS, &op));
    *ret_over = false;
    struct fault fault = api_exchange(cli, call, why, sizeof(why), answer);
    if (FAULTED(fault)) {
        return why[0] != '\0' ? OK : fault;
    }
    if (answer->status != 200) {
        return worth_repeating(answer->status) ? OK : api_judge(cli, call, answer);
    }
    *ret_over = !FAULTED(view_of(op, buf_span(&answer->body), &operation)) && !is_pending(op, operation);
    return OK;
}

struct fault publish_wait(struct cli *cli, const char *operation_id, int64_t limit_ns, struct http_answer *answer,
                          struct view *ret_operation)
{
    const struct api_call call = { .route = api_route(cli, PATH_OPERATION),
                                   .id = operation_id,
                                   .answer_max = LOOK_MAX };
    struct pace pace = pace_of(limit_ns);
    bool over = false;
    do {
        TRY(look(cli, &call, answer, &over));
    } while (!over && pace_wait(&pace));
    if (!over) {
        return op_fail(cli->op, FAULT(DEADLINE),
                       "its entry in the transparency log is not there yet; publication goes on in the background. "
                       "The bundle later: svc-cli code-signing bundle %s -o FILE",
                       operation_id);
    }
    TRY(view_of(cli->op, buf_span(&answer->body), ret_operation));
    const char *state = view_member(cli->op, *ret_operation, "transparency.state");
    if (state != NULL && strcmp(state, "failed") == 0) {
        return op_fail(cli->op, FAULT(TLOG_REFUSED),
                       "it is signed, but its publication failed: see svc-cli code-signing "
                       "operation %s",
                       operation_id);
    }
    return OK;
}

/* Verifiers take a certificate only for the identity that it states and its issuer vouches for (Fulcio's form), and an
 * entry only with the signer that it names. A certificate of another kind would shut out those who pin the key. */
static struct fault choose_signer(struct op *op, const struct bundle_parts *parts, struct bundle *bundle)
{
    struct identity identity = { 0 };
    bool by_certificate = false;
    if (parts->chain->count > 0 && bundle->entry_count > 0) {
        by_certificate = bundle_entry_has_certificate(op, &bundle->entries[0]);
    } else if (parts->chain->count > 0) {
        TRY(certificate_identity(op, parts->chain->at[0], &identity));
        by_certificate = identity.issuer != NULL;
    }
    if (by_certificate) {
        bundle->chain = *parts->chain;
        return OK;
    }
    return bundle_hint(op, parts->spki, &bundle->hint);
}

struct fault bundle_assemble(struct op *op, const struct bundle_parts *parts, struct buf *out)
{
    struct bundle bundle = { .hash = parts->hash, .digest = parts->digest, .signature = parts->signature };
    if (view_is_there(parts->entry)) {
        TRY(tlog_entry_read(op, parts->entry.json, &bundle.entries[0]));
        bundle.entry_count = 1;
    }
    TRY(choose_signer(op, parts, &bundle));
    if (parts->stamp.len > 0) {
        bundle.stamps[bundle.stamp_count++] = parts->stamp;
    }
    return bundle_print(&bundle, out);
}

/* The entry, in `answer`'s life; an empty view where nothing is published. */
static struct fault await_entry(struct cli *cli, const struct signing *signing, const struct signing_file *file,
                                struct http_answer *answer, struct view *ret_entry)
{
    struct view operation;
    int64_t limit = 0;
    TRY(cli_span(cli, "wait-log", WAIT_DEFAULT, &limit));
    if (signing->destination == NULL || strcmp(signing->destination, "none") == 0) {
        *ret_entry = (struct view){ 0 };
        return OK;
    }
    if (!cli->json) {
        hint("waiting for the entry in the transparency log");
    }
    TRY(publish_wait(cli, file->operation_id, limit, answer, &operation));
    *ret_entry = view_get(operation, "transparency.entry");
    if (!view_is_there(*ret_entry)) {
        return op_fail(cli->op, FAULT(IO), "the server's answer holds no entry of the transparency log");
    }
    if (!cli->json) {
        const char *index = view_member(cli->op, operation, "transparency.log_index");
        hint("published, log index %s", index != NULL ? index : "-");
    }
    return OK;
}

struct fault signing_publish(struct cli *cli, const struct signing *signing, struct signing_file *file)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf bundle = BUF_INIT(BUNDLE_MAX);
    struct bundle_parts parts = { .hash = file->digest.hash,
                                  .digest = file_digest_span(&file->digest),
                                  .signature = file->signature,
                                  .spki = signing->spki,
                                  .chain = &signing->chain,
                                  .stamp = file->stamp };
    if (file->bundle_out == NULL && cli_flag(cli, "wait-log") == NULL) {
        return OK;
    }
    TRY(await_entry(cli, signing, file, &answer, &parts.entry));
    if (file->bundle_out == NULL) {
        return OK;
    }
    if (signing->keyless && !view_is_there(parts.entry) && file->stamp.len == 0) {
        hint("without a transparency log and without --timestamp nothing will prove when this was signed, and the "
             "certificate is valid for minutes: the bundle cannot be verified later");
    }
    TRY(bundle_assemble(cli->op, &parts, &bundle));
    TRY(files_write(cli->op, file->bundle_out, buf_span(&bundle), 0644));
    file->bundled = true;
    return OK;
}
