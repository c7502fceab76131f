/* certificates list|show|record|custody, credentials list|owner, access-reviews open|decide|complete|list|show. */
#include "api/cli/api.h"
#include "api/cli/files.h"
#include "api/cli/print.h"
#include "appliance/base/json.h"

#include <string.h>

#define FILE_MAX ((size_t)128 << 10)
#define BODY_MAX ((size_t)512 << 10)

static const struct column certificate_lines[] = {
    { "certificate", "certificate_id", COLUMN_TEXT },
    { "fingerprint", "fingerprint", COLUMN_TEXT },
    { "subject", "subject", COLUMN_TEXT },
    { "issuer", "issuer", COLUMN_TEXT },
    { "serial", "serial", COLUMN_TEXT },
    { "from", "not_before", COLUMN_TIME },
    { "until", "not_after", COLUMN_TIME },
    { "custody", "custody", COLUMN_TEXT },
    { "missing", "missing_fields", COLUMN_LIST },
    { "origin", "origin", COLUMN_TEXT },
    { "kept in", "storage_class", COLUMN_TEXT },
    { "exportability", "exportability", COLUMN_TEXT },
    { "holder", "holder", COLUMN_TEXT },
    { "locus", "locus", COLUMN_TEXT },
    { "key", "key_id", COLUMN_TEXT },
    { "recorded at", "recorded_at", COLUMN_TIME },
    { "recorded by", "recorded_by", COLUMN_TEXT },
    { "version", "version", COLUMN_TEXT },
};
static const struct column credential_lines[] = {
    { "kind", "kind", COLUMN_TEXT },
    { "credential", "credential_id", COLUMN_TEXT },
    { "name", "name", COLUMN_TEXT },
    { "state", "state", COLUMN_TEXT },
    { "owner", "owner.owner_id", COLUMN_TEXT },
    { "contact", "owner.contact", COLUMN_TEXT },
    { "application", "owner.application_id", COLUMN_TEXT },
    { "environment", "owner.environment", COLUMN_TEXT },
    { "attested at", "owner.attested_at", COLUMN_TIME },
    { "complete", "owner.complete", COLUMN_YESNO },
};
static const struct column review_lines[] = {
    { "review", "review_id", COLUMN_TEXT },
    { "title", "title", COLUMN_TEXT },
    { "state", "state", COLUMN_TEXT },
    { "kinds", "kinds", COLUMN_LIST },
    { "of owner", "owner_id", COLUMN_TEXT },
    { "digest", "inventory_digest", COLUMN_TEXT },
    { "credentials", "total", COLUMN_TEXT },
    { "to keep", "kept", COLUMN_TEXT },
    { "to revoke", "revoked", COLUMN_TEXT },
    { "undecided", "undecided", COLUMN_TEXT },
    { "still live", "revoked_live", COLUMN_TEXT },
    { "opened by", "opened_by", COLUMN_TEXT },
    { "opened at", "opened_at", COLUMN_TIME },
    { "completed by", "completed_by", COLUMN_TEXT },
    { "completed at", "completed_at", COLUMN_TIME },
};

struct shown {
    const struct column *columns;
    size_t count;
};
#define SHOWN(columns) (&(struct shown){ (columns), COUNT_OF(columns) })

static struct fault call_and_show(struct cli *cli, const struct api_call *call, const struct shown *shown)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct view view;
    TRY(api_json(cli, call, &answer, &view));
    if (cli->json) {
        print_json(buf_span(&answer.body));
    } else {
        print_pairs(cli->op, stdout, view, shown->columns, shown->count);
    }
    return OK;
}

/* `names`: query parameters whose flags have the same name, '_' for '-'; NULL-terminated. */
static struct fault add_flags(struct cli *cli, struct buf *query, const char *const *names)
{
    for (; *names != NULL; names++) {
        char flag[32];
        (void)snprintf(flag, sizeof(flag), "%s", *names);
        for (char *at = flag; *at != '\0'; at++) {
            *at = *at == '_' ? '-' : *at;
        }
        TRY(query_add(query, *names, cli_flag(cli, flag)));
    }
    return OK;
}

static struct fault list(struct cli *cli, const char *const *names, const struct shown *shown, const char *none)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf query = BUF_INIT(4096);
    const char *text = NULL;
    struct view page;
    TRY(add_flags(cli, &query, names));
    TRY(buf_cstr(&query, &text));
    TRY(api_json(cli, &(struct api_call){ .query = text }, &answer, &page));
    if (cli->json) {
        print_json(buf_span(&answer.body));
        return OK;
    }
    print_table(cli->op, view_get(page, "items"), shown->columns, shown->count, none);
    print_more(cli->op, page);
    return OK;
}

/* ---- certificates ---- */

