/* What the files of api/compliance/ share. */
#ifndef API_COMPLIANCE_INTERNAL_H
#define API_COMPLIANCE_INTERNAL_H

#include "api/compliance/evaluate.h"
#include "api/inventory/inventory.h"
#include "api/keys/keys.h"
#include "api/server/request.h"

#define COMPLIANCE_LANE "compliance"
#define PACK_READ_EVENT "compliance.pack.read"

/* ---- load*.c: everything a pack rests on, of op's tenant, read within one snapshot (REPEATABLE READ, read only) ----
 */
struct evidence_type_count {
    const char *type;
    int64_t count;
};
struct evidence {
    struct evidence_facts facts; /* for framework_evaluate */
    utc_us now;                  /* of the snapshot: facts.window.to */
    /* the audit trail as of the snapshot */
    int64_t head_sequence, generation, archived_through;
    struct sha256 chain_head;
    /* the window's population: records of the served trail in it, by type; those outside of it. With archived_through
     * they make head_sequence. */
    int64_t window_first, window_last; /* sequences; 0 = none */
    int64_t window_total, outside_total;
    int64_t archived_total; /* of the archived ones: those whose time lies in the window */
    const struct evidence_type_count *types;
    size_t type_count;
    /* datasets: canonical JSON */
    struct span custody, adcs, cbom, readiness;
    struct span counts; /* of the inventory by kind; where no framework is asked */
};
/* `framework` NULL: facts without gatherings, for the reports that ask no framework. BUG_IF(tx_open). */
struct fault evidence_load(struct op *op, struct services *services, const struct framework *framework, utc_us now,
                           struct evidence *ret_evidence);

/* ---- pack*.c ---- */
/* The framework of that id, as loaded. COMPLIANCE_FRAMEWORK, naming the ids that there are. */
struct fault pack_framework(struct op *op, const char *id, const struct framework **ret_framework);
/* The key that signs packs and reports now; made at first. */
struct fault pack_key(struct op *op, struct services *services, struct managed_key *ret_key);
/* Canonical JSON under that key, as a compact JWS of this typ; appended. */
struct fault pack_sign(struct op *op, struct services *services, const struct managed_key *key, const char *typ,
                       struct span payload, struct buf *compact);
/* The whole answer: seven members (docs/compliance.md). ret_digest: SHA-256 of the manifest's canonical bytes. */
struct fault pack_make(struct op *op, struct services *services, const char *framework, struct buf *json,
                       struct sha256 *ret_digest);
/* compliance.pack.read: who was given which pack or report (framework NULL: of none), its digest; durable when it
 * returns OK. */
struct fault pack_record_read(struct op *op, struct services *services, const char *artifact, const char *framework,
                              const struct sha256 *digest);

/* ---- feature.c ---- */
/* The frameworks as loaded at start. */
const struct frameworks *compliance_frameworks(void);

/* routes */
struct fault route_evidence_pack(struct request *request); /* pack_route.c */
struct fault route_evidence_keys(struct request *request); /* pack_keys.c */
struct fault route_evidence_key_rotate(struct request *request);
struct fault route_population_sample(struct request *request); /* sample.c */
struct fault route_inventory_report(struct request *request);  /* report.c */
struct fault route_schedule_preview(struct request *request);  /* schedules_route.c */
struct fault route_schedule_create(struct request *request);
struct fault route_schedule_list(struct request *request);
struct fault route_schedule_pause(struct request *request);
struct fault route_schedule_resume(struct request *request);
struct fault route_report_list(struct request *request);
struct fault route_report_get(struct request *request);

#endif
