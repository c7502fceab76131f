#include "api/audit/backup.h"

#include "api/audit/source.h"
#include "api/events/transfer.h"
#include "appliance/base/failpoint.h"
#include "appliance/base/json.h"

#include <unistd.h>

#define BACKUP_FORMAT "svc.log.backup.v1"

/* ---- writing ---- */

static const struct transfer_options no_options;

static void tell(const struct transfer_options *options, const char *what, uint64_t done, uint64_t last)
{
    if (options->on_progress != NULL) {
        options->on_progress(what, done, last);
    }
}

struct writing {
    struct backup_writer *writer;
    struct source *source;
    const struct transfer_options *options;
    uint64_t last;
};

static struct fault print_header(const char *stream, uint64_t last, struct buf *out)
{
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_time(&jout, "created_at", clock_utc());
    jout_key_text(&jout, "format", BACKUP_FORMAT);
    jout_key_int(&jout, "last_sequence", (int64_t)last);
    jout_key_text(&jout, "stream", stream);
    jout_key_text(&jout, "version", SVC_VERSION);
    jout_object_end(&jout);
    return jout_end(&jout);
}

static struct fault put_message(struct op *op, void *arg, const struct event_message *message)
{
    struct writing *writing = arg;
    TRY(source_take(op, writing->source, message));
    tell(writing->options, "writing", message->stream_seq, writing->last);
    return backup_put_message(writing->writer, message->stream_seq, message->body);
}

static struct fault put_replacement(struct op *op, void *arg, struct span subject, struct span body)
{
    (void)op;
    struct writing *writing = arg;
    return backup_put_replacement(writing->writer, subject, body);
}

static struct fault write_all(struct op *op, struct event_log *log, uint64_t last, struct writing *writing)
{
    TRY(event_log_each(op, log, 1, last, put_message, writing));
    TRY(source_end(op, writing->source));
    return event_history_each(op, log, put_replacement, writing);
}

struct fault log_backup(struct op *op, struct event_log *log, struct store *store, const char *stream, int fd,
                        const struct transfer_options *options, struct backup_totals *ret_totals)
{
    CLEANUP(source_free) struct source source = { 0 };
    CLEANUP(backup_writer_freep) struct backup_writer *writer = NULL;
    CLEANUP(buf_free) struct buf header = BUF_INIT(BACKUP_HEADER_MAX);
    struct event_log_state state;
    TRY(event_log_state_now(op, log, &state));
    if (state.last_seq == 0) {
        return op_fail(op, FAULT(CONFLICT), "the event log is empty: there is nothing to back up");
    }
    TRY(source_claims(op, &source, log, store));
    /* A checkpoint may have come since: its event is in the backup then, so its source is looked at as well. */
    if (source_last(&source) > state.last_seq) {
        TRY(event_log_state_now(op, log, &state));
    }
    TRY(print_header(stream, state.last_seq, &header));
    TRY(backup_writer_new(fd, buf_span(&header), &writer));
    struct writing writing = {
        .writer = writer, .source = &source, .options = options != NULL ? options : &no_options, .last = state.last_seq
    };
    TRY(write_all(op, log, state.last_seq, &writing));
    return backup_writer_end(writer, ret_totals);
}

/* ---- reading ---- */

struct header {
    const char *format, *stream, *version;
    utc_us created_at;
    int64_t last_sequence;
};
static const struct jin_field header_fields[] = {
    JIN_TIME(struct header, created_at, JIN_REQUIRED),
    JIN_TEXT(struct header, format, JIN_REQUIRED, 1, 64),
    JIN_INT(struct header, last_sequence, JIN_REQUIRED, 1, INT64_MAX),
    JIN_TEXT(struct header, stream, JIN_REQUIRED, 1, 255),
    JIN_TEXT(struct header, version, JIN_REQUIRED, 1, 64),
};

static struct fault read_header(struct op *op, const struct backup_reader *reader, int64_t *ret_last)
{
    struct header header = { 0 };
    struct fault fault = jin_decode(op, backup_reader_header(reader), header_fields, COUNT_OF(header_fields), &header);
    if (FAULTED(fault) || strcmp(header.format, BACKUP_FORMAT) != 0) {
        op->note = (struct fault_note){ 0 };
        return op_fail(op, FAULT(LOG_BACKUP), "the backup is none of format " BACKUP_FORMAT);
    }
    *ret_last = header.last_sequence;
    return OK;
}

typedef struct fault (*entry_fn)(struct op *op, void *arg, const struct backup_entry *entry,
                                 const struct event_message *message);

/* message: NULL for a replacement. */
static struct fault each_entry(struct op *op, int fd, entry_fn take, void *arg, struct backup_totals *ret_totals)
{
    CLEANUP(backup_reader_freep) struct backup_reader *reader = NULL;
    struct backup_entry entry = { 0 };
    int64_t last = 0;
    if (lseek(fd, 0, SEEK_SET) != 0) {
        return op_fail(op, FAULT(IO), "a backup is restored from a file: it is read more than once");
    }
    TRY(backup_reader_new(op, fd, &reader));
    TRY(read_header(op, reader, &last));
    for (;;) {
        struct event_message message;
        arena_clear(op->arena);
        TRY(backup_reader_next(op, reader, &entry));
        if (entry.kind == BACKUP_END) {
            *ret_totals = entry.totals;
            return entry.totals.messages == (uint64_t)last
                       ? OK
                       : op_fail(op, FAULT(LOG_BACKUP), "the backup has fewer or more messages than it says");
        }
        if (entry.kind == BACKUP_REPLACEMENT) {
            TRY(take(op, arg, &entry, NULL));
            continue;
        }
        if (FAULTED(event_body_decode(op, entry.sequence, entry.body, &message))) {
            op->note = (struct fault_note){ 0 };
            return op_fail(op, FAULT(LOG_BACKUP), "message %llu of the backup is none of an event log of this program",
                           (unsigned long long)entry.sequence);
        }
        TRY(take(op, arg, &entry, &message));
    }
}

