/*
 * The clock gate: whether this host's time may stand in a token, and which time that is.
 *
 * A background thread checks once a second what the kernel says of its clock, what the time servers agreed on (if any
 * are configured), whether the wall clock was stepped against CLOCK_BOOTTIME, and whether a leap second is near. It
 * publishes a verdict with the distance of the wall clock from CLOCK_BOOTTIME, good for CLOCK_FRESH_NS. A stamp takes
 * its time from that: one read of CLOCK_BOOTTIME and a few atomic loads. So nothing that happens to the wall clock
 * between two checks reaches a token, and a checker that died means refusal.
 *
 *     utc_us now;
 *     TRY(clock_gate_now(op, gate, &now));   -- TSA_TIME with a text for the client
 *
 * A time that was handed out is never followed by an earlier one; clock_gate_raise brings in what was issued before
 * this start and by other instances.
 *
 * Thread-safe: clock_gate_now, clock_gate_state, clock_gate_raise, clock_gate_agreed. clock_gate_check: one thread.
 */
#ifndef API_TSA_CLOCK_H
#define API_TSA_CLOCK_H

#include "appliance/base/config.h"
#include "appliance/base/op.h"

#define CLOCK_SERVERS_MAX 16
#define CLOCK_FRESH_NS    (3 * NS_PER_S) /* how long one check counts; one a second is made */

/* ---- what is looked at; injectable ---- */

struct clock_kernel {
    bool synchronised; /* it answers, and neither TIME_ERROR nor STA_UNSYNC */
    bool leap_ahead;   /* STA_INS or STA_DEL: at the end of this UTC day */
    bool leap_now;     /* TIME_OOP */
    int64_t max_error_us, estimated_error_us;
};
/* Both clocks at one moment. */
struct clock_reading {
    int64_t boot_ns, wall_ns; /* CLOCK_BOOTTIME; CLOCK_REALTIME since 1970 */
};
struct clock_source {
    int64_t (*boot)(void *arg);
    struct clock_reading (*read)(void *arg);
    struct clock_kernel (*kernel)(void *arg);
    void *arg;
};
extern const struct clock_source clock_source_host; /* adjtimex and clock_gettime */

/* What a majority of the time servers agreed on, as true time minus CLOCK_BOOTTIME: a step of the wall clock does not
 * alter it, so it judges the step. */
struct clock_agreement {
    int64_t at_boot_ns;      /* the round began; 0 = none yet */
    int64_t low_ns, high_ns; /* the truth lies between, asymmetry of the paths included */
    unsigned answered, agreed;
    bool leap_ahead; /* as many servers as the quorum announce a leap second */
};

/* ---- what is asked of it ---- */

enum clock_leap { CLOCK_LEAP_PAUSE, CLOCK_LEAP_SMEAR };
struct clock_rules {
    bool trust_host; /* the kernel's word is not asked for */
    enum clock_leap leap;
    int64_t accuracy_us;   /* what tokens state: the measured bound has to lie within */
    int64_t max_offset_us; /* from the servers' agreement; also the largest step that is let through */
    int64_t interval_ns;   /* between rounds */
    unsigned servers, quorum;
};
/* CONFIG and a note that names the key. */
struct fault clock_rules_init(struct op *op, const struct config *config, struct clock_rules *ret_rules);

/* ---- what comes out ---- */

enum clock_reason {
    CLOCK_TRUSTED,
    CLOCK_STARTING,       /* the servers' first round is not over */
    CLOCK_UNSYNCHRONISED, /* the kernel says so */
    CLOCK_ERROR,          /* the kernel's maximum error is beyond the accuracy */
    CLOCK_SERVERS,        /* too few time servers agreed, for too long */
    CLOCK_OFFSET,         /* the servers agree, and this clock is off */
    CLOCK_BOUND,          /* the servers cannot bound the error within the accuracy */
    CLOCK_STEPPED,        /* the wall clock was set; not confirmed yet */
    CLOCK_LEAP_SECOND,    /* around one */
    CLOCK_BEHIND,         /* before the last time that was issued */
    CLOCK_STALE,          /* the checks have stopped */
    CLOCK_REASON_COUNT
};
const char *clock_reason_text(enum clock_reason reason);     /* "unsynchronised": label, event, log */
const char *clock_reason_says(enum clock_reason reason);     /* a sentence for clients */
const char *clock_reason_recovery(enum clock_reason reason); /* what the operator does; "" when trusted */

struct clock_state {
    enum clock_reason reason;
    bool kernel_synchronised, trusts_host;
    int64_t bound_us; /* how far off the time can be; -1 = nobody measures it (trust_host without servers) */
    int64_t kernel_error_us;
    bool offset_known;
    int64_t offset_us; /* of the servers' agreement from this clock: positive = this clock is behind */
    unsigned servers, answered, agreed;
    uint64_t steps; /* of the wall clock, since the start */
    utc_us last_issued;
};

/* ---- the gate ---- */

struct clock_gate;
/* Nothing is checked yet: clock_gate_now refuses with STARTING. `source` is copied. */
struct fault clock_gate_new(const struct clock_rules *rules, const struct clock_source *source,
                            struct clock_gate **ret_gate);
void clock_gate_free(struct clock_gate *gate);
DEFINE_FREEP(struct clock_gate, clock_gate_free)

/* One check. Gives the reason it published. */
enum clock_reason clock_gate_check(struct clock_gate *gate);
/* A round in which enough servers agreed. One that failed is not handed in: what stood before ages. */
void clock_gate_agreed(struct clock_gate *gate, const struct clock_agreement *agreement);
/* A round is over, whatever came of it: from now on it is not STARTING any more. */
void clock_gate_round_over(struct clock_gate *gate, unsigned answered);
/* True once after something happened that the servers should be asked about at once. */
bool clock_gate_wants_round(struct clock_gate *gate);
/* Nothing before `mark` is issued from now on. */
void clock_gate_raise(struct clock_gate *gate, utc_us mark);

/* The time for one token. TSA_TIME with the reason's sentence as note; *ret_reason (if not NULL) also on refusal. */
struct fault clock_gate_now(struct op *op, struct clock_gate *gate, utc_us *ret_now, enum clock_reason *ret_reason);
void clock_gate_state(struct clock_gate *gate, struct clock_state *ret_state);

/* ---- clock_judge.c: the rules, pure ---- */

struct clock_facts {
    struct clock_reading now;
    struct clock_kernel kernel;
    struct clock_agreement agreement;
    bool rounds_over;        /* at least one */
    int64_t stepped_boot_ns; /* the last step that is not settled; 0 = none */
    unsigned calm_checks;    /* since then */
    int64_t leap_wall_ns;    /* the midnight of the leap second that is near; 0 = none */
};
struct clock_verdict {
    enum clock_reason reason, then; /* `then`: when `good_ns` are over */
    int64_t good_ns;
    int64_t bound_us;
    bool offset_known;
    int64_t offset_us;
};
struct clock_verdict clock_judge(const struct clock_rules *rules, const struct clock_facts *facts);
/* The midnight at which a leap second is announced, or which has just passed with one; 0 = none. `before`: the last
 * answer. */
int64_t clock_leap_midnight(const struct clock_facts *facts, int64_t before);
#define CLOCK_CALM_CHECKS 5 /* after a step without servers: so many checks without another */

#endif
