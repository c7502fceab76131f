/* compliance verify and compliance render: offline, both. */
#include "api/cli/evidence.h"

#include "api/cli/files.h"
#include "api/cli/print.h"
#include "appliance/base/codec.h"
#include "appliance/base/json.h"

#define KEYS_MAX  ((size_t)1 << 20)
#define PEM_MAX   ((size_t)4 << 20)
#define JSON_MAX  ((size_t)1 << 20)
#define FILE_MODE 0644

/* ---- what is pinned ---- */

void evidence_pinned_clear(struct evidence_pinned *pinned)
{
    jwk_set_free(&pinned->keys);
    buf_free(&pinned->roots);
}

struct fault evidence_pinned_take(struct cli *cli, struct span jwks, struct evidence_pinned *pinned)
{
    TRY(jwk_set_parse(cli->op, jwks, &pinned->keys));
    pinned->pins.keys = &pinned->keys;
    return OK;
}

static struct fault read_keys(struct cli *cli, const char *path, bool is_set, struct evidence_pinned *pinned)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(KEYS_MAX);
    TRY(files_read(cli->op, path, &bytes));
    struct fault fault = is_set ? jwk_set_parse(cli->op, buf_span(&bytes), &pinned->keys)
                                : evidence_key(cli->op, buf_span(&bytes), &pinned->keys);
    if (FAULTED(fault)) {
        struct fault_note note = cli->op->note;
        cli->op->note = (struct fault_note){ 0 };
        return op_fail(cli->op, fault, "%s: %s", path, note.detail);
    }
    pinned->pins.keys = &pinned->keys;
    return OK;
}

struct fault evidence_pinned_read(struct cli *cli, struct evidence_pinned *pinned, bool *ret_any)
{
    const char *key = cli_flag(cli, "key"), *jwks = cli_flag(cli, "jwks"), *root = cli_flag_if(cli, "tsa-root");
    pinned->roots = (struct buf)BUF_INIT(PEM_MAX);
    if (key != NULL && jwks != NULL) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "--key or --jwks: one of them says what is believed");
    }
    if (key != NULL || jwks != NULL) {
        TRY(read_keys(cli, key != NULL ? key : jwks, jwks != NULL, pinned));
    }
    if (root != NULL) {
        TRY(files_read(cli->op, root, &pinned->roots));
        if (pinned->roots.len == 0) {
            return op_fail(cli->op, FAULT(BAD_ARGUMENT), "%s: there is no certificate in it", root);
        }
        pinned->pins.tsa_roots = buf_span(&pinned->roots);
    }
    *ret_any = key != NULL || jwks != NULL;
    return OK;
}

/* ---- shapes ---- */

struct fault evidence_shape_read(struct cli *cli, enum evidence_shape fallback, enum evidence_shape *ret_shape)
{
    static const char *const names[] = { "json", "oscal", "html" };
    const char *name = cli_flag(cli, "format");
    *ret_shape = fallback;
    for (size_t i = 0; name != NULL && i < COUNT_OF(names); i++) {
        if (strcmp(names[i], name) == 0) {
            *ret_shape = (enum evidence_shape)i;
            return OK;
        }
    }
    return name == NULL ? OK : op_fail(cli->op, FAULT(BAD_ARGUMENT), "--format: json, oscal or html");
}

struct fault evidence_shape_make(struct op *op, enum evidence_shape shape, const struct evidence_verdict *verdict,
                                 struct span pack, struct buf *out)
{
    switch (shape) {
    case EVIDENCE_SHAPE_OSCAL:
        return render_oscal(op, verdict, out);
    case EVIDENCE_SHAPE_HTML:
        return render_html(op, verdict, out);
    case EVIDENCE_SHAPE_JSON:
        return buf_put(out, pack);
    }
    return FAULT(UNSUPPORTED);
}

/* ---- what was found ---- */

static void put_pack(struct jout *jout, const struct evidence_verdict *verdict)
{
    jout_key_text(jout, "framework", verdict->framework);
    jout_key_text(jout, "report_type", verdict->report_type);
    jout_key_text(jout, "tenant_id", verdict->tenant);
    jout_key_text(jout, "generated_at", verdict->generated_at);
    jout_key_text(jout, "kid", verdict->kid);
    if (verdict->kid != NULL) {
        jout_key_hex(jout, "manifest_sha256", SPAN_ARRAY(verdict->digest.at));
    }
    jout_key_int(jout, "controls", verdict->controls);
    jout_key_int(jout, "evidenced", verdict->evidenced);
    jout_key_int(jout, "gaps", verdict->gaps);
    jout_key_int(jout, "gaps_open", verdict->gaps_open);
    jout_key_bool(jout, "timestamp_there", verdict->timestamp_there);
    jout_key_bool(jout, "timestamp_good", verdict->timestamp_good);
    if (verdict->timestamp_at != 0) {
        jout_key_time(jout, "timestamp_at", verdict->timestamp_at);
        jout_key_text(jout, "timestamp_by", verdict->timestamp_signer);
    }
}

struct fault evidence_verdict_json(const char *file, const struct evidence_verdict *verdict, struct fault fault,
                                   struct buf *out)
{
    struct jout jout;
    bool good = !FAULTED(fault);
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_text(&jout, "file", file);
    jout_key_bool(&jout, "valid", good);
    jout_key_text(&jout, "kind", verdict->kind == EVIDENCE_KIND_PACK ? "evidence-pack" : "report");
    jout_key_text(&jout, "code", good ? NULL : evidence_reason_text(verdict->reason));
    jout_key_text(&jout, "member", good ? NULL : verdict->member);
    jout_key_text(&jout, "reason", good ? NULL : verdict->why);
    put_pack(&jout, verdict);
    jout_object_end(&jout);
    return jout_end(&jout);
}

