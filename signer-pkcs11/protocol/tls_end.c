#include "signer-pkcs11/protocol/tls_end.h"

#include "appliance/base/alloc.h"
#include "signer-pkcs11/protocol/tls_internal.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>

#define FILES 3

/* What a file looks like from outside; any difference means that it was replaced or rewritten. */
struct stamp {
    dev_t dev;
    ino_t ino;
    off_t size;
    int64_t changed; /* nanoseconds */
};

struct tls_end {
    struct tls_settings settings;
    pthread_mutex_t lock; /* guards all below; held while the files are read, which is seldom */
    SSL_CTX *context;
    struct stamp loaded[FILES], refused[FILES];
};

/* A file that is not there has the stamp of zeros. */
static void stamps_take(const struct tls_settings *settings, struct stamp out[FILES])
{
    const char *const files[FILES] = { settings->certificate_file, settings->key_file, settings->ca_file };
    for (size_t i = 0; i < FILES; i++) {
        struct stat status;
        out[i] = (struct stamp){ 0 };
        if (stat(files[i], &status) == 0) {
            out[i] = (struct stamp){ .dev = status.st_dev,
                                     .ino = status.st_ino,
                                     .size = status.st_size,
                                     .changed = status.st_mtim.tv_sec * NS_PER_S + status.st_mtim.tv_nsec };
        }
    }
}

static bool stamps_equal(const struct stamp a[FILES], const struct stamp b[FILES])
{
    for (size_t i = 0; i < FILES; i++) {
        if (a[i].dev != b[i].dev || a[i].ino != b[i].ino || a[i].size != b[i].size || a[i].changed != b[i].changed) {
            return false;
        }
    }
    return true;
}

struct fault tls_end_new(const struct tls_settings *settings, struct buf *why, struct tls_end **ret_end)
{
    CLEANUP(tls_end_freep) struct tls_end *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    made->settings = *settings;
    BUG_IF(pthread_mutex_init(&made->lock, NULL) != 0);
    stamps_take(settings, made->loaded); /* before reading: what changes meanwhile is read again */
    TRY(tls_context_make(settings, why, &made->context));
    *ret_end = TAKE(made);
    return OK;
}

void tls_end_free(struct tls_end *end)
{
    if (end == NULL) {
        return;
    }
    SSL_CTX_free(end->context);
    (void)pthread_mutex_destroy(&end->lock);
    mem_free(end);
}

enum tls_side tls_end_side(const struct tls_end *end)
{
    return end->settings.side;
}

const struct config_list *tls_end_names(const struct tls_end *end)
{
    return end->settings.names;
}

/* What was refused once is looked at again only when it has changed. */
static void reload_locked(struct tls_end *end, struct tls_report *report)
{
    struct stamp now[FILES];
    CLEANUP(buf_free) struct buf why = BUF_INIT(sizeof(report->reload_detail));
    SSL_CTX *context = NULL;
    stamps_take(&end->settings, now);
    if (stamps_equal(now, end->loaded) || stamps_equal(now, end->refused)) {
        return;
    }
    if (FAULTED(tls_context_make(&end->settings, &why, &context))) {
        memcpy(end->refused, now, sizeof(now));
        report->reload = TLS_RELOAD_REFUSED;
        (void)snprintf(report->reload_detail, sizeof(report->reload_detail), "%.*s", (int)why.len,
                       why.at != NULL ? (const char *)why.at : "");
        return;
    }
    SSL_CTX_free(end->context);
    end->context = context;
    memcpy(end->loaded, now, sizeof(now));
    report->reload = TLS_RELOAD_DONE;
}

SSL_CTX *tls_end_context(struct tls_end *end, struct tls_report *report)
{
    BUG_IF(pthread_mutex_lock(&end->lock) != 0);
    reload_locked(end, report);
    SSL_CTX *context = end->context;
    BUG_IF(SSL_CTX_up_ref(context) != 1);
    BUG_IF(pthread_mutex_unlock(&end->lock) != 0);
    return context;
}
