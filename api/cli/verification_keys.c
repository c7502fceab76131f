/* audit and compliance verification-keys, rotate-key: the sets that verifiers pin. */
#include "api/cli/api.h"
#include "api/cli/cli.h"
#include "api/cli/files.h"
#include "api/cli/print.h"
#include "appliance/base/json.h"

#define FILE_MODE 0644

static struct fault tell_file(const char *path, size_t bytes)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(65536);
    struct jout jout;
    jout_init(&jout, &json);
    jout_object(&jout);
    jout_key_text(&jout, "file", path);
    jout_key_int(&jout, "bytes", (int64_t)bytes);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    print_json(buf_span(&json));
    return OK;
}

struct fault run_verification_keys(struct cli *cli)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    const char *path = cli_flag(cli, "output");
    TRY(api_send(cli, &(struct api_call){ 0 }, &answer));
    TRY(files_write(cli->op, path != NULL ? path : "-", buf_span(&answer.body), FILE_MODE));
    if (path == NULL || strcmp(path, "-") == 0) {
        (void)fputc('\n', stdout);
        return OK;
    }
    if (cli->json) {
        return tell_file(path, answer.body.len);
    }
    (void)printf("verification keys: %s, %zu bytes\n", path, answer.body.len);
    hint("pin them: keep them apart from what they are to check");
    return OK;
}

struct fault run_rotate_verification_key(struct cli *cli)
{
    static const struct column columns[] = {
        { "KEY", "key_id", COLUMN_TEXT },
        { "KID", "jwk.kid", COLUMN_TEXT },
        { "ALGORITHM", "jwk.alg", COLUMN_TEXT },
        { "SIGNS FROM", "jwk.svc_not_before", COLUMN_TIME },
    };
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct view key;
    TRY(api_json(cli, &(struct api_call){ 0 }, &answer, &key));
    if (cli->json) {
        print_json(buf_span(&answer.body));
        return OK;
    }
    print_pairs(cli->op, stdout, key, columns, COUNT_OF(columns));
    hint("pin the set again (verification-keys)");
    return OK;
}
