/*
 * bench_audit --config FILE [--events N] [--tenants N] [--seed N] [--days N]
 *
 * Appends a history to the event log of an appliance, as fast as the log takes it: signings, time stamps, tokens and
 * keys of many tenants ("bench-01" ...), in the shapes and sizes that the features write, each message as the whole
 * product would have written it. The same seed gives the same history, but for the log's own numbers. The first tenant
 * has a seventh of all events, so that an export of it is a large one. With --days the history is one of the last days
 * up to now.
 *
 * A projector that is not at work meanwhile finds it as its backlog. One JSON line: events, messages, bytes, seconds
 * and the last message's number. Run as the user of svc-api.
 */
#include "api/events/internal.h"
#include "appliance/base/codec.h"
#include "appliance/base/config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define TENANTS_MAX  200
#define KEYS         4
#define USERS        6
#define OPEN_MAX     8                  /* signings of a tenant that have begun and not ended */
#define IN_FLIGHT    4096               /* messages that the log has not yet acknowledged */
#define FIRST_US     1767225600000000LL /* 2026-01-01T00:00:00Z */
#define STEP_US      50000000ULL
#define DAY_US       86400000000ULL
#define WAIT_MS      60000
#define SEALED_BYTES 497
#define SPKI_BYTES   91
#define SIGNATURE    71

struct signing {
    struct uuid id;
    unsigned key, user;
};
struct tenant {
    struct tenant_id id;
    struct uuid keys[KEYS], tsa_key;
    struct signing open[OPEN_MAX];
    unsigned open_count;
    uint64_t serial;
    struct uuid last_token;
};
struct bench {
    struct event_log *log;
    uint64_t random, events, messages, bytes, step;
    utc_us now;
    unsigned tenant_count;
    struct tenant tenants[TENANTS_MAX];
    struct buf body;
    struct buf data[EVENTS_PER_MESSAGE_MAX]; /* of the message at hand */
    struct event parts[EVENTS_PER_MESSAGE_MAX];
    size_t count;
};

/* ---- chance, the same each time ---- */

