/* Signed heads and proofs: fetched, and judged offline. */
#include "api/audit/verify_proof.h"

#include "api/cli/api.h"
#include "api/cli/files.h"
#include "api/cli/print.h"
#include "appliance/base/codec.h"
#include "appliance/base/json.h"

#define JWKS_MAX ((size_t)1 << 20)
#define PEM_MAX  ((size_t)4 << 20)

/* ---- fetched ---- */

static struct fault save(struct cli *cli, struct span answer, const char *what)
{
    const char *out = cli_flag(cli, "output");
    TRY(files_write(cli->op, out != NULL ? out : "-", answer, 0644));
    if (out == NULL || strcmp(out, "-") == 0) {
        (void)fputc('\n', stdout);
        return OK;
    }
    if (cli->json) {
        CLEANUP(buf_free) struct buf json = BUF_INIT(65536);
        struct jout jout;
        jout_init(&jout, &json);
        jout_object(&jout);
        jout_key_text(&jout, "file", out);
        jout_key_int(&jout, "bytes", (int64_t)answer.len);
        jout_object_end(&jout);
        TRY(jout_end(&jout));
        print_json(buf_span(&json));
        return OK;
    }
    (void)printf("%s: %s, %zu bytes\n", what, out, answer.len);
    hint("check it anywhere: svc-cli audit verify-proof %s --audit-jwks KEYS --tsa-root ROOT", out);
    return OK;
}

static struct fault fetch(struct cli *cli, const struct buf *query, const char *what)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf text = BUF_INIT(4096);
    const char *path = NULL;
    TRY(buf_put(&text, buf_span(query)));
    TRY(buf_cstr(&text, &path));
    TRY(api_send(cli, &(struct api_call){ .query = path, .answer_max = AUDIT_PROOF_FILE_MAX }, &answer));
    return save(cli, buf_span(&answer.body), what);
}

struct fault run_audit_head(struct cli *cli)
{
    CLEANUP(buf_free) struct buf query = BUF_INIT(64);
    return fetch(cli, &query, "signed head");
}

struct fault run_audit_prove(struct cli *cli)
{
    CLEANUP(buf_free) struct buf query = BUF_INIT(2048);
    TRY(query_add(&query, "sequence", cli->arguments[0]));
    TRY(query_add(&query, "tree_size", cli_flag(cli, "tree-size")));
    return fetch(cli, &query, "proof of inclusion");
}

struct fault run_audit_prove_consistency(struct cli *cli)
{
    CLEANUP(buf_free) struct buf query = BUF_INIT(2048);
    TRY(query_add(&query, "first", cli->arguments[0]));
    TRY(query_add(&query, "second", cli->argument_count > 1 ? cli->arguments[1] : NULL));
    return fetch(cli, &query, "proof of consistency");
}

/* ---- judged: as JSON ---- */

static const char *const kinds[] = {
    [AUDIT_PROOF_HEAD] = "head", [AUDIT_PROOF_INCLUSION] = "inclusion", [AUDIT_PROOF_CONSISTENCY] = "consistency"
};

static void put_what(struct jout *jout, const struct audit_proof_verdict *verdict)
{
    if (verdict->kind == AUDIT_PROOF_INCLUSION && verdict->proof_good) {
        jout_key_int(jout, "sequence", verdict->sequence);
        jout_key_raw(jout, "record", verdict->record);
        jout_key_hex(jout, "chain", SPAN_ARRAY(verdict->chain.at));
    }
    if (verdict->kind == AUDIT_PROOF_CONSISTENCY && verdict->proof_good) {
        jout_key_int(jout, "first", verdict->first);
        jout_key_hex(jout, "first_root", SPAN_ARRAY(verdict->first_root.at));
    }
}

