/* What a provision.yaml is refused for, with file, line and key; and what the product's configuration becomes of it. */
#include "tests/unit/machine/provision_file.h"

#include "appliance/machine/provision_store.h"

/* ---- refusals ---- */

static void keys_that_are_not_there_are_refused(void **state)
{
    (void)state;
    assert_refused(LEAST "nonsense: 1\n", "provision.yaml:5: nonsense: no such key (docs/first-boot.md lists them)\n");
    assert_refused(LEAST "tls: { mod: self }\n",
                   "provision.yaml:5: tls.mod: no such key (docs/first-boot.md lists them)\n");
    assert_refused(LEAST "tls.mode: self\n",
                   "provision.yaml:5: tls.mode: no such key (docs/first-boot.md lists them)\n");
    assert_refused(LEAST "hostname: again\n", "provision.yaml:5: the key stands here a second time\n");
}

static void a_value_of_the_wrong_kind_is_refused(void **state)
{
    (void)state;
    assert_refused("[]\n", "provision.yaml:1: file: must be a mapping of keys\n");
    assert_refused(LEAST "tls: csr\n", "provision.yaml:5: tls: must hold further keys\n");
    assert_refused(LEAST "tls: { mode: [self] }\n", "provision.yaml:5: tls.mode: must be one value\n");
    assert_refused(LEAST "tls: { mode: }\n", "provision.yaml:5: tls.mode: has no value; give one or remove the key\n");
    assert_refused(LEAST "tls: { mode: both }\n", "provision.yaml:5: tls.mode: 'both' must be one of self, csr\n");
    assert_refused(LEAST "tsa: { enabled: yes }\n",
                   "provision.yaml:5: tsa.enabled: 'yes' must be true or false, without quotes\n");
    assert_refused(LEAST "tsa: { enabled: 'true' }\n",
                   "provision.yaml:5: tsa.enabled: 'true' must be true or false, without quotes\n");
}

static void control_characters_never_come_in(void **state)
{
    (void)state;
    static const char line[] = "must be one line of 1 to 255 bytes of text, without control characters and outer "
                               "blanks\n";
    char want[256];
    (void)snprintf(want, sizeof(want), "provision.yaml:5: tls.names: %s", line);
    assert_refused(LEAST "tls: { names: [\"a\\nb\"] }\n", want);
    assert_refused(LEAST "tls: { names: [\"a\\e[2J\"] }\n", want);
    assert_refused(LEAST "tls: { names: [\"a\\N\"] }\n", want); /* U+0085 */
    assert_refused(LEAST "tls: { names: [\" a\"] }\n", want);
    assert_refused(LEAST "tls: { names: [\"\"] }\n", want);
}

static void what_has_to_be_there_is_named(void **state)
{
    (void)state;
    assert_refused(
        "", "provision.yaml: hostname: '' must be a host name of 1 to 63 letters, digits, '-' and '.'\n"
            "provision.yaml: tenant: '' must be 1 to 63 of a-z, 0-9 and '-', not starting with '-'\n"
            "provision.yaml: network.address: needs 1 to 8 addresses, such as 192.0.2.10/24\n"
            "provision.yaml: time.servers: needs time servers; without any, say time.trust_host: true, so that time "
            "stamps rest on the clock of the host\n");
}

static void assert_network_refused(const char *network, const char *want)
{
    char text[512], said[512];
    (void)snprintf(text, sizeof(text), "hostname: a\ntenant: a\ntime: { trust_host: true }\nnetwork: { %s }\n",
                   network);
    (void)snprintf(said, sizeof(said), "provision.yaml:4: network.%s\n", want);
    assert_refused(text, said);
}

