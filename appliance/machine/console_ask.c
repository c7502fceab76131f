#include "appliance/machine/console_ask.h"

#include "appliance/base/file.h"
#include "appliance/machine/provision_rows.h"
#include "appliance/machine/provision_store.h"
#include "appliance/stores/folder.h"

#include <stdio.h>

#define STATE_PIN_NAME "state-pin"
#define HSM_PIN_NAME   "hsm-pin"
#define PIN_TRIES      5
#define WHY_MAX        ((size_t)16 << 10)

enum when { ALWAYS, WITHOUT_SERVERS, WITH_MODULE, WITH_TSA };
struct question {
    const char *key, *text, *fallback; /* fallback "": may be left empty; NULL: has to be answered */
    enum when when;
    const char *also; /* a key before it, whose rule is only settled by this answer; NULL = none */
};
/* In this order, since a check may look at what was answered before. */
static const struct question questions[] = {
    { "hostname", "Host name", NULL, ALWAYS, NULL },
    { "network.interface", "Network interface (auto: the first with a link)", "auto", ALWAYS, NULL },
    { "network.address", "Addresses of this machine with network length, such as 192.0.2.10/24", NULL, ALWAYS, NULL },
    { "network.gateway", "Gateways", "", ALWAYS, NULL },
    { "network.dns", "DNS servers", "", ALWAYS, NULL },
    { "time.servers", "Time servers (NTP)", "", ALWAYS, NULL },
    { "time.trust_host", "No time servers: may time stamps rest on the host's clock? (true, false)", "false",
      WITHOUT_SERVERS, "time.servers" },
    { "tenant", "Tenant", NULL, ALWAYS, NULL },
    { "admin.subject", "Subject of the first token", "admin", ALWAYS, NULL },
    { "admin.ttl", "How long it is valid", "720h", ALWAYS, NULL },
    { "tls.mode", "Certificate of the HTTPS listener: self, or csr for your own authority", "self", ALWAYS, NULL },
    { "tls.names", "Further names and addresses of the HTTPS listener", "", ALWAYS, NULL },
    { "hsm.kind", "Keys in: embedded (software token), or module (an HSM's PKCS#11 library)", "embedded", ALWAYS,
      NULL },
    { "hsm.module", "Path of the library, such as /run/extensions/NAME/lib/libpkcs11.so", NULL, WITH_MODULE, NULL },
    { "hsm.label", "Label of the token", "", WITH_MODULE, NULL },
    { "hsm.slot", "Number of its slot, where the label is not enough", "", WITH_MODULE, "hsm.label" },
    { "hsm.login", "Login: user (with a PIN), protected (PIN pad) or none", "user", WITH_MODULE, NULL },
    { "tsa.enabled", "Serve time stamps (true, false)", "true", ALWAYS, NULL },
    { "tsa.policy", "Policy of time stamps, an object identifier", "", WITH_TSA, NULL },
    { "state.seal", "Key of the encrypted state: auto, tpm2, pin or none", "auto", ALWAYS, NULL },
};

/* What stands in for what was not asked yet, so that a partial provisioning can be checked. */
static const struct {
    const char *key, *text;
} stand_ins[] = {
    { "hostname", "unnamed" },
    { "tenant", "unnamed" },
    { "network.address", "192.0.2.1/24" },
    { "time.servers", "192.0.2.2" },
    { "hsm.module", "/run/extensions/x/lib/x.so" },
    { "hsm.label", "x" },
    { "hsm.slot", "0" },
    { "time.trust_host", "true" },
};

struct asking {
    struct op *op;
    struct terminal *terminal;
    const char *answers[COUNT_OF(questions)]; /* NULL: not asked */
};

void console_answers_clear(struct console_answers *answers)
{
    buf_free(&answers->yaml);
    secret_free(TAKE(answers->state_pin));
    secret_free(TAKE(answers->hsm_pin));
}

/* ---- answers as YAML ---- */

static const char *answer_of(const struct asking *asking, const char *key)
{
    for (size_t i = 0; i < COUNT_OF(questions); i++) {
        if (strcmp(questions[i].key, key) == 0) {
            return asking->answers[i];
        }
    }
    return NULL;
}

static bool answered(const struct asking *asking, const char *key, const char *text)
{
    const char *answer = answer_of(asking, key);
    return answer != NULL && strcmp(answer, text) == 0;
}

/* "a, b c" as three. */
static struct fault split(struct op *op, const char *text, struct provision_texts *ret_texts)
{
    static const char between[] = ", \t";
    struct provision_texts texts = { 0 };
    TRY(arena_take(op->arena, strlen(text) / 2 + 1, sizeof(*texts.at), &texts.at));
    for (text += strspn(text, between); *text != '\0'; text += strspn(text, between)) {
        size_t len = strcspn(text, between);
        TRY(arena_text(op->arena, span_of(text, len), &texts.at[texts.count++]));
        text += len;
    }
    *ret_texts = texts;
    return OK;
}

