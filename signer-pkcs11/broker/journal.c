#include "signer-pkcs11/broker/journal_internal.h"

#include "appliance/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

bool journal_wait_locked(struct journal *journal, pthread_cond_t *cond, mono_ns deadline)
{
    const struct timespec until = { .tv_sec = deadline / NS_PER_S, .tv_nsec = deadline % NS_PER_S };
    int rc = pthread_cond_timedwait(cond, &journal->lock, &until);
    BUG_IF(rc != 0 && rc != ETIMEDOUT);
    return rc == 0;
}

static uint8_t nibble(char digit)
{
    return (uint8_t)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

static struct fault id_bytes(const struct uuid *op_id, uint8_t out[JOURNAL_ID_LEN])
{
    struct uuid checked;
    TRY(uuid_parse(span_text(op_id->text), &checked));
    const char *digit = checked.text;
    for (size_t i = 0; i < JOURNAL_ID_LEN; i++) {
        digit += *digit == '-';
        out[i] = (uint8_t)(nibble(digit[0]) << 4 | nibble(digit[1]));
        digit += 2;
    }
    return OK;
}

static size_t flight_of(const struct journal *journal, const uint8_t op_id[JOURNAL_ID_LEN])
{
    size_t i = 0;
    while (i < journal->flight_count && memcmp(journal->flights[i], op_id, JOURNAL_ID_LEN) != 0) {
        i++;
    }
    return i;
}

void journal_land_locked(struct journal *journal, const uint8_t op_id[JOURNAL_ID_LEN])
{
    size_t i = flight_of(journal, op_id);
    BUG_IF(i == journal->flight_count);
    journal->flight_count--;
    memmove(journal->flights[i], journal->flights[journal->flight_count], JOURNAL_ID_LEN);
    if (journal->landing_waiters > 0) {
        BUG_IF(pthread_cond_broadcast(&journal->landed) != 0);
    }
}

/* Waits until nobody else has the id, then takes it. */
static struct fault claim_locked(struct op *op, struct journal *journal, const uint8_t op_id[JOURNAL_ID_LEN])
{
    bool in_time = true;
    while (flight_of(journal, op_id) < journal->flight_count && in_time) {
        journal->landing_waiters++;
        in_time = journal_wait_locked(journal, &journal->landed, op->deadline);
        journal->landing_waiters--;
    }
    if (flight_of(journal, op_id) < journal->flight_count) {
        return op_fail(op, FAULT(DEADLINE), "the same operation is still being signed: repeat the request");
    }
    if (journal->broken) {
        return op_fail(op, FAULT(SIGNER_JOURNAL), JOURNAL_BROKEN_TEXT);
    }
    if (journal->flight_count == FLIGHTS_MAX) {
        return op_fail(op, FAULT(SIGNER_JOURNAL), "too many operations wait for the signer's journal: repeat later");
    }
    memcpy(journal->flights[journal->flight_count++], op_id, JOURNAL_ID_LEN);
    return OK;
}

/* The file's number from the 10 bits that a place keeps: numbers of present files differ in them. */
static uint32_t number_of(uint32_t current, uint32_t place)
{
    uint32_t low = place >> 22;
    return current - (current - low) % SEGMENTS_MAX;
}

static struct fault read_record(const struct journal *journal, uint32_t current, uint32_t place,
                                uint8_t bytes[RECORD_SIZE_MAX], struct record *ret_record)
{
    uint32_t number = number_of(current, place);
    size_t offset = (size_t)(place & 0x3fffff) * RECORD_ALIGN, size = 0;
    char name[SEGMENT_NAME_MAX];
    segment_name(number, name);
    CLEANUP(fd_closep) int fd = openat(journal->folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    REQUIRE(fd >= 0, SIGNER_JOURNAL);
    ssize_t got = pread(fd, bytes, RECORD_SIZE_MAX, (off_t)offset);
    REQUIRE(got > 0 && record_get(span_of(bytes, (size_t)got), number, offset, ret_record, &size), SIGNER_JOURNAL);
    return OK;
}

/* What is on disk under the id, if anything. The id is claimed, so nobody adds to it meanwhile. */
static struct fault look_up(struct op *op, struct journal *journal, const struct journal_entry *entry,
                            struct buf *signature, bool *ret_found)
{
    uint32_t places[INDEX_CANDIDATES_MAX];
    journal_lock(journal);
    size_t count = index_find(&journal->index, entry->op_id, places);
    journal_unlock(journal);
    for (size_t i = 0; i < count; i++) {
        uint8_t bytes[RECORD_SIZE_MAX];
        struct record record = { 0 };
        if (FAULTED(read_record(journal, atomic_load(&journal->current), places[i], bytes, &record))) {
            return op_fail(op, FAULT(SIGNER_JOURNAL),
                           "the journal's record of this operation cannot be read: check "
                           "the signer's disk");
        }
        if (memcmp(record.op_id, entry->op_id, JOURNAL_ID_LEN) != 0) {
            continue;
        }
        if (memcmp(record.request.at, entry->request.at, SHA256_LEN) != 0) {
            return op_fail(op, FAULT(SIGNER_OP_MISMATCH),
                           "this operation id was used to sign something else: use "
                           "another id");
        }
        *ret_found = true;
        return buf_put(signature, record.signature);
    }
    *ret_found = false;
    return OK;
}

struct fault journal_enter(struct op *op, struct journal *journal, const struct uuid *op_id,
                           const struct sha256 *request, struct journal_entry *ret_entry, struct buf *signature,
                           bool *ret_replayed)
{
    CLEANUP(journal_leave) struct journal_entry entry = { .request = *request };
    TRY(id_bytes(op_id, entry.op_id));
    journal_lock(journal);
    struct fault fault = claim_locked(op, journal, entry.op_id);
    journal_unlock(journal);
    TRY(fault);
    entry.journal = journal;
    bool found = false;
    TRY(look_up(op, journal, &entry, signature, &found));
    *ret_replayed = found;
    if (!found) {
        *ret_entry = entry;
        entry.journal = NULL;
    }
    return OK;
}

void journal_leave(struct journal_entry *entry)
{
    struct journal *journal = TAKE(entry->journal);
    if (journal == NULL) {
        return;
    }
    journal_lock(journal);
    journal_land_locked(journal, entry->op_id);
    journal_unlock(journal);
}

uint64_t journal_bytes(struct journal *journal)
{
    journal_lock(journal);
    uint64_t bytes = journal->bytes;
    journal_unlock(journal);
    return bytes;
}

bool journal_usable(struct journal *journal)
{
    journal_lock(journal);
    bool usable = !journal->broken;
    journal_unlock(journal);
    return usable;
}
