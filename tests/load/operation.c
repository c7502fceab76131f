/* What is sent: templates filled in, previews turned into executions, pages followed, time-stamp queries made. */
#include "tests/load/load.h"

#include "appliance/base/codec.h"

#include <ctype.h>
#include <stdio.h>

#define DIGEST_LEN 32

uint64_t chance(struct worker *worker)
{
    uint64_t z = worker->random += 0x9e3779b97f4a7c15u; /* splitmix64 */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static void random_at(struct worker *worker, uint8_t *at, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        at[i] = (uint8_t)(chance(worker) >> 13);
    }
}

/* ---- templates ---- */

static void put_field(struct client *client, const char *name, size_t len, struct buf *out)
{
    struct worker *worker = client->worker;
    uint8_t bytes[DIGEST_LEN];
    char text[2 * DIGEST_LEN + 1];
    if (len == 3 && memcmp(name, "key", 3) == 0 && client->tenant->key_count > 0) {
        put(out, client->tenant->keys[chance(worker) % client->tenant->key_count]);
    } else if (len == 1 && name[0] == 'n') {
        (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)client->number);
        put(out, text);
    } else if (len == 3 && memcmp(name, "hex", 3) == 0) {
        random_at(worker, bytes, sizeof(bytes));
        hex_text(SPAN_ARRAY(bytes), text, sizeof(text));
        put(out, text);
    } else if (len == 6 && memcmp(name, "tenant", 6) == 0) {
        put(out, client->tenant->name);
    } else {
        die("row %s: no field {%.*s} here", client->row->name, (int)len, name);
    }
}

/* {name} is a field; any other brace stands for itself, so that JSON needs no escapes. */
static void fill_in(struct client *client, const char *template, struct buf *out)
{
    buf_clear(out);
    for (const char *at = template; *at != 0;) {
        size_t len = *at == '{' ? strspn(at + 1, "abcdefghijklmnopqrstuvwxyz") : 0;
        if (len > 0 && at[len + 1] == '}') {
            put_field(client, at + 1, len, out);
            at += len + 2;
            continue;
        }
        put(out, (char[]){ *at++, 0 });
    }
}

/* ---- time stamps ---- */

/* TimeStampReq (RFC 3161 2.4.1): version 1, SHA-256 of something, a nonce of eight bytes, certReq. */
static void make_query(struct client *client)
{
    static const uint8_t head[] = { 0x30, 0x43, 0x02, 0x01, 0x01, 0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60,
                                    0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04, 0x20 };
    static const uint8_t tail[] = { 0x01, 0x01, 0xff };
    uint8_t imprint[DIGEST_LEN], nonce[10] = { 0x02, 0x08 };
    random_at(client->worker, imprint, sizeof(imprint));
    random_at(client->worker, nonce + 2, 8);
    nonce[2] = (uint8_t)(0x40 | (nonce[2] & 0x3f)); /* positive, in its shortest form */
    buf_clear(&client->body);
    if (FAULTED(buf_put(&client->body, SPAN_ARRAY(head))) || FAULTED(buf_put(&client->body, SPAN_ARRAY(imprint))) ||
        FAULTED(buf_put(&client->body, SPAN_ARRAY(nonce))) || FAULTED(buf_put(&client->body, SPAN_ARRAY(tail)))) {
        die("out of memory");
    }
}

/* PKIStatusInfo (RFC 3161 2.4.2) of status granted and nothing else: 30 03 02 01 00, behind the header of the whole. */
bool stamp_granted(struct span answer)
{
    static const uint8_t granted[] = { 0x30, 0x03, 0x02, 0x01, 0x00 };
    return answer.len > 100 && memcmp(answer.at + 4, granted, sizeof(granted)) == 0;
}

/* ---- signings ---- */

static void make_preview(struct client *client)
{
    uint8_t digest[DIGEST_LEN];
    CLEANUP(buf_free) struct buf text = BUF_INIT(64);
    const char *encoded = "";
    char body[600];
    if (client->tenant->key_count == 0) {
        die("row %s: tenant %s has no key", client->row->name, client->tenant->name);
    }
    random_at(client->worker, digest, sizeof(digest));
    if (FAULTED(base64_encode(SPAN_ARRAY(digest), &text)) || FAULTED(buf_cstr(&text, &encoded))) {
        die("out of memory");
    }
    (void)snprintf(body, sizeof(body), "{\"key_id\":\"%s\",\"artifact_type\":\"load\",\"digest\":\"%s\"}",
                   client->tenant->keys[chance(client->worker) % client->tenant->key_count], encoded);
    buf_clear(&client->body);
    put(&client->body, body);
    buf_clear(&client->first_body);
    put(&client->first_body, body);
    buf_clear(&client->path);
    put(&client->path, "/api/v1/code-signing/preview");
}

