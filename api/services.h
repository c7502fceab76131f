/* What a running svc-api has, handed to handlers and workers. Owned by main.c; read-only after start. */
#ifndef API_SERVICES_H
#define API_SERVICES_H

#include "api/events/events.h"
#include "api/identity/identity.h"
#include "api/outbox/outbox.h"
#include "api/projection/projection.h"
#include "api/store/store.h"
#include "api/telemetry/metrics.h"
#include "appliance/base/bulkheads.h"
#include "appliance/base/config.h"
#include "appliance/base/secret.h"
#include "signer-pkcs11/client/client.h"

struct tsa;          /* api/tsa/tsa.h: the time-stamping authorities, the first one first */
struct tsa_tenants;  /* api/tsa/tenants.h: how they are configured */
struct policy;       /* api/policy/policy.h: the rules of signing */
struct attest;       /* api/attest/attest.h: identity methods and their issuers' keys */
struct transparency; /* api/transparency/transparency.h: the logs and their pinned keys */
struct rate;         /* api/server/rate.h: the request budget of each tenant */
struct presence;     /* api/server/presence.h: that this instance is alive */
struct scale;        /* api/scale/internal.h: what was measured of this version */
struct snapshots;    /* api/snapshot/worker.c: who writes snapshots of the read model */
struct otlp_export;  /* api/otlp/internal.h: spans and audit records for an OTLP receiver */
struct feeds;        /* api/feeds/internal.h: where audit feeds may go */

struct services {
    const struct config *config;
    struct bulkheads *bulkheads; /* NULL in a local command: nothing is bounded */
    struct store *store;
    struct event_log *log;
    struct projector *projector;
    struct outbox *outbox;
    struct identity *identity;
    struct signer_client *signer;
    struct metrics *metrics;
    struct secret *fingerprint_key;    /* 64 hex digits: HMAC key of preview fingerprints and cursors */
    struct tsa *tsa;                   /* NULL when protocols.tsa.enabled is false */
    struct tsa_tenants *tsa_tenants;   /* likewise */
    struct policy *policy;             /* NULL when ca.policy.enabled is false */
    struct attest *attest;             /* NULL when code_signing.keyless.enabled is false */
    struct transparency *transparency; /* NULL when no log is configured */
    struct feeds *feeds;
    struct otlp_export *otlp;    /* NULL when nothing is exported */
    struct snapshots *snapshots; /* NULL when snapshots.dir is not set */
    struct scale *scale;
    struct rate *rate;         /* NULL when rate_limit.enabled is false */
    struct presence *presence; /* held while it serves */
    struct outbox *outbound;   /* the outbox of rows that wait for others' services (outbox_row.outbound) */
    struct uuid instance;
};

#endif