static uint64_t chance(struct bench *bench)
{
    uint64_t z = bench->random += 0x9e3779b97f4a7c15u; /* splitmix64 */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static unsigned below(struct bench *bench, unsigned limit)
{
    return limit > 0 ? (unsigned)(chance(bench) % limit) : 0;
}

static struct uuid some_uuid(struct bench *bench)
{
    struct uuid id;
    uint64_t a = chance(bench), b = chance(bench);
    (void)snprintf(id.text, sizeof(id.text), "%08x-%04x-8%03x-%04x-%012llx", (unsigned)(a >> 32),
                   (unsigned)(a >> 16) & 0xffff, (unsigned)a & 0xfff, 0x8000u | ((unsigned)(b >> 48) & 0x3fff),
                   (unsigned long long)(b & 0xffffffffffff));
    return id;
}

struct encoded {
    char text[1024];
};

static struct encoded some_bytes(struct bench *bench, size_t len, struct fault (*encode)(struct span, struct buf *))
{
    uint8_t bytes[512];
    struct encoded encoded = { 0 };
    CLEANUP(buf_free) struct buf out = BUF_INIT(sizeof(encoded.text));
    const char *text = "";
    for (size_t i = 0; i < len; i++) {
        bytes[i] = (uint8_t)chance(bench);
    }
    BUG_IF(len > sizeof(bytes) || FAULTED(encode(span_of(bytes, len), &out)) || FAULTED(buf_cstr(&out, &text)));
    (void)snprintf(encoded.text, sizeof(encoded.text), "%s", text);
    return encoded;
}

static struct encoded some_hex(struct bench *bench)
{
    return some_bytes(bench, SHA256_LEN, hex_encode);
}

static struct encoded some_base64(struct bench *bench, size_t len)
{
    return some_bytes(bench, len, base64_encode);
}

/* ---- one message ---- */

__attribute__((format(printf, 3, 4))) static void add(struct bench *bench, const char *type, const char *format, ...)
{
    char text[4096];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    BUG_IF(len < 0 || (size_t)len >= sizeof(text) || bench->count == EVENTS_PER_MESSAGE_MAX);
    struct buf *data = &bench->data[bench->count];
    data->max = sizeof(text);
    buf_clear(data);
    BUG_IF(FAULTED(buf_put(data, span_of(text, (size_t)len))));
    bench->parts[bench->count++] = (struct event){ type, 1, buf_span(data) };
}

static void drain(struct bench *bench)
{
    jsPubOptions options;
    BUG_IF(jsPubOptions_Init(&options) != NATS_OK);
    options.MaxWait = WAIT_MS;
    natsStatus status = js_PublishAsyncComplete(bench->log->js, &options);
    if (status != NATS_OK) {
        (void)fprintf(stderr, "bench_audit: the log did not acknowledge: %s\n", natsStatus_GetText(status));
        exit(1);
    }
}

static void send_as(struct bench *bench, const struct tenant *tenant, const char *lane, const char *subject,
                    const char *role)
{
    char address[256];
    struct principal actor = { 0 };
    struct uuid id = some_uuid(bench);
    struct encoded trace = some_bytes(bench, 16, hex_encode);
    (void)snprintf(actor.subject, sizeof(actor.subject), "%s", subject);
    if (role != NULL) {
        (void)snprintf(actor.roles[actor.role_count++], sizeof(actor.roles[0]), "%s", role);
    }
    bench->now += (utc_us)(chance(bench) % bench->step);
    const struct event_body body = {
        .actor = &actor,
        .tenant = tenant->id,
        .lane = lane,
        .trace_id = trace.text,
        .message_id = id,
        .time = bench->now,
        .events = bench->parts,
        .count = bench->count,
    };
    BUG_IF(FAULTED(event_message_encode(&body, &bench->body)));
    (void)snprintf(address, sizeof(address), "svc.events.%s.%s", tenant->id.text, lane);
    natsStatus status = js_PublishAsync(bench->log->js, address, bench->body.at, (int)bench->body.len, NULL);
    if (status != NATS_OK) {
        (void)fprintf(stderr, "bench_audit: the log did not take a message: %s\n", natsStatus_GetText(status));
        exit(1);
    }
    bench->messages++;
    bench->events += bench->count;
    bench->bytes += bench->body.len;
    bench->count = 0;
    if (bench->messages % IN_FLIGHT == 0) {
        drain(bench);
    }
}

static const char *user(unsigned number)
{
    static const char *const users[USERS] = { "release-pipeline", "ada@example.org",  "build-42",
                                              "operator",         "nightly-packages", "firmware-line" };
    return users[number];
}

/* ---- what happens ---- */

static void begin_signing(struct bench *bench, struct tenant *tenant)
{
    struct signing signing = { .id = some_uuid(bench) };
    struct encoded command = some_hex(bench), request = some_hex(bench), sealed = some_base64(bench, SEALED_BYTES);
    signing.key = below(bench, KEYS);
    signing.user = below(bench, USERS);
    add(bench, "codesign.commanded",
        "{\"artifact_type\":\"file\",\"command_fingerprint\":\"%s\",\"command_id\":\"%s\",\"count\":1,"
        "\"digest_algorithm\":\"sha256\",\"key_id\":\"%s\",\"mode\":\"key\",\"operation_id\":\"%s\",\"position\":0,"
        "\"request_fingerprint\":\"%s\",\"sealed_command\":\"%s\",\"signature_scheme\":\"ecdsa\","
        "\"transparency_destination\":\"none\"}",
        command.text, signing.id.text, tenant->keys[signing.key].text, signing.id.text, request.text, sealed.text);
    tenant->open[tenant->open_count++] = signing;
    send_as(bench, tenant, "codesign", user(signing.user), "operator");
}

static void end_signing(struct bench *bench, struct tenant *tenant)
{
    struct signing signing = tenant->open[0];
    tenant->open_count--;
    memmove(tenant->open, tenant->open + 1, tenant->open_count * sizeof(signing));
    if (below(bench, 50) == 0) {
        add(bench, "codesign.refused",
            "{\"code\":\"policy_denied\",\"command_id\":\"%s\",\"detail\":\"the policy does not allow it\",\"mode\":\"key\","
            "\"operation_id\":\"%s\",\"policy_rule\":\"working-hours\",\"resource\":\"\"}",
            signing.id.text, signing.id.text);
    } else {
        struct encoded digest = some_base64(bench, SHA256_LEN), key = some_hex(bench),
                       signature = some_base64(bench, SIGNATURE);
        add(bench, "codesign.signed",
            "{\"algorithm\":\"ec-p256\",\"approved_mode\":true,\"artifact_type\":\"file\",\"digest\":\"%s\","
            "\"digest_algorithm\":\"sha256\",\"key_id\":\"%s\",\"operation_id\":\"%s\",\"principal\":\"%s\","
            "\"public_key_sha256\":\"%s\",\"signature\":\"%s\",\"signature_scheme\":\"ecdsa\"}",
            digest.text, tenant->keys[signing.key].text, signing.id.text, user(signing.user), key.text, signature.text);
        add(bench, "codesign.completed",
            "{\"command_id\":\"%s\",\"mode\":\"key\",\"operation_id\":\"%s\",\"transparency_destination\":\"none\"}",
            signing.id.text, signing.id.text);
    }
    send_as(bench, tenant, "codesign", "system:outbox", NULL);
}

/* Mostly alone; what comes while one is being appended goes together with others. */
static void stamp(struct bench *bench, struct tenant *tenant)
{
    unsigned kind = below(bench, 100);
    unsigned many = kind < 60 ? 1 : kind < 80 ? 2 : kind < 90 ? 3 + below(bench, 6) : 9 + below(bench, 16);
    for (unsigned i = 0; i < many; i++) {
        char when[RFC3339_MAX];
        struct encoded imprint = some_hex(bench), token = some_hex(bench);
        rfc3339_print(bench->now / 1000 * 1000, when);
        add(bench, "tsa.timestamp.issued",
            "{\"gen_time\":\"%s\",\"hash_algorithm\":\"sha256\",\"imprint\":\"%s\",\"key_id\":\"%s\","
            "\"policy\":\"1.3.6.1.4.1.57264.2.1.1\",\"serial\":\"%llu\",\"token_sha256\":\"%s\"}",
            when, imprint.text, tenant->tsa_key.text, (unsigned long long)9437184 + tenant->serial++, token.text);
    }
    send_as(bench, tenant, "tsa", "tsa:anonymous", NULL);
}

static void issue_token(struct bench *bench, struct tenant *tenant, unsigned number)
{
    char expires[RFC3339_MAX];
    rfc3339_print(bench->now + 30 * 24 * 3600 * US_PER_S, expires);
    tenant->last_token = some_uuid(bench);
    struct encoded hash = some_hex(bench);
    unsigned last = below(bench, 0x10000);
    add(bench, "identity.token.issued",
        "{\"expires_at\":\"%s\",\"last4\":\"%04x\",\"roles\":[\"operator\"],\"subject\":\"%s\",\"token_hash\":\"%s\","
        "\"token_id\":\"%s\"}",
        expires, last, user(number), hash.text, tenant->last_token.text);
    send_as(bench, tenant, "identity", "admin", "admin");
}

static void revoke_token(struct bench *bench, struct tenant *tenant)
{
    add(bench, "identity.token.revoked", "{\"reason\":\"rotated\",\"token_id\":\"%s\"}", tenant->last_token.text);
    send_as(bench, tenant, "identity", "admin", "admin");
}

static struct uuid make_key(struct bench *bench, const struct tenant *tenant, const char *name, const char *purpose)
{
    struct uuid id = some_uuid(bench);
    struct encoded spki = some_base64(bench, SPKI_BYTES);
    add(bench, "key.generated",
        "{\"algorithm\":\"ec-p256\",\"key_id\":\"%s\",\"name\":\"%s\",\"public_key_der\":\"%s\",\"purpose\":\"%s\","
        "\"system\":false}",
        id.text, name, spki.text, purpose);
    send_as(bench, tenant, "keys", user(0), "operator");
    return id;
}

static void found(struct bench *bench, struct tenant *tenant)
{
    static const char *const names[KEYS] = { "release", "nightly", "firmware", "packages" };
    add(bench, "tenant.created", "{\"tenant_id\":\"%s\"}", tenant->id.text);
    send_as(bench, tenant, "tenants", "system:cli", NULL);
    for (unsigned i = 0; i < USERS; i++) {
        issue_token(bench, tenant, i);
    }
    for (unsigned i = 0; i < KEYS; i++) {
        tenant->keys[i] = make_key(bench, tenant, names[i], "codesign");
    }
    tenant->tsa_key = make_key(bench, tenant, "stamps", "codesign");
}

static void happen(struct bench *bench)
{
    unsigned first = below(bench, 7);
    struct tenant *tenant = &bench->tenants[first == 0 ? 0 : below(bench, bench->tenant_count)];
    unsigned kind = below(bench, 1000);
    if (kind < 970) {
        if (kind % 2 == 0) {
            stamp(bench, tenant);
        } else if (tenant->open_count < OPEN_MAX) {
            begin_signing(bench, tenant);
        }
    } else if (kind < 985) {
        issue_token(bench, tenant, below(bench, USERS));
    } else {
        revoke_token(bench, tenant);
    }
    while (tenant->open_count > 2) {
        end_signing(bench, tenant);
    }
}

/* No key of this history lies in a token: in the end all are retired, so that nobody tries them. */
static void end_all(struct bench *bench)
{
    for (unsigned i = 0; i < bench->tenant_count; i++) {
        struct tenant *tenant = &bench->tenants[i];
        while (tenant->open_count > 0) {
            end_signing(bench, tenant);
        }
        for (unsigned j = 0; j <= KEYS; j++) {
            const struct uuid *key = j < KEYS ? &tenant->keys[j] : &tenant->tsa_key;
            add(bench, "key.retired", "{\"key_id\":\"%s\"}", key->text);
            send_as(bench, tenant, "keys", user(0), "operator");
        }
    }
}

static int run(struct bench *bench, uint64_t wanted)
{
    struct event_log_state before, after;
    CLEANUP(op_freep) struct op *op = NULL;
    BUG_IF(FAULTED(op_new("bench", (struct tenant_id){ "" }, WAIT_MS * 100, &op)));
    BUG_IF(FAULTED(event_log_state_now(op, bench->log, &before)));
    mono_ns begun = clock_mono();
    for (unsigned i = 0; i < bench->tenant_count; i++) {
        (void)snprintf(bench->tenants[i].id.text, sizeof(bench->tenants[i].id.text), "bench-%02u", i + 1);
        found(bench, &bench->tenants[i]);
    }
    uint64_t last = (uint64_t)bench->tenant_count * (KEYS + 1 + 2 * 2); /* what end_all adds */
    while (bench->events + last < wanted) {
        happen(bench);
    }
    end_all(bench);
    drain(bench);
    double seconds = (double)(clock_mono() - begun) / 1e9;
    BUG_IF(FAULTED(event_log_state_now(op, bench->log, &after)));
    if (after.last_seq < before.last_seq + bench->messages) {
        (void)fprintf(stderr, "bench_audit: the log has fewer messages than were sent\n");
        return 1;
    }
    (void)printf("{\"events\":%llu,\"messages\":%llu,\"bytes\":%llu,\"seconds\":%.2f,\"last_seq\":%llu}\n",
                 (unsigned long long)bench->events, (unsigned long long)bench->messages,
                 (unsigned long long)bench->bytes, seconds, (unsigned long long)after.last_seq);
    return 0;
}

static uint64_t option(int argc, char **argv, const char *name, uint64_t otherwise)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], name) == 0) {
            return strtoull(argv[i + 1], NULL, 10);
        }
    }
    return otherwise;
}

