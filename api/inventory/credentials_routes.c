#include "api/inventory/credentials.h"

#include "api/page.h"

#define ANSWER_MAX ((size_t)4 << 20)
#define DAY_US     (86400 * US_PER_S)

static void print_time(struct jout *jout, const char *name, utc_us time)
{
    if (time != 0) {
        jout_key_time(jout, name, time);
    }
}

static void print_owner(struct jout *jout, const struct credential *credential, int64_t valid_us, utc_us now)
{
    const struct credential_owner *owner = &credential->owner;
    jout_key(jout, "owner");
    if (owner->owner_id == NULL) {
        jout_null(jout);
        return;
    }
    jout_object(jout);
    jout_key_text(jout, "owner_id", owner->owner_id);
    jout_key_text(jout, "contact", owner->contact);
    jout_key_text(jout, "application_id", owner->application_id);
    jout_key_text(jout, "environment", owner->environment);
    jout_key_time(jout, "attested_at", owner->attested);
    jout_key_text(jout, "attested_by", owner->attested_by);
    jout_key_bool(jout, "complete", credential_owner_complete(owner));
    jout_key_bool(jout, "attestation_current", owner->attested > now - valid_us && owner->attested <= now);
    jout_key_bool(jout, "of_key", owner->of_key);
    jout_object_end(jout);
}

static void print_credential(struct request *request, struct jout *jout, const struct credential *credential,
                             utc_us now)
{
    bool token = strcmp(credential->kind, "token") == 0;
    bool key = strcmp(credential->kind, "key") == 0;
    jout_object(jout);
    jout_key_text(jout, "kind", credential->kind);
    jout_key_text(jout, "credential_id", credential->id);
    jout_key_text(jout, "name", credential->name);
    jout_key_text(jout, token ? "roles" : key ? "use" : "fingerprint", credential->detail);
    jout_key_bool(jout, "system", credential->system);
    jout_key_text(jout, "state", credential->state);
    jout_key_bool(jout, "live", credential->live);
    jout_key_time(jout, "created_at", credential->created);
    jout_key_int(jout, "age_days", (now - credential->created) / DAY_US);
    print_time(jout, "last_used_at", credential->last_used);
    print_time(jout, "ends_at", credential->end);
    if (!key && credential->key_id != NULL) {
        jout_key_text(jout, "key_id", credential->key_id);
    }
    print_owner(jout, credential, request->services->config->owner_attestation / 1000, now);
    jout_object_end(jout);
}

/* "kind:id" behind the number: a page's position. */
static struct fault read_filter(struct request *request, const struct page *page, struct credential_filter *ret_filter)
{
    struct op *op = request->op;
    const char *live = request_query(request, "live");
    struct credential_filter filter = { .kind = request_query(request, "kind"),
                                        .before_us = page->number,
                                        .before_id = page->id,
                                        .limit = page->limit + 1 };
    if (filter.kind != NULL && !credential_kind_known(filter.kind)) {
        return op_fail_field(op, FAULT(QUERY), "kind", "kind must be one of " CREDENTIAL_KINDS);
    }
    if (live != NULL) {
        bool yes = strcmp(live, "true") == 0;
        if (!yes && strcmp(live, "false") != 0) {
            return op_fail_field(op, FAULT(QUERY), "live", "live must be true or false");
        }
        filter.live = yes ? CREDENTIAL_LIVE : CREDENTIAL_NOT_LIVE;
    }
    *ret_filter = filter;
    return OK;
}

struct fault route_credential_list(struct request *request)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(ANSWER_MAX);
    struct page page;
    struct credential_filter filter;
    struct credential *list = NULL;
    size_t count = 0;
    struct jout jout;
    utc_us now = clock_utc();
    const char *last = "";
    TRY(page_read(request, &page));
    TRY(read_filter(request, &page, &filter));
    TRY(credential_list(request->op, request->services, &filter, now, &list, &count));
    bool more = count > (size_t)page.limit;
    size_t shown = more ? (size_t)page.limit : count;
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key(&jout, "items");
    jout_array(&jout);
    for (size_t i = 0; i < shown; i++) {
        print_credential(request, &jout, &list[i], now);
    }
    if (more) {
        TRY(arena_printf(request->op->arena, &last, "%s:%s", list[shown - 1].kind, list[shown - 1].id));
    }
    TRY(page_end(request, &jout, more, more ? list[shown - 1].created : 0, last));
    return response_json(request, 0, &out);
}

struct fault route_credential_owner(struct request *request)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(ANSWER_MAX);
    const char *kind = request_path(request, "kind"), *id = request_path(request, "id");
    struct credential credential;
    struct jout jout;
    TRY(owner_record(request->op, request->services, kind, id, request->body));
    utc_us now = clock_utc(); /* behind the attestation, which does not count before it was made */
    TRY(credential_get(request->op, request->services, kind, id, now, &credential));
    jout_init(&jout, &out);
    print_credential(request, &jout, &credential, now);
    TRY(jout_end(&jout));
    return response_json(request, 0, &out);
}
