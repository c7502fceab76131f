/*
 * One end's side of mutual TLS: its certificate and key, the authority that it trusts, and the names of which the
 * peer's certificate must carry one. The files are read again when they have changed, for connections that are made
 * then; a set that cannot be used (half replaced, say) leaves the old one in force. Thread-safe.
 *
 * The peer is accepted when its chain ends at a certificate of ca_file, all of it is valid now and strong enough, its
 * own certificate says for which side it is (extended key usage, required), and one of its subject alternative names
 * (DNS or URI) is, byte for byte, one of `names`. No wildcards, no common names.
 */
#ifndef SIGNER_PROTOCOL_TLS_END_H
#define SIGNER_PROTOCOL_TLS_END_H

#include "appliance/base/config.h"

#define TLS_NAMES_MAX 32
#define TLS_NAME_MAX  255

enum tls_side { TLS_SERVER, TLS_CLIENT };

struct tls_settings {
    enum tls_side side;
    const char *certificate_file; /* PEM chain, leaf first */
    const char *key_file;         /* PEM, mode 0600 */
    const char *ca_file;          /* PEM; all of it are authorities */
    const struct config_list *names;
};

struct tls_end;

/* `settings` and what it points to are borrowed for the end's life. CONFIG, and `why` gets a line: a file that is not
 * usable, a key that is not the certificate's, a certificate that is not for this side. */
struct fault tls_end_new(const struct tls_settings *settings, struct buf *why, struct tls_end **ret_end);
void tls_end_free(struct tls_end *end);
DEFINE_FREEP(struct tls_end, tls_end_free)

/* Why a connection did not come about: a closed list, for logs. */
enum tls_refusal {
#define TLS_REFUSAL_ROW(sym, text, doc) TLS_REFUSAL_##sym,
#include "signer-pkcs11/protocol/tls_refusal.def"
#undef TLS_REFUSAL_ROW
    TLS_REFUSAL_COUNT
};
const char *tls_refusal_text(enum tls_refusal refusal); /* "peer_name" */

enum tls_reload { TLS_RELOAD_NOT, TLS_RELOAD_DONE, TLS_RELOAD_REFUSED };

struct tls_report {
    enum tls_refusal refusal;    /* NONE: the connection stands */
    char peer[TLS_NAME_MAX + 1]; /* the name by which it was accepted */
    char detail[160];            /* the library's words about a refusal */
    enum tls_reload reload;      /* the files had changed; told once */
    char reload_detail[256];     /* why the new ones are not usable */
};

#endif
