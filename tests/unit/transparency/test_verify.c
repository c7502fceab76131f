#include "tlog_testlib.h"

static struct log rekor;
static struct signing artifact;

static int set_up(void **state)
{
    if (op_open(state) != 0) {
        return 1;
    }
    log_open(&rekor, "P-256", "log.example - 42");
    signing_make(&artifact);
    return 0;
}

static int tear_down(void **state)
{
    log_close(&rekor);
    EVP_PKEY_free(artifact.key);
    return op_close(state);
}

static void refused_because(const struct tlog_entry *entry, const struct tlog_trust *trust,
                            const struct tlog_expect *expect, const char *why)
{
    test_op->note = (struct fault_note){ 0 };
    assert_fault(tlog_entry_verify(test_op, entry, trust, expect), TLOG_UNVERIFIED);
    if (strstr(test_op->note.detail, why) == NULL) {
        fail_msg("said \"%s\", not \"%s\"", test_op->note.detail, why);
    }
}
#define refused(entry, why) refused_because(&(entry), &rekor.trust, &artifact.expect, (why))

static void accepted_by(const struct tlog_entry *entry, const struct tlog_trust *trust,
                        const struct tlog_expect *expect)
{
    test_op->note = (struct fault_note){ 0 };
    struct fault fault = tlog_entry_verify(test_op, entry, trust, expect);
    if (FAULTED(fault)) {
        fail_msg("refused: %s", test_op->note.detail);
    }
}
#define accepted(entry) accepted_by(&(entry), &rekor.trust, &artifact.expect)

/* ---- what the entry speaks of ---- */

static void an_entry_of_another_digest_signature_or_key_is_refused(void **state)
{
    (void)state;
    struct tlog_entry entry = entry_v1(&rekor, &artifact.expect);
    struct tlog_expect expect = artifact.expect;
    expect.digest = bent(expect.digest, 31);
    refused_because(&entry, &rekor.trust, &expect, "another digest");
    expect = artifact.expect;
    expect.hash = "sha384";
    refused_because(&entry, &rekor.trust, &expect, "another digest");
    expect = artifact.expect;
    expect.signature = bent(expect.signature, 20);
    refused_because(&entry, &rekor.trust, &expect, "another signature");
    expect = artifact.expect;
    expect.spki = bent(expect.spki, expect.spki.len - 1);
    refused_because(&entry, &rekor.trust, &expect, "another key");
    expect = artifact.expect;
    expect.certificate = some_certificate();
    refused_because(&entry, &rekor.trust, &expect, "another certificate");
}

static void an_entry_of_a_certificate_does_not_pass_for_one_of_its_key(void **state)
{
    (void)state;
    struct tlog_expect certified = artifact.expect;
    certified.certificate = some_certificate();
    struct tlog_entry entry = entry_v1(&rekor, &certified);
    refused(entry, "another key");
    accepted_by(&entry, &rekor.trust, &certified);
}

static struct tlog_entry with_body(const char *text)
{
    struct tlog_entry entry = entry_v1(&rekor, &artifact.expect);
    entry.body = span_text(text);
    promise(&rekor, &entry);
    add_proof(&rekor, &entry, 5, 7);
    return entry;
}

static void a_body_that_is_no_hashedrekord_is_refused(void **state)
{
    (void)state;
    const char *good = keep_text(body_v1(&artifact.expect));
    const char *text = NULL;
    struct tlog_entry entry = with_body("");
    refused(entry, "no body");
    entry = with_body("[]");
    refused(entry, "no hashedrekord");
    entry = with_body("{}");
    refused(entry, "no hashedrekord");
    assert_fault(arena_printf(test_op->arena, &text, "%.*s,\"more\":1}", (int)strlen(good) - 1, good), NONE);
    entry = with_body(text);
    refused(entry, "unknown member");
    assert_fault(arena_printf(test_op->arena, &text, "%s{}", good), NONE);
    entry = with_body(text);
    refused(entry, "no hashedrekord");
    entry = entry_v1(&rekor, &artifact.expect);
    entry.kind = "intoto";
    refused(entry, "kind other than hashedrekord");
    entry.kind = "hashedrekord";
    entry.version = "0.0.3";
    refused(entry, "version other than");
    entry.version = "0.0.2";
    refused(entry, "no hashedrekord");
    entry.kind = NULL;
    refused(entry, "kind other than hashedrekord");
}

