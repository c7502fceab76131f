/* tsa inspect and tsa verify: offline, both. */
#include "api/cli/files.h"
#include "api/cli/print.h"
#include "api/cli/stamp.h"
#include "api/cli/tsa.h"
#include "appliance/base/codec.h"
#include "appliance/base/json.h"

#define STAMP_MAX ((size_t)1 << 20)
#define PEM_MAX   ((size_t)4 << 20)
#define HEX_MAX   160

static void print_line(const char *title, const char *text)
{
    (void)printf("  %-10s", title);
    print_safe(stdout, span_text(text));
    (void)printf("\n");
}

/* ---- inspect ---- */

static struct fault show_query(const struct cli *cli, const struct tst_query *query)
{
    char imprint[2 * 1024 + 1], nonce[HEX_MAX];
    struct span shown = span_of(query->imprint.at, query->imprint.len < 1024 ? query->imprint.len : 1024);
    hex_text(shown, imprint, sizeof(imprint));
    hex_text(query->nonce, nonce, sizeof(nonce));
    if (!cli->json) {
        print_line("kind", "query");
        print_line("asks for", query->hash);
        print_line("digest", imprint);
        print_line("policy", query->policy != NULL ? query->policy : "(the authority's default)");
        print_line("nonce", query->nonce.len > 0 ? nonce : "(none)");
        print_line("certificate", query->certificate_wanted ? "wanted" : "not wanted");
        return OK;
    }
    CLEANUP(buf_free) struct buf out = BUF_INIT(65536);
    struct jout jout;
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key_text(&jout, "kind", "query");
    jout_key_text(&jout, "hash_algorithm", query->hash);
    jout_key_text(&jout, "imprint_hex", imprint);
    jout_key_text(&jout, "policy", query->policy);
    jout_key_text(&jout, "nonce_hex", query->nonce.len > 0 ? nonce : NULL);
    jout_key_bool(&jout, "certificate_wanted", query->certificate_wanted);
    jout_key_bool(&jout, "extensions", query->extensions);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    print_json(buf_span(&out));
    return OK;
}

static struct fault show_refusal(struct cli *cli, const struct tst_status *status)
{
    cli->said = true;
    cli->exit = EXIT_REFUSED;
    if (!cli->json) {
        print_line("kind", "reply");
        (void)printf("  status    %llu: no time stamp was granted\n", (unsigned long long)status->status);
        print_line("failure", status->failure != NULL ? status->failure : "(not said)");
        print_line("reason", status->text != NULL ? status->text : "(not said)");
        return FAULT(TST_INVALID);
    }
    CLEANUP(buf_free) struct buf out = BUF_INIT(65536);
    struct jout jout;
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key_text(&jout, "kind", "reply");
    jout_key_int(&jout, "status", (int64_t)(status->status & INT32_MAX));
    jout_key_text(&jout, "failure", status->failure);
    jout_key_text(&jout, "reason", status->text);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    print_json(buf_span(&out));
    return FAULT(TST_INVALID);
}

static struct fault inspect_stamp(struct cli *cli, struct span der)
{
    struct tst_info info;
    TRY(tst_inspect(cli->op, der, &info));
    TRY(tsa_show(cli, &info, false));
    if (!cli->json) {
        hint("nothing of this was checked: svc-cli tsa verify FILE --token %s --root PEM does", cli->arguments[0]);
    }
    return OK;
}

struct fault run_tsa_inspect(struct cli *cli)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(STAMP_MAX);
    TRY(files_read(cli->op, cli->arguments[0], &bytes));
    enum tst_kind kind = tst_kind_of(buf_span(&bytes));
    if (kind == TST_KIND_QUERY) {
        struct tst_query query;
        TRY(tst_query_of(cli->op, buf_span(&bytes), &query));
        return show_query(cli, &query);
    }
    if (kind == TST_KIND_REPLY) {
        struct tst_status status;
        TRY(tst_status_of(cli->op, buf_span(&bytes), &status));
        if (status.status > 1) {
            return show_refusal(cli, &status);
        }
    }
    return inspect_stamp(cli, buf_span(&bytes));
}

