#include "signer-pkcs11/broker/journal_internal.h"

#include "appliance/base/file.h"

#include <fcntl.h>
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

static size_t flight_of(const struct journal *journal, const uint8_t op_id[JOURNAL_ID_LEN])
{
    size_t i = 0;
    while (i < journal->flight_count && memcmp(journal->flights[i], op_id, JOURNAL_ID_LEN) != 0) {
        i++;
    }
    return i;
}

void journal_land_locked(struct journal *journal, const uint8_t op_id[JOURNAL_ID_LEN], struct journal_parked **woken)
{
    size_t i = flight_of(journal, op_id);
    BUG_IF(i == journal->flight_count);
    journal->flight_count--;
    memmove(journal->flights[i], journal->flights[journal->flight_count], JOURNAL_ID_LEN);
    for (struct journal_parked **link = &journal->parked; *link != NULL;) {
        struct journal_parked *parked = *link;
        if (memcmp(parked->op_id, op_id, JOURNAL_ID_LEN) != 0) {
            link = &parked->next;
            continue;
        }
        *link = parked->next;
        parked->next = *woken;
        *woken = parked;
    }
}

void journal_wake(struct journal_parked *woken)
{
    while (woken != NULL) {
        struct journal_parked *next = woken->next;
        woken->wake(woken);
        woken = next;
    }
}

/* Takes the id, or parks the caller behind who has it. */
static struct fault claim_locked(struct op *op, struct journal *journal, const uint8_t op_id[JOURNAL_ID_LEN],
                                 struct journal_parked *parked, bool *ret_parked)
{
    *ret_parked = flight_of(journal, op_id) < journal->flight_count;
    if (*ret_parked) {
        memcpy(parked->op_id, op_id, JOURNAL_ID_LEN);
        parked->next = journal->parked;
        journal->parked = parked;
        return OK;
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
                           const struct sha256 *request, struct journal_parked *parked, struct journal_entry *ret_entry,
                           struct buf *signature, enum journal_outcome *ret_outcome)
{
    CLEANUP(journal_leave) struct journal_entry entry = { .request = *request };
    bool is_parked = false, found = false;
    TRY(id_bytes(op_id, entry.op_id));
    journal_lock(journal);
    struct fault fault = claim_locked(op, journal, entry.op_id, parked, &is_parked);
    journal_unlock(journal);
    TRY(fault);
    if (is_parked) {
        *ret_outcome = JOURNAL_PARKED; /* and may be awake already: nothing of the caller is touched from here on */
        return OK;
    }
    entry.journal = journal;
    TRY(look_up(op, journal, &entry, signature, &found));
    *ret_outcome = found ? JOURNAL_REPLAYED : JOURNAL_NEW;
    if (!found) {
        *ret_entry = entry;
        entry.journal = NULL;
    }
    return OK;
}

void journal_submit(struct journal_entry *entry, struct span signature, struct journal_write *write)
{
    struct journal *journal = TAKE(entry->journal);
    BUG_IF(journal == NULL || signature.len > SIGNATURE_MAX);
    memcpy(write->op_id, entry->op_id, sizeof(write->op_id));
    memcpy(write->signature, signature.at, signature.len);
    write->request = entry->request;
    write->len = signature.len;
    write->next = NULL;
    journal_lock(journal);
    BUG_IF(journal->stopping);
    *journal->waiting_end = write;
    journal->waiting_end = &write->next;
    journal_write_unlock(journal);
}

void journal_leave(struct journal_entry *entry)
{
    struct journal *journal = TAKE(entry->journal);
    struct journal_parked *woken = NULL;
    if (journal == NULL) {
        return;
    }
    journal_lock(journal);
    journal_land_locked(journal, entry->op_id, &woken);
    journal_unlock(journal);
    journal_wake(woken);
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
