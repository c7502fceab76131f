#include "api/cli/tsa.h"
#include "api/cli/api.h"
#include "api/cli/files.h"
#include "api/cli/print.h"
#include "api/cli/stamp.h"
#include "appliance/base/codec.h"
#include "appliance/base/json.h"

#define STAMP_MAX ((size_t)1 << 20)
#define PEM_MAX   ((size_t)4 << 20)

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

struct fault tsa_show(struct cli *cli, const struct tst_info *info, bool verified)
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

struct fault run_tsa_stamp(struct cli *cli)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    const struct stamp_source source = stamp_source_of(cli, "url", "root");
    struct file_digest digest;
    struct tst_info info;
    const char *file = cli->arguments[0], *out = cli_flag(cli, "output"), *hash = cli_flag(cli, "digest");
    if (out == NULL) {
        if (strcmp(file, "-") == 0) {
            return op_fail(cli->op, FAULT(BAD_ARGUMENT), "stdin has no name: say with -o where the time stamp goes");
        }
        TRY(arena_printf(cli->op->arena, &out, "%s.tsr", file));
    }
    TRY(files_check_writable(cli->op, out));
    TRY(files_digest(cli->op, file, hash != NULL ? hash : "sha256", &digest));
    TRY(stamp_fetch(cli, &source, digest.hash, file_digest_span(&digest), &answer, &info));
    TRY(files_write(cli->op, out, buf_span(&answer.body), 0644));
    if (strcmp(out, "-") == 0) {
        return OK;
    }
    if (!cli->json) {
        (void)printf("stamped: %s\n", out);
    }
    TRY(tsa_show(cli, &info, source.root != NULL));
    if (!cli->json && source.root == NULL) {
        hint("not checked against a root: give --root or set SVC_TSA_ROOT (svc-cli tsa chain shows the certificates)");
    }
    return OK;
}

struct fault run_tsa_chain(struct cli *cli)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    const struct stamp_source source = stamp_source_of(cli, "url", NULL);
    const char *out = cli_flag(cli, "output");
    struct http_request request = { .method = "GET" };
    TRY(stamp_exchange(cli, &source, cli->command->routes[0].path, &request, &answer));
    return files_write(cli->op, out != NULL ? out : "-", buf_span(&answer.body), 0644);
}