static void put_head(struct jout *jout, const struct audit_proof_verdict *verdict)
{
    if (!verdict->signature_good) {
        return; /* nothing of it is to be believed */
    }
    jout_key_text(jout, "kid", verdict->kid);
    jout_key_text(jout, "tenant_id", verdict->head.tenant.text);
    jout_key_int(jout, "generation", verdict->head.generation);
    jout_key_int(jout, "tree_size", verdict->head.tree_size);
    jout_key_hex(jout, "tree_root", SPAN_ARRAY(verdict->head.tree_root.at));
    jout_key_hex(jout, "chain_head", SPAN_ARRAY(verdict->head.chain_head.at));
    jout_key_text(jout, "signed_at", verdict->head.time);
    if (verdict->anchor_good) {
        jout_key_time(jout, "stamped_at", verdict->anchor_at);
    }
    if (verdict->kept_good) {
        jout_key_int(jout, "kept_head_size", verdict->kept_size);
    }
}

static struct fault show_json(const struct audit_proof_verdict *verdict, bool valid)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(AUDIT_PROOF_FILE_MAX);
    struct jout jout;
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key_bool(&jout, "valid", valid);
    jout_key_text(&jout, "kind", kinds[verdict->kind]);
    jout_key_bool(&jout, "signature_good", verdict->signature_good);
    jout_key_bool(&jout, "proof_good", verdict->proof_good);
    jout_key_bool(&jout, "anchor_good", verdict->anchor_good);
    jout_key_bool(&jout, "kept_head_good", verdict->kept_good);
    put_head(&jout, verdict);
    put_what(&jout, verdict);
    jout_key_text(&jout, "reason", verdict->reason[0] != '\0' ? verdict->reason : NULL);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    print_json(buf_span(&out));
    return OK;
}

/* ---- judged: for a person ---- */

static void show_record(const struct cli *cli, const struct audit_proof_verdict *verdict)
{
    static const struct column columns[] = {
        { "  time", "time", COLUMN_TIME },
        { "  type", "type", COLUMN_TEXT },
        { "  actor", "actor.subject", COLUMN_TEXT },
    };
    struct view record;
    if (!FAULTED(view_of(cli->op, verdict->record, &record))) {
        print_pairs(cli->op, stdout, record, columns, COUNT_OF(columns));
    }
}

static void show_claim(const struct audit_proof_verdict *verdict)
{
    const char *tenant = verdict->head.tenant.text;
    long long size = (long long)verdict->head.tree_size;
    if (verdict->kind == AUDIT_PROOF_INCLUSION) {
        (void)printf("proven: exactly this record was number %lld of tenant %s's first %lld when the head was signed\n"
                     "not proven: what the other records say, and that none came after number %lld\n",
                     (long long)verdict->sequence, tenant, size, size);
    } else if (verdict->kind == AUDIT_PROOF_CONSISTENCY) {
        (void)printf("proven: the first %lld of tenant %s's %lld records are those of the older tree, none altered,\n"
                     "        dropped, inserted or moved\n",
                     (long long)verdict->first, tenant, size);
        if (!verdict->kept_good) {
            (void)printf(
                "not proven: that the older tree is the one you were shown: give the head you kept (--head)\n");
        }
    } else {
        (void)printf("proven: the key's holder has stated this root and this chain head for tenant %s's first %lld\n"
                     "        records; keep it, and every later head can be compared with it\n",
                     tenant, size);
    }
}

static void show(const struct cli *cli, const struct audit_proof_verdict *verdict)
{
    char root[2 * SHA256_LEN + 1], stamped[RFC3339_MAX];
    hex_text(SPAN_ARRAY(verdict->head.tree_root.at), root, sizeof(root));
    (void)printf("good: %s%s\n", verdict->kind == AUDIT_PROOF_HEAD ? "" : "proof of ",
                 verdict->kind == AUDIT_PROOF_HEAD ? "signed head" : kinds[verdict->kind]);
    if (verdict->kind == AUDIT_PROOF_INCLUSION) {
        show_record(cli, verdict);
    }
    (void)printf("  head   of %lld records, generation %lld, signed %s\n  root   %s\n  key    %s\n",
                 (long long)verdict->head.tree_size, (long long)verdict->head.generation, verdict->head.time, root,
                 verdict->kid);
    if (verdict->anchor_good) {
        rfc3339_print(verdict->anchor_at, stamped);
        (void)printf("  stamp  %s, over the chain head\n", stamped);
    }
    if (verdict->kept_good) {
        (void)printf("  kept   your head of %lld records agrees\n", (long long)verdict->kept_size);
    }
    show_claim(verdict);
}

