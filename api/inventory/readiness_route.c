#include "api/inventory/crypto.h"

#include "appliance/base/codec.h"

struct shape {
    const char *name, *content_type;
};
static const struct shape shapes[] = {
    { "json", "application/json" },
    { "csv", "text/csv; charset=utf-8; header=present" },
    { "ndjson", "application/x-ndjson" },
};

static struct fault read_shape(const struct request *request, const struct shape **ret_shape)
{
    const char *name = request_query(request, "format");
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        if (strcmp(name != NULL ? name : "json", shapes[i].name) == 0) {
            *ret_shape = &shapes[i];
            return OK;
        }
    }
    return op_fail_field(request->op, FAULT(QUERY), "format", "format must be json, csv or ndjson");
}

static struct fault put(void *arg, struct span bytes)
{
    return response_stream_write(arg, bytes);
}

/* The rows are read within one transaction, recorded and sent after it has ended: a slow client holds none. */
struct fault route_readiness(struct request *request)
{
    CLEANUP(graph_clear) struct graph graph = { .rows = BUF_INIT(0) };
    const struct shape *shape = NULL;
    char digest[2 * SHA256_LEN + 1];
    TRY(read_shape(request, &shape));
    {
        CLEANUP(tx_rollbackp) struct tx *tx = NULL;
        TRY(tx_begin_snapshot(request->op, request->services->store, STORE_REQUEST, &tx));
        TRY(graph_load(request->op, request->services, tx, clock_utc(), NULL, READINESS_BYTES_MAX, &graph));
    }
    TRY(crypto_record_read(request, "crypto-readiness", &graph.digest));
    hex_text(SPAN_ARRAY(graph.digest.at), digest, sizeof(digest));
    TRY(response_header(request, "Svc-Dataset-Digest", digest));
    TRY(response_stream_begin(request, 0, shape->content_type));
    if (strcmp(shape->name, "csv") == 0) {
        return graph_csv(request->op, &graph, put, request);
    }
    return strcmp(shape->name, "ndjson") == 0 ? graph_ndjson(&graph, put, request) : graph_json(&graph, put, request);
}
