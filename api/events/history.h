/* What the files of the history share: which messages of the log are replaced (history.c), the stream that the
 * replacements lie in (history_store.c), reading all activations (history_load.c), and taking away what is superseded
 * (history_erase.c). */
#ifndef API_EVENTS_HISTORY_H
#define API_EVENTS_HISTORY_H

#include "api/events/internal.h"

#define HISTORY_ASK_MS      3000
#define HISTORY_SUBJECT_MAX 160
#define HISTORY_LIST_PART   16384u /* entries of one part: 40 bytes each */
#define HISTORY_LIST_ENTRY  40u
#define HISTORY_MAX         4000000u

/* A copy of what is known of that message. False: it is not replaced. */
bool history_find(struct event_log *log, uint64_t stream_seq, struct history_entry *ret_entry);

/* Names within the second stream, and its own. */
void history_name(const struct event_log *log, char out[HISTORY_SUBJECT_MAX]);
void history_body_subject(struct tenant_id tenant, int64_t generation, uint64_t stream_seq,
                          char out[HISTORY_SUBJECT_MAX]);
void history_list_subject(struct tenant_id tenant, int64_t generation, size_t part, char out[HISTORY_SUBJECT_MAX]);
/* The newest message of a subject, which the caller destroys. NOT_FOUND, LOG_UNAVAILABLE. BUG_IF(tx_open). */
struct fault history_newest(struct op *op, struct event_log *log, const char *subject, natsMsg **ret_message);
/* SHA-256("svc.history.list.v1" 0x00, then for each: u64 sequence, 32 bytes digest). */
struct fault history_list_digest(struct span entries, struct sha256 *ret_digest);

#endif
