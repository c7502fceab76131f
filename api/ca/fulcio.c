/*
 * The client of a configured Fulcio: one POST /api/v2/signingCert with the identity token, the ephemeral public key and
 * a signature by that key over the token's subject. The token is sent and not kept.
 */
#include "api/ca/internal.h"
#include "appliance/base/file.h"
#include "appliance/base/json.h"
#include "appliance/base/json_view.h"
#include "appliance/http/http.h"

#include <stdio.h>

#define PATH         "/api/v2/signingCert"
#define REQUEST_MAX  ((size_t)64 << 10)
#define ANSWER_MAX   ((size_t)256 << 10)
#define ROOTS_MAX    ((size_t)1 << 20)
#define LIMIT_NS     (30 * NS_PER_S)
#define RETRY_MAX_S  600
#define LABEL_PUBLIC "PUBLIC KEY"

/* Fulcio checks the proof against what it takes for the principal's name: the address where the identity is one, else
 * the token's subject. */
static const char *challenge_of(const struct keyless_subject *subject)
{
    return subject->san_kind == KEYLESS_SAN_EMAIL ? subject->san : subject->subject;
}

static struct fault prove_possession(struct op *op, struct signer_client *signer, const struct keyless_subject *subject,
                                     struct buf *signature)
{
    struct sha256 digest;
    const char *challenge = challenge_of(subject);
    const struct span parts[] = { span_text(subject->operation_id.text) };
    BUG_IF(challenge == NULL);
    TRY(sha256_of(span_text(challenge), &digest));
    struct sign_request request = {
        .key = subject->key,
        .scheme = SIGN_SCHEME_ECDSA,
        .hash = HASH_SHA256,
        .digest = SPAN_ARRAY(digest.at),
    };
    TRY(uuid_derive("fulcio.proof-of-possession", parts, COUNT_OF(parts), &request.op_id));
    return signer_sign(op, signer, &request, signature);
}

static struct fault compose(struct op *op, struct signer_client *signer, const struct keyless_subject *subject,
                            struct buf *body)
{
    CLEANUP(buf_free) struct buf pem = BUF_INIT((size_t)SPKI_MAX * 2);
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *public = NULL;
    struct jout jout;
    TRY(ca_public_key(op, subject->spki, &public));
    if (EVP_PKEY_is_a(public, "EC") != 1) {
        return op_fail(op, FAULT(UNSUPPORTED), "Fulcio is asked for ECDSA keys only");
    }
    TRY(ca_pem(LABEL_PUBLIC, subject->spki, &pem));
    TRY(prove_possession(op, signer, subject, &signature));
    jout_init(&jout, body);
    jout_object(&jout);
    jout_key(&jout, "credentials");
    jout_object(&jout);
    jout_key(&jout, "oidcIdentityToken");
    jout_span_text(&jout, subject->proof);
    jout_object_end(&jout);
    jout_key(&jout, "publicKeyRequest");
    jout_object(&jout);
    jout_key(&jout, "publicKey");
    jout_object(&jout);
    jout_key_text(&jout, "algorithm", "ECDSA");
    jout_key(&jout, "content");
    jout_span_text(&jout, buf_span(&pem));
    jout_object_end(&jout);
    jout_key_base64(&jout, "proofOfPossession", buf_span(&signature));
    jout_object_end(&jout);
    jout_object_end(&jout);
    return jout_end(&jout);
}

/* The token must not travel in the clear, except to a neighbour on this machine. */
static bool is_loopback(const char *url)
{
    static const char *const near[] = { "http://127.0.0.1", "http://[::1]", "http://localhost" };
    for (size_t i = 0; i < COUNT_OF(near); i++) {
        size_t len = strlen(near[i]);
        if (strncmp(url, near[i], len) == 0 && (url[len] == '\0' || url[len] == ':' || url[len] == '/')) {
            return true;
        }
    }
    return false;
}

