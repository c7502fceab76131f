/* rooms: transparency */
/*
 * What transparency logs say: the first byte picks the door. Oracles: nothing verifies under a key that signed nothing;
 * a refusal says why; an entry that is read is written and read again to the same bytes; a checkpoint's parts are where
 * they stand in its text.
 */
#include "api/transparency/internal.h"

#include <openssl/evp.h>
#include <openssl/x509.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static struct op *op;
static struct tlog_key keys[2];
static struct tlog_trust trust = { .keys = keys, .key_count = 2 };
static struct tlog_expect expect = { .hash = "sha256", .at = 1 };
static uint8_t ders[2][128], digest[32], signature[64] = { 0x30, 0x3e };

static void start(void)
{
    static const char *const kinds[] = { "EC", "ED25519" };
    BUG_IF(FAULTED(op_new("fuzz", (struct tenant_id){ "default" }, 1 << 30, &op)));
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        unsigned char *at = ders[i];
        EVP_PKEY *key =
            i == 0 ? EVP_PKEY_Q_keygen(NULL, NULL, kinds[i], "P-256") : EVP_PKEY_Q_keygen(NULL, NULL, kinds[i]);
        int der_len = i2d_PUBKEY(key, &at);
        BUG_IF(der_len <= 0);
        keys[i].spki = span_of(ders[i], (size_t)der_len);
        EVP_PKEY_free(key);
    }
    expect.digest = SPAN_ARRAY(digest);
    expect.signature = SPAN_ARRAY(signature);
    expect.spki = keys[0].spki;
}

static void must_be_refused(struct fault fault)
{
    BUG_IF(fault.code != FAULT_TLOG_UNVERIFIED);
    BUG_IF(!op->note.set || op->note.code != FAULT_TLOG_UNVERIFIED || op->note.detail[0] == '\0');
}

static void print(const struct tlog_entry *entry, struct buf *out)
{
    struct jout jout;
    jout_init(&jout, out);
    tlog_entry_print(&jout, entry);
    BUG_IF(FAULTED(jout_end(&jout)));
}

static void try_entry(struct span json)
{
    struct tlog_entry entry, again;
    struct fault fault = tlog_entry_read(op, json, &entry);
    if (FAULTED(fault)) {
        must_be_refused(fault);
        return;
    }
    must_be_refused(tlog_entry_verify(op, &entry, &trust, &expect));
    CLEANUP(buf_free) struct buf first = BUF_INIT((size_t)8 << 20);
    CLEANUP(buf_free) struct buf second = BUF_INIT((size_t)8 << 20);
    print(&entry, &first);
    BUG_IF(FAULTED(tlog_entry_read(op, buf_span(&first), &again)));
    print(&again, &second);
    BUG_IF(!span_equal(buf_span(&first), buf_span(&second)));
}

static void try_note(struct span text)
{
    struct note note;
    const struct tlog_key *key = NULL;
    struct sha256 id;
    struct fault fault = note_parse(op, text, &note);
    if (FAULTED(fault)) {
        must_be_refused(fault);
        return;
    }
    BUG_IF(note.text.at != text.at || note.text.at[note.text.len - 1] != '\n' || text.at[note.text.len] != '\n');
    BUG_IF(note.origin.at != text.at || note.text.at[note.origin.len] != '\n');
    BUG_IF(note.signature_count == 0 || note.signature_count > NOTE_SIGNATURES_MAX);
    must_be_refused(note_check(op, &note, &trust, 1, &key, &id));
}

static void try_answer(struct span json)
{
    struct tlog_entry entry;
    const char *id = NULL;
    struct fault fault = rekor_v1_read(op, json, &entry, &id);
    if (FAULTED(fault)) {
        must_be_refused(fault);
        return;
    }
    BUG_IF(strlen(id) != 64 && strlen(id) != 80);
    must_be_refused(tlog_entry_verify(op, &entry, &trust, &expect));
}

static void try_body(struct span body, const char *version)
{
    struct tlog_entry entry = { .kind = "hashedrekord", .version = version, .body = body };
    must_be_refused(tlog_body_check(op, &entry, &expect)); /* nobody knows the key that was made just now */
}

static void try_location(struct span text)
{
    const char *location = NULL, *path = NULL;
    if (FAULTED(arena_text(op->arena, text, &location))) {
        return;
    }
    struct fault fault = tlog_location(op, "https://rekor.example.com/log", location, &path);
    if (FAULTED(fault)) {
        must_be_refused(fault);
        return;
    }
    BUG_IF(strncmp(path, "/api/v1/log/entries/", 20) != 0 ||
           strspn(path + 20, "0123456789abcdef") != strlen(path + 20));
    BUG_IF(location[0] != '/' && strncasecmp(location, "https://rekor.example.com", 25) != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (op == NULL) {
        start();
    }
    if (len == 0) {
        return 0;
    }
    op->note = (struct fault_note){ 0 };
    arena_clear(op->arena);
    struct span rest = span_of(bytes + 1, len - 1);
    switch (bytes[0]) {
    case 'e':
        try_entry(rest);
        break;
    case 'n':
        try_note(rest);
        break;
    case 'a':
        try_answer(rest);
        break;
    case '1':
        try_body(rest, "0.0.1");
        break;
    case '2':
        try_body(rest, "0.0.2");
        break;
    case 'l':
        try_location(rest);
        break;
    default:
        break;
    }
    return 0;
}
