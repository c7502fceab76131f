/* rooms: inventory base */
/* A collector's body. What is taken is canonical, reads back as the same, has findings that print, and does not drift
 * from itself; handed in again as it was recorded, it is recorded the same. */
#include "api/inventory/adcs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool lacks_memory(struct fault fault)
{
    return fault.code == FAULT_NO_MEMORY || fault.code == FAULT_TOO_LARGE;
}

static struct fault record(struct op *op, const struct adcs_body *body, struct buf *out)
{
    struct adcs_observation observation;
    TRY(adcs_read_body(op, body, &observation));
    observation.head.observation_id = "0190a6b2-0001-8000-8000-00000000abcd";
    TRY(adcs_normalise(op, &observation));
    return adcs_print(&observation, out);
}

static void check_drift(struct op *op, const struct adcs_observation *seen, const struct adcs_findings *findings)
{
    struct adcs_drift drift;
    struct fault fault =
        adcs_compare(op, &(struct adcs_seen){ seen, findings }, &(struct adcs_seen){ seen, findings }, &drift);
    BUG_IF(!lacks_memory(fault) && (FAULTED(fault) || drift.total != 0));
}

static void check(struct op *op, const struct buf *recorded)
{
    CLEANUP(buf_free) struct buf canonical = BUF_INIT((size_t)8 << 20), again = BUF_INIT((size_t)8 << 20);
    struct adcs_observation seen;
    struct adcs_findings findings;
    BUG_IF(FAULTED(json_canonical(buf_span(recorded), &canonical)));
    BUG_IF(!span_equal(buf_span(recorded), buf_span(&canonical)));
    struct fault fault = adcs_read_stored(op, buf_span(recorded), &seen);
    if (lacks_memory(fault)) {
        return;
    }
    BUG_IF(FAULTED(fault) || FAULTED(adcs_print(&seen, &again)));
    BUG_IF(!span_equal(buf_span(recorded), buf_span(&again)));
    fault = adcs_find(op, &seen, NULL, &findings);
    if (!FAULTED(fault)) {
        check_drift(op, &seen, &findings);
    }
    /* As a body: the principals' names are lost, all else is the same. */
    if (seen.head.schema_version == 1) {
        seen.head.enrollment_services = seen.head.iis_endpoints = seen.head.ca_restrictions = (struct span){ 0 };
    }
    buf_clear(&again);
    fault = record(op, &seen.head, &again);
    BUG_IF(FAULTED(fault) && !lacks_memory(fault));
    if (!FAULTED(fault)) {
        struct adcs_observation second;
        fault = adcs_read_stored(op, buf_span(&again), &second);
        BUG_IF(FAULTED(fault) && !lacks_memory(fault));
        BUG_IF(!FAULTED(fault) && !span_equal(seen.head.templates, second.head.templates));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(op_freep) struct op *op = NULL;
    CLEANUP(adcs_scratch_clear) struct op scratch = { 0 };
    CLEANUP(buf_free) struct buf out = BUF_INIT((size_t)8 << 20);
    struct adcs_body body = { 0 };
    if (FAULTED(op_new("fuzz", (struct tenant_id){ "acme" }, 60000, &op)) || FAULTED(adcs_scratch_new(op, &scratch))) {
        return 0;
    }
    if (!FAULTED(jin_decode(&scratch, span_of(data, size), adcs_body_fields, ADCS_BODY_FIELDS, &body)) &&
        !FAULTED(record(&scratch, &body, &out))) {
        check(&scratch, &out);
    }
    return 0;
}
