/* The embedded files through the real pipeline, without a socket: what is served, to whom, with which headers. */
#include "tests/testlib.h"

#include "api/console/internal.h"
#include "api/server/exchange.h"

static const struct feature *const features[] = { &console_feature };
static struct router *router;
static struct op *op;

static int set_up(void **state)
{
    (void)state;
    assert_fault(op_new("", (struct tenant_id){ 0 }, 60000, &op), NONE);
    assert_fault(router_new(features, 1, NULL, &router), NONE);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    router_free(TAKE(router));
    op_free(TAKE(op));
    return 0;
}

struct wish {
    const char *method, *path, *accept_encoding, *if_none_match;
    enum listener_kind listener;
};

static struct response answer_to(struct wish wish)
{
    static struct config config = { .http_body_max = 1024 };
    static struct services services = { .config = &config };
    struct core core = { .services = &services, .features = features, .feature_count = 1, .router = router };
    struct message message = { .method = wish.method != NULL ? wish.method : "GET",
                               .path = wish.path,
                               .listener = wish.listener,
                               .headers = { { "Host", "svc.example" } },
                               .header_count = 1 };
    struct response response;
    struct route_match match;
    if (wish.accept_encoding != NULL) {
        message.headers[message.header_count++] = (struct http_header){ "Accept-Encoding", wish.accept_encoding };
    }
    if (wish.if_none_match != NULL) {
        message.headers[message.header_count++] = (struct http_header){ "If-None-Match", wish.if_none_match };
    }
    dispatch(&core, op, &message, &response, &match);
    return response;
}
#define ASK(...) answer_to((struct wish){ __VA_ARGS__ })

static const char *header_of(const struct response *response, const char *name)
{
    for (size_t i = 0; i < response->header_count; i++) {
        if (strcmp(response->headers[i].name, name) == 0) {
            return response->headers[i].value;
        }
    }
    return NULL;
}

static void what_is_not_embedded_is_not_found(void **state)
{
    (void)state;
    static const char *const paths[] = {
        "/console/index.htm", "/console/INDEX.HTML", "/console/x",         "/console/index.html/",
        "/console//",         "/console/a/b.js",     "/console/app.js%20", "/console/internal.h",
        "/consoles/",         "/console/.htaccess",
    };
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        assert_int_equal(ASK(.path = paths[i]).status, 404);
    }
    static const char *const climbing[] = { "/console/..",          "/console/../etc/passwd", "/console/%2e%2e/x",
                                            "/console/..%2fapp.js", "/console/%5c",           "/console/app.js%00" };
    for (size_t i = 0; i < COUNT_OF(climbing); i++) {
        assert_int_equal(ASK(.path = climbing[i]).status, 400);
    }
}

static void only_get_and_head_over_tls(void **state)
{
    (void)state;
    assert_int_equal(ASK(.path = "/console/", .method = "POST").status, 405);
    assert_int_equal(ASK(.path = "/console/app.js", .method = "DELETE").status, 405);
    assert_int_equal(ASK(.path = "/console/", .listener = LISTENER_PLAIN).status, 404);
    assert_int_equal(ASK(.path = "/console/app.js", .listener = LISTENER_PROBE).status, 404);
    assert_int_equal(ASK(.path = "/console/", .method = "HEAD").status, 200);
}

static void the_folder_without_its_slash_leads_to_it(void **state)
{
    (void)state;
    struct response response = ASK(.path = "/console");
    assert_int_equal(response.status, 308);
    assert_string_equal(header_of(&response, "Location"), "/console/");
}

static void every_answer_is_fenced(void **state)
{
    (void)state;
    static const char *const policy[] = {
        "default-src 'none';",     "script-src 'self';", "style-src 'self';",
        "connect-src 'self';",     "img-src 'self';",    "form-action 'none';",
        "frame-ancestors 'none';", "base-uri 'none';",   "require-trusted-types-for 'script'",
    };
    static const char *const paths[] = { "/console/", "/console/app.js", "/console/style.css", "/console" };
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        struct response response = ASK(.path = paths[i]);
        const char *set = header_of(&response, "Content-Security-Policy");
        for (size_t j = 0; j < COUNT_OF(policy); j++) {
            assert_non_null(strstr(set, policy[j]));
        }
        assert_null(strstr(set, "unsafe"));
        assert_null(strstr(set, "http"));
        assert_string_equal(header_of(&response, "Referrer-Policy"), "no-referrer");
        assert_string_equal(header_of(&response, "Cross-Origin-Opener-Policy"), "same-origin");
        assert_string_equal(header_of(&response, "Cross-Origin-Embedder-Policy"), "require-corp");
        assert_string_equal(header_of(&response, "Cross-Origin-Resource-Policy"), "same-origin");
        assert_non_null(strstr(header_of(&response, "Permissions-Policy"), "camera=()"));
        assert_string_equal(header_of(&response, "Cache-Control"), "no-cache");
    }
}