/* ---- verify ---- */

/* "sha256:HEX" */
static struct fault read_digest(struct cli *cli, const char *text, struct file_digest *ret_digest)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(HASH_LEN_MAX);
    const char *colon = strchr(text, ':');
    static const char *const names[] = { "sha256", "sha384", "sha512" };
    static const size_t sizes[] = { 32, 48, 64 };
    for (size_t i = 0; colon != NULL && i < COUNT_OF(names); i++) {
        if (span_equal_text(span_of(text, (size_t)(colon - text)), names[i]) &&
            !FAULTED(hex_decode(span_text(colon + 1), &bytes)) && bytes.len == sizes[i]) {
            *ret_digest = (struct file_digest){ .hash = names[i], .len = bytes.len };
            memcpy(ret_digest->at, bytes.at, bytes.len);
            return OK;
        }
    }
    return op_fail(cli->op, FAULT(BAD_ARGUMENT),
                   "--digest: sha256, sha384 or sha512, a colon, and a digest of its length in lower-case hex");
}

/* What must have been stamped: of the file by the hash that the stamp names, or as given. */
static struct fault digest_wanted(struct cli *cli, struct span stamp, struct file_digest *ret_digest)
{
    const char *given = cli_flag(cli, "digest");
    struct tst_info info;
    if ((given != NULL) == (cli->argument_count == 1)) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "what was stamped? Give FILE or --digest, one of them");
    }
    if (given != NULL) {
        return read_digest(cli, given, ret_digest);
    }
    TRY(tst_inspect(cli->op, stamp, &info));
    TRY(files_digest(cli->op, cli->arguments[0], info.hash, ret_digest));
    if (!span_equal(info.imprint, file_digest_span(ret_digest))) {
        return op_fail(cli->op, FAULT(TST_INVALID), "%s is not what was stamped: its %s digest is another",
                       cli->arguments[0], info.hash);
    }
    return OK;
}

static struct fault read_expected(struct cli *cli, struct buf *query_bytes, struct tst_expect *expect)
{
    const char *at = cli_flag(cli, "at"), *query = cli_flag(cli, "query");
    if (at != NULL && (FAULTED(rfc3339_parse(span_text(at), &expect->at)) || expect->at <= 0)) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "--at: a time such as 2026-11-21T12:00:00Z");
    }
    if (query != NULL) {
        struct tst_query asked;
        TRY(files_read(cli->op, query, query_bytes));
        TRY(tst_query_of(cli->op, buf_span(query_bytes), &asked));
        expect->nonce = asked.nonce;
    }
    return OK;
}

struct fault run_tsa_verify(struct cli *cli)
{
    CLEANUP(buf_free) struct buf stamp = BUF_INIT(STAMP_MAX), query = BUF_INIT(STAMP_MAX);
    CLEANUP(buf_free) struct buf roots = BUF_INIT(PEM_MAX), extra = BUF_INIT(PEM_MAX);
    struct tst_expect expect = { 0 };
    struct file_digest digest = { 0 };
    struct tst_info info;
    const char *root = stamp_source_of(cli, NULL, "root").root, *certificates = cli_flag(cli, "certificates");
    if (root == NULL) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "no root to trust: give --root PEM or set SVC_TSA_ROOT");
    }
    TRY(read_expected(cli, &query, &expect));
    TRY(files_read(cli->op, cli_flag(cli, "token"), &stamp));
    TRY(files_read(cli->op, root, &roots));
    if (certificates != NULL) {
        TRY(files_read(cli->op, certificates, &extra));
    }
    TRY(digest_wanted(cli, buf_span(&stamp), &digest));
    expect.hash = digest.hash;
    expect.digest = file_digest_span(&digest);
    expect.roots_pem = buf_span(&roots);
    expect.extra_pem = buf_span(&extra);
    TRY(tst_verify(cli->op, buf_span(&stamp), &expect, &info));
    if (!cli->json) {
        (void)printf("good time stamp: %s existed at this time\n", cli->argument_count > 0 ? "the file" : "the data");
    }
    return tsa_show(cli, &info, true);
}
