#include "appliance/machine/admin.h"

#include "appliance/base/file.h"
#include "appliance/base/json.h"
#include "appliance/machine/provision_medium.h"
#include "appliance/machine/provision_store.h"
#include "appliance/stores/process.h"

#include <unistd.h>

#define ANSWER_MAX ((size_t)64 << 10)
#define HANDED_MAX ((size_t)64 << 10)
#define ADMIN_ROLE "admin"
#define OUT_FOLDER "out"

/* ---- tokens ---- */

void admin_token_clear(struct admin_token *token)
{
    secret_free(TAKE(token->token));
}

struct token_answer {
    const char *token, *token_id, *tenant_id, *subject;
    struct jin_texts roles;
    utc_us expires_at;
};
static const struct jin_field token_fields[] = {
    JIN_TEXT(struct token_answer, token, JIN_REQUIRED, 16, 1024),
    JIN_TEXT(struct token_answer, token_id, JIN_REQUIRED, 1, 128),
    JIN_TEXT(struct token_answer, tenant_id, JIN_REQUIRED, 1, 128),
    JIN_TEXT(struct token_answer, subject, JIN_REQUIRED, 1, 1024),
    JIN_TEXTS(struct token_answer, roles, JIN_REQUIRED, 1, 64),
    JIN_TIME(struct token_answer, expires_at, JIN_REQUIRED),
};

struct fault admin_token_parse(struct op *op, struct span json, struct admin_token *ret_token)
{
    struct token_answer answer = { 0 };
    struct secret *token = NULL;
    TRY(jin_decode(op, json, token_fields, COUNT_OF(token_fields), &answer));
    struct span text = span_text(answer.token);
    TRY(secret_new(text, &token));
    secret_wipe((void *)answer.token, text.len);
    *ret_token = (struct admin_token){ .subject = answer.subject,
                                       .tenant = answer.tenant_id,
                                       .id = answer.token_id,
                                       .token = token,
                                       .expires = answer.expires_at };
    return OK;
}

struct fault admin_token_issue(struct op *op, const struct provision *provision, struct admin_token *ret_token)
{
    const char *const argv[] = { APPLIANCE_PROGRAM,
                                 "token",
                                 "create",
                                 "--tenant",
                                 provision->tenant,
                                 "--subject",
                                 provision->admin.subject,
                                 "--role",
                                 ADMIN_ROLE,
                                 "--ttl",
                                 provision->admin.ttl,
                                 "--json",
                                 "--config",
                                 PRODUCT_CONFIG,
                                 NULL };
    CLEANUP(buf_free) struct buf answer = BUF_INIT(ANSWER_MAX);
    TRY(process_check(op, &(struct process_spec){ .argv = argv, .answer_only = true }, (struct span){ 0 }, &answer));
    return admin_token_parse(op, buf_span(&answer), ret_token);
}

/* ---- the hand-over ---- */

struct fault admin_hand_over(struct op *op, const char **ret_names)
{
    static const struct {
        const char *path, *name;
    } files[] = {
        { PRODUCT_DATA_DIR "/ca.pem", "ca.pem" },
        { PRODUCT_DATA_DIR "/tsa-root.pem", "tsa-root.pem" },
        { LISTENER_CSR, "tls.csr" },
    };
    CLEANUP(medium_close) struct medium medium = MEDIUM_NONE;
    const char *names = "";
    TRY(medium_open(op, PROVISION_LABEL, MEDIUM_WRITE, &medium));
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        CLEANUP(buf_free) struct buf bytes = BUF_INIT(HANDED_MAX);
        struct fault got = file_read(files[i].path, &bytes);
        if (got.code == FAULT_NOT_FOUND) {
            continue;
        }
        if (FAULTED(got)) {
            return op_fail(op, got, "cannot read %s", files[i].path);
        }
        TRY(medium_write(op, medium.dir, OUT_FOLDER, files[i].name, buf_span(&bytes)));
        TRY(arena_printf(op->arena, &names, "%s%s" OUT_FOLDER "/%s", names, names[0] != '\0' ? ", " : "",
                         files[i].name));
    }
    *ret_names = names;
    return OK;
}
