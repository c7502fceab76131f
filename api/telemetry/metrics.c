#include "api/telemetry/metrics.h"

#include "api/telemetry/internal.h"
#include "appliance/base/alloc.h"

#include <math.h>
#include <stdio.h>

/* Upper bounds in seconds, every latency that policies/monitoring/slo.yaml promises among them; the last bucket, +Inf,
 * is implied. */
const double metrics_bounds[METRICS_BOUNDS] = { 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15,
                                                0.25,  0.3,    0.5,   0.75, 1,     2.5,  5,     10,  30 };

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text != 0; text++) {
        hash = (hash ^ (uint8_t)*text) * 0x100000001b3ULL; /* FNV-1a */
    }
    return (hash ^ 0xff) * 0x100000001b3ULL; /* so that "a","b" is not "ab","" */
}

static size_t family_bucket(const struct metric *metric)
{
    return ((uintptr_t)metric / alignof(struct metric)) % METRICS_ALIASES;
}

static size_t label_count(const struct metric *metric)
{
    size_t count = 0;
    while (count < METRIC_LABELS_MAX && metric->labels[count] != NULL) {
        count++;
    }
    return count;
}

/* Values as the series keeps them: "" for a missing one, cut to the bound. */
static void label_values(const struct family *family, const char *const *labels,
                         char out[METRIC_LABELS_MAX][METRICS_LABEL_SIZE])
{
    bool ended = labels == NULL;
    for (size_t i = 0; i < family->label_count; i++) {
        ended = ended || labels[i] == NULL;
        (void)snprintf(out[i], METRICS_LABEL_SIZE, "%s", ended ? "" : labels[i]);
    }
}

static bool same_series(const struct family *family, const struct series *series,
                        char values[METRIC_LABELS_MAX][METRICS_LABEL_SIZE])
{
    for (size_t i = 0; i < family->label_count; i++) {
        if (strcmp(series->values[i], values[i]) != 0) {
            return false;
        }
    }
    return true;
}

static struct series *series_find(struct family *family, size_t bucket,
                                  char values[METRIC_LABELS_MAX][METRICS_LABEL_SIZE])
{
    struct series *series = atomic_load_explicit(&family->buckets[bucket], memory_order_acquire);
    while (series != NULL && !same_series(family, series, values)) {
        series = series->next;
    }
    return series;
}

static size_t series_bucket(const struct family *family, char values[METRIC_LABELS_MAX][METRICS_LABEL_SIZE])
{
    uint64_t hash = 0xcbf29ce484222325ULL;
    for (size_t i = 0; i < family->label_count; i++) {
        hash = hash_text(hash, values[i]);
    }
    return hash % METRICS_BUCKETS;
}

/* With the registry's lock. NULL without memory: the sample is lost, nothing else. */
static struct series *series_add_locked(struct family *family, size_t bucket,
                                        char values[METRIC_LABELS_MAX][METRICS_LABEL_SIZE])
{
    struct series *series = NULL;
    size_t cells = family->metric->kind == METRIC_HISTOGRAM ? METRICS_BOUNDS + 1 : 0;
    if (FAULTED(mem_new(1, sizeof(*series) + cells * sizeof(series->cells[0]), &series))) {
        return NULL;
    }
    for (size_t i = 0; i < family->label_count; i++) {
        (void)snprintf(series->values[i], METRICS_LABEL_SIZE, "%s", values[i]);
    }
    series->next = atomic_load_explicit(&family->buckets[bucket], memory_order_relaxed);
    *family->last = series;
    family->last = &series->later;
    family->series_count++;
    atomic_store_explicit(&family->buckets[bucket], series, memory_order_release);
    return series;
}

/* `spill`: beyond the cap it is the series of all others; otherwise NULL. */
static struct series *series_get(struct metrics *metrics, struct family *family, const char *const *labels, bool spill)
{
    char values[METRIC_LABELS_MAX][METRICS_LABEL_SIZE];
    label_values(family, labels, values);
    size_t bucket = series_bucket(family, values);
    struct series *series = series_find(family, bucket, values);
    if (series != NULL) {
        return series;
    }
    BUG_IF(pthread_mutex_lock(&metrics->lock) != 0);
    series = series_find(family, bucket, values);
    bool full = family->series_count >= METRICS_SERIES_MAX;
    if (series == NULL && full && spill) {
        for (size_t i = 0; i < family->label_count; i++) {
            (void)snprintf(values[i], METRICS_LABEL_SIZE, "other");
        }
        bucket = series_bucket(family, values);
        series = series_find(family, bucket, values);
    }
    if (series == NULL && (!full || spill)) {
        series = series_add_locked(family, bucket, values);
    }
    BUG_IF(pthread_mutex_unlock(&metrics->lock) != 0);
    return series;
}

static bool name_valid(const char *name, bool colon)
{
    for (const char *at = name; *at != 0; at++) {
        bool letter = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || *at == '_' || (colon && *at == ':');
        if (!letter && (at == name || *at < '0' || *at > '9')) {
            return false;
        }
    }
    return *name != 0;
}

static struct fault metric_check(const struct metric *metric)
{
    REQUIRE(name_valid(metric->name, true), BAD_ARGUMENT);
    for (size_t i = 0; i < label_count(metric); i++) {
        REQUIRE(name_valid(metric->labels[i], false), BAD_ARGUMENT);
    }
    return OK;
}

static struct fault same_metric(const struct metric *a, const struct metric *b)
{
    REQUIRE(a->kind == b->kind && label_count(a) == label_count(b), BAD_ARGUMENT);
    for (size_t i = 0; i < label_count(a); i++) {
        REQUIRE(strcmp(a->labels[i], b->labels[i]) == 0, BAD_ARGUMENT);
    }
    return OK;
}

