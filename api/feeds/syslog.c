/*
 * Syslog over TLS: messages of RFC 5424 in the frames of RFC 5425 (length, blank, message). Facility 13 (log audit),
 * severity 6. MSG is the record, or a piece of it, with the byte order mark that RFC 5424 6.4 asks for only where it is
 * not plain ASCII.
 */
#include "api/feeds/internal.h"

#include "appliance/base/codec.h"

#define PRIORITY    110 /* 13 * 8 + 6 */
#define ENTERPRISE  32473
#define MESSAGE_MAX 8192
#define HEAD_MAX    640 /* what stands before MSG, at most */
#define BYTES_MAX   ((size_t)900 << 10)
#define BOM         "\xef\xbb\xbf"

static struct fault check(struct op *op, const struct feed_config *config)
{
    const char *host = config->source_host != NULL ? config->source_host : "svc";
    for (const char *at = host; *at != '\0'; at++) {
        if (*at <= ' ' || *at > '~') {
            return op_fail_field(op, FAULT(FEED_CONFIG), "/source_host", "must be printable, without blanks");
        }
    }
    const char *path = strstr(config->url, "://");
    if (path != NULL && strchr(path + 3, '/') != NULL) {
        return op_fail_field(op, FAULT(FEED_CONFIG), "/url", "must be tls://HOST[:PORT], without a path");
    }
    return OK;
}

static size_t piece_max(const struct feed_config *config)
{
    return (size_t)(config->message_max > 0 ? config->message_max : MESSAGE_MAX) - HEAD_MAX;
}

static bool is_ascii(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] > 0x7f) {
            return false;
        }
    }
    return true;
}

/* Length, then the message; times are cut to microseconds already, as TIME-SECFRAC has it. */
static struct fault put_message(const struct feed_render *render, utc_us time, const char *message_id, struct span data,
                                struct span text, struct buf *out)
{
    CLEANUP(buf_free) struct buf message = BUF_INIT((size_t)128 << 10);
    const struct feed_config *config = render->config;
    char stamp[RFC3339_MAX];
    rfc3339_print(time, stamp);
    TRY(buf_printf(&message, "<%d>1 %s %s svc - %s [svcAudit@%lld batch=\"%s\" feed=\"%s\" tenant=\"%s\" %.*s]",
                   PRIORITY, stamp, config->source_host != NULL ? config->source_host : "svc", message_id,
                   (long long)(config->enterprise_number > 0 ? config->enterprise_number : ENTERPRISE),
                   render->batch_id.text, render->feed_id, render->tenant.text, (int)data.len, (const char *)data.at));
    if (text.len > 0) {
        TRY(buf_text(&message, is_ascii(text) ? " " : " " BOM));
        TRY(buf_put(&message, text));
    }
    TRY(buf_printf(out, "%zu ", message.len));
    return buf_put(out, buf_span(&message));
}

static struct fault put_item(const struct feed_render *render, const struct feed_item *item, struct buf *out)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(1024);
    const struct feed_record *record = item->record;
    char chain[2 * SHA256_LEN + 1], digest_text[2 * SHA256_LEN + 1];
    hex_text(SPAN_ARRAY(record->chain.at), chain, sizeof(chain));
    TRY(buf_printf(&data, "sequence=\"%lld\" part=\"%u\" parts=\"%u\" chain=\"%s\"", (long long)record->sequence,
                   item->part, item->parts, chain));
    if (item->oversize) {
        struct sha256 digest;
        TRY(sha256_of(record->record, &digest));
        hex_text(SPAN_ARRAY(digest.at), digest_text, sizeof(digest_text));
        TRY(buf_printf(&data, " bytes=\"%zu\" sha256=\"%s\"", record->record.len, digest_text));
    }
    return put_message(render, record->time, item->oversize ? "digest" : "record", buf_span(&data), item->piece, out);
}

static struct fault put_trailer(const struct feed_render *render, const struct feed_record *last, struct buf *out)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(1024);
    const struct feed_range *range = &render->range;
    char seed[2 * SHA256_LEN + 1], head[2 * SHA256_LEN + 1];
    hex_text(SPAN_ARRAY(range->seed.at), seed, sizeof(seed));
    hex_text(SPAN_ARRAY(range->head.at), head, sizeof(head));
    TRY(buf_printf(&data, "first=\"%lld\" last=\"%lld\" count=\"%lld\" seed=\"%s\" head=\"%s\"",
                   (long long)range->first, (long long)range->last, (long long)(range->last - range->first + 1), seed,
                   head));
    return put_message(render, last->time, "trailer", buf_span(&data), (struct span){ 0 }, out);
}

static const char *const required[] = { NULL };
static const char *const takes[] = { "source_host", "server_name",        "enterprise_number",
                                     "message_max", "client_certificate", NULL };

const struct feed_kind feed_syslog = {
    .name = "syslog",
    .doc = "Syslog over TLS (RFC 5424, RFC 5425)",
    .scheme = "tls",
    .port = "6514",
    .required = required,
    .takes = takes,
    .check = check,
    .open = "",
    .between = "",
    .close = "",
    .item = put_item,
    .trailer = put_trailer,
    .transport = feed_send_tls,
    .records_max = 1000,
    .bytes_max = BYTES_MAX,
    .piece_max = piece_max,
    .proof = "all was written, and the collector answered our close_notify with its own: it has read to the end. "
             "Syslog knows no other receipt",
};
