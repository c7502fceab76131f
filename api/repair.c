/* `svc-api repair-log`: the operator's word, what will be done, and the record of it. */
#include "api/commands.h"
#include "api/start.h"
#include "appliance/base/codec.h"

#include <stdio.h>

static const char usage[] =
    "usage: svc-appliance repair-log --from SEQ [--yes]\n"
    "\n"
    "Appends the lost tail of the event log again, from the read model's verified copies. SEQ is the first message\n"
    "that is missing, as /readyz says (first_bad_seq). Without --yes it looks, says what it would do, and changes\n"
    "nothing. The appliance must be stopped. docs/event-log-faults.md tells what cannot be repaired so.\n";

struct options {
    uint64_t from; /* 0 = not given */
    bool yes;
};

static bool read_number(const char *text, uint64_t *ret_number)
{
    uint64_t number = 0;
    size_t len = 0;
    for (; text[len] >= '0' && text[len] <= '9' && len < 18; len++) {
        number = number * 10 + (uint64_t)(text[len] - '0');
    }
    *ret_number = number;
    return len > 0 && text[len] == '\0' && number > 0;
}

static bool read_options(int argc, char **argv, struct options *options)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--yes") == 0) {
            options->yes = true;
        } else if (strcmp(argv[i], "--from") == 0 && i + 1 < argc && read_number(argv[i + 1], &options->from)) {
            i++;
        } else {
            (void)fprintf(stderr, "svc-api: repair-log: '%s' is not understood\n%s", argv[i], usage);
            return false;
        }
    }
    if (options->from == 0) {
        (void)fprintf(stderr, "svc-api: repair-log: --from SEQ is needed: the first message that is missing\n%s",
                      usage);
        return false;
    }
    return true;
}

static void tell(void *arg, const struct log_repair *plan)
{
    const struct options *options = arg;
    char rolling[2 * SHA256_LEN + 1];
    hex_text(SPAN_ARRAY(plan->rolling.at), rolling, sizeof(rolling));
    (void)printf("the event log ends at message %llu, equal to the copies up to there\n"
                 "the copies end at message %llu, rolling digest %s: verified\n"
                 "%s: messages %llu to %llu, %llu in all, each at the sequence that it had\n",
                 (unsigned long long)plan->log_last, (unsigned long long)plan->copies_last, rolling,
                 options->yes ? "appending again" : "would append again", (unsigned long long)plan->log_last + 1,
                 (unsigned long long)plan->copies_last, (unsigned long long)(plan->copies_last - plan->log_last));
    (void)fflush(stdout);
}

int command_repair_log(const struct config *config, int argc, char **argv)
{
    struct options options = { 0 };
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        (void)fputs(usage, stdout);
        return 0;
    }
    if (!read_options(argc, argv, &options)) {
        return 2;
    }
    CLEANUP(buf_free) struct buf why = BUF_INIT(65536);
    struct log_repair repair = { 0 };
    const struct log_repair_request request = {
        .from = options.from, .go = options.yes, .tell = tell, .arg = &options
    };
    struct fault fault = services_repair_log(config, &request, &why, &repair);
    if (FAULTED(fault)) {
        (void)fprintf(stderr, "svc-api: %s: %.*s\n", fault_row(fault.code)->text, (int)why.len, (const char *)why.at);
        if (repair.appended > 0) {
            (void)fprintf(stderr, "svc-api: %llu messages were appended before\n", (unsigned long long)repair.appended);
        }
        return fault.code == FAULT_LOG_REPAIR ? 2 : 1;
    }
    if (!options.yes) {
        (void)printf("nothing was changed: say --yes to do it\n");
        return 2;
    }
    (void)printf("appended again: %llu messages\n", (unsigned long long)repair.appended);
    return 0;
}
