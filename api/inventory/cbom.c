/*
 * The bill of materials in the words of CycloneDX 1.6: an algorithm for each that is in use, and every asset with the
 * algorithm that it depends on. Members stand in alphabetical order and nothing tells when it was printed, so that the
 * same facts are the same bytes under the same serial number.
 */
#include "api/inventory/crypto.h"

#include "api/server/tls.h"

#include <stdio.h>

#define PART_MAX READINESS_BYTES_MAX

struct printing {
    struct jout assets, dependencies;
    struct crypto_counts counts;
    int64_t listed;
};

static void print_property(struct jout *out, const char *name, const char *value)
{
    jout_object(out);
    jout_key_text(out, "name", name);
    jout_key_text(out, "value", value);
    jout_object_end(out);
}

static void print_dependency(struct jout *out, const char *ref, const char *on)
{
    jout_object(out);
    jout_key(out, "dependsOn");
    jout_array(out);
    jout_text(out, on);
    jout_array_end(out);
    jout_key_text(out, "ref", ref);
    jout_object_end(out);
}

static void algorithm_ref(const struct crypto_algorithm *algorithm, char out[CRYPTO_OBJECT_MAX])
{
    (void)snprintf(out, CRYPTO_OBJECT_MAX, "algorithm:%s", algorithm->name);
}

/* ---- algorithms ---- */

static void print_functions(struct jout *out, const struct crypto_algorithm *algorithm)
{
    static const char *const signing[] = { "keygen", "sign", "verify" };
    static const char *const sealing[] = { "keygen", "encrypt", "decrypt" };
    static const char *const none[] = { "unknown" };
    const char *const *list = algorithm->mode != NULL                          ? sealing
                              : strcmp(algorithm->primitive, "signature") == 0 ? signing
                                                                               : none;
    size_t count = list == none ? 1 : 3;
    jout_key(out, "cryptoFunctions");
    jout_array(out);
    for (size_t i = 0; i < count; i++) {
        jout_text(out, list[i]);
    }
    jout_array_end(out);
}

static void print_algorithm(struct jout *out, const struct crypto_algorithm *algorithm)
{
    char ref[CRYPTO_OBJECT_MAX];
    algorithm_ref(algorithm, ref);
    jout_object(out);
    jout_key_text(out, "bom-ref", ref);
    jout_key(out, "cryptoProperties");
    jout_object(out);
    jout_key(out, "algorithmProperties");
    jout_object(out);
    if (algorithm->classical_bits != 0) {
        jout_key_int(out, "classicalSecurityLevel", algorithm->classical_bits);
    }
    print_functions(out, algorithm);
    if (algorithm->curve != NULL) {
        jout_key_text(out, "curve", algorithm->curve);
    }
    if (algorithm->mode != NULL) {
        jout_key_text(out, "mode", algorithm->mode);
    }
    jout_key_int(out, "nistQuantumSecurityLevel", algorithm->nist_level);
    if (algorithm->parameter_set[0] != '\0') {
        jout_key_text(out, "parameterSetIdentifier", algorithm->parameter_set);
    }
    jout_key_text(out, "primitive", algorithm->primitive);
    jout_object_end(out);
    jout_key_text(out, "assetType", "algorithm");
    if (algorithm->oid != NULL) {
        jout_key_text(out, "oid", algorithm->oid);
    }
    jout_object_end(out);
    jout_key_text(out, "name", algorithm->title);
    jout_key(out, "properties");
    jout_array(out);
    print_property(out, "svc:posture", crypto_posture_text(algorithm->posture));
    print_property(out, "svc:quantum", crypto_quantum_text(algorithm->quantum));
    jout_array_end(out);
    jout_key_text(out, "type", "cryptographic-asset");
    jout_object_end(out);
}

/* ---- assets: the value of cryptoProperties ---- */

static void print_date(struct jout *out, const char *key, utc_us time)
{
    if (time != 0) {
        jout_key_time(out, key, time);
    }
}

