#include "api/console/internal.h"

#include "api/server/request.h"

/* The pages run their own code and talk to the server they came from; nothing else is let in or out, and no text
 * becomes markup or code (Trusted Types without a policy). */
#define POLICY                                                                                          \
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "     \
    "form-action 'none'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; " \
    "trusted-types 'none'"
#define NOTHING_OF_THE_DEVICE                                                                  \
    "camera=(), display-capture=(), geolocation=(), gyroscope=(), hid=(), idle-detection=(), " \
    "magnetometer=(), microphone=(), midi=(), payment=(), publickey-credentials-get=(), serial=(), usb=()"
/* Asked again each time, and mostly answered with 304: a new version of the appliance is seen at once, whole. */
#define KEPT "no-cache"

static const struct {
    const char *name, *value;
} headers[] = {
    { "Content-Security-Policy", POLICY },
    { "Permissions-Policy", NOTHING_OF_THE_DEVICE },
    { "Referrer-Policy", "no-referrer" },
    { "Cross-Origin-Opener-Policy", "same-origin" },
    { "Cross-Origin-Embedder-Policy", "require-corp" },
    { "Cross-Origin-Resource-Policy", "same-origin" },
    { "Cache-Control", KEPT },
};

static struct fault put_headers(struct request *request)
{
    for (size_t i = 0; i < COUNT_OF(headers); i++) {
        TRY(response_header(request, headers[i].name, headers[i].value));
    }
    return OK;
}

static struct fault serve(struct request *request, const char *name)
{
    const struct console_asset *asset = console_asset_find(name);
    if (asset == NULL) {
        return op_fail(request->op, FAULT(ROUTE), "the console has no such file: it begins at /console/");
    }
    bool gzip = console_takes_gzip(request_header(request, "Accept-Encoding"));
    const char *tag = NULL;
    TRY(arena_printf(request->op->arena, &tag, "\"%.32s%s\"", asset->sha256, gzip ? "-gzip" : ""));
    TRY(put_headers(request));
    TRY(response_header(request, "ETag", tag));
    TRY(response_header(request, "Vary", "Accept-Encoding"));
    if (console_tag_matches(request_header(request, "If-None-Match"), tag)) {
        return response_bytes(request, 304, asset->type, (struct span){ 0 });
    }
    if (gzip) {
        TRY(response_header(request, "Content-Encoding", "gzip"));
    }
    return response_bytes(request, 200, asset->type, gzip ? asset->gzip : asset->plain);
}

static struct fault index_page(struct request *request)
{
    return serve(request, "index.html");
}

static struct fault file(struct request *request)
{
    return serve(request, request_path(request, "file"));
}

static struct fault to_folder(struct request *request)
{
    TRY(put_headers(request));
    TRY(response_header(request, "Location", "/console/"));
    return response_bytes(request, 308, "text/plain; charset=utf-8", span_text("The console is at /console/\n"));
}

static const struct route routes[] = {
    {
        .name = "console.folder",
        .method = ROUTE_GET,
        .path = "/console",
        .permission = PERMISSION_PUBLIC,
        .bulkhead = BULKHEAD_API,
        .success_status = 200,
        .handler = to_folder,
        .doc = "Leads to /console/ (308).",
    },
    {
        .name = "console.page",
        .method = ROUTE_GET,
        .path = "/console/",
        .permission = PERMISSION_PUBLIC,
        .bulkhead = BULKHEAD_API,
        .success_status = 200,
        .handler = index_page,
        .doc = "The web console (text/html). Whoever opens it signs in with a bearer token.",
    },
    {
        .name = "console.file",
        .method = ROUTE_GET,
        .path = "/console/{file}",
        .permission = PERMISSION_PUBLIC,
        .bulkhead = BULKHEAD_API,
        .success_status = 200,
        .handler = file,
        .doc = "A script, style or image of the web console, out of the program itself.",
    },
};

const struct feature console_feature = {
    .name = "console",
    .routes = routes,
    .route_count = COUNT_OF(routes),
};