static struct family *family_find(struct metrics *metrics, const struct metric *metric)
{
    struct alias *alias = atomic_load_explicit(&metrics->aliases[family_bucket(metric)], memory_order_acquire);
    while (alias != NULL && alias->metric != metric) {
        alias = alias->next;
    }
    return alias != NULL ? alias->family : NULL;
}

static struct fault family_add_locked(struct metrics *metrics, const struct metric *metric, struct family **ret_family)
{
    for (struct family *family = metrics->first; family != NULL; family = family->later) {
        if (strcmp(family->metric->name, metric->name) == 0) {
            TRY(same_metric(family->metric, metric));
            *ret_family = family;
            return OK;
        }
    }
    struct family *family = NULL;
    TRY(mem_new(1, sizeof(*family), &family));
    family->metric = metric;
    family->label_count = label_count(metric);
    family->last = &family->first;
    *metrics->last = family;
    metrics->last = &family->later;
    *ret_family = family;
    return OK;
}

static struct fault family_enter_locked(struct metrics *metrics, const struct metric *metric,
                                        struct family **ret_family)
{
    *ret_family = family_find(metrics, metric);
    if (*ret_family != NULL) {
        return OK;
    }
    TRY(metric_check(metric));
    struct alias *alias = NULL;
    TRY(mem_new(1, sizeof(*alias), &alias));
    struct fault fault = family_add_locked(metrics, metric, &alias->family);
    if (FAULTED(fault)) {
        mem_free(alias);
        return fault;
    }
    alias->metric = metric;
    _Atomic(struct alias *) *bucket = &metrics->aliases[family_bucket(metric)];
    alias->next = atomic_load_explicit(bucket, memory_order_relaxed);
    *ret_family = alias->family;
    atomic_store_explicit(bucket, alias, memory_order_release);
    return OK;
}

static struct fault family_enter(struct metrics *metrics, const struct metric *metric, struct family **ret_family)
{
    BUG_IF(pthread_mutex_lock(&metrics->lock) != 0);
    struct fault fault = family_enter_locked(metrics, metric, ret_family);
    BUG_IF(pthread_mutex_unlock(&metrics->lock) != 0);
    return fault;
}

struct fault metrics_new(struct metrics **ret_metrics)
{
    struct metrics *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    BUG_IF(pthread_mutex_init(&made->lock, NULL) != 0);
    made->last = &made->first;
    *ret_metrics = made;
    return OK;
}

static void family_free(struct family *family)
{
    for (struct series *series = family->first; series != NULL;) {
        struct series *later = series->later;
        mem_free(series);
        series = later;
    }
    mem_free(family);
}

void metrics_free(struct metrics *metrics)
{
    if (metrics == NULL) {
        return;
    }
    for (struct family *family = metrics->first; family != NULL;) {
        struct family *later = family->later;
        family_free(family);
        family = later;
    }
    for (size_t i = 0; i < METRICS_ALIASES; i++) {
        for (struct alias *alias = atomic_load(&metrics->aliases[i]); alias != NULL;) {
            struct alias *next = alias->next;
            mem_free(alias);
            alias = next;
        }
    }
    BUG_IF(pthread_mutex_destroy(&metrics->lock) != 0);
    mem_free(metrics);
}

struct fault metrics_register(struct metrics *metrics, const struct metric *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct family *family = NULL;
        TRY(family_enter(metrics, &rows[i], &family));
        if (family->label_count == 0) {
            REQUIRE(series_get(metrics, family, NULL, true) != NULL, NO_MEMORY);
        }
    }
    return OK;
}

/* The series of a sample; NULL (no memory, or a row that contradicts another) loses the sample. */
static struct series *sample(struct metrics *metrics, const struct metric *metric, const char *const *labels,
                             bool spill)
{
    struct family *family = family_find(metrics, metric);
    if (family == NULL && FAULTED(family_enter(metrics, metric, &family))) {
        return NULL;
    }
    return series_get(metrics, family, labels, spill);
}

static void cell_add(_Atomic(double) *cell, double by)
{
    double old = atomic_load_explicit(cell, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(cell, &old, old + by, memory_order_relaxed, memory_order_relaxed)) {
    }
}

void metrics_add(struct metrics *metrics, const struct metric *metric, double by, const char *const *labels)
{
    struct series *series = sample(metrics, metric, labels, true);
    if (series != NULL) {
        cell_add(&series->value, by);
    }
}

void metrics_set(struct metrics *metrics, const struct metric *metric, double value, const char *const *labels)
{
    struct series *series = sample(metrics, metric, labels, false);
    if (series != NULL) {
        atomic_store_explicit(&series->value, value, memory_order_relaxed);
    }
}

void metrics_set_all(struct metrics *metrics, const struct metric *metric, double value)
{
    const struct family *family = family_find(metrics, metric);
    BUG_IF(pthread_mutex_lock(&metrics->lock) != 0);
    for (struct series *series = family != NULL ? family->first : NULL; series != NULL; series = series->later) {
        atomic_store_explicit(&series->value, value, memory_order_relaxed);
    }
    BUG_IF(pthread_mutex_unlock(&metrics->lock) != 0);
}

void metrics_observe(struct metrics *metrics, const struct metric *metric, double seconds, const char *const *labels)
{
    BUG_IF(metric->kind != METRIC_HISTOGRAM);
    struct series *series = sample(metrics, metric, labels, true);
    if (series == NULL) {
        return;
    }
    size_t bucket = 0;
    while (bucket < METRICS_BOUNDS && !(seconds <= metrics_bounds[bucket])) {
        bucket++;
    }
    (void)atomic_fetch_add_explicit(&series->cells[bucket], 1, memory_order_relaxed);
    cell_add(&series->value, isfinite(seconds) ? seconds : 0);
}
