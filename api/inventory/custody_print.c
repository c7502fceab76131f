/*
 * The custody summary of an evidence pack: every certificate of the tenant is counted once by origin, storage class and
 * exportability, every one whose facts are not all recorded stands in it by name, and a digest over all rows binds what
 * is not printed. Memory grows with what is printed and not with what there is.
 */
#include "api/inventory/certificates.h"

#include "appliance/base/alloc.h"
#include "appliance/base/codec.h"

#define LINE_MAX   ((size_t)4096)
#define LOCI_MAX   1000
#define WORDS_MAX  16
#define UNRECORDED "unrecorded"

#define REASON_EPHEMERAL \
    "ephemeral-keyless: the key was destroyed when its one signature was made; the signing itself is the record"
#define QUERY "all certificates of the tenant: recorded by users, and of managed keys and time-stamping units ever"

/* Counted as the bill of materials counts them: crypto_count.c. */
static const struct sql SQL_EPHEMERAL = {
    "inventory_ephemeral",
    "SELECT count(*) FROM svc.audit_records WHERE type = 'codesign.keyless.signed'",
    0,
};

struct tally {
    const char *const *words;
    int64_t counts[WORDS_MAX], unrecorded;
};
struct locus {
    const char *storage_class, *holder, *locus;
    int64_t count;
};
struct custody_summary {
    struct tally origins, storage, exportability, sources;
    int64_t total, recorded, ephemeral;
    struct sha256 digest;
    struct buf unrecorded; /* elements of the array, with commas */
    struct buf line;       /* the row at hand, as JSON */
    struct arena *kept;
    struct locus *loci; /* sorted */
    size_t locus_count;
    int64_t beyond; /* certificates whose locus is not listed */
};

static void tally_add(struct tally *tally, const char *word)
{
    for (size_t i = 0; word != NULL && tally->words[i] != NULL; i++) {
        if (strcmp(tally->words[i], word) == 0) {
            tally->counts[i]++;
            return;
        }
    }
    tally->unrecorded++;
}

static void tally_print(struct jout *jout, const char *name, const struct tally *tally)
{
    bool placed = false;
    jout_key(jout, name);
    jout_object(jout);
    for (size_t i = 0; tally->words[i] != NULL; i++) {
        if (!placed && strcmp(tally->words[i], UNRECORDED) > 0) {
            jout_key_int(jout, UNRECORDED, tally->unrecorded);
            placed = true;
        }
        jout_key_int(jout, tally->words[i], tally->counts[i]);
    }
    if (!placed) {
        jout_key_int(jout, UNRECORDED, tally->unrecorded);
    }
    jout_object_end(jout);
}

static int locus_compare(const struct locus *a, const struct certificate_row *row)
{
    int order = strcmp(a->storage_class, row->custody.storage_class);
    order = order != 0 ? order : strcmp(a->holder, row->custody.holder);
    return order != 0 ? order : strcmp(a->locus, row->custody.locus);
}

