/* What the configuration may say about tokens, and several tokens at once. */
#include "tests/unit/token/softhsm.h"

#include "appliance/base/file.h"
#include "signer-pkcs11/token/places.h"
#include "signer-pkcs11/token/tokens.h"

#define BUF(name) CLEANUP(buf_free) struct buf name = BUF_INIT(1 << 16)
#define MODULE    "/usr/lib/somewhere/p11.so"

static struct softhsm hsm;
static char pin_path[128], wide_path[128], file_path[128], config_path[128];

static int hsm_for_all(void **state)
{
    (void)state;
    softhsm_new(&hsm);
    (void)snprintf(pin_path, sizeof(pin_path), "%s/pin", hsm.folder);
    (void)snprintf(wide_path, sizeof(wide_path), "%s/wide", hsm.folder);
    (void)snprintf(file_path, sizeof(file_path), "%s/tokens.yaml", hsm.folder);
    (void)snprintf(config_path, sizeof(config_path), "%s/svc.yaml", hsm.folder);
    assert_ok(file_write(pin_path, span_text(SOFTHSM_PIN "\n"), 0600));
    assert_ok(file_write(wide_path, span_text(SOFTHSM_PIN "\n"), 0644));
    return 0;
}

static int no_hsm_for_all(void **state)
{
    (void)state;
    softhsm_free(&hsm);
    return 0;
}

/* The configuration with these lines below "token:", and with `PIN` as the PIN file's path. */
static struct config *config_of(const char *lines)
{
    struct config *config = NULL;
    BUF(text);
    BUF(why);
    assert_ok(buf_text(&text, "fips: {required: false}\ntoken:\n"));
    for (const char *at = lines; *at != '\0';) {
        bool place = strncmp(at, "PINFILE", 7) == 0;
        assert_ok(place ? buf_text(&text, pin_path) : buf_put(&text, span_of(at, 1)));
        at += place ? 7 : 1;
    }
    assert_ok(file_write(config_path, buf_span(&text), 0644));
    if (FAULTED(config_load(config_path, &why, &config))) {
        fail_msg("%.*s", (int)why.len, (const char *)why.at);
    }
    return config;
}

static struct config *config_of_file(const char *yaml)
{
    char lines[256];
    BUF(text);
    for (const char *at = yaml; *at != '\0';) {
        bool place = strncmp(at, "PINFILE", 7) == 0, wide = strncmp(at, "WIDEFIL", 7) == 0;
        assert_ok(place  ? buf_text(&text, pin_path)
                  : wide ? buf_text(&text, wide_path)
                         : buf_put(&text, span_of(at, 1)));
        at += place || wide ? 7 : 1;
    }
    assert_ok(file_write(file_path, buf_span(&text), 0644));
    (void)snprintf(lines, sizeof(lines), "  tokens_file: %s\n", file_path);
    return config_of(lines);
}

static void assert_refused(const struct config *config, const char *says)
{
    struct tokens_settings *none = NULL;
    const char *text = "";
    BUF(why);
    assert_fault(tokens_settings_load(config, MODULE, &why, &none), CONFIG);
    assert_null(none);
    assert_ok(buf_cstr(&why, &text));
    if (strstr(text, says) == NULL) {
        fail_msg("'%s' does not say '%s'", text, says);
    }
}

static struct tokens_settings *loaded(const struct config *config)
{
    struct tokens_settings *settings = NULL;
    BUF(why);
    if (FAULTED(tokens_settings_load(config, MODULE, &why, &settings))) {
        fail_msg("%.*s", (int)why.len, (const char *)why.at);
    }
    return settings;
}

/* ---- one token ---- */

