#include "appliance/supervisor/state.h"

#include "appliance/base/file.h"
#include "appliance/base/json.h"

#define STATE_MAX ((size_t)4 << 10)

struct fault state_write(const char *run_dir, const struct state *state)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(STATE_MAX);
    struct jout json;
    jout_init(&json, &text);
    jout_object(&json);
    for (size_t i = 0; i < state->count; i++) {
        CLEANUP(buf_free) struct buf key = BUF_INIT(64);
        const char *name = NULL;
        TRY(buf_printf(&key, "%s_restarts", state->units[i].row->name));
        TRY(buf_cstr(&key, &name));
        jout_key_int(&json, name, state->units[i].restarts);
    }
    jout_key_bool(&json, "ready", state->ready);
    jout_key_time(&json, "started_at", state->started_at);
    jout_object_end(&json);
    TRY(jout_end(&json));

    CLEANUP(buf_free) struct buf path = BUF_INIT(4096);
    const char *path_text = NULL;
    TRY(buf_printf(&path, "%s/state.json", run_dir));
    TRY(buf_cstr(&path, &path_text));
    return file_write(path_text, buf_span(&text), 0644);
}
