/* audit verify and audit compare: offline, both. */
#include "api/cli/audit_verdict.h"

#include "api/cli/cli.h"
#include "api/cli/files.h"
#include "api/cli/print.h"
#include "appliance/base/file.h"
#include "appliance/base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define JWKS_MAX ((size_t)1 << 20)
#define PEM_MAX  ((size_t)4 << 20)
#define JSON_MAX ((size_t)1 << 20)
#define BAR      32

/* ---- a file as a source, with a bar on a terminal ---- */

struct input {
    struct op *op;
    const char *path;
    int fd;
    int64_t total; /* 0 = not known, or nobody looks */
    bool shown;
};

static void input_close(struct input *input)
{
    if (input->shown) {
        (void)fprintf(stderr, "\r\033[K");
        input->shown = false;
    }
    fd_closep(&input->fd);
}

static struct fault input_open(struct op *op, const char *path, struct input *ret_input)
{
    struct stat info;
    struct input input = { .op = op, .path = path, .fd = -1 };
    TRY(files_open(op, path, &input.fd));
    if (isatty(STDERR_FILENO) == 1 && fstat(input.fd, &info) == 0 && S_ISREG(info.st_mode)) {
        input.total = info.st_size;
    }
    (void)posix_fadvise(input.fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    *ret_input = input;
    return OK;
}

static struct fault input_read(void *context, uint8_t *at, size_t size, size_t *ret_len)
{
    struct input *input = context;
    ssize_t got;
    do {
        got = read(input->fd, at, size);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        return op_fail(input->op, FAULT(IO), "%s: cannot be read", input->path);
    }
    *ret_len = (size_t)got;
    return OK;
}

static void input_progress(void *context, int64_t bytes, int64_t records)
{
    struct input *input = context;
    if (input->total <= 0) {
        return;
    }
    int percent = (int)(bytes * 100 / input->total), full = percent * BAR / 100;
    char bar[BAR + 1];
    for (int i = 0; i < BAR; i++) {
        bar[i] = i < full ? '#' : '.';
    }
    bar[BAR] = '\0';
    (void)fprintf(stderr, "\r  [%s] %3d %%  %lld records", bar, percent, (long long)records);
    input->shown = true;
}

static struct audit_source source_of(struct input *input)
{
    return (struct audit_source){ .read = input_read, .progress = input_progress, .context = input };
}

/* ---- what is pinned ---- */

struct pinned {
    struct audit_pins pins;
    struct jwk_set keys;
    struct buf roots;
};

static void pinned_clear(struct pinned *pinned)
{
    jwk_set_free(&pinned->keys);
    buf_free(&pinned->roots);
}

static struct fault read_keys(struct cli *cli, const char *path, struct jwk_set *keys)
{
    CLEANUP(buf_free) struct buf jwks = BUF_INIT(JWKS_MAX);
    TRY(files_read(cli->op, path, &jwks));
    struct fault fault = jwk_set_parse(cli->op, buf_span(&jwks), keys);
    if (FAULTED(fault)) {
        struct fault_note note = cli->op->note;
        cli->op->note = (struct fault_note){ 0 };
        return op_fail(cli->op, fault, "%s: no JWK set of verification keys: %s", path, note.detail);
    }
    return OK;
}

static struct fault read_pins(struct cli *cli, struct pinned *pinned)
{
    const char *keys = cli_flag(cli, "audit-jwks"), *root = cli_flag(cli, "tsa-root");
    const char *delay = cli_flag(cli, "max-anchor-delay");
    int64_t ns = 0;
    pinned->roots = (struct buf)BUF_INIT(PEM_MAX);
    if (keys != NULL) {
        TRY(read_keys(cli, keys, &pinned->keys));
        pinned->pins.keys = &pinned->keys;
    }
    if (root != NULL) {
        TRY(files_read(cli->op, root, &pinned->roots));
        if (pinned->roots.len == 0) {
            return op_fail(cli->op, FAULT(BAD_ARGUMENT), "%s: there is no certificate in it", root);
        }
        pinned->pins.tsa_roots = buf_span(&pinned->roots);
    }
    if (delay != NULL && (FAULTED(duration_parse(span_text(delay), &ns)) || ns < NS_PER_S)) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "--max-anchor-delay: a span such as 90s or 24h, at least 1s");
    }
    if (delay != NULL && root == NULL) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT),
                       "--max-anchor-delay is judged by a time stamp: give --tsa-root, too");
    }
    pinned->pins.max_anchor_delay_us = ns / 1000;
    pinned->pins.unanchored_allowed = cli_flag(cli, "allow-unanchored") != NULL;
    return OK;
}

/* ---- verify ---- */

