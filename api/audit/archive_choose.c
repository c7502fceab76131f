#include "api/audit/archive.h"

#include <stdio.h>

static const char prefix[] = "audit-", suffix[] = ".jws";

size_t archive_choose(const struct archive_row *rows, size_t count, utc_us cutoff)
{
    size_t chosen = 0;
    int64_t bytes = 0;
    while (chosen < count && chosen < ARCHIVE_RECORDS_MAX && rows[chosen].time < cutoff &&
           rows[chosen].bytes <= ARCHIVE_BYTES_MAX - bytes) {
        bytes += rows[chosen++].bytes;
    }
    /* A checkpoint stands between two messages of the log, so that its source can be counted there. */
    while (chosen > 0 && chosen < count && rows[chosen].stream_seq == rows[chosen - 1].stream_seq) {
        chosen--;
    }
    bool worth = false;
    for (size_t i = 0; i < chosen && !worth; i++) {
        worth = !rows[i].own;
    }
    return worth ? chosen : 0;
}

void archive_name(int64_t sequence, char out[ARCHIVE_NAME_MAX])
{
    (void)snprintf(out, ARCHIVE_NAME_MAX, "%s%lld%s", prefix, (long long)sequence, suffix);
}

bool archive_name_read(const char *name, int64_t *ret_sequence)
{
    size_t len = strlen(name), ends = sizeof(prefix) - 1 + sizeof(suffix) - 1;
    if (len <= ends || len > ends + 18 || strncmp(name, prefix, sizeof(prefix) - 1) != 0 ||
        strcmp(name + len - (sizeof(suffix) - 1), suffix) != 0) {
        return false;
    }
    int64_t sequence = 0;
    for (const char *at = name + sizeof(prefix) - 1; at < name + len - (sizeof(suffix) - 1); at++) {
        if (*at < '0' || *at > '9' || (sequence == 0 && *at == '0')) {
            return false;
        }
        sequence = sequence * 10 + (*at - '0');
    }
    *ret_sequence = sequence;
    return true;
}
