/* The datasets of an evidence pack that are about everything there is: one walk makes them all. */
#include "api/inventory/certificates.h"
#include "api/inventory/crypto.h"

struct fault inventory_assets_print(struct op *op, struct services *services, struct tx *tx, struct jout *custody,
                                    struct jout *cbom, struct jout *readiness)
{
    CLEANUP(custody_summary_freep) struct custody_summary *summary = NULL;
    CLEANUP(graph_clear) struct graph graph = { .rows = BUF_INIT(0) };
    const utc_us now = clock_utc();
    TRY(custody_summary_new(custody->out->max, &summary));
    TRY(graph_load(op, services, tx, now, summary, READINESS_PACK_MAX, &graph));
    TRY(custody_summary_print(summary, tx, custody));
    TRY(crypto_count_left_out(tx, now, &graph.counts));
    jout_object(cbom);
    crypto_counts_print(&graph.counts, cbom);
    jout_object_end(cbom);
    TRY(cbom->first);
    graph_print(&graph, readiness);
    return readiness->first;
}
