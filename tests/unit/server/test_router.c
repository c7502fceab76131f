#include "unit/server/testing.h"

#include "api/server/openapi.h"
#include "api/server/router.h"

/* The identity room's table is not this test's subject. */
const char *permission_text(enum permission permission)
{
    return permission == PERMISSION_KEYS_READ ? "keys:read" : "other";
}

static struct fault answer(struct request *request)
{
    (void)request;
    return OK;
}

struct make_body {
    const char *name;
    struct span digest, salt;
    int64_t size;
    bool loud;
    utc_us since;
    struct jin_texts tags;
    struct span extra;
    struct {
        const char *street;
    } where;
};
static const struct jin_field street_fields[] = {
    { .name = "street", .kind = JIN_KIND_TEXT, .flags = JIN_REQUIRED, .max = 10 },
};
static const struct jin_field make_fields[] = {
    JIN_TEXT(struct make_body, name, JIN_REQUIRED, 1, 36),
    JIN_BASE64(struct make_body, digest, JIN_REQUIRED, 32, 32),
    JIN_HEX(struct make_body, salt, JIN_OPTIONAL, 0, 8),
    JIN_INT(struct make_body, size, JIN_OPTIONAL, -5, 500),
    JIN_BOOL(struct make_body, loud, JIN_OPTIONAL),
    JIN_TIME(struct make_body, since, JIN_OPTIONAL),
    JIN_TEXTS(struct make_body, tags, JIN_OPTIONAL, 1, 3),
    JIN_RAW(struct make_body, extra, JIN_OPTIONAL, 0, 100),
    { .name = "where",
      .kind = JIN_KIND_OBJECT,
      .offset = offsetof(struct make_body, where),
      .sub = street_fields,
      .sub_count = COUNT_OF(street_fields),
      .doc = "Where it is." },
};
static const char *const list_query[] = { "limit", "cursor", NULL };
static const struct answer_field thing_answer[] = { { "id", "string", "Its id." } };

#define GET_THING "/api/v1/things/{id}"
#define COMMON(n, p)                                                                                               \
    .name = (n), .path = (p), .permission = PERMISSION_KEYS_READ, .bulkhead = BULKHEAD_API, .success_status = 200, \
    .handler = answer

static const struct route things[] = {
    { COMMON("things.get", GET_THING), .answer = thing_answer, .answer_count = 1, .doc = "One thing." },
    { COMMON("things.list", "/api/v1/things"), .query = list_query },
    { COMMON("things.newest", "/api/v1/things/newest") },
    { COMMON("folder", "/folder") },
    { COMMON("folder.index", "/folder/") },
    { COMMON("folder.file", "/folder/{file}") },
    { COMMON("things.make", "/api/v1/things"), .method = ROUTE_POST, .flags = ROUTE_MUTATION, .body = make_fields,
      .body_count = COUNT_OF(make_fields), .body_size = sizeof(struct make_body) },
    { COMMON("things.part", "/api/v1/things/{id}/parts/{part}"), .method = ROUTE_DELETE, .flags = ROUTE_MUTATION },
    { .name = "stamp",
      .path = "/stamp",
      .method = ROUTE_POST,
      .permission = PERMISSION_PUBLIC,
      .flags = ROUTE_RAW_BODY | ROUTE_PLAIN_TOO,
      .content_type = "application/stamp-query",
      .success_status = 200,
      .handler = answer },
    { .name = "probe",
      .path = "/probe",
      .permission = PERMISSION_PUBLIC,
      .flags = ROUTE_PROBE,
      .success_status = 200,
      .handler = answer },
};
static const struct feature feature = { .name = "things", .routes = things, .route_count = COUNT_OF(things) };
static const struct feature *const features[] = { &feature };

