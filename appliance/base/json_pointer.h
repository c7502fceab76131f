/* Inside the JSON module only: JSON pointers (RFC 6901) of what is refused. Cut at their size, never overrun. */
#ifndef APPLIANCE_BASE_JSON_POINTER_H
#define APPLIANCE_BASE_JSON_POINTER_H

#include "appliance/base/bytes.h"

#define JSON_POINTER_SIZE 128u

/* One step down: "/" and the name, its ~ and / escaped. */
void json_pointer_add(char out[JSON_POINTER_SIZE], struct span name);
/* The member or element that a parser was in when it had read `end` bytes of `json`, nested at most 32 deep. */
void json_pointer_at(struct span json, size_t end, char out[JSON_POINTER_SIZE]);

#endif
