#include "api/cli/api.h"
#include "api/cli/files.h"
#include "api/cli/print.h"
#include "api/tsa/verify.h"
#include "appliance/base/codec.h"
#include "appliance/base/json.h"

#define STAMP_MAX ((size_t)1 << 20)
#define PEM_MAX   ((size_t)4 << 20)
#define URL_MAX   4096
#define NONCE_LEN 8

/* --url, then SVC_TSA_URL, then /tsa of the appliance. */
static struct fault authority(struct cli *cli, const char *path, const char **ret_url)
{
    const char *url = cli_flag(cli, "url");
    const char *set = getenv("SVC_TSA_URL");
    url = url == NULL && set != NULL && set[0] != '\0' ? set : url;
    bool own = url == NULL;
    if (own && cli->base_url == NULL) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "no address of an authority: give --url or set SVC_TSA_URL");
    }
    const char *base = own ? cli->base_url : url;
    size_t len = strlen(base);
    while (len > 0 && base[len - 1] == '/') {
        len--;
    }
    return arena_printf(cli->op->arena, ret_url, "%.*s%s", (int)len, base, own ? path : path + strlen("/tsa"));
}

static struct fault exchange(struct cli *cli, struct http_request *request, struct http_answer *answer)
{
    char why[1024] = "";
    request->ca_file = cli->ca_file;
    request->plain_too = true; /* a time stamp carries its own proof */
    request->timeout_ns = cli->timeout_ns;
    request->answer_max = STAMP_MAX;
    if (FAULTED(http_send(request, why, sizeof(why), answer))) {
        return api_unreachable(cli, why);
    }
    return answer->status == 200 ? OK : api_complain(cli, request->url, answer);
}

/* An INTEGER body: positive, minimal, unforeseeable. */
static struct fault make_nonce(uint8_t nonce[NONCE_LEN])
{
    TRY(random_bytes(nonce, NONCE_LEN));
    nonce[0] = (uint8_t)((nonce[0] & 0x7f) | 0x40);
    return OK;
}

static const char *root_path(const struct cli *cli)
{
    const char *root = cli_flag(cli, "root");
    const char *set = getenv("SVC_TSA_ROOT");
    return root != NULL ? root : set != NULL && set[0] != '\0' ? set : NULL;
}

static void info_text(const struct tst_info *info, char time[RFC3339_MAX], char accuracy[48], char *hex,
                      size_t hex_size)
{
    rfc3339_print(info->time, time);
    (void)snprintf(accuracy, 48, "%s%lld.%06lld s", info->accuracy_us > 0 ? "+/- " : "",
                   (long long)(info->accuracy_us / US_PER_S), (long long)(info->accuracy_us % US_PER_S));
    hex_text(info->imprint, hex, hex_size);
}

static struct fault show_json(const struct tst_info *info, const char *time, bool verified)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(65536);
    struct jout jout;
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key_bool(&jout, "verified", verified);
    jout_key_text(&jout, "time", time);
    jout_key_int(&jout, "accuracy_us", info->accuracy_us);
    jout_key_text(&jout, "serial", info->serial);
    jout_key_text(&jout, "policy", info->policy);
    jout_key_text(&jout, "hash_algorithm", info->hash);
    jout_key_hex(&jout, "imprint_hex", info->imprint);
    jout_key_text(&jout, "signer", info->signer);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    print_json(buf_span(&out));
    return OK;
}

static struct fault show(struct cli *cli, const struct tst_info *info, bool verified)
{
    char time[RFC3339_MAX], accuracy[48], hex[2 * HASH_LEN_MAX + 1];
    info_text(info, time, accuracy, hex, sizeof(hex));
    if (cli->json) {
        return show_json(info, time, verified);
    }
    (void)printf("  time      %s\n", time);
    if (info->accuracy_us > 0) {
        (void)printf("  accuracy  %s\n", accuracy);
    }
    (void)printf("  stamped   %s %s\n  serial    %s\n  policy    %s\n", info->hash, hex, info->serial, info->policy);
    if (info->signer != NULL) {
        (void)printf("  signer    ");
        print_safe(stdout, span_text(info->signer));
        (void)printf("\n");
    }
    return OK;
}

/* Before it is written: what was asked for, and by a pinned root if there is one. */
static struct fault check_stamp(struct cli *cli, struct span stamp, const struct file_digest *digest, struct span nonce,
                                struct tst_info *ret_info)
{
    CLEANUP(buf_free) struct buf roots = BUF_INIT(PEM_MAX);
    const char *root = root_path(cli);
    if (root != NULL) {
        TRY(files_read(cli->op, root, &roots));
        const struct tst_expect expect = {
            .hash = digest->hash, .digest = file_digest_span(digest), .nonce = nonce, .roots_pem = buf_span(&roots)
        };
        return tst_verify(cli->op, stamp, &expect, ret_info);
    }
    TRY(tst_inspect(cli->op, stamp, ret_info));
    if (strcmp(ret_info->hash, digest->hash) != 0 || !span_equal(ret_info->imprint, file_digest_span(digest)) ||
        !span_equal(ret_info->nonce, nonce)) {
        return op_fail(cli->op, FAULT(TST_INVALID), "the authority stamped something else than was sent");
    }
    return OK;
}

