/*
 * What must outlive the process, in the signer's own folder: one short file for each token and kind. A token is known
 * by its module, label, serial and slot, whatever the configuration calls it.
 */
#include "signer-pkcs11/token/internal.h"

#include "appliance/base/codec.h"
#include "appliance/base/file.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_SIZE 4096

static bool note_path(const struct token_settings *settings, const char *kind, char path[PATH_SIZE])
{
    char slot[24] = "", name[17];
    struct sha256 digest;
    if (settings->slot_set) {
        (void)snprintf(slot, sizeof(slot), "%" PRIu64, settings->slot);
    }
    const struct span parts[] = { span_of(settings->module, strlen(settings->module) + 1),
                                  span_of(settings->label, strlen(settings->label) + 1),
                                  span_of(settings->serial, strlen(settings->serial) + 1), span_text(slot) };
    if (settings->notes_folder == NULL || FAULTED(sha256_of_parts(parts, COUNT_OF(parts), &digest))) {
        return false;
    }
    hex_text(span_of(digest.at, 8), name, sizeof(name));
    int len = snprintf(path, PATH_SIZE, "%s/%s-%s", settings->notes_folder, kind, name);
    return len > 0 && len < PATH_SIZE;
}

bool note_read(const struct token_settings *settings, const char *kind, struct buf *text)
{
    char path[PATH_SIZE];
    return note_path(settings, kind, path) && !FAULTED(file_read(path, text));
}

/* In one step: half a note could mean the opposite. By no more calls than the sandbox allows. */
bool note_write(const struct token_settings *settings, const char *kind, const char *text)
{
    char path[PATH_SIZE], temporary[PATH_SIZE + 8];
    ssize_t len = (ssize_t)strlen(text);
    if (settings->notes_folder == NULL) {
        return true;
    }
    if (!note_path(settings, kind, path)) {
        return false;
    }
    (void)snprintf(temporary, sizeof(temporary), "%s.new", path);
    (void)unlink(temporary);
    CLEANUP(fd_closep)
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
    return fd >= 0 && write(fd, text, (size_t)len) == len && fdatasync(fd) == 0 && rename(temporary, path) == 0;
}

bool token_known(const struct token_settings *settings)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(NOTE_MAX);
    return note_read(settings, "token-opened", &text);
}

void note_opened(const struct token *token)
{
    char text[NOTE_MAX], time[RFC3339_MAX];
    if (token->settings->notes_folder == NULL || token_known(token->settings)) {
        return;
    }
    rfc3339_print(clock_utc(), time);
    (void)snprintf(text, sizeof(text), "svc-signer: this token was there\n%s\n%s\n%s\nat %s\n", token->label,
                   token->model, token->serial, time);
    (void)note_write(token->settings, "token-opened", text); /* without it, the next start is less patient */
}
