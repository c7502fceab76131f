#include "appliance/base/failpoint.h"

#ifdef SVC_FAILPOINTS

#include "appliance/base/fault.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Byte 0: 'x' = armed. From byte 1 on the name, NUL-terminated. */
static _Atomic char *area;

void failpoint_open(void)
{
    const char *path = getenv("SVC_FAILPOINT_FILE");
    int file = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) {
        return;
    }
    void *at = mmap(NULL, 1 + FAILPOINT_NAME_MAX, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    (void)close(file);
    area = at != MAP_FAILED ? at : NULL;
}

void failpoint_hit(const char *name)
{
    if (area == NULL || atomic_load(area) != 'x' || strncmp((const char *)(area + 1), name, FAILPOINT_NAME_MAX) != 0) {
        return;
    }
    char armed = 'x';
    if (atomic_compare_exchange_strong(area, &armed, '-')) {
        (void)raise(SIGKILL);
    }
}

#endif
