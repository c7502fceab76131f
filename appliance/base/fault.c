#include "appliance/base/fault.h"

#include <stdio.h>

static const struct fault_row rows[] = {
#define FAULT_ROW(sym, num, text, http, retry, title) { FAULT_##sym, text, http, FAULT_RETRY_##retry, title },
#include "appliance/base/fault.def"
#undef FAULT_ROW
};

static const struct fault_row *find(uint32_t number)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if ((uint32_t)rows[i].code == number) {
            return &rows[i];
        }
    }
    return NULL;
}

const struct fault_row *fault_row(enum fault_code code)
{
    const struct fault_row *row = find((uint32_t)code);
    return row != NULL ? row : find(FAULT_INTERNAL);
}

const struct fault_row *fault_rows(size_t *ret_count)
{
    *ret_count = COUNT_OF(rows);
    return rows;
}

struct fault fault_from_wire(uint32_t number)
{
    const struct fault_row *row = find(number);
    return row != NULL ? (struct fault){ row->code } : FAULT(SIGNER_PROTOCOL);
}

void fault_bug(const char *file, int line, const char *what)
{
    (void)fprintf(stderr, "{\"level\":\"fatal\",\"event\":\"bug\",\"at\":\"%s:%d\",\"what\":\"%s\"}\n", file, line,
                  what);
    abort();
}
