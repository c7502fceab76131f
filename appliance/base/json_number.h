/* Numbers as ECMAScript prints them (ECMA-262 Number::toString), which RFC 8785 3.2.2.3 asks for. */
#ifndef APPLIANCE_BASE_JSON_NUMBER_H
#define APPLIANCE_BASE_JSON_NUMBER_H

#include "appliance/base/bytes.h"

#define JSON_NUMBER_MAX 32

/* Takes one JSON number off the reader's front. JSON_SYNTAX: not a number, not finite as a double, or longer than
 * 1024 characters. */
struct fault json_number_read(struct reader *reader, double *ret_value);
/* The shortest digits that read back as the same double. A number that is not finite is a bug. */
void json_number_print(double value, char out[JSON_NUMBER_MAX]);

#endif
