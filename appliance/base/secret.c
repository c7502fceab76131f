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

/* 1 MiB of locked memory in chunks; a secret is a run of them. */
#define CHUNK_SIZE  64u
#define CHUNK_COUNT 16384u

struct secret {
    uint8_t *at; /* in the locked arena */
    size_t len, first, chunks;
};

static pthread_mutex_t arena_lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t *arena; /* these under arena_lock; arena never changes once set */
static bool arena_is_locked;
static bool chunk_used[CHUNK_COUNT];
static size_t search_from; /* where the last run ended */

/* Memory that the kernel itself cannot read back (memfd_secret), or locked and left out of dumps. */
static uint8_t *map_arena(bool *ret_locked)
{
    size_t size = (size_t)CHUNK_SIZE * CHUNK_COUNT;
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

static void lock_arena(void)
{
    BUG_IF(pthread_mutex_lock(&arena_lock) != 0);
    if (arena == NULL) {
        arena = map_arena(&arena_is_locked);
    }
}

static void unlock_arena(void)
{
    BUG_IF(pthread_mutex_unlock(&arena_lock) != 0);
}

/* The first run of `chunks` free ones in [from, to); `to` when there is none. */
static size_t free_run_locked(size_t from, size_t to, size_t chunks)
{
    size_t run = 0;
    for (size_t i = from; i < to; i++) {
        run = chunk_used[i] ? 0 : run + 1;
        if (run == chunks) {
            return i + 1 - chunks;
        }
    }
    return to;
}

static struct fault take_run_locked(size_t chunks, size_t *ret_first)
{
    REQUIRE(arena != NULL, NO_MEMORY);
    size_t first = free_run_locked(search_from, CHUNK_COUNT, chunks);
    if (first == CHUNK_COUNT) {
        first = free_run_locked(0, CHUNK_COUNT, chunks);
    }
    REQUIRE(first < CHUNK_COUNT, NO_MEMORY);
    memset(chunk_used + first, true, chunks);
    search_from = first + chunks;
    *ret_first = first;
    return OK;
}

static struct fault secret_room(size_t len, struct secret **ret_secret)
{
    REQUIRE(len <= SECRET_MAX, TOO_LARGE);
    struct secret *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    made->len = len;
    made->chunks = len / CHUNK_SIZE + 1;
    lock_arena();
    struct fault fault = take_run_locked(made->chunks, &made->first);
    unlock_arena();
    if (FAULTED(fault)) {
        mem_free(made);
        return fault;
    }
    made->at = arena + made->first * CHUNK_SIZE;
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
    OPENSSL_cleanse(secret->at, secret->chunks * CHUNK_SIZE);
    lock_arena();
    memset(chunk_used + secret->first, false, secret->chunks);
    unlock_arena();
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
    REQUIRE(made->len >= 1, CONFIG);
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
    lock_arena();
    bool locked = arena_is_locked;
    unlock_arena();
    return locked;
}

void secret_forked(void)
{
    arena_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; /* whoever held it is not in this process */
    if (arena != NULL) {
        (void)munmap(arena, (size_t)CHUNK_SIZE * CHUNK_COUNT);
    }
    arena = NULL;
    arena_is_locked = false;
    memset(chunk_used, false, sizeof(chunk_used));
    search_from = 0;
}

void process_undumpable(void)
{
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    /* One byte is less than any core has, and unlike none it also counts where cores go to a program. */
    struct rlimit none = { 1, 1 };
    if (setrlimit(RLIMIT_CORE, &none) != 0) {
        none = (struct rlimit){ 0 };
        (void)setrlimit(RLIMIT_CORE, &none);
    }
}

bool process_lock_memory(void)
{
    struct rlimit limit;
    /* Under a limit the lock would hold now and make allocations fail later. */
    bool unlimited = geteuid() == 0 || (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY);
    return unlimited && mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) == 0;
}
