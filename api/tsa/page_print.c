#include "api/tsa/page.h"

#include "appliance/base/codec.h"
#include "appliance/base/crypto.h"

/* One block, known in advance: the policy names its hash, so no other style is applied, and no script at all. */
static const char style[] =
    ":root{color-scheme:light dark;--ink:#1a1c20;--paper:#fff;--soft:#f2f4f7;--line:#d5dae1;--link:#0b57a4;"
    "--good:#12662f;--bad:#a3200d}"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6e8ec;--paper:#15171b;--soft:#20242b;--line:#39404b;"
    "--link:#8fc1ff;--good:#7ddc9a;--bad:#ff9d8c}}"
    "*{box-sizing:border-box}"
    "body{margin:0 auto;padding:1.5rem 1rem 3rem;max-width:50rem;background:var(--paper);color:var(--ink);"
    "font:1rem/1.55 system-ui,sans-serif}"
    "h1{font-size:1.6rem;line-height:1.25;margin:.5rem 0}h2{font-size:1.15rem;margin:2rem 0 .5rem}"
    "h3{font-size:1rem;margin:1.25rem 0 .25rem}a{color:var(--link)}"
    "dl{margin:0}dt{font-weight:600;margin-top:.75rem}dd{margin:0;overflow-wrap:anywhere}"
    "code,pre{font:.875rem/1.5 ui-monospace,monospace}"
    "pre{background:var(--soft);border:1px solid var(--line);border-radius:.4rem;padding:.75rem;margin:.25rem 0;"
    "overflow-x:auto}"
    ".good{color:var(--good);font-weight:600}.bad{color:var(--bad);font-weight:600}";

static struct fault escaped(struct buf *out, const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        switch (*at) {
        case '&':
            TRY(buf_text(out, "&amp;"));
            break;
        case '<':
            TRY(buf_text(out, "&lt;"));
            break;
        case '>':
            TRY(buf_text(out, "&gt;"));
            break;
        case '"':
            TRY(buf_text(out, "&quot;"));
            break;
        case '\'':
            TRY(buf_text(out, "&#39;"));
            break;
        default:
            TRY(buf_put(out, span_of((const uint8_t *)at, 1)));
            break;
        }
    }
    return OK;
}

static struct fault put_head(struct buf *out)
{
    TRY(buf_text(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                      "<title>Time-stamping authority</title>\n<style>"));
    TRY(buf_text(out, style));
    return buf_text(out, "</style>\n</head>\n<body>\n<main>\n<h1>Time-stamping authority</h1>\n"
                         "<p>Proves that a file existed at a time, and is unchanged since: it signs the file’s digest "
                         "together with the time (RFC 3161). The file itself never comes here, no account is due, and "
                         "the time stamp is verified without this server.</p>\n");
}

static struct fault put_clock(const struct page_facts *facts, struct buf *out)
{
    bool good = facts->clock == CLOCK_TRUSTED;
    TRY(buf_text(out,
                 good ? "<dd><span class=\"good\">Trusted.</span> " : "<dd><span class=\"bad\">Not trusted.</span> "));
    if (!good) {
        TRY(escaped(out, clock_reason_says(facts->clock)));
        return buf_text(out, ". No time stamps are given until it is.</dd>\n");
    }
    return buf_text(out, facts->trusts_host ? "Its host alone vouches for it: nothing measures its error.</dd>\n"
                                            : "It is measured against its sources.</dd>\n");
}

static struct fault put_policies(const struct tsa_rules *rules, struct buf *out)
{
    for (size_t i = 0; i < rules->policy_count; i++) {
        char oid[DER_OID_TEXT_MAX];
        TRY(der_oid_print(rules->policies[i], oid));
        TRY(buf_printf(out, "<dd><code>%s</code>%s</dd>\n", oid, i == 0 ? " (default)" : ""));
    }
    TRY(buf_text(out, "<dt>Digests</dt>\n<dd>"));
    const char *between = "";
    for (size_t i = 0; i < TST_HASH_COUNT; i++) {
        if (rules->hashes[i]) {
            TRY(buf_printf(out, "%s%s", between, tst_hashes[i].name));
            between = ", ";
        }
    }
    return buf_text(out, "</dd>\n");
}

static struct fault put_fingerprint(const char *title, struct span certificate, struct buf *out)
{
    struct sha256 digest;
    char hex[2 * SHA256_LEN + 1];
    TRY(sha256_of(certificate, &digest));
    hex_text(SPAN_ARRAY(digest.at), hex, sizeof(hex));
    return buf_printf(out, "<dt>%s (SHA-256)</dt>\n<dd><code>%s</code></dd>\n", title, hex);
}

