/* Time stamps for the appliance itself: over the heads of audit chains. */
#include "api/tsa/internal.h"
#include "api/tsa/tsa.h"

#define QUERY_MAX 128

void tsa_enter_as(struct op *op, const struct tsa *tsa)
{
    op->principal = (struct principal){ .subject = "tsa:anonymous" };
    op->tenant = tsa->settings.tenant;
}

bool tsa_is_on(const struct services *services)
{
    return services->tsa != NULL;
}

/* TimeStampReq (RFC 3161 2.4.1): version 1, SHA-256, certReq. */
static struct fault write_query(const struct sha256 *imprint, uint8_t room[QUERY_MAX], struct span *ret_der)
{
    static const uint8_t yes = 0xff;
    struct der_writer writer;
    der_writer_init(&writer, room, QUERY_MAX);
    der_write_element(&writer, DER_BOOLEAN, span_of(&yes, 1));
    size_t mark = der_mark(&writer);
    der_write_element(&writer, DER_OCTET_STRING, SPAN_ARRAY(imprint->at));
    size_t algorithm = der_mark(&writer);
    der_write_element(&writer, DER_OID, tst_hashes[TST_SHA256].oid);
    der_wrap(&writer, DER_SEQUENCE, algorithm);
    der_wrap(&writer, DER_SEQUENCE, mark);
    der_write_uint(&writer, DER_INTEGER, 1);
    der_wrap(&writer, DER_SEQUENCE, 0);
    return der_written(&writer, ret_der);
}

struct fault tsa_anchor(struct op *op, struct services *services, const struct sha256 *imprint, struct span *ret_token)
{
    uint8_t room[QUERY_MAX];
    struct span query;
    BUG_IF(op->tx_open > 0);
    if (services->tsa == NULL) {
        return op_fail(op, FAULT(TSA_DISABLED), "time stamping is switched off here (protocols.tsa.enabled)");
    }
    TRY(write_query(imprint, room, &query));
    struct tenant_id tenant = op->tenant;
    struct principal principal = op->principal;
    tsa_enter_as(op, services->tsa); /* it is one of the public stamps, recorded among them */
    struct fault fault = tsa_grant(op, services, services->tsa, query, ret_token);
    op->tenant = tenant;
    op->principal = principal;
    return fault;
}
