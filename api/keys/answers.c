/* A key as the API shows it. */
#include "api/keys/internal.h"

#include "appliance/base/codec.h"

static void print_time(struct jout *jout, const char *name, utc_us time)
{
    if (time != 0) {
        jout_key_time(jout, name, time);
    }
}

static void print_text(struct jout *jout, const char *name, const char *text)
{
    if (text != NULL) {
        jout_key_text(jout, name, text);
    }
}

static struct fault print_public(struct jout *jout, const struct managed_key *key)
{
    CLEANUP(buf_free) struct buf pem = BUF_INIT((size_t)SPKI_MAX * 2);
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
    print_time(jout, "certificate_expires_at", key->certificate_not_after);
    return OK;
}

static void print_life(struct jout *jout, const struct managed_key *key)
{
    jout_key_time(jout, "created_at", key->created);
    jout_key_text(jout, "created_by", key->created_by);
    print_time(jout, "activated_at", key->activated);
    print_time(jout, "retires_at", key->retires);
    print_time(jout, "retired_at", key->retired);
    print_text(jout, "retire_reason", key->retire_reason);
    print_text(jout, "replaced_by", key->replaced_by);
    if (key->destroyed_by != NULL) {
        jout_key_time(jout, "destroyed_at", key->destroyed);
        jout_key_text(jout, "destroyed_by", key->destroyed_by);
        jout_key_text(jout, "destroy_reason", key->destroy_reason);
    }
}

static void print_uses(struct jout *jout, const struct managed_key *key)
{
    jout_key_int(jout, "uses", key->uses);
    print_time(jout, "last_used_at", key->last_used);
    if (key->max_uses > 0) {
        jout_key_int(jout, "max_uses", key->max_uses);
        jout_key_int(jout, "uses_left", key->max_uses - key->claimed);
    }
    print_time(jout, "not_after", key->not_after);
}

/* Who leads knows when a key was probed last; every process knows which keys fail. */
static void print_probe(struct jout *jout, const struct managed_key *key)
{
    struct key_probed probed;
    enum key_state state = key_state_of(key);
    bool in_token = state != KEY_DESTROYED && state != KEY_RETIRED;
    key_probe_get(key->ref.id, &probed);
    if (!in_token || (!probed.known && key->probed == 0)) {
        return;
    }
    const char *code = probed.known && !probed.good ? fault_row(probed.code)->text : key->probe_code;
    if (probed.known && probed.good) {
        code = NULL;
    }
    jout_key(jout, "probe");
    jout_object(jout);
    jout_key_bool(jout, "ok", code == NULL);
    jout_key_time(jout, "at", probed.known ? probed.at : key->probed);
    print_text(jout, "code", code);
    jout_object_end(jout);
}

struct fault key_print(struct jout *jout, const struct managed_key *key)
{
    jout_object(jout);
    jout_key_text(jout, "key_id", key->ref.id.text);
    jout_key_text(jout, "name", key->name);
    jout_key_text(jout, "purpose", key_purpose_text(key->ref.purpose));
    jout_key_text(jout, "algorithm", key_algorithm_text(key->algorithm));
    keys_print_mode(jout, keys_approved_mode(key->algorithm), keys_fenced(key->algorithm));
    jout_key_text(jout, "token", key->ref.token.text);
    jout_key_text(jout, "state", key->state);
    jout_key_int(jout, "version", key->version);
    jout_key_bool(jout, "system", key->system);
    TRY(print_public(jout, key));
    print_life(jout, key);
    print_uses(jout, key);
    print_probe(jout, key);
    jout_object_end(jout);
    return OK;
}
