#include "signer-pkcs11/broker/journal_check.h"

#include "appliance/base/alloc.h"
#include "appliance/base/file.h"
#include "appliance/base/json.h"
#include "signer-pkcs11/broker/journal_internal.h"

#include <sys/file.h>

/* What was read, up to the damage if there is any. */
struct report {
    uint64_t files, bytes, signatures, marks, torn, age_ms;
    utc_us first, last; /* 0: no file tells */
    const char *why;    /* NULL: nothing is wrong */
    const struct journal_folder *folder;
};

static struct fault see_signature(void *arg, uint32_t number, size_t offset, const struct record *record)
{
    (void)arg, (void)number, (void)offset, (void)record;
    return OK;
}

static void see_file(void *arg, uint32_t number, const struct segment_scan *scan)
{
    struct report *report = arg;
    (void)number;
    report->files++;
    report->bytes += scan->end;
    report->signatures += scan->signatures;
    report->marks += scan->marks;
    report->first = report->first == 0 ? scan->header.begun.wall : report->first;
    report->last = scan->last.wall > report->last ? scan->last.wall : report->last;
}

static struct fault look(struct journal_folder *folder, struct report *report)
{
    CLEANUP(fd_closep) int fd = -1;
    struct journal_scan scan = { .visit = see_signature, .file = see_file, .arg = report };
    TRY(journal_folder_open(folder, LOCK_SH, &fd));
    TRY(journal_folder_list(folder));
    struct fault fault = journal_scan(folder, &scan);
    report->torn = scan.torn;
    report->age_ms = scan.age_ms;
    return fault;
}

/* ---- the two forms ---- */

static struct fault print_json(const struct report *report, struct buf *out)
{
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_bool(&jout, "ok", report->why == NULL);
    jout_key_text(&jout, "detail", report->why);
    if (report->folder->bad_what != NULL) {
        char name[SEGMENT_NAME_MAX];
        segment_name(report->folder->bad_number, name);
        jout_key_text(&jout, "file", name);
        jout_key_int(&jout, "offset", (int64_t)report->folder->bad_offset);
    }
    jout_key_int(&jout, "files", (int64_t)report->files);
    jout_key_int(&jout, "bytes", (int64_t)report->bytes);
    jout_key_int(&jout, "signatures", (int64_t)report->signatures);
    jout_key_int(&jout, "marks", (int64_t)report->marks);
    jout_key_int(&jout, "torn_bytes", (int64_t)report->torn);
    jout_key_int(&jout, "open_seconds", (int64_t)(report->age_ms / 1000));
    if (report->first != 0) {
        jout_key_time(&jout, "first_time", report->first);
        jout_key_time(&jout, "last_time", report->last);
    }
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return buf_text(out, "\n");
}

static struct fault print_text(const struct report *report, struct buf *out)
{
    char first[RFC3339_MAX], last[RFC3339_MAX];
    TRY(buf_printf(out, "%llu files, %llu bytes, %llu signatures, %llu marks; was open for %llu s\n",
                   (unsigned long long)report->files, (unsigned long long)report->bytes,
                   (unsigned long long)report->signatures, (unsigned long long)report->marks,
                   (unsigned long long)report->age_ms / 1000));
    if (report->first != 0) {
        rfc3339_print(report->first, first);
        rfc3339_print(report->last, last);
        TRY(buf_printf(out, "from %s to %s\n", first, last));
    }
    if (report->torn > 0) {
        TRY(buf_printf(out, "%llu bytes of an unfinished tail, which the signer cuts at its start\n",
                       (unsigned long long)report->torn));
    }
    return buf_printf(out, "%s\n", report->why == NULL ? "ok" : report->why);
}

bool journal_check(const char *folder_path, enum check_form form, struct buf *out)
{
    CLEANUP(mem_freep) struct journal_folder *folder = NULL;
    CLEANUP(buf_free) struct buf why = BUF_INIT(8192);
    struct report report = { 0 };
    if (FAULTED(mem_new(1, sizeof(*folder), &folder))) {
        return false;
    }
    *folder = (struct journal_folder){ .path = folder_path, .why = &why, .of_others = true, .fd = -1 };
    report.folder = folder;
    if (FAULTED(look(folder, &report)) && (why.len == 0 || FAULTED(buf_cstr(&why, &report.why)))) {
        report.why = "the journal cannot be read: there is no memory left";
    }
    struct fault printed = form == CHECK_JSON ? print_json(&report, out) : print_text(&report, out);
    return !FAULTED(printed) && report.why == NULL;
}
