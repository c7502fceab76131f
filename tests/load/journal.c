/* The journal: a JSON line before a mutation's first byte leaves, one when it is repeated, one when it ended. */
#include "tests/load/load.h"

#include <fcntl.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <unistd.h>

#define LINE_MAX_ ((size_t)8 << 20)

void journal_open_at(struct journal *journal, const char *path)
{
    journal->fd = path != NULL ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (path != NULL && journal->fd < 0) {
        die("cannot write %s", path);
    }
}

/* One write for a line, behind the others: the lines of several threads never mix. */
static void write_line(const struct journal *journal, struct jout *jout, struct buf *line)
{
    jout_object_end(jout);
    if (FAULTED(jout_end(jout)) || FAULTED(buf_u8(line, '\n'))) {
        die("a line of the journal cannot be made");
    }
    if (write(journal->fd, line->at, line->len) != (ssize_t)line->len) {
        die("the journal cannot be written: what was sent would not be known");
    }
}

static void begin_line(struct jout *jout, struct buf *line, const char *say, const struct client *client)
{
    jout_init(jout, line);
    jout_object(jout);
    jout_key_text(jout, "say", say);
    jout_key_int(jout, "op", (int64_t)client->number);
    jout_key_int(jout, "at", clock_utc());
}

static void put_bytes(struct jout *jout, const struct client *client, const char *key, struct span bytes)
{
    if (client->row->kind == KIND_STAMP) {
        jout_key_base64(jout, key, bytes);
        return;
    }
    jout_key(jout, key);
    jout_span_text(jout, bytes);
}

void journal_send(struct journal *journal, const struct client *client)
{
    if (journal->fd < 0) {
        return;
    }
    CLEANUP(buf_free) struct buf line = BUF_INIT(LINE_MAX_);
    struct jout jout;
    begin_line(&jout, &line, "send", client);
    jout_key_text(&jout, "row", client->row->name);
    jout_key_text(&jout, "tenant", client->tenant->name);
    jout_key_text(&jout, "role", client->row->role);
    jout_key_text(&jout, "method", operation_method(client));
    jout_key(&jout, "path");
    jout_span_text(&jout, buf_span(&client->path));
    jout_key_text(&jout, "key", client->key);
    jout_key_text(&jout, "trace", client->trace);
    put_bytes(&jout, client, "body", buf_span(&client->body));
    write_line(journal, &jout, &line);
}

void journal_again(struct journal *journal, const struct client *client, const char *why)
{
    if (journal->fd < 0) {
        return;
    }
    CLEANUP(buf_free) struct buf line = BUF_INIT(LINE_MAX_);
    struct jout jout;
    begin_line(&jout, &line, "again", client);
    jout_key_int(&jout, "try", client->tries);
    jout_key_text(&jout, "why", why);
    write_line(journal, &jout, &line);
}

void journal_end(struct journal *journal, const struct client *client, enum outcome outcome, long status,
                 const char *code)
{
    static const char *const outcomes[] = {
        [OUTCOME_DONE] = "done", [OUTCOME_REFUSED] = "refused", [OUTCOME_UNKNOWN] = "unknown"
    };
    if (journal->fd < 0) {
        return;
    }
    CLEANUP(buf_free) struct buf line = BUF_INIT(LINE_MAX_);
    struct jout jout;
    uint8_t digest[SHA256_DIGEST_LENGTH];
    (void)SHA256(client->answer.at, client->answer.len, digest);
    begin_line(&jout, &line, "end", client);
    jout_key_text(&jout, "outcome", outcomes[outcome]);
    jout_key_int(&jout, "status", status);
    jout_key_text(&jout, "code", code);
    jout_key_int(&jout, "try", client->tries);
    jout_key_bool(&jout, "replayed", client->replayed);
    jout_key_hex(&jout, "sha256", SPAN_ARRAY(digest));
    if (outcome != OUTCOME_UNKNOWN) {
        put_bytes(&jout, client, "answer", buf_span(&client->answer));
    }
    write_line(journal, &jout, &line);
}
