/*
 * How fast exports of the audit trail are verified, on one core: for each shape a file of the wanted size is made (of
 * records as signing makes them, signed by a key of its own), verified from the file, and removed.
 *
 *     bench_audit_verify [MEGABYTES [FOLDER [SHAPE...]]]      100, /tmp, all five
 *
 * Prints one JSON object a line: shape, megabytes, records, seconds, cpu_seconds, mb_per_s, records_per_s, peak_rss_kb.
 */
#include "api/audit/verify.h"
#include "api/projection/chain.h"
#include "appliance/base/file.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define CHECK(call) BUG_IF(FAULTED(call))
#define OUT_MAX     ((size_t)16 << 20)
#define CHUNK       ((size_t)1 << 20)

struct maker {
    struct op *op;
    enum audit_shape shape;
    EVP_PKEY *key;
    struct span spki;
    struct buf out, text;
    struct jws_writer *jws;
    EVP_MD_CTX *md;
    struct audit_frontier frontier;
    struct audit_statement statement;
    int fd;
    int64_t written;
};

static void flush(struct maker *maker)
{
    size_t done = 0;
    while (done < maker->out.len) {
        ssize_t put = write(maker->fd, maker->out.at + done, maker->out.len - done);
        BUG_IF(put <= 0);
        done += (size_t)put;
    }
    maker->written += (int64_t)maker->out.len;
    maker->out.len = 0;
}

/* Text of the export goes through the signature's or the stream's digest. */
static void pass_on(struct maker *maker)
{
    if (maker->shape == AUDIT_JWS) {
        CHECK(jws_writer_payload(maker->jws, buf_span(&maker->text), &maker->out));
    } else {
        BUG_IF(EVP_DigestUpdate(maker->md, maker->text.at, maker->text.len) != 1);
        CHECK(buf_put(&maker->out, buf_span(&maker->text)));
    }
    maker->text.len = 0;
    if (maker->out.len > CHUNK) {
        flush(maker);
    }
}

static void make_record(int64_t sequence, struct buf *record)
{
    static const char *const roles[] = { "operator" };
    char id[64], data[768], subject[32];
    (void)snprintf(
        data, sizeof(data),
        "{\"artifact_type\":\"container-image\",\"digest\":\"u7JqFWcBZsFyDSPrLgT9Ht2bmS4cTZ9x9a9yRNZ%05d=\","
        "\"digest_algorithm\":\"sha256\",\"key_id\":\"0193a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b\","
        "\"operation_id\":\"0193a1b2-c3d4-7e5f-8a9b-%012lld\",\"policy\":\"release\",\"signature\":"
        "\"MEUCIQDj0Yk8pV7h2m3bQxYb0Q7n9sV1xqk5bJ5d8hV3c1mX0gIgf3m2l8kz0m1Jx5uT2nq7Qz6sE9yWb4cA1dR8vK0pL2o=\"}",
        (int)(sequence % 100000), (long long)sequence);
    (void)snprintf(id, sizeof(id), "0193a1b2-c3d4-8e5f-8a9b-%012lld", (long long)sequence);
    (void)snprintf(subject, sizeof(subject), "ci-runner-%lld", (long long)(sequence % 97));
    struct event_view event = {
        .lane = "codesign",
        .type = sequence % 2 == 0 ? "codesign.signed" : "codesign.requested",
        .schema_version = 1,
        .time = 1795233036123456 + sequence * 1000,
        .actor_subject = subject,
        .actor_roles = roles,
        .actor_role_count = 1,
        .trace_id = "4bf92f3577b34da6a3ce929d0e0e4736",
        .data = span_text(data),
        .tenant = { "bench" },
    };
    CHECK(uuid_parse(span_text(id), &event.id));
    CHECK(audit_record_bytes(&event, sequence, record));
}

