#include "signer-pkcs11/client/resolve.h"

#include "appliance/base/alloc.h"

#include <netdb.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

/* What the C library's thread reads and writes while a lookup is under way. */
struct lookup {
    struct gaicb request;
    struct addrinfo want;
    struct tcp_address address;
};

struct resolver {
    struct lookup *lookup;
    pthread_mutex_t
        lock;       /* guards all: who holds it waits for the lookup, others for the lock, all by their deadline */
    bool under_way; /* somebody's deadline came first: the next caller waits for the same answer */
};

struct fault resolver_new(const struct tcp_address *address, struct resolver **ret_resolver)
{
    CLEANUP(resolver_freep) struct resolver *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    BUG_IF(pthread_mutex_init(&made->lock, NULL) != 0);
    TRY(mem_new(1, sizeof(*made->lookup), &made->lookup));
    struct lookup *lookup = made->lookup;
    lookup->address = *address;
    lookup->want = (struct addrinfo){ .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
    lookup->request = (struct gaicb){ .ar_name = lookup->address.host,
                                      .ar_service = lookup->address.port,
                                      .ar_request = &lookup->want };
    *ret_resolver = TAKE(made);
    return OK;
}

/* A lookup that cannot be cancelled any more keeps its memory: its thread writes there when the name server answers. */
void resolver_free(struct resolver *resolver)
{
    if (resolver == NULL) {
        return;
    }
    if (!resolver->under_way || gai_cancel(&resolver->lookup->request) != EAI_NOTCANCELED) {
        mem_free(resolver->lookup);
    }
    (void)pthread_mutex_destroy(&resolver->lock);
    mem_free(resolver);
}

static struct fault take_addresses(struct addrinfo *found, struct resolved *ret_resolved)
{
    struct resolved resolved = { .count = 0 };
    for (const struct addrinfo *one = found; one != NULL && resolved.count < RESOLVED_MAX; one = one->ai_next) {
        if (one->ai_addrlen <= sizeof(resolved.addresses[0].at)) {
            memcpy(&resolved.addresses[resolved.count].at, one->ai_addr, one->ai_addrlen);
            resolved.addresses[resolved.count].len = one->ai_addrlen;
            resolved.count++;
        }
    }
    freeaddrinfo(found);
    REQUIRE(resolved.count > 0, SIGNER_UNAVAILABLE);
    *ret_resolved = resolved;
    return OK;
}

static struct fault not_found(struct op *op, const struct lookup *lookup, const char *reason)
{
    op_note_log(op, "signer.address: %s: %s", lookup->address.host, reason);
    return op_fail(op, FAULT(SIGNER_UNAVAILABLE), "the name of the signer's host is not known now");
}

static struct fault look_up_locked(struct op *op, struct resolver *resolver, mono_ns deadline,
                                   struct resolved *ret_resolved)
{
    struct gaicb *list[] = { &resolver->lookup->request };
    if (!resolver->under_way) {
        int begun = getaddrinfo_a(GAI_NOWAIT, list, 1, NULL);
        if (begun != 0) {
            return not_found(op, resolver->lookup, gai_strerror(begun));
        }
        resolver->under_way = true;
    }
    int result = EAI_INPROGRESS;
    while ((result = gai_error(list[0])) == EAI_INPROGRESS) {
        int ms = clock_ms_left(deadline);
        if (ms == 0) {
            return not_found(op, resolver->lookup, "the name server has not answered in time");
        }
        const struct timespec patience = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * NS_PER_MS };
        (void)gai_suspend((const struct gaicb *const *)list, 1, &patience);
    }
    resolver->under_way = false;
    if (result != 0) {
        return not_found(op, resolver->lookup, gai_strerror(result));
    }
    return take_addresses(TAKE(list[0]->ar_result), ret_resolved);
}

/* Most settings are addresses: nobody is asked about those. */
static bool is_numeric(const struct lookup *lookup, struct addrinfo **ret_found)
{
    struct addrinfo want = lookup->want;
    want.ai_flags |= AI_NUMERICHOST;
    return getaddrinfo(lookup->address.host, lookup->address.port, &want, ret_found) == 0;
}

struct fault resolver_ask(struct op *op, struct resolver *resolver, mono_ns deadline, struct resolved *ret_resolved)
{
    struct addrinfo *found = NULL;
    if (is_numeric(resolver->lookup, &found)) {
        return take_addresses(found, ret_resolved);
    }
    const struct timespec until = { .tv_sec = deadline / NS_PER_S, .tv_nsec = deadline % NS_PER_S };
    if (pthread_mutex_clocklock(&resolver->lock, CLOCK_MONOTONIC, &until) != 0) {
        return not_found(op, resolver->lookup, "the name server has not answered in time");
    }
    struct fault asked = look_up_locked(op, resolver, deadline, ret_resolved);
    BUG_IF(pthread_mutex_unlock(&resolver->lock) != 0);
    return asked;
}
