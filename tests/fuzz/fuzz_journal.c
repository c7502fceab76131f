/* rooms: signer_broker base */
/*
 * A journal's folder with any bytes in its files. First byte: how many files (two bits), and whether the checksums of
 * headers and records are made to fit what stands there (else nearly nothing would get past them). Then each file: two
 * bytes of length, and its bytes.
 *
 * Whatever is opened answers every id that its files have a signature for with that signature; what was opened once is
 * opened again and answers the same; and --check-journal is of one mind with the signer.
 */
#include "appliance/base/alloc.h"
#include "appliance/base/codec.h"
#include "appliance/base/file.h"
#include "signer-pkcs11/broker/crc32c.h"
#include "signer-pkcs11/broker/journal_check.h"
#include "signer-pkcs11/broker/journal_internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#define FILES_MAX      4u
#define SIGNATURES_MAX 64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64];

/* ---- checksums that fit ---- */

static void put_u32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        at[i] = (uint8_t)(value >> (24 - 8 * i));
    }
}

static void fit_record(uint8_t *at, size_t size, uint32_t number, size_t offset)
{
    uint8_t place[8];
    put_u32(place, number);
    put_u32(place + 4, (uint32_t)offset);
    put_u32(at + 8, crc32c(crc32c(0, SPAN_ARRAY(place)), span_of(at + 12, size - 12)));
}

static void fit(uint8_t *at, size_t len, uint32_t number)
{
    if (len < SEGMENT_HEADER) {
        return;
    }
    memcpy(at, "svc-signer-jrnl", 15);
    put_u32(at + 16, number);
    put_u32(at + (at[15] == '1' ? 20 : 60), crc32c(0, span_of(at, at[15] == '1' ? 20 : 60)));
    for (size_t offset = SEGMENT_HEADER; offset + RECORD_FIXED <= len;) {
        size_t size = (size_t)at[offset + 6] << 8 | at[offset + 7];
        if (size < RECORD_FIXED || size > len - offset) {
            return;
        }
        fit_record(at + offset, size, number, offset);
        offset += record_size(size - RECORD_FIXED);
    }
}

/* ---- the folder ---- */

static void path_of(uint32_t number, char out[128])
{
    char name[SEGMENT_NAME_MAX];
    segment_name(number, name);
    (void)snprintf(out, 128, "%.60s/%.60s", folder, name);
}

static void folder_empty(void)
{
    for (uint32_t number = 1; number <= FILES_MAX + 4; number++) {
        char path[128];
        path_of(number, path);
        (void)unlink(path);
    }
}

static void folder_fill(const uint8_t *data, size_t size)
{
    unsigned count = 1 + (data[0] & 3), fits = data[0] & 4;
    struct reader reader = { span_of(data + 1, size - 1) };
    for (uint32_t number = 1; number <= count; number++) {
        CLEANUP(mem_freep) uint8_t *bytes = NULL;
        uint16_t len = 0;
        struct span file;
        char path[128];
        if (FAULTED(reader_u16(&reader, &len))) {
            return;
        }
        len = len < reader.rest.len ? len : (uint16_t)reader.rest.len;
        BUG_IF(FAULTED(reader_bytes(&reader, len, &file)) || FAULTED(mem_new(len, 1, &bytes)));
        if (len > 0) {
            memcpy(bytes, file.at, len);
        }
        if (fits) {
            fit(bytes, len, number);
        }
        path_of(number, path);
        CLEANUP(fd_closep) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        BUG_IF(fd < 0 || write(fd, bytes, len) != len);
    }
}

/* ---- what its files say ---- */

struct said {
    uint8_t op_id[RECORD_ID_LEN];
    struct sha256 request, signature;
};
struct all_said {
    struct said at[SIGNATURES_MAX];
    size_t count;
};

static struct fault hear(void *arg, uint32_t number, size_t offset, const struct record *record)
{
    struct all_said *all = arg;
    (void)number, (void)offset;
    if (all->count < SIGNATURES_MAX) {
        struct said *said = &all->at[all->count++];
        memcpy(said->op_id, record->op_id, sizeof(said->op_id));
        said->request = record->request;
        TRY(sha256_of(record->signature, &said->signature));
    }
    return OK;
}