struct fault run_certificates_list(struct cli *cli)
{
    static const char *const names[] = { "custody", "origin", "expiring_before", "limit", "cursor", NULL };
    static const struct column columns[] = {
        { "CERTIFICATE", "certificate_id", COLUMN_TEXT },
        { "SUBJECT", "subject", COLUMN_TEXT },
        { "UNTIL", "not_after", COLUMN_TIME },
        { "CUSTODY", "custody", COLUMN_TEXT },
        { "ORIGIN", "origin", COLUMN_TEXT },
        { "KEPT IN", "storage_class", COLUMN_TEXT },
        { "EXPORT", "exportability", COLUMN_TEXT },
        { "MISSING", "missing_fields", COLUMN_LIST },
    };
    return list(cli, names, SHOWN(columns), "no certificates");
}

struct fault run_certificates_show(struct cli *cli)
{
    return call_and_show(cli, &(struct api_call){ .id = cli->arguments[0] }, SHOWN(certificate_lines));
}

static void print_flag(struct cli *cli, struct jout *jout, const char *flag, const char *member)
{
    if (cli_flag(cli, flag) != NULL) {
        jout_key_text(jout, member, cli_flag(cli, flag));
    }
}

static void print_custody(struct cli *cli, struct jout *jout)
{
    print_flag(cli, jout, "origin", "origin");
    print_flag(cli, jout, "storage-class", "storage_class");
    print_flag(cli, jout, "exportability", "exportability");
    print_flag(cli, jout, "holder", "holder");
    print_flag(cli, jout, "locus", "locus");
}

static struct fault print_record(struct cli *cli, struct span file, struct buf *body)
{
    struct jout jout;
    jout_init(&jout, body);
    jout_object(&jout);
    if (memmem(file.at, file.len, "-----BEGIN", 10) != NULL) {
        jout_key(&jout, "certificate_pem");
        jout_span_text(&jout, file);
    } else {
        jout_key_base64(&jout, "certificate_der", file);
    }
    jout_key(&jout, "custody");
    jout_object(&jout);
    print_custody(cli, &jout);
    jout_object_end(&jout);
    jout_object_end(&jout);
    return jout_end(&jout);
}

struct fault run_certificates_record(struct cli *cli)
{
    CLEANUP(buf_free) struct buf file = BUF_INIT(FILE_MAX), body = BUF_INIT(BODY_MAX);
    TRY(files_read(cli->op, cli->arguments[0], &file));
    if (file.len == 0) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "%s: is empty", cli->arguments[0]);
    }
    TRY(print_record(cli, buf_span(&file), &body));
    return call_and_show(cli, &(struct api_call){ .body = buf_span(&body) }, SHOWN(certificate_lines));
}

/* The version as it stands: what is stated takes its place unless somebody was faster. */
static struct fault read_version(struct cli *cli, int64_t *ret_version)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct view certificate;
    const struct api_call call = { .route = api_route(cli, "/api/v1/certificates/{id}"), .id = cli->arguments[0] };
    TRY(api_json(cli, &call, &answer, &certificate));
    if (FAULTED(view_int(view_get(certificate, "version"), ret_version))) {
        return op_fail(cli->op, FAULT(IO), "the server's answer holds no version");
    }
    return OK;
}

struct fault run_certificates_custody(struct cli *cli)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    int64_t version = 0;
    struct jout jout;
    TRY(read_version(cli, &version));
    jout_init(&jout, &body);
    jout_object(&jout);
    jout_key_int(&jout, "expected_version", version);
    print_custody(cli, &jout);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    const struct api_call call = { .route = api_route(cli, "/api/v1/certificates/{id}/custody"),
                                   .id = cli->arguments[0],
                                   .body = buf_span(&body) };
    return call_and_show(cli, &call, SHOWN(certificate_lines));
}

/* ---- credentials ---- */

struct fault run_credentials_list(struct cli *cli)
{
    static const char *const names[] = { "kind", "live", "limit", "cursor", NULL };
    static const struct column columns[] = {
        { "KIND", "kind", COLUMN_TEXT },
        { "CREDENTIAL", "credential_id", COLUMN_TEXT },
        { "NAME", "name", COLUMN_TEXT },
        { "STATE", "state", COLUMN_TEXT },
        { "SYSTEM", "system", COLUMN_YESNO },
        { "DAYS", "age_days", COLUMN_TEXT },
        { "LAST USED", "last_used_at", COLUMN_TIME },
        { "ENDS", "ends_at", COLUMN_TIME },
        { "OWNER", "owner.owner_id", COLUMN_TEXT },
    };
    return list(cli, names, SHOWN(columns), "no credentials");
}

struct fault run_credentials_owner(struct cli *cli)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    struct jout jout;
    jout_init(&jout, &body);
    jout_object(&jout);
    print_flag(cli, &jout, "application", "application_id");
    print_flag(cli, &jout, "contact", "contact");
    print_flag(cli, &jout, "environment", "environment");
    print_flag(cli, &jout, "owner", "owner_id");
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    const struct api_call call = { .kind = cli->arguments[0], .id = cli->arguments[1], .body = buf_span(&body) };
    return call_and_show(cli, &call, SHOWN(credential_lines));
}