static void a_body_whose_own_version_differs_is_refused(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf text = BUF_INIT(65536);
    assert_fault(buf_put(&text, body_v1(&artifact.expect)), NONE);
    uint8_t *at = memmem(text.at, text.len, "0.0.1", 5);
    at[4] = '2';
    struct tlog_entry entry = with_body(keep_text(buf_span(&text)));
    refused(entry, "another kind or version");
}

static void a_verifier_that_is_no_pem_is_refused(void **state)
{
    (void)state;
    static const char *const pems[] = {
        "-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----\n",
        "-----BEGIN PUBLIC KEY-----\n!!!!\n-----END PUBLIC KEY-----\n",
        "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n",
        "AAAA",
    };
    for (size_t i = 0; i < COUNT_OF(pems); i++) {
        const char *text = NULL;
        assert_fault(arena_printf(test_op->arena, &text,
                                  "{\"apiVersion\":\"0.0.1\",\"kind\":\"hashedrekord\",\"spec\":{\"data\":{\"hash\":"
                                  "{\"algorithm\":\"sha256\",\"value\":\"%s\"}},\"signature\":{\"content\":\"%s\","
                                  "\"publicKey\":{\"content\":\"%s\"}}}}",
                                  hex_of(artifact.expect.digest), base64_of(artifact.expect.signature),
                                  base64_of(span_text(pems[i]))),
                     NONE);
        struct tlog_entry entry = with_body(text);
        refused(entry, "neither a public key nor a certificate");
    }
}

static void a_v2_body_with_both_verifiers_or_none_is_refused(void **state)
{
    (void)state;
    const char *good = keep_text(body_v2(&artifact.expect)), *text = NULL;
    const char *mark = strstr(good, "\"publicKey\"");
    struct tlog_entry entry = entry_v2(&rekor, &artifact.expect);
    struct tlog_expect expect = artifact.expect;
    expect.at = LOG_TIME * US_PER_S;
    assert_fault(arena_printf(test_op->arena, &text, "%.*s\"x509Certificate\":{\"rawBytes\":\"AAAA\"},%s",
                              (int)(mark - good), good, mark),
                 NONE);
    entry.body = span_text(text);
    refused_because(&entry, &rekor.trust, &expect, "either a public key or a certificate");
    assert_fault(arena_printf(test_op->arena, &text, "%.*s}}}}}", (int)(mark - good) - 1, good), NONE);
    entry.body = span_text(text);
    refused_because(&entry, &rekor.trust, &expect, "either a public key or a certificate");
}

/* ---- the signed entry timestamp ---- */

static void each_field_of_the_timestamp_altered_is_refused(void **state)
{
    (void)state;
    static const char why[] = "timestamp does not verify";
    struct tlog_entry entry = entry_v1(&rekor, &artifact.expect);
    entry.integrated_time++;
    refused(entry, why);
    entry = entry_v1(&rekor, &artifact.expect);
    entry.log_index++;
    refused(entry, why);
    entry = entry_v1(&rekor, &artifact.expect);
    entry.log_index = entry.proof_index; /* the tree's index is not the log's */
    refused(entry, why);
    const struct tlog_entry good = entry_v1(&rekor, &artifact.expect); /* signatures are not all of one length */
    for (size_t at = 0; at < good.set.len; at += 7) {
        entry = good;
        entry.set = bent(good.set, at);
        refused(entry, why);
    }
    entry = entry_v1(&rekor, &artifact.expect);
    entry.set.len--;
    refused(entry, why);
    entry = entry_v1(&rekor, &artifact.expect);
    entry.log_id = bent(entry.log_id, 3);
    refused(entry, "log id is not that of a pinned key");
    entry = entry_v1(&rekor, &artifact.expect);
    entry.log_id.len = 4;
    refused(entry, "log id is not that of a pinned key");
    entry = entry_v1(&rekor, &artifact.expect);
    entry.integrated_time = 0;
    refused(entry, "without a time");
    entry.integrated_time = INT64_MAX;
    refused(entry, "without a time");
    entry = entry_v1(&rekor, &artifact.expect);
    entry.log_index = -1;
    refused(entry, "out of range");
}