static void print_key(struct jout *out, const struct crypto_asset *asset, const char *algorithm)
{
    bool secret = asset->algorithm->quantum == QUANTUM_SYMMETRIC;
    bool sealed = asset->algorithm->quantum == QUANTUM_POST; /* no mechanism of the token's: it seals the seed */
    jout_object(out);
    jout_key_text(out, "assetType", "related-crypto-material");
    jout_key(out, "relatedCryptoMaterialProperties");
    jout_object(out);
    print_date(out, "activationDate", asset->activated);
    jout_key_text(out, "algorithmRef", algorithm);
    print_date(out, "creationDate", asset->created);
    print_date(out, "expirationDate", asset->not_after);
    jout_key_text(out, "id", asset->object);
    jout_key(out, "securedBy");
    jout_object(out);
    jout_key_text(out, "mechanism", sealed ? "sealed by a PKCS#11 token" : "PKCS#11 token");
    jout_object_end(out);
    if (asset->algorithm->bits != 0) {
        jout_key_int(out, "size", asset->algorithm->bits);
    }
    jout_key_text(out, "state", strcmp(asset->state, "prepared") == 0 ? "pre-activation" : "active");
    jout_key_text(out, "type", secret ? "secret-key" : "private-key");
    jout_object_end(out);
    jout_object_end(out);
}

static void print_certificate(struct jout *out, const struct crypto_asset *asset)
{
    jout_object(out);
    jout_key_text(out, "assetType", "certificate");
    jout_key(out, "certificateProperties");
    jout_object(out);
    jout_key_text(out, "certificateFormat", "X.509");
    if (asset->issuer[0] != '\0') {
        jout_key_text(out, "issuerName", asset->issuer);
    }
    print_date(out, "notValidAfter", asset->not_after);
    print_date(out, "notValidBefore", asset->not_before);
    if (asset->subject[0] != '\0') {
        jout_key_text(out, "subjectName", asset->subject);
    }
    jout_object_end(out);
    jout_object_end(out);
}

static void print_suites(struct jout *out, const char *suites)
{
    jout_key(out, "cipherSuites");
    jout_array(out);
    for (const char *at = suites; *at != '\0';) {
        size_t len = strcspn(at, ":");
        jout_object(out);
        jout_key(out, "name");
        jout_span_text(out, span_of(at, len));
        jout_object_end(out);
        at += len + (at[len] == ':' ? 1 : 0);
    }
    jout_array_end(out);
}

static void print_protocol(struct jout *out, const char *algorithm, const char *version, const char *suites)
{
    jout_object(out);
    jout_key_text(out, "assetType", "protocol");
    jout_key(out, "protocolProperties");
    jout_object(out);
    print_suites(out, suites);
    jout_key(out, "cryptoRefArray");
    jout_array(out);
    jout_text(out, algorithm);
    jout_array_end(out);
    jout_key_text(out, "type", "tls");
    jout_key_text(out, "version", version);
    jout_object_end(out);
    jout_object_end(out);
}

static void print_number(struct jout *out, const char *name, int64_t number)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%lld", (long long)number);
    print_property(out, name, text);
}

static void print_properties(struct jout *out, const struct crypto_asset *asset)
{
    jout_key(out, "properties");
    jout_array(out);
    if (asset->kind == CRYPTO_HTTPS) {
        print_property(out, "svc:groups", SERVER_TLS_GROUPS);
    }
    if (asset->key_object[0] != '\0') {
        print_property(out, "svc:key", asset->key_object);
    }
    print_property(out, "svc:posture", crypto_posture_text(asset->algorithm->posture));
    if (asset->purpose[0] != '\0') {
        print_property(out, "svc:purpose", asset->purpose);
    }
    print_property(out, "svc:quantum", crypto_quantum_text(asset->algorithm->quantum));
    if (asset->kind == CRYPTO_KEY) {
        print_number(out, "svc:signing_operations", asset->signing_operations);
    }
    print_property(out, "svc:state", asset->state);
    print_property(out, "svc:system", asset->system ? "true" : "false");
    jout_array_end(out);
    jout_key_text(out, "type", "cryptographic-asset");
}

