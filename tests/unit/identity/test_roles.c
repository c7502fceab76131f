#include "testlib.h"

#include "api/identity/internal.h"
#include "appliance/base/file.h"

static void assert_refused(const char *yaml, const char *says)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(1024);
    struct roles *roles = NULL;
    assert_fault(roles_parse(span_text(yaml), "roles.yaml", &why, &roles), CONFIG);
    assert_null(roles);
    if (memmem(why.at, why.len, says, strlen(says)) == NULL) {
        fail_msg("expected '%s' in '%.*s'", says, (int)why.len, (const char *)why.at);
    }
}

static void a_roles_file_with_mistakes_is_refused_by_line(void **state)
{
    (void)state;
    assert_refused("roles:\n  ci: [keys:wrte]\n", "roles.yaml:2: no such permission: keys:wrte");
    assert_refused("roles:\n  ci: [keys:write]\n  ci: []\n", "roles.yaml:3: ");
    assert_refused("roles:\n  Ci: [keys:write]\n", "roles.yaml:2: a role is named by");
    assert_refused("roles:\n  ci: keys:write\n", "roles.yaml:2: a role is a list");
    assert_refused("roles:\n  ci: [[keys:write]]\n", "roles.yaml:2: no such permission");
    assert_refused("rules: {}\n", "roles.yaml:1: ");
    assert_refused("roles: {}\nextra: 1\n", "roles.yaml:1: ");
    assert_refused("roles:\n  \"\": []\n", "roles.yaml:2: a role is named by");
}

static void a_role_has_its_permissions_and_an_unknown_one_is_not_found(void **state)
{
    (void)state;
    CLEANUP(roles_freep) struct roles *roles = NULL;
    uint64_t permissions = 0;
    assert_fault(roles_parse(span_text("roles:\n  ci: [keys:read, keys:write]\n  none: []\n"), "f", NULL, &roles),
                 NONE);
    assert_true(roles_find(roles, "ci", &permissions));
    struct principal principal = { .permissions = permissions };
    assert_true(principal_may(&principal, PERMISSION_KEYS_READ));
    assert_true(principal_may(&principal, PERMISSION_KEYS_WRITE));
    assert_false(principal_may(&principal, PERMISSION_KEYS_ADMIN));
    assert_false(principal_may(&principal, PERMISSION_AUDIT_READ));
    assert_true(principal_may(&principal, PERMISSION_NONE));
    assert_true(roles_find(roles, "none", &permissions));
    assert_int_equal(permissions, 0);
    assert_false(roles_find(roles, "c", &permissions));
    assert_false(roles_find(roles, "cix", &permissions));
}

/* Separation of duties that the shipped file must keep. */
static void the_shipped_roles_keep_duties_apart(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf text = BUF_INIT(65536);
    CLEANUP(roles_freep) struct roles *roles = NULL;
    assert_fault(file_read("policies/roles.yaml", &text), NONE);
    assert_fault(roles_parse(buf_span(&text), "policies/roles.yaml", NULL, &roles), NONE);
    static const struct {
        const char *role;
        enum permission has, lacks;
    } rows[] = {
        { "admin", PERMISSION_TOKENS_WRITE, PERMISSION_KEYS_WRITE },
        { "operator", PERMISSION_KEYS_WRITE, PERMISSION_TOKENS_WRITE },
        { "approver", PERMISSION_CERTS_ISSUE, PERMISSION_KEYS_WRITE },
        { "ci", PERMISSION_KEYS_WRITE, PERMISSION_KEYS_ADMIN },
        { "auditor", PERMISSION_AUDIT_READ, PERMISSION_KEYS_READ },
        { "adcs-collector", PERMISSION_ADCS_OBSERVE, PERMISSION_AUDIT_READ },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct principal principal = { 0 };
        assert_true(roles_find(roles, rows[i].role, &principal.permissions));
        assert_true(principal_may(&principal, rows[i].has));
        assert_false(principal_may(&principal, rows[i].lacks));
    }
}

static void every_permission_has_a_text_of_its_own(void **state)
{
    (void)state;
    for (int i = PERMISSION_NONE + 1; i < PERMISSION_COUNT; i++) {
        assert_non_null(strchr(permission_text((enum permission)i), ':'));
        for (int j = PERMISSION_NONE + 1; j < i; j++) {
            assert_string_not_equal(permission_text((enum permission)i), permission_text((enum permission)j));
        }
    }
    assert_string_equal(permission_text(PERMISSION_PUBLIC), "");
}

static void only_an_admin_grants_what_it_lacks(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = NULL;
    struct identity identity = { 0 };
    static const char yaml[] =
        "roles:\n  admin: [tokens:write]\n  lead: [tokens:write, keys:read]\n  reader: [keys:read]\n"
        "  ci: [keys:write]\n";
    assert_fault(roles_parse(span_text(yaml), "f", NULL, &identity.roles), NONE);
    assert_fault(op_new("lead", (struct tenant_id){ "t" }, 1000, &op), NONE);
    const struct token_request reader = { .roles = (const char *const[]){ "reader" }, .role_count = 1 };
    const struct token_request more = { .roles = (const char *const[]){ "reader", "ci" }, .role_count = 2 };
    const struct token_request admin = { .roles = (const char *const[]){ "admin" }, .role_count = 1 };
    (void)identity_permissions(&identity, "lead", &op->principal);
    assert_fault(identity_may_grant(op, &identity, &more), FORBIDDEN);
    assert_string_equal(op->note.pointer, "/roles");
    assert_fault(identity_may_grant(op, &identity, &admin), FORBIDDEN); /* although it has all that admin has */
    assert_fault(identity_may_grant(op, &identity, &reader), NONE);
    (void)identity_permissions(&identity, "admin", &op->principal);
    assert_fault(identity_may_grant(op, &identity, &more), NONE);
    assert_fault(identity_may_grant(op, &identity, &admin), NONE);
    roles_free(identity.roles);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_roles_file_with_mistakes_is_refused_by_line),
        cmocka_unit_test(a_role_has_its_permissions_and_an_unknown_one_is_not_found),
        cmocka_unit_test(the_shipped_roles_keep_duties_apart),
        cmocka_unit_test(every_permission_has_a_text_of_its_own),
        cmocka_unit_test(only_an_admin_grants_what_it_lacks),
    };
    return cmocka_run_group_tests_name("roles", tests, NULL, NULL);
}