static struct fault fetch(struct cli *cli, const struct file_digest *digest, struct span nonce,
                          struct http_answer *answer)
{
    struct http_request request = { .method = "POST",
                                    .content_type = "application/timestamp-query",
                                    .accept = "application/timestamp-reply" };
    TRY(authority(cli, cli->command->routes[0].path, &request.url));
    TRY(tst_request(cli->op, digest->hash, file_digest_span(digest), nonce, &request.body));
    return exchange(cli, &request, answer);
}

struct fault run_tsa_stamp(struct cli *cli)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct file_digest digest;
    struct tst_info info;
    uint8_t nonce[NONCE_LEN];
    const char *file = cli->arguments[0], *out = cli_flag(cli, "output"), *hash = cli_flag(cli, "digest");
    if (out == NULL) {
        if (strcmp(file, "-") == 0) {
            return op_fail(cli->op, FAULT(BAD_ARGUMENT), "stdin has no name: say with -o where the time stamp goes");
        }
        TRY(arena_printf(cli->op->arena, &out, "%s.tsr", file));
    }
    TRY(files_check_writable(cli->op, out));
    TRY(files_digest(cli->op, file, hash != NULL ? hash : "sha256", &digest));
    TRY(make_nonce(nonce));
    TRY(fetch(cli, &digest, SPAN_ARRAY(nonce), &answer));
    TRY(check_stamp(cli, buf_span(&answer.body), &digest, SPAN_ARRAY(nonce), &info));
    TRY(files_write(cli->op, out, buf_span(&answer.body), 0644));
    if (strcmp(out, "-") == 0) {
        return OK;
    }
    if (!cli->json) {
        (void)printf("stamped: %s\n", out);
    }
    TRY(show(cli, &info, root_path(cli) != NULL));
    if (!cli->json && root_path(cli) == NULL) {
        hint("not checked against a root: give --root or set SVC_TSA_ROOT (svc-cli tsa chain shows the certificates)");
    }
    return OK;
}

struct fault run_tsa_inspect(struct cli *cli)
{
    CLEANUP(buf_free) struct buf stamp = BUF_INIT(STAMP_MAX);
    struct tst_info info;
    TRY(files_read(cli->op, cli->arguments[0], &stamp));
    TRY(tst_inspect(cli->op, buf_span(&stamp), &info));
    TRY(show(cli, &info, false));
    if (!cli->json) {
        hint("nothing of this was checked: svc-cli tsa verify FILE --token %s --root PEM does", cli->arguments[0]);
    }
    return OK;
}

struct fault run_tsa_verify(struct cli *cli)
{
    CLEANUP(buf_free) struct buf stamp = BUF_INIT(STAMP_MAX);
    CLEANUP(buf_free) struct buf roots = BUF_INIT(PEM_MAX);
    CLEANUP(buf_free) struct buf extra = BUF_INIT(PEM_MAX);
    struct file_digest digest;
    struct tst_info info;
    const char *root = root_path(cli), *certificates = cli_flag(cli, "certificates");
    if (root == NULL) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "no root to trust: give --root PEM or set SVC_TSA_ROOT");
    }
    TRY(files_read(cli->op, cli_flag(cli, "token"), &stamp));
    TRY(files_read(cli->op, root, &roots));
    if (certificates != NULL) {
        TRY(files_read(cli->op, certificates, &extra));
    }
    TRY(tst_inspect(cli->op, buf_span(&stamp), &info)); /* says which hash to take of the file */
    TRY(files_digest(cli->op, cli->arguments[0], info.hash, &digest));
    if (!span_equal(info.imprint, file_digest_span(&digest))) {
        return op_fail(cli->op, FAULT(TST_INVALID), "%s is not what was stamped: its %s digest is another",
                       cli->arguments[0], info.hash);
    }
    const struct tst_expect expect = { .hash = digest.hash,
                                       .digest = file_digest_span(&digest),
                                       .roots_pem = buf_span(&roots),
                                       .extra_pem = buf_span(&extra) };
    TRY(tst_verify(cli->op, buf_span(&stamp), &expect, &info));
    if (!cli->json) {
        (void)printf("good time stamp: the file existed at this time\n");
    }
    return show(cli, &info, true);
}

struct fault run_tsa_chain(struct cli *cli)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    const char *out = cli_flag(cli, "output");
    struct http_request request = { .method = "GET" };
    TRY(authority(cli, cli->command->routes[0].path, &request.url));
    TRY(exchange(cli, &request, &answer));
    return files_write(cli->op, out != NULL ? out : "-", buf_span(&answer.body), 0644);
}