static void a_body_altered_after_the_timestamp_was_made_is_refused(void **state)
{
    (void)state;
    struct tlog_entry entry = entry_v1(&rekor, &artifact.expect);
    const char *text = NULL;
    assert_fault(arena_printf(test_op->arena, &text, " %s", keep_text(entry.body)), NONE); /* the same JSON */
    entry.body = span_text(text);
    refused(entry, "timestamp does not verify");
}

static void another_logs_key_is_refused(void **state)
{
    (void)state;
    struct log other;
    log_open(&other, "P-256", "log.example - 42");
    struct tlog_entry entry = entry_v1(&rekor, &artifact.expect);
    refused_because(&entry, &other.trust, &artifact.expect, "log id is not that of a pinned key");
    entry = entry_v1(&other, &artifact.expect);
    refused(entry, "log id is not that of a pinned key");
    entry.log_id = keep(SPAN_ARRAY(rekor.id.at)); /* it says that it were the pinned one */
    promise(&other, &entry);
    refused(entry, "timestamp does not verify");
    const struct tlog_trust nobody = { 0 };
    refused_because(&entry, &nobody, &artifact.expect, "log id is not that of a pinned key");
    log_close(&other);
}

static void a_key_outside_its_window_is_refused(void **state)
{
    (void)state;
    struct tlog_entry entry = entry_v1(&rekor, &artifact.expect);
    struct tlog_key key = rekor.pinned;
    const struct tlog_trust trust = { .keys = &key, .key_count = 1 };
    key.valid_from = LOG_TIME * US_PER_S + 1;
    refused_because(&entry, &trust, &artifact.expect, "not valid at the entry's time");
    key.valid_from = 0;
    key.valid_until = LOG_TIME * US_PER_S;
    refused_because(&entry, &trust, &artifact.expect, "not valid at the entry's time");
    key.valid_from = LOG_TIME * US_PER_S;
    key.valid_until = LOG_TIME * US_PER_S + 1;
    accepted_by(&entry, &trust, &artifact.expect);
}

static void of_two_windows_of_one_key_either_counts(void **state)
{
    (void)state;
    struct tlog_entry entry = entry_v1(&rekor, &artifact.expect);
    struct tlog_key keys[2] = { rekor.pinned, rekor.pinned };
    const struct tlog_trust trust = { .keys = keys, .key_count = 2 };
    keys[0].valid_until = 1;
    keys[1].valid_from = LOG_TIME * US_PER_S - 1;
    accepted_by(&entry, &trust, &artifact.expect);
}

/* ---- the inclusion proof ---- */

static void each_field_of_the_proof_altered_is_refused(void **state)
{
    (void)state;
    static const char why[] = "does not lead from the entry";
    struct tlog_entry entry = entry_v1(&rekor, &artifact.expect);
    for (size_t i = 0; i < entry.hash_count; i++) {
        entry = entry_v1(&rekor, &artifact.expect);
        entry.hashes[i] = bent(entry.hashes[i], 9);
        refused(entry, why);
    }
    entry = entry_v1(&rekor, &artifact.expect);
    entry.hash_count--;
    refused(entry, why);
    entry = entry_v1(&rekor, &artifact.expect);
    entry.hashes[entry.hash_count++] = entry.root_hash;
    refused(entry, why);
    entry = entry_v1(&rekor, &artifact.expect);
    entry.hashes[0].len = 31;
    refused(entry, why);
    for (int64_t index = 0; index < 9; index++) {
        entry = entry_v1(&rekor, &artifact.expect);
        entry.proof_index = index;
        if (index != 5) {
            refused(entry, why);
        }
    }
    entry = entry_v1(&rekor, &artifact.expect);
    entry.tree_size++;
    refused(entry, "another tree size");
    entry.tree_size = 0;
    refused(entry, "out of range");
    entry = entry_v1(&rekor, &artifact.expect);
    entry.proof_index = -1;
    refused(entry, "out of range");
    entry = entry_v1(&rekor, &artifact.expect);
    entry.root_hash = bent(entry.root_hash, 0);
    refused(entry, "another root");
    entry.root_hash.len = 0;
    refused(entry, "another root");
    entry = entry_v1(&rekor, &artifact.expect);
    entry.checkpoint = NULL;
    refused(entry, "no checkpoint");
}

