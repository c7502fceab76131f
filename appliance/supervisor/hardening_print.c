#include "appliance/base/json.h"
#include "appliance/supervisor/hardening_facts.h"

#define SECCOMP_FILTER 2

static void json_texts(struct jout *json, const char *key, const struct texts *texts)
{
    jout_key(json, key);
    jout_array(json);
    for (size_t i = 0; i < texts->count; i++) {
        jout_text(json, texts->at[i]);
    }
    jout_array_end(json);
}

static struct fault capabilities_of(struct op *op, uint64_t set, struct texts *ret_names)
{
    const char *name = NULL;
    *ret_names = (struct texts){ 0 };
    for (unsigned i = 0; i < 64; i++) {
        if ((set >> i & 1) != 0) {
            TRY(capability_text(op, i, &name));
            TRY(texts_add(op, ret_names, name));
        }
    }
    return OK;
}

static struct fault json_capabilities(struct op *op, const struct process_facts *facts, struct jout *json)
{
    static const char *const names[CAPS_COUNT] = { "inheritable", "permitted", "effective", "bounding", "ambient" };
    struct texts set;
    jout_key(json, "capabilities");
    jout_object(json);
    for (size_t i = 0; i < CAPS_COUNT; i++) {
        TRY(capabilities_of(op, facts->caps[i], &set));
        json_texts(json, names[i], &set);
    }
    jout_object_end(json);
    return OK;
}

static struct fault json_kind(struct op *op, const struct kind *kind, struct jout *json)
{
    const struct process_facts *facts = &kind->facts;
    jout_object(json);
    TRY(json_capabilities(op, facts, json));
    jout_key_int(json, "count", (int64_t)kind->count);
    if (!facts->is_root) {
        jout_key_bool(json, "dumpable", facts->dumpable);
    }
    json_texts(json, "groups", &facts->groups);
    jout_key(json, "limits");
    jout_object(json);
    jout_key_text(json, "core", facts->core);
    jout_key_text(json, "memlock", facts->memlock);
    jout_key_text(json, "nofile", facts->nofile);
    jout_object_end(json);
    json_texts(json, "listens", &facts->listens);
    jout_key_text(json, "name", facts->name);
    json_texts(json, "namespaces", &facts->namespaces);
    jout_key_bool(json, "no_new_privileges", facts->no_new_privs);
    jout_key_int(json, "oom_score_adj", facts->oom_score_adj);
    jout_key_text(json, "root", facts->root);
    jout_key_text(json, "seccomp",
                  facts->seccomp == SECCOMP_FILTER ? "filter"
                  : facts->seccomp == 0            ? "none"
                                                   : "strict");
    jout_key_int(json, "seccomp_filters", facts->filters);
    jout_key_text(json, "user", facts->user);
    if (!facts->is_root) {
        json_texts(json, "writable_folders", &facts->folders);
    }
    json_texts(json, "writable_mounts", &facts->mounts);
    jout_object_end(json);
    return OK;
}

/* What calls.def names, and who wants it. */
static void json_calls(struct jout *json)
{
    static const struct {
        const char *group, *who, *name;
    } rows[] = {
#define CALLS(group, who) { #group, who, NULL },
#define CALL(group, name) { #group, NULL, #name },
#include "appliance/stores/calls.def"
#undef CALLS
#undef CALL
    };
    jout_key(json, "refused_calls");
    jout_array(json);
    for (size_t i = 0; i < COUNT_OF(rows);) {
        jout_object(json);
        jout_key_text(json, "group", rows[i].group);
        jout_key_text(json, "who", rows[i].who);
        jout_key(json, "calls");
        jout_array(json);
        for (i++; i < COUNT_OF(rows) && rows[i].name != NULL; i++) {
            jout_text(json, rows[i].name);
        }
        jout_array_end(json);
        jout_object_end(json);
    }
    jout_array_end(json);
}

struct fault report_print_json(struct op *op, const struct report *report, struct buf *out)
{
    struct jout json;
    jout_init(&json, out);
    jout_object(&json);
    jout_key_raw(&json, "established", buf_span(&report->established));
    json_texts(&json, "privileged_files", &report->files);
    jout_key(&json, "processes");
    jout_array(&json);
    for (size_t i = 0; i < report->kind_count; i++) {
        TRY(json_kind(op, &report->kinds[i], &json));
    }
    jout_array_end(&json);
    json_calls(&json);
    jout_key_bool(&json, "whole_machine", report->whole_machine);
    jout_object_end(&json);
    TRY(jout_end(&json));
    return buf_text(out, "\n");
}

/* A list on one line; what is beyond a screen's width of it is in --json. */
static struct fault put_list(struct buf *out, const char *what, const struct texts *texts)
{
    TRY(buf_printf(out, "  %-18s", what));
    for (size_t i = 0; i < texts->count && i < 8; i++) {
        TRY(buf_printf(out, "%s%s", i > 0 ? ", " : "", texts->at[i]));
    }
    return texts->count > 8 ? buf_printf(out, " and %zu more\n", texts->count - 8)
                            : buf_text(out, texts->count == 0 ? "none\n" : "\n");
}

static struct fault put_kind(struct op *op, const struct kind *kind, struct buf *out)
{
    const struct process_facts *facts = &kind->facts;
    struct texts effective, bounding;
    TRY(capabilities_of(op, facts->caps[CAPS_EFFECTIVE], &effective));
    TRY(capabilities_of(op, facts->caps[CAPS_BOUNDING], &bounding));
    TRY(buf_printf(out, "%s", facts->name));
    TRY(kind->count > 1 ? buf_printf(out, " (%zu)", kind->count) : OK);
    TRY(buf_printf(out, "\n  %-18s%s, root folder %s\n", "user", facts->user, facts->root));
    TRY(put_list(out, "groups", &facts->groups));
    TRY(put_list(out, "capabilities", &effective));
    TRY(put_list(out, "bounding set", &bounding));
    TRY(buf_printf(
        out, "  %-18s%s, system call filters: %lld, dumpable: %s, core %s, memlock %s, nofile %s, oom %+lld\n",
        "confined", facts->no_new_privs ? "no new privileges" : "MAY GAIN PRIVILEGES", (long long)facts->filters,
        facts->is_root    ? "-"
        : facts->dumpable ? "yes"
                          : "no",
        facts->core, facts->memlock, facts->nofile, (long long)facts->oom_score_adj));
    TRY(put_list(out, "own namespaces", &facts->namespaces));
    TRY(put_list(out, "writable mounts", &facts->mounts));
    TRY(facts->is_root ? OK : put_list(out, "writes into", &facts->folders));
    return put_list(out, "listens at", &facts->listens);
}

struct fault report_print_text(struct op *op, const struct report *report, struct buf *out)
{
    for (size_t i = 0; i < report->kind_count; i++) {
        TRY(put_kind(op, &report->kinds[i], out));
    }
    TRY(buf_printf(out, "established: %.*s\n", (int)report->established.len, (const char *)report->established.at));
    return put_list(out, "files that lend rights:", &report->files);
}
