#include "appliance/supervisor/prepare.h"

#include "appliance/base/codec.h"
#include "appliance/base/file.h"
#include "appliance/base/id.h"
#include "appliance/base/secret.h"
#include "appliance/stores/folder.h"
#include "appliance/stores/port.h"
#include "appliance/stores/postgres.h"
#include "appliance/stores/process.h"
#include "appliance/stores/softhsm.h"
#include "appliance/supervisor/units.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FINGERPRINT_KEY_LEN 32

struct fault prepare_lock(struct op *op, const struct config *config, int *ret_lock)
{
    struct fault made = file_make_dirs(config->data_dir, 0755);
    if (FAULTED(made)) {
        return op_fail(op, made, "data_dir: cannot make %s", config->data_dir);
    }
    TRY(folder_own(op, config->data_dir, NULL, NULL, 0755));
    const char *path = NULL;
    TRY(folder_path(op, config->data_dir, "lock", &path));
    CLEANUP(fd_closep) int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return op_fail(op, FAULT(IO), "cannot open %s: %s", path, strerrordesc_np(errno));
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        return op_fail(op, FAULT(CONFLICT), "another svc-appliance runs on %s; stop it first", config->data_dir);
    }
    *ret_lock = fd;
    fd = -1;
    return OK;
}

struct fault prepare_run_dir(struct op *op, const struct config *config)
{
    static const struct {
        const char *name, *user, *group;
        mode_t mode;
    } folders[] = {
        { "postgres", POSTGRES_USER, USER_API, 0750 },
        { "signer", USER_API, NULL, 0700 }, /* whose socket the supervisor makes: signer_door.h */
    };
    struct fault made = file_make_dirs(config->run_dir, 0755);
    if (FAULTED(made)) {
        return op_fail(op, made, "run_dir: cannot make %s", config->run_dir);
    }
    TRY(folder_own(op, config->run_dir, NULL, NULL, 0755));
    const char *path = NULL;
    for (size_t i = 0; i < COUNT_OF(folders); i++) {
        TRY(folder_path(op, config->run_dir, folders[i].name, &path));
        TRY(folder_remove(op, path, folders[i].user));
        TRY(folder_own(op, path, folders[i].user, folders[i].group, folders[i].mode));
    }
    TRY(folder_path(op, config->run_dir, "state.json", &path));
    (void)unlink(path);
    const char *pid = NULL;
    TRY(arena_printf(op->arena, &pid, "%d\n", (int)getpid()));
    TRY(folder_path(op, config->run_dir, "appliance.pid", &path));
    return file_write(path, span_text(pid), 0644);
}

struct fault prepare_ports(struct op *op, const struct config *config)
{
    const struct {
        const char *key, *address;
    } listeners[] = {
        { "http.listen", config->http_listen },
        { "http.plain_listen", config->http_plain_listen },
        { "http.probe_listen", config->http_probe_listen },
        { "signer.listen", config->signer_listen },
    };
    for (size_t i = 0; i < COUNT_OF(listeners); i++) {
        if (listeners[i].address[0] != '\0') {
            TRY(port_free(op, listeners[i].key, listeners[i].address));
        }
    }
    return OK;
}

static struct fault fingerprint_key_ensure(struct op *op, void *arg, int output)
{
    (void)output;
    const char *path = arg;
    struct stat about;
    if (lstat(path, &about) == 0) {
        if (about.st_size != 2 * FINGERPRINT_KEY_LEN) {
            return op_fail(op, FAULT(CONFIG), "%s must hold %d hex digits; restore it, or remove it and start again",
                           path, 2 * FINGERPRINT_KEY_LEN);
        }
        return OK;
    }
    /* Text, since a secret file may end in a newline that is not part of it: a random byte could be one. */
    uint8_t key[FINGERPRINT_KEY_LEN];
    char text[2 * FINGERPRINT_KEY_LEN + 1];
    TRY(random_bytes(key, sizeof(key)));
    hex_text(SPAN_ARRAY(key), text, sizeof(text));
    struct fault written = file_write(path, span_text(text), 0600);
    secret_wipe(key, sizeof(key));
    secret_wipe(text, sizeof(text));
    return FAULTED(written) ? op_fail(op, written, "cannot write %s", path) : OK;
}

struct fault prepare_api_dir(struct op *op, const struct config *config)
{
    const char *folder = NULL, *path = NULL;
    TRY(folder_path(op, config->data_dir, "api", &folder));
    TRY(folder_own(op, folder, USER_API, NULL, 0700));
    TRY(folder_path(op, folder, "fingerprint.key", &path));
    return process_as(op, USER_API, fingerprint_key_ensure, (void *)path, NULL);
}
