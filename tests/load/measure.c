/*
 * Latencies in buckets that are at most 1/64 wide (1.6 per cent), from a microsecond to more than an hour, so that a
 * run of any length takes the same memory; the largest is kept exactly. One measure for each worker, added up at the
 * end.
 */
#include "tests/load/load.h"

#include <stdio.h>
#include <time.h>

#define SUB_BITS 6
#define SUB      (1u << SUB_BITS)
#define BUCKETS  (SUB * 28u)

struct code {
    char text[48];
    uint64_t count;
};
struct cell {
    uint64_t ended[3]; /* by outcome */
    uint64_t repeats, bytes, buckets[BUCKETS];
    double sum, max;
    struct code codes[CODES_MAX]; /* the last one takes what does not fit */
};
struct measure {
    const struct profile *profile;
    struct cell *cells; /* [phase][step] */
    uint64_t missed[PHASES_MAX];
};

static struct cell *cell_at(const struct measure *measure, size_t phase, size_t step)
{
    return &measure->cells[phase * measure->profile->step_count + step];
}

struct measure *measure_new(const struct profile *profile)
{
    struct measure *measure = calloc(1, sizeof(*measure));
    struct cell *cells = calloc(profile->phase_count * profile->step_count, sizeof(*cells));
    if (measure == NULL || cells == NULL) {
        die("out of memory");
    }
    measure->profile = profile;
    measure->cells = cells;
    return measure;
}