int main(int argc, char **argv)
{
    static struct bench bench;
    struct config *config = NULL;
    const char *file = NULL;
    CLEANUP(buf_free) struct buf why = BUF_INIT(65536);
    for (int i = 1; i + 1 < argc; i += 2) {
        file = strcmp(argv[i], "--config") == 0 ? argv[i + 1] : file;
    }
    uint64_t tenants = option(argc, argv, "--tenants", 20), events = option(argc, argv, "--events", 1000000);
    uint64_t days = option(argc, argv, "--days", 0);
    if (file == NULL || tenants < 1 || tenants > TENANTS_MAX) {
        (void)fprintf(stderr,
                      "usage: bench_audit --config FILE [--events N] [--tenants 1..200] [--seed N] [--days N]\n");
        return 2;
    }
    bench = (struct bench){ .random = option(argc, argv, "--seed", 1), .now = FIRST_US, .body = BUF_INIT(1 << 20) };
    bench.tenant_count = (unsigned)tenants;
    bench.step = STEP_US;
    if (days > 0) { /* half as many messages as events; a step is half of its most on average */
        bench.now = clock_utc() - (utc_us)(days * DAY_US);
        bench.step = days * DAY_US / (events / 4 + 1) / 100 * 95;
    }
    if (FAULTED(config_load(file, &why, &config)) || FAULTED(event_log_open(config, &why, &bench.log))) {
        (void)fprintf(stderr, "bench_audit: %.*s\n", (int)why.len, why.len > 0 ? (const char *)why.at : "");
        return 1;
    }
    int code = run(&bench, events);
    for (size_t i = 0; i < EVENTS_PER_MESSAGE_MAX; i++) {
        buf_free(&bench.data[i]);
    }
    buf_free(&bench.body);
    event_log_close(bench.log);
    config_free(config);
    return code;
}