static struct fault emit_answer(struct asking *asking, const char *key, const char *text, struct emit *emit)
{
    size_t count = 0;
    const struct provision_row *row = provision_rows(&count);
    struct provision_texts texts = { 0 };
    while (strcmp(row->key, key) != 0) {
        row++;
    }
    if (row->kind == PROVISION_KIND_TEXTS) {
        TRY(split(asking->op, text, &texts));
        emit_list(emit, key, texts);
        return OK;
    }
    bool word = strcmp(text, "true") == 0 || strcmp(text, "false") == 0;
    (row->kind == PROVISION_KIND_BOOL && word ? emit_plain : emit_text)(emit, key, text);
    return OK;
}

static bool wanted(const struct asking *asking, enum when when)
{
    switch (when) {
    case WITHOUT_SERVERS:
        return answered(asking, "time.servers", "");
    case WITH_MODULE:
        return answered(asking, "hsm.kind", "module");
    case WITH_TSA:
        return answered(asking, "tsa.enabled", "true");
    case ALWAYS:
        break;
    }
    return true;
}

/* `partial`: with stand-ins for what is not answered. */
static struct fault compose(struct asking *asking, bool partial, struct emit *emit)
{
    for (size_t i = 0; i < COUNT_OF(questions); i++) {
        const char *answer = asking->answers[i];
        if (answer != NULL && answer[0] != '\0' && wanted(asking, questions[i].when)) {
            TRY(emit_answer(asking, questions[i].key, answer, emit));
        }
    }
    for (size_t i = 0; partial && i < COUNT_OF(stand_ins); i++) {
        bool hsm = strncmp(stand_ins[i].key, "hsm.", 4) == 0;
        if (answer_of(asking, stand_ins[i].key) == NULL && (!hsm || answered(asking, "hsm.kind", "module"))) {
            TRY(emit_answer(asking, stand_ins[i].key, stand_ins[i].text, emit));
        }
    }
    return OK;
}

/* ---- asking ---- */

/* The refusals of `why` that are about `key`, said. The rest is about what comes later. */
static bool say_refusals(struct terminal *terminal, const char *key, const struct buf *why)
{
    bool refused = false;
    struct span rest = buf_span(why);
    size_t len = strlen(key);
    while (rest.len > 0) {
        const uint8_t *end = memchr(rest.at, '\n', rest.len);
        size_t line = end != NULL ? (size_t)(end - rest.at) : rest.len;
        const uint8_t *place = memmem(rest.at, line, ": ", 2); /* the end of "answer:3" */
        const uint8_t *at = place != NULL ? place + 2 : rest.at + line;
        size_t left = line - (size_t)(at - rest.at);
        if (left > len && memcmp(at, key, len) == 0 && at[len] == ':') {
            terminal_say(terminal, "  %.*s", (int)left, (const char *)at);
            refused = true;
        }
        size_t used = line + (end != NULL);
        rest = span_of(rest.at + used, rest.len - used);
    }
    return refused;
}

static struct fault fits(struct asking *asking, size_t index, bool *ret_fits)
{
    CLEANUP(op_freep) struct op *trial = NULL; /* its note is not ours */
    CLEANUP(buf_free) struct buf yaml = BUF_INIT(PROVISION_FILE_MAX), why = BUF_INIT(WHY_MAX);
    struct emit emit = { .count = 0 };
    struct provision ignored;
    TRY(compose(asking, true, &emit));
    TRY(emit_print(&emit, 0, &yaml));
    TRY(op_new("console", (struct tenant_id){ 0 }, 10000, &trial));
    struct fault parsed = provision_parse(trial, buf_span(&yaml), "answer", &why, &ignored);
    const struct question *question = &questions[index];
    *ret_fits = !FAULTED(parsed) || (!say_refusals(asking->terminal, question->key, &why) &&
                                     (question->also == NULL || !say_refusals(asking->terminal, question->also, &why)));
    return OK;
}

