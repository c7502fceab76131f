/* What verifiers have to trust: the keyless authorities, the time-stamping authority and the logs of a tenant. */
#include "api/codesign/trust.h"

#include "api/codesign/internal.h"
#include "api/tsa/tsa.h"
#include "appliance/base/file.h"

#define ANSWER_MAX ((size_t)256 << 10)
#define PEM_MAX    ((size_t)256 << 10)

/* ---- who they are ---- */

/* The time in which the whole chain is valid. */
static struct fault window_of(struct op *op, struct authority *authority)
{
    authority->from = INT64_MIN;
    authority->until = INT64_MAX;
    for (size_t i = 0; i < authority->chain.count; i++) {
        utc_us from = 0, until = 0;
        TRY(certificate_validity(op, authority->chain.at[i], &from, &until));
        authority->from = from > authority->from ? from : authority->from;
        authority->until = until < authority->until ? until : authority->until;
    }
    return OK;
}

static struct fault add_chain(struct op *op, const struct chain *chain, struct authorities *authorities)
{
    if (authorities->count < AUTHORITIES_MAX) {
        struct authority *authority = &authorities->at[authorities->count];
        *authority = (struct authority){ .chain = *chain };
        TRY(window_of(op, authority));
        authorities->count++;
    }
    return OK;
}

struct fault authorities_add(struct op *op, const struct chain *pool, struct authorities *authorities)
{
    struct chain chains[CHAIN_MAX];
    size_t count = 0;
    TRY(chains_of(op, pool, chains, &count));
    for (size_t i = 0; i < count; i++) {
        TRY(add_chain(op, &chains[i], authorities));
    }
    return OK;
}

/* Newest first, so that the oldest is what is left out of too many. */
static struct fault add_own(struct request *request, struct authorities *authorities)
{
    struct managed_key *keys = NULL;
    size_t count = 0;
    TRY(keys_history(request->op, request->services, KEY_PURPOSE_CA, &keys, &count));
    for (size_t i = count; i > 0; i--) {
        const struct managed_key *key = &keys[i - 1];
        if (strcmp(key->name, KEYLESS_CA_NAME) == 0 && key->chain_count > 0) {
            const struct chain root = { .at = { key->chain[0] }, .count = 1 };
            TRY(add_chain(request->op, &root, authorities));
        }
    }
    return OK;
}

static struct fault add_fulcio(struct request *request, struct authorities *authorities)
{
    CLEANUP(buf_free) struct buf pem = BUF_INIT(PEM_MAX);
    const struct config *config = request->services->config;
    struct chain pool;
    TRY(file_read(config->fulcio_root, &pem));
    TRY(chain_from_pem(request->op, buf_span(&pem), "code_signing.keyless.fulcio_root_file", &pool));
    TRY(authorities_add(request->op, &pool, authorities));
    for (size_t i = 0; i < authorities->count; i++) {
        authorities->at[i].uri = config->fulcio_url;
    }
    return OK;
}

struct fault trust_signers(struct request *request, struct authorities *ret_authorities)
{
    struct authorities authorities = { .count = 0 };
    if (request->services->config->fulcio_url[0] != '\0') {
        TRY(add_fulcio(request, &authorities));
    }
    TRY(add_own(request, &authorities));
    *ret_authorities = authorities;
    return OK;
}

struct fault trust_stampers(struct request *request, struct authorities *ret_authorities)
{
    struct authorities authorities = { .count = 0 };
    struct tsa_chain *chains = NULL;
    size_t count = 0;
    TRY(tsa_history(request->op, request->services, &chains, &count));
    for (size_t i = 0; i < count; i++) {
        struct chain whole = { .count = chains[i].chain_count };
        REQUIRE(whole.count <= CHAIN_MAX, INTERNAL);
        memcpy(whole.at, chains[i].chain, whole.count * sizeof(*whole.at));
        TRY(add_chain(request->op, &whole, &authorities));
    }
    *ret_authorities = authorities;
    return OK;
}

/* ---- as Sigstore's TrustedRoot, in its protobuf JSON form ---- */

static struct fault put_subject(struct op *op, struct jout *jout, struct span root)
{
    struct identity identity;
    TRY(certificate_identity(op, root, &identity));
    jout_key(jout, "subject");
    jout_object(jout);
    jout_key_text(jout, "organization", identity.organization != NULL ? identity.organization : "");
    jout_key_text(jout, "commonName", identity.common_name != NULL ? identity.common_name : "");
    jout_object_end(jout);
    return OK;
}

static struct fault put_authority(struct op *op, struct jout *jout, const struct authority *authority)
{
    const struct chain *chain = &authority->chain;
    jout_object(jout);
    TRY(put_subject(op, jout, chain->at[chain->count - 1]));
    if (authority->uri != NULL) {
        jout_key_text(jout, "uri", authority->uri);
    }
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
    jout_key_time(jout, "start", authority->from);
    jout_key_time(jout, "end", authority->until);
    jout_object_end(jout);
    jout_object_end(jout);
    return OK;
}

static struct fault put_authorities(struct op *op, struct jout *jout, const char *name,
                                    const struct authorities *authorities)
{
    jout_key(jout, name);
    jout_array(jout);
    for (size_t i = 0; i < authorities->count; i++) {
        TRY(put_authority(op, jout, &authorities->at[i]));
    }
    jout_array_end(jout);
    return OK;
}

struct fault route_trusted_root(struct request *request)
{
    CLEANUP(buf_free) struct buf answer = BUF_INIT(ANSWER_MAX);
    struct op *op = request->op;
    struct authorities signers, stampers;
    struct jout jout;
    TRY(trust_signers(request, &signers));
    TRY(trust_stampers(request, &stampers));
    jout_init(&jout, &answer);
    jout_object(&jout);
    jout_key_text(&jout, "mediaType", "application/vnd.dev.sigstore.trustedroot+json;version=0.1");
    jout_key(&jout, "tlogs");
    TRY(transparency_trust(op, request->services, &jout));
    TRY(put_authorities(op, &jout, "certificateAuthorities", &signers));
    jout_key(&jout, "ctlogs");
    jout_array(&jout);
    jout_array_end(&jout);
    TRY(put_authorities(op, &jout, "timestampAuthorities", &stampers));
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return response_json(request, 0, &answer);
}
