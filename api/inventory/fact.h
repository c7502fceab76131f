/* The facts by name (fact.def). Pure: whoever reads or judges frameworks needs the names and none of the services. */
#ifndef API_INVENTORY_FACT_H
#define API_INVENTORY_FACT_H

enum inventory_fact {
#define FACT_ROW(symbol, text, doc) INVENTORY_FACT_##symbol,
#include "api/inventory/fact.def"
#undef FACT_ROW
    INVENTORY_FACT_COUNT
};
/* fact_names.c. Constant texts, "custody.recorded"; a number that is no fact is a bug. And is this one? NULL is none.
 */
const char *inventory_fact_text(enum inventory_fact fact);
bool inventory_fact_known(const char *text);

#endif