static void addresses_and_routers_have_to_fit_each_other(void **state)
{
    (void)state;
    static const char shape[] = "must be an address of this machine with the length of its network, such as "
                                "192.0.2.10/24 or 2001:db8::10/64";
    static const char *const wrong[] = { "192.0.2.10",  "192.0.2.10/0",  "192.0.2.10/33", "192.0.2.10/024x",
                                         "127.0.0.1/8", "224.0.0.1/4",   "0.0.0.0/8",     "2001:db8::1/129",
                                         "::1/128",     "ff02::1/64",    "::/64",         "192.0.2.10/-1",
                                         "192.0.2/24",  "192.0.2.10/ 24" };
    char network[128], want[256];
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        (void)snprintf(network, sizeof(network), "address: '%s'", wrong[i]);
        (void)snprintf(want, sizeof(want), "address: '%s' %s", wrong[i], shape);
        assert_network_refused(network, want);
    }
    assert_network_refused("address: 192.0.2.10/24, gateway: 192.0.3.1",
                           "gateway: '192.0.3.1' is in no network of network.address");
    assert_network_refused("address: 192.0.2.10/24, gateway: [192.0.2.1, 192.0.2.2]",
                           "gateway: at most one for IPv4 and one for IPv6");
    assert_network_refused("address: 192.0.2.10/24, gateway: router", "gateway: 'router' is no address of a router");
    assert_network_refused("address: 192.0.2.10/24, dns: [a]", "dns: 'a' is no address");
    assert_network_refused("address: 192.0.2.10/24, dns: ['::1', '::1', '::1', '::1']",
                           "dns: at most 3 servers are asked");
    assert_network_refused("address: 192.0.2.10/24, interface: ../eth0",
                           "interface: '../eth0' must be auto or the name of an interface");
}

static void an_hsm_is_described_whole_or_not_at_all(void **state)
{
    (void)state;
    assert_refused(LEAST "hsm: { module: /run/extensions/x/lib/x.so }\n",
                   "provision.yaml: hsm.kind: is embedded, which has no module, label, slot or login: say module\n");
    assert_refused(LEAST "hsm: { kind: module, label: a, module: /usr/lib/x.so }\n",
                   "provision.yaml:5: hsm.module: must be the path of a library of an extension image, such as "
                   "/run/extensions/NAME/lib/libpkcs11.so\n");
    assert_refused(LEAST "hsm: { kind: module, label: a, module: /run/extensions/x/../../../tmp/x.so }\n",
                   "provision.yaml:5: hsm.module: must be the path of a library of an extension image, such as "
                   "/run/extensions/NAME/lib/libpkcs11.so\n");
    assert_refused(LEAST "hsm: { kind: module, module: /run/extensions/x/lib/x.so }\n",
                   "provision.yaml: hsm.label: needs the token's label, or hsm.slot its number\n");
    assert_refused(LEAST "hsm: { kind: module, module: /run/extensions/x/lib/x.so, slot: -1 }\n",
                   "provision.yaml:5: hsm.slot: '-1' is no number of a slot\n");
    assert_refused(LEAST "hsm: { kind: module, module: /run/extensions/x/lib/x.so, slot: 1, pin_file: ../pin }\n",
                   "provision.yaml:5: hsm.pin_file: must be the name of a file beside this one\n");
    assert_refused(LEAST "hsm: { pin_file: pin }\n",
                   "provision.yaml:5: hsm.pin_file: is for hsm.kind module with hsm.login user\n");
    assert_refused(LEAST "state: { seal: none, pin_file: pin }\n",
                   "provision.yaml:5: state.pin_file: is given, but state.seal is none; say auto, tpm2 or pin\n");
}

static void policies_are_object_identifiers(void **state)
{
    (void)state;
    static const char *const wrong[] = { "1", "3.1", "1.40", "1..2", "1.2.", ".1", "1.02", "1.2.99999999999", "a.b" };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        char text[512], want[256];
        (void)snprintf(text, sizeof(text), LEAST "tsa: { policies: ['%s'] }\n", wrong[i]);
        (void)snprintf(want, sizeof(want), "provision.yaml:5: tsa.policies: '%s' is no object identifier\n", wrong[i]);
        assert_refused(text, want);
    }
}

static void keys_of_extensions_are_keys(void **state)
{
    (void)state;
    assert_refused(
        LEAST "extensions: { keys: [hello] }\n",
        "provision.yaml:5: extensions.keys: number 1 is no public key of ECDSA P-256 or P-384 in PEM form\n");
}

static void the_first_subject_is_none_of_ours(void **state)
{
    (void)state;
    assert_refused(LEAST "admin: { subject: 'system:x' }\n",
                   "provision.yaml:5: admin.subject: names beginning with system: or svc- are reserved\n");
    assert_refused(LEAST "admin: { ttl: 1s }\n",
                   "provision.yaml:5: admin.ttl: '1s' must be a duration of 1m to 8784h, such as 720h\n");
}

