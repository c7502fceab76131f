/*
 * The crypto-readiness dataset: one row for each asset, canonical JSON, in the order of objects. Whoever shows it, in
 * whatever shape, shows these rows, and the digest is over them as lines; nothing in it hangs on when it was asked for.
 */
#include "api/inventory/crypto.h"

#include "appliance/base/crypto.h"

#define ROW_MAX ((size_t)32 << 10)
#define PAGE    200

const char graph_coverage[] =
    "Listed is what this appliance holds or was told of: its keys, the certificates that were recorded, its own HTTPS "
    "listener. Nothing beyond it was searched, on no host and in no network. Dependents are what was observed here; none "
    "observed does not mean that there is none, and says of no change that it is safe.";

static const struct sql SQL_ACTIONS = {
    "readiness_actions",
    "SELECT a.object, a.action, a.state, a.due_us, a.note, a.recorded_by, a.recorded_us, a.sequence, a.event_id,"
    " a.revision, r.chain FROM svc.readiness_actions a"
    " LEFT JOIN svc.audit_records r ON r.tenant_id = a.tenant_id AND r.sequence = a.sequence"
    " WHERE (a.object, a.action) > ($1 COLLATE \"C\", $2 COLLATE \"C\") ORDER BY a.object, a.action LIMIT $3",
    3,
};

/* Actions in the order of their objects, a page at a time. */
struct actions {
    struct tx *tx;
    struct rows *rows;
    size_t at;
    bool begun;
};

struct making {
    struct graph *graph;
    EVP_MD_CTX *digest;
    struct buf *row;
    struct actions actions;
};

/* Is there an action at hand? Fetches the next page where one is due. */
static struct fault actions_front(struct actions *actions, bool *ret_there)
{
    size_t count = actions->rows != NULL ? rows_count(actions->rows) : 0;
    if (actions->at == count && (!actions->begun || count == PAGE)) {
        struct rows *next = NULL;
        const char *object = count > 0 ? rows_text(actions->rows, count - 1, 0) : "";
        const char *action = count > 0 ? rows_text(actions->rows, count - 1, 1) : "";
        const struct sql_arg args[] = { SQL_TEXT(object), SQL_TEXT(action), SQL_INT(PAGE) };
        TRY(tx_query(actions->tx, &SQL_ACTIONS, args, COUNT_OF(args), &next));
        rows_free(actions->rows);
        *actions = (struct actions){ .tx = actions->tx, .rows = next, .begun = true };
        count = rows_count(next);
    }
    *ret_there = actions->at < count;
    return OK;
}

/* The actions of `object` from the front on: how many, without taking them. Those of objects before it are unbound. */
static struct fault actions_of(struct making *making, const char *object, bool *ret_bound)
{
    struct actions *actions = &making->actions;
    for (bool there = true; there;) {
        TRY(actions_front(actions, &there));
        int order = there ? strcmp(rows_text(actions->rows, actions->at, 0), object) : 1;
        if (order >= 0) {
            *ret_bound = order == 0;
            return OK;
        }
        making->graph->unbound++;
        actions->at++;
    }
    *ret_bound = false;
    return OK;
}

static void print_time(struct jout *out, const char *key, utc_us time)
{
    jout_key(out, key);
    if (time != 0) {
        jout_time(out, time);
    } else {
        jout_null(out);
    }
}

static void print_action(struct jout *out, const struct rows *rows, size_t at)
{
    jout_object(out);
    jout_key_text(out, "action", rows_text(rows, at, 1));
    print_time(out, "due", rows_int(rows, at, 3));
    jout_key_text(out, "event_id", rows_text(rows, at, 8));
    jout_key_text(out, "note", rows_text(rows, at, 4));
    jout_key_time(out, "recorded_at", rows_int(rows, at, 6));
    jout_key_text(out, "recorded_by", rows_text(rows, at, 5));
    jout_key_int(out, "revision", rows_int(rows, at, 9));
    jout_key_text(out, "state", rows_text(rows, at, 2));
    jout_object_end(out);
}

