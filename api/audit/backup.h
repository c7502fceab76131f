/* The event log into a file and back (docs/audit-archive.md): what svc-api backup, restore and check-log do. */
#ifndef API_AUDIT_BACKUP_H
#define API_AUDIT_BACKUP_H

#include "api/events/backup_file.h"
#include "api/events/events.h"
#include "api/store/store.h"

/* May be NULL: all of it as if zero. */
struct transfer_options {
    bool resume; /* log_restore: go on where an interrupted one of the same file stopped */
    /* Called between the checks and the first message that is stored: a fault ends it there. */
    struct fault (*before_first)(struct op *op, void *arg);
    void *arg;
    void (*on_progress)(const char *what, uint64_t done, uint64_t last); /* after each message */
};

/* Writes all messages up to the log's present end to `fd`, which was opened for it. Checks on the way that every audit
 * checkpoint has its source (AUDIT_SOURCE_GAP). store may be NULL. */
struct fault log_backup(struct op *op, struct event_log *log, struct store *store, const char *stream, int fd,
                        const struct transfer_options *options, struct backup_totals *ret_totals);

/* Reads the file twice to its end before the first write: LOG_BACKUP when it is damaged, truncated or holds what is no
 * message of ours; AUDIT_SOURCE_GAP when a checkpoint in it lacks its source; CONFLICT when the log is not empty. With
 * `resume` the log may hold the file's first messages, each byte for byte, and nothing else: the rest is stored. */
struct fault log_restore(struct op *op, struct event_log *log, int fd, const struct transfer_options *options,
                         struct backup_totals *ret_totals);

#endif
