/* code-signing verify-long-term: was this signature made while its certificate was valid? Offline. */
#include "api/cli/files.h"
#include "api/cli/print.h"
#include "api/cli/publickey.h"
#include "api/cli/stamp.h"
#include "api/codesign/verify.h"
#include "appliance/base/codec.h"
#include "appliance/base/crypto.h"
#include "appliance/base/json.h"

#define ANSWER_MAX ((size_t)64 << 10)
#define FILE_MAX   ((size_t)1 << 20)

struct evidence {
    struct file_digest digest;
    struct chain chain, root;
    struct buf signature, stamp, stamp_roots;
};

static struct fault read_chain(struct cli *cli, const char *path, struct chain *ret_chain)
{
    CLEANUP(buf_free) struct buf pem = BUF_INIT(FILE_MAX);
    TRY(files_read(cli->op, path, &pem));
    return chain_from_pem(cli->op, buf_span(&pem), path, ret_chain);
}

static struct fault gather(struct cli *cli, struct evidence *evidence)
{
    const char *hash = cli_flag(cli, "digest-algorithm"), *stamp_root = stamp_source_of(cli, NULL, "tsa-root").root;
    if (stamp_root == NULL) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT),
                       "no root of the time-stamping authority: give --tsa-root PEM or set SVC_TSA_ROOT");
    }
    TRY(files_read(cli->op, cli_flag(cli, "signature"), &evidence->signature));
    TRY(files_read(cli->op, cli_flag(cli, "timestamp"), &evidence->stamp));
    TRY(files_read(cli->op, stamp_root, &evidence->stamp_roots));
    TRY(read_chain(cli, cli_flag(cli, "certificate"), &evidence->chain));
    TRY(read_chain(cli, cli_flag(cli, "root"), &evidence->root));
    return files_digest(cli->op, cli->arguments[0], hash != NULL ? hash : "sha256", &evidence->digest);
}

/* The time stamp is over exactly this signature. */
static struct fault check_stamp(struct op *op, const struct evidence *evidence, struct tst_info *ret_info)
{
    struct tst_info seen;
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    TRY(tst_inspect(op, buf_span(&evidence->stamp), &seen));
    CLEANUP(EVP_MD_freep) EVP_MD *md = EVP_MD_fetch(crypto_context(), seen.hash, NULL);
    if (md == NULL || EVP_Digest(evidence->signature.at, evidence->signature.len, digest, &len, md, NULL) != 1) {
        return crypto_fail(op, "the signature cannot be hashed");
    }
    if (!span_equal(seen.imprint, span_of(digest, len))) {
        return op_fail(op, FAULT(TST_INVALID), "the time stamp is over something else than this signature");
    }
    const struct tst_expect expect = { .hash = seen.hash,
                                       .digest = span_of(digest, len),
                                       .roots_pem = buf_span(&evidence->stamp_roots) };
    return tst_verify(op, buf_span(&evidence->stamp), &expect, ret_info);
}

/* One of several pinned roots will do. */
static struct fault check_path(struct op *op, const struct evidence *evidence, utc_us time)
{
    struct fault fault = FAULT(BUNDLE_INVALID);
    for (size_t i = 0; i < evidence->root.count; i++) {
        const struct chain root = { .at = { evidence->root.at[i] }, .count = 1 };
        op->note = (struct fault_note){ 0 };
        fault = chain_verify(op, &evidence->chain, &root, time, SIGNER_ANY_USE);
        if (!FAULTED(fault)) {
            return OK;
        }
    }
    return fault.code == FAULT_BUNDLE_INVALID ? FAULT(CERTIFICATE_REFUSED) : fault;
}

static struct fault tell(struct cli *cli, const struct evidence *evidence, const struct tst_info *info,
                         const char *scheme)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(ANSWER_MAX);
    struct identity identity;
    utc_us from = 0, until = 0;
    char time[RFC3339_MAX], first[RFC3339_MAX], last[RFC3339_MAX];
    TRY(certificate_identity(cli->op, evidence->chain.at[0], &identity));
    TRY(certificate_validity(cli->op, evidence->chain.at[0], &from, &until));
    if (cli->json) {
        struct jout jout;
        jout_init(&jout, &out);
        jout_object(&jout);
        jout_key_bool(&jout, "valid", true);
        jout_key_text(&jout, "digest_algorithm", evidence->digest.hash);
        jout_key_hex(&jout, "digest_hex", file_digest_span(&evidence->digest));
        jout_key_text(&jout, "signature_scheme", scheme);
        jout_key_time(&jout, "signed_before", info->time);
        jout_key_text(&jout, "certificate_subject", identity.subject);
        jout_key_time(&jout, "certificate_valid_from", from);
        jout_key_time(&jout, "certificate_valid_until", until);
        jout_object_end(&jout);
        TRY(jout_end(&jout));
        print_json(buf_span(&out));
        return OK;
    }
    rfc3339_print(info->time, time);
    rfc3339_print(from, first);
    rfc3339_print(until, last);
    (void)printf("good signature, made while its certificate was valid\n  signed at   %s (not later)\n  signer      ",
                 time);
    print_safe(stdout, span_text(identity.subject));
    (void)printf("\n  valid from  %s\n  valid until %s\n", first, last);
    return OK;
}

static struct fault verify(struct cli *cli, struct evidence *evidence)
{
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = NULL;
    struct tst_info info;
    const char *scheme = NULL;
    TRY(gather(cli, evidence));
    TRY(public_key_parse(cli->op, evidence->chain.at[0], &key));
    TRY(public_key_verify(cli->op, key, cli_flag(cli, "scheme"), evidence->digest.hash,
                          file_digest_span(&evidence->digest), buf_span(&evidence->signature), &scheme));
    TRY(check_stamp(cli->op, evidence, &info));
    TRY(check_path(cli->op, evidence, info.time));
    return tell(cli, evidence, &info, scheme);
}

struct fault run_codesign_verify_long_term(struct cli *cli)
{
    struct evidence evidence = { .signature = BUF_INIT(FILE_MAX),
                                 .stamp = BUF_INIT(FILE_MAX),
                                 .stamp_roots = BUF_INIT(FILE_MAX) };
    struct fault fault = verify(cli, &evidence);
    buf_free(&evidence.signature);
    buf_free(&evidence.stamp);
    buf_free(&evidence.stamp_roots);
    return fault;
}
