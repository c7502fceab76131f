/* Journals in folders of their own, and fdatasync under the test's control: it takes the C library's place. */
#ifndef TESTS_UNIT_BROKER_JOURNAL_H
#define TESTS_UNIT_BROKER_JOURNAL_H

#include "signer-pkcs11/broker/journal_internal.h"
#include "testlib.h"

#include "appliance/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_uint syncs;        /* calls so far */
static atomic_bool sync_fails;   /* the next ones answer EIO */
static atomic_bool sync_holds;   /* the next ones wait until it is false again */
static atomic_uint syncs_held;   /* how many do */
static atomic_uint sync_tickets; /* one is let go for each */
static atomic_bool sync_slow;    /* the next ones take as long as a disk does */

int fdatasync(int fd);
int fdatasync(int fd)
{
    atomic_fetch_add(&syncs, 1);
    atomic_fetch_add(&syncs_held, 1);
    for (unsigned ticket = 0; atomic_load(&sync_holds);) {
        if (ticket > 0 && atomic_compare_exchange_strong(&sync_tickets, &ticket, ticket - 1)) {
            break;
        }
        ticket = atomic_load(&sync_tickets);
        (void)sched_yield();
    }
    atomic_fetch_sub(&syncs_held, 1);
    if (atomic_load(&sync_slow)) {
        (void)nanosleep(&(struct timespec){ .tv_nsec = 50 * 1000 }, NULL);
    }
    if (atomic_load(&sync_fails)) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fdatasync, fd);
}

struct place {
    char folder[64];
};

static inline struct place place_new(void)
{
    struct place place;
    (void)snprintf(place.folder, sizeof(place.folder), "/tmp/svc-journal-XXXXXX");
    assert_non_null(mkdtemp(place.folder));
    return place;
}

static inline void place_free(struct place *place)
{
    DIR *dir = opendir(place->folder);
    for (const struct dirent *entry = dir != NULL ? readdir(dir) : NULL; entry != NULL; entry = readdir(dir)) {
        (void)unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    (void)rmdir(place->folder);
}

static inline void segment_path(const struct place *place, uint32_t number, char out[128])
{
    char name[SEGMENT_NAME_MAX];
    segment_name(number, name);
    (void)snprintf(out, 128, "%.60s/%.60s", place->folder, name);
}

static inline void segment_load(const struct place *place, uint32_t number, struct buf *out)
{
    char path[128];
    segment_path(place, number, path);
    buf_clear(out);
    assert_fault(file_read(path, out), NONE);
}

static inline struct fault visit_nothing(void *arg, uint32_t number, size_t offset, const struct record *record)
{
    (void)arg, (void)number, (void)offset, (void)record;
    return OK;
}

/* Without the zeros that stand ahead of the next record. */
static inline void segment_load_records(const struct place *place, uint32_t number, struct buf *out)
{
    struct segment_scan scan = { 0 };
    segment_load(place, number, out);
    assert_fault(segment_read(buf_span(out), number, visit_nothing, NULL, &scan), NONE);
    assert_true(scan.clean && !scan.damaged);
    out->len = scan.end;
}

static inline void segment_store(const struct place *place, uint32_t number, struct span bytes)
{
    char path[128];
    segment_path(place, number, path);
    CLEANUP(fd_closep) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes.at, bytes.len), (ssize_t)bytes.len);
}

static inline struct journal *journal_in(const struct place *place, size_t segment_bytes)
{
    struct journal *journal = NULL;
    uint64_t cut = 0;
    assert_fault(journal_open_sized(place->folder, JOURNAL_RETENTION_MIN, segment_bytes, NULL, &cut, &journal), NONE);
    return journal;
}

static inline struct op *op_within(int ms)
{
    struct op *op = NULL;
    assert_fault(op_new("test", (struct tenant_id){ "" }, ms, &op), NONE);
    return op;
}

static inline struct uuid id_of(unsigned n)
{
    struct uuid id;
    (void)snprintf(id.text, sizeof(id.text), "0190b3c4-0000-7000-8000-%012x", n);
    return id;
}

static inline struct sha256 hash_of_number(unsigned n)
{
    struct sha256 hash = { 0 };
    memcpy(hash.at, &n, sizeof(n));
    return hash;
}

/* Where the first record stands, behind the mark of the opening. */
#define FIRST_AT (SEGMENT_HEADER + RECORD_MARK_SIZE)

/* A record of 144 bytes: no padding, so that every byte of it matters. */
#define SIGNATURE_LEN 80
static inline void signature_of(unsigned n, uint8_t out[SIGNATURE_LEN])
{
    for (size_t i = 0; i < SIGNATURE_LEN; i++) {
        out[i] = (uint8_t)(n * 31 + i * 7 + 1);
    }
}

/* Signs operation n as a signer would. */
static inline struct fault sign_once(struct op *op, struct journal *journal, unsigned n, bool *ret_replayed)
{
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    CLEANUP(journal_leave) struct journal_entry entry = { 0 };
    struct uuid id = id_of(n);
    struct sha256 request = hash_of_number(n);
    uint8_t made[SIGNATURE_LEN];
    bool replayed = false;
    signature_of(n, made);
    TRY(journal_enter(op, journal, &id, &request, &entry, &signature, &replayed));
    *ret_replayed = replayed;
    if (replayed) {
        return span_equal(buf_span(&signature), SPAN_ARRAY(made)) ? OK : FAULT(SIGNATURE_INVALID);
    }
    return journal_commit(op, &entry, SPAN_ARRAY(made));
}

static inline void assert_signs(struct journal *journal, unsigned n, bool replayed)
{
    CLEANUP(op_freep) struct op *op = op_within(60000);
    bool was = !replayed;
    assert_fault(sign_once(op, journal, n, &was), NONE);
    assert_int_equal(was, replayed);
}

#endif