static size_t bucket_of(uint64_t us)
{
    if (us < SUB) {
        return us;
    }
    unsigned shift = 63u - (unsigned)__builtin_clzll(us) - SUB_BITS;
    size_t bucket = (shift + 1) * SUB + (us >> shift) - SUB;
    return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

/* The upper end of a bucket, in seconds. */
static double bucket_end(size_t bucket)
{
    if (bucket < SUB) {
        return (double)(bucket + 1) * 1e-6;
    }
    size_t shift = bucket / SUB - 1;
    return (double)((bucket % SUB + SUB + 1) << shift) * 1e-6;
}

void measure_end(struct measure *measure, size_t phase, size_t step, enum outcome outcome, double seconds,
                 unsigned repeats, uint64_t bytes)
{
    struct cell *cell = cell_at(measure, phase, step);
    cell->ended[outcome]++;
    cell->repeats += repeats;
    if (outcome != OUTCOME_DONE) {
        return;
    }
    cell->bytes += bytes;
    cell->buckets[bucket_of((uint64_t)(seconds * 1e6))]++;
    cell->sum += seconds;
    cell->max = seconds > cell->max ? seconds : cell->max;
}

static void code_add(struct cell *cell, const char *code, uint64_t count)
{
    for (size_t i = 0; i < CODES_MAX; i++) {
        struct code *at = &cell->codes[i];
        if (at->count == 0) {
            (void)snprintf(at->text, sizeof(at->text), "%s", i + 1 < CODES_MAX ? code : "other");
        }
        if (i + 1 == CODES_MAX || strncmp(at->text, code, sizeof(at->text) - 1) == 0) {
            at->count += count;
            return;
        }
    }
}

void measure_code(struct measure *measure, size_t phase, size_t step, const char *code)
{
    code_add(cell_at(measure, phase, step), code, 1);
}

void measure_missed(struct measure *measure, size_t phase, uint64_t arrivals)
{
    measure->missed[phase] += arrivals;
}

void measure_add(struct measure *sum, const struct measure *part)
{
    for (size_t i = 0; i < sum->profile->phase_count * sum->profile->step_count; i++) {
        struct cell *to = &sum->cells[i];
        const struct cell *from = &part->cells[i];
        for (size_t k = 0; k < COUNT_OF(to->ended); k++) {
            to->ended[k] += from->ended[k];
        }
        for (size_t k = 0; k < BUCKETS; k++) {
            to->buckets[k] += from->buckets[k];
        }
        for (size_t k = 0; k < CODES_MAX && from->codes[k].count > 0; k++) {
            code_add(to, from->codes[k].text, from->codes[k].count);
        }
        to->repeats += from->repeats;
        to->bytes += from->bytes;
        to->sum += from->sum;
        to->max = from->max > to->max ? from->max : to->max;
    }
    for (size_t i = 0; i < PHASES_MAX; i++) {
        sum->missed[i] += part->missed[i];
    }
}

static double percentile_ms(const struct cell *cell, double part)
{
    uint64_t count = cell->ended[OUTCOME_DONE], seen = 0;
    uint64_t wanted = (uint64_t)((double)count * part);
    wanted = wanted < count ? wanted + 1 : count;
    for (size_t i = 0; i < BUCKETS; i++) {
        seen += cell->buckets[i];
        if (seen >= wanted && seen > 0) {
            double end = bucket_end(i);
            return (end < cell->max ? end : cell->max) * 1e3;
        }
    }
    return 0;
}

static void print_cell(const struct measure *sum, size_t step, const struct cell *cell, double seconds, FILE *out)
{
    uint64_t done = cell->ended[OUTCOME_DONE];
    (void)fprintf(
        out,
        "{\"row\":\"%s\",\"count\":%llu,\"refused\":%llu,\"unknown\":%llu,\"repeats\":%llu,\"bytes\":%llu,"
        "\"per_second\":%.2f,\"mean_ms\":%.3f,\"p50_ms\":%.3f,\"p95_ms\":%.3f,\"p99_ms\":%.3f,\"max_ms\":%.3f,"
        "\"errors\":{",
        sum->profile->step_names[step], (unsigned long long)done, (unsigned long long)cell->ended[OUTCOME_REFUSED],
        (unsigned long long)cell->ended[OUTCOME_UNKNOWN], (unsigned long long)cell->repeats,
        (unsigned long long)cell->bytes, seconds > 0 ? (double)done / seconds : 0,
        done > 0 ? cell->sum / (double)done * 1e3 : 0, percentile_ms(cell, 0.50), percentile_ms(cell, 0.95),
        percentile_ms(cell, 0.99), cell->max * 1e3);
    for (size_t i = 0; i < CODES_MAX && cell->codes[i].count > 0; i++) {
        (void)fprintf(out, "%s\"%s\":%llu", i > 0 ? "," : "", cell->codes[i].text,
                      (unsigned long long)cell->codes[i].count);
    }
    (void)fputs("}}", out);
}

void measure_print(const struct measure *sum, const struct phase_time *times, uint64_t seed, FILE *out)
{
    const struct profile *profile = sum->profile;
    (void)fprintf(out, "{\"seed\":%llu,\"threads\":%u,\"phases\":[", (unsigned long long)seed, profile->threads);
    for (size_t i = 0; i < profile->phase_count; i++) {
        const struct phase *phase = &profile->phases[i];
        char begun[RFC3339_MAX];
        rfc3339_print(times[i].begun, begun);
        (void)fprintf(out,
                      "%s\n {\"phase\":\"%s\",\"begun\":\"%s\",\"seconds\":%.3f,\"clients\":%u,\"rate\":%.2f,"
                      "\"missed\":%llu,\"rows\":[",
                      i > 0 ? "," : "", phase->name, begun, times[i].seconds, phase->clients, phase->rate,
                      (unsigned long long)sum->missed[i]);
        const char *comma = "";
        for (size_t step = 0; step < profile->step_count; step++) {
            const struct cell *cell = cell_at(sum, i, step);
            if (cell->ended[0] + cell->ended[1] + cell->ended[2] + cell->codes[0].count > 0) {
                (void)fprintf(out, "%s\n  ", comma);
                print_cell(sum, step, cell, times[i].seconds, out);
                comma = ",";
            }
        }
        (void)fputs("]}", out);
    }
    (void)fputs("]}\n", out);
}
