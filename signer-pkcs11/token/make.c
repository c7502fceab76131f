/* Making a key in the token: mechanism and templates, as its quirks want them. */
#include "signer-pkcs11/token/internal.h"

static const uint8_t p256_oid[] = { 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07 };
static const uint8_t p384_oid[] = { 0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22 };
static const uint8_t p256_name[] = { 0x13, 9, 's', 'e', 'c', 'p', '2', '5', '6', 'r', '1' };
static const uint8_t p384_name[] = { 0x13, 9, 's', 'e', 'c', 'p', '3', '8', '4', 'r', '1' };
static const uint8_t exponent_f4[] = { 0x01, 0x00, 0x01 };

static const CK_BBOOL yes = CK_TRUE, no = CK_FALSE;

struct fault key_no_generator(struct op *op, enum key_algorithm algorithm)
{
    return op_fail(op, FAULT(TOKEN_MECHANISM),
                   "the token does not list a mechanism that makes keys of algorithm %s: "
                   "use another algorithm",
                   key_algorithm_text(algorithm));
}

/* ---- templates ---- */

static struct template_list begin(const struct token_session *session, const struct key_order *order,
                                  const CK_BBOOL *on_token)
{
    struct template_list list = { .quirks = &session->token->settings->quirks };
    template_put(&list, CKA_TOKEN, on_token, sizeof(*on_token));
    template_put(&list, CKA_LABEL, order->label.text, strlen(order->label.text));
    if (order->id.len > 0) {
        template_put(&list, CKA_ID, order->id.at, order->id.len);
    }
    return list;
}

static struct template_list public_half(const struct token_session *session, const struct key_order *order)
{
    bool kept = !quirk_on(&session->token->settings->quirks, QUIRK_PUBLIC_IN_SESSION);
    struct template_list list = begin(session, order, kept ? &yes : &no);
    template_put(&list, CKA_PRIVATE, &no, sizeof(no));
    template_flag(&list, CKA_VERIFY, QUIRK_CKA_VERIFY, true);
    return list;
}

/* Of private and secret keys: it never leaves the token. */
static struct template_list guarded(const struct token_session *session, const struct key_order *order)
{
    struct template_list list = begin(session, order, &yes);
    template_flag(&list, CKA_PRIVATE, QUIRK_CKA_PRIVATE, true);
    template_flag(&list, CKA_SENSITIVE, QUIRK_CKA_SENSITIVE, true);
    template_flag(&list, CKA_EXTRACTABLE, QUIRK_CKA_EXTRACTABLE, false);
    template_put_set(&list);
    return list;
}

/* Quirk allowed-mechanisms: the key is bound to what the signer does with it. */
static void bind_to(struct template_list *list, const CK_MECHANISM_TYPE *mechanisms, size_t size)
{
    if (quirk_on(list->quirks, QUIRK_ALLOWED_MECHANISMS)) {
        template_put(list, CKA_ALLOWED_MECHANISMS, mechanisms, size);
    }
}

static struct span curve_of(const struct token_session *session, enum key_algorithm algorithm)
{
    bool p256 = algorithm == KEY_ALGORITHM_EC_P256;
    if (quirk_on(&session->token->settings->quirks, QUIRK_EC_PARAMS_NAME)) {
        return p256 ? SPAN_ARRAY(p256_name) : SPAN_ARRAY(p384_name);
    }
    return p256 ? SPAN_ARRAY(p256_oid) : SPAN_ARRAY(p384_oid);
}

/* ---- making ---- */

static struct fault make_pair(struct token_session *session, CK_MECHANISM_TYPE type, struct template_list *public_list,
                              struct template_list *private_list, struct key_objects *made)
{
    CK_MECHANISM mechanism = { type, NULL, 0 };
    return gate_generate_pair(
        &session->call, session->handle, &mechanism, (struct key_template){ public_list->at, public_list->count },
        (struct key_template){ private_list->at, private_list->count }, &made->public_key, &made->private_key);
}

