/* The datasets: that their counts are those of their rows, and that a digest is over what stands there. */
#include "api/compliance/verify_internal.h"

#include "appliance/base/codec.h"
#include "appliance/base/crypto.h"
#include "appliance/base/json_view.h"

struct fault verify_dataset(struct check *check, const char *at, struct span dataset)
{
    bool is_object = dataset.len > 2 && dataset.at[0] == '{';
    return is_object ? OK : refuse(check, PACK_DATASET, at, "it must be an object that is not empty");
}

/* A whole number that is not negative. */
static struct fault take_count(struct check *check, const char *at, struct view object, const char *name,
                               int64_t *ret_count)
{
    int64_t count = 0;
    if (FAULTED(view_int(view_get(object, name), &count)) || count < 0) {
        return refuse_below(check, PACK_DATASET, at, name, "it must be a count");
    }
    *ret_count = count;
    return OK;
}

static struct fault take_list(struct check *check, const char *at, struct view object, const char *name,
                              struct view *ret_list)
{
    struct view list = view_get(object, name);
    if (list.json.len < 2 || list.json.at[0] != '[') {
        return refuse_below(check, PACK_DATASET, at, name, "it must be an array");
    }
    *ret_list = list;
    return OK;
}

/* ---- custody ---- */

/* Values of an object of counts, added up. */
static struct fault add_up(struct check *check, const char *at, struct view object, const char *name, int64_t *ret_sum)
{
    struct jin_member *members = NULL;
    struct view counts = view_get(object, name);
    size_t count = 0;
    int64_t sum = 0, one = 0;
    check->op->note = (struct fault_note){ 0 };
    struct fault fault = jin_members(check->op, counts.json, 64, &members, &count);
    if (fault.code == FAULT_JSON_FIELD || fault.code == FAULT_JSON_SYNTAX) {
        return refuse_below(check, PACK_DATASET, at, name, "it must be an object of counts");
    }
    TRY(fault);
    for (size_t i = 0; i < count; i++) {
        if (FAULTED(view_int((struct view){ members[i].value }, &one)) || one < 0 ||
            __builtin_add_overflow(sum, one, &sum)) {
            return refuse_below(check, PACK_DATASET, at, name, "it must be an object of counts");
        }
    }
    *ret_sum = sum;
    return OK;
}

static struct fault count_unrecorded(struct check *check, const char *at, struct view custody, int64_t *ret_count)
{
    struct view rest, row, fields, field;
    int64_t count = 0;
    TRY(take_list(check, at, custody, "unrecorded_certificates", &rest));
    for (; view_next(&rest, &row); count++) {
        bool named = view_member(check->op, row, "certificate_id") != NULL &&
                     view_member(check->op, row, "fingerprint") != NULL &&
                     view_member(check->op, row, "subject") != NULL;
        fields = view_get(row, "missing_fields");
        if (!named || fields.json.len == 0 || fields.json.at[0] != '[' || !view_next(&fields, &field)) {
            return refuse_below(check, PACK_CUSTODY, at, "unrecorded_certificates",
                                "row %lld does not name a certificate and what is missing", (long long)count);
        }
    }
    *ret_count = count;
    return OK;
}

struct fault verify_custody(struct check *check, const char *at, struct span json)
{
    static const char *const tallies[] = { "by_exportability", "by_origin", "by_source", "by_storage_class" };
    struct view custody = { json };
    int64_t total = 0, recorded = 0, unrecorded = 0, rows = 0, sum = 0;
    TRY(verify_dataset(check, at, json));
    TRY(take_count(check, at, custody, "total", &total));
    TRY(take_count(check, at, custody, "recorded", &recorded));
    TRY(take_count(check, at, custody, "unrecorded", &unrecorded));
    TRY(count_unrecorded(check, at, custody, &rows));
    if (unrecorded != rows) {
        return refuse_below(check, PACK_CUSTODY, at, "unrecorded", "%lld, and %lld rows stand there",
                            (long long)unrecorded, (long long)rows);
    }
    if (recorded > total || total - recorded != unrecorded) {
        return refuse_below(check, PACK_CUSTODY, at, "total", "%lld are not %lld and %lld", (long long)total,
                            (long long)recorded, (long long)unrecorded);
    }
    for (size_t i = 0; i < COUNT_OF(tallies); i++) {
        TRY(add_up(check, at, custody, tallies[i], &sum));
        if (sum != total) {
            return refuse_below(check, PACK_CUSTODY, at, tallies[i], "%lld are counted of %lld", (long long)sum,
                                (long long)total);
        }
    }
    return OK;
}

/* ---- crypto-readiness ---- */

/* SHA-256 over the rows as lines: each in canonical form, ended by LF. */
static struct fault digest_rows(struct view rest, struct sha256 *ret_digest, int64_t *ret_count)
{
    CLEANUP(EVP_MD_freep) EVP_MD *md = EVP_MD_fetch(crypto_context(), "SHA256", NULL);
    CLEANUP(EVP_MD_CTX_freep) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    struct view row;
    unsigned len = 0;
    int64_t count = 0;
    REQUIRE(md != NULL && ctx != NULL && EVP_DigestInit_ex2(ctx, md, NULL) == 1, CRYPTO);
    for (; view_next(&rest, &row); count++) {
        REQUIRE(EVP_DigestUpdate(ctx, row.json.at, row.json.len) == 1 && EVP_DigestUpdate(ctx, "\n", 1) == 1, CRYPTO);
    }
    REQUIRE(EVP_DigestFinal_ex(ctx, ret_digest->at, &len) == 1 && len == SHA256_LEN, CRYPTO);
    *ret_count = count;
    return OK;
}

/* Of a dataset that is not listed whole nothing can be recomputed: it has to say so. */
struct fault verify_readiness(struct check *check, const char *at, struct span json)
{
    struct view readiness = { json }, rows;
    struct sha256 digest;
    char made[DIGEST_HEX_LEN + 1];
    int64_t total = 0, listed = 0, count = 0;
    TRY(verify_dataset(check, at, json));
    TRY(take_count(check, at, readiness, "total", &total));
    TRY(take_count(check, at, readiness, "listed", &listed));
    TRY(take_list(check, at, readiness, "rows", &rows));
    const char *stated = view_member(check->op, readiness, "dataset_digest");
    const char *coverage = view_member(check->op, readiness, "coverage");
    bool complete = span_equal_text(view_get(readiness, "complete").json, "true");
    if (stated == NULL || coverage == NULL || coverage[0] == '\0') {
        return refuse_below(check, PACK_DATASET, at, stated == NULL ? "dataset_digest" : "coverage", "it is missing");
    }
    TRY(digest_rows(rows, &digest, &count));
    if (listed != count || listed > total || complete != (listed == total)) {
        return refuse_below(check, PACK_DATASET, at, "listed", "%lld of %lld, and %lld rows stand there",
                            (long long)listed, (long long)total, (long long)count);
    }
    if (!complete) {
        return OK;
    }
    hex_text(SPAN_ARRAY(digest.at), made, sizeof(made));
    if (strcmp(stated, made) != 0) {
        return refuse_below(check, PACK_READINESS, at, "dataset_digest", "the rows make %s", made);
    }
    return OK;
}
