#include "api/identity/cli.h"

#include "api/identity/internal.h"
#include "appliance/base/secret.h"

#include <stdio.h>

#define COMMAND_MS  60000
#define OUT_MAX     ((size_t)4 << 20)
#define LIST_PAGE   200
#define TTL_DEFAULT "720h"

struct options {
    const char *word, *target; /* "create", and the argument that is no option */
    const char *tenant, *subject, *ttl, *reason;
    const char *roles[OP_ROLES_MAX + 1];
    size_t role_count;
    bool json;
};

static const char usage[] =
    "usage: token create --subject S --role R [--role R ...] [--ttl 720h] [--tenant T] [--json]\n"
    "       token list [--tenant T] [--subject S] [--json]\n"
    "       token revoke ID --reason TEXT [--tenant T] [--json]\n"
    "       tenant create ID [--json]\n"
    "       tenant list [--json]\n";

static int refuse_usage(const char *what, const char *argument)
{
    (void)fprintf(stderr, "svc-api: %s%s%s\n%s", what, argument != NULL ? ": " : "", argument != NULL ? argument : "",
                  usage);
    return 2;
}

static int failed(const struct op *op, struct fault fault)
{
    const struct fault_row *row = fault_row(fault.code);
    bool detail = op != NULL && op->note.set && op->note.detail[0] != '\0';
    (void)fprintf(stderr, "svc-api: %s: %s\n", row->text, detail ? op->note.detail : row->title);
    return row->http >= 400 && row->http < 500 ? 2 : 1;
}

static const char **option_place(struct options *options, const char *name)
{
    const struct {
        const char *name;
        const char **place;
    } known[] = {
        { "--tenant", &options->tenant },
        { "--subject", &options->subject },
        { "--ttl", &options->ttl },
        { "--reason", &options->reason },
        { "--role", options->role_count < OP_ROLES_MAX ? &options->roles[options->role_count] : NULL },
    };
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        if (strcmp(known[i].name, name) == 0) {
            options->role_count += strcmp(name, "--role") == 0 && known[i].place != NULL ? 1u : 0u;
            return known[i].place;
        }
    }
    return NULL;
}

/* 0, or the exit code. */
static int parse(int argc, char **argv, struct options *options)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            options->json = true;
        } else if (strncmp(argv[i], "--", 2) == 0) {
            const char **place = option_place(options, argv[i]);
            if (place == NULL || i + 1 == argc) {
                return refuse_usage("unknown option, one too many, or one without its value", argv[i]);
            }
            *place = argv[++i];
        } else if (options->word == NULL) {
            options->word = argv[i];
        } else if (options->target == NULL) {
            options->target = argv[i];
        } else {
            return refuse_usage("one argument too many", argv[i]);
        }
    }
    return options->word != NULL ? 0 : refuse_usage("say what to do", NULL);
}

static int print_out(const struct buf *out)
{
    return fwrite(out->at, 1, out->len, stdout) == out->len && fflush(stdout) == 0 ? 0 : 1;
}

static struct fault print_token(const struct op *op, const struct token_request *wanted,
                                const struct token_issued *token, bool json, struct buf *out)
{
    if (json) {
        struct jout jout;
        jout_init(&jout, out);
        token_print_issued(&jout, op->tenant, wanted, token);
        TRY(jout_end(&jout));
        return buf_text(out, "\n");
    }
    char expires[RFC3339_MAX];
    rfc3339_print(token->expires, expires);
    return buf_printf(out, "%s\ntoken %s of %s in tenant %s, until %s; it is not shown again\n", token->text,
                      token->id.text, wanted->subject, op->tenant.text, expires);
}

static struct fault create_token(struct op *op, struct services *services, const struct options *options,
                                 struct buf *out)
{
    struct token_issued token = { 0 };
    int64_t ttl_ns = 0;
    bool known = false;
    if (FAULTED(duration_parse(span_text(options->ttl != NULL ? options->ttl : TTL_DEFAULT), &ttl_ns))) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "--ttl must be a duration like 720h or 90m");
    }
    TRY(tenant_known(op, services->store, &known));
    if (!known) {
        return op_fail(op, FAULT(NOT_FOUND), "no tenant %s: make it with tenant create %s", op->tenant.text,
                       op->tenant.text);
    }
    const struct token_request wanted = {
        .subject = options->subject,
        .roles = options->roles,
        .role_count = options->role_count,
        .ttl_s = ttl_ns / NS_PER_S,
    };
    TRY(identity_token_issue(op, services, &wanted, &token));
    struct fault fault = print_token(op, &wanted, &token, options->json, out);
    secret_wipe(&token, sizeof(token));
    return fault;
}

static struct fault print_row(struct buf *out, struct jout *jout, const struct token_row *row, utc_us now, bool json)
{
    if (json) {
        token_print(jout, row, now);
        return OK;
    }
    char expires[RFC3339_MAX];
    rfc3339_print(row->expires, expires);
    const char *state = row->revoked_by != NULL ? "revoked" : now >= row->expires ? "expired" : "active";
    return buf_printf(out, "%s  %-8s %s  ...%s  %-24s %s\n", row->id.text, state, expires, row->last4, row->subject,
                      row->roles);
}