bool member_text(struct span json, const char *name, char *out, size_t size)
{
    char mark[64];
    int len = snprintf(mark, sizeof(mark), "\"%s\":\"", name);
    const uint8_t *found = json.len > 0 ? memmem(json.at, json.len, mark, (size_t)len) : NULL;
    if (found == NULL) {
        return false;
    }
    found += len;
    const uint8_t *end = memchr(found, '"', json.len - (size_t)(found - json.at));
    if (end == NULL || (size_t)(end - found) >= size) {
        return false;
    }
    memcpy(out, found, (size_t)(end - found));
    out[end - found] = 0;
    return true;
}

bool operation_execute(struct client *client)
{
    char fingerprint[200], more[260];
    if (!member_text(buf_span(&client->answer), "request_fingerprint", fingerprint, sizeof(fingerprint))) {
        return false;
    }
    (void)snprintf(more, sizeof(more), ",\"preview_fingerprint\":\"%s\"}", fingerprint);
    buf_clear(&client->body);
    if (FAULTED(buf_put(&client->body, span_of(client->first_body.at, client->first_body.len - 1)))) {
        die("out of memory");
    }
    put(&client->body, more);
    buf_clear(&client->path);
    put(&client->path, "/api/v1/code-signing/sign");
    client->step++;
    return true;
}

bool operation_next_page(struct client *client)
{
    char cursor[1024];
    if (client->pages_left == 0 || !member_text(buf_span(&client->answer), "next_cursor", cursor, sizeof(cursor))) {
        return false;
    }
    client->pages_left--;
    fill_in(client, client->row->path, &client->path);
    put(&client->path, memchr(client->path.at, '?', client->path.len) != NULL ? "&cursor=" : "?cursor=");
    put(&client->path, cursor);
    return true;
}

/* ---- any operation ---- */

bool operation_is_preview(const struct client *client)
{
    return client->row->kind == KIND_SIGN && client->step == client->row->first_step;
}

bool operation_is_kept(const struct client *client)
{
    return client->row->kind != KIND_READ && !operation_is_preview(client);
}

const char *operation_method(const struct client *client)
{
    return client->row->kind == KIND_READ ? "GET" : client->row->kind == KIND_MUTATION ? client->row->method : "POST";
}

static const struct row *some_row(struct worker *worker)
{
    const struct profile *profile = worker->load->profile;
    uint64_t sum = 0;
    for (size_t i = 0; i < profile->row_count; i++) {
        sum += profile->rows[i].weight;
    }
    uint64_t at = sum > 0 ? chance(worker) % sum : 0;
    for (size_t i = 0; i < profile->row_count; i++) {
        if (at < profile->rows[i].weight) {
            return &profile->rows[i];
        }
        at -= profile->rows[i].weight;
    }
    die("no row has a weight");
}

static const struct tenant *some_tenant(struct worker *worker)
{
    const struct target *target = worker->load->target;
    uint64_t sum = 0;
    for (size_t i = 0; i < target->tenant_count; i++) {
        sum += target->tenants[i].weight;
    }
    uint64_t at = sum > 0 ? chance(worker) % sum : 0;
    for (size_t i = 0; i < target->tenant_count; i++) {
        if (at < target->tenants[i].weight) {
            return &target->tenants[i];
        }
        at -= target->tenants[i].weight;
    }
    die("no tenant has a weight");
}

static const struct tenant *stamping_tenant(struct worker *worker)
{
    const struct target *target = worker->load->target;
    for (int i = 0; i < 1000; i++) {
        const struct tenant *tenant = some_tenant(worker);
        if (tenant->stamp_path != NULL) {
            return tenant;
        }
    }
    die("a row of time stamps, and no tenant of %zu has a line 'stamps'", target->tenant_count);
}

void operation_begin(struct client *client, double due)
{
    struct worker *worker = client->worker;
    uint8_t random[32];
    client->row = some_row(worker);
    client->tenant = client->row->kind == KIND_STAMP ? stamping_tenant(worker) : some_tenant(worker);
    client->number = atomic_fetch_add(&worker->load->numbers, 1);
    client->phase = worker->phase;
    client->step = client->row->first_step;
    client->tries = 0;
    client->due = client->begun = due;
    client->pages_left = client->row->pages > 0 ? client->row->pages - 1 : 0;
    random_at(worker, random, sizeof(random));
    hex_text(span_of(random, 16), client->key, sizeof(client->key));
    hex_text(span_of(random + 16, 16), client->trace, sizeof(client->trace));
    buf_clear(&client->body);
    switch (client->row->kind) {
    case KIND_SIGN:
        make_preview(client);
        break;
    case KIND_STAMP:
        buf_clear(&client->path);
        put(&client->path, client->tenant->stamp_path);
        make_query(client);
        break;
    case KIND_MUTATION:
        fill_in(client, client->row->body, &client->body);
        [[fallthrough]];
    case KIND_READ:
        fill_in(client, client->row->path, &client->path);
        break;
    }
}
