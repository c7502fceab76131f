#include "api/drain.h"

#include "api/start.h"
#include "appliance/base/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define EXIT_FORCED 1

struct guard {
    sigset_t set;
    mono_ns until;
};

void drain_signals_block(sigset_t *ret_set)
{
    BUG_IF(sigemptyset(ret_set) != 0 || sigaddset(ret_set, SIGTERM) != 0 || sigaddset(ret_set, SIGINT) != 0);
    BUG_IF(pthread_sigmask(SIG_BLOCK, ret_set, NULL) != 0);
}

int drain_signal_wait(const sigset_t *set)
{
    int signal_number = 0;
    BUG_IF(sigwait(set, &signal_number) != 0);
    return signal_number;
}

/* Only _exit: the others are in the midst of what they do. */
static void *watch(void *arg)
{
    const struct guard *guard = arg;
    (void)pthread_setname_np(pthread_self(), "svc-drain");
    for (;;) {
        int64_t left = guard->until - clock_mono();
        left = left > 0 ? left : 0;
        const struct timespec wait = { .tv_sec = left / NS_PER_S, .tv_nsec = left % NS_PER_S };
        int signal_number = sigtimedwait(&guard->set, NULL, &wait);
        if (signal_number > 0) {
            log_write(WARN, "drain_forced", LOG_INT("signal", signal_number));
            _exit(EXIT_FORCED);
        }
        if (errno == EAGAIN && clock_mono() >= guard->until) {
            log_write(ERROR, "drain_overran");
            _exit(EXIT_FORCED);
        }
    }
}

void drain_guard(const sigset_t *set, int64_t limit_ms)
{
    static struct guard guard; /* the thread's, until the process ends */
    pthread_t thread;
    guard = (struct guard){ .set = *set, .until = clock_mono() + limit_ms * NS_PER_MS };
    if (pthread_create(&thread, NULL, watch, &guard) != 0) {
        log_write(WARN, "drain_unguarded");
        BUG_IF(pthread_sigmask(SIG_UNBLOCK, set, NULL) != 0); /* a second signal ends the process all the same */
        return;
    }
    BUG_IF(pthread_detach(thread) != 0);
}

static void wait_until(mono_ns until)
{
    while (clock_mono() < until) {
        (void)poll(NULL, 0, clock_ms_left(until));
    }
}

/* Told after the phase is over. */
static void say(const char *phase, mono_ns begun)
{
    log_write(INFO, "drain_phase", LOG_TEXT("phase", phase), LOG_INT("after_ms", (clock_mono() - begun) / NS_PER_MS));
}

void drain(const sigset_t *set, struct server *server, struct workers *workers, struct services *services)
{
    const struct config *config = services->config;
    const mono_ns begun = clock_mono();
    const int64_t delay_ms = config->http_drain_delay / NS_PER_MS, drain_ms = config->http_drain / NS_PER_MS;
    drain_guard(set, delay_ms + drain_ms + DRAIN_REST_MS);
    server_leave(server);
    wait_until(begun + delay_ms * NS_PER_MS);
    say("leave", begun);
    server_stop_accepting(server);
    say("accept", begun);
    services_stop_dispatch(services);
    workers_stop_begin(workers);
    say("dispatcher", begun);
    size_t cut = server_drain(server, drain_ms);
    if (cut > 0) {
        log_write(WARN, "drain_cut", LOG_INT("requests", cut));
    }
    server_stop(server, 0);
    say("requests", begun);
    services_stop_outboxes(services);
    workers_stop(workers);
    say("workers", begun);
    services_sweep(services);
    say("sweep", begun);
    services_stop(services);
    say("stores", begun);
}