static struct fault match(struct op *op, enum listener_kind listener, const char *method, const char *path,
                          struct route_match *ret_match, const char **ret_allow)
{
    CLEANUP(router_freep) struct router *router = NULL;
    struct path split;
    assert_fault(router_new(features, 1, NULL, &router), NONE);
    TRY(path_split(op, path, &split));
    struct route_match found = { 0 };
    struct fault fault = router_match(op, router, listener, method, &split, &found, ret_allow);
    found.label = NULL; /* it was the router's */
    *ret_match = found;
    return fault;
}

static void refuse_tables(const struct route *routes, size_t count, const char *says)
{
    const struct feature bad = { .name = "bad", .routes = routes, .route_count = count };
    const struct feature *const list[] = { &bad };
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    const char *text = NULL;
    struct router *router = NULL;
    assert_fault(router_new(list, 1, &why, &router), CONFIG);
    assert_null(router);
    assert_fault(buf_cstr(&why, &text), NONE);
    assert_non_null(strstr(text, says));
}
#define REFUSE(says, ...) \
    refuse_tables((const struct route[]){ __VA_ARGS__ }, COUNT_OF(((const struct route[]){ __VA_ARGS__ })), says)

static void tables_that_contradict_themselves_are_refused(void **state)
{
    (void)state;
    REFUSE("taken", { COMMON("a", "/a") }, { COMMON("a", "/b") });
    REFUSE("taken", { COMMON("a", "/a/{x}") }, { COMMON("b", "/a/{y}") });
    REFUSE("must be", { COMMON("a", "/a"), .method = ROUTE_POST });
    REFUSE("must be", { COMMON("a", "/a"), .method = ROUTE_DELETE, .flags = ROUTE_PLAIN_TOO });
    REFUSE("GET takes", { COMMON("a", "/a"), .flags = ROUTE_MUTATION });
    REFUSE("GET takes", { COMMON("a", "/a"), .body = make_fields, .body_count = 1, .body_size = 1 });
    REFUSE("a caller", { .name = "a",
                         .path = "/a",
                         .method = ROUTE_POST,
                         .flags = ROUTE_MUTATION,
                         .handler = answer,
                         .permission = PERMISSION_PUBLIC,
                         .success_status = 200 });
    REFUSE("a caller", { COMMON("a", "/a"), .method = ROUTE_POST, .flags = ROUTE_MUTATION | ROUTE_EFFECT_FREE });
    REFUSE("raw body", { COMMON("a", "/a"), .method = ROUTE_POST, .flags = ROUTE_EFFECT_FREE | ROUTE_RAW_BODY });
    REFUSE("body table", { COMMON("a", "/a"), .method = ROUTE_POST, .flags = ROUTE_EFFECT_FREE, .body = make_fields });
    REFUSE("must begin", { COMMON("a", "a") });
    REFUSE("empty segment", { COMMON("a", "/a//b") });
    REFUSE("empty segment", { COMMON("a", "/") });
    REFUSE("parameters", { COMMON("a", "/{a}/{b}/{c}/{d}/{e}") });
    REFUSE("2xx", { .name = "a", .path = "/a", .handler = answer, .success_status = 404 });
}

static void unknown_paths_have_no_route(void **state)
{
    (void)state;
    static const char *const unknown[] = {
        "/",        "/api/v1/nothing",  "/api/v1/things/1/parts", "/API/v1/things",
        "/api/v1/", "/api/v1/%74hings", "/api/v1/thing",          "/api/v1/things2"
    };
    for (size_t i = 0; i < COUNT_OF(unknown); i++) {
        CLEANUP(op_freep) struct op *op = test_op();
        struct route_match found;
        assert_fault(match(op, LISTENER_TLS, "GET", unknown[i], &found, NULL), ROUTE);
    }
}

static void a_folder_and_its_own_page_are_two_paths(void **state)
{
    (void)state;
    static const struct {
        const char *path, *route;
    } rows[] = { { "/folder", "folder" }, { "/folder/", "folder.index" }, { "/folder/x", "folder.file" } };
    CLEANUP(op_freep) struct op *op = test_op();
    struct route_match found;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_fault(match(op, LISTENER_TLS, "GET", rows[i].path, &found, NULL), NONE);
        assert_string_equal(found.route->name, rows[i].route);
    }
    assert_fault(match(op, LISTENER_TLS, "GET", "/folder/x/", &found, NULL), ROUTE);
    assert_fault(match(op, LISTENER_TLS, "GET", "/api/v1/things/1/", &found, NULL), ROUTE);
}

