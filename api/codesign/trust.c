/* What verifiers have to trust: the keyless authorities, the time-stamping authority and the logs of a tenant. */
#include "api/codesign/internal.h"

#include "api/codesign/verify.h"
#include "api/tsa/tsa.h"
#include "appliance/base/file.h"

#define ANSWER_MAX ((size_t)256 << 10)
#define PEM_MAX    ((size_t)256 << 10)

/* The authorities of keyless certificates that this tenant ever had, or Fulcio's pinned roots. */
struct fault trust_authorities(struct request *request, struct chain *ret_roots)
{
    const struct config *config = request->services->config;
    struct managed_key *keys = NULL;
    struct chain roots = { 0 };
    size_t count = 0;
    if (config->fulcio_url[0] != '\0') {
        CLEANUP(buf_free) struct buf pem = BUF_INIT(PEM_MAX);
        struct span kept;
        TRY(file_read(config->fulcio_root, &pem));
        TRY(arena_copy(request->op->arena, buf_span(&pem), &kept));
        return chain_from_pem(request->op, kept, "fulcio_root_file", ret_roots);
    }
    TRY(keys_history(request->op, request->services, KEY_PURPOSE_CA, &keys, &count));
    for (size_t i = 0; i < count && roots.count < CHAIN_MAX; i++) {
        if (strcmp(keys[i].name, KEYLESS_CA_NAME) == 0 && keys[i].chain_count > 0) {
            roots.at[roots.count++] = keys[i].chain[0];
        }
    }
    *ret_roots = roots;
    return OK;
}

static struct fault put_authority(struct op *op, struct jout *jout, const struct chain *chain)
{
    struct identity identity;
    utc_us from = 0, until = 0;
    TRY(certificate_identity(op, chain->at[0], &identity));
    TRY(certificate_validity(op, chain->at[0], &from, &until));
    jout_object(jout);
    jout_key(jout, "subject");
    jout_object(jout);
    jout_key_text(jout, "organization", op->tenant.text);
    jout_key_text(jout, "commonName", identity.subject);
    jout_object_end(jout);
    jout_key(jout, "certChain");
    jout_object(jout);
    jout_key(jout, "certificates");
    jout_array(jout);
    for (size_t i = 0; i < chain->count; i++) {
        jout_object(jout);
        jout_key_base64(jout, "rawBytes", chain->at[i]);
        jout_object_end(jout);
    }
    jout_array_end(jout);
    jout_object_end(jout);
    jout_key(jout, "validFor");
    jout_object(jout);
    jout_key_time(jout, "start", from);
    jout_key_time(jout, "end", until);
    jout_object_end(jout);
    jout_object_end(jout);
    return OK;
}

static struct fault put_authorities(struct request *request, struct jout *jout)
{
    struct chain roots;
    TRY(trust_authorities(request, &roots));
    jout_key(jout, "certificateAuthorities");
    jout_array(jout);
    for (size_t i = 0; i < roots.count; i++) {
        const struct chain one = { .at = { roots.at[i] }, .count = 1 };
        TRY(put_authority(request->op, jout, &one));
    }
    jout_array_end(jout);
    return OK;
}

static struct fault put_stampers(struct request *request, struct jout *jout)
{
    struct chain chain = { .count = 2 };
    jout_key(jout, "timestampAuthorities");
    jout_array(jout);
    if (tsa_certificates(request->services, &chain.at[0], &chain.at[1])) {
        TRY(put_authority(request->op, jout, &chain));
    }
    jout_array_end(jout);
    return OK;
}

/* Sigstore's TrustedRoot, in its protobuf JSON form. */
struct fault route_trusted_root(struct request *request)
{
    CLEANUP(buf_free) struct buf answer = BUF_INIT(ANSWER_MAX);
    struct jout jout;
    jout_init(&jout, &answer);
    jout_object(&jout);
    jout_key_text(&jout, "mediaType", "application/vnd.dev.sigstore.trustedroot+json;version=0.1");
    jout_key(&jout, "tlogs");
    TRY(transparency_trust(request->op, request->services, &jout));
    TRY(put_authorities(request, &jout));
    jout_key(&jout, "ctlogs");
    jout_array(&jout);
    jout_array_end(&jout);
    TRY(put_stampers(request, &jout));
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return response_json(request, 0, &answer);
}
