/* `svc-machine certificate|token|provision ...`: what the console runs as processes of their own, and what a person
 * runs beside it (`provision check` works anywhere). */
#include "appliance/base/config.h"
#include "appliance/base/file.h"
#include "appliance/machine/admin.h"
#include "appliance/machine/console.h"
#include "appliance/machine/csr.h"
#include "appliance/machine/provision_store.h"
#include "fips/fips.h"

#include <stdio.h>

#define WORK_MS  (5 * 60 * 1000)
#define WHY_MAX  ((size_t)64 << 10)
#define SHOW_MAX ((size_t)64 << 10)

enum { CODE_FINE = 0, CODE_FAILED = 1, CODE_REFUSED = 2 };

static int complain(const char *what, const struct op *op, struct fault fault)
{
    bool told = op->note.set && op->note.detail[0] != '\0';
    (void)fprintf(stderr, "svc-machine: %s: %s\n", what, told ? op->note.detail : fault_row(fault.code)->title);
    return fault.code == FAULT_BAD_ARGUMENT || fault.code == FAULT_CONFIG ? CODE_REFUSED : CODE_FAILED;
}

static int usage(void)
{
    (void)fputs("usage: svc-machine certificate csr | import FILE | show\n"
                "       svc-machine token issue\n"
                "       svc-machine provision check FILE\n",
                stderr);
    return CODE_REFUSED;
}

static struct fault print(const struct buf *text)
{
    REQUIRE(fwrite(text->at, 1, text->len, stdout) == text->len && fflush(stdout) == 0, IO);
    return OK;
}

/* Keys are made by the module that the product uses, under the same rule. */
static struct fault start_crypto(struct op *op)
{
    CLEANUP(config_freep) struct config *config = NULL;
    CLEANUP(buf_free) struct buf why = BUF_INIT(WHY_MAX);
    struct fault loaded = config_load(PRODUCT_CONFIG, &why, &config);
    if (FAULTED(loaded)) {
        return op_fail(op, loaded, "%.*s", (int)why.len, (const char *)why.at);
    }
    struct fault started = fips_start(config, &why);
    return FAULTED(started) ? op_fail(op, started, "%.*s", (int)why.len, (const char *)why.at) : OK;
}

static struct fault certificate_csr(struct op *op, const struct provision *provision)
{
    CLEANUP(buf_free) struct buf pem = BUF_INIT(CSR_PEM_MAX);
    TRY(start_crypto(op));
    TRY(csr_make(op, provision, &pem));
    return print(&pem);
}

static struct fault certificate_import(struct op *op, const struct provision *provision, const char *path)
{
    CLEANUP(buf_free) struct buf chain = BUF_INIT(CSR_CHAIN_MAX);
    struct certificate_view view;
    struct fault got = file_read(path, &chain);
    if (FAULTED(got)) {
        return op_fail(op, got, "%s cannot be read", path);
    }
    TRY(start_crypto(op));
    TRY(csr_import(op, provision, buf_span(&chain)));
    TRY(certificate_view(op, buf_span(&chain), &view));
    (void)printf("accepted: %s\nSHA-256 %s\n", view.subject, view.fingerprint);
    return OK;
}

static struct fault certificate_show(struct op *op, const struct provision *provision)
{
    static const char *const files[] = { PRODUCT_DATA_DIR "/ca.pem", PRODUCT_DATA_DIR "/tsa-root.pem" };
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        CLEANUP(buf_free) struct buf pem = BUF_INIT(SHOW_MAX);
        struct fault got = file_read(files[i], &pem);
        if (!FAULTED(got)) {
            struct certificate_view view;
            TRY(certificate_view(op, buf_span(&pem), &view));
            (void)printf("%s\n%s\nSHA-256 %s\n", strrchr(files[i], '/') + 1, view.subject, view.fingerprint);
            TRY(print(&pem));
        }
    }
    struct certificate_view listener;
    TRY(certificate_listener(op, provision, &listener));
    (void)printf("HTTPS listener\n%s\nSHA-256 %s\n", listener.subject, listener.fingerprint);
    return OK;
}

static int certificate(struct op *op, int count, char *const *words)
{
    struct provision provision;
    struct fault done = provision_load(op, PROVISION_FILE, &provision);
    if (FAULTED(done)) {
        return complain("provisioning", op, done);
    }
    if (count == 2 && strcmp(words[1], "csr") == 0) {
        done = certificate_csr(op, &provision);
    } else if (count == 3 && strcmp(words[1], "import") == 0) {
        done = certificate_import(op, &provision, words[2]);
    } else if (count == 2 && strcmp(words[1], "show") == 0) {
        done = certificate_show(op, &provision);
    } else {
        return usage();
    }
    return FAULTED(done) ? complain("certificate", op, done) : CODE_FINE;
}

static int token(struct op *op, int count, char *const *words)
{
    struct provision provision;
    CLEANUP(admin_token_clear) struct admin_token made = { .token = NULL };
    if (count != 2 || strcmp(words[1], "issue") != 0) {
        return usage();
    }
    struct fault done = provision_load(op, PROVISION_FILE, &provision);
    done = FAULTED(done) ? done : admin_token_issue(op, &provision, &made);
    if (FAULTED(done)) {
        return complain("token", op, done);
    }
    struct span text = secret_span(made.token);
    (void)printf("%.*s\n", (int)text.len, (const char *)text.at);
    return CODE_FINE;
}

static int provision_check_file(struct op *op, int count, char *const *words)
{
    CLEANUP(buf_free)
    struct buf why = BUF_INIT(WHY_MAX), out = BUF_INIT(WHY_MAX * 2);
    CLEANUP(provision_found_clear) struct provision_found found = { .device = "" };
    if (count != 3 || strcmp(words[1], "check") != 0) {
        return usage();
    }
    struct fault done = provision_read_file(op, words[2], &why, &found);
    if (done.code == FAULT_NOT_FOUND) {
        (void)fprintf(stderr, "svc-machine: %s cannot be read\n", words[2]);
        return CODE_REFUSED;
    }
    if (FAULTED(done) && why.len == 0) {
        return complain("provision", op, done);
    }
    if (FAULTED(done)) {
        (void)fprintf(stderr, "%.*s", (int)why.len, (const char *)why.at);
        return CODE_REFUSED;
    }
    done = provision_print_svc_yaml(op, &found.provision, false, &out);
    done = FAULTED(done) ? done : print(&out);
    return FAULTED(done) ? complain("provision", op, done) : CODE_FINE;
}

int console_command_line(int count, char *const *words, bool *ret_known)
{
    static const struct {
        const char *word;
        int (*work)(struct op *op, int count, char *const *words);
    } commands[] = { { "certificate", certificate }, { "token", token }, { "provision", provision_check_file } };
    CLEANUP(op_freep) struct op *op = NULL;
    *ret_known = false;
    for (size_t i = 0; count > 0 && i < COUNT_OF(commands); i++) {
        if (strcmp(words[0], commands[i].word) != 0) {
            continue;
        }
        *ret_known = true;
        struct fault made = op_new("svc-machine", (struct tenant_id){ 0 }, WORK_MS, &op);
        return FAULTED(made) ? CODE_FAILED : commands[i].work(op, count, words);
    }
    return CODE_REFUSED;
}