static void a_proof_of_another_size_with_a_checkpoint_of_its_own_is_refused(void **state)
{
    (void)state;
    struct tlog_entry entry = entry_v1(&rekor, &artifact.expect);
    struct tlog_entry other = entry_v1(&rekor, &artifact.expect);
    add_proof(&rekor, &other, 5, 6);
    other.hashes = entry.hashes;
    other.hash_count = entry.hash_count;
    refused(other, "does not lead from the entry");
}

static void an_entry_with_neither_timestamp_nor_proof_is_refused(void **state)
{
    (void)state;
    struct tlog_entry entry = entry_v1(&rekor, &artifact.expect);
    entry.set.len = entry.root_hash.len = 0;
    entry.tree_size = 0;
    entry.hash_count = 0;
    entry.checkpoint = NULL;
    refused(entry, "neither");
}

/* ---- the checkpoint ---- */

static const char *altered(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from), *made = NULL;
    assert_non_null(at);
    assert_fault(arena_printf(test_op->arena, &made, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)), NONE);
    return made;
}

static void an_altered_checkpoint_is_refused(void **state)
{
    (void)state;
    struct tlog_entry entry = entry_v1(&rekor, &artifact.expect);
    const char *good = entry.checkpoint;
    static const struct {
        const char *from, *to, *why;
    } rows[] = {
        { "log.example - 42", "log.example - 43", "signature does not verify" },
        { "\n7\n", "\n8\n", "signature does not verify" },
        { "\n7\n", "\n07\n", "no tree size" },
        { "\n7\n", "\n-7\n", "no tree size" },
        { "\n7\n", "\n99999999999999999\n", "no tree size" },
        { "\n7\n", "\n\n", "no tree size" },
        { "=\n\n", "\n\n", "no root hash" },
        { "=\n\n", "=\nmore\n\n", "signature does not verify" },
        { "\n\n", "\n", "no empty line" },
        { "\xe2\x80\x94 ", "- ", "does not begin with a dash" },
        { "\xe2\x80\x94 log.example ", "\xe2\x80\x94 ", "no name" },
        { "\xe2\x80\x94 log.example ", "\xe2\x80\x94 log.example !", "not base64" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        entry.checkpoint = altered(good, rows[i].from, rows[i].to);
        refused(entry, rows[i].why);
    }
    entry.checkpoint = keep_text(span_of(good, strlen(good) - 1));
    refused(entry, "does not end with a newline");
    entry.checkpoint = keep_text(span_of(good, (size_t)(strstr(good, "\n\n") - good) + 2));
    refused(entry, "not signed");
    entry.checkpoint = "";
    refused(entry, "no empty line");
    entry.checkpoint = "\n\n\n\n\n";
    refused(entry, "lacks its origin");
}

static void a_checkpoint_that_nobody_pinned_signed_is_refused(void **state)
{
    (void)state;
    struct log other;
    struct sha256 root;
    log_open(&other, "P-256", "log.example - 42");
    struct tlog_entry entry = entry_v1(&rekor, &artifact.expect);
    memcpy(root.at, entry.root_hash.at, SHA256_LEN);
    entry.checkpoint = checkpoint_of(&other, 7, &root);
    refused(entry, "no pinned key signed");
    /* A second signature beside the log's own is no harm: a witness's. */
    const char *text = checkpoint_text(&rekor, 7, &root), *both = NULL;
    assert_fault(arena_printf(test_op->arena, &both, "%s\n%s%s", text, sign_line(&other, span_text(text)),
                              sign_line(&rekor, span_text(text))),
                 NONE);
    entry.checkpoint = both;
    accepted(entry);
    log_close(&other);
}

static void a_bad_signature_under_a_pinned_keys_id_is_refused_although_a_good_one_is_there(void **state)
{
    (void)state;
    struct sha256 root;
    struct tlog_entry entry = entry_v1(&rekor, &artifact.expect);
    memcpy(root.at, entry.root_hash.at, SHA256_LEN);
    const char *text = checkpoint_text(&rekor, 7, &root), *both = NULL;
    assert_fault(arena_printf(test_op->arena, &both, "%s\n%s%s", text, sign_line(&rekor, span_text(text)),
                              sign_line(&rekor, span_text("something else\n"))),
                 NONE);
    entry.checkpoint = both;
    refused(entry, "signature does not verify");
}

static void a_checkpoint_of_another_origin_is_refused(void **state)
{
    (void)state;
    struct tlog_entry entry = entry_v1(&rekor, &artifact.expect);
    struct tlog_trust trust = rekor.trust;
    trust.origin = "log.example";
    refused_because(&entry, &trust, &artifact.expect, "another origin");
    trust.origin = "log.example - 42";
    accepted_by(&entry, &trust, &artifact.expect);
}

static void too_many_signatures_are_refused(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf text = BUF_INIT(65536);
    struct tlog_entry entry = entry_v1(&rekor, &artifact.expect);
    const char *line = strstr(entry.checkpoint, "\n\n") + 2;
    assert_fault(buf_text(&text, entry.checkpoint), NONE);
    for (int i = 0; i < NOTE_SIGNATURES_MAX; i++) {
        assert_fault(buf_text(&text, line), NONE);
    }
    entry.checkpoint = keep_text(buf_span(&text));
    refused(entry, "more than 16 signatures");
}

/* ---- entries whose time nobody signed ---- */

static void an_entry_without_timestamp_needs_a_time_for_keys_with_windows(void **state)
{
    (void)state;
    struct tlog_entry entry = entry_v2(&rekor, &artifact.expect);
    struct tlog_expect expect = artifact.expect;
    struct tlog_key key = rekor.pinned;
    const struct tlog_trust trust = { .keys = &key, .key_count = 1 };
    accepted_by(&entry, &trust, &expect); /* a key for ever */
    key.valid_from = 1;
    refused_because(&entry, &trust, &expect, "not valid at the entry's time");
    key.valid_from = 0;
    key.valid_until = INT64_MAX;
    refused_because(&entry, &trust, &expect, "had ended");
    key.valid_from = 1;
    expect.at = LOG_TIME * US_PER_S;
    accepted_by(&entry, &trust, &expect);
    key.valid_until = expect.at;
    refused_because(&entry, &trust, &expect, "had ended");
    key.valid_until = 0;
    key.valid_from = expect.at + 1;
    refused_because(&entry, &trust, &expect, "not valid at the entry's time");
}

static void the_time_that_a_log_merely_states_is_not_believed(void **state)
{
    (void)state;
    struct tlog_entry entry = entry_v2(&rekor, &artifact.expect);
    struct tlog_expect expect = artifact.expect;
    struct tlog_key key = rekor.pinned;
    const struct tlog_trust trust = { .keys = &key, .key_count = 1 };
    key.valid_until = LOG_TIME * US_PER_S;
    entry.integrated_time = LOG_TIME - 10; /* as if the key had still been valid */
    expect.at = LOG_TIME * US_PER_S + 10;
    refused_because(&entry, &trust, &expect, "had ended");
}

static void an_entry_without_timestamp_is_named_after_its_checkpoints_key(void **state)
{
    (void)state;
    struct tlog_entry entry = entry_v2(&rekor, &artifact.expect);
    struct tlog_expect expect = artifact.expect;
    expect.at = LOG_TIME * US_PER_S;
    entry.log_id = bent(entry.log_id, 0);
    refused_because(&entry, &rekor.trust, &expect, "log id is not that of the key");
    entry.log_id.len = 0;
    refused_because(&entry, &rekor.trust, &expect, "log id is not that of the key");
    entry = entry_v2(&rekor, &artifact.expect);
    entry.log_id.len = 4;
    accepted_by(&entry, &rekor.trust, &expect);
}

/* ---- what is right ---- */

static void an_entry_of_rekor_v1_is_accepted(void **state)
{
    (void)state;
    struct tlog_entry entry = entry_v1(&rekor, &artifact.expect);
    accepted(entry);
    entry.set.len = 0; /* by its proof alone */
    accepted(entry);
    entry = entry_v1(&rekor, &artifact.expect);
    entry.root_hash.len = 0; /* by its timestamp alone */
    entry.tree_size = entry.proof_index = 0;
    entry.hash_count = 0;
    entry.checkpoint = NULL;
    accepted(entry);
}

static void each_kind_of_log_key_is_accepted(void **state)
{
    (void)state;
    static const char *const types[] = { "P-256", "P-384", "Ed25519" };
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        struct log log;
        log_open(&log, types[i], "log.example");
        struct tlog_expect expect = artifact.expect;
        expect.at = LOG_TIME * US_PER_S;
        struct tlog_entry entry = entry_v2(&log, &expect);
        accepted_by(&entry, &log.trust, &expect);
        entry = entry_v1(&log, &expect);
        accepted_by(&entry, &log.trust, &expect);
        if (strcmp(types[i], "P-384") == 0) {
            log.hash = "SHA384";
            entry = entry_v1(&log, &expect);
            accepted_by(&entry, &log.trust, &expect);
        }
        if (log.hash == NULL) { /* under another name the same key is another signer */
            entry = entry_v2(&log, &expect);
            entry.checkpoint = altered(entry.checkpoint, "\x94 log.example ", "\x94 log2.example ");
            refused_because(&entry, &log.trust, &expect, "no pinned key signed");
        }
        log_close(&log);
    }
}

