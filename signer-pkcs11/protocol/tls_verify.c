#include "appliance/base/crypto.h"
#include "signer-pkcs11/protocol/tls_internal.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>

const char *tls_refusal_text(enum tls_refusal refusal)
{
    static const char *const texts[] = {
#define TLS_REFUSAL_ROW(sym, text, doc) [TLS_REFUSAL_##sym] = (text),
#include "signer-pkcs11/protocol/tls_refusal.def"
#undef TLS_REFUSAL_ROW
    };
    return (unsigned)refusal < TLS_REFUSAL_COUNT ? texts[refusal] : texts[TLS_REFUSAL_INTERNAL];
}

/* ---- the peer's certificate ---- */

bool tls_certificate_is_for(X509 *certificate, enum tls_side side)
{
    uint32_t wanted = side == TLS_SERVER ? XKU_SSL_SERVER : XKU_SSL_CLIENT;
    return (X509_get_extension_flags(certificate) & EXFLAG_XKUSAGE) != 0 &&
           (X509_get_extended_key_usage(certificate) & wanted) != 0;
}

/* Text of a stranger, though one whom the authority vouches for: printable, and as much as there is room for. */
static void note_other(struct tls_stream *stream, struct span name)
{
    size_t at = strlen(stream->others);
    if (at > 0 && at + 2 < sizeof(stream->others)) {
        stream->others[at++] = ',';
        stream->others[at++] = ' ';
    }
    for (size_t i = 0; i < name.len && at + 1 < sizeof(stream->others); i++) {
        stream->others[at++] = (char)(name.at[i] > ' ' && name.at[i] < 0x7f ? name.at[i] : '?');
    }
    stream->others[at] = 0;
}

static bool is_pinned(struct tls_stream *stream, struct span name)
{
    for (size_t i = 0; i < stream->names->count; i++) {
        if (span_equal_text(name, stream->names->at[i])) { /* by length: a NUL inside ends nothing */
            (void)snprintf(stream->peer, sizeof(stream->peer), "%s", stream->names->at[i]);
            return true;
        }
    }
    note_other(stream, name);
    return false;
}

static bool has_pinned_name(struct tls_stream *stream, X509 *certificate)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    bool found = false;
    stream->others[0] = 0;
    for (int i = 0; i < sk_GENERAL_NAME_num(names) && !found; i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (name->type == GEN_DNS || name->type == GEN_URI) {
            const ASN1_IA5STRING *text = name->d.ia5;
            found = is_pinned(stream, span_of(ASN1_STRING_get0_data(text), (size_t)ASN1_STRING_length(text)));
        }
    }
    GENERAL_NAMES_free(names);
    return found;
}

int tls_verify(int ok, X509_STORE_CTX *store)
{
    if (ok == 0 || X509_STORE_CTX_get_error_depth(store) != 0) {
        return ok;
    }
    const SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct tls_stream *stream = SSL_get_app_data(ssl);
    X509 *certificate = X509_STORE_CTX_get_current_cert(store);
    enum tls_side peer = stream->side == TLS_SERVER ? TLS_CLIENT : TLS_SERVER;
    stream->peer[0] = 0;
    if (certificate == NULL || !tls_certificate_is_for(certificate, peer)) {
        X509_STORE_CTX_set_error(store, X509_V_ERR_INVALID_PURPOSE);
        return 0;
    }
    if (!has_pinned_name(stream, certificate)) {
        X509_STORE_CTX_set_error(store, X509_V_ERR_HOSTNAME_MISMATCH);
        return 0;
    }
    return 1;
}

/* ---- why not ---- */

static enum tls_refusal of_certificate(long result)
{
    switch (result) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        return TLS_REFUSAL_EXPIRED;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return TLS_REFUSAL_NOT_YET;
    case X509_V_ERR_INVALID_PURPOSE:
        return TLS_REFUSAL_PURPOSE;
    case X509_V_ERR_HOSTNAME_MISMATCH:
        return TLS_REFUSAL_NAME;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_CERT_UNTRUSTED:
        return TLS_REFUSAL_UNTRUSTED;
    case X509_V_ERR_EE_KEY_TOO_SMALL:
    case X509_V_ERR_CA_KEY_TOO_SMALL:
    case X509_V_ERR_CA_MD_TOO_WEAK:
        return TLS_REFUSAL_WEAK;
    default:
        return TLS_REFUSAL_CERTIFICATE;
    }
}

#define ALERT_VERSION 70 /* RFC 8446 6.2: protocol_version */

static enum tls_refusal of_queue(unsigned long error)
{
    int reason = ERR_GET_REASON(error);
    if (error == 0) {
        return TLS_REFUSAL_CLOSED;
    }
    if (ERR_GET_LIB(error) != ERR_LIB_SSL) {
        return TLS_REFUSAL_INTERNAL;
    }
    if (reason >= SSL_AD_REASON_OFFSET) {
        return reason == SSL_AD_REASON_OFFSET + ALERT_VERSION ? TLS_REFUSAL_VERSION : TLS_REFUSAL_BY_PEER;
    }
    switch (reason) {
    case SSL_R_UNEXPECTED_EOF_WHILE_READING:
        return TLS_REFUSAL_CLOSED;
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        return TLS_REFUSAL_NO_CERTIFICATE;
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_WRONG_SSL_VERSION:
    case SSL_R_VERSION_TOO_LOW:
        return TLS_REFUSAL_VERSION;
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_NO_SUITABLE_KEY_SHARE:
    case SSL_R_NO_SUITABLE_GROUPS:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
    case SSL_R_NO_SHARED_SIGNATURE_ALGORITHMS:
    case SSL_R_WRONG_CURVE:
    case SSL_R_WRONG_SIGNATURE_TYPE:
    case SSL_R_WRONG_CIPHER_RETURNED:
        return TLS_REFUSAL_ALGORITHM;
    default:
        return TLS_REFUSAL_NOT_TLS;
    }
}

void tls_refusal_of(const struct tls_stream *stream, bool late, struct tls_report *report)
{
    long result = SSL_get_verify_result(stream->ssl);
    unsigned long error = ERR_peek_error();
    const char *words = ERR_reason_error_string(error);
    if (late) {
        report->refusal = TLS_REFUSAL_TIMEOUT;
        return;
    }
    if (result == X509_V_OK) {
        report->refusal = of_queue(error);
        (void)snprintf(report->detail, sizeof(report->detail), "%s", words != NULL ? words : "");
        return;
    }
    report->refusal = of_certificate(result);
    if (report->refusal == TLS_REFUSAL_NAME) {
        (void)snprintf(report->detail, sizeof(report->detail), "it is %s",
                       stream->others[0] != 0 ? stream->others : "without a name");
    } else {
        (void)snprintf(report->detail, sizeof(report->detail), "%s", X509_verify_cert_error_string(result));
    }
}