/* Seconds, when it says so in seconds; 0 = it does not. */
static int retry_after(const char *text)
{
    int seconds = 0;
    for (const char *digit = text; *digit != '\0'; digit++) {
        if (*digit < '0' || *digit > '9') {
            return 0;
        }
        seconds = seconds > RETRY_MAX_S ? seconds : seconds * 10 + (*digit - '0');
    }
    return seconds < RETRY_MAX_S ? seconds : RETRY_MAX_S;
}

/* Fulcio's own words, for the log; not if they might repeat the token ("eyJ" is how every JWT begins). */
static void note_reason(struct op *op, const struct http_answer *answer)
{
    struct view view;
    const char *message = NULL;
    if (!FAULTED(view_of(op, buf_span(&answer->body), &view))) {
        message = view_member(op, view, "message");
    }
    op_note_log(op, "fulcio answered %ld: %.200s", answer->status,
                message != NULL && strstr(message, "eyJ") == NULL ? message : "(no message)");
}

static struct fault judge_status(struct op *op, const struct http_answer *answer)
{
    if (answer->status == 200 || answer->status == 201) {
        return OK;
    }
    if (answer->status >= 500 || answer->status == 429) {
        op->note.retry_after_s = op->note.set ? op->note.retry_after_s : retry_after(answer->retry_after);
        return op_fail(op, FAULT(FULCIO_UNAVAILABLE), "Fulcio answers with HTTP status %ld for now", answer->status);
    }
    note_reason(op, answer);
    return op_fail(op, FAULT(FULCIO_REFUSED), "Fulcio refused to certify this identity (HTTP status %ld)",
                   answer->status);
}

static struct fault ask(struct op *op, const struct config *config, struct span body, struct buf *answer_body)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    const char *url = NULL;
    char why[256] = "";
    size_t base = strlen(config->fulcio_url);
    while (base > 0 && config->fulcio_url[base - 1] == '/') {
        base--;
    }
    int64_t left = op->deadline - clock_mono();
    REQUIRE(left > 0, DEADLINE);
    TRY(arena_printf(op->arena, &url, "%.*s" PATH, (int)base, config->fulcio_url));
    const struct http_request request = {
        .method = "POST",
        .url = url,
        .content_type = "application/json",
        .body = body,
        .accept = "application/json",
        .ca_file = config->fulcio_ca[0] != '\0' ? config->fulcio_ca : NULL,
        .plain_too = is_loopback(config->fulcio_url),
        .keep = true,
        .timeout_ns = left < LIMIT_NS ? left : LIMIT_NS,
        .answer_max = ANSWER_MAX,
    };
    if (FAULTED(http_send(&request, why, sizeof(why), &answer))) {
        op_note_log(op, "fulcio: %s", why);
        return op_fail(op, FAULT(FULCIO_UNAVAILABLE), "Fulcio does not answer (code_signing.keyless.fulcio_url)");
    }
    TRY(judge_status(op, &answer));
    return buf_put(answer_body, buf_span(&answer.body));
}

struct fault fulcio_issue(struct op *op, const struct config *config, struct signer_client *signer,
                          const struct keyless_subject *subject, struct span **ret_chain, size_t *ret_count)
{
    CLEANUP(buf_free) struct buf roots = BUF_INIT(ROOTS_MAX);
    CLEANUP(buf_free) struct buf body = BUF_INIT(REQUEST_MAX);
    CLEANUP(buf_free) struct buf answer = BUF_INIT(ANSWER_MAX);
    struct span sent[CA_CHAIN_MAX];
    size_t count = 0;
    if (FAULTED(file_read(config->fulcio_root, &roots))) {
        return op_fail(op, FAULT(FULCIO_REFUSED), "code_signing.keyless.fulcio_root_file cannot be read: '%s'",
                       config->fulcio_root);
    }
    TRY(compose(op, signer, subject, &body));
    TRY(ask(op, config, buf_span(&body), &answer));
    TRY(fulcio_answer_chain(op, buf_span(&answer), sent, &count));
    return fulcio_verify(op, buf_span(&roots), subject, sent, count, clock_utc(), ret_chain, ret_count);
}