/* ---- access reviews ---- */

struct fault run_reviews_list(struct cli *cli)
{
    static const char *const names[] = { "limit", "cursor", NULL };
    static const struct column columns[] = {
        { "REVIEW", "review_id", COLUMN_TEXT },
        { "TITLE", "title", COLUMN_TEXT },
        { "STATE", "state", COLUMN_TEXT },
        { "CREDENTIALS", "total", COLUMN_TEXT },
        { "OPENED BY", "opened_by", COLUMN_TEXT },
        { "OPENED AT", "opened_at", COLUMN_TIME },
        { "COMPLETED", "completed_at", COLUMN_TIME },
    };
    return list(cli, names, SHOWN(columns), "no access reviews");
}

struct fault run_reviews_show(struct cli *cli)
{
    static const char *const names[] = { "undecided", "limit", "cursor", NULL };
    static const struct column columns[] = {
        { "KIND", "kind", COLUMN_TEXT },         { "CREDENTIAL", "credential_id", COLUMN_TEXT },
        { "DECISION", "decision", COLUMN_TEXT }, { "REASON", "reason", COLUMN_TEXT },
        { "BY", "decided_by", COLUMN_TEXT },     { "AT", "decided_at", COLUMN_TIME },
    };
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf query = BUF_INIT(4096);
    const char *text = NULL;
    struct view review;
    TRY(query_add(&query, names[0], cli_flag(cli, names[0]) != NULL ? "true" : NULL));
    TRY(add_flags(cli, &query, names + 1));
    TRY(buf_cstr(&query, &text));
    TRY(api_json(cli, &(struct api_call){ .id = cli->arguments[0], .query = text }, &answer, &review));
    if (cli->json) {
        print_json(buf_span(&answer.body));
        return OK;
    }
    print_pairs(cli->op, stdout, review, review_lines, COUNT_OF(review_lines));
    (void)fputc('\n', stdout);
    print_table(cli->op, view_get(review, "items"), columns, COUNT_OF(columns), "nothing of that kind");
    print_more(cli->op, review);
    return OK;
}

struct fault run_reviews_open(struct cli *cli)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    struct jout jout;
    jout_init(&jout, &body);
    jout_object(&jout);
    if (cli->repeat_count > 0) {
        jout_key(&jout, "kinds");
        jout_array(&jout);
        for (size_t i = 0; i < cli->repeat_count; i++) {
            jout_text(&jout, cli->repeats[i]);
        }
        jout_array_end(&jout);
    }
    print_flag(cli, &jout, "owner", "owner_id");
    print_flag(cli, &jout, "title", "title");
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return call_and_show(cli, &(struct api_call){ .body = buf_span(&body) }, SHOWN(review_lines));
}

/* "key:0190...": as the review has it. */
static struct fault print_decisions(struct cli *cli, struct buf *body)
{
    struct jout jout;
    jout_init(&jout, body);
    jout_object(&jout);
    jout_key(&jout, "decisions");
    jout_array(&jout);
    for (size_t i = 1; i < cli->argument_count; i++) {
        const char *name = cli->arguments[i], *colon = strchr(name, ':');
        if (colon == NULL) {
            return op_fail(cli->op, FAULT(BAD_ARGUMENT), "%s: name credentials as KIND:ID, such as token:0190...",
                           name);
        }
        jout_object(&jout);
        jout_key_text(&jout, "credential_id", colon + 1);
        jout_key_text(&jout, "decision", cli_flag(cli, "decision"));
        jout_key(&jout, "kind");
        jout_span_text(&jout, span_of(name, (size_t)(colon - name)));
        jout_key_text(&jout, "reason", cli_flag(cli, "reason"));
        jout_object_end(&jout);
    }
    jout_array_end(&jout);
    jout_object_end(&jout);
    return jout_end(&jout);
}

struct fault run_reviews_decide(struct cli *cli)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    bool named = cli->argument_count > 1;
    if (named == (cli_flag(cli, "file") != NULL) ||
        named != (cli_flag(cli, "decision") != NULL && cli_flag(cli, "reason") != NULL)) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT),
                       "give credentials with --decision and --reason, or a file of decisions with --file alone");
    }
    TRY(named ? print_decisions(cli, &body) : files_read(cli->op, cli_flag(cli, "file"), &body));
    return call_and_show(cli, &(struct api_call){ .id = cli->arguments[0], .body = buf_span(&body) },
                         SHOWN(review_lines));
}

struct fault run_reviews_complete(struct cli *cli)
{
    return call_and_show(cli, &(struct api_call){ .id = cli->arguments[0] }, SHOWN(review_lines));
}
