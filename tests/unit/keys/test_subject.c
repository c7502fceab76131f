/* Names of certificate requests: what is no name, or not clearly one, is refused. */
#include "testlib.h"

#include "api/keys/internal.h"

#include <openssl/obj_mac.h>

static struct op *op;

static struct fault parse(const char *text, struct key_subject *ret_subject)
{
    op->note = (struct fault_note){ 0 };
    struct fault fault = key_subject_parse(op, text, ret_subject);
    assert_true(!FAULTED(fault) || (strcmp(op->note.pointer, "/subject") == 0 && op->note.detail[0] != '\0'));
    return fault;
}

static void refuses_all(const char *const *bad, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct key_subject subject = { 0 };
        if (parse(bad[i], &subject).code != FAULT_JSON_FIELD || subject.count != 0) {
            fail_msg("'%s' was taken", bad[i]);
        }
    }
}

static void what_is_not_rfc_4514_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",          " ",         "Release", "CN",     "CN=",     "=x",        "CN=x,",      ",CN=x",
        "CN=x,,O=y", " CN=x",     "CN =x",   "CN= x",  "CN=x ",   "CN=x ,O=y", "CN=#0401",   "CN=a+O=b",
        "CN=\"a\"",  "CN=a;O=b",  "CN=<a>",  "CN=a\\", "CN=a\\z", "CN=a\\0",   "CN=a\\4",    "CN=a\\g0",
        "2.5.4.3=x", "CN=x\nO=y", "/CN=x",   "CN=x,O", "CN=x\\",  "CN=x, ",    "CN=x,\tO=y", "CN=x O=y, ",
    };
    refuses_all(bad, COUNT_OF(bad));
}

static void attributes_that_are_unknown_missing_or_doubled_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "O=Acme",
        "O=Acme,C=DE",
        "CN=a,CN=b",
        "CN=a,O=b,O=c",
        "CN=a,C=DE,C=FR",
        "CN=a,DC=b",
        "CN=a,UID=b",
        "CN=a,serialNumber=1",
        "CN=a,emailAddress=a@b,emailAddress=c@d",
        "CN=a,street=b",
        "CN=a,OU=1,OU=2,OU=3,OU=4,OU=5",
        "CNN=a",
        "C=DE",
    };
    refuses_all(bad, COUNT_OF(bad));
}

static void values_that_no_certificate_should_hold_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "CN=a\x01",
        "CN=a\\01",
        "CN=a\\00b",
        "CN=a\\7f",
        "CN=\xff",
        "CN=\\ff",
        "CN=\\c3",
        "CN=\xc2\x85",
        "CN=\\c2\\85",
        "CN=\\ed\\a0\\80",
        "CN=a,C=D",
        "CN=a,C=DEU",
        "CN=a,C=de",
        "CN=a,C=\xc3\x84\xc3\x84",
        "CN=a,C=D1",
        "CN=a,emailAddress=a",
        "CN=a,emailAddress=a@",
        "CN=a,emailAddress=@b",
        "CN=a,emailAddress=a@b@c",
        "CN=a,emailAddress=a b@c",
        "CN=a,emailAddress=\xc3\xa4@b",
        "CN=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", /* 65 */
    };
    refuses_all(bad, COUNT_OF(bad));
}

static void an_address_is_checked_by_itself(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", "@", "a", "a@", "@b", "a@b@c", "a @b", "a@b ", "a,b@c", "a:b@c", "\xc3\xa4@b"
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_false(key_email_fits(bad[i]));
    }
    assert_true(key_email_fits("release+ci@acme.example"));
}

static void a_name_is_read_in_its_order(void **state)
{
    (void)state;
    static const struct {
        int nid;
        const char *value;
    } wanted[] = {
        { NID_commonName, "Release, the \"2nd\" + more\\=" },
        { NID_organizationalUnitName, "CI=CD" },
        { NID_organizationalUnitName, " lead and trail " },
        { NID_organizationName, "Acme & S\xc3\xb6hne" },
        { NID_localityName, "#1" },
        { NID_stateOrProvinceName, "Berlin" },
        { NID_countryName, "DE" },
        { NID_pkcs9_emailAddress, "release@acme.example" },
    };
    struct key_subject subject;
    assert_fault(parse("CN=Release\\, the \\\"2nd\\\" \\+ more\\\\=,ou=CI=CD,OU=\\ lead and trail\\ ,"
                       "O=Acme & S\\c3\\B6hne,  L=\\#1,St=Berlin,C=DE,EMAILADDRESS=release@acme.example",
                       &subject),
                 NONE);
    assert_int_equal(subject.count, COUNT_OF(wanted));
    for (size_t i = 0; i < COUNT_OF(wanted); i++) {
        assert_int_equal(subject.at[i].nid, wanted[i].nid);
        assert_string_equal(subject.at[i].value, wanted[i].value);
    }
    assert_fault(parse("CN=\xe2\x82\xac\xe2\x82\xac", &subject), NONE);
    assert_int_equal(subject.count, 1);
    /* 64 characters, not bytes */
    char longest[3 + 64 * 2 + 1] = "CN=";
    for (size_t i = 0; i < 64; i++) {
        memcpy(&longest[3 + 2 * i], "\xc3\xa4", 3);
    }
    assert_fault(parse(longest, &subject), NONE);
}

static int new_op(void **state)
{
    (void)state;
    return FAULTED(op_new("test", (struct tenant_id){ "default" }, 60000, &op)) ? -1 : 0;
}
static int free_op(void **state)
{
    (void)state;
    op_free(TAKE(op));
    return 0;
}
#define TEST(name) cmocka_unit_test_setup_teardown(name, new_op, free_op)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_not_rfc_4514_is_refused),
        TEST(attributes_that_are_unknown_missing_or_doubled_are_refused),
        TEST(values_that_no_certificate_should_hold_are_refused),
        TEST(an_address_is_checked_by_itself),
        TEST(a_name_is_read_in_its_order),
    };
    return cmocka_run_group_tests_name("subject", tests, NULL, NULL);
}
