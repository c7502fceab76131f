#include "signer-pkcs11/doctor/doctor.h"

#include "appliance/base/log.h"
#include "signer-pkcs11/doctor/explain.h"
#include "signer-pkcs11/doctor/internal.h"

#include <signal.h>
#include <stdlib.h>

#define SOFTHSM_MODULE "/usr/lib/softhsm/libsofthsm2.so"

static enum doctor_verdict usage_error(const char *why)
{
    (void)fprintf(stderr, "svc-signer --doctor: %s\n", why);
    return DOCTOR_USAGE;
}

/* ---- which token ---- */

static struct token_settings by_hand(const struct options *options, const struct config *config)
{
    return (struct token_settings){ .module = options->module,
                                    .label = options->label != NULL ? options->label : "",
                                    .serial = options->serial != NULL ? options->serial : "",
                                    .slot_set = options->slot_set,
                                    .slot = options->slot,
                                    .login = options->login_set          ? options->login
                                             : options->pin_file != NULL ? TOKEN_LOGIN_USER
                                                                         : TOKEN_LOGIN_NONE,
                                    .pin_file = options->pin_file,
                                    .sessions = (unsigned)config->signer_sessions,
                                    .queue = 1024,
                                    .init_args = options->init_args,
                                    .public_keys_dir = options->public_keys_dir };
}

static struct fault choose(const struct options *options, const struct tokens_settings *all, struct buf *why,
                           struct token_settings *ret_settings)
{
    for (size_t i = 0; i < all->count; i++) {
        if (options->token == NULL || strcmp(all->at[i].name.text, options->token) == 0) {
            *ret_settings = all->at[i];
            ret_settings->queue = 1024;
            return OK;
        }
    }
    IGNORE(buf_printf(why, "no token is named %s in the configuration", options->token));
    return FAULT(CONFIG);
}

/* ---- the steps ---- */

static bool login(struct doctor *doctor)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(1024);
    const char *text = "";
    watch_step(doctor->watch, "login");
    if (FAULTED(token_settings_read_pin(&doctor->settings, &why))) {
        IGNORE(buf_cstr(&why, &text));
        report_step(doctor->report, "login", STEP_FAILED, "chmod 600, and chown to the user of svc-signer", "%s", text);
        return false;
    }
    struct fault fault = token_open(&doctor->settings, &why, &doctor->token);
    if (FAULTED(fault)) {
        IGNORE(buf_cstr(&why, &text));
        report_step(doctor->report, "login", STEP_FAILED, "svc-appliance hsm doctor --explain CODE tells more", "%s",
                    text);
        return false;
    }
    report_step(doctor->report, "login", STEP_OK, "", "%s", token_login_text(doctor->settings.login));
    return true;
}

static bool read_only(struct doctor *doctor)
{
    if (!quirk_on(&doctor->settings.quirks, QUIRK_READ_ONLY)) {
        return false;
    }
    report_step(doctor->report, "throw-away keys", STEP_SKIPPED, "", "a token that cannot be written makes none");
    return true;
}

static void examine(struct doctor *doctor)
{
    if (!look_at_module(doctor) || !login(doctor)) {
        return;
    }
    if (!read_only(doctor) && try_algorithms(doctor) && try_sealing(doctor)) {
        (void)try_threads(doctor);
    }
    try_sessions(doctor);
    watch_step(doctor->watch, "C_Finalize");
    token_close(TAKE(doctor->token));
}

static enum doctor_verdict run(const struct options *options, const struct token_settings *settings)
{
    struct doctor doctor = { .options = options, .settings = *settings };
    CLEANUP(report_freep) struct report *report = NULL;
    sigset_t set;
    /* What asks us to end waits until the keys are gone; in every thread. */
    BUG_IF(sigemptyset(&set) != 0 || sigaddset(&set, SIGINT) != 0 || sigaddset(&set, SIGTERM) != 0 ||
           sigaddset(&set, SIGHUP) != 0 || pthread_sigmask(SIG_BLOCK, &set, NULL) != 0);
    if (FAULTED(report_new(options->json, &report)) || FAULTED(watch_new(report, options->timeout_s, &doctor.watch))) {
        return DOCTOR_FAILED;
    }
    doctor.report = report;
    struct token_quirks *quirks = &doctor.settings.quirks;
    quirks->on |= options->quirks.on;
    quirks->omit |= options->quirks.omit;
    quirks->set_yes |= options->quirks.set_yes;
    quirks->set_no |= options->quirks.set_no;
    doctor.given = doctor.settings.quirks;
    doctor.sessions = settings->sessions;
    doctor.settings.sessions = settings->sessions > options->threads ? settings->sessions : options->threads;
    examine(&doctor);
    report_quirks(report, &doctor.given, &doctor.settings.quirks);
    watch_free(doctor.watch);
    enum doctor_verdict verdict = report_end(report);
    secret_free(doctor.settings.pin);
    return verdict;
}

enum doctor_verdict doctor_main(int count, char *const *words)
{
    struct options options;
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    CLEANUP(config_freep) struct config *config = NULL;
    CLEANUP(tokens_settings_freep) struct tokens_settings *all = NULL;
    struct token_settings settings;
    struct token_places places;
    const char *text = "";
    if (count > 0 && strcmp(words[0], "--help") == 0) {
        (void)fputs(doctor_usage, stdout);
        return DOCTOR_FINE;
    }
    if (!options_read(count, words, &options)) {
        (void)fputs(doctor_usage, stderr);
        return DOCTOR_USAGE;
    }
    if (options.explain) {
        return explain_print(options.code, options.json);
    }
    struct fault fault = config_load(options.config, &why, &config);
    if (!FAULTED(fault) && options.module != NULL) {
        settings = by_hand(&options, config);
        fault = tokens_environment_check(config, &why);
        fault = FAULTED(fault) ? fault : tokens_environment_set(config);
    } else if (!FAULTED(fault)) {
        fault = tokens_settings_read(config, SOFTHSM_MODULE, &why, &all);
        fault = FAULTED(fault) ? fault : choose(&options, all, &why, &settings);
        fault = FAULTED(fault) ? fault : token_places_find(all, &places); /* SoftHSM's own configuration */
    }
    if (FAULTED(fault)) {
        IGNORE(buf_cstr(&why, &text));
        return usage_error(text);
    }
    return run(&options, &settings);
}