static void a_known_path_with_another_method_says_what_is_allowed(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op();
    struct route_match found;
    const char *allow = NULL;
    assert_fault(match(op, LISTENER_TLS, "PATCH", "/api/v1/things", &found, &allow), METHOD);
    assert_string_equal(allow, "GET, HEAD, POST");
    assert_fault(match(op, LISTENER_TLS, "get", "/api/v1/things", &found, &allow), METHOD);
    assert_fault(match(op, LISTENER_TLS, "HEAD", "/api/v1/things/1/parts/2", &found, &allow), METHOD);
    assert_string_equal(allow, "DELETE");
}

static void each_listener_shows_its_own_routes(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op();
    struct route_match found;
    assert_fault(match(op, LISTENER_PLAIN, "GET", "/api/v1/things", &found, NULL), ROUTE);
    assert_fault(match(op, LISTENER_PLAIN, "GET", "/probe", &found, NULL), ROUTE);
    assert_fault(match(op, LISTENER_PLAIN, "POST", "/stamp", &found, NULL), NONE);
    assert_fault(match(op, LISTENER_PROBE, "POST", "/stamp", &found, NULL), ROUTE);
    assert_fault(match(op, LISTENER_PROBE, "GET", "/probe", &found, NULL), NONE);
    assert_fault(match(op, LISTENER_TLS, "GET", "/probe", &found, NULL), NONE);
    assert_fault(match(op, LISTENER_TLS, "POST", "/stamp", &found, NULL), NONE);
}

static void a_malformed_parameter_is_refused(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op();
    struct route_match found;
    assert_fault(match(op, LISTENER_TLS, "GET", "/api/v1/things/%ff", &found, NULL), BAD_ARGUMENT);
    assert_string_equal(op->note.pointer, "id");
}

static void a_literal_wins_over_a_parameter_and_parameters_are_decoded(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op();
    struct route_match found;
    assert_fault(match(op, LISTENER_TLS, "GET", "/api/v1/things/newest", &found, NULL), NONE);
    assert_string_equal(found.route->name, "things.newest");
    assert_fault(match(op, LISTENER_TLS, "HEAD", "/api/v1/things/a%20b", &found, NULL), NONE);
    assert_string_equal(found.route->name, "things.get");
    assert_string_equal(found.params.at[0].name, "id");
    assert_string_equal(found.params.at[0].value, "a b");
    assert_fault(match(op, LISTENER_TLS, "DELETE", "/api/v1/things/7/parts/8", &found, NULL), NONE);
    assert_int_equal(found.params.count, 2);
    assert_string_equal(found.params.at[1].name, "part");
    assert_string_equal(found.params.at[1].value, "8");
}

static void labels_hold_no_opaque_segment(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op();
    CLEANUP(router_freep) struct router *router = NULL;
    struct path path;
    struct route_match found;
    assert_fault(router_new(features, 1, NULL, &router), NONE);
    assert_fault(path_split(op, "/api/v1/things/7/parts/8", &path), NONE);
    assert_fault(router_match(op, router, LISTENER_TLS, "DELETE", &path, &found, NULL), NONE);
    assert_string_equal(found.label, "/api/v1/things/:id/parts/:id");
}

/* What the document says at a place named by nested keys, as canonical text: enough to find members by their text. */
static const char *printed_openapi(struct buf *out, struct buf *canonical)
{
    const char *text = NULL;
    assert_fault(openapi_print(features, 1, out), NONE);
    assert_fault(json_canonical(buf_span(out), canonical), NONE);
    assert_fault(buf_cstr(canonical, &text), NONE);
    return text;
}