static void put_entry(struct maker *maker, struct span record, const struct sha256 *chain, bool first)
{
    char hex[2 * SHA256_LEN + 1];
    if (maker->shape != AUDIT_JWS) {
        arena_clear(maker->op->arena);
        CHECK(audit_shape_record(maker->op, maker->shape, record, chain, &maker->text));
        return;
    }
    for (size_t i = 0; i < SHA256_LEN; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", chain->at[i]);
    }
    CHECK(buf_printf(&maker->text, "%s{\"chain\":\"%s\",\"record\":", first ? "" : ",", hex));
    CHECK(buf_put(&maker->text, record));
    CHECK(buf_text(&maker->text, "}"));
}

/* Head and root stand before the records in a bundle, so the records are made twice. */
static void walk(struct maker *maker, bool write)
{
    CLEANUP(buf_free) struct buf record = BUF_INIT(AUDIT_RECORD_MAX);
    struct sha256 leaf, chain = { 0 };
    for (int64_t i = 1; i <= maker->statement.count; i++) {
        make_record(i, &record);
        CHECK(audit_chain_next(&chain, buf_span(&record), &chain));
        if (!write) {
            CHECK(audit_tree_leaf(buf_span(&record), &leaf));
            CHECK(audit_frontier_add(&maker->frontier, &leaf));
            continue;
        }
        put_entry(maker, buf_span(&record), &chain, i == 1);
        pass_on(maker);
    }
    maker->statement.head = chain;
}

static void finish(struct maker *maker)
{
    CLEANUP(buf_free) struct buf compact = BUF_INIT(OUT_MAX);
    if (maker->shape == AUDIT_JWS) {
        CHECK(audit_statement_end(&maker->statement, &maker->text));
        pass_on(maker);
        CHECK(jws_writer_end(maker->op, maker->jws, &maker->out));
        flush(maker);
        return;
    }
    BUG_IF(EVP_DigestFinal_ex(maker->md, maker->statement.stream_sha256.at, NULL) != 1);
    CHECK(audit_statement_begin(&maker->statement, &maker->text));
    CHECK(audit_statement_end(&maker->statement, &maker->text));
    CHECK(jws_sign(maker->op, maker->key, maker->spki, AUDIT_TRAILER_TYP, buf_span(&maker->text), &compact));
    CHECK(audit_shape_trailer(maker->shape, buf_span(&compact), &maker->out));
    flush(maker);
}

static void make(struct maker *maker, int64_t count)
{
    struct audit_statement *statement = &maker->statement;
    *statement = (struct audit_statement){ .shape = maker->shape,
                                           .tenant = { "bench" },
                                           .generation = 1,
                                           .first_sequence = 1,
                                           .last_sequence = count,
                                           .count = count,
                                           .exported_at = "2026-11-21T03:51:00.000000Z",
                                           .tree_size = count };
    walk(maker, false);
    CHECK(audit_frontier_root(&maker->frontier, &statement->tree_root));
    if (maker->shape == AUDIT_JWS) {
        CHECK(jws_writer_new(maker->op, maker->key, maker->spki, AUDIT_EXPORT_TYP, &maker->jws, &maker->out));
        CHECK(audit_statement_begin(statement, &maker->text));
    } else {
        CHECK(audit_shape_begin(maker->shape, &maker->text));
        maker->md = EVP_MD_CTX_new();
        BUG_IF(maker->md == NULL || EVP_DigestInit_ex2(maker->md, EVP_sha256(), NULL) != 1);
    }
    pass_on(maker);
    walk(maker, true);
    finish(maker);
    jws_writer_free(maker->jws);
    EVP_MD_CTX_free(maker->md);
}

static struct fault read_fd(void *context, uint8_t *at, size_t size, size_t *ret_len)
{
    ssize_t got = read(*(int *)context, at, size);
    REQUIRE(got >= 0, IO);
    *ret_len = (size_t)got;
    return OK;
}

static double cpu_seconds(void)
{
    struct timespec time;
    BUG_IF(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) != 0);
    return (double)time.tv_sec + (double)time.tv_nsec / NS_PER_S;
}