static void flat_settings_that_cannot_be_meant_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *lines, *says;
    } rows[] = {
        { "  pin_file: PINFILE\n  login: sometimes\n", "token.login: must be user, none or protected" },
        { "  pin_file: PINFILE\n  quirks: [no-such]\n", "token.quirks: no-such is no quirk" },
        { "  pin_file: PINFILE\n  quirks: [ec-point-raw]\n", "noticed by itself" },
        { "  pin_file: PINFILE\n  quirks: [id-text, id-none]\n", "exclude each other" },
        { "  pin_file: PINFILE\n  quirks: ['omit:CKA_TOKEN']\n", "CKA_TOKEN is no attribute" },
        { "  pin_file: PINFILE\n  quirks: ['omit:CKA_COPYABLE']\n", "not in the templates unless" },
        { "  pin_file: PINFILE\n  quirks: ['set:CKA_EXTRACTABLE=yes']\n", "cannot be set to yes" },
        { "  pin_file: PINFILE\n  quirks: ['set:CKA_SENSITIVE=no']\n", "cannot be set to no" },
        { "  pin_file: PINFILE\n  quirks: ['set:CKA_COPYABLE']\n", "needs =yes or =no" },
        { "  pin_file: PINFILE\n  quirks: ['set:CKA_COPYABLE=maybe']\n", "yes or no" },
        { "  pin_file: PINFILE\n  quirks: ['set:CKA_COPYABLE=yes', 'set:CKA_COPYABLE=no']\n", "to yes and to no" },
        { "  pin_file: PINFILE\n  quirks: ['set:CKA_PRIVATE=no']\n", "without login only" },
        { "  pin_file: PINFILE\n  label: ''\n", "label, serial or slot must say" },
        { "  pin_file: PINFILE\n  environment: ['LD_PRELOAD=/tmp/x.so']\n", "token.environment: 'LD_PRELOAD" },
        { "  pin_file: PINFILE\n  environment: ['SVC_FIPS=false']\n", "token.environment: 'SVC_FIPS" },
        { "  pin_file: PINFILE\n  environment: ['PATH=/tmp']\n", "token.environment: 'PATH" },
        { "  pin_file: PINFILE\n  environment: [NAME]\n", "is no NAME=value" },
        { "  pin_file: PINFILE\n  environment: ['=x']\n", "is no NAME=value" },
        { "  pin_file: /nowhere/pin\n", "token.pin_file /nowhere/pin must be a regular file" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CLEANUP(config_freep) struct config *config = config_of(rows[i].lines);
        assert_refused(config, rows[i].says);
    }
}

static void flat_settings_become_one_token(void **state)
{
    (void)state;
    CLEANUP(config_freep)
    struct config *config =
        config_of("  module: /opt/p11.so\n  label: ours\n  serial: '42'\n  slot: 7\n  pin_file: PINFILE\n"
                  "  init_args: hello\n  public_keys_dir: /etc/keys\n  folders: [/var/a, /var/b]\n"
                  "  quirks: [pss-raw, 'omit:CKA_DERIVE', 'set:CKA_MODIFIABLE=no']\n");
    CLEANUP(tokens_settings_freep) struct tokens_settings *settings = loaded(config);
    const struct token_settings *token = &settings->at[0];
    assert_int_equal(settings->count, 1);
    assert_string_equal(token->name.text, "");
    assert_string_equal(token->module, "/opt/p11.so");
    assert_string_equal(token->label, "ours");
    assert_string_equal(token->serial, "42");
    assert_true(token->slot_set);
    assert_int_equal(token->slot, 7);
    assert_int_equal(token->login, TOKEN_LOGIN_USER);
    assert_true(span_equal_text(secret_span(token->pin), SOFTHSM_PIN));
    assert_int_equal(token->sessions, config->signer_sessions);
    assert_string_equal(token->init_args, "hello");
    assert_string_equal(token->public_keys_dir, "/etc/keys");
    assert_string_equal(token->folders[1], "/var/b");
    assert_null(token->folders[2]);
    BUF(words);
    assert_ok(quirks_print(&token->quirks, &words));
    assert_true(span_equal_text(buf_span(&words), "pss-raw, omit:CKA_DERIVE, set:CKA_MODIFIABLE=no"));
}

static void a_token_without_pin_reads_no_file(void **state)
{
    (void)state;
    static const char *const lines[] = { "  module: /opt/p11.so\n  login: none\n",
                                         "  module: /opt/p11.so\n  login: protected\n" };
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        CLEANUP(config_freep) struct config *config = config_of(lines[i]);
        CLEANUP(tokens_settings_freep) struct tokens_settings *settings = loaded(config);
        assert_null(settings->at[0].pin);
        assert_int_equal(settings->at[0].login, i == 0 ? TOKEN_LOGIN_NONE : TOKEN_LOGIN_PROTECTED);
        assert_false(settings->at[0].slot_set);
    }
}