static void print_reference(struct jout *out, const struct rows *rows, size_t at)
{
    jout_object(out);
    jout_key_hex(out, "chain", rows_bytes(rows, at, 10));
    jout_key_text(out, "event_id", rows_text(rows, at, 8));
    jout_key_time(out, "observed_at", rows_int(rows, at, 6));
    jout_key_int(out, "sequence", rows_int(rows, at, 7));
    jout_key_text(out, "type", EVENT_ACTION);
    jout_object_end(out);
}

static void print_asset(struct jout *out, const struct crypto_asset *asset)
{
    jout_key(out, "algorithm");
    jout_object(out);
    jout_key_int(out, "bits", asset->algorithm->bits);
    jout_key_text(out, "name", asset->algorithm->name);
    jout_key_text(out, "parameter_set", asset->algorithm->parameter_set);
    jout_object_end(out);
    print_time(out, "created_at", asset->created);
    jout_key(out, "dependents");
    jout_object(out);
    jout_key_int(out, "certificates", asset->certificates);
    print_time(out, "last_observed_at", asset->last_observed);
    jout_key_int(out, "rules", asset->rules);
    jout_key_int(out, "signing_operations", asset->signing_operations);
    jout_object_end(out);
}

static void print_rest(struct jout *out, const struct crypto_asset *asset)
{
    const struct crypto_advice advice =
        crypto_advise(asset->algorithm, asset->kind, asset->purpose, asset->signing_operations);
    jout_key_text(out, "key", asset->key_object[0] != '\0' ? asset->key_object : NULL);
    jout_key_text(out, "kind", crypto_kind_text(asset->kind));
    jout_key_text(out, "name", asset->name);
    print_time(out, "not_after", asset->not_after);
    jout_key_text(out, "object", asset->object);
    jout_key_text(out, "posture", crypto_posture_text(asset->algorithm->posture));
    jout_key_text(out, "purpose", asset->purpose);
    jout_key_text(out, "quantum", crypto_quantum_text(asset->algorithm->quantum));
    jout_key(out, "recommendation");
    jout_object(out);
    jout_key_text(out, "code", advice.code);
    jout_key_text(out, "text", advice.text);
    jout_object_end(out);
    jout_key_text(out, "state", asset->state);
    jout_key_text(out, "subject", asset->subject);
    jout_key_bool(out, "system", asset->system);
}

/* At most four actions an object: a page boundary between them is met by taking them one after the other, twice. */
static struct fault print_actions(struct making *making, const char *object, struct jout *out, struct jout *references)
{
    struct actions *actions = &making->actions;
    for (bool bound = true; bound;) {
        TRY(actions_of(making, object, &bound));
        if (bound) {
            print_action(out, actions->rows, actions->at);
            print_reference(references, actions->rows, actions->at);
            actions->at++;
        }
    }
    return OK;
}

static struct fault print_row(struct making *making, const struct crypto_asset *asset)
{
    CLEANUP(buf_free) struct buf evidence = BUF_INIT(ROW_MAX);
    struct jout out, references;
    jout_init(&out, making->row);
    jout_init(&references, &evidence);
    jout_array(&references);
    jout_object(&references);
    jout_key_text(&references, "object", asset->object);
    jout_key_int(&references, "version", asset->version);
    jout_object_end(&references);
    jout_object(&out);
    jout_key(&out, "actions");
    jout_array(&out);
    TRY(print_actions(making, asset->object, &out, &references));
    jout_array_end(&out);
    jout_array_end(&references);
    TRY(jout_end(&references));
    print_asset(&out, asset);
    jout_key_raw(&out, "evidence", buf_span(&evidence));
    print_rest(&out, asset);
    jout_object_end(&out);
    return jout_end(&out);
}