static void a_key_of_another_kind_is_no_logs_key(void **state)
{
    (void)state;
    const char *details = NULL;
    EVP_PKEY *rsa = EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)2048);
    assert_fault(tlog_key_check(spki_of(rsa), &details), BAD_ARGUMENT);
    EVP_PKEY_free(rsa);
    assert_fault(tlog_key_check(span_text("not a key"), &details), BAD_ARGUMENT);
    assert_fault(tlog_key_check((struct span){ 0 }, &details), BAD_ARGUMENT);
    assert_fault(tlog_key_check(rekor.pinned.spki, &details), NONE);
    assert_string_equal(details, "PKIX_ECDSA_P256_SHA_256");
}

static void every_leaf_of_every_small_tree_is_proven_and_no_other_place_is(void **state)
{
    (void)state;
    struct span hashes[TLOG_HASHES_MAX];
    for (size_t size = 1; size <= 40; size++) {
        struct tree *tree = grow(span_text("x"), SIZE_MAX, size);
        struct sha256 root, found;
        hash_range(tree, 0, size, &root);
        for (size_t index = 0; index < size; index++) {
            size_t count = prove(tree, index, 0, size, hashes);
            assert_fault(tlog_root_of(index, size, &tree->leaves[index], hashes, count, &found), NONE);
            assert_memory_equal(found.at, root.at, SHA256_LEN);
            for (size_t other = 0; other < size + 2; other++) {
                struct fault fault = tlog_root_of(other, size, &tree->leaves[index], hashes, count, &found);
                assert_true(other == index || FAULTED(fault) || memcmp(found.at, root.at, SHA256_LEN) != 0);
            }
        }
        arena_clear(test_op->arena);
    }
}

