#include "api/attest/internal.h"

/* One extension 1.3.6.1.4.1.57264.1.<arc> of Fulcio's, and what makes it: the issuer (NULL), or a template in which a $
 * at the start is the forge's URL. An optional one is left out when its claim is missing or empty; of the others, each
 * claim must be there. With `if_claim`, the row counts only where that claim says `if_value`. */
struct extension_row {
    unsigned arc;
    const char *text;
    bool optional;
    const char *if_claim, *if_value;
};

static const struct extension_row github_rows[] = {
    { .arc = 1 },
    { .arc = 2, .text = "{event_name}" },
    { .arc = 3, .text = "{sha}" },
    { .arc = 4, .text = "{workflow}" },
    { .arc = 5, .text = "{repository}" },
    { .arc = 6, .text = "{ref}" },
    { .arc = 8 },
    { .arc = 9, .text = "$/{job_workflow_ref}" },
    { .arc = 10, .text = "{job_workflow_sha}" },
    { .arc = 11, .text = "{runner_environment}" },
    { .arc = 12, .text = "$/{repository}" },
    { .arc = 13, .text = "{sha}" },
    { .arc = 14, .text = "{ref}" },
    { .arc = 15, .text = "{repository_id}" },
    { .arc = 16, .text = "$/{repository_owner}" },
    { .arc = 17, .text = "{repository_owner_id}" },
    { .arc = 18, .text = "$/{workflow_ref}" },
    { .arc = 19, .text = "{workflow_sha}" },
    { .arc = 20, .text = "{event_name}" },
    { .arc = 21, .text = "$/{repository}/actions/runs/{run_id}/attempts/{run_attempt}" },
    { .arc = 22, .text = "{repository_visibility}", .optional = true },
    { .arc = 23, .text = "{environment}", .optional = true },
};
static const struct extension_row gitlab_rows[] = {
    { .arc = 1 },
    { .arc = 8 },
    { .arc = 9, .text = "https://{ci_config_ref_uri}" },
    { .arc = 10, .text = "{ci_config_sha}", .optional = true }, /* not when the definition stands elsewhere */
    { .arc = 11, .text = "{runner_environment}" },
    { .arc = 12, .text = "$/{project_path}" },
    { .arc = 13, .text = "{sha}" },
    { .arc = 14, .text = "refs/heads/{ref}", .if_claim = "ref_type", .if_value = "branch" },
    { .arc = 14, .text = "refs/tags/{ref}", .if_claim = "ref_type", .if_value = "tag" },
    { .arc = 15, .text = "{project_id}" },
    { .arc = 16, .text = "$/{namespace_path}" },
    { .arc = 17, .text = "{namespace_id}" },
    { .arc = 18, .text = "https://{ci_config_ref_uri}" },
    { .arc = 19, .text = "{ci_config_sha}", .optional = true },
    { .arc = 20, .text = "{pipeline_source}" },
    { .arc = 21, .text = "$/{project_path}/-/jobs/{job_id}" },
    { .arc = 22, .text = "{project_visibility}", .optional = true },
    { .arc = 23, .text = "{environment}", .optional = true },
};
static const struct extension_row generic_rows[] = { { .arc = 1 }, { .arc = 8 } };

struct extension_table {
    const struct extension_row *rows;
    size_t count;
    const char *if_claim; /* on which rows depend: one of them must have counted */
};
static const struct extension_table tables[] = {
    [KIND_GITHUB_ACTIONS] = { github_rows, COUNT_OF(github_rows), NULL },
    [KIND_GITLAB_CI] = { gitlab_rows, COUNT_OF(gitlab_rows), "ref_type" },
    [KIND_GENERIC] = { generic_rows, COUNT_OF(generic_rows), NULL },
};
static_assert(COUNT_OF(github_rows) <= ATTEST_CLAIM_MAX && COUNT_OF(gitlab_rows) <= ATTEST_CLAIM_MAX);

/* An optional row's template is one claim and nothing else. */
static bool is_absent(const struct extension_row *row, const struct claims *claims)
{
    char name[CLAIM_NAME_MAX + 1] = "";
    memcpy(name, row->text + 1, strcspn(row->text + 1, "}"));
    const struct jin_member *claim = claims_find(claims, name);
    return claim == NULL || (claim->type == JIN_TYPE_TEXT && claim->value.len == 0);
}

static bool counts(const struct extension_row *row, const struct claims *claims)
{
    if (row->if_claim != NULL) {
        const struct jin_member *claim = claims_find(claims, row->if_claim);
        return claim != NULL && claim->type == JIN_TYPE_TEXT && span_equal_text(claim->value, row->if_value);
    }
    return !row->optional || !is_absent(row, claims);
}

static struct fault value_of(struct op *op, const struct method *method, const struct extension_row *row,
                             const struct claims *claims, const char **ret_value)
{
    if (row->text == NULL) {
        *ret_value = method->issuer;
        return OK;
    }
    return template_fill(op, row->text, method->url, claims, ret_value);
}

static struct fault extensions_of(struct op *op, const struct method *method, const struct claims *claims,
                                  struct attested *attested)
{
    const struct extension_table *table = &tables[method->kind];
    struct attest_claim *made = NULL;
    size_t count = 0;
    bool decided = table->if_claim == NULL;
    TRY(arena_take(op->arena, table->count, sizeof(*made), &made));
    for (size_t i = 0; i < table->count; i++) {
        const struct extension_row *row = &table->rows[i];
        if (!counts(row, claims)) {
            continue;
        }
        decided = decided || row->if_claim != NULL;
        made[count].arc = row->arc;
        TRY(value_of(op, method, row, claims, &made[count].value));
        count++;
    }
    if (!decided) {
        return proof_fail(op, PROOF_CLAIM, "the proof's claim %s is missing, or of no known value", table->if_claim);
    }
    attested->claims = made;
    attested->claim_count = count;
    return OK;
}

/* An address that its owner never proved names nobody. */
static struct fault check_email(struct op *op, const struct method *method, const struct claims *claims)
{
    const struct jin_member *verified = claims_find(claims, "email_verified");
    bool proven = verified != NULL && (verified->type == JIN_TYPE_BOOL || verified->type == JIN_TYPE_TEXT) &&
                  span_equal_text(verified->value, "true");
    if (strstr(method->san, "{email}") == NULL || proven) {
        return OK;
    }
    return proof_fail(op, PROOF_CLAIM, "the proof's claim email_verified must be true");
}

struct fault identity_of(struct op *op, const struct method *method, const struct claims *claims,
                         struct attested *attested)
{
    static const char *const forms[] = { [SAN_URI] = "a URI", [SAN_EMAIL] = "an e-mail address", [SAN_DNS] = "a name" };
    TRY(check_email(op, method, claims));
    TRY(template_fill(op, method->san, NULL, claims, &attested->san));
    if (!san_kind_of(attested->san, &attested->san_kind)) {
        return proof_fail(op, PROOF_CLAIM,
                          "what the claims make of the method's SAN is neither a URI nor an e-mail address nor a DNS "
                          "name, or has characters that these may not have");
    }
    if (method->san_kind >= 0 && method->san_kind != (int)attested->san_kind) {
        return proof_fail(op, PROOF_CLAIM, "what the claims make of the method's SAN is %s; its san_kind is another",
                          forms[attested->san_kind]);
    }
    return extensions_of(op, method, claims, attested);
}