static struct fault generate_ec(struct op *op, struct token_session *session, const struct key_order *order,
                                struct key_objects *made)
{
    static const CK_MECHANISM_TYPE used[] = { CKM_ECDSA };
    if (!session->token->module.has.ec_generate) {
        return key_no_generator(op, order->algorithm);
    }
    struct span curve = curve_of(session, order->algorithm);
    struct template_list public_list = public_half(session, order), private_list = guarded(session, order);
    template_put(&public_list, CKA_EC_PARAMS, curve.at, curve.len);
    template_flag(&private_list, CKA_SIGN, QUIRK_CKA_SIGN, true);
    template_flag(&private_list, CKA_DERIVE, QUIRK_CKA_DERIVE, false);
    bind_to(&private_list, used, sizeof(used));
    return make_pair(session, CKM_EC_KEY_PAIR_GEN, &public_list, &private_list, made);
}

static struct fault generate_rsa(struct op *op, struct token_session *session, const struct key_order *order,
                                 struct key_objects *made)
{
    static const CK_MECHANISM_TYPE used[] = { CKM_RSA_PKCS, CKM_RSA_PKCS_PSS };
    static const CK_MECHANISM_TYPE used_raw[] = { CKM_RSA_PKCS, CKM_RSA_X_509 };
    const struct mechanisms *has = &session->token->module.has;
    CK_ULONG bits = algorithm_bits(order->algorithm);
    if (!(has->rsa_generate || has->rsa_x9_31) || bits > has->rsa_max) {
        return key_no_generator(op, order->algorithm);
    }
    struct template_list public_list = public_half(session, order), private_list = guarded(session, order);
    template_put(&public_list, CKA_MODULUS_BITS, &bits, sizeof(bits));
    if ((public_list.quirks->omit & 1u << QUIRK_CKA_PUBLIC_EXPONENT) == 0) {
        template_put(&public_list, CKA_PUBLIC_EXPONENT, exponent_f4, sizeof(exponent_f4));
    }
    template_flag(&public_list, CKA_ENCRYPT, QUIRK_CKA_ENCRYPT, false);
    template_flag(&public_list, CKA_WRAP, QUIRK_CKA_WRAP, false);
    template_flag(&private_list, CKA_SIGN, QUIRK_CKA_SIGN, true);
    template_flag(&private_list, CKA_DECRYPT, QUIRK_CKA_DECRYPT, false);
    template_flag(&private_list, CKA_UNWRAP, QUIRK_CKA_UNWRAP, false);
    bool raw = quirk_on(private_list.quirks, QUIRK_PSS_RAW);
    bind_to(&private_list, raw ? used_raw : used, sizeof(used));
    return make_pair(session, has->rsa_generate ? CKM_RSA_PKCS_KEY_PAIR_GEN : CKM_RSA_X9_31_KEY_PAIR_GEN, &public_list,
                     &private_list, made);
}

static struct fault generate_aes(struct op *op, struct token_session *session, const struct key_order *order,
                                 struct key_objects *made)
{
    static const CK_MECHANISM_TYPE used[] = { CKM_AES_GCM };
    if (!session->token->module.has.aes_generate) {
        return key_no_generator(op, order->algorithm);
    }
    CK_ULONG length = algorithm_bits(order->algorithm) / 8;
    struct template_list list = guarded(session, order);
    template_put(&list, CKA_VALUE_LEN, &length, sizeof(length));
    template_flag(&list, CKA_ENCRYPT, QUIRK_CKA_ENCRYPT, true);
    template_flag(&list, CKA_DECRYPT, QUIRK_CKA_DECRYPT, true);
    template_flag(&list, CKA_SIGN, QUIRK_CKA_SIGN, false);
    template_flag(&list, CKA_VERIFY, QUIRK_CKA_VERIFY, false);
    template_flag(&list, CKA_WRAP, QUIRK_CKA_WRAP, false);
    template_flag(&list, CKA_UNWRAP, QUIRK_CKA_UNWRAP, false);
    bind_to(&list, used, sizeof(used));
    CK_MECHANISM mechanism = { CKM_AES_KEY_GEN, NULL, 0 };
    return gate_generate_key(&session->call, session->handle, &mechanism, list.at, list.count, &made->secret_key);
}

struct fault key_make(struct op *op, struct token_session *session, const struct key_order *order,
                      struct key_objects *made)
{
    if (order->algorithm == KEY_ALGORITHM_AES_256) {
        return generate_aes(op, session, order, made);
    }
    if (!algorithm_is_ec(order->algorithm) && !algorithm_is_rsa(order->algorithm)) {
        return key_no_generator(op, order->algorithm);
    }
    return algorithm_is_ec(order->algorithm) ? generate_ec(op, session, order, made)
                                             : generate_rsa(op, session, order, made);
}