static void settings_of_the_machine_are_not_the_sites(void **state)
{
    (void)state;
    assert_refused(LEAST "settings: { data_dir: /tmp }\n",
                   "provision.yaml:5: data_dir: is decided by the state partition; remove it from settings\n");
    assert_refused(LEAST "settings:\n  token: { module: /tmp/x.so }\n",
                   "provision.yaml:6: token.module: is decided by hsm.module; remove it from settings\n");
    assert_refused(LEAST "settings:\n  http: { thread: 1 }\n",
                   "provision.yaml:6: http.thread: no such setting (docs/configuration.md lists them; each part of a "
                   "key stands in a line of its own)\n");
    assert_refused(LEAST "settings:\n  http.threads: 200\n",
                   "provision.yaml:6: http.threads: no such setting (docs/configuration.md lists them; each part of a "
                   "key stands in a line of its own)\n");
    assert_refused(LEAST "settings:\n  http: { threads: '200' }\n",
                   "provision.yaml:6: http.threads: must be a whole number without quotes\n");
    assert_refused(LEAST "settings: [a]\n", "provision.yaml:5: settings: must hold keys of docs/configuration.md\n");
}

static void a_range_of_the_product_is_judged_before_anything_is_made(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = new_op();
    CLEANUP(buf_free) struct buf why = BUF_INIT(FILE_MAX);
    struct provision provision;
    parse(op, LEAST "settings:\n  http: { threads: 9 }\n", &provision);
    assert_fault(provision_judge(op, &provision, &why), CONFIG);
    const char *said = NULL;
    assert_fault(buf_cstr(&why, &said), NONE);
    assert_string_equal(said, "provision.yaml: settings: http.threads: 9 must be more than the sum of the bulkheads' "
                              "limits, 118\n");
}

/* ---- what is accepted ---- */

static void the_least_is_enough(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = new_op();
    struct provision provision;
    parse(op, LEAST, &provision);
    assert_string_equal(provision.hostname, "signer-1");
    assert_string_equal(provision.network.interface, "auto");
    assert_int_equal(provision.network.addresses.count, 1);
    assert_string_equal(provision.admin.subject, "admin");
    assert_int_equal(provision.tls.mode, PROVISION_TLS_SELF);
    assert_int_equal(provision.hsm.kind, PROVISION_HSM_EMBEDDED);
    assert_int_equal(provision.state.seal, PROVISION_SEAL_AUTO);
    assert_true(provision.tsa.enabled && !provision.time.trust_host);
    assert_fault(provision_judge(op, &provision, NULL), NONE);
}

#define KEY                                                                              \
    "    -----BEGIN PUBLIC KEY-----\n"                                                   \
    "    MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEaxfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiY\n" \
    "    wpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9Q==\n"                             \
    "    -----END PUBLIC KEY-----\n"
#define MOST                                                                                                         \
    "hostname: signer-1.example\n"                                                                                   \
    "tenant: acme\n"                                                                                                 \
    "network:\n"                                                                                                     \
    "  interface: enp1s0\n"                                                                                          \
    "  address: [192.0.2.10/24, '2001:db8::10/64']\n"                                                                \
    "  gateway: [192.0.2.1, 'fe80::1']\n"                                                                            \
    "  dns: [192.0.2.53]\n"                                                                                          \
    "time: { servers: [ntp1.example, 192.0.2.123], trust_host: false }\n"                                            \
    "admin: { subject: 'ops@example', ttl: 24h }\n"                                                                  \
    "tls: { mode: csr, names: [sign.example, 198.51.100.7] }\n"                                                      \
    "hsm: { kind: module, module: /run/extensions/acme/lib/libx.so, label: \"it's\", slot: 3, pin_file: hsm.pin }\n" \
    "tsa: { enabled: true, policy: 1.2.3.4, policies: [1.2.3.5], algorithm: ec-p384 }\n"                             \
    "state: { seal: tpm2, pin_file: state.pin }\n"                                                                   \
    "extensions:\n"                                                                                                  \
    "  keys:\n"                                                                                                      \
    "  - |\n" KEY "settings:\n"                                                                                      \
    "  log: { level: warn }\n"                                                                                       \
    "  http: { threads: 200, request_timeout: 30s, probe_listen: '' }\n"                                             \
    "  rate_limit: { enabled: false }\n"                                                                             \
    "  token: { environment: ['A=''b''', C=d] }\n"

static void what_was_kept_reads_as_what_was_given_without_pin_files(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = new_op();
    struct provision given, kept;
    parse(op, MOST, &given);
    const char *once = printed(op, &given);
    assert_null(strstr(once, "pin_file"));
    parse(op, once, &kept);
    assert_string_equal(printed(op, &kept), once);
    assert_string_equal(kept.hsm.label, "it's");
    assert_string_equal(kept.extension_keys.at[0], given.extension_keys.at[0]);
    assert_int_equal(kept.settings.count, 6);
    assert_int_equal(kept.state.seal, PROVISION_SEAL_TPM2);
}