/* ---- TransparencyLogEntry ---- */

static void an_entry_is_read_as_it_was_written(void **state)
{
    (void)state;
    struct tlog_entry entries[] = { entry_v1(&rekor, &artifact.expect), entry_v2(&rekor, &artifact.expect) };
    for (size_t i = 0; i < COUNT_OF(entries); i++) {
        CLEANUP(buf_free) struct buf json = BUF_INIT(65536);
        struct tlog_expect expect = artifact.expect;
        struct tlog_entry read;
        struct jout jout;
        jout_init(&jout, &json);
        tlog_entry_print(&jout, &entries[i]);
        assert_fault(jout_end(&jout), NONE);
        assert_fault(tlog_entry_read(test_op, buf_span(&json), &read), NONE);
        expect.at = LOG_TIME * US_PER_S;
        accepted_by(&read, &rekor.trust, &expect);
        assert_int_equal(read.log_index, entries[i].log_index);
        assert_int_equal(read.integrated_time, entries[i].integrated_time);
        assert_int_equal(read.set.len, entries[i].set.len);
    }
}

static void what_is_no_entry_is_not_read_as_one(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "[]",
        "{",
        "{\"logIndex\":\"-1\"}",
        "{\"logIndex\":\"12x\"}",
        "{\"logIndex\":\"\"}",
        "{\"logIndex\":\"9007199254740993\"}",
        "{\"logIndex\":1.5}",
        "{\"logId\":{\"keyId\":\"!\"}}",
        "{\"canonicalizedBody\":7}",
        "{\"inclusionProof\":{\"hashes\":[\"AAAA\"]}}",
        "{\"inclusionProof\":{\"hashes\":[7]}}",
        "{\"kindVersion\":{\"kind\":\"hashedrekord\\u0000x\"}}",
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct tlog_entry entry;
        test_op->note = (struct fault_note){ 0 };
        struct fault fault = tlog_entry_read(test_op, span_text(texts[i]), &entry);
        if (fault.code != FAULT_TLOG_UNVERIFIED) {
            fail_msg("%s was read", texts[i]);
        }
    }
}

