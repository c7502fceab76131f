#include "appliance/supervisor/gate.h"

#include "appliance/base/log.h"
#include "fips/fips.h"

struct fault gate_pass(const struct config *config, struct buf *why)
{
    TRY(fips_start(config, why));
    struct fips_posture posture;
    fips_posture(&posture);
    if (!posture.self_test_passed || (config->fips_required && !posture.module_active)) {
        IGNORE(buf_text(why, "the FIPS module is not active"));
        return FAULT(FIPS_INACTIVE);
    }
    log_write(INFO, "self_test_passed", LOG_TEXT("fips", posture.module_active ? "active" : "inactive"),
              LOG_TEXT("module", posture.module), LOG_TEXT("version", posture.version));
    return OK;
}