/* ---- several ---- */

static void a_tokens_file_that_cannot_be_meant_is_refused_with_its_line(void **state)
{
    (void)state;
    static const struct {
        const char *yaml, *says;
    } rows[] = {
        { "", "tokens: the file is one list" },
        { "tokens: []\n", "tokens: the file is one list" },
        { "tokens: {}\n", "tokens: the file is one list" },
        { "tokens:\n  - name: a\n    label: x\n    pin_file: PINFILE\nmore: 1\n", "the file is one list" },
        { "tokens:\n  - just-a-word\n", "tokens.yaml:2: tokens: each token must be a mapping" },
        { "tokens:\n  - label: x\n", "tokens.yaml:2: name: is required" },
        { "tokens:\n  - name: Capital\n", "tokens.yaml:2: name: must be 1 to 24" },
        { "tokens:\n  - name: a\n    colour: red\n", "tokens.yaml:3: colour: no such member" },
        { "tokens:\n  - name: a\n    module: p11.so\n", "tokens.yaml:3: module: must be an absolute path" },
        { "tokens:\n  - name: a\n    label: ''\n", "tokens.yaml:3: label: must be a text" },
        { "tokens:\n  - name: a\n    label: 123456789012345678901234567890123\n", "has 32 bytes" },
        { "tokens:\n  - name: a\n    serial: 12345678901234567\n", "has 16 bytes" },
        { "tokens:\n  - name: a\n    slot: -1\n", "tokens.yaml:3: slot: must be a number" },
        { "tokens:\n  - name: a\n    slot: 4294967296\n", "slot: must be a number from 0 to 4294967295" },
        { "tokens:\n  - name: a\n    slot: 99999999999999999999999999\n", "slot: must be a number" },
        { "tokens:\n  - name: a\n    login: maybe\n", "tokens.yaml:3: login: must be" },
        { "tokens:\n  - name: a\n    sessions: 0\n", "sessions: must be a number from 1 to 64" },
        { "tokens:\n  - name: a\n    folders: /tmp\n", "folders: must be a list" },
        { "tokens:\n  - name: a\n    folders: [tmp]\n", "must be an absolute path" },
        { "tokens:\n  - name: a\n    quirks: pss-raw\n", "quirks: must be a list" },
        { "tokens:\n  - name: a\n    quirks:\n      - pss-raw\n      - nonsense\n", "tokens.yaml:5: quirks: nonsense" },
        { "tokens:\n  - name: a\n    quirks: [[pss-raw]]\n", "must be a list of words" },
        { "tokens:\n  - name: a\n    pin_file: PINFILE\n", "token a.label: label, serial or slot" },
        { "tokens:\n  - name: a\n    module: /opt/p11.so\n    label: x\n", "token a.pin_file: is needed" },
        { "tokens:\n  - {name: a, label: x, pin_file: PINFILE}\n  - {name: a, label: y, pin_file: PINFILE}\n",
          "token a.name: two tokens have this name" },
        { "tokens:\n  - {name: a, label: x, pin_file: PINFILE}\n  - {name: b, label: x, pin_file: PINFILE}\n",
          "token b.label: another name means this token already" },
        { "tokens:\n  - {name: a, label: x, pin_file: PINFILE}\n"
          "  - {name: b, label: y, pin_file: PINFILE, init_args: z}\n",
          "share its C_Initialize" },
        { "tokens:\n  - {name: a, label: x, pin_file: WIDEFIL}\n", "token a.pin_file" },
        { "tokens:\n  - {name: a, label: x, pin_file: PINFILE}\n  - {name: b, label: y, pin_file: /nowhere}\n",
          "token b.pin_file /nowhere" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CLEANUP(config_freep) struct config *config = config_of_file(rows[i].yaml);
        assert_refused(config, rows[i].says);
    }
    CLEANUP(config_freep) struct config *config = config_of("  tokens_file: /nowhere/tokens.yaml\n");
    assert_refused(config, "/nowhere/tokens.yaml cannot be read");
}

static void more_than_eight_tokens_are_refused(void **state)
{
    (void)state;
    BUF(yaml);
    const char *text = NULL;
    assert_ok(buf_text(&yaml, "tokens:\n"));
    for (int i = 0; i < TOKENS_MAX + 1; i++) {
        assert_ok(buf_printf(&yaml, "  - {name: t%d, label: l%d, pin_file: PINFILE}\n", i, i));
    }
    assert_ok(buf_cstr(&yaml, &text));
    CLEANUP(config_freep) struct config *config = config_of_file(text);
    assert_refused(config, "of 1 to 8 tokens");
}

static void a_file_of_tokens_and_a_flat_module_exclude_each_other(void **state)
{
    (void)state;
    struct config *none = NULL;
    BUF(why);
    static const char text[] = "token: {module: /opt/p11.so, pin_file: /etc/pin, tokens_file: /etc/tokens.yaml}\n";
    assert_ok(file_write(config_path, span_text(text), 0644));
    assert_fault(config_load(config_path, &why, &none), CONFIG);
    assert_non_null(memmem(why.at, why.len, "token.tokens_file", 17));
}

static void a_file_describes_several_tokens(void **state)
{
    (void)state;
    CLEANUP(config_freep)
    struct config *config = config_of_file(
        "tokens:\n"
        "  - name: first\n    label: x\n    pin_file: PINFILE\n"
        "  - name: second\n    module: /opt/p11.so\n    serial: '0042'\n    slot: 3\n    login: protected\n"
        "    sessions: 8\n    init_args: \"a='b'\"\n    public_keys_dir: /etc/keys\n"
        "    folders: [/var/lib/hsm]\n    quirks: [id-text, 'omit:CKA_WRAP']\n");
    CLEANUP(tokens_settings_freep) struct tokens_settings *settings = loaded(config);
    const struct token_settings *first = &settings->at[0], *second = &settings->at[1];
    assert_int_equal(settings->count, 2);
    assert_string_equal(first->name.text, "first");
    assert_string_equal(first->module, MODULE);
    assert_int_equal(first->sessions, config->signer_sessions);
    assert_string_equal(second->name.text, "second");
    assert_string_equal(second->module, "/opt/p11.so");
    assert_string_equal(second->label, "");
    assert_string_equal(second->serial, "0042");
    assert_int_equal(second->slot, 3);
    assert_int_equal(second->login, TOKEN_LOGIN_PROTECTED);
    assert_int_equal(second->sessions, 8);
    assert_int_equal(second->queue, config->signer_queue);
    assert_string_equal(second->init_args, "a='b'");
    assert_true(quirk_on(&second->quirks, QUIRK_ID_TEXT));
    assert_int_equal(second->quirks.omit, 1u << QUIRK_CKA_WRAP);
}

/* ---- places ---- */

static bool among(const char *const *list, size_t count, const char *path)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i], path) == 0) {
            return true;
        }
    }
    return false;
}

