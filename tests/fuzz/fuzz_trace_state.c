/* rooms: server telemetry */
/* A stranger's tracestate headers, and an OTLP receiver's answers. The first byte picks. What is passed on is a
 * tracestate of its own right, within its limits, whatever was cut; what a receiver says is one printable line. */
#include "api/server/trace.h"
#include "api/telemetry/otlp.h"

static void try_state(const char *text)
{
    CLEANUP(buf_free) struct buf state = BUF_INIT(16384);
    CLEANUP(buf_free) struct buf again = BUF_INIT(16384);
    size_t members = 0, kept = 0;
    const char *printed = NULL;
    if (!tracestate_add(text, &state, &members)) {
        return;
    }
    BUG_IF(members > TRACESTATE_MEMBERS_MAX);
    tracestate_cut(&state);
    BUG_IF(state.len > TRACESTATE_MAX || FAULTED(buf_cstr(&state, &printed)));
    BUG_IF(strlen(printed) != state.len || strpbrk(printed, "\r\n") != NULL);
    BUG_IF(!tracestate_add(printed, &again, &kept) || kept > members);
    BUG_IF(!span_equal(buf_span(&again), buf_span(&state)));
}

static void try_answer(struct span body)
{
    char why[64];
    int64_t rejected = -1;
    otlp_decode_answer(body, (body.len & 1) != 0, &rejected, why, sizeof(why));
    BUG_IF(rejected < 0 || memchr(why, '\0', sizeof(why)) == NULL);
    for (const char *at = why; *at != '\0'; at++) {
        BUG_IF(*at < ' ' || *at > '~');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[8192];
    if (size < 1 || size > sizeof(text)) {
        return 0;
    }
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    switch (data[0] % 3) {
    case 0:
        try_state(text);
        break;
    case 1:
        try_answer(span_of(data + 1, size - 1));
        break;
    default:
        BUG_IF(otlp_retry_after_ns(text, 0) < 0);
    }
    return 0;
}
