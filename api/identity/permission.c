#include "api/identity/internal.h"

static const char *const texts[PERMISSION_COUNT] = {
    [PERMISSION_NONE] = "",
#define PERMISSION_ROW(sym, text, doc) [PERMISSION_##sym] = (text),
#include "api/identity/permission.def"
#undef PERMISSION_ROW
};
static_assert(PERMISSION_COUNT <= 64, "permissions are bits of a uint64_t");

const char *permission_text(enum permission permission)
{
    return permission < PERMISSION_COUNT ? texts[permission] : "";
}

bool principal_may(const struct principal *principal, enum permission permission)
{
    if (permission == PERMISSION_NONE || permission == PERMISSION_PUBLIC) {
        return true;
    }
    return permission < PERMISSION_COUNT && (principal->permissions >> permission & 1u) != 0;
}
