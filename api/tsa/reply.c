#include "api/tsa/internal.h"

/* PKIStatus and PKIFailureInfo (RFC 3161 2.4.2). The bit is the failure's number. */
enum { STATUS_GRANTED = 0, STATUS_REJECTION = 2 };
enum { SYSTEM_FAILURE = 25 };

static const struct {
    enum fault_code code;
    unsigned bit;
    const char *result;
} failures[] = {
    { FAULT_TSA_BAD_ALG, 0, "bad_alg" },
    { FAULT_TSA_BAD_REQUEST, 2, "bad_request" },
    { FAULT_TSA_BAD_FORMAT, 5, "bad_data_format" },
    { FAULT_TSA_TIME, 14, "time_not_available" },
    { FAULT_TSA_POLICY, 15, "unaccepted_policy" },
    { FAULT_TSA_EXTENSION, 16, "unaccepted_extension" },
};

static unsigned failure_bit(struct fault fault)
{
    for (size_t i = 0; i < COUNT_OF(failures); i++) {
        if (failures[i].code == fault.code) {
            return failures[i].bit;
        }
    }
    return SYSTEM_FAILURE;
}

const char *tsa_result_text(struct fault fault)
{
    for (size_t i = 0; i < COUNT_OF(failures); i++) {
        if (failures[i].code == fault.code) {
            return failures[i].result;
        }
    }
    return FAULTED(fault) ? "system_failure" : "granted";
}

static struct fault room_for_reply(struct op *op, size_t size, struct der_writer *writer)
{
    uint8_t *room = NULL;
    TRY(arena_take(op->arena, size, 1, &room));
    der_writer_init(writer, room, size);
    return OK;
}

struct fault tsa_reply_granted(struct op *op, struct span token, struct span *ret_reply)
{
    struct der_writer writer;
    TRY(room_for_reply(op, token.len + 64, &writer)); /* headers of three elements, and the status */
    der_write(&writer, token);
    size_t mark = der_mark(&writer);
    der_write_uint(&writer, DER_INTEGER, STATUS_GRANTED);
    der_wrap(&writer, DER_SEQUENCE, mark);
    der_wrap(&writer, DER_SEQUENCE, 0);
    return der_written(&writer, ret_reply);
}

/* A named bit list: trailing zero bits are not encoded (X.690 11.2.2). */
static void write_failure(struct der_writer *writer, unsigned bit)
{
    uint8_t body[5] = { (uint8_t)(7 - bit % 8) };
    body[1 + bit / 8] = (uint8_t)(0x80 >> bit % 8);
    der_write_element(writer, DER_BIT_STRING, span_of(body, 2 + bit / 8));
}

struct fault tsa_reply_refused(struct op *op, struct fault fault, const char *text, struct span *ret_reply)
{
    BUG_IF(!FAULTED(fault));
    struct der_writer writer;
    TRY(room_for_reply(op, 512, &writer));
    write_failure(&writer, failure_bit(fault));
    size_t mark = der_mark(&writer);
    der_write_element(&writer, DER_UTF8_STRING, span_text(text));
    der_wrap(&writer, DER_SEQUENCE, mark);
    der_write_uint(&writer, DER_INTEGER, STATUS_REJECTION);
    der_wrap(&writer, DER_SEQUENCE, 0);
    der_wrap(&writer, DER_SEQUENCE, 0);
    return der_written(&writer, ret_reply);
}
