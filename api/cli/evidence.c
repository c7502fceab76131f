/* compliance evidence-pack: fetched, and checked before anything is written. */
#include "api/cli/evidence.h"

#include "api/cli/api.h"
#include "api/cli/files.h"
#include "api/cli/print.h"
#include "appliance/base/codec.h"
#include "appliance/base/json.h"

#define FILE_MODE 0644

static struct fault tell_written(struct cli *cli, const char *path, const struct evidence_verdict *verdict,
                                 size_t bytes)
{
    char hex[2 * SHA256_LEN + 1];
    hex_text(SPAN_ARRAY(verdict->digest.at), hex, sizeof(hex));
    if (cli->json) {
        CLEANUP(buf_free) struct buf json = BUF_INIT(65536);
        struct jout jout;
        jout_init(&jout, &json);
        jout_object(&jout);
        jout_key_text(&jout, "file", path);
        jout_key_int(&jout, "bytes", (int64_t)bytes);
        jout_key_text(&jout, "framework", verdict->framework);
        jout_key_text(&jout, "manifest_sha256", hex);
        jout_key_int(&jout, "controls", verdict->controls);
        jout_key_int(&jout, "evidenced", verdict->evidenced);
        jout_key_int(&jout, "gaps_open", verdict->gaps_open);
        jout_object_end(&jout);
        TRY(jout_end(&jout));
        print_json(buf_span(&json));
        return OK;
    }
    (void)printf(
        "evidence pack: %s, %zu bytes\n  framework  %s\n  controls   %lld evidenced of %lld\n  left open  %lld of "
        "%lld points of operator and auditor\n  manifest   %s\n",
        path, bytes, verdict->framework, (long long)verdict->evidenced, (long long)verdict->controls,
        (long long)verdict->gaps_open, (long long)verdict->gaps, hex);
    return OK;
}

/* Keys and pack from one hand show that the pack is whole, and no more. */
static struct fault fetch_keys(struct cli *cli, struct evidence_pinned *pinned)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    TRY(api_send(cli, &(struct api_call){ .route = api_route(cli, PATH_EVIDENCE_KEYS) }, &answer));
    return evidence_pinned_take(cli, buf_span(&answer.body), pinned);
}

static struct fault fetch_pack(struct cli *cli, struct http_answer *answer)
{
    const struct api_call call = { .route = api_route(cli, PATH_EVIDENCE_PACK),
                                   .id = cli->arguments[0],
                                   .answer_max = EVIDENCE_PACK_MAX };
    return api_send(cli, &call, answer);
}

static struct fault write_pack(struct cli *cli, const struct evidence_pinned *pinned, enum evidence_shape shape,
                               struct span pack)
{
    CLEANUP(op_freep) struct op *op = NULL;
    CLEANUP(buf_free) struct buf out = BUF_INIT(RENDER_MAX);
    struct evidence_verdict verdict = { 0 };
    const char *path = cli_flag(cli, "output");
    bool to_file = path != NULL && strcmp(path, "-") != 0;
    TRY(evidence_verify_op(pack.len, &op));
    struct fault fault = evidence_verify(op, pack, &pinned->pins, &verdict);
    if (FAULTED(fault)) {
        return evidence_refused(cli, "the answer", &verdict, fault);
    }
    TRY(evidence_shape_make(op, shape, &verdict, pack, &out));
    TRY(files_write(cli->op, path != NULL ? path : "-", buf_span(&out), FILE_MODE));
    if (!to_file) {
        (void)fputc('\n', stdout);
        return OK;
    }
    return tell_written(cli, path, &verdict, out.len);
}

struct fault run_evidence_pack(struct cli *cli)
{
    CLEANUP(evidence_pinned_clear) struct evidence_pinned pinned = { 0 };
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    enum evidence_shape shape = EVIDENCE_SHAPE_JSON;
    const char *path = cli_flag(cli, "output");
    bool any = false;
    TRY(evidence_shape_read(cli, EVIDENCE_SHAPE_JSON, &shape));
    TRY(evidence_pinned_read(cli, &pinned, &any));
    TRY(path != NULL ? files_check_writable(cli->op, path) : OK); /* the download is recorded: not for nothing */
    TRY(fetch_pack(cli, &answer));
    TRY(any ? OK : fetch_keys(cli, &pinned)); /* behind the pack: the first one makes the key */
    TRY(write_pack(cli, &pinned, shape, buf_span(&answer.body)));
    if (!any) {
        hint("checked with the keys that the server handed out; pin them once: svc-cli compliance verification-keys");
    }
    return OK;
}
