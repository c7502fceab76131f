/*
 * svc_load --target FILE --profile FILE [--journal FILE] [--seed N] [--out FILE]      (tests/load/README.md)
 *
 * The main thread walks through the phases; SIGTERM or SIGINT ends the present one and all that follow, what is under
 * way is still brought to its end; a second one ends that, too, and leaves it unknown. Exit code 0 unless something
 * kept the load from being made: what the service answered is told by the report and never by the exit code.
 */
#include "tests/load/load.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

struct arguments {
    const char *target, *profile, *journal, *out;
    uint64_t seed;
};

static void arguments_read(int argc, char **argv, struct arguments *arguments)
{
    *arguments = (struct arguments){ .seed = (uint64_t)clock_utc() };
    const struct {
        const char *name, **value;
    } options[] = { { "--target", &arguments->target },
                    { "--profile", &arguments->profile },
                    { "--journal", &arguments->journal },
                    { "--out", &arguments->out } };
    for (int i = 1; i < argc; i += 2) {
        size_t k = 0;
        while (k < COUNT_OF(options) && strcmp(argv[i], options[k].name) != 0) {
            k++;
        }
        if (i + 1 < argc && k < COUNT_OF(options)) {
            *options[k].value = argv[i + 1];
        } else if (i + 1 < argc && strcmp(argv[i], "--seed") == 0) {
            arguments->seed = strtoull(argv[i + 1], NULL, 10);
        } else {
            arguments->target = NULL;
            break;
        }
    }
    if (arguments->target == NULL || arguments->profile == NULL) {
        die("usage: svc_load --target FILE --profile FILE [--journal FILE] [--seed N] [--out FILE]");
    }
}

static bool phase_is_over(struct load *load, const struct phase *phase, double begun)
{
    return (phase->seconds > 0 && now_s() - begun >= phase->seconds) ||
           (phase->operations > 0 && atomic_load(&load->started) >= phase->operations);
}

/* True: a signal asked for the end. */
static bool phase_wait(struct load *load, const struct phase *phase, double begun, int signals)
{
    while (!phase_is_over(load, phase, begun)) {
        struct pollfd fd = { .fd = signals, .events = POLLIN };
        if (poll(&fd, 1, 10) > 0) {
            struct signalfd_siginfo info;
            return read(signals, &info, sizeof(info)) == (ssize_t)sizeof(info);
        }
    }
    return false;
}

/* What is under way comes to its end, unless a (second) signal ends that. */
static void *watch_end(void *arg)
{
    struct load *load = arg;
    sigset_t set;
    int number = 0;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGUSR2);
    if (sigwait(&set, &number) == 0 && number != SIGUSR2) {
        atomic_store(&load->dead, true);
    }
    return NULL;
}

static void run(struct load *load, struct worker *workers, struct phase_time *times, int signals)
{
    const struct profile *profile = load->profile;
    bool asked = false;
    for (size_t i = 0; i < profile->phase_count && !asked; i++) {
        double begun = now_s();
        atomic_store(&load->started, 0);
        atomic_store(&load->phase, i);
        times[i].begun = clock_utc();
        if (i == 0) {
            for (unsigned k = 0; k < profile->threads; k++) {
                if (pthread_create(&workers[k].thread, NULL, worker_run, &workers[k]) != 0) {
                    die("cannot start a thread");
                }
            }
        }
        asked = phase_wait(load, &profile->phases[i], begun, signals);
        times[i].seconds = now_s() - begun;
    }
    atomic_store(&load->ending, true);
    pthread_t watcher;
    if (pthread_create(&watcher, NULL, watch_end, load) != 0) {
        die("cannot start a thread");
    }
    for (unsigned k = 0; k < profile->threads; k++) {
        (void)pthread_join(workers[k].thread, NULL);
    }
    (void)pthread_kill(watcher, SIGUSR2);
    (void)pthread_join(watcher, NULL);
}

int main(int argc, char **argv)
{
    static struct profile profile;
    static struct target target;
    static struct load load = { .profile = &profile, .target = &target };
    struct phase_time times[PHASES_MAX] = { 0 };
    struct arguments arguments;
    sigset_t set;
    arguments_read(argc, argv, &arguments);
    profile_read(arguments.profile, &profile);
    target_read(arguments.target, &target);
    journal_open_at(&load.journal, arguments.journal);
    load.seed = arguments.seed;
    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGUSR2);
    int signals = pthread_sigmask(SIG_BLOCK, &set, NULL) == 0 ? signalfd(-1, &set, SFD_CLOEXEC) : -1;
    struct worker *workers = calloc(profile.threads, sizeof(*workers));
    FILE *out = arguments.out != NULL ? fopen(arguments.out, "w") : stdout;
    if (signals < 0 || workers == NULL || out == NULL || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        die("cannot begin: %s", out == NULL ? "the report cannot be written" : "no resources");
    }
    for (unsigned i = 0; i < profile.threads; i++) {
        workers[i] = (struct worker){ .load = &load, .measure = measure_new(&profile), .number = i };
        /* Steps of the generator are of one size: streams that began at neighbours would be one stream. */
        workers[i].random = load.seed ^ (i + 1) * 0xd1342543de82ef95u;
        workers[i].random = chance(&workers[i]);
    }
    run(&load, workers, times, signals);
    struct measure *sum = measure_new(&profile);
    for (unsigned i = 0; i < profile.threads; i++) {
        measure_add(sum, workers[i].measure);
    }
    measure_print(sum, times, load.seed, out);
    return fflush(out) == 0 && (out == stdout || fclose(out) == 0) ? 0 : 1;
}
