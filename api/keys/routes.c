#include "api/keys/internal.h"

#include "api/page.h"
#include "appliance/base/codec.h"

static struct fault print_key(struct jout *jout, const struct managed_key *key)
{
    CLEANUP(buf_free) struct buf pem = BUF_INIT((size_t)SPKI_MAX * 2);
    jout_object(jout);
    jout_key_text(jout, "key_id", key->ref.id.text);
    jout_key_text(jout, "name", key->name);
    jout_key_text(jout, "purpose", key_purpose_text(key->ref.purpose));
    jout_key_text(jout, "algorithm", key_algorithm_text(key->algorithm));
    jout_key_text(jout, "state", key->state);
    jout_key_int(jout, "version", key->version);
    jout_key_bool(jout, "system", key->system);
    if (key->spki.len > 0) { /* a secret key has none */
        TRY(key_pem("PUBLIC KEY", key->spki, &pem));
        jout_key_base64(jout, "public_key_der", key->spki);
        jout_key(jout, "public_key_pem");
        jout_span_text(jout, buf_span(&pem));
    }
    jout_key(jout, "certificate_chain");
    jout_array(jout);
    for (size_t i = 0; i < key->chain_count; i++) {
        jout_base64(jout, key->chain[i]);
    }
    jout_array_end(jout);
    jout_key_time(jout, "created_at", key->created);
    jout_key_text(jout, "created_by", key->created_by);
    if (key->destroyed_by != NULL) {
        jout_key_time(jout, "destroyed_at", key->destroyed);
        jout_key_text(jout, "destroyed_by", key->destroyed_by);
        jout_key_text(jout, "destroy_reason", key->destroy_reason);
    }
    jout_object_end(jout);
    return OK;
}

struct fault route_key_answer(struct request *request, const struct managed_key *key)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT((size_t)1 << 20);
    struct jout jout;
    jout_init(&jout, &out);
    TRY(print_key(&jout, key));
    TRY(jout_end(&jout));
    return response_json(request, 0, &out);
}

struct fault route_key_id(struct request *request, struct uuid *ret_id)
{
    if (FAULTED(uuid_parse(span_text(request_path(request, "id")), ret_id))) {
        return op_fail(request->op, FAULT(KEY_NOT_FOUND), "no such key: list the keys with GET /api/v1/keys");
    }
    return OK;
}

struct fault route_key_create(struct request *request)
{
    const struct key_create_body *body = request->body;
    struct key_create create = { .purpose = KEY_PURPOSE_CODESIGN, .name = body->name };
    if (body->purpose != NULL && strcmp(body->purpose, key_purpose_text(KEY_PURPOSE_CODESIGN)) != 0) {
        return op_fail_field(
            request->op, FAULT(JSON_FIELD), "/purpose",
            "/purpose: keys of purpose codesign are made here; the appliance makes its own keys itself");
    }
    if (FAULTED(key_algorithm_parse(span_text(body->algorithm), &create.algorithm)) ||
        create.algorithm == KEY_ALGORITHM_AES_256) {
        return op_fail_field(request->op, FAULT(JSON_FIELD), "/algorithm",
                             "/algorithm: must be ec-p256, ec-p384, rsa-3072 or rsa-4096");
    }
    struct managed_key key;
    TRY(key_create(request->op, request->services, &create, &key));
    return route_key_answer(request, &key);
}

struct fault route_key_get(struct request *request)
{
    struct uuid id;
    struct managed_key key;
    TRY(route_key_id(request, &id));
    TRY(keys_get(request->op, request->services, id, &key));
    return route_key_answer(request, &key);
}

struct fault route_key_transition(struct request *request)
{
    const struct key_transition_body *body = request->body;
    struct uuid id;
    struct managed_key key;
    TRY(route_key_id(request, &id));
    if (strcmp(body->to, "destroyed") != 0) {
        return op_fail_field(request->op, FAULT(JSON_FIELD), "/to",
                             "/to: the only transition of a key is to destroyed");
    }
    TRY(key_destroy(request->op, request->services, id, body->reason, body->expected_version, &key));
    return route_key_answer(request, &key);
}

/* A filter that names nothing known would silently show nothing: refused instead. */
static struct fault check_filter(struct request *request, const char *purpose, const char *state)
{
    enum key_purpose parsed;
    if (purpose != NULL && FAULTED(key_purpose_parse(span_text(purpose), &parsed))) {
        return op_fail_field(request->op, FAULT(QUERY), "purpose", "purpose: no such purpose");
    }
    if (state != NULL && strcmp(state, "active") != 0 && strcmp(state, "destroyed") != 0) {
        return op_fail_field(request->op, FAULT(QUERY), "state", "state: must be active or destroyed");
    }
    return OK;
}

struct fault route_key_list(struct request *request)
{
    struct page page;
    TRY(page_read(request, &page));
    struct key_filter filter = { .purpose = request_query(request, "purpose"),
                                 .state = request_query(request, "state"),
                                 .before_us = page.number,
                                 .before_id = page.id,
                                 .limit = page.limit + 1 };
    TRY(check_filter(request, filter.purpose, filter.state));
    struct managed_key *keys = NULL;
    size_t count = 0;
    TRY(key_list(request->op, request->services, &filter, &keys, &count));
    CLEANUP(buf_free) struct buf out = BUF_INIT((size_t)8 << 20);
    struct jout jout;
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key(&jout, "items");
    jout_array(&jout);
    bool more = count > (size_t)page.limit;
    size_t shown = more ? (size_t)page.limit : count;
    for (size_t i = 0; i < shown; i++) {
        TRY(print_key(&jout, &keys[i]));
    }
    const struct managed_key *last = shown > 0 ? &keys[shown - 1] : NULL;
    TRY(page_end(request, &jout, more, last != NULL ? last->created : 0, last != NULL ? last->ref.id.text : ""));
    return response_json(request, 0, &out);
}