static struct fault verify_one(struct cli *cli, const char *path, const struct audit_pins *pins,
                               struct audit_trail *trail, struct audit_verdict *verdict)
{
    CLEANUP(input_close) struct input input = { .fd = -1 };
    TRY(input_open(cli->op, path, &input));
    struct audit_source source = source_of(&input);
    return audit_verify(cli->op, &source, pins, trail, verdict);
}

/* One answer for each file, as far as it came. */
static struct fault verify_all(struct cli *cli, const struct audit_pins *pins, struct jout *jout)
{
    struct audit_trail trail = { 0 };
    for (size_t i = 0; i <= cli->argument_count; i++) {
        const char *path = i == 0 ? cli_flag(cli, "artifact") : cli->arguments[i - 1];
        struct audit_verdict verdict = { 0 };
        cli->op->note = (struct fault_note){ 0 };
        struct fault fault = verify_one(cli, path, pins, &trail, &verdict);
        if (FAULTED(fault) && verdict.reason[0] == '\0') {
            return fault; /* it was not even looked at */
        }
        if (jout != NULL) {
            verdict_put(jout, path, &verdict, fault);
        } else if (FAULTED(fault)) {
            verdict_refuse(path, &verdict, fault);
        } else {
            verdict_show(path, &verdict);
        }
        if (FAULTED(fault)) {
            cli->said = true;
            cli->exit = fault_row(fault.code)->http >= 500 ? EXIT_FAILED : EXIT_REFUSED;
            return fault;
        }
    }
    if (jout == NULL && cli->argument_count > 0) {
        (void)printf("%zu segments, each the continuation of the one before\n", cli->argument_count + 1);
    }
    return OK;
}

static struct fault verify_json(struct cli *cli, const struct audit_pins *pins)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(JSON_MAX);
    struct jout jout;
    bool many = cli->argument_count > 0;
    jout_init(&jout, &out);
    if (many) {
        jout_object(&jout);
        jout_key(&jout, "segments");
        jout_array(&jout);
    }
    struct fault fault = verify_all(cli, pins, &jout);
    if (FAULTED(fault) && !cli->said) {
        return fault;
    }
    if (many) {
        jout_array_end(&jout);
        jout_key_bool(&jout, "valid", !FAULTED(fault));
        jout_object_end(&jout);
    }
    TRY(jout_end(&jout));
    print_json(buf_span(&out));
    return fault;
}

struct fault run_audit_verify(struct cli *cli)
{
    CLEANUP(pinned_clear) struct pinned pinned = { 0 };
    TRY(read_pins(cli, &pinned));
    return cli->json ? verify_json(cli, &pinned.pins) : verify_all(cli, &pinned.pins, NULL);
}

/* ---- compare ---- */

/* What the comparison came to, as fault and exit code. */
static struct fault conclude(struct cli *cli, const struct audit_comparison *comparison)
{
    if (comparison->relation == AUDIT_PARTS) {
        cli->said = true;
        cli->exit = EXIT_REFUSED;
        return FAULT(AUDIT_PARTED);
    }
    if (comparison->relation == AUDIT_GAP) {
        cli->said = true;
        cli->exit = EXIT_FAILED;
        return FAULT(AUDIT_SEGMENTS);
    }
    return OK;
}

struct fault run_audit_compare(struct cli *cli)
{
    CLEANUP(pinned_clear) struct pinned pinned = { 0 };
    CLEANUP(input_close) struct input first = { .fd = -1 };
    CLEANUP(input_close) struct input second = { .fd = -1 };
    struct audit_comparison comparison;
    int refused = -1;
    TRY(read_pins(cli, &pinned));
    TRY(input_open(cli->op, cli->arguments[0], &first));
    TRY(input_open(cli->op, cli->arguments[1], &second));
    struct audit_source sources[2] = { source_of(&first), source_of(&second) };
    sources[1].progress = NULL;
    struct fault fault = audit_compare(cli->op, sources, &pinned.pins, &comparison, &refused);
    input_close(&first);
    if (refused >= 0 && !cli->json) {
        verdict_refuse(cli->arguments[refused], &comparison.verdicts[refused], fault);
    }
    if (refused >= 0) {
        cli->said = true;
        cli->exit = fault_row(fault.code)->http >= 500 ? EXIT_FAILED : EXIT_REFUSED;
    }
    if (FAULTED(fault) && refused < 0) {
        return fault;
    }
    if (cli->json) {
        TRY(comparison_put(cli->arguments, &comparison, fault, refused));
    } else if (!FAULTED(fault)) {
        comparison_show(cli->arguments, &comparison);
    }
    return FAULTED(fault) ? fault : conclude(cli, &comparison);
}