static void the_sandbox_is_told_every_folder(void **state)
{
    (void)state;
    NEEDS_SOFTHSM;
    char tokens[128];
    struct token_places places;
    CLEANUP(config_freep)
    struct config *config = config_of_file(
        "tokens:\n"
        "  - {name: a, module: " SOFTHSM_MODULE ", label: x, pin_file: PINFILE, public_keys_dir: /etc/keys}\n"
        "  - {name: b, module: /opt/hsm/lib/p11.so, label: x, pin_file: PINFILE, folders: [/var/lib/hsm]}\n"
        "  - {name: c, module: " NSS_MODULE
        ", label: x, pin_file: PINFILE, init_args: \"configDir='sql:/var/lib/nss db' flags=\",\n"
        "     public_keys_dir: /var/keys, quirks: [public-in-session]}\n");
    CLEANUP(tokens_settings_freep) struct tokens_settings *settings = loaded(config);
    assert_ok(token_places_find(settings, &places));
    (void)snprintf(tokens, sizeof(tokens), "%s/tokens", hsm.folder);
    assert_false(places.softhsm_only);
    assert_true(among(places.read, places.read_count, "/usr/lib/softhsm"));
    assert_true(among(places.read, places.read_count, getenv("SOFTHSM2_CONF")));
    assert_true(among(places.read, places.read_count, "/opt/hsm/lib"));
    assert_true(among(places.read, places.read_count, "/etc/keys"));
    assert_true(among(places.write, places.write_count, tokens));
    assert_true(among(places.write, places.write_count, "/var/lib/hsm"));
    assert_true(among(places.write, places.write_count, "/var/lib/nss db"));
    assert_true(among(places.write, places.write_count, "/var/keys"));
    assert_int_equal(places.write_count, 4);
    settings->count = 1;
    assert_ok(token_places_find(settings, &places));
    assert_true(places.softhsm_only);
    settings->count = 3;
}