static struct fault ask_one(struct asking *asking, size_t index)
{
    const struct question *question = &questions[index];
    char typed[TERMINAL_LINE_MAX + 1], prompt[200];
    const char *fallback = question->fallback;
    (void)snprintf(prompt, sizeof(prompt), "%s%s%s%s: ", question->text, fallback != NULL ? " [" : "",
                   fallback == NULL      ? ""
                   : fallback[0] == '\0' ? "none"
                                         : fallback,
                   fallback != NULL ? "]" : "");
    for (bool done = false; !done;) {
        TRY(terminal_ask(asking->op, asking->terminal, prompt, typed));
        if (strcmp(typed, ".") == 0) {
            return op_fail(asking->op, FAULT(CANCELLED), "stopped");
        }
        if (typed[0] == '\0' && fallback == NULL) {
            terminal_say(asking->terminal, "  an answer is needed; a line with one dot stops");
            continue;
        }
        TRY(arena_text(asking->op->arena, span_text(typed[0] != '\0' ? typed : fallback), &asking->answers[index]));
        TRY(fits(asking, index, &done));
    }
    return OK;
}

static struct fault ask_pin(struct asking *asking, const char *what, size_t least, bool needed, struct secret **ret_pin)
{
    char prompt[120];
    for (unsigned tries = 0; tries < PIN_TRIES; tries++) {
        CLEANUP(secret_freep) struct secret *first = NULL, *second = NULL;
        (void)snprintf(prompt, sizeof(prompt), "PIN of %s%s, not shown: ", what, needed ? "" : " [none]");
        TRY(terminal_ask_secret(asking->op, asking->terminal, prompt, &first));
        if (first == NULL && !needed) {
            return OK;
        }
        if (first == NULL || secret_span(first).len < least || secret_span(first).len > PROVISION_PIN_MAX) {
            terminal_say(asking->terminal, "  a PIN has %zu to %d bytes", least, PROVISION_PIN_MAX);
            continue;
        }
        TRY(terminal_ask_secret(asking->op, asking->terminal, "The same again: ", &second));
        if (second != NULL && secret_equal(secret_span(first), secret_span(second))) {
            *ret_pin = TAKE(first);
            return OK;
        }
        terminal_say(asking->terminal, "  the two are not the same");
    }
    return op_fail(asking->op, FAULT(CANCELLED), "no PIN");
}

static struct fault ask_pins(struct asking *asking, struct console_answers *answers)
{
    if (answered(asking, "hsm.kind", "module") && answered(asking, "hsm.login", "user")) {
        TRY(ask_pin(asking, "the HSM's token", 1, true, &answers->hsm_pin));
    }
    if (!answered(asking, "state.seal", "none")) {
        bool needed = answered(asking, "state.seal", "pin");
        TRY(ask_pin(asking, "the state, asked for at every start", PROVISION_PIN_MIN, needed, &answers->state_pin));
    }
    return OK;
}

static struct fault confirm(struct asking *asking, struct console_answers *answers)
{
    struct emit emit = { .count = 0 };
    bool yes = false;
    TRY(compose(asking, false, &emit));
    if (answers->state_pin != NULL) {
        emit_text(&emit, "state.pin_file", STATE_PIN_NAME);
    }
    if (answers->hsm_pin != NULL) {
        emit_text(&emit, "hsm.pin_file", HSM_PIN_NAME);
    }
    TRY(emit_print(&emit, 0, &answers->yaml));
    terminal_say(asking->terminal, "\nThis is what the machine will be:\n");
    terminal_put(asking->terminal, buf_span(&answers->yaml));
    TRY(terminal_confirm(asking->op, asking->terminal, "\nThe state is made now; whatever its partition held is lost.",
                         &yes));
    return yes ? OK : op_fail(asking->op, FAULT(CANCELLED), "not confirmed");
}

struct fault console_ask_provision(struct op *op, struct terminal *terminal, struct console_answers *answers)
{
    struct asking asking = { .op = op, .terminal = terminal };
    terminal_say(terminal, "Several values stand in one line, with commas. A line with one dot stops.\n");
    for (size_t i = 0; i < COUNT_OF(questions); i++) {
        if (wanted(&asking, questions[i].when)) {
            TRY(ask_one(&asking, i));
        }
    }
    TRY(ask_pins(&asking, answers));
    return confirm(&asking, answers);
}

struct fault console_answers_leave(struct op *op, const char *folder, const struct console_answers *answers)
{
    const struct {
        const struct secret *pin;
        const char *name;
    } pins[] = { { answers->state_pin, STATE_PIN_NAME }, { answers->hsm_pin, HSM_PIN_NAME } };
    TRY(folder_own(op, folder, NULL, NULL, 0700));
    for (size_t i = 0; i < COUNT_OF(pins); i++) {
        const char *path = NULL;
        TRY(folder_path(op, folder, pins[i].name, &path));
        if (pins[i].pin != NULL && FAULTED(file_write(path, secret_span(pins[i].pin), 0600))) {
            return op_fail(op, FAULT(IO), "cannot write %s", path);
        }
    }
    return OK;
}
