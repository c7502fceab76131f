/* rooms: keys signer_provider fips */
/*
 * The subject of a certificate request. Oracle: what is taken becomes an X.500 name that OpenSSL prints as RFC 2253
 * text, and that text means the same to us. What is refused is told why.
 */
#include "api/keys/internal.h"
#include "appliance/base/crypto.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static struct op *op;

static void check_same(const struct key_subject *a, const struct key_subject *b)
{
    BUG_IF(a->count != b->count);
    for (size_t i = 0; i < a->count; i++) {
        BUG_IF(a->at[i].nid != b->at[i].nid || strcmp(a->at[i].value, b->at[i].value) != 0);
    }
}

static void check_taken(const struct key_subject *subject)
{
    CLEANUP(X509_NAME_freep) X509_NAME *name = X509_NAME_new();
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new(BIO_s_mem());
    struct key_subject again;
    const char *text = NULL;
    char *printed = NULL;
    BUG_IF(subject->count < 1 || subject->count > KEY_SUBJECT_ATTRIBUTES);
    for (size_t i = subject->count; i-- > 0;) {
        if (strcmp(subject->at[i].value, "#") == 0) {
            return; /* OpenSSL prints this one value unescaped, against RFC 2253 2.4 */
        }
        BUG_IF(X509_NAME_add_entry_by_NID(name, subject->at[i].nid, MBSTRING_UTF8,
                                          (const unsigned char *)subject->at[i].value, -1, -1, 0) != 1);
    }
    BUG_IF(X509_NAME_print_ex(bio, name, 0, XN_FLAG_RFC2253) < 0);
    long len = BIO_get_mem_data(bio, &printed);
    BUG_IF(FAULTED(arena_text(op->arena, span_of(printed, (size_t)len), &text)));
    BUG_IF(FAULTED(key_subject_parse(op, text, &again)));
    check_same(subject, &again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (op == NULL) {
        BUG_IF(FAULTED(op_new("fuzz", (struct tenant_id){ "default" }, 1 << 30, &op)));
    }
    const char *text = NULL;
    struct key_subject subject;
    op->note = (struct fault_note){ 0 };
    arena_clear(op->arena);
    if (len > KEY_SUBJECT_MAX || FAULTED(arena_text(op->arena, span_of(bytes, len), &text))) {
        return 0;
    }
    struct fault fault = key_subject_parse(op, text, &subject);
    (void)key_email_fits(text);
    if (FAULTED(fault)) {
        BUG_IF(fault.code != FAULT_JSON_FIELD || op->note.detail[0] == '\0');
    } else {
        check_taken(&subject);
    }
    return 0;
}