static void print_hash(struct jout *out, const char *fingerprint)
{
    jout_key(out, "hashes");
    jout_array(out);
    jout_object(out);
    jout_key_text(out, "alg", "SHA-256");
    jout_key_text(out, "content", fingerprint);
    jout_object_end(out);
    jout_array_end(out);
}

/* The listener speaks two versions, each with suites of its own: two components, one on the other's certificate. */
static void print_component(struct jout *out, const struct crypto_asset *asset, const char *ref, const char *algorithm,
                            bool old_tls)
{
    jout_object(out);
    jout_key_text(out, "bom-ref", ref);
    jout_key(out, "cryptoProperties");
    if (asset->kind == CRYPTO_KEY) {
        print_key(out, asset, algorithm);
    } else if (asset->kind == CRYPTO_CERTIFICATE) {
        print_certificate(out, asset);
        print_hash(out, asset->name);
    } else {
        print_protocol(out, algorithm, old_tls ? "1.2" : "1.3", old_tls ? SERVER_TLS12_CIPHERS : SERVER_TLS13_CIPHERS);
        print_hash(out, asset->name);
    }
    jout_key_text(out, "name",
                  asset->kind == CRYPTO_HTTPS ? old_tls ? "HTTPS listener, TLS 1.2" : "HTTPS listener, TLS 1.3"
                  : asset->subject[0] != '\0' ? asset->subject
                                              : asset->name);
    print_properties(out, asset);
    jout_object_end(out);
}

static struct fault print_asset(void *arg, const struct crypto_asset *asset)
{
    struct printing *printing = arg;
    char algorithm[CRYPTO_OBJECT_MAX];
    crypto_count_asset(&printing->counts, asset);
    if (printing->listed >= READINESS_LISTED) {
        return OK;
    }
    printing->listed++;
    algorithm_ref(asset->algorithm, algorithm);
    print_component(&printing->assets, asset, asset->object, algorithm, false);
    print_dependency(&printing->dependencies, asset->object, algorithm);
    if (asset->kind == CRYPTO_HTTPS) {
        print_component(&printing->assets, asset, CRYPTO_LISTENER ":tls1.2", algorithm, true);
        print_dependency(&printing->dependencies, CRYPTO_LISTENER ":tls1.2", algorithm);
    }
    return FAULTED(printing->assets.first) ? printing->assets.first : printing->dependencies.first;
}

/* ---- the whole ---- */

static void print_metadata(struct jout *out, const struct crypto_counts *counts, const char *tenant)
{
    jout_object(out);
    jout_key(out, "component");
    jout_object(out);
    jout_key_text(out, "bom-ref", "appliance");
    jout_key_text(out, "name", "svc");
    jout_key_text(out, "type", "application");
    jout_key_text(out, "version", SVC_VERSION);
    jout_object_end(out);
    jout_key(out, "properties");
    jout_array(out);
    print_number(out, "svc:approved", counts->posture[POSTURE_APPROVED]);
    print_property(out, "svc:coverage", graph_coverage);
    print_number(out, "svc:excluded:destroyed", counts->destroyed);
    print_number(out, "svc:excluded:ephemeral", counts->ephemeral);
    print_number(out, "svc:excluded:expired", counts->expired);
    print_number(out, "svc:excluded:retired", counts->retired);
    print_number(out, "svc:fenced", counts->posture[POSTURE_FENCED]);
    print_number(out, "svc:post_quantum", counts->quantum[QUANTUM_POST]);
    print_number(out, "svc:quantum_vulnerable", counts->quantum[QUANTUM_VULNERABLE]);
    print_property(out, "svc:tenant", tenant);
    print_number(out, "svc:total", counts->total);
    jout_array_end(out);
    jout_object_end(out);
}

static struct fault serial_of(struct op *op, struct span components, struct span metadata, const char **ret_serial)
{
    const struct span parts[] = { span_text(op->tenant.text), components, metadata };
    struct uuid id;
    TRY(uuid_derive("cbom", parts, COUNT_OF(parts), &id));
    return arena_printf(op->arena, ret_serial, "urn:uuid:%s", id.text);
}

