#include "unit/server/testing.h"

#include "api/server/request.h"
#include "appliance/base/secret.h"

static const struct route list = { .name = "things.list" };
static const struct route other_list = { .name = "parts.list" };

struct fixture {
    struct op *op;
    struct services services;
    struct request request;
};

static int set_up(void **state)
{
    static struct fixture fixture;
    fixture = (struct fixture){ .op = test_op() };
    assert_fault(secret_random(32, &fixture.services.fingerprint_key), NONE);
    fixture.request = (struct request){ .op = fixture.op, .services = &fixture.services, .route = &list };
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    secret_free(fixture->services.fingerprint_key);
    op_free(fixture->op);
    return 0;
}

static const char *made(struct fixture *fixture, const char *position)
{
    const char *cursor = NULL;
    assert_fault(cursor_make(&fixture->request, position, &cursor), NONE);
    return cursor;
}

static void rubbish_is_refused(void **state)
{
    struct fixture *fixture = *state;
    static const char *const bad[] = { "", ".", "AAAA", "AAAA.", ".AAAA", "AAAA.AAAA", "!.!", "A.B.C", "AA==.AA==" };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        const char *position = NULL;
        assert_fault(cursor_read(&fixture->request, bad[i], &position), CURSOR);
        assert_null(position);
    }
}

static void any_altered_character_is_refused(void **state)
{
    struct fixture *fixture = *state;
    const char *cursor = made(fixture, "2026-11-21T00:00:00Z|42");
    for (size_t i = 0; i < strlen(cursor); i++) {
        char altered[256];
        const char *position = NULL;
        (void)strcpy(altered, cursor);
        altered[i] = altered[i] == 'A' ? 'B' : 'A';
        assert_fault(cursor_read(&fixture->request, altered, &position), CURSOR);
    }
}

static void a_cursor_of_another_tenant_route_or_key_is_refused(void **state)
{
    struct fixture *fixture = *state;
    const char *cursor = made(fixture, "42");
    const char *position = NULL;
    fixture->request.route = &other_list;
    assert_fault(cursor_read(&fixture->request, cursor, &position), CURSOR);
    fixture->request.route = &list;
    (void)strcpy(fixture->op->tenant.text, "other");
    assert_fault(cursor_read(&fixture->request, cursor, &position), CURSOR);
    (void)strcpy(fixture->op->tenant.text, "acme");
    secret_free(fixture->services.fingerprint_key);
    assert_fault(secret_random(32, &fixture->services.fingerprint_key), NONE);
    assert_fault(cursor_read(&fixture->request, cursor, &position), CURSOR);
}

static void a_cursor_gives_back_its_position(void **state)
{
    struct fixture *fixture = *state;
    static const char *const positions[] = { "", "42", "a/b?c=d&e \xc3\xa4" };
    for (size_t i = 0; i < COUNT_OF(positions); i++) {
        const char *position = NULL;
        assert_fault(cursor_read(&fixture->request, made(fixture, positions[i]), &position), NONE);
        assert_string_equal(position, positions[i]);
    }
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH(rubbish_is_refused),
        WITH(any_altered_character_is_refused),
        WITH(a_cursor_of_another_tenant_route_or_key_is_refused),
        WITH(a_cursor_gives_back_its_position),
    };
    return cmocka_run_group_tests_name("cursor", tests, NULL, NULL);
}
