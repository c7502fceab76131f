#include "appliance/stores/softhsm.h"

#include "appliance/base/codec.h"
#include "appliance/base/file.h"
#include "appliance/base/id.h"
#include "appliance/base/secret.h"
#include "appliance/stores/folder.h"
#include "appliance/stores/process.h"
#include "appliance/stores/softhsm_token.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SOFTHSM_MODULE "/usr/lib/softhsm/libsofthsm2.so"
#define PIN_BYTES      24
#define CONF_MAX       ((size_t)8 << 10)

bool softhsm_embedded(const struct config *config)
{
    return config->token_module[0] == '\0';
}

struct fault softhsm_environment(struct op *op, const struct config *config, const char **ret_entry)
{
    return arena_printf(op->arena, ret_entry, "SOFTHSM2_CONF=%s/softhsm/softhsm2.conf", config->data_dir);
}

/* ---- as svc-signer ---- */

static struct fault write_private(struct op *op, const char *path, struct span text)
{
    struct fault written = file_write(path, text, 0600);
    return FAULTED(written) ? op_fail(op, written, "cannot write %s", path) : OK;
}

static struct fault conf_write(struct op *op, const char *folder)
{
    if (strpbrk(folder, "\n\r#") != NULL) {
        return op_fail(op, FAULT(CONFIG), "data_dir: '%s' cannot stand in SoftHSM's configuration", folder);
    }
    const char *path = NULL;
    CLEANUP(buf_free) struct buf text = BUF_INIT(CONF_MAX);
    TRY(buf_printf(&text,
                   "# Written by svc-appliance at every start: changes made here are lost.\n"
                   "directories.tokendir = %s/tokens\n"
                   "objectstore.backend = file\n"
                   "log.level = ERROR\n"
                   "slots.removable = false\n",
                   folder));
    TRY(folder_path(op, folder, "softhsm2.conf", &path));
    return write_private(op, path, buf_span(&text));
}

static struct fault pin_make(struct secret **ret_pin)
{
    uint8_t raw[PIN_BYTES];
    char text[2 * PIN_BYTES + 1];
    TRY(random_bytes(raw, sizeof(raw)));
    hex_text(SPAN_ARRAY(raw), text, sizeof(text));
    struct fault made = secret_new(span_of(text, sizeof(text) - 1), ret_pin);
    secret_wipe(raw, sizeof(raw));
    secret_wipe(text, sizeof(text));
    return made;
}

struct token_work {
    const struct config *config;
    const char *folder;   /* where it will be */
    const char *part;     /* where it is made */
    const char *pin_path; /* of svc-signer */
};

/* The PIN is written first and used again after an interruption, so that a token never outlives its PIN. */
static struct fault pin_ensure(struct op *op, void *arg, int output)
{
    (void)output;
    const struct token_work *work = arg;
    if (path_exists(work->pin_path)) {
        return OK;
    }
    CLEANUP(secret_freep) struct secret *pin = NULL;
    TRY(pin_make(&pin));
    return write_private(op, work->pin_path, secret_span(pin));
}

static struct fault token_make(struct op *op, void *arg, int output)
{
    (void)output;
    const struct token_work *work = arg;
    const char *tokens = NULL, *conf = NULL;
    TRY(folder_path(op, work->part, "tokens", &tokens));
    TRY(folder_path(op, work->part, "softhsm2.conf", &conf));
    if (mkdir(tokens, 0700) != 0) {
        return op_fail(op, FAULT(IO), "cannot make %s: %s", tokens, strerrordesc_np(errno));
    }
    TRY(conf_write(op, work->part));
    CLEANUP(secret_freep) struct secret *pin = NULL;
    struct fault got = secret_from_file(work->pin_path, &pin);
    if (FAULTED(got)) {
        return op_fail(op, got, "%s must be a 0600 file of %s with the PIN", work->pin_path, SOFTHSM_USER);
    }
    /* The security officer's PIN only sets the user's; nobody needs it again, so it is not kept. */
    CLEANUP(secret_freep) struct secret *so_pin = NULL;
    TRY(pin_make(&so_pin));
    if (setenv("SOFTHSM2_CONF", conf, 1) != 0) {
        return FAULT(NO_MEMORY);
    }
    return softhsm_token_new(op, SOFTHSM_MODULE, work->config->token_label, secret_span(so_pin), secret_span(pin));
}

static struct fault conf_refresh(struct op *op, void *arg, int output)
{
    (void)output;
    const struct token_work *work = arg;
    return conf_write(op, work->folder);
}

/* ---- as root ---- */

static struct fault token_ensure(struct op *op, struct token_work *work)
{
    if (path_exists(work->folder)) {
        if (!path_exists(work->pin_path)) {
            return op_fail(op, FAULT(CONFIG),
                           "%s exists but its PIN %s does not: restore the file; a new token would lose the keys",
                           work->folder, work->pin_path);
        }
        return OK;
    }
    TRY(process_as(op, SOFTHSM_USER, pin_ensure, work, NULL));
    TRY(folder_remove(op, work->part, SOFTHSM_USER));
    TRY(folder_own(op, work->part, SOFTHSM_USER, NULL, 0700));
    TRY(process_as(op, SOFTHSM_USER, token_make, work, NULL));
    return folder_rename(op, work->part, work->folder);
}

struct fault softhsm_init(struct op *op, const struct config *config)
{
    struct token_work work = { .config = config };
    const char *signer = NULL;
    TRY(folder_path(op, config->data_dir, "softhsm", &work.folder));
    TRY(folder_path(op, config->data_dir, "softhsm.partial", &work.part));
    TRY(folder_path(op, config->data_dir, "signer", &signer));
    TRY(folder_path(op, signer, "pin", &work.pin_path));
    TRY(folder_own(op, signer, SOFTHSM_USER, NULL, 0700));
    TRY(token_ensure(op, &work));
    TRY(folder_own(op, work.folder, SOFTHSM_USER, NULL, 0700));
    return process_as(op, SOFTHSM_USER, conf_refresh, &work, NULL); /* data_dir may have moved */
}

static struct fault pin_look(struct op *op, void *arg, int output)
{
    (void)output;
    const struct config *config = arg;
    CLEANUP(secret_freep) struct secret *pin = NULL;
    bool wanted = strcmp(config->token_login, "user") == 0;
    struct fault got = wanted ? secret_from_file(config->token_pin_file, &pin) : OK;
    if (FAULTED(got)) {
        return op_fail(op, FAULT(CONFIG), "token.pin_file: %s must be a 0600 file of %s with the PIN",
                       config->token_pin_file, SOFTHSM_USER);
    }
    if (access(config->token_module, R_OK) != 0) {
        return op_fail(op, FAULT(CONFIG), "token.module: %s cannot read %s: %s", SOFTHSM_USER, config->token_module,
                       strerrordesc_np(errno));
    }
    return OK;
}

struct fault softhsm_check_external(struct op *op, const struct config *config)
{
    return process_as(op, SOFTHSM_USER, pin_look, (void *)config, NULL);
}
