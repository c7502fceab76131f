#include "api/events/internal.h"

/* Foreign errors become faults here and nowhere else. What is not listed is INTERNAL. */
static const struct {
    natsStatus status;
    struct fault fault;
} statuses[] = {
    { NATS_TIMEOUT, { FAULT_DEADLINE } },
    { NATS_NO_RESPONDERS, { FAULT_LOG_UNAVAILABLE } },
    { NATS_CONNECTION_CLOSED, { FAULT_LOG_UNAVAILABLE } },
    { NATS_CONNECTION_DISCONNECTED, { FAULT_LOG_UNAVAILABLE } },
    { NATS_CONNECTION_AUTH_FAILED, { FAULT_LOG_UNAVAILABLE } },
    { NATS_NO_SERVER, { FAULT_LOG_UNAVAILABLE } },
    { NATS_NOT_YET_CONNECTED, { FAULT_LOG_UNAVAILABLE } },
    { NATS_STALE_CONNECTION, { FAULT_LOG_UNAVAILABLE } },
    { NATS_IO_ERROR, { FAULT_LOG_UNAVAILABLE } },
    { NATS_INSUFFICIENT_BUFFER, { FAULT_LOG_UNAVAILABLE } },
    { NATS_DRAINING, { FAULT_LOG_UNAVAILABLE } },
    { NATS_NO_SERVER_SUPPORT, { FAULT_LOG_UNSAFE } },
    { NATS_MAX_PAYLOAD, { FAULT_TOO_LARGE } },
    { NATS_NOT_FOUND, { FAULT_NOT_FOUND } },
    { NATS_NO_MEMORY, { FAULT_NO_MEMORY } },
};

static const struct {
    unsigned code;
    struct fault fault;
} js_codes[] = {
    { JSStreamWrongLastSequenceErr, { FAULT_LOG_CONFLICT } },
    { 10164, { FAULT_LOG_CONFLICT } }, /* newer servers: the same without the sequence in its text */
    { JSStreamMessageExceedsMaximumErr, { FAULT_TOO_LARGE } },
    { JSNoMessageFoundErr, { FAULT_NOT_FOUND } },
    { JSSequenceNotFoundErr, { FAULT_NOT_FOUND } },
    { JSStreamNotFoundErr, { FAULT_LOG_UNTRUSTED } },
    { JSAccountResourcesExceededErr, { FAULT_LOG_UNAVAILABLE } },
    { JSClusterNotAvailErr, { FAULT_LOG_UNAVAILABLE } },
    { JSClusterNotLeaderErr, { FAULT_LOG_UNAVAILABLE } },
    { JSClusterIncompleteErr, { FAULT_LOG_UNAVAILABLE } },
    { JSClusterNoPeersErr, { FAULT_LOG_UNAVAILABLE } },
    { JSInsufficientResourcesErr, { FAULT_LOG_UNAVAILABLE } },
    { JSStorageResourcesExceededErr, { FAULT_LOG_UNAVAILABLE } },
    { JSStreamOfflineErr, { FAULT_LOG_UNAVAILABLE } },
    { JSStreamStoreFailedErr, { FAULT_LOG_UNAVAILABLE } },
    { JSStreamReplicasNotSupportedErr, { FAULT_LOG_UNSAFE } },
    { JSStreamSubjectOverlapErr, { FAULT_LOG_UNSAFE } },
    { JSNotEnabledErr, { FAULT_LOG_UNAVAILABLE } },
    { JSNotEnabledForAccountErr, { FAULT_LOG_UNAVAILABLE } },
};

struct fault nats_fault(struct op *op, natsStatus status, jsErrCode js_code, const char *doing)
{
    struct fault fault = FAULT(INTERNAL);
    for (size_t i = 0; i < COUNT_OF(statuses); i++) {
        if (statuses[i].status == status) {
            fault = statuses[i].fault;
        }
    }
    for (size_t i = 0; i < COUNT_OF(js_codes); i++) {
        if (js_codes[i].code == (unsigned)js_code) {
            fault = js_codes[i].fault;
        }
    }
    if (op != NULL) {
        op_note_log(op, "event log: %s: %s, JetStream error %u", doing, natsStatus_GetText(status), (unsigned)js_code);
    }
    return fault;
}
