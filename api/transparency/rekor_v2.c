/* Rekor v2 (tiles): POST /api/v2/log/entries with a hashedRekordRequestV002. The answer is a TransparencyLogEntry with
 * inclusion proof and checkpoint; nobody signs its time, so none is recorded. */
#include "api/transparency/internal.h"

#include "appliance/base/codec.h"

#define ENTRIES     "/api/v2/log/entries"
#define REQUEST_MAX ((size_t)128 << 10)

static void print_verifier(struct jout *jout, const struct submission *submission, const char *details)
{
    bool certified = submission->certificate.len > 0;
    jout_object(jout);
    jout_key_text(jout, "keyDetails", details);
    jout_key(jout, certified ? "x509Certificate" : "publicKey");
    jout_object(jout);
    jout_key_base64(jout, "rawBytes", certified ? submission->certificate : submission->public_key);
    jout_object_end(jout);
    jout_object_end(jout);
}

static struct fault print_request(struct op *op, const struct submission *submission, struct buf *out)
{
    const char *details = tlog_signer_details(submission->public_key, submission->digest_algorithm);
    if (details == NULL) {
        return op_fail(op, FAULT(TLOG_REFUSED), "Rekor v2 has no name for this key with %s",
                       submission->digest_algorithm);
    }
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key(&jout, "hashedRekordRequestV002");
    jout_object(&jout);
    jout_key_base64(&jout, "digest", submission->digest);
    jout_key(&jout, "signature");
    jout_object(&jout);
    jout_key_base64(&jout, "content", submission->signature);
    jout_key(&jout, "verifier");
    print_verifier(&jout, submission, details);
    jout_object_end(&jout);
    jout_object_end(&jout);
    jout_object_end(&jout);
    return jout_end(&jout);
}

/* Behind `mark`, digits to the end of the text or a word's; -1 when there are none. */
static int64_t index_in(const char *text, const char *mark)
{
    const char *at = text != NULL ? strstr(text, mark) : NULL;
    int64_t index = 0;
    if (at == NULL) {
        return -1;
    }
    at += strlen(mark);
    const char *first = at;
    for (; *at >= '0' && *at <= '9' && at - first < 15; at++) {
        index = index * 10 + (*at - '0');
    }
    return at == first || (*at >= '0' && *at <= '9') ? -1 : index;
}

/* The header X-Log-Index; where something on the way took it out, the answer's message says the same. */
static struct fault find_existing(struct op *op, struct submit *submit, const struct http_answer *answer,
                                  struct tlog_entry *ret_entry)
{
    struct view body = { 0 };
    int64_t index = index_in(answer->wanted, "");
    if (index < 0 && !FAULTED(view_of(op, buf_span(&answer->body), &body))) {
        index = index_in(view_member(op, body, "message"), "with index ");
    }
    if (index < 0) {
        return tlog_refuse(op, "the log has the entry already, but does not say where");
    }
    return tiles_entry(op, submit, index, ret_entry);
}

static struct fault read_answer(struct op *op, struct submit *submit, const struct http_answer *answer,
                                struct tlog_entry *entry)
{
    if (answer->status == 409) {
        return find_existing(op, submit, answer, entry);
    }
    return tlog_entry_read(op, buf_span(&answer->body), entry);
}

struct fault rekor_v2_submit(struct op *op, struct submit *submit, struct tlog_entry *ret_entry,
                             const char **ret_entry_id)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf request = BUF_INIT(REQUEST_MAX);
    struct tlog_entry entry = { 0 };
    struct sha256 leaf;
    char *id = NULL;
    TRY(print_request(op, submit->submission, &request));
    TRY(tlog_post(op, submit, ENTRIES, buf_span(&request), &answer));
    TRY(read_answer(op, submit, &answer, &entry));
    if (entry.checkpoint == NULL) {
        return tlog_refuse(op, "the log's answer has no inclusion proof with a checkpoint");
    }
    if (entry.set.len == 0) {
        entry.integrated_time = 0;
    }
    TRY(tlog_leaf_hash(entry.body, &leaf));
    TRY(arena_take(op->arena, 2 * SHA256_LEN + 1, 1, &id));
    hex_text(SPAN_ARRAY(leaf.at), id, 2 * SHA256_LEN + 1);
    *ret_entry = entry;
    *ret_entry_id = id;
    return OK;
}
