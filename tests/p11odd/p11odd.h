/*
 * p11odd: a PKCS#11 module for tests. It forwards to the module named by P11ODD_MODULE (SoftHSM when unset) and behaves
 * oddly, in the ways that tokens of other makers do: one row of signer-pkcs11/token/quirk.def each. A test in the same
 * process switches oddities on with p11odd_set, found by dlsym; other processes name them in P11ODD, with commas.
 */
#ifndef TESTS_P11ODD_H
#define TESTS_P11ODD_H

#define P11ODD_TABLE(X)                                                                              \
    X(NO_PUBLIC, "no-public")       /* public key objects cannot be found */                         \
    X(HIDE_INFO, "hide-info")       /* private keys show nothing of their public half */             \
    X(SHOW_POINT, "show-point")     /* EC private keys show CKA_EC_POINT */                          \
    X(SHOW_INFO, "show-info")       /* private keys show CKA_PUBLIC_KEY_INFO, as p11odd_info says */ \
    X(RAW_POINT, "raw-point")       /* CKA_EC_POINT without its OCTET STRING */                      \
    X(PARAMS_NAME, "params-name")   /* CKA_EC_PARAMS must be a PrintableString */                    \
    X(NO_IDS, "no-ids")             /* CKA_ID is refused in templates, and finds nothing */          \
    X(TEXT_IDS, "text-ids")         /* CKA_ID must be printable */                                   \
    X(SHORT_LABELS, "short-labels") /* CKA_LABEL has at most 32 bytes */                             \
    X(NO_DERIVE, "no-derive")       /* CKA_DERIVE is refused in templates */                         \
    X(NO_WRAP, "no-wrap")           /* CKA_WRAP and CKA_UNWRAP are */                                \
    X(NO_PSS, "no-pss")             /* no CKM_RSA_PKCS_PSS */                                        \
    X(WANT_FIELD, "want-field")     /* CKM_ECDSA takes exactly the field's length */                 \
    X(GCM_SHORT, "gcm-short")       /* CK_GCM_PARAMS without ulIvBits */                             \
    X(GCM_OWN_IV, "gcm-own-iv")     /* the token makes the IV of CKM_AES_GCM */                      \
    X(NO_RNG, "no-rng")             /* no C_GenerateRandom */                                        \
    X(X9_31, "x9-31")               /* CKM_RSA_X9_31_KEY_PAIR_GEN only */                            \
    X(READ_ONLY, "read-only")       /* no session may write */                                       \
    X(FEW, "few")                   /* three sessions at most */                                     \
    X(PIN_PAD, "pin-pad")           /* the PIN is typed at the token: P11ODD_PIN */                  \
    X(NO_ROOM, "no-room")           /* public key objects cannot be stored */

enum p11odd {
#define X(sym, name) P11ODD_##sym,
    P11ODD_TABLE(X)
#undef X
        P11ODD_COUNT
};

/* Bit per oddity; replaces what was on. */
typedef void p11odd_set_fn(unsigned oddities);
/* What SHOW_INFO shows; copied. */
typedef void p11odd_info_fn(const void *bytes, unsigned long len);

#endif