static void an_empty_object_is_an_entry_that_does_not_verify(void **state)
{
    (void)state;
    struct tlog_entry entry;
    assert_fault(tlog_entry_read(test_op, span_text("{\"unknown\":[1,{}]}"), &entry), NONE);
    refused(entry, "neither");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(an_entry_of_another_digest_signature_or_key_is_refused),
        CASE(an_entry_of_a_certificate_does_not_pass_for_one_of_its_key),
        CASE(a_body_that_is_no_hashedrekord_is_refused),
        CASE(a_body_whose_own_version_differs_is_refused),
        CASE(a_verifier_that_is_no_pem_is_refused),
        CASE(a_v2_body_with_both_verifiers_or_none_is_refused),
        CASE(each_field_of_the_timestamp_altered_is_refused),
        CASE(a_body_altered_after_the_timestamp_was_made_is_refused),
        CASE(another_logs_key_is_refused),
        CASE(a_key_outside_its_window_is_refused),
        CASE(of_two_windows_of_one_key_either_counts),
        CASE(each_field_of_the_proof_altered_is_refused),
        CASE(a_proof_of_another_size_with_a_checkpoint_of_its_own_is_refused),
        CASE(an_entry_with_neither_timestamp_nor_proof_is_refused),
        CASE(an_altered_checkpoint_is_refused),
        CASE(a_checkpoint_that_nobody_pinned_signed_is_refused),
        CASE(a_bad_signature_under_a_pinned_keys_id_is_refused_although_a_good_one_is_there),
        CASE(a_checkpoint_of_another_origin_is_refused),
        CASE(too_many_signatures_are_refused),
        CASE(an_entry_without_timestamp_needs_a_time_for_keys_with_windows),
        CASE(the_time_that_a_log_merely_states_is_not_believed),
        CASE(an_entry_without_timestamp_is_named_after_its_checkpoints_key),
        CASE(an_entry_of_rekor_v1_is_accepted),
        CASE(each_kind_of_log_key_is_accepted),
        CASE(a_key_of_another_kind_is_no_logs_key),
        CASE(every_leaf_of_every_small_tree_is_proven_and_no_other_place_is),
        CASE(an_entry_is_read_as_it_was_written),
        CASE(what_is_no_entry_is_not_read_as_one),
        CASE(an_empty_object_is_an_entry_that_does_not_verify),
    };
    return cmocka_run_group_tests_name("transparency/verify", tests, NULL, NULL);
}