static void measure(const struct maker *maker, const struct jwk_set *keys)
{
    CLEANUP(op_freep) struct op *op = NULL;
    int fd = maker->fd;
    struct rusage usage;
    struct audit_verdict verdict;
    struct audit_source source = { .read = read_fd, .context = &fd };
    struct audit_pins pins = { .keys = keys };
    CHECK(audit_verify_op(0, &op));
    BUG_IF(lseek(fd, 0, SEEK_SET) != 0);
    mono_ns from = clock_mono();
    double cpu_from = cpu_seconds();
    struct fault fault = audit_verify(op, &source, &pins, NULL, &verdict);
    double cpu = cpu_seconds() - cpu_from;
    double seconds = (double)(clock_mono() - from) / NS_PER_S, megabytes = (double)verdict.bytes / 1e6;
    if (FAULTED(fault)) {
        (void)fprintf(stderr, "%s: %s: %s\n", audit_shape_name(maker->shape), fault_row(fault.code)->text,
                      verdict.reason);
        exit(1);
    }
    (void)getrusage(RUSAGE_SELF, &usage);
    (void)printf(
        "{\"shape\":\"%s\",\"megabytes\":%.1f,\"records\":%lld,\"seconds\":%.3f,\"cpu_seconds\":%.3f,\"mb_per_s\":%.1f,"
        "\"records_per_s\":%.0f,\"peak_rss_kb\":%ld}\n",
        audit_shape_name(maker->shape), megabytes, (long long)verdict.count, seconds, cpu, megabytes / seconds,
        (double)verdict.count / seconds, usage.ru_maxrss);
    (void)fflush(stdout);
}

static bool wanted(enum audit_shape shape, int argc, char **argv)
{
    for (int i = 3; i < argc; i++) {
        if (strcmp(argv[i], audit_shape_name(shape)) == 0) {
            return true;
        }
    }
    return argc <= 3;
}

int main(int argc, char **argv)
{
    static const double line_bytes[AUDIT_SHAPES] = { 984, 738, 940, 1077, 1562 }; /* about */
    double megabytes = argc > 1 ? strtod(argv[1], NULL) : 100;
    CLEANUP(op_freep) struct op *op = NULL;
    CLEANUP(jwk_set_free) struct jwk_set keys = { 0 };
    CLEANUP(buf_free) struct buf set = BUF_INIT(4096);
    unsigned char *spki = NULL;
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    int len = i2d_PUBKEY(key, &spki);
    BUG_IF(key == NULL || len <= 0);
    CHECK(audit_verify_op(0, &op));
    CHECK(buf_text(&set, "{\"keys\":["));
    CHECK(jwk_print(span_of(spki, (size_t)len), &set));
    CHECK(buf_text(&set, "]}"));
    CHECK(jwk_set_parse(op, buf_span(&set), &keys));
    for (int shape = 0; shape < AUDIT_SHAPES; shape++) {
        if (!wanted((enum audit_shape)shape, argc, argv)) {
            continue;
        }
        char path[512];
        (void)snprintf(path, sizeof(path), "%s/bench-audit-verify.XXXXXX", argc > 2 ? argv[2] : "/tmp");
        struct maker maker = { .op = op,
                               .shape = (enum audit_shape)shape,
                               .key = key,
                               .spki = span_of(spki, (size_t)len),
                               .fd = mkstemp(path) };
        BUG_IF(maker.fd < 0 || unlink(path) != 0); /* gone with the last one who has it open */
        maker.out.max = maker.text.max = OUT_MAX;
        make(&maker, (int64_t)(megabytes * 1e6 / line_bytes[shape]));
        measure(&maker, &keys);
        fd_close(maker.fd);
        buf_free(&maker.out);
        buf_free(&maker.text);
    }
    OPENSSL_free(spki);
    EVP_PKEY_free(key);
    return 0;
}
