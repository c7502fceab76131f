#include "signer-pkcs11/broker/purpose.h"

#include <pwd.h>
#include <unistd.h>

#define USER_API    "svc-api"
#define USER_SIGNER "svc-signer"

enum { KIND_NONE = 0, KIND_SIG = 1, KIND_AES = 2, KIND_BOTH = 3 };

static const struct {
    unsigned who, kinds;
} purposes[KEY_PURPOSE_COUNT] = {
#define PURPOSE_ROW(sym, text, who_may, kinds_of) [KEY_PURPOSE_##sym] = { ASKER_##who_may, KIND_##kinds_of },
#include "signer-pkcs11/protocol/purpose.def"
#undef PURPOSE_ROW
};

static const unsigned op_kinds[WIRE_OP_COUNT] = {
#define OP_ROW(sym, kinds, way, handler) [WIRE_##sym] = KIND_##kinds,
#include "signer-pkcs11/broker/ops.def"
#undef OP_ROW
};

static bool look_up(const char *name, uid_t *ret_uid)
{
    char room[4096];
    struct passwd entry, *found = NULL;
    if (getpwnam_r(name, &entry, room, sizeof(room), &found) != 0 || found == NULL) {
        return false;
    }
    *ret_uid = found->pw_uid;
    return true;
}

void askers_look_up(struct askers *ret_askers)
{
    struct askers askers = { .own = geteuid() };
    uid_t signer = 0;
    askers.has_api = look_up(USER_API, &askers.api);
    askers.own_is_all = !look_up(USER_SIGNER, &signer) || signer != askers.own;
    *ret_askers = askers;
}

unsigned askers_of(const struct askers *askers, uid_t uid)
{
    unsigned who = 0;
    if (uid == 0) {
        who |= ASKER_SUP;
    }
    if (askers->has_api && uid == askers->api) {
        who |= ASKER_API;
    }
    if (askers->own_is_all && uid == askers->own) {
        who |= ASKER_API | ASKER_SUP;
    }
    return who;
}

static unsigned kind_of(enum key_algorithm algorithm)
{
    return algorithm == KEY_ALGORITHM_AES_256 ? KIND_AES : KIND_SIG;
}

struct fault purpose_check(struct op *op, unsigned askers, const struct wire_request *request)
{
    BUG_IF(request->op <= WIRE_OP_NONE || request->op >= WIRE_OP_COUNT);
    if (op_kinds[request->op] == KIND_NONE) {
        return askers != 0 ? OK : FAULT(SIGNER_REFUSED);
    }
    enum key_purpose purpose = request->key.purpose;
    BUG_IF(purpose <= KEY_PURPOSE_NONE || purpose >= KEY_PURPOSE_COUNT); /* request_unpack has refused it */
    if ((purposes[purpose].who & askers) == 0) {
        return op_fail(op, FAULT(SIGNER_REFUSED), "this caller may not use keys of purpose %s",
                       key_purpose_text(purpose));
    }
    if ((op_kinds[request->op] & purposes[purpose].kinds) == 0) {
        return op_fail(op, FAULT(SIGNER_REFUSED), "keys of purpose %s do not %s", key_purpose_text(purpose),
                       wire_op_text(request->op));
    }
    if (request->op == WIRE_SIGN_MANY && purpose != KEY_PURPOSE_TSA) {
        return op_fail(op, FAULT(SIGNER_REFUSED), "keys of purpose %s sign one digest at a time",
                       key_purpose_text(purpose));
    }
    bool fenced = request->algorithm == KEY_ALGORITHM_ML_DSA_65 && purpose != KEY_PURPOSE_CODESIGN;
    if (request->op == WIRE_GENERATE_KEY && (kind_of(request->algorithm) != purposes[purpose].kinds || fenced)) {
        return op_fail(op, FAULT(SIGNER_REFUSED), "a key of purpose %s cannot be of algorithm %s",
                       key_purpose_text(purpose), key_algorithm_text(request->algorithm));
    }
    return OK;
}
