/* rooms: base */
/* A configuration file of anybody. What is refused is told; what is accepted is in range and can be printed. */
#include "appliance/base/config_rows.h"
#include "appliance/base/json.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#define TEXT_MAX ((size_t)4 << 20)

static void check_ranges(const struct config *config)
{
    size_t count = 0;
    const struct config_row *rows = config_rows(&count);
    for (size_t i = 0; i < count; i++) {
        const uint8_t *at = (const uint8_t *)config + rows[i].offset;
        if (rows[i].kind == CONFIG_KIND_INT || rows[i].kind == CONFIG_KIND_TIME) {
            int64_t number = *(const int64_t *)(const void *)at;
            BUG_IF(number < rows[i].min || number > rows[i].max);
        } else if (rows[i].kind == CONFIG_KIND_TEXT) {
            BUG_IF(*(const char *const *)(const void *)at == NULL);
        }
    }
    BUG_IF(config->data_dir[0] != '/' || config->run_dir[0] != '/');
    BUG_IF(config->nats_allow_unsynced && config->nats_replicas < 3);
    BUG_IF((config->http_tls_certificate[0] == 0) != (config->http_tls_key[0] == 0));
}

static void check_printed(const struct config *config)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(TEXT_MAX);
    CLEANUP(buf_free) struct buf json = BUF_INIT(TEXT_MAX);
    CLEANUP(buf_free) struct buf canonical = BUF_INIT(TEXT_MAX);
    BUG_IF(FAULTED(config_print(config, &text)));
    struct fault fault = config_print_json(config, &json);
    BUG_IF(FAULTED(fault) && fault.code != FAULT_TOO_LARGE);
    BUG_IF(!FAULTED(fault) && FAULTED(json_canonical(buf_span(&json), &canonical)));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    char path[64];
    CLEANUP(buf_free) struct buf why = BUF_INIT(TEXT_MAX);
    CLEANUP(config_freep) struct config *config = NULL;
    int fd = memfd_create("svc.yaml", MFD_CLOEXEC);
    BUG_IF(fd < 0 || write(fd, bytes, len) != (ssize_t)len);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    struct fault fault = config_load(path, &why, &config);
    close(fd);
    if (FAULTED(fault)) {
        BUG_IF(fault.code != FAULT_CONFIG || why.len == 0 || config != NULL);
        return 0;
    }
    BUG_IF(why.len != 0);
    check_ranges(config);
    check_printed(config);
    return 0;
}