static struct fault claim_entry(struct op *op, void *arg, const struct backup_entry *entry,
                                const struct event_message *message)
{
    if (message != NULL) {
        return source_claim(op, arg, message);
    }
    bool ours = strncmp(entry->subject, "svc.history.", 12) == 0 && strpbrk(entry->subject, "*> \t\r\n") == NULL;
    return ours ? OK : op_fail(op, FAULT(LOG_BACKUP), "the backup holds a replacement under a name that none has");
}

struct restoring {
    struct event_log *log;
    const struct transfer_options *options;
    struct source *source;
    uint64_t there; /* messages that an interrupted run stored */
    uint64_t last;  /* of the file */
};

/* What is there already has to be what the file has. */
static struct fault compare_stored(struct op *op, const struct restoring *restoring, const struct backup_entry *entry)
{
    struct event_message stored;
    struct fault fault = event_log_get(op, restoring->log, entry->sequence, &stored);
    if (fault.code == FAULT_NOT_FOUND || fault.code == FAULT_LOG_DECODE) {
        op->note = (struct fault_note){ 0 };
    } else {
        TRY(fault);
    }
    return !FAULTED(fault) && span_equal(stored.body, entry->body)
               ? OK
               : op_fail(op, FAULT(CONFLICT),
                         "message %llu of the event log is not the one of this backup: nothing was changed; remove the "
                         "stream and restore anew",
                         (unsigned long long)entry->sequence);
}

static struct fault check_entry(struct op *op, void *arg, const struct backup_entry *entry,
                                const struct event_message *message)
{
    const struct restoring *restoring = arg;
    if (message == NULL) {
        return OK;
    }
    tell(restoring->options, "checking", entry->sequence, restoring->last);
    TRY(source_take(op, restoring->source, message));
    return entry->sequence <= restoring->there ? compare_stored(op, restoring, entry) : OK;
}

static struct fault store_entry(struct op *op, void *arg, const struct backup_entry *entry,
                                const struct event_message *message)
{
    const struct restoring *restoring = arg;
    if (message == NULL) {
        return event_history_restore(op, restoring->log, entry->subject, entry->body);
    }
    if (entry->sequence <= restoring->there) {
        return OK;
    }
    struct fault fault = event_log_restore(op, restoring->log, message);
    FAILPOINT("restore.after_message");
    tell(restoring->options, "restoring", entry->sequence, restoring->last);
    return FAULTED(fault) ? op_fail(op, fault,
                                    "message %llu could not be stored: the log is not whole; when the cause is gone, "
                                    "restore --continue goes on here",
                                    (unsigned long long)message->stream_seq)
                          : OK;
}

static struct fault check_file(struct op *op, int fd, struct restoring *restoring, struct backup_totals *ret_totals)
{
    TRY(each_entry(op, fd, claim_entry, restoring->source, ret_totals));
    struct backup_totals again;
    restoring->last = ret_totals->messages;
    if (restoring->there > restoring->last) {
        return op_fail(op, FAULT(CONFLICT), "the event log goes up to message %llu, and the backup to %llu only",
                       (unsigned long long)restoring->there, (unsigned long long)restoring->last);
    }
    TRY(each_entry(op, fd, check_entry, restoring, &again));
    TRY(source_end(op, restoring->source));
    return span_equal(SPAN_ARRAY(again.digest.at), SPAN_ARRAY(ret_totals->digest.at))
               ? OK
               : op_fail(op, FAULT(LOG_BACKUP), "the file changes while it is read");
}

struct fault log_restore(struct op *op, struct event_log *log, int fd, const struct transfer_options *options,
                         struct backup_totals *ret_totals)
{
    struct event_log_state state;
    struct backup_totals checked, stored;
    CLEANUP(source_free) struct source source = { 0 };
    struct restoring restoring = { .log = log, .options = options != NULL ? options : &no_options, .source = &source };
    TRY(event_log_state_now(op, log, &state));
    if (state.last_seq != 0 && !restoring.options->resume) {
        return op_fail(op, FAULT(CONFLICT),
                       "the event log is not empty: it goes up to message %llu, and nothing is ever written over it. "
                       "A restore that was interrupted is gone on with by restore --continue",
                       (unsigned long long)state.last_seq);
    }
    restoring.there = state.last_seq;
    TRY(check_file(op, fd, &restoring, &checked));
    TRY(restoring.options->before_first != NULL ? restoring.options->before_first(op, restoring.options->arg) : OK);
    TRY(each_entry(op, fd, store_entry, &restoring, &stored));
    if (!span_equal(SPAN_ARRAY(stored.digest.at), SPAN_ARRAY(checked.digest.at))) {
        return op_fail(op, FAULT(LOG_BACKUP), "the file changed while it was restored: remove the event log again");
    }
    *ret_totals = stored;
    return OK;
}
