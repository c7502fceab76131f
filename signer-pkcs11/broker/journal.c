#include "signer-pkcs11/broker/journal_internal.h"

#include "appliance/base/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

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

static struct journal_flight flight_of(const uint8_t op_id[JOURNAL_ID_LEN])
{
    struct journal_flight flight;
    memcpy(flight.half, op_id, sizeof(flight.half));
    return flight;
}

/* Its position, or flight_count. */
static size_t flight_find(const struct journal *journal, const uint8_t op_id[JOURNAL_ID_LEN])
{
    const struct journal_flight wanted = flight_of(op_id), *flights = journal->flights;
    size_t i = 0;
    while (i < journal->flight_count &&
           (flights[i].half[0] != wanted.half[0] || flights[i].half[1] != wanted.half[1])) {
        i++;
    }
    return i;
}

void journal_land_locked(struct journal *journal, const uint8_t op_id[JOURNAL_ID_LEN])
{
    size_t i = flight_find(journal, op_id);
    BUG_IF(i == journal->flight_count);
    journal->flights[i] = journal->flights[--journal->flight_count];
    for (struct journal_waiter **link = &journal->waiters; *link != NULL;) {
        struct journal_waiter *waiter = *link;
        if (memcmp(waiter->op_id, op_id, JOURNAL_ID_LEN) != 0) {
            link = &waiter->next;
            continue;
        }
        *link = waiter->next;
        futex_set_and_wake(&waiter->woken, 1);
    }
}

/* The lock is given back meanwhile. */
static struct fault wait_for_id_locked(struct op *op, struct journal *journal, const uint8_t op_id[JOURNAL_ID_LEN])
{
    struct journal_waiter waiter = { .next = journal->waiters, .op_id = op_id };
    journal->waiters = &waiter;
    journal_unlock(journal);
    (void)futex_wait_while(&waiter.woken, 0, op->deadline);
    journal_lock(journal);
    if (atomic_load(&waiter.woken) != 0) {
        return OK;
    }
    struct journal_waiter **link = &journal->waiters;
    while (*link != &waiter) {
        link = &(*link)->next;
    }
    *link = waiter.next;
    return op_fail(op, FAULT(SATURATED), "the same operation is being signed at the moment: repeat it later");
}

static struct fault refuse(struct op *op, struct journal_trouble trouble)
{
    char text[TROUBLE_TEXT_MAX];
    journal_trouble_text(trouble, text, sizeof(text));
    return op_fail(op, FAULT(SIGNER_JOURNAL), "%s", text);
}

/* Where the record of an id may be. */
struct places {
    uint32_t number[INDEX_CANDIDATES_MAX];
    size_t offset[INDEX_CANDIDATES_MAX];
    size_t count;
};

static void find_locked(const struct journal *journal, const uint8_t op_id[JOURNAL_ID_LEN], struct places *places)
{
    uint32_t found[INDEX_CANDIDATES_MAX];
    size_t count = index_find(&journal->index, op_id, found);
    places->count = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t number = place_number(journal->current, found[i]);
        if (number >= journal->first) { /* else forgotten, and still to be swept out */
            places->number[places->count] = number;
            places->offset[places->count++] = place_offset(found[i]);
        }
    }
}

/* Takes the id. */
static struct fault claim_locked(struct op *op, struct journal *journal, const uint8_t op_id[JOURNAL_ID_LEN],
                                 struct places *ret_places)
{
    while (flight_find(journal, op_id) < journal->flight_count) {
        TRY(wait_for_id_locked(op, journal, op_id));
    }
    if (journal->blocked.kind == TROUBLE_SYNC) {
        return refuse(op, journal->blocked);
    }
    if (journal->flight_count == FLIGHTS_MAX) {
        return op_fail(op, FAULT(SATURATED), "too many operations wait for the signer's journal: repeat it later");
    }
    journal->flights[journal->flight_count++] = flight_of(op_id);
    find_locked(journal, op_id, ret_places);
    return OK;
}