static struct fault put_unit(const struct page_facts *facts, struct buf *out)
{
    TRY(buf_text(out, "<h2>Certificates</h2>\n"));
    if (facts->unit == NULL) {
        return buf_text(out, "<p class=\"bad\">No certified unit is in place: no time stamps are given now.</p>\n");
    }
    char until[RFC3339_MAX];
    rfc3339_print(facts->unit->not_after, until);
    TRY(buf_text(out, "<p><a href=\""));
    TRY(escaped(out, facts->url));
    TRY(buf_text(out, "/chain.pem\">chain.pem</a>: the unit that stamps first, former ones after it, the root last. "
                      "Before you trust the root, compare its fingerprint with one that came to you another way.</p>"
                      "\n<dl>\n"));
    TRY(put_fingerprint("Unit", buf_span(&facts->unit->leaf), out));
    TRY(buf_printf(out, "<dt>Unit valid until</dt>\n<dd>%.10s</dd>\n", until));
    TRY(put_fingerprint("Root", buf_span(&facts->unit->root), out));
    return buf_text(out, "</dl>\n");
}

/* `before`, the address, `after`: all that differs between the tools. */
static struct fault put_use(const char *title, const char *before, const char *url, const char *after, struct buf *out)
{
    TRY(buf_text(out, "<h3>"));
    TRY(escaped(out, title));
    TRY(buf_text(out, "</h3>\n<pre tabindex=\"0\"><code>"));
    TRY(escaped(out, before));
    TRY(escaped(out, url));
    TRY(escaped(out, after));
    return buf_text(out, "</code></pre>\n");
}

static struct fault put_uses(const struct page_facts *facts, struct buf *out)
{
    const char *url = facts->url, *plain = facts->plain_url != NULL ? facts->plain_url : url;
    TRY(buf_text(out, "<h2>How to use it</h2>\n"));
    TRY(put_use("openssl and curl",
                "openssl ts -query -data FILE -sha256 -cert -out FILE.tsq\n"
                "curl -sS --fail -H \"Content-Type: application/timestamp-query\" \\\n"
                "  --data-binary @FILE.tsq -o FILE.tsr ",
                url, "\nopenssl ts -verify -queryfile FILE.tsq -in FILE.tsr -CAfile chain.pem", out));
    TRY(put_use("curl, for the certificates", "curl -sS --fail -o chain.pem ", url, "/chain.pem", out));
    TRY(put_use("signtool", "signtool sign /a /fd SHA256 /td SHA256 /tr ", plain, " program.exe", out));
    if (facts->plain_url == NULL) {
        TRY(buf_text(out, "<p>Some versions of signtool take no https address; there is no other one here.</p>\n"));
    }
    TRY(put_use("osslsigncode", "osslsigncode sign -certs codesign.pem -key codesign.key -h sha256 \\\n  -ts ", plain,
                " -in program.exe -out signed.exe", out));
    TRY(put_use("jarsigner", "jarsigner -keystore keys.p12 -tsa ", plain, " archive.jar ALIAS", out));
    TRY(put_use("cosign", "cosign sign-blob --key cosign.key --rfc3161-timestamp FILE.ts \\\n  --timestamp-server-url ",
                url, " FILE", out));
    return put_use("svc-cli", "svc-cli tsa stamp FILE --url ", url,
                   " --root root.pem\nsvc-cli tsa verify FILE --token FILE.tsr --root root.pem", out);
}

struct fault page_print(const struct page_facts *facts, struct buf *out)
{
    TRY(put_head(out));
    TRY(buf_text(out, "<h2>Now</h2>\n<dl>\n<dt>Clock</dt>\n"));
    TRY(put_clock(facts, out));
    TRY(buf_text(out, "<dt>Address</dt>\n<dd><code>"));
    TRY(escaped(out, facts->url));
    TRY(buf_text(out, "</code></dd>\n"));
    if (facts->plain_url != NULL) {
        TRY(buf_text(out, "<dd><code>"));
        TRY(escaped(out, facts->plain_url));
        TRY(buf_text(out, "</code> (for tools that take no https: a time stamp carries its own proof)</dd>\n"));
    }
    TRY(buf_text(out, "<dt>Policies</dt>\n"));
    TRY(put_policies(facts->rules, out));
    TRY(buf_text(out, "</dl>\n"));
    TRY(put_unit(facts, out));
    TRY(put_uses(facts, out));
    return buf_text(out, "</main>\n</body>\n</html>\n");
}

struct fault page_policy(struct buf *out)
{
    struct sha256 digest;
    TRY(sha256_of(span_text(style), &digest));
    TRY(buf_text(out, "default-src 'none'; style-src 'sha256-"));
    TRY(base64_encode(SPAN_ARRAY(digest.at), out));
    return buf_text(out, "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
}

struct fault page_plain_url(struct op *op, const char *base, const char *plain_listen, const char *path,
                            const char **ret_url)
{
    const char *port = strrchr(plain_listen, ':'), *scheme = strstr(base, "://");
    const char *host = scheme != NULL ? scheme + 3 : base;
    size_t len = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/");
    if (port == NULL || len == 0 || len > strlen(host)) {
        *ret_url = NULL;
        return OK;
    }
    return arena_printf(op->arena, ret_url, "http://%.*s%s%s", (int)len, host, strcmp(port, ":80") == 0 ? "" : port,
                        path);
}
