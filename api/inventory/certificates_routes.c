#include "api/inventory/certificates.h"

#include "api/page.h"
#include "appliance/base/codec.h"

#define ANSWER_MAX ((size_t)4 << 20)

const struct jin_field certificate_body_fields[] = {
    JIN_BASE64(struct certificate_body, certificate_der, JIN_OPTIONAL, 1, CERTIFICATE_DER_MAX),
    JIN_TEXT(struct certificate_body, certificate_pem, JIN_OPTIONAL, 1, CERTIFICATE_PEM_MAX),
    { .name = "custody",
      .kind = JIN_KIND_OBJECT,
      .flags = JIN_OPTIONAL,
      .offset = offsetof(struct certificate_body, custody),
      .sub = custody_fields,
      .sub_count = CUSTODY_FACTS },
};
const size_t certificate_body_count = COUNT_OF(certificate_body_fields);
static_assert(offsetof(struct custody_body, custody) == 0, "its facts are members of the body itself");
const struct jin_field custody_body_fields[] = {
    JIN_TEXT(struct custody, origin, JIN_OPTIONAL, 1, 32),
    JIN_TEXT(struct custody, storage_class, JIN_OPTIONAL, 1, 32),
    JIN_TEXT(struct custody, exportability, JIN_OPTIONAL, 1, 32),
    JIN_TEXT(struct custody, holder, JIN_OPTIONAL, 1, CUSTODY_TEXT_MAX),
    JIN_TEXT(struct custody, locus, JIN_OPTIONAL, 1, CUSTODY_TEXT_MAX),
    JIN_INT(struct custody_body, expected_version, JIN_REQUIRED, 1, INT64_MAX),
};
const size_t custody_body_count = COUNT_OF(custody_body_fields);

static void print_time(struct jout *jout, const char *name, utc_us time)
{
    if (time != 0) {
        jout_key_time(jout, name, time);
    }
}

static void print_text(struct jout *jout, const char *name, const char *text)
{
    if (text != NULL && text[0] != '\0') {
        jout_key_text(jout, name, text);
    }
}

static void print_missing(struct jout *jout, const struct custody *custody)
{
    const char *names[CUSTODY_FACTS];
    size_t count = custody_missing(custody, names);
    jout_key_text(jout, "custody", count == 0 ? "recorded" : "unrecorded");
    jout_key(jout, "missing_fields");
    jout_array(jout);
    for (size_t i = 0; i < count; i++) {
        jout_text(jout, names[i]);
    }
    jout_array_end(jout);
}

static void print_row(struct jout *jout, const struct certificate_row *row)
{
    jout_object(jout);
    jout_key_text(jout, "certificate_id", row->id.text);
    jout_key_hex(jout, "fingerprint", SPAN_ARRAY(row->fingerprint.at));
    jout_key_text(jout, "subject", row->facts.subject);
    jout_key_text(jout, "issuer", row->facts.issuer);
    jout_key_text(jout, "serial", row->facts.serial);
    print_time(jout, "not_before", row->facts.not_before);
    print_time(jout, "not_after", row->facts.not_after);
    print_missing(jout, &row->custody);
    custody_print_facts(jout, &row->custody);
    print_text(jout, "key_id", row->key_id);
    print_text(jout, "key_state", row->key_state);
    jout_key_time(jout, "recorded_at", row->recorded);
    print_text(jout, "recorded_by", row->recorded_by);
    print_time(jout, "custody_recorded_at", row->custody_recorded);
    print_text(jout, "custody_recorded_by", row->custody_by);
    jout_key_int(jout, "version", row->version);
    if (row->der.len > 0) {
        jout_key_base64(jout, "certificate_der", row->der);
    }
    jout_object_end(jout);
}

static struct fault answer(struct request *request, int status, const struct certificate_row *row)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(ANSWER_MAX);
    struct jout jout;
    jout_init(&jout, &out);
    print_row(&jout, row);
    TRY(jout_end(&jout));
    return response_json(request, status, &out);
}

static struct fault no_such(struct request *request)
{
    return op_fail(request->op, FAULT(NOT_FOUND), "no such certificate: list them with GET /api/v1/certificates");
}

struct fault route_certificate_get(struct request *request)
{
    struct certificate_row row;
    struct fault fault = certificate_get(request->op, request->services->store, request_path(request, "id"), &row);
    if (fault.code == FAULT_NOT_FOUND) {
        return no_such(request);
    }
    TRY(fault);
    return answer(request, 0, &row);
}

static struct fault read_filter(struct request *request, const struct page *page, struct certificate_filter *ret_filter)
{
    struct op *op = request->op;
    const char *before = request_query(request, "expiring_before");
    struct certificate_filter filter = { .origin = request_query(request, "origin"),
                                         .custody = request_query(request, "custody"),
                                         .expiring_before = INT64_MAX,
                                         .before_us = page->number,
                                         .before_id = page->id,
                                         .limit = page->limit + 1 };
    bool known = filter.origin == NULL;
    for (size_t i = 0; !known && custody_origins[i] != NULL; i++) {
        known = strcmp(custody_origins[i], filter.origin) == 0;
    }
    if (!known) {
        return op_fail_field(op, FAULT(QUERY), "origin", "origin is no origin of certificates");
    }
    if (filter.custody != NULL && strcmp(filter.custody, "recorded") != 0 &&
        strcmp(filter.custody, "unrecorded") != 0) {
        return op_fail_field(op, FAULT(QUERY), "custody", "custody must be recorded or unrecorded");
    }
    if (before != NULL && FAULTED(rfc3339_parse(span_text(before), &filter.expiring_before))) {
        return op_fail_field(op, FAULT(QUERY), "expiring_before", "expiring_before must be a time of RFC 3339");
    }
    *ret_filter = filter;
    return OK;
}

struct fault route_certificate_list(struct request *request)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(ANSWER_MAX);
    struct page page;
    struct certificate_filter filter;
    struct certificate_row *rows = NULL;
    size_t count = 0;
    struct jout jout;
    TRY(page_read(request, &page));
    TRY(read_filter(request, &page, &filter));
    TRY(certificate_list(request->op, request->services->store, &filter, &rows, &count));
    bool more = count > (size_t)page.limit;
    size_t shown = more ? (size_t)page.limit : count;
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key(&jout, "items");
    jout_array(&jout);
    for (size_t i = 0; i < shown; i++) {
        print_row(&jout, &rows[i]);
    }
    TRY(page_end(request, &jout, more, more ? rows[shown - 1].recorded : 0, more ? rows[shown - 1].id.text : ""));
    return response_json(request, 0, &out);
}

struct fault route_certificate_record(struct request *request)
{
    struct certificate_row row;
    bool made = false;
    TRY(certificate_record(request->op, request->services, request->body, &row, &made));
    return answer(request, made ? 201 : 200, &row);
}

struct fault route_certificate_custody(struct request *request)
{
    struct certificate_row row;
    TRY(certificate_custody(request->op, request->services, request_path(request, "id"), request->body, &row));
    return answer(request, 0, &row);
}