/* ---- two tokens at work ---- */

static void use(struct token *token, struct key_ref *key)
{
    uint8_t digest[32] = { 7 };
    BUF(spki);
    BUF(signature);
    CLEANUP(op_freep) struct op *op = op_within(30000);
    CLEANUP(token_session_putp) struct token_session *session = NULL;
    assert_ok(token_session_take(op, token, &session));
    if (key->id.text[0] == '\0') {
        *key = key_new(KEY_PURPOSE_CODESIGN);
        assert_ok(token_generate(op, session, key, KEY_ALGORITHM_EC_P256, &spki));
    }
    struct fault fault = token_sign(op, session, key, SIGN_SCHEME_ECDSA, HASH_SHA256, SPAN_ARRAY(digest), &signature);
    if (FAULTED(fault)) {
        fail_msg("%s (%s)", op->note.detail, op->note.log_detail);
    }
    assert_ok(token_verify(op, session, key, SIGN_SCHEME_ECDSA, HASH_SHA256, SPAN_ARRAY(digest), buf_span(&signature)));
}

static void assert_unknown(struct token *token, const struct key_ref *key)
{
    enum key_algorithm algorithm;
    BUF(spki);
    CLEANUP(op_freep) struct op *op = op_within(30000);
    CLEANUP(token_session_putp) struct token_session *session = NULL;
    assert_ok(token_session_take(op, token, &session));
    assert_fault(token_public_key(op, session, key, &algorithm, &spki), KEY_NOT_FOUND);
}

/* Two tokens of one module, or with SVC_TEST_TOKEN=nss of two. */
static struct tokens_settings *two_tokens(const struct config *config)
{
    struct tokens_settings *settings = loaded(config);
    if (test_token_is_nss()) {
        settings->at[1].module = NSS_MODULE;
        settings->at[1].label = SOFTHSM_LABEL;
        settings->at[1].init_args = hsm.init_args;
    }
    return settings;
}

static void softhsm_beside_nss(void)
{
    char path[128], text[256];
    (void)snprintf(path, sizeof(path), "%s/softhsm", hsm.folder);
    assert_ok(file_make_dirs(path, 0700));
    (void)snprintf(text, sizeof(text), "directories.tokendir = %s\nlog.level = ERROR\n", path);
    (void)snprintf(path, sizeof(path), "%s/softhsm2.conf", hsm.folder);
    assert_ok(file_write(path, span_text(text), 0600));
    assert_int_equal(setenv("SOFTHSM2_CONF", path, 1), 0);
}

static const char two_yaml[] = "tokens:\n"
                               "  - {name: left, module: " SOFTHSM_MODULE ", label: left, pin_file: PINFILE}\n"
                               "  - {name: right, module: " SOFTHSM_MODULE ", label: right, pin_file: PINFILE}\n";

static void a_module_finds_its_environment(void **state)
{
    (void)state;
    struct token_places places;
    CLEANUP(config_freep)
    struct config *config = config_of("  module: /opt/p11.so\n  pin_file: PINFILE\n"
                                      "  environment: ['HsmConfigPath=/etc/hsm=1', 'PATHS=']\n");
    CLEANUP(tokens_settings_freep) struct tokens_settings *settings = loaded(config);
    assert_ok(token_places_find(settings, &places));
    assert_string_equal(getenv("HsmConfigPath"), "/etc/hsm=1");
    assert_string_equal(getenv("PATHS"), "");
}

