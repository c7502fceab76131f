/* Which message ids were seen: 16 bytes each in a table that is at most half full. */
#ifndef API_AUDIT_UUID_SET_H
#define API_AUDIT_UUID_SET_H

#include "appliance/base/id.h"

struct uuid_set;
struct fault uuid_set_new(struct uuid_set **ret_set);
void uuid_set_free(struct uuid_set *set);
/* *ret_again: it was there before. BAD_ARGUMENT: no uuid. */
struct fault uuid_set_add(struct uuid_set *set, struct uuid id, bool *ret_again);

#endif