struct fault evidence_refused(struct cli *cli, const char *file, const struct evidence_verdict *verdict,
                              struct fault fault)
{
    CLEANUP(buf_free) struct buf line = BUF_INIT(4096);
    if (fault.code != FAULT_EVIDENCE_REFUSED) {
        return fault; /* it was not judged */
    }
    IGNORE(buf_printf(&line, "svc-cli: %s: %s: %s%s%s %s", evidence_reason_text(verdict->reason), file, verdict->member,
                      verdict->member[0] != '\0' ? ": " : "", evidence_reason_title(verdict->reason), verdict->why));
    print_safe(stderr, buf_span(&line));
    (void)fputc('\n', stderr);
    if (verdict->reason == PACK_NO_PIN) {
        hint("--key PEM or --jwks FILE: the verification key that you pinned");
    }
    cli->said = true;
    cli->exit = EXIT_REFUSED;
    return fault;
}

static void show(const char *file, const struct evidence_verdict *verdict)
{
    char hex[2 * SHA256_LEN + 1], time[RFC3339_MAX];
    bool pack = verdict->kind == EVIDENCE_KIND_PACK;
    hex_text(SPAN_ARRAY(verdict->digest.at), hex, sizeof(hex));
    rfc3339_print(verdict->timestamp_at, time);
    (void)printf("good %s: ", pack ? "evidence pack" : "report");
    print_safe(stdout, span_text(file));
    (void)printf("\n  %s  %s\n  tenant     %s\n  generated  %s\n", pack ? "framework" : "report   ",
                 pack ? verdict->framework : verdict->report_type, verdict->tenant, verdict->generated_at);
    if (pack) {
        (void)printf("  controls   %lld evidenced of %lld\n  left open  %lld of %lld points of operator and auditor\n",
                     (long long)verdict->evidenced, (long long)verdict->controls, (long long)verdict->gaps_open,
                     (long long)verdict->gaps);
    }
    (void)printf("  manifest   %s\n  signed by  %s\n  stamped    %s", hex, verdict->kid,
                 verdict->timestamp_good    ? time
                 : verdict->timestamp_there ? "there is a time stamp; not judged without --tsa-root"
                                            : "no");
    if (verdict->timestamp_good && verdict->timestamp_signer != NULL) {
        (void)printf(" by ");
        print_safe(stdout, span_text(verdict->timestamp_signer));
    }
    (void)fputc('\n', stdout);
}

/* ---- the commands ---- */

struct evidence_file {
    struct evidence_pinned pinned;
    struct buf bytes;
    struct op *op; /* the verdict's texts are its */
    struct evidence_verdict verdict;
};

static void evidence_file_clear(struct evidence_file *file)
{
    evidence_pinned_clear(&file->pinned);
    buf_free(&file->bytes);
    op_free(TAKE(file->op));
}

static struct fault judge(struct cli *cli, struct evidence_file *file)
{
    bool any = false;
    file->bytes = (struct buf)BUF_INIT(EVIDENCE_PACK_MAX);
    TRY(evidence_pinned_read(cli, &file->pinned, &any));
    TRY(files_read(cli->op, cli->arguments[0], &file->bytes));
    TRY(evidence_verify_op(file->bytes.len, &file->op));
    return evidence_verify(file->op, buf_span(&file->bytes), &file->pinned.pins, &file->verdict);
}

struct fault run_evidence_verify(struct cli *cli)
{
    CLEANUP(evidence_file_clear) struct evidence_file file = { 0 };
    struct fault fault = judge(cli, &file);
    if (FAULTED(fault) && fault.code != FAULT_EVIDENCE_REFUSED) {
        return fault;
    }
    if (cli->json) {
        CLEANUP(buf_free) struct buf out = BUF_INIT(JSON_MAX);
        TRY(evidence_verdict_json(cli->arguments[0], &file.verdict, fault, &out));
        print_json(buf_span(&out));
        cli->said = FAULTED(fault);
        cli->exit = EXIT_REFUSED;
        return fault;
    }
    if (FAULTED(fault)) {
        return evidence_refused(cli, cli->arguments[0], &file.verdict, fault);
    }
    show(cli->arguments[0], &file.verdict);
    return OK;
}

struct fault run_evidence_render(struct cli *cli)
{
    CLEANUP(evidence_file_clear) struct evidence_file file = { 0 };
    CLEANUP(buf_free) struct buf out = BUF_INIT(RENDER_MAX);
    enum evidence_shape shape = EVIDENCE_SHAPE_HTML;
    const char *path = cli_flag(cli, "output");
    TRY(evidence_shape_read(cli, EVIDENCE_SHAPE_HTML, &shape));
    struct fault fault = judge(cli, &file);
    if (FAULTED(fault)) {
        return evidence_refused(cli, cli->arguments[0], &file.verdict, fault);
    }
    fault = evidence_shape_make(file.op, shape, &file.verdict, buf_span(&file.bytes), &out);
    if (fault.code == FAULT_UNSUPPORTED) {
        return op_fail(cli->op, fault, "%s", file.op->note.detail);
    }
    TRY(fault);
    return files_write(cli->op, path != NULL ? path : "-", buf_span(&out), FILE_MODE);
}