static void keys_are_addressed_by_their_token(void **state)
{
    (void)state;
    BUF(why);
    struct key_ref left_key = { 0 }, right_key = { 0 };
    struct token_name name, wanted = { "right" }, other = { "middle" }, none = { "" };
    if (test_token_is_nss()) {
        softhsm_beside_nss();
    }
    softhsm_init_token("left");
    softhsm_init_token("right");
    CLEANUP(config_freep) struct config *config = config_of_file(two_yaml);
    CLEANUP(tokens_settings_freep) struct tokens_settings *settings = two_tokens(config);
    CLEANUP(tokens_closep) struct tokens *tokens = NULL;
    if (FAULTED(tokens_open(settings, &why, &tokens))) {
        fail_msg("%.*s", (int)why.len, (const char *)why.at);
    }
    assert_int_equal(tokens_count(tokens), 2);
    struct token *left = tokens_at(tokens, 0, &name);
    assert_string_equal(name.text, "left");
    struct token *right = tokens_find(tokens, &wanted);
    assert_ptr_equal(tokens_find(tokens, &none), left);
    assert_null(tokens_find(tokens, &other));
    assert_ptr_not_equal(left, right);
    use(left, &left_key);
    use(right, &right_key);
    assert_unknown(right, &left_key);
    assert_unknown(left, &right_key);
    use(left, &left_key);
    use(right, &right_key);
}

static void a_token_that_is_closed_does_not_take_its_neighbour_along(void **state)
{
    (void)state;
    struct token *left = NULL, *right = NULL;
    struct key_ref right_key = { 0 }, left_key = { 0 };
    CLEANUP(config_freep) struct config *config = config_of_file(two_yaml);
    CLEANUP(tokens_settings_freep) struct tokens_settings *settings = two_tokens(config);
    assert_ok(token_open(&settings->at[0], NULL, &left));
    assert_ok(token_open(&settings->at[1], NULL, &right));
    use(left, &left_key);
    use(right, &right_key);
    struct token_status before, after;
    token_status(right, &before);
    token_close(TAKE(left));
    use(right, &right_key);
    token_status(right, &after);
    assert_int_equal(before.recoveries, after.recoveries); /* nothing had to be healed */
    assert_ok(token_open(&settings->at[0], NULL, &left));
    use(left, &left_key);
    use(right, &right_key);
    token_status(right, &after);
    assert_int_equal(before.recoveries, after.recoveries);
    token_close(right);
    use(left, &left_key);
    token_close(left);
}

static void one_token_that_cannot_be_opened_refuses_all(void **state)
{
    (void)state;
    BUF(why);
    struct tokens *none = NULL;
    CLEANUP(config_freep) struct config *config = config_of_file(two_yaml);
    CLEANUP(tokens_settings_freep) struct tokens_settings *settings = two_tokens(config);
    settings->at[1].label = "nobody";
    assert_fault(tokens_open(settings, &why, &none), TOKEN_UNAVAILABLE);
    assert_null(none);
    assert_non_null(memmem(why.at, why.len, "token right: ", 13));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flat_settings_that_cannot_be_meant_are_refused),
        cmocka_unit_test(flat_settings_become_one_token),
        cmocka_unit_test(a_token_without_pin_reads_no_file),
        cmocka_unit_test(a_tokens_file_that_cannot_be_meant_is_refused_with_its_line),
        cmocka_unit_test(more_than_eight_tokens_are_refused),
        cmocka_unit_test(a_file_of_tokens_and_a_flat_module_exclude_each_other),
        cmocka_unit_test(a_file_describes_several_tokens),
        cmocka_unit_test(the_sandbox_is_told_every_folder),
        cmocka_unit_test(a_module_finds_its_environment),
        cmocka_unit_test(keys_are_addressed_by_their_token),
        cmocka_unit_test(a_token_that_is_closed_does_not_take_its_neighbour_along),
        cmocka_unit_test(one_token_that_cannot_be_opened_refuses_all),
    };
    return cmocka_run_group_tests_name("settings", tests, hsm_for_all, no_hsm_for_all);
}
