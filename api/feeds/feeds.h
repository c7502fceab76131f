/*
 * Audit feeds: a tenant's audit records, sent to log collectors as they come about. A feed has a configuration of
 * immutable versions and at most one open batch: a contiguous range of records with the chain before it and at its end,
 * rendered the same at every attempt. The batch travels by the outbound outbox, so a collector that hangs holds up
 * nothing but its own feed. Delivery is at least once; records that tell of feeds go with the next batch, but never
 * make one.
 *
 * Events, in the lanes "feed-config" and "feeds":
 *   audit.feed.configured   a new version of a feed's configuration
 *   audit.feed.batched      a range was taken for the next batch; its projection queues the outbox row
 *   audit.feed.requeued     the outbox row was missing, the history still matches: it is queued again
 *   audit.feed.delivered    the collector has accepted the batch
 *   audit.feed.failed       it never will: the feed stands still until it is saved again
 */
#ifndef API_FEEDS_FEEDS_H
#define API_FEEDS_FEEDS_H

#include "api/feature.h"

extern const struct feature feeds_feature;

#endif