static void openapi_is_json_and_names_every_route(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf out = BUF_INIT(OPENAPI_MAX);
    CLEANUP(buf_free) struct buf canonical = BUF_INIT(OPENAPI_MAX);
    const char *text = printed_openapi(&out, &canonical);
    for (size_t i = 0; i < COUNT_OF(things); i++) {
        CLEANUP(buf_free) struct buf id = BUF_INIT(256);
        CLEANUP(buf_free) struct buf path = BUF_INIT(256);
        const char *wanted = NULL;
        assert_fault(buf_printf(&id, "\"operationId\":\"%s\"", things[i].name), NONE);
        assert_fault(buf_cstr(&id, &wanted), NONE);
        assert_non_null(strstr(text, wanted));
        assert_fault(buf_printf(&path, "\"%s\":{", things[i].path), NONE);
        assert_fault(buf_cstr(&path, &wanted), NONE);
        assert_non_null(strstr(text, wanted));
    }
    assert_non_null(strstr(text, "\"openapi\":\"3.1.0\""));
}

static void openapi_tells_fields_parameters_and_security(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf out = BUF_INIT(OPENAPI_MAX);
    CLEANUP(buf_free) struct buf canonical = BUF_INIT(OPENAPI_MAX);
    const char *text = printed_openapi(&out, &canonical);
    static const char *const members[] = {
        "\"name\":{\"maxLength\":36,\"minLength\":1,\"type\":\"string\"}",
        "\"digest\":{\"contentEncoding\":\"base64\",\"maxLength\":44,\"minLength\":44,\"type\":\"string\"}",
        "\"salt\":{\"maxLength\":16,\"pattern\":\"^([0-9a-f]{2})*$\",\"type\":\"string\"}",
        "\"size\":{\"format\":\"int64\",\"maximum\":500,\"minimum\":-5,\"type\":\"integer\"}",
        "\"loud\":{\"type\":\"boolean\"}",
        "\"since\":{\"format\":\"date-time\",\"type\":\"string\"}",
        "\"tags\":{\"items\":{\"maxLength\":1024,\"type\":\"string\"},\"maxItems\":3,\"minItems\":1,\"type\":\"array\"}",
        "\"extra\":{}",
        "\"where\":{\"additionalProperties\":false,\"description\":\"Where it is.\",\"properties\":{\"street\":",
        "\"required\":[\"name\",\"digest\"]",
        "{\"in\":\"header\",\"name\":\"Idempotency-Key\",\"required\":true,",
        "{\"in\":\"query\",\"name\":\"limit\",\"required\":false,",
        "{\"in\":\"path\",\"name\":\"part\",\"required\":true,",
        "\"x-permission\":\"keys:read\"",
        "\"security\":[{\"bearer\":[]}]",
        "\"security\":[]",
        "\"application/stamp-query\":{}",
        "\"id\":{\"description\":\"Its id.\",\"type\":\"string\"}",
        "\"default\":{\"$ref\":\"#/components/responses/Problem\"}",
        "\"application/problem+json\":{",
    };
    for (size_t i = 0; i < COUNT_OF(members); i++) {
        if (strstr(text, members[i]) == NULL) {
            print_error("missing: %s\n", members[i]);
            fail();
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_that_contradict_themselves_are_refused),
        cmocka_unit_test(unknown_paths_have_no_route),
        cmocka_unit_test(a_folder_and_its_own_page_are_two_paths),
        cmocka_unit_test(a_known_path_with_another_method_says_what_is_allowed),
        cmocka_unit_test(each_listener_shows_its_own_routes),
        cmocka_unit_test(a_malformed_parameter_is_refused),
        cmocka_unit_test(a_literal_wins_over_a_parameter_and_parameters_are_decoded),
        cmocka_unit_test(labels_hold_no_opaque_segment),
        cmocka_unit_test(openapi_is_json_and_names_every_route),
        cmocka_unit_test(openapi_tells_fields_parameters_and_security),
    };
    return cmocka_run_group_tests_name("router", tests, NULL, NULL);
}
