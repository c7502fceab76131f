#include "api/projection/internal.h"

#include "appliance/base/alloc.h"

#define BUCKETS   1024u
#define HEADS_MAX 8192u

static const struct sql SQL_AUDIT_HEAD = {
    "projection_audit_head",
    "SELECT sequence, chain FROM svc.audit_heads WHERE tenant_id = $1",
    1,
};

struct heads {
    struct head *buckets[BUCKETS];
    size_t count;
    uint64_t batch;
    struct head *touched;
};

struct fault heads_new(struct heads **ret_heads)
{
    return mem_new(1, sizeof(struct heads), ret_heads);
}

void heads_clear(struct heads *heads)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        while (heads->buckets[i] != NULL) {
            struct head *head = heads->buckets[i];
            heads->buckets[i] = head->chained;
            tree_tail_free(&head->tail);
            mem_free(head);
        }
    }
    heads->count = 0;
    heads->touched = NULL;
}

void heads_free(struct heads *heads)
{
    if (heads != NULL) {
        heads_clear(heads);
        mem_free(heads);
    }
}

void heads_begin(struct heads *heads)
{
    if (heads->count > HEADS_MAX) {
        heads_clear(heads);
    }
    heads->batch++;
    heads->touched = NULL;
}

void heads_commit(struct heads *heads)
{
    for (struct head *head = heads->touched; head != NULL; head = head->touched) {
        head->sequence = head->next_sequence;
        head->chain = head->next_chain;
    }
    heads_begin(heads);
}

struct head *heads_touched(struct heads *heads)
{
    return heads->touched;
}

static struct head **bucket_of(struct heads *heads, struct tenant_id tenant)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (const char *c = tenant.text; *c != '\0'; c++) {
        hash = (hash ^ (uint8_t)*c) * 16777619u;
    }
    return &heads->buckets[hash % BUCKETS];
}

static struct fault load(struct tx *tx, struct head *head)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_query(tx, &SQL_AUDIT_HEAD, (struct sql_arg[]){ SQL_TEXT(head->tenant.text) }, 1, &rows));
    if (rows_count(rows) == 1) {
        struct span chain = rows_bytes(rows, 0, 1);
        REQUIRE(chain.len == SHA256_LEN, INTERNAL);
        head->sequence = rows_int(rows, 0, 0);
        memcpy(head->chain.at, chain.at, SHA256_LEN);
    }
    return OK;
}

static struct fault find(struct tx *tx, struct heads *heads, struct tenant_id tenant, struct head **ret_head)
{
    struct head **bucket = bucket_of(heads, tenant);
    for (struct head *head = *bucket; head != NULL; head = head->chained) {
        if (tenant_id_equal(head->tenant, tenant)) {
            *ret_head = head;
            return OK;
        }
    }
    CLEANUP(mem_freep) struct head *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    made->tenant = tenant;
    TRY(load(tx, made));
    made->chained = *bucket;
    *bucket = made;
    heads->count++;
    *ret_head = TAKE(made);
    return OK;
}

struct fault heads_get(struct tx *tx, struct heads *heads, struct tenant_id tenant, struct head **ret_head)
{
    struct head *head = NULL;
    TRY(find(tx, heads, tenant, &head));
    if (head->batch != heads->batch) {
        head->batch = heads->batch;
        head->next_sequence = head->sequence;
        head->next_chain = head->chain;
        head->touched = heads->touched;
        heads->touched = head;
    }
    *ret_head = head;
    return OK;
}
