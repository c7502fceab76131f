#include "api/cli/signing.h"

#include "appliance/base/json.h"

/* Options that speak of FILE and have no meaning beside a body of the user's own. */
static const char *const with_file[] = { "key",         "scheme",   "artifact-type", "digest-algorithm",
                                         "batch-file",  "bundle",   "timestamp",     "method",
                                         "proof",       "audience", "expect-san",    "expect-issuer",
                                         "certificate", "wait-log" };

struct fault signing_check_form(struct cli *cli, const char *needed)
{
    bool files = cli->argument_count > 0 || cli_flag_if(cli, "batch-file") != NULL;
    bool extras = false;
    for (size_t i = 0; i < COUNT_OF(with_file); i++) {
        extras = extras || cli_flag_if(cli, with_file[i]) != NULL;
    }
    if (cli_flag(cli, "file") != NULL ? files || extras : !files || cli_flag(cli, needed) == NULL) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "give FILE and --%s, or -f REQUEST.json alone", needed);
    }
    return OK;
}

static void put_digests(struct jout *jout, const struct signing *signing)
{
    if (!signing->batch) {
        jout_key_base64(jout, "digest", file_digest_span(&signing->files[0].digest));
        return;
    }
    jout_key(jout, "digests");
    jout_array(jout);
    for (size_t i = 0; i < signing->count; i++) {
        jout_base64(jout, file_digest_span(&signing->files[i].digest));
    }
    jout_array_end(jout);
}

static void put_flag(struct cli *cli, struct jout *jout, const char *member, const char *flag)
{
    const char *value = cli_flag_if(cli, flag);
    if (value != NULL) {
        jout_key_text(jout, member, value);
    }
}

struct fault signing_print_request(struct cli *cli, const struct signing *signing, const char *fingerprint,
                                   struct buf *body)
{
    const char *type = cli_flag(cli, "artifact-type");
    struct jout jout;
    jout_init(&jout, body);
    jout_object(&jout);
    put_flag(cli, &jout, "key_id", "key");
    jout_key_text(&jout, "artifact_type", type != NULL ? type : "file");
    put_digests(&jout, signing);
    put_flag(cli, &jout, "digest_algorithm", "digest-algorithm");
    put_flag(cli, &jout, "signature_scheme", "scheme");
    if (signing->keyless) {
        put_flag(cli, &jout, "identity_method", "method");
        jout_key_base64(&jout, "identity_payload", signing->proof);
        put_flag(cli, &jout, "expected_san", "expect-san");
        put_flag(cli, &jout, "expected_issuer", "expect-issuer");
    }
    if (fingerprint != NULL) {
        jout_key_text(&jout, "preview_fingerprint", fingerprint);
    }
    jout_object_end(&jout);
    return jout_end(&jout);
}
