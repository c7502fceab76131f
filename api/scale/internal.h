#ifndef API_SCALE_INTERNAL_H
#define API_SCALE_INTERNAL_H

#include "api/scale/scale.h"
#include "api/server/request.h"

#define SCALE_RUNS_MAX 32
#define SCALE_FILE_MAX ((size_t)256 << 10)

/* The release gates of scripts/perf, and the sizes of the credential bands. */
enum scale_gate { GATE_SMOKE, GATE_LIVE, GATE_SOAK, GATE_BURST, GATE_BAND, GATE_FAILOVER, GATE_COUNT };
const char *scale_gate_text(enum scale_gate gate);

struct scale_run {
    enum scale_gate gate;
    char profile[33]; /* "cap-small", "100000", "two-replicas"; "" when the gate has only one */
    size_t at, len;   /* in the text: canonical JSON, what the file says of it */
};
struct scale {
    struct buf text;
    struct scale_run runs[SCALE_RUNS_MAX];
    size_t count;
};

/* Reads and checks measured.json. Without the file nothing is measured. CONFIG, and op's note says where, when it is
 * not what scripts/perf writes: a figure that cannot be read is not shown. */
struct fault scale_load(struct op *op, const char *policy_dir, struct scale **ret_scale);
/* The same from bytes. */
struct fault scale_parse(struct op *op, struct span json, struct scale **ret_scale);
void scale_free(struct scale *scale);
DEFINE_FREEP(struct scale, scale_free)
/* The newest run of a gate, NULL when there is none; profile NULL: whatever its profile. */
const struct scale_run *scale_latest(const struct scale *scale, enum scale_gate gate, const char *profile);
/* Member `key`: the run, or null. */
void scale_print_latest(struct jout *out, const char *key, const struct scale *scale, enum scale_gate gate,
                        const char *profile);

struct fault route_scale_orchestration(struct request *request);
struct fault route_scale_ha_issuance(struct request *request);

#endif
