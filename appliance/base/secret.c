#include "appliance/base/secret.h"

#include "appliance/base/alloc.h"
#include "appliance/base/file.h"
#include "appliance/base/id.h"

#include <openssl/crypto.h>

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* 1 MiB of locked slots of one size: no fragmentation, and a slot's index is all its bookkeeping. */
#define SLOT_SIZE  (SECRET_MAX)
#define SLOT_COUNT 256

struct secret {
    uint8_t *at; /* a slot of the locked arena */
    size_t len, slot;
};

static pthread_mutex_t arena_lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t *arena; /* these three under arena_lock; arena never changes once set */
static bool arena_is_locked;
static bool slot_used[SLOT_COUNT];

/* Memory that the kernel itself cannot read back (memfd_secret), or locked and left out of dumps. */
static uint8_t *map_arena(bool *ret_locked)
{
    size_t size = (size_t)SLOT_SIZE * SLOT_COUNT;
    int fd = (int)syscall(SYS_memfd_secret, O_CLOEXEC);
    if (fd >= 0) {
        void *at = MAP_FAILED;
        if (ftruncate(fd, (off_t)size) == 0) {
            at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        }
        fd_close(fd);
        if (at != MAP_FAILED) {
            *ret_locked = true;
            return at;
        }
    }
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        return NULL;
    }
    *ret_locked = mlock(at, size) == 0;
    (void)madvise(at, size, MADV_DONTDUMP);
    (void)madvise(at, size, MADV_WIPEONFORK);
    return at;
}

static struct fault take_slot(size_t *ret_slot)
{
    struct fault fault = FAULT(NO_MEMORY);
    BUG_IF(pthread_mutex_lock(&arena_lock) != 0);
    if (arena == NULL) {
        arena = map_arena(&arena_is_locked);
    }
    for (size_t i = 0; arena != NULL && i < SLOT_COUNT; i++) {
        if (!slot_used[i]) {
            slot_used[i] = true;
            *ret_slot = i;
            fault = OK;
            break;
        }
    }
    BUG_IF(pthread_mutex_unlock(&arena_lock) != 0);
    return fault;
}

static struct fault secret_room(size_t len, struct secret **ret_secret)
{
    REQUIRE(len <= SECRET_MAX, TOO_LARGE);
    struct secret *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    struct fault fault = take_slot(&made->slot);
    if (FAULTED(fault)) {
        mem_free(made);
        return fault;
    }
    made->at = arena + made->slot * SLOT_SIZE;
    made->len = len;
    *ret_secret = made;
    return OK;
}

struct fault secret_new(struct span bytes, struct secret **ret_secret)
{
    struct secret *made = NULL;
    TRY(secret_room(bytes.len, &made));
    if (bytes.len > 0) {
        memcpy(made->at, bytes.at, bytes.len);
    }
    *ret_secret = made;
    return OK;
}

struct fault secret_random(size_t len, struct secret **ret_secret)
{
    CLEANUP(secret_freep) struct secret *made = NULL;
    TRY(secret_room(len, &made));
    TRY(random_bytes(made->at, len));
    *ret_secret = TAKE(made);
    return OK;
}

void secret_free(struct secret *secret)
{
    if (secret == NULL) {
        return;
    }
    OPENSSL_cleanse(secret->at, SLOT_SIZE);
    BUG_IF(pthread_mutex_lock(&arena_lock) != 0);
    slot_used[secret->slot] = false;
    BUG_IF(pthread_mutex_unlock(&arena_lock) != 0);
    mem_free(secret);
}

struct fault secret_from_file(const char *path, struct secret **ret_secret)
{
    CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    REQUIRE(fd >= 0, CONFIG);
    struct stat status;
    REQUIRE(fstat(fd, &status) == 0 && S_ISREG(status.st_mode), CONFIG);
    REQUIRE((status.st_mode & 077) == 0 && (status.st_uid == 0 || status.st_uid == geteuid()), CONFIG);
    REQUIRE(status.st_size >= 1 && status.st_size <= SECRET_MAX, CONFIG);
    CLEANUP(secret_freep) struct secret *made = NULL;
    TRY(secret_room((size_t)status.st_size, &made));
    REQUIRE(read(fd, made->at, made->len) == (ssize_t)made->len, CONFIG);
    if (made->at[made->len - 1] == '\n') {
        made->len--;
    }
    *ret_secret = TAKE(made);
    return OK;
}

struct span secret_span(const struct secret *secret)
{
    return span_of(secret->at, secret->len);
}

bool secret_equal(struct span a, struct span b)
{
    return a.len == b.len && CRYPTO_memcmp(a.at, b.at, a.len) == 0;
}

void secret_wipe(void *at, size_t len)
{
    OPENSSL_cleanse(at, len);
}

bool secret_arena_locked(void)
{
    size_t slot = 0;
    if (!FAULTED(take_slot(&slot))) { /* makes the arena when nothing else has yet */
        BUG_IF(pthread_mutex_lock(&arena_lock) != 0);
        slot_used[slot] = false;
        BUG_IF(pthread_mutex_unlock(&arena_lock) != 0);
    }
    BUG_IF(pthread_mutex_lock(&arena_lock) != 0);
    bool locked = arena_is_locked;
    BUG_IF(pthread_mutex_unlock(&arena_lock) != 0);
    return locked;
}

void process_undumpable(void)
{
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    struct rlimit none = { 0 };
    (void)setrlimit(RLIMIT_CORE, &none);
}
