#include "appliance/supervisor/unit.h"

#include "appliance/base/log.h"

#include <string.h>
#include <sys/wait.h>

#define BACKOFF_FIRST_MS 200
#define BACKOFF_MAX_MS   30000
#define BACKOFF_STEPS    8 /* 200 ms doubled eight times is beyond the maximum */
#define STABLE_NS        (60 * NS_PER_S)
#define PROBE_NS         (100 * NS_PER_MS)
#define PROBE_LIMIT_MS   3000
#define COMPLAIN_NS      (10 * NS_PER_S)
#define START_LIMIT_MS   10000
#define EXIT_REFUSED     2
#define REFUSALS_MAX     2
#define EXIT_GATE        3

int64_t unit_backoff_ns(unsigned step, uint32_t random)
{
    int64_t base = BACKOFF_FIRST_MS;
    for (unsigned i = 0; i < step && base < BACKOFF_MAX_MS; i++) {
        base *= 2;
    }
    base = base < BACKOFF_MAX_MS ? base : BACKOFF_MAX_MS;
    return (base * 3 / 4 + base * (random % 512) / 1024) * NS_PER_MS; /* between 75 and 125 percent */
}

static uint32_t jitter(void)
{
    uint32_t value = 0;
    IGNORE(random_bytes((uint8_t *)&value, sizeof(value))); /* without it: no jitter, which harms nobody */
    return value;
}

static void wait_for_start(struct unit *unit)
{
    unit->state = UNIT_WAITING;
    unit->next = clock_mono() + unit_backoff_ns(unit->backoff_step, jitter());
    if (unit->backoff_step < BACKOFF_STEPS) {
        unit->backoff_step++;
    }
}

/* ---- presence ---- */

static void tell(struct unit *unit, const struct appliance *appliance, enum unit_presence presence)
{
    unit->told_away = presence != UNIT_PRESENT;
    if (unit->row->presence != NULL) {
        unit->row->presence(appliance, presence);
    }
}

mono_ns unit_away_due(const struct unit *unit)
{
    bool away = unit->state == UNIT_WAITING || unit->state == UNIT_STARTING;
    return away && !unit->told_away && unit->row->presence != NULL ? unit->away_since + UNIT_PATIENCE_S * NS_PER_S
                                                                   : INT64_MAX;
}

void unit_tell_away(struct unit *unit, const struct appliance *appliance, mono_ns now)
{
    if (unit_away_due(unit) <= now) {
        log_write(WARN, "away", LOG_TEXT("unit", unit->row->name),
                  LOG_INT("seconds", (now - unit->away_since) / NS_PER_S));
        tell(unit, appliance, unit->pid != 0 ? UNIT_LATE : UNIT_ABSENT);
    }
}

/* ---- life ---- */

void unit_start(struct unit *unit, const struct appliance *appliance)
{
    unit->started = clock_mono();
    unit->next = unit->started;
    unit->next_complaint = unit->started + COMPLAIN_NS;
    unit->state = UNIT_STARTING;
    unit->away_since = unit->away_since != 0 ? unit->away_since : unit->started;
    if (unit->row->start == NULL) {
        return;
    }
    CLEANUP(op_freep) struct op *op = NULL;
    struct fault started = op_new("svc-appliance", (struct tenant_id){ 0 }, START_LIMIT_MS, &op);
    if (!FAULTED(started)) {
        started = unit->row->start(op, appliance, &unit->pid);
    }
    if (FAULTED(started)) {
        log_fault(LOG_LEVEL_ERROR, "start_failed", op, started);
        wait_for_start(unit);
        return;
    }
    log_write(INFO, "started", LOG_TEXT("unit", unit->row->name), LOG_INT("pid", unit->pid));
}

static void complain(struct unit *unit, const struct op *op, struct fault fault)
{
    mono_ns now = clock_mono();
    if (now < unit->next_complaint) {
        return;
    }
    unit->next_complaint = now + COMPLAIN_NS;
    log_write(WARN, "not_ready", LOG_TEXT("unit", unit->row->name),
              LOG_INT("seconds", (now - unit->started) / NS_PER_S), LOG_TEXT("code", fault_row(fault.code)->text),
              LOG_TEXT("detail", op != NULL && op->note.set ? op->note.detail : NULL));
}

void unit_probe(struct unit *unit, const struct appliance *appliance)
{
    CLEANUP(op_freep) struct op *op = NULL;
    struct fault asked = op_new("svc-appliance", (struct tenant_id){ 0 }, PROBE_LIMIT_MS, &op);
    if (!FAULTED(asked)) {
        asked = unit->row->probe(op, appliance);
    }
    if (FAULTED(asked)) {
        unit->next = clock_mono() + PROBE_NS;
        complain(unit, op, asked);
        return;
    }
    unit->state = UNIT_READY;
    unit->was_ready = true;
    tell(unit, appliance, UNIT_PRESENT);
    log_write(INFO, "ready", LOG_TEXT("unit", unit->row->name),
              LOG_INT("after_ms", (clock_mono() - unit->started) / NS_PER_MS));
}

static void tell_end(const struct unit *unit, int status)
{
    bool wanted = unit->state == UNIT_STOPPED;
    const char *event = wanted ? "stopped" : "ended";
    enum log_level level = wanted ? LOG_LEVEL_INFO : LOG_LEVEL_WARN;
    struct log_pair how =
        WIFSIGNALED(status) ? LOG_TEXT("signal", sigabbrev_np(WTERMSIG(status))) : LOG_INT("code", WEXITSTATUS(status));
    log_write_pairs(level, event, (const struct log_pair[]){ LOG_TEXT("unit", unit->row->name), how }, 2);
}

/* A self-test that failed once is not asked again; a configuration is, once, since what it was read with may have been
 * in passing. */
static bool is_refusal(struct unit *unit, int code)
{
    unit->refusals += code == EXIT_REFUSED ? 1 : 0;
    return code == EXIT_GATE || unit->refusals >= REFUSALS_MAX;
}

void unit_ended(struct unit *unit, const struct appliance *appliance, int status)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    bool was_starting = unit->state == UNIT_STARTING;
    unit->pid = 0;
    unit->away_since = was_starting ? unit->away_since : clock_mono();
    tell_end(unit, status);
    if (unit->state == UNIT_STOPPED) {
        return;
    }
    if (was_starting) { /* the next start may fare no better: whoever waits shall know now */
        tell(unit, appliance, UNIT_ABSENT);
    }
    if (!unit->was_ready && is_refusal(unit, code)) {
        unit->refused = code;
        unit->state = UNIT_STOPPED;
        return;
    }
    if (clock_mono() - unit->started > STABLE_NS) {
        unit->backoff_step = 0;
    }
    unit->restarts++;
    wait_for_start(unit);
}
