#include "appliance/supervisor/hardening.h"

#include "appliance/base/file.h"
#include "appliance/base/json.h"
#include "appliance/base/log.h"
#include "appliance/stores/confine.h"
#include "appliance/stores/folder.h"

#include <linux/capability.h>

#define BIT(capability) (UINT64_C(1) << (capability))

/* Users, folders and sockets of the parts; their namespaces and limits; their end. */
#define KEPT                                                                                                           \
    (BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_FOWNER) | BIT(CAP_SETUID) | BIT(CAP_SETGID) | BIT(CAP_SETPCAP) | \
     BIT(CAP_SYS_ADMIN) | BIT(CAP_SYS_RESOURCE) | BIT(CAP_IPC_LOCK) | BIT(CAP_KILL) | BIT(CAP_NET_BIND_SERVICE))

struct fault hardening_establish(struct op *op, const struct config *config)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(256);
    const char *names = "";
    unsigned missing = 0;
    TRY(confine_establish(op, config->hardening_required, &missing));
    TRY(confine_text(missing != 0 ? missing : CONFINE_ALL, &text));
    TRY(buf_cstr(&text, &names));
    if (missing != 0) {
        log_write(WARN, "hardening_reduced", LOG_TEXT("missing", names),
                  LOG_TEXT("detail", "this machine does not allow it; hardening.required would refuse the start"));
    } else {
        log_write(INFO, "hardening", LOG_TEXT("parts", names));
    }
    return confine_self(op, KEPT);
}

struct fault hardening_record(struct op *op, const struct config *config)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(1024);
    const char *path = NULL;
    unsigned there = confine_available();
    struct jout json;
    jout_init(&json, &text);
    jout_object(&json);
    jout_key_bool(&json, "ipc_namespace", (there & CONFINE_IPC) != 0);
    jout_key_bool(&json, "landlock", (there & CONFINE_FILES) != 0);
    jout_key_bool(&json, "mount_namespace", (there & CONFINE_VIEW) != 0);
    jout_key_bool(&json, "network_namespace", (there & CONFINE_NETWORK) != 0);
    jout_key_bool(&json, "required", config->hardening_required);
    jout_key_bool(&json, "rights", (there & CONFINE_RIGHTS) != 0);
    jout_object_end(&json);
    TRY(jout_end(&json));
    TRY(folder_path(op, config->run_dir, "hardening.json", &path));
    return file_write(path, buf_span(&text), 0644);
}
