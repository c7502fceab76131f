#include "api/feeds/internal.h"

static const struct feed_error_row rows[FEED_ERROR_COUNT] = {
    [FEED_FINE] = { "", false, "" },
    [FEED_UNREACHABLE] = { "collector_unreachable", false,
                           "is the collector up, its name known, its certificate good?" },
    [FEED_BUSY] = { "collector_busy", false, "the collector asked for patience; it is asked again" },
    [FEED_FAULTY] = { "collector_error", false, "the collector failed; it is asked again" },
    [FEED_ANSWER] = { "collector_answer_malformed", false, "what answered is no such collector: check the address" },
    [FEED_UNACKNOWLEDGED] = { "not_acknowledged", false, "the collector has the batch and has not confirmed it yet" },
    [FEED_UNCLOSED] = { "connection_not_closed_cleanly", false, "the collector did not close the connection in order" },
    [FEED_NOT_ALLOWED] = { "destination_not_allowed", false,
                           "put it back into audit.feeds.allow, or save the feed anew" },
    [FEED_NO_CREDENTIAL] = { "credential_missing", false, "set the variable in svc-appliance's environment" },
    [FEED_NO_TOKEN] = { "token_issuer_unreachable", false, "the issuer of access tokens does not answer" },
    [FEED_CREDENTIAL] = { "credential_refused", true, "give the variable a good value, then save the feed again" },
    [FEED_NO_ACK] = { "acknowledgement_disabled", true,
                      "enable indexer acknowledgement for the token, or save the feed with acknowledgement: receipt" },
    [FEED_REJECTED] = { "batch_refused", true, "correct the configuration and save the feed again" },
    [FEED_CHANGED] = { "range_changed", true, "records were replaced or archived: save the feed again" },
    [FEED_RENDERED] = { "rendering_changed", true, "this version prints batches otherwise: save the feed again" },
};

const struct feed_error_row *feed_error_row(enum feed_error error)
{
    BUG_IF(error >= FEED_ERROR_COUNT);
    return &rows[error];
}
