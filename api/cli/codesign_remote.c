/* code-signing verify-remote: the appliance judges, by the route that goes with what is given. */
#include "api/cli/api.h"
#include "api/cli/files.h"
#include "api/cli/print.h"
#include "api/cli/publickey.h"
#include "api/codesign/verify.h"
#include "appliance/base/crypto.h"
#include "appliance/base/json.h"

#define BODY_MAX ((size_t)512 << 10)
#define FILE_MAX ((size_t)1 << 20)

static bool given(struct cli *cli, const char *flag)
{
    return cli_flag(cli, flag) != NULL;
}

static struct fault put_text(struct cli *cli, struct jout *jout, const char *flag, const char *member)
{
    if (given(cli, flag)) {
        jout_key_text(jout, member, cli_flag(cli, flag));
    }
    return OK;
}

static struct fault put_file(struct cli *cli, struct jout *jout, const char *flag, const char *member)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(FILE_MAX);
    if (given(cli, flag)) {
        TRY(files_read(cli->op, cli_flag(cli, flag), &bytes));
        jout_key_base64(jout, member, buf_span(&bytes));
    }
    return OK;
}

static struct fault put_chain(struct cli *cli, struct jout *jout, const char *flag, const char *member)
{
    CLEANUP(buf_free) struct buf pem = BUF_INIT(FILE_MAX);
    struct chain chain;
    if (!given(cli, flag)) {
        return OK;
    }
    TRY(files_read(cli->op, cli_flag(cli, flag), &pem));
    TRY(chain_from_pem(cli->op, buf_span(&pem), cli_flag(cli, flag), &chain));
    jout_key(jout, member);
    jout_array(jout);
    for (size_t i = 0; i < chain.count; i++) {
        jout_base64(jout, chain.at[i]);
    }
    jout_array_end(jout);
    return OK;
}

static struct fault put_public_key(struct cli *cli, struct jout *jout)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(FILE_MAX);
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = NULL;
    unsigned char *der = NULL;
    if (!given(cli, "public-key")) {
        return OK;
    }
    TRY(files_read(cli->op, cli_flag(cli, "public-key"), &bytes));
    TRY(public_key_parse(cli->op, buf_span(&bytes), &key));
    int len = i2d_PUBKEY(key, &der);
    REQUIRE(len > 0, CRYPTO);
    jout_key_base64(jout, "public_key_der", span_of(der, (size_t)len));
    OPENSSL_free(der);
    return OK;
}

static struct fault print_body(struct cli *cli, const struct file_digest *digest, struct buf *body)
{
    struct jout jout;
    jout_init(&jout, body);
    jout_object(&jout);
    jout_key_text(&jout, "digest_algorithm", digest->hash);
    jout_key_base64(&jout, "digest", file_digest_span(digest));
    TRY(put_file(cli, &jout, "signature", "signature"));
    TRY(put_text(cli, &jout, "scheme", "signature_scheme"));
    TRY(put_text(cli, &jout, "key", "key_id"));
    TRY(put_public_key(cli, &jout));
    TRY(put_chain(cli, &jout, "certificate", "certificate_chain"));
    TRY(put_text(cli, &jout, "certificate-identity", "expected_san"));
    TRY(put_text(cli, &jout, "certificate-oidc-issuer", "expected_issuer"));
    TRY(put_file(cli, &jout, "timestamp", "timestamp"));
    TRY(put_chain(cli, &jout, "root", "root_certificates"));
    TRY(put_chain(cli, &jout, "tsa-root", "timestamp_roots"));
    jout_object_end(&jout);
    return jout_end(&jout);
}

/* The one route whose members are all given, and no other's. */
static struct fault choose_path(struct cli *cli, const char **ret_path)
{
    bool key = given(cli, "key"), public = given(cli, "public-key"), certificate = given(cli, "certificate");
    bool identity = given(cli, "certificate-identity"), issuer = given(cli, "certificate-oidc-issuer");
    bool stamp = given(cli, "timestamp"), root = given(cli, "root"), stamp_root = given(cli, "tsa-root");
    if (key + public + certificate != 1) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "give one of --key, --public-key and --certificate");
    }
    if (!certificate && (identity || issuer || stamp || root || stamp_root)) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "identities, roots and time stamps go with --certificate alone");
    }
    if (identity != issuer || (certificate && !identity && !stamp)) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT),
                       "with --certificate give --certificate-identity and --certificate-oidc-issuer, or --timestamp");
    }
    if ((identity && root) || (stamp_root && !stamp)) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "%s",
                       stamp_root && !stamp ? "--tsa-root goes with --timestamp"
                                            : "an identity is judged by the appliance's own roots, without --root");
    }
    *ret_path = !certificate ? PATH_VERIFY : identity ? PATH_KEYLESS_VERIFY : PATH_VERIFY_LONG_TERM;
    return OK;
}

static struct fault tell(struct cli *cli, const struct http_answer *answer, struct view verdict)
{
    static const struct column lines[] = {
        { "hash", "digest_algorithm", COLUMN_TEXT },
        { "scheme", "signature_scheme", COLUMN_TEXT },
        { "approved mode", "approved_mode", COLUMN_YESNO },
        { "note", "approved_mode_note", COLUMN_TEXT },
        { "key id", "key_id", COLUMN_TEXT },
        { "key state", "key_state", COLUMN_TEXT },
        { "public key", "public_key_sha256", COLUMN_TEXT },
        { "signer", "fulcio_san", COLUMN_TEXT },
        { "issuer", "fulcio_issuer", COLUMN_TEXT },
        { "certificate", "certificate_sha256", COLUMN_TEXT },
        { "valid from", "not_before", COLUMN_TIME },
        { "valid until", "not_after", COLUMN_TIME },
        { "judged at", "judged_at", COLUMN_TIME },
        { "stamped at", "gen_time", COLUMN_TIME },
        { "stamped by", "timestamp_signer", COLUMN_TEXT },
    };
    if (cli->json) {
        print_json(buf_span(&answer->body));
        return OK;
    }
    (void)printf("good signature, says the appliance\n");
    print_pairs(cli->op, stdout, verdict, lines, COUNT_OF(lines));
    hint("code-signing verify and verify-long-term need not trust it: they ask nobody");
    return OK;
}

struct fault run_codesign_verify_remote(struct cli *cli)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    const char *hash = cli_flag(cli, "digest-algorithm"), *path = NULL;
    struct file_digest digest;
    struct view verdict;
    TRY(choose_path(cli, &path));
    TRY(files_digest(cli->op, cli->arguments[0], hash != NULL ? hash : "sha256", &digest));
    TRY(print_body(cli, &digest, &body));
    TRY(api_json(cli, &(struct api_call){ .route = api_route(cli, path), .body = buf_span(&body) }, &answer, &verdict));
    if (!span_equal_text(view_get(verdict, "valid").json, "true")) {
        return op_fail(cli->op, FAULT(IO), "the server's answer does not say that the signature is valid");
    }
    return tell(cli, &answer, verdict);
}
