#include "signer-pkcs11/doctor/internal.h"

const char doctor_usage[] =
    "usage: svc-signer --doctor [--config FILE] [--token NAME] [--json] [--quick] [--threads N]\n"
    "                  [--timeout SECONDS]\n"
    "       svc-signer --doctor --module PATH [--slot N] [--label L] [--serial S] [--pin-file F]\n"
    "                  [--login user|none|protected] [--init-args TEXT] [--public-keys-dir FOLDER] [--quirk WORD ...]\n"
    "       svc-signer --doctor --explain [CKR_NAME | NUMBER] [--json]\n"
    "\n"
    "Examines a PKCS#11 token step by step with throw-away keys, and says which settings it needs. Without --module it is\n"
    "the configured token (of several the one of --token, else the first). The PIN is shown once; nothing is left behind.\n"
    "--quick leaves RSA-4096 out and measures less. A step that takes longer than --timeout (150) ends the run.\n"
    "\n"
    "exit code: 0 fit, 1 something failed, 2 arguments or configuration refused\n";

static bool complain(const char *what, const char *word)
{
    (void)fprintf(stderr, "svc-signer --doctor: %s%s%s\n", what, word != NULL ? ": " : "", word != NULL ? word : "");
    return false;
}

static bool read_number(const char *text, uint64_t max, uint64_t *ret_number)
{
    uint64_t number = 0;
    bool good = text[0] != '\0';
    for (; good && *text != '\0'; text++) {
        good = *text >= '0' && *text <= '9' && !__builtin_mul_overflow(number, 10u, &number) &&
               !__builtin_add_overflow(number, (uint64_t)(*text - '0'), &number);
    }
    *ret_number = number;
    return good && number <= max;
}

static bool take_quirk(struct options *options, const char *value)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(256);
    const char *text = "";
    if (FAULTED(quirk_parse(span_text(value), &options->quirks, &why))) {
        IGNORE(buf_cstr(&why, &text));
        return complain("--quirk", text);
    }
    return true;
}

/* An option with a value. */
static bool take_value(struct options *options, const char *name, const char *value)
{
    const struct {
        const char *name;
        const char **into;
    } texts[] = {
        { "--config", &options->config },       { "--token", &options->token },
        { "--module", &options->module },       { "--label", &options->label },
        { "--serial", &options->serial },       { "--pin-file", &options->pin_file },
        { "--init-args", &options->init_args }, { "--public-keys-dir", &options->public_keys_dir },
    };
    uint64_t number = 0;
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        if (strcmp(texts[i].name, name) == 0) {
            *texts[i].into = value;
            return true;
        }
    }
    if (strcmp(name, "--quirk") == 0) {
        return take_quirk(options, value);
    }
    if (strcmp(name, "--slot") == 0) {
        options->slot_set = true;
        return read_number(value, UINT32_MAX, &options->slot) || complain("--slot must be a number", value);
    }
    if (strcmp(name, "--threads") == 0) {
        bool good = read_number(value, 64, &number) && number > 0;
        options->threads = (unsigned)number;
        return good || complain("--threads must be 1 to 64", value);
    }
    if (strcmp(name, "--timeout") == 0) {
        bool good = read_number(value, 3600, &number) && number > 0;
        options->timeout_s = (unsigned)number;
        return good || complain("--timeout must be 1 to 3600 seconds", value);
    }
    if (strcmp(name, "--login") == 0) {
        options->login_set = true;
        return !FAULTED(token_login_parse(span_text(value), &options->login)) ||
               complain("--login must be user, none or protected", value);
    }
    return complain("not understood", name);
}

static bool check(const struct options *options)
{
    bool by_hand = options->label != NULL || options->serial != NULL || options->slot_set ||
                   options->pin_file != NULL || options->init_args != NULL || options->login_set ||
                   options->public_keys_dir != NULL;
    if (options->module == NULL && by_hand) {
        return complain("--label, --serial, --slot, --pin-file, --login, --init-args and --public-keys-dir go with "
                        "--module",
                        NULL);
    }
    if (options->module != NULL && options->token != NULL) {
        return complain("--module and --token exclude each other", NULL);
    }
    if (options->module != NULL && options->module[0] != '/') {
        return complain("--module must be an absolute path", options->module);
    }
    return true;
}

bool options_read(int count, char *const *words, struct options *ret_options)
{
    struct options options = { .threads = 8, .timeout_s = 150 };
    for (int i = 0; i < count; i++) {
        if (strcmp(words[i], "--json") == 0) {
            options.json = true;
        } else if (strcmp(words[i], "--quick") == 0) {
            options.quick = true;
        } else if (strcmp(words[i], "--explain") == 0) {
            options.explain = true;
            if (i + 1 < count && words[i + 1][0] != '-') {
                options.code = words[++i];
            }
        } else if (i + 1 == count) {
            return complain("not understood, or without its value", words[i]);
        } else if (!take_value(&options, words[i], words[i + 1])) {
            return false;
        } else {
            i++;
        }
    }
    if (!check(&options)) {
        return false;
    }
    *ret_options = options;
    return true;
}