/* One walk: every asset counts, and those that are listed are printed, each with the algorithm it depends on. */
static struct fault print_assets(struct op *op, struct services *services, struct tx *tx, utc_us now,
                                 struct printing *printing)
{
    jout_array(&printing->assets);
    jout_array(&printing->dependencies);
    TRY(crypto_walk(op, services, tx, now, NULL, print_asset, printing));
    TRY(crypto_count_left_out(tx, now, &printing->counts));
    jout_array_end(&printing->assets);
    jout_array_end(&printing->dependencies);
    TRY(jout_end(&printing->assets));
    return jout_end(&printing->dependencies);
}

/* The algorithms in use, which are known behind the walk, in front of the assets. */
static struct fault print_components(const struct crypto_counts *counts, struct span assets, struct buf *components)
{
    struct jout jout;
    jout_init(&jout, components);
    jout_array(&jout);
    for (size_t i = 0; i < CRYPTO_ALGORITHMS; i++) {
        if (counts->algorithms[i] > 0) {
            print_algorithm(&jout, crypto_algorithm_at(i));
        }
    }
    if (counts->total > 0) {
        jout_raw(&jout, span_of(assets.at + 1, assets.len - 2)); /* without its brackets */
    }
    jout_array_end(&jout);
    return jout_end(&jout);
}

struct fault cbom_print(struct op *op, struct services *services, struct tx *tx, utc_us now, struct buf *out)
{
    CLEANUP(buf_free) struct buf assets = BUF_INIT(PART_MAX), dependencies = BUF_INIT(PART_MAX);
    CLEANUP(buf_free) struct buf components = BUF_INIT(PART_MAX), metadata = BUF_INIT(PART_MAX);
    struct printing printing = { 0 };
    const struct crypto_counts *counts = &printing.counts;
    struct jout jout;
    const char *serial = NULL;
    jout_init(&printing.assets, &assets);
    jout_init(&printing.dependencies, &dependencies);
    TRY(print_assets(op, services, tx, now, &printing));
    TRY(print_components(counts, buf_span(&assets), &components));
    buf_free(&assets);
    jout_init(&jout, &metadata);
    print_metadata(&jout, counts, op->tenant.text);
    TRY(jout_end(&jout));
    TRY(serial_of(op, buf_span(&components), buf_span(&metadata), &serial));
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_text(&jout, "$schema", "http://cyclonedx.org/schema/bom-1.6.schema.json");
    jout_key_text(&jout, "bomFormat", "CycloneDX");
    jout_key_raw(&jout, "components", buf_span(&components));
    jout_key(&jout, "compositions");
    jout_array(&jout);
    jout_object(&jout); /* of what lies beyond this appliance nothing is known, so it is never called complete */
    jout_key_text(&jout, "aggregate", printing.listed < counts->total ? "incomplete" : "unknown");
    jout_object_end(&jout);
    jout_array_end(&jout);
    jout_key_raw(&jout, "dependencies", buf_span(&dependencies));
    jout_key_raw(&jout, "metadata", buf_span(&metadata));
    jout_key_text(&jout, "serialNumber", serial);
    jout_key_text(&jout, "specVersion", "1.6");
    jout_key_int(&jout, "version", 1);
    jout_object_end(&jout);
    return jout_end(&jout);
}

/* Printed within one moment's transaction, recorded and sent after it has ended. */
struct fault route_cbom(struct request *request)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(2 * PART_MAX);
    struct sha256 digest;
    {
        CLEANUP(tx_rollbackp) struct tx *tx = NULL;
        TRY(tx_begin_snapshot(request->op, request->services->store, STORE_REQUEST, &tx));
        TRY(cbom_print(request->op, request->services, tx, clock_utc(), &out));
    }
    TRY(sha256_of(buf_span(&out), &digest));
    TRY(crypto_record_read(request, "cbom", &digest));
    TRY(response_stream_begin(request, 0, "application/vnd.cyclonedx+json; version=1.6"));
    return response_stream_write(request, buf_span(&out));
}