static struct fault list_tokens(struct op *op, struct services *services, const struct options *options,
                                struct buf *out)
{
    struct jout jout;
    struct token_filter filter = {
        .subject = options->subject, .before_us = INT64_MAX, .before_id = "", .limit = LIST_PAGE
    };
    utc_us now = clock_utc();
    jout_init(&jout, out);
    if (options->json) {
        jout_array(&jout);
    }
    for (size_t count = LIST_PAGE; count == LIST_PAGE;) {
        struct token_row *rows = NULL;
        TRY(token_list(op, services->store, &filter, &rows, &count));
        for (size_t i = 0; i < count; i++) {
            TRY(print_row(out, &jout, &rows[i], now, options->json));
        }
        if (count > 0) {
            filter.before_us = rows[count - 1].created;
            filter.before_id = rows[count - 1].id.text;
        }
    }
    if (options->json) {
        jout_array_end(&jout);
        TRY(jout_end(&jout));
        return buf_text(out, "\n");
    }
    return OK;
}

static struct fault revoke_token(struct op *op, struct services *services, const struct options *options,
                                 struct buf *out)
{
    struct uuid id;
    struct token_row row;
    if (options->target == NULL || FAULTED(uuid_parse(span_text(options->target), &id))) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "say which token, by its id: token list shows them");
    }
    TRY(identity_token_revoke(op, services, id, options->reason != NULL ? options->reason : "revoked by the operator"));
    TRY(token_get(op, services->store, id, &row));
    struct jout jout;
    jout_init(&jout, out);
    TRY(print_row(out, &jout, &row, clock_utc(), options->json));
    return options->json ? buf_text(out, "\n") : OK;
}

static struct fault create_tenant(struct op *op, struct services *services, const struct options *options,
                                  struct buf *out)
{
    TRY(identity_tenant_ensure(op, services, op->tenant));
    return buf_printf(out, options->json ? "{\"tenant_id\":\"%s\"}\n" : "tenant %s\n", op->tenant.text);
}

static struct fault list_tenants(struct op *op, struct services *services, const struct options *options,
                                 struct buf *out)
{
    struct tenant_id *tenants = NULL;
    size_t count = 0;
    TRY(identity_tenants(op, services->store, &tenants, &count));
    if (!options->json) {
        for (size_t i = 0; i < count; i++) {
            TRY(buf_printf(out, "%s\n", tenants[i].text));
        }
        return OK;
    }
    struct jout jout;
    jout_init(&jout, out);
    jout_array(&jout);
    for (size_t i = 0; i < count; i++) {
        jout_text(&jout, tenants[i].text);
    }
    jout_array_end(&jout);
    TRY(jout_end(&jout));
    return buf_text(out, "\n");
}

static int run(struct services *services, const struct options *options, const char *tenant_text,
               struct fault (*command)(struct op *, struct services *, const struct options *, struct buf *))
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(OUT_MAX); /* may hold a token: wiped when freed */
    CLEANUP(op_freep) struct op *op = NULL;
    struct tenant_id tenant = { "" };
    if (FAULTED(tenant_id_parse(span_text(tenant_text), &tenant))) {
        return refuse_usage("a tenant id is 1 to 63 of a-z, 0-9 and -, not beginning with -", tenant_text);
    }
    struct fault fault = op_new("system:cli", tenant, COMMAND_MS, &op);
    if (!FAULTED(fault)) {
        fault = command(op, services, options, &out);
    }
    return FAULTED(fault) ? failed(op, fault) : print_out(&out);
}

int identity_command_token(int argc, char **argv, struct services *services)
{
    struct options options = { .tenant = services->config->first_tenant };
    int code = parse(argc, argv, &options);
    if (code != 0) {
        return code;
    }
    if (strcmp(options.word, "create") == 0 && options.target == NULL) {
        return options.subject == NULL || options.role_count == 0
                   ? refuse_usage("--subject and --role are needed", NULL)
                   : run(services, &options, options.tenant, create_token);
    }
    if (strcmp(options.word, "list") == 0 && options.target == NULL) {
        return run(services, &options, options.tenant, list_tokens);
    }
    if (strcmp(options.word, "revoke") == 0) {
        return run(services, &options, options.tenant, revoke_token);
    }
    return refuse_usage("no such command", options.word);
}

int identity_command_tenant(int argc, char **argv, struct services *services)
{
    struct options options = { 0 };
    int code = parse(argc, argv, &options);
    if (code != 0) {
        return code;
    }
    if (strcmp(options.word, "create") == 0) {
        return options.target == NULL ? refuse_usage("which tenant?", NULL)
                                      : run(services, &options, options.target, create_tenant);
    }
    if (strcmp(options.word, "list") == 0 && options.target == NULL) {
        return run(services, &options, services->config->first_tenant, list_tenants);
    }
    return refuse_usage("no such command", options.word);
}
