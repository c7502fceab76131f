#include "api/docs.h"

#include "api/feature.h"

static const char *const methods[] = { "GET", "POST", "PUT", "DELETE" };

static const char *access_of(const struct route *route)
{
    if (route->permission == PERMISSION_PUBLIC) {
        return "public";
    }
    return route->permission == PERMISSION_NONE ? "any token" : permission_text(route->permission);
}

static struct fault print_routes(struct buf *out, const struct feature *feature)
{
    for (size_t i = 0; i < feature->route_count; i++) {
        const struct route *route = &feature->routes[i];
        TRY(buf_printf(out, "| %s | `%s` | %s | %s | %s |\n", methods[route->method], route->path, access_of(route),
                       (route->flags & ROUTE_MUTATION) != 0 ? "yes" : "", route->doc != NULL ? route->doc : ""));
    }
    return OK;
}

static struct fault print_events(struct buf *out, const struct feature *feature)
{
    for (size_t i = 0; i < feature->event_count; i++) {
        const struct event_row *event = &feature->events[i];
        TRY(buf_printf(out, "| `%s` | %lld | %s |\n", event->type, (long long)event->schema_version,
                       event->doc != NULL ? event->doc : ""));
    }
    return OK;
}

static struct fault print_outbox(struct buf *out, const struct feature *feature)
{
    for (size_t i = 0; i < feature->outbox_count; i++) {
        const struct outbox_row *row = &feature->outbox[i];
        TRY(buf_printf(out, "| `%s` | %d ms | %u | %s |\n", row->destination, row->deadline_ms, row->attempts,
                       row->doc != NULL ? row->doc : ""));
    }
    return OK;
}

static struct fault print_faults(struct buf *out)
{
    size_t count = 0;
    const struct fault_row *rows = fault_rows(&count);
    for (size_t i = 1; i < count; i++) {
        TRY(buf_printf(out, "| `%s` | %d | %s | %s |\n", rows[i].text, rows[i].http,
                       rows[i].retry == FAULT_RETRY_LATER ? "later, Retry-After is sent" : "no", rows[i].title));
    }
    return OK;
}

struct fault docs_print(struct buf *out)
{
    static const struct {
        const char *heading;
        struct fault (*print)(struct buf *out, const struct feature *feature);
    } sections[] = {
        { "\n## Routes\n\n| method | path | permission | Idempotency-Key | what it does |\n|---|---|---|---|---|\n",
          print_routes },
        { "\n## Events\n\n| type | schema | when |\n|---|---|---|\n", print_events },
        { "\n## Outbox destinations\n\n| destination | deadline | attempts | effect |\n|---|---|---|---|\n",
          print_outbox },
    };
    TRY(buf_text(out,
                 "# API reference\n\nPrinted by `svc-api docs` from the tables that the program runs on. Request and "
                 "answer fields: `/api/v1/openapi.json`. Metrics: docs/metrics.md.\n"));
    size_t count = 0;
    const struct feature *const *features = features_all(&count);
    for (size_t s = 0; s < COUNT_OF(sections); s++) {
        TRY(buf_text(out, sections[s].heading));
        for (size_t i = 0; i < count; i++) {
            TRY(sections[s].print(out, features[i]));
        }
    }
    TRY(buf_text(out,
                 "\n## Failure codes\n\nThe `code` of a problem body; codes are stable, titles and details are not.\n\n"
                 "| code | status | retry | title |\n|---|---|---|---|\n"));
    return print_faults(out);
}

struct fault docs_print_metrics(struct buf *out)
{
    CLEANUP(metrics_freep) struct metrics *metrics = NULL;
    TRY(metrics_new(&metrics));
    TRY(features_metrics(metrics));
    TRY(buf_text(
        out,
        "# Metrics\n\nPrinted by `svc-api metrics` from the registry that `/metrics` is printed from. How to scrape "
        "it, and what to be alerted about: docs/monitoring.md.\n\n"));
    return metrics_describe(metrics, out);
}
