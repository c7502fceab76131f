/* keys csr, certify: certificates for keys of the token, by an authority of the user's. */
#include "api/cli/api.h"
#include "api/cli/files.h"
#include "api/cli/print.h"
#include "api/codesign/verify.h"
#include "appliance/base/json.h"

#define BODY_MAX ((size_t)512 << 10)
#define PEM_MAX  ((size_t)1 << 20)

struct fault run_keys_csr(struct cli *cli)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    const char *out = cli_flag(cli, "output");
    struct view view;
    struct jout jout;
    jout_init(&jout, &body);
    jout_object(&jout);
    jout_key_text(&jout, "subject", cli_flag(cli, "subject"));
    if (cli_flag(cli, "email") != NULL) {
        jout_key_text(&jout, "email", cli_flag(cli, "email"));
    }
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    TRY(out != NULL ? files_check_writable(cli->op, out) : OK);
    TRY(api_json(cli, &(struct api_call){ .id = cli->arguments[0], .body = buf_span(&body) }, &answer, &view));
    const char *pem = view_member(cli->op, view, "csr_pem");
    if (pem == NULL) {
        return op_fail(cli->op, FAULT(IO), "the server's answer holds no certificate request");
    }
    if (out != NULL) {
        TRY(files_write(cli->op, out, span_text(pem), 0644));
    }
    if (cli->json) {
        print_json(buf_span(&answer.body));
    } else if (out == NULL) {
        (void)fputs(pem, stdout);
    } else if (strcmp(out, "-") != 0) {
        (void)printf("certificate request: %s\n", out);
        hint("have it signed, then: svc-cli keys certify %s --chain CHAIN.pem", cli->arguments[0]);
    }
    return OK;
}

static struct fault print_chain(const struct chain *chain, int64_t version, struct buf *body)
{
    struct jout jout;
    jout_init(&jout, body);
    jout_object(&jout);
    jout_key(&jout, "certificate_chain");
    jout_array(&jout);
    for (size_t i = 0; i < chain->count; i++) {
        jout_base64(&jout, chain->at[i]);
    }
    jout_array_end(&jout);
    jout_key_int(&jout, "expected_version", version);
    jout_object_end(&jout);
    return jout_end(&jout);
}

/* The version that is seen here is the one that is changed. A certificate of another key is not even sent. */
struct fault run_keys_certify(struct cli *cli)
{
    static const struct column lines[] = {
        { "key id", "key_id", COLUMN_TEXT },
        { "name", "name", COLUMN_TEXT },
        { "state", "state", COLUMN_TEXT },
        { "version", "version", COLUMN_TEXT },
    };
    CLEANUP(http_answer_clear) struct http_answer seen = { 0 };
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf pem = BUF_INIT(PEM_MAX);
    CLEANUP(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    struct chain chain;
    struct view key;
    struct span spki, own;
    int64_t version = 0;
    TRY(files_read(cli->op, cli_flag(cli, "chain"), &pem));
    TRY(chain_from_pem(cli->op, buf_span(&pem), cli_flag(cli, "chain"), &chain));
    TRY(certificate_spki(cli->op, chain.at[0], &spki));
    TRY(api_json(cli, &(struct api_call){ .route = 1, .id = cli->arguments[0] }, &seen, &key));
    TRY(view_int(view_get(key, "version"), &version));
    if (FAULTED(view_base64(cli->op, view_get(key, "public_key_der"), &own)) || !span_equal(spki, own)) {
        return op_fail(cli->op, FAULT(CERTIFICATE_REFUSED),
                       "%s: its first certificate is of another key (the leaf comes first)", cli_flag(cli, "chain"));
    }
    TRY(print_chain(&chain, version, &body));
    TRY(api_json(cli, &(struct api_call){ .id = cli->arguments[0], .body = buf_span(&body) }, &answer, &key));
    if (cli->json) {
        print_json(buf_span(&answer.body));
    } else {
        print_pairs(cli->op, stdout, key, lines, COUNT_OF(lines));
    }
    return OK;
}
