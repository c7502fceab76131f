#include "appliance/supervisor/appliance.h"

#include "appliance/base/json.h"
#include "appliance/stores/process.h"
#include "appliance/stores/softhsm.h"
#include "appliance/supervisor/units.h"
#include "fips/fips.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PRINT_MAX        ((size_t)256 << 10)
#define COMMAND_LIMIT_MS 10000
#define WORDS_MAX        60
/* Of the appliance image alone (appliance/machine). */
#define IMAGE_FACTS      "/usr/share/svc/image.json"
#define MACHINE_PROGRAM  "/usr/bin/svc-machine"

static enum exit_code print_out(const struct buf *text)
{
    return fwrite(text->at, 1, text->len, stdout) == text->len && fflush(stdout) == 0 ? EXIT_FINE : EXIT_FAILED;
}

static struct fault print_text(const struct appliance *appliance, const struct fips_posture *posture, struct buf *out)
{
    TRY(config_print(appliance->config, out));
    return buf_printf(out, "crypto.fips.module_active = %s   # %s %s\n", posture->module_active ? "true" : "false",
                      posture->module, posture->version);
}

static struct fault print_json(const struct appliance *appliance, const struct fips_posture *posture, struct buf *out)
{
    CLEANUP(buf_free) struct buf config = BUF_INIT(PRINT_MAX);
    TRY(config_print_json(appliance->config, &config));
    struct jout json;
    jout_init(&json, out);
    jout_object(&json);
    jout_key_raw(&json, "config", buf_span(&config));
    jout_key(&json, "crypto");
    jout_object(&json);
    jout_key(&json, "fips");
    jout_object(&json);
    jout_key_bool(&json, "required", posture->required);
    jout_key_bool(&json, "module_active", posture->module_active);
    jout_key_bool(&json, "self_test_passed", posture->self_test_passed);
    jout_key_text(&json, "module", posture->module);
    jout_key_text(&json, "version", posture->version);
    jout_object_end(&json);
    jout_object_end(&json);
    jout_object_end(&json);
    TRY(jout_end(&json));
    return buf_text(out, "\n");
}

enum exit_code appliance_check_config(const struct appliance *appliance, bool json)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096), out = BUF_INIT(PRINT_MAX);
    struct fips_posture posture = { 0 };
    struct fault gate = fips_start(appliance->config, &why);
    fips_posture(&posture);
    struct fault printed = json ? print_json(appliance, &posture, &out) : print_text(appliance, &posture, &out);
    if (FAULTED(printed)) {
        appliance_complain("printing", NULL, printed);
        return EXIT_FAILED;
    }
    enum exit_code code = print_out(&out);
    if (FAULTED(gate)) {
        (void)fprintf(stderr, "svc-appliance: self-test gate: %.*s\n", (int)why.len, (const char *)why.at);
        return EXIT_GATE;
    }
    return code;
}

/* `program` with the words of `args` from `skip` on, `first` (if not NULL) in front of them. */
static enum exit_code become(const struct appliance *appliance, const char *program, const char *user,
                             const char *first, int skip, int count, char *const *args)
{
    CLEANUP(op_freep) struct op *op = NULL;
    const char *words[WORDS_MAX + 2] = { first };
    const char *const *argv = NULL;
    size_t used = first != NULL ? 1 : 0;
    if (count > WORDS_MAX) {
        (void)fprintf(stderr, "svc-appliance: too many arguments\n");
        return EXIT_REFUSED;
    }
    for (int i = skip; i < count; i++) {
        words[used++] = args[i];
    }
    struct fault done = op_new("svc-appliance", (struct tenant_id){ 0 }, COMMAND_LIMIT_MS, &op);
    if (!FAULTED(done)) {
        done = unit_argv(op, appliance, program, words, &argv);
    }
    if (!FAULTED(done)) {
        done = process_exec(op, &(struct process_spec){ .argv = argv, .user = user });
    }
    appliance_complain(args[0], op, done);
    return EXIT_FAILED;
}

enum exit_code appliance_hsm_command(const struct appliance *appliance, int count, char *const *args)
{
    if (count < 2 || strcmp(args[1], "doctor") != 0) {
        (void)fprintf(stderr, "svc-appliance: hsm knows one command: hsm doctor [--help]\n");
        return EXIT_REFUSED;
    }
    return become(appliance, "svc-signer", geteuid() == 0 ? SOFTHSM_USER : NULL, "--doctor", 2, count, args);
}

enum exit_code appliance_update_command(int count, char *const *args)
{
    CLEANUP(op_freep) struct op *op = NULL;
    const char *words[WORDS_MAX + 2] = { MACHINE_PROGRAM };
    if (access(IMAGE_FACTS, F_OK) != 0) {
        (void)fprintf(stderr, "svc-appliance: update: this is not the appliance image: what installed it updates it\n");
        return EXIT_REFUSED;
    }
    if (count > WORDS_MAX || geteuid() != 0) {
        (void)fprintf(stderr, "svc-appliance: update: too many arguments, or not started as root\n");
        return EXIT_REFUSED;
    }
    for (int i = 0; i < count; i++) {
        words[i + 1] = args[i];
    }
    struct fault done = op_new("svc-appliance", (struct tenant_id){ 0 }, COMMAND_LIMIT_MS, &op);
    if (!FAULTED(done)) {
        done = process_exec(op, &(struct process_spec){ .argv = words });
    }
    appliance_complain(args[0], op, done);
    return EXIT_FAILED;
}

enum exit_code appliance_api_command(const struct appliance *appliance, int count, char *const *args)
{
    return become(appliance, "svc-api", USER_API, NULL, 0, count, args);
}