static void the_products_configuration_is_as_it_was_asked_for(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = new_op();
    CLEANUP(buf_free) struct buf text = BUF_INIT(FILE_MAX);
    struct provision provision;
    const char *said = NULL;
    parse(op, MOST, &provision);
    assert_fault(provision_judge(op, &provision, NULL), NONE);
    assert_fault(provision_print_svc_yaml(op, &provision, true, &text), NONE);
    assert_fault(buf_cstr(&text, &said), NONE);
    static const char want[] = "# Made from provision.yaml at every start; changes here do not last.\n"
                               "bin_dir: '/usr/bin'\n"
                               "bootstrap:\n"
                               "  tenant: 'acme'\n"
                               "  tokens: false\n"
                               "data_dir: '/var/lib/svc/data'\n"
                               "http:\n"
                               "  base_url: 'https://sign.example:8443'\n"
                               "  listen: '[::]:8443'\n"
                               "  probe_listen: ''\n"
                               "  request_timeout: '30s'\n"
                               "  threads: 200\n"
                               "  tls_certificate_file: '/var/lib/svc/data/listener/tls.crt'\n"
                               "  tls_key_file: '/var/lib/svc/data/listener/tls.key'\n"
                               "log:\n"
                               "  level: 'warn'\n"
                               "policy_dir: '/usr/share/svc/policies'\n"
                               "protocols:\n"
                               "  tsa:\n"
                               "    clock:\n"
                               "      trust_host: false\n"
                               "    enabled: true\n"
                               "    key_algorithm: 'ec-p384'\n"
                               "    policies:\n"
                               "      - '1.2.3.5'\n"
                               "    policy_oid: '1.2.3.4'\n"
                               "    tenant_id: 'acme'\n"
                               "rate_limit:\n"
                               "  enabled: false\n"
                               "run_dir: '/run/svc'\n"
                               "token:\n"
                               "  environment:\n"
                               "    - 'A=''b'''\n"
                               "    - 'C=d'\n"
                               "  label: 'it''s'\n"
                               "  login: 'user'\n"
                               "  module: '/run/extensions/acme/lib/libx.so'\n"
                               "  pin_file: '/var/lib/svc/data/hsm/pin'\n"
                               "  slot: 3\n";
    assert_string_equal(said, want);
}

static void the_listeners_own_certificate_is_good_for_every_name(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = new_op();
    CLEANUP(buf_free) struct buf text = BUF_INIT(FILE_MAX);
    struct provision provision;
    const char *said = NULL;
    parse(op, MOST, &provision);
    assert_fault(provision_print_svc_yaml(op, &provision, false, &text), NONE);
    assert_fault(buf_cstr(&text, &said), NONE);
    assert_non_null(strstr(said, "  tls_names:\n    - 'signer-1.example'\n    - 'sign.example'\n    - '198.51.100.7'\n"
                                 "    - '192.0.2.10'\n    - '2001:db8::10'\n"));
    assert_null(strstr(said, "tls_key_file"));
    parse(op, LEAST, &provision);
    buf_clear(&text);
    assert_fault(provision_print_svc_yaml(op, &provision, false, &text), NONE);
    assert_fault(buf_cstr(&text, &said), NONE);
    assert_non_null(strstr(said, "  base_url: 'https://192.0.2.10:8443'\n  listen: '0.0.0.0:8443'\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_that_are_not_there_are_refused),
        cmocka_unit_test(a_value_of_the_wrong_kind_is_refused),
        cmocka_unit_test(control_characters_never_come_in),
        cmocka_unit_test(what_has_to_be_there_is_named),
        cmocka_unit_test(addresses_and_routers_have_to_fit_each_other),
        cmocka_unit_test(an_hsm_is_described_whole_or_not_at_all),
        cmocka_unit_test(policies_are_object_identifiers),
        cmocka_unit_test(keys_of_extensions_are_keys),
        cmocka_unit_test(the_first_subject_is_none_of_ours),
        cmocka_unit_test(settings_of_the_machine_are_not_the_sites),
        cmocka_unit_test(a_range_of_the_product_is_judged_before_anything_is_made),
        cmocka_unit_test(the_least_is_enough),
        cmocka_unit_test(what_was_kept_reads_as_what_was_given_without_pin_files),
        cmocka_unit_test(the_products_configuration_is_as_it_was_asked_for),
        cmocka_unit_test(the_listeners_own_certificate_is_good_for_every_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
