/* `svc-signer --check-journal`: reads a journal that no signer has open, changes nothing, and says what is in it. */
#ifndef SIGNER_BROKER_JOURNAL_CHECK_H
#define SIGNER_BROKER_JOURNAL_CHECK_H

#include "appliance/base/bytes.h"

enum check_form { CHECK_TEXT, CHECK_JSON };

/* Appends the report to `out`, ended by a newline. True: a signer would start on this journal; a torn tail, which it
 * would cut, is reported and no damage. False: damaged (file and offset are named), in use, or unreadable. */
bool journal_check(const char *folder, enum check_form form, struct buf *out);

#endif