static struct fault read_record(const struct journal *journal, uint32_t number, size_t offset,
                                uint8_t bytes[RECORD_SIZE_MAX], struct record *ret_record)
{
    char name[SEGMENT_NAME_MAX];
    size_t size = 0;
    segment_name(number, name);
    CLEANUP(fd_closep) int fd = openat(journal->folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    REQUIRE(fd >= 0, SIGNER_JOURNAL);
    ssize_t got = pread(fd, bytes, RECORD_SIZE_MAX, (off_t)offset);
    REQUIRE(got > 0 && record_get(span_of(bytes, (size_t)got), number, offset, ret_record, &size), SIGNER_JOURNAL);
    return OK;
}

static bool forgotten_meanwhile(struct journal *journal, uint32_t number)
{
    journal_lock(journal);
    bool forgotten = number < journal->first;
    journal_unlock(journal);
    return forgotten;
}

/* What is on disk under the id, if anything. The id is claimed, so nobody adds to it meanwhile. */
static struct fault look_up(struct op *op, const struct journal_entry *entry, const struct places *places,
                            struct buf *signature, bool *ret_found)
{
    for (size_t i = 0; i < places->count; i++) {
        uint8_t bytes[RECORD_SIZE_MAX];
        struct record record = { 0 };
        if (FAULTED(read_record(entry->journal, places->number[i], places->offset[i], bytes, &record))) {
            if (forgotten_meanwhile(entry->journal, places->number[i])) {
                continue;
            }
            return op_fail(op, FAULT(SIGNER_JOURNAL),
                           "the journal's record of this operation cannot be read: check the signer's disk");
        }
        if (memcmp(record.op_id, entry->op_id, JOURNAL_ID_LEN) != 0) {
            continue;
        }
        if (memcmp(record.request.at, entry->request.at, SHA256_LEN) != 0) {
            return op_fail(op, FAULT(SIGNER_OP_MISMATCH),
                           "this operation id was used to sign something else: use another id");
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
    struct places places = { .count = 0 };
    bool found = false;
    TRY(id_bytes(op_id, entry.op_id));
    journal_lock(journal);
    struct fault fault = claim_locked(op, journal, entry.op_id, &places);
    bool blocked = journal->blocked.kind != TROUBLE_NONE;
    journal_unlock(journal);
    TRY(fault);
    entry.journal = journal;
    if (places.count > 0) {
        TRY(look_up(op, &entry, &places, signature, &found));
    }
    if (blocked && !found) { /* the token need not sign what cannot be kept */
        struct journal_trouble trouble = journal_trouble(journal);
        if (trouble.kind != TROUBLE_NONE) {
            return refuse(op, trouble);
        }
    }
    *ret_replayed = found;
    if (!found) {
        *ret_entry = entry;
        entry.journal = NULL;
    }
    return OK;
}

struct fault journal_commit(struct op *op, struct journal_entry *entry, struct span signature)
{
    struct journal *journal = entry->journal;
    BUG_IF(journal == NULL || signature.len > SIGNATURE_MAX);
    struct journal_write write = { .entry = entry, .signature = signature };
    struct journal_trouble trouble = journal_write(journal, &write);
    entry->journal = NULL;
    return trouble.kind != TROUBLE_NONE ? refuse(op, trouble) : OK;
}

void journal_leave(struct journal_entry *entry)
{
    struct journal *journal = TAKE(entry->journal);
    if (journal != NULL) {
        journal_lock(journal);
        journal_land_locked(journal, entry->op_id);
        journal_unlock(journal);
    }
}

uint64_t journal_bytes(struct journal *journal)
{
    journal_lock(journal);
    uint64_t bytes = journal->bytes;
    journal_unlock(journal);
    return bytes;
}

bool journal_usable(struct journal *journal, char *why, size_t why_size)
{
    struct journal_trouble trouble = journal_trouble(journal);
    if (trouble.kind != TROUBLE_NONE && why != NULL) {
        journal_trouble_text(trouble, why, why_size);
    }
    return trouble.kind == TROUBLE_NONE;
}