/* Which loci are listed depends on the rows alone: the first so many in order of the rows' ids. */
static struct fault locus_add(struct custody_summary *summary, const struct certificate_row *row)
{
    size_t low = 0, high = summary->locus_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = locus_compare(&summary->loci[middle], row);
        if (order == 0) {
            summary->loci[middle].count++;
            return OK;
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    if (summary->locus_count == LOCI_MAX) {
        summary->beyond++;
        return OK;
    }
    struct locus made = { .count = 1 };
    TRY(arena_text(summary->kept, span_text(row->custody.storage_class), &made.storage_class));
    TRY(arena_text(summary->kept, span_text(row->custody.holder), &made.holder));
    TRY(arena_text(summary->kept, span_text(row->custody.locus), &made.locus));
    memmove(&summary->loci[low + 1], &summary->loci[low], (summary->locus_count - low) * sizeof(made));
    summary->loci[low] = made;
    summary->locus_count++;
    return OK;
}

/* digest = SHA-256(digest before, row as JSON); it begins as 32 zero bytes. */
static struct fault digest_add(struct custody_summary *summary, const struct certificate_row *row)
{
    struct jout jout;
    buf_clear(&summary->line);
    jout_init(&jout, &summary->line);
    jout_object(&jout);
    jout_key_text(&jout, "certificate_id", row->id.text);
    custody_print_facts(&jout, &row->custody);
    jout_key_hex(&jout, "fingerprint", SPAN_ARRAY(row->fingerprint.at));
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    const struct span parts[] = { SPAN_ARRAY(summary->digest.at), buf_span(&summary->line) };
    return sha256_of_parts(parts, COUNT_OF(parts), &summary->digest);
}

static struct fault unrecorded_add(struct op *scratch, struct custody_summary *summary,
                                   const struct certificate_row *row, const char *const *missing, size_t count)
{
    struct certificate_facts facts;
    struct jout jout;
    certificate_describe(scratch, row->der, &facts);
    if (summary->unrecorded.len > 0) {
        TRY(buf_text(&summary->unrecorded, ","));
    }
    jout_init(&jout, &summary->unrecorded);
    jout_object(&jout);
    jout_key_text(&jout, "certificate_id", row->id.text);
    jout_key_hex(&jout, "fingerprint", SPAN_ARRAY(row->fingerprint.at));
    jout_key(&jout, "missing_fields");
    jout_array(&jout);
    for (size_t i = 0; i < count; i++) {
        jout_text(&jout, missing[i]);
    }
    jout_array_end(&jout);
    jout_key_text(&jout, "subject", facts.subject);
    jout_object_end(&jout);
    return jout_end(&jout);
}

/* Who says so: the product, of its own keys; or a person, who may be wrong. */
static const char *const sources[] = { "observed", "stated", NULL };

static const char *source_of(const struct certificate_row *row)
{
    return row->key_id != NULL ? "observed" : custody_is_empty(&row->custody) ? NULL : "stated";
}

struct fault custody_summary_add(struct op *scratch, struct custody_summary *summary, const struct certificate_row *row)
{
    const char *missing[CUSTODY_FACTS];
    size_t count = custody_missing(&row->custody, missing);
    summary->total++;
    tally_add(&summary->origins, row->custody.origin);
    tally_add(&summary->storage, row->custody.storage_class);
    tally_add(&summary->exportability, row->custody.exportability);
    tally_add(&summary->sources, source_of(row));
    TRY(digest_add(summary, row));
    if (count > 0) {
        return unrecorded_add(scratch, summary, row, missing, count);
    }
    summary->recorded++;
    return locus_add(summary, row);
}

static void print_loci(struct jout *jout, const struct custody_summary *summary)
{
    jout_key(jout, "storage_loci");
    jout_array(jout);
    for (size_t i = 0; i < summary->locus_count; i++) {
        const struct locus *locus = &summary->loci[i];
        jout_object(jout);
        jout_key_int(jout, "count", locus->count);
        jout_key_text(jout, "holder", locus->holder);
        jout_key_text(jout, "locus", locus->locus);
        jout_key_text(jout, "storage_class", locus->storage_class);
        jout_object_end(jout);
    }
    jout_array_end(jout);
    jout_key_int(jout, "storage_loci_unlisted", summary->beyond);
}

static void print_population(struct jout *jout, const struct custody_summary *summary)
{
    jout_key(jout, "population");
    jout_object(jout);
    jout_key(jout, "excluded");
    jout_array(jout);
    jout_object(jout);
    jout_key_int(jout, "count", summary->ephemeral);
    jout_key_text(jout, "reason", REASON_EPHEMERAL);
    jout_object_end(jout);
    jout_array_end(jout);
    jout_key_int(jout, "matched", summary->total);
    jout_key_text(jout, "query", QUERY);
    jout_key_int(jout, "total", summary->total + summary->ephemeral);
    jout_object_end(jout);
}

static void print_summary(struct jout *jout, const struct custody_summary *summary)
{
    jout_object(jout);
    tally_print(jout, "by_exportability", &summary->exportability);
    tally_print(jout, "by_origin", &summary->origins);
    tally_print(jout, "by_source", &summary->sources);
    tally_print(jout, "by_storage_class", &summary->storage);
    print_population(jout, summary);
    jout_key_int(jout, "recorded", summary->recorded);
    jout_key_hex(jout, "rows_digest", SPAN_ARRAY(summary->digest.at));
    print_loci(jout, summary);
    jout_key_int(jout, "total", summary->total);
    jout_key_int(jout, "unrecorded", summary->total - summary->recorded);
    jout_key(jout, "unrecorded_certificates");
    jout_array(jout);
    if (summary->unrecorded.len > 0) {
        jout_raw(jout, buf_span(&summary->unrecorded));
    }
    jout_array_end(jout);
    jout_object_end(jout);
}

struct fault custody_summary_print(struct custody_summary *summary, struct tx *tx, struct jout *out)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_query(tx, &SQL_EPHEMERAL, NULL, 0, &rows));
    summary->ephemeral = rows_int(rows, 0, 0);
    print_summary(out, summary);
    return out->first;
}

struct fault custody_summary_new(size_t bytes_max, struct custody_summary **ret_summary)
{
    CLEANUP(custody_summary_freep) struct custody_summary *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    *made = (struct custody_summary){ .origins.words = custody_origins,
                                      .storage.words = custody_storage_classes,
                                      .exportability.words = custody_exportabilities,
                                      .sources.words = sources,
                                      .unrecorded = BUF_INIT(bytes_max),
                                      .line = BUF_INIT(LINE_MAX) };
    TRY(arena_new((size_t)4 << 20, &made->kept));
    TRY(arena_take(made->kept, LOCI_MAX + 1, sizeof(*made->loci), &made->loci));
    *ret_summary = TAKE(made);
    return OK;
}

void custody_summary_freep(struct custody_summary **summary)
{
    if (*summary != NULL) {
        arena_free((*summary)->kept);
        buf_free(&(*summary)->unrecorded);
        buf_free(&(*summary)->line);
        mem_free(TAKE(*summary));
    }
}