static void each_file_has_its_type_and_nothing_that_the_policy_stops(void **state)
{
    (void)state;
    for (size_t i = 0; i < console_asset_count; i++) {
        const struct console_asset *asset = &console_assets[i];
        const char *dot = strchr(asset->name, '.');
        const char *want = strcmp(dot, ".js") == 0    ? "text/javascript; charset=utf-8"
                           : strcmp(dot, ".css") == 0 ? "text/css; charset=utf-8"
                           : strcmp(dot, ".svg") == 0 ? "image/svg+xml"
                                                      : "text/html; charset=utf-8";
        const char *path = NULL, *text = NULL;
        assert_fault(arena_printf(op->arena, &path, "/console/%s", asset->name), NONE);
        struct response response = ASK(.path = path);
        assert_int_equal(response.status, 200);
        assert_string_equal(response.content_type, want);
        assert_true(span_equal(response.body, asset->plain));
        assert_fault(arena_text(op->arena, asset->plain, &text), NONE);
        static const char *const stopped[] = { "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write",
                                               "eval(",     "style=\"",  "onclick=",           "javascript:" };
        for (size_t j = 0; j < COUNT_OF(stopped); j++) {
            assert_null(strstr(text, stopped[j]));
        }
    }
    assert_true(console_asset_count >= 10);
    assert_true(span_equal(ASK(.path = "/console/").body, console_asset_find("index.html")->plain));
}

static void a_known_tag_is_answered_without_a_body(void **state)
{
    (void)state;
    struct response whole = ASK(.path = "/console/app.js");
    const char *tag = header_of(&whole, "ETag");
    assert_int_equal(tag[0], '"'); /* strong */
    struct response same = ASK(.path = "/console/app.js", .if_none_match = tag);
    assert_int_equal(same.status, 304);
    assert_int_equal(same.body.len, 0);
    assert_string_equal(header_of(&same, "ETag"), tag);
    assert_non_null(header_of(&same, "Content-Security-Policy"));
    assert_int_equal(ASK(.path = "/console/style.css", .if_none_match = tag).status, 200);
    assert_int_equal(ASK(.path = "/console/app.js", .if_none_match = tag, .accept_encoding = "gzip").status, 200);
}

static void gzip_is_sent_to_those_who_take_it_under_a_tag_of_its_own(void **state)
{
    (void)state;
    struct response plain = ASK(.path = "/console/app.js"),
                    packed = ASK(.path = "/console/app.js", .accept_encoding = "br, gzip");
    assert_string_equal(header_of(&packed, "Content-Encoding"), "gzip");
    assert_null(header_of(&plain, "Content-Encoding"));
    assert_string_equal(header_of(&plain, "Vary"), "Accept-Encoding");
    assert_string_equal(header_of(&packed, "Vary"), "Accept-Encoding");
    assert_string_not_equal(header_of(&plain, "ETag"), header_of(&packed, "ETag"));
    assert_true(packed.body.len > 20 && packed.body.len < plain.body.len);
    assert_memory_equal(packed.body.at, "\x1f\x8b", 2);
}

static void accept_encoding_is_read_as_it_is_meant(void **state)
{
    (void)state;
    static const char *const yes[] = { "gzip",          "GZIP",        " gzip ", "br,gzip", "deflate , gzip;q=0.5",
                                       "gzip; q=1.000", "gzip;q=0.001" };
    static const char *const no[] = { "",        "br",        "gzip;q=0", "gzip; q=0.000", "xgzip",   "gzipx",
                                      "*",       "gzip;q=0.", "gzip;q=x", "gzip;q=1x",     "gzip;q=", "identity,,,;",
                                      "gzip;x=1" };
    for (size_t i = 0; i < COUNT_OF(yes); i++) {
        assert_true(console_takes_gzip(yes[i]));
    }
    for (size_t i = 0; i < COUNT_OF(no); i++) {
        assert_false(console_takes_gzip(no[i]));
    }
    assert_false(console_takes_gzip(NULL));
}

static void tags_are_compared_whole(void **state)
{
    (void)state;
    assert_true(console_tag_matches("\"a\"", "\"a\""));
    assert_true(console_tag_matches("W/\"a\"", "\"a\""));
    assert_true(console_tag_matches("\"b\" , \"a\"", "\"a\""));
    assert_true(console_tag_matches("*", "\"a\""));
    assert_false(console_tag_matches("\"ab\"", "\"a\""));
    assert_false(console_tag_matches("a", "\"a\""));
    assert_false(console_tag_matches("", "\"a\""));
    assert_false(console_tag_matches(NULL, "\"a\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_embedded_is_not_found),
        cmocka_unit_test(only_get_and_head_over_tls),
        cmocka_unit_test(the_folder_without_its_slash_leads_to_it),
        cmocka_unit_test(every_answer_is_fenced),
        cmocka_unit_test(each_file_has_its_type_and_nothing_that_the_policy_stops),
        cmocka_unit_test(a_known_tag_is_answered_without_a_body),
        cmocka_unit_test(gzip_is_sent_to_those_who_take_it_under_a_tag_of_its_own),
        cmocka_unit_test(accept_encoding_is_read_as_it_is_meant),
        cmocka_unit_test(tags_are_compared_whole),
    };
    return cmocka_run_group_tests_name("console", tests, set_up, tear_down);
}
