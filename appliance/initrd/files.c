#include "appliance/initrd/files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

bool file_text(const char *path, char *text, size_t size)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return false;
    }
    size_t at = 0;
    for (;;) {
        ssize_t got = read(file, text + at, size - at);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0 || (size_t)got == size - at) {
            (void)close(file);
            text[at] = '\0';
            return got == 0;
        }
        at += (size_t)got;
    }
}

bool text_value(const char *text, const char *between, const char *key, char *value, size_t size)
{
    size_t key_len = strlen(key);
    bool found = false;
    for (const char *at = text; *at != '\0';) {
        size_t len = strcspn(at, between);
        if (len > key_len && strncmp(at, key, key_len) == 0 && at[key_len] == '=') {
            size_t value_len = len - key_len - 1;
            if (found || value_len == 0 || value_len >= size) {
                return false;
            }
            memcpy(value, at + key_len + 1, value_len);
            value[value_len] = '\0';
            found = true;
        }
        at += len + (at[len] != '\0');
    }
    return found;
}