static void no_file(void *arg, uint32_t number, const struct segment_scan *scan)
{
    (void)arg, (void)number;
    BUG_IF(scan->end % RECORD_ALIGN != 0);
}

static bool hear_all(struct all_said *all)
{
    static struct journal_folder files;
    CLEANUP(fd_closep) int fd = -1;
    struct journal_scan scan = { .visit = hear, .file = no_file, .arg = all };
    files = (struct journal_folder){ .path = folder };
    all->count = 0;
    return !FAULTED(journal_folder_open(&files, LOCK_SH, &fd)) && !FAULTED(journal_folder_list(&files)) &&
           !FAULTED(journal_scan(&files, &scan));
}

static void uuid_of(const uint8_t id[RECORD_ID_LEN], struct uuid *out)
{
    char hex[33];
    hex_text(span_of(id, RECORD_ID_LEN), hex, sizeof(hex));
    (void)snprintf(out->text, sizeof(out->text), "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16,
                   hex + 20);
}

/* Of several records under one id, any may answer; but one does, or the id was used for something else. */
static bool is_said(const struct all_said *all, const struct said *asked, struct span signature)
{
    struct sha256 digest;
    BUG_IF(FAULTED(sha256_of(signature, &digest)));
    for (size_t i = 0; i < all->count; i++) {
        const struct said *said = &all->at[i];
        if (memcmp(said->op_id, asked->op_id, RECORD_ID_LEN) == 0 &&
            memcmp(said->signature.at, digest.at, SHA256_LEN) == 0) {
            return true;
        }
    }
    return false;
}

static void ask(struct journal *journal, const struct all_said *all, const struct said *said)
{
    CLEANUP(op_freep) struct op *op = NULL;
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    CLEANUP(journal_leave) struct journal_entry entry = { 0 };
    struct uuid id;
    bool replayed = false;
    uuid_of(said->op_id, &id);
    BUG_IF(FAULTED(op_new("fuzz", (struct tenant_id){ "" }, 10000, &op)));
    struct fault fault = journal_enter(op, journal, &id, &said->request, &entry, &signature, &replayed);
    if (fault.code == FAULT_BAD_ARGUMENT || fault.code == FAULT_SIGNER_OP_MISMATCH) {
        return; /* no UUID, or two records of one id */
    }
    BUG_IF(FAULTED(fault) || !replayed || (all->count < SIGNATURES_MAX && !is_said(all, said, buf_span(&signature))));
}

static bool open_and_ask(const struct all_said *all)
{
    struct journal *journal = NULL;
    uint64_t cut = 0;
    struct fault fault = journal_open_sized(folder, INT64_MAX, 4096, NULL, &cut, &journal);
    if (FAULTED(fault)) {
        BUG_IF(fault.code != FAULT_SIGNER_JOURNAL);
        return false;
    }
    for (size_t i = 0; i < all->count; i++) {
        ask(journal, all, &all->at[i]);
    }
    journal_close(journal);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct all_said before, after;
    CLEANUP(buf_free) struct buf report = BUF_INIT(16384);
    if (folder[0] == 0) {
        (void)snprintf(folder, sizeof(folder), "/tmp/svc-fuzz-journal-XXXXXX");
        BUG_IF(mkdtemp(folder) == NULL);
    }
    if (size == 0) {
        return 0;
    }
    folder_empty();
    folder_fill(data, size);
    bool readable = hear_all(&before);
    BUG_IF(journal_check(folder, CHECK_JSON, &report) != readable);
    BUG_IF(open_and_ask(&before) != readable);
    if (readable) {
        BUG_IF(!hear_all(&after) || after.count != before.count || !open_and_ask(&after));
        BUG_IF(memcmp(before.at, after.at, before.count * sizeof(*before.at)) != 0);
    }
    return 0;
}
