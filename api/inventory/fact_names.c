#include "api/inventory/fact.h"

#include "appliance/base/fault.h"

#include <string.h>

static const char *const texts[INVENTORY_FACT_COUNT] = {
#define FACT_ROW(symbol, text, doc) [INVENTORY_FACT_##symbol] = (text),
#include "api/inventory/fact.def"
#undef FACT_ROW
};

const char *inventory_fact_text(enum inventory_fact fact)
{
    BUG_IF((unsigned)fact >= INVENTORY_FACT_COUNT);
    return texts[fact];
}

bool inventory_fact_known(const char *text)
{
    for (unsigned i = 0; text != NULL && i < INVENTORY_FACT_COUNT; i++) {
        if (strcmp(texts[i], text) == 0) {
            return true;
        }
    }
    return false;
}
