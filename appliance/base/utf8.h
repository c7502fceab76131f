/* UTF-8 (RFC 3629): shortest forms only, no surrogates, nothing above U+10FFFF. */
#ifndef APPLIANCE_BASE_UTF8_H
#define APPLIANCE_BASE_UTF8_H

#include "appliance/base/bytes.h"

struct fault utf8_check(struct span text); /* JSON_SYNTAX */
/* Shows any bytes as UTF-8 in place: '?' for each that is no part of a character, a cut last one included. */
void utf8_repair(char *text);
/* The code point at the reader's front. JSON_SYNTAX. */
struct fault utf8_next(struct reader *reader, uint32_t *ret_point);

#endif