static struct fault take_row(void *arg, const struct crypto_asset *asset)
{
    struct making *making = arg;
    struct graph *graph = making->graph;
    buf_clear(making->row);
    TRY(print_row(making, asset));
    TRY(buf_u8(making->row, '\n'));
    REQUIRE(EVP_DigestUpdate(making->digest, making->row->at, making->row->len) == 1, CRYPTO);
    crypto_count_asset(&graph->counts, asset);
    graph->total++;
    if (graph->listed < READINESS_LISTED && graph->listed + 1 == graph->total &&
        graph->rows.len + making->row->len <= graph->rows.max) {
        TRY(buf_put(&graph->rows, buf_span(making->row)));
        graph->listed++;
    }
    return OK;
}

static struct fault make(struct op *op, struct services *services, struct tx *tx, utc_us now,
                         struct custody_summary *custody, struct making *making)
{
    CLEANUP(EVP_MD_freep) EVP_MD *sha256 = EVP_MD_fetch(crypto_context(), "SHA256", NULL);
    struct graph *graph = making->graph;
    unsigned len = 0;
    if (sha256 == NULL || EVP_DigestInit_ex2(making->digest, sha256, NULL) != 1) {
        return crypto_fail(op, "the dataset's digest cannot be made");
    }
    TRY(crypto_walk(op, services, tx, now, custody, take_row, making));
    for (bool there = true; there;) { /* whatever is left names nothing that is listed */
        TRY(actions_front(&making->actions, &there));
        graph->unbound += there ? 1 : 0;
        making->actions.at += there ? 1 : 0;
    }
    REQUIRE(EVP_DigestFinal_ex(making->digest, graph->digest.at, &len) == 1 && len == SHA256_LEN, CRYPTO);
    return OK;
}

struct fault graph_load(struct op *op, struct services *services, struct tx *tx, utc_us now,
                        struct custody_summary *custody, size_t bytes_max, struct graph *ret_graph)
{
    CLEANUP(EVP_MD_CTX_freep) EVP_MD_CTX *digest = EVP_MD_CTX_new();
    CLEANUP(buf_free) struct buf row = BUF_INIT(16 * ROW_MAX);
    CLEANUP(graph_clear) struct graph graph = { .rows = BUF_INIT(bytes_max) };
    struct making making = { .graph = &graph, .digest = digest, .row = &row, .actions = { .tx = tx } };
    REQUIRE(digest != NULL, NO_MEMORY);
    struct fault fault = make(op, services, tx, now, custody, &making);
    rows_free(making.actions.rows);
    TRY(fault);
    *ret_graph = graph;
    graph = (struct graph){ .rows = BUF_INIT(0) };
    return OK;
}

void graph_clear(struct graph *graph)
{
    buf_free(&graph->rows);
}

bool graph_next(struct span *rest, struct span *ret_row)
{
    const uint8_t *end = rest->len > 0 ? memchr(rest->at, '\n', rest->len) : NULL;
    if (end == NULL) {
        return false;
    }
    *ret_row = span_of(rest->at, (size_t)(end - rest->at));
    *rest = span_of(end + 1, rest->len - ret_row->len - 1);
    return true;
}

void graph_print_head(const struct graph *graph, struct jout *out)
{
    jout_key_bool(out, "complete", graph->listed == graph->total);
    jout_key_text(out, "coverage", graph_coverage);
    jout_key_hex(out, "dataset_digest", SPAN_ARRAY(graph->digest.at));
    jout_key_text(out, "format", READINESS_FORMAT);
    jout_key_int(out, "listed", graph->listed);
}

void graph_print_tail(const struct graph *graph, struct jout *out)
{
    jout_key_int(out, "total", graph->total);
    jout_key_int(out, "unbound_actions", graph->unbound);
}

void graph_print(const struct graph *graph, struct jout *out)
{
    struct span rest = buf_span(&graph->rows);
    struct span row;
    jout_object(out);
    graph_print_head(graph, out);
    jout_key(out, "rows");
    jout_array(out);
    while (graph_next(&rest, &row)) {
        jout_raw(out, row);
    }
    jout_array_end(out);
    graph_print_tail(graph, out);
    jout_object_end(out);
}