static struct fault refuse(struct cli *cli, const struct audit_proof_verdict *verdict, struct fault fault)
{
    cli->said = true;
    cli->exit = fault.code == FAULT_NO_MEMORY ? EXIT_FAILED : EXIT_REFUSED;
    if (cli->json) {
        TRY(show_json(verdict, false));
        return fault;
    }
    say("%s: %s%s%s", fault_row(fault.code)->text, fault_row(fault.code)->title, verdict->reason[0] != '\0' ? ": " : "",
        verdict->reason);
    return fault;
}

/* ---- the files ---- */

/* With the line end of whoever saved it. */
static struct fault read_artifact(struct cli *cli, const char *path, struct buf *out)
{
    TRY(files_read(cli->op, path, out));
    while (out->len > 0 && (out->at[out->len - 1] == '\n' || out->at[out->len - 1] == '\r')) {
        out->len--;
    }
    return OK;
}

static struct fault read_pins(struct cli *cli, struct jwk_set *keys, struct buf *roots, struct audit_pins *ret_pins)
{
    CLEANUP(buf_free) struct buf jwks = BUF_INIT(JWKS_MAX);
    const char *path = cli_flag(cli, "audit-jwks"), *root = cli_flag(cli, "tsa-root");
    int64_t delay_ns = 0;
    TRY(files_read(cli->op, path, &jwks));
    struct fault fault = jwk_set_parse(cli->op, buf_span(&jwks), keys);
    if (FAULTED(fault)) {
        struct fault_note note = cli->op->note;
        cli->op->note = (struct fault_note){ 0 };
        return op_fail(cli->op, fault, "%s: no JWK set of verification keys: %s", path, note.detail);
    }
    if (root != NULL) {
        TRY(files_read(cli->op, root, roots));
    }
    TRY(cli_span(cli, "max-anchor-delay", 0, &delay_ns));
    *ret_pins = (struct audit_pins){ .keys = keys,
                                     .tsa_roots = buf_span(roots),
                                     .max_anchor_delay_us = delay_ns / 1000,
                                     .unanchored_allowed = cli_flag(cli, "allow-unanchored") != NULL };
    return OK;
}

struct fault run_audit_verify_proof(struct cli *cli)
{
    CLEANUP(buf_free) struct buf artifact = BUF_INIT(AUDIT_PROOF_FILE_MAX);
    CLEANUP(buf_free) struct buf kept = BUF_INIT(AUDIT_HEAD_MAX + 16);
    CLEANUP(buf_free) struct buf roots = BUF_INIT(PEM_MAX);
    CLEANUP(jwk_set_free) struct jwk_set keys = { 0 };
    CLEANUP(op_freep) struct op *op = NULL;
    struct audit_pins pins;
    struct audit_proof_verdict verdict;
    TRY(read_pins(cli, &keys, &roots, &pins));
    TRY(read_artifact(cli, cli->arguments[0], &artifact));
    if (cli_flag(cli, "head") != NULL) {
        TRY(read_artifact(cli, cli_flag(cli, "head"), &kept));
    }
    TRY(audit_verify_op(artifact.len + kept.len, &op));
    struct fault fault = audit_proof_verify(op, buf_span(&artifact), &pins, buf_span(&kept), &verdict);
    if (FAULTED(fault)) {
        return refuse(cli, &verdict, fault);
    }
    if (cli->json) {
        return show_json(&verdict, true);
    }
    show(cli, &verdict);
    return OK;
}
