#include "api/cli/stamp.h"

#include "api/cli/api.h"

#define STAMP_MAX ((size_t)1 << 20)
#define PEM_MAX   ((size_t)4 << 20)
#define NONCE_LEN 8

static const char *set_or(const char *value, const char *variable)
{
    const char *set = getenv(variable);
    return value != NULL ? value : set != NULL && set[0] != '\0' ? set : NULL;
}

struct stamp_source stamp_source_of(const struct cli *cli, const char *url_flag, const char *root_flag)
{
    return (struct stamp_source){ .url = url_flag != NULL ? set_or(cli_flag(cli, url_flag), "SVC_TSA_URL") : NULL,
                                  .root = root_flag != NULL ? set_or(cli_flag(cli, root_flag), "SVC_TSA_ROOT") : NULL };
}

static struct fault authority(struct cli *cli, const struct stamp_source *source, const char *path,
                              const char **ret_url)
{
    bool own = source->url == NULL;
    if (own && cli->base_url == NULL) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "no address of an authority: give its URL or set SVC_TSA_URL");
    }
    const char *base = own ? cli->base_url : source->url;
    size_t len = strlen(base);
    while (len > 0 && base[len - 1] == '/') {
        len--;
    }
    return arena_printf(cli->op->arena, ret_url, "%.*s%s", (int)len, base, own ? path : path + strlen(PATH_TSA));
}

struct fault stamp_exchange(struct cli *cli, const struct stamp_source *source, const char *path,
                            struct http_request *request, struct http_answer *answer)
{
    char why[1024] = "";
    request->advise = true;
    TRY(authority(cli, source, path, &request->url));
    request->ca_file = cli->ca_file;
    request->plain_too = true; /* a time stamp carries its own proof */
    request->timeout_ns = cli->timeout_ns;
    request->answer_max = STAMP_MAX;
    do {
        http_answer_clear(answer);
        *answer = (struct http_answer){ 0 };
        if (FAULTED(http_send(request, why, sizeof(why), answer))) {
            return api_unreachable(cli, why);
        }
    } while (api_wait_to_repeat(cli, answer));
    return answer->status == 200 ? OK : api_complain(cli, request->url, answer);
}

/* An INTEGER body: positive, minimal, unforeseeable. */
static struct fault make_nonce(uint8_t nonce[NONCE_LEN])
{
    TRY(random_bytes(nonce, NONCE_LEN));
    nonce[0] = (uint8_t)((nonce[0] & 0x7f) | 0x40);
    return OK;
}

/* Before it is used: what was asked for, and by a pinned root if there is one. */
static struct fault check(struct cli *cli, const struct stamp_source *source, struct span stamp, const char *hash,
                          struct span digest, struct span nonce, struct tst_info *ret_info)
{
    CLEANUP(buf_free) struct buf roots = BUF_INIT(PEM_MAX);
    if (source->root != NULL) {
        TRY(files_read(cli->op, source->root, &roots));
        const struct tst_expect expect = {
            .hash = hash, .digest = digest, .nonce = nonce, .roots_pem = buf_span(&roots)
        };
        return tst_verify(cli->op, stamp, &expect, ret_info);
    }
    TRY(tst_inspect(cli->op, stamp, ret_info));
    if (strcmp(ret_info->hash, hash) != 0 || !span_equal(ret_info->imprint, digest) ||
        !span_equal(ret_info->nonce, nonce)) {
        return op_fail(cli->op, FAULT(TST_INVALID), "the authority stamped something else than was sent");
    }
    return OK;
}

struct fault stamp_fetch(struct cli *cli, const struct stamp_source *source, const char *hash, struct span digest,
                         struct http_answer *answer, struct tst_info *ret_info)
{
    uint8_t nonce[NONCE_LEN];
    struct http_request request = { .method = "POST",
                                    .content_type = "application/timestamp-query",
                                    .accept = "application/timestamp-reply" };
    TRY(make_nonce(nonce));
    TRY(tst_request(cli->op, hash, digest, SPAN_ARRAY(nonce), &request.body));
    TRY(stamp_exchange(cli, source, PATH_TSA, &request, answer));
    return check(cli, source, buf_span(&answer->body), hash, digest, SPAN_ARRAY(nonce), ret_info);
}
