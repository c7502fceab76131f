/* Small files of /proc, /sys and the initrd itself, read whole into the caller's memory. */
#ifndef APPLIANCE_INITRD_FILES_H
#define APPLIANCE_INITRD_FILES_H

#include <stdbool.h>
#include <stddef.h>

/* At most size - 1 bytes and a NUL; false when it cannot be read or does not fit. */
bool file_text(const char *path, char *text, size_t size);

/* The value of "KEY=value" in `text`, whose pairs stand between characters of `between`: into `value`, NUL-terminated.
 * False when the key is not there exactly once, is empty or does not fit. */
bool text_value(const char *text, const char *between, const char *key, char *value, size_t size);

#endif
