/* svc-signer: the only process that loads the PKCS#11 module. `svc-signer --help` tells the rest. */
#include "signer-pkcs11/broker/start.h"

#include "appliance/base/failpoint.h"
#include "appliance/base/secret.h"
#include "signer-pkcs11/broker/journal_check.h"
#include "signer-pkcs11/doctor/doctor.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: svc-signer --config FILE\n"
    "       svc-signer --check-journal FOLDER [--json]\n"
    "       svc-signer --doctor ...             examines a PKCS#11 token; --doctor --help tells more\n"
    "       svc-signer --help | --version\n"
    "\n"
    "Opens the PKCS#11 token of the configuration and answers svc-api until SIGTERM: on signer.socket, and over TLS on\n"
    "signer.listen where it is set, or on the sockets that LISTEN_FDS hands over. It starts no program, and writes\n"
    "below signer.journal and the token's folder only. The PIN is read from token.pin_file (mode 0600).\n"
    "\n"
    "--check-journal reads a journal that no signer has open, changes nothing, and says what is in it and whether it\n"
    "is damaged: exit code 0 or 1.\n"
    "\n"
    "exit code: 0 stopped as asked, 1 failed while running, 2 arguments or configuration refused,\n"
    "           3 the power-on self-test refused\n";

static int check_journal(const char *folder, enum check_form form)
{
    CLEANUP(buf_free) struct buf report = BUF_INIT(16384);
    bool fine = journal_check(folder, form, &report);
    bool told = fwrite(report.at, 1, report.len, stdout) == report.len;
    return fine && told ? 0 : 1;
}

int main(int argc, char **argv)
{
    process_undumpable();
    failpoint_open();
    int code = 2;
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        code = fputs(usage, stdout) >= 0 ? 0 : 1;
    } else if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        code = puts("svc-signer " SVC_VERSION) >= 0 ? 0 : 1;
    } else if (argc == 3 && strcmp(argv[1], "--check-journal") == 0) {
        code = check_journal(argv[2], CHECK_TEXT);
    } else if (argc == 4 && strcmp(argv[1], "--check-journal") == 0 && strcmp(argv[3], "--json") == 0) {
        code = check_journal(argv[2], CHECK_JSON);
    } else if (argc == 3 && strcmp(argv[1], "--config") == 0) {
        code = signer_run(argv[2]);
    } else if (argc >= 2 && strcmp(argv[1], "--doctor") == 0) {
        code = (int)doctor_main(argc - 2, argv + 2);
    } else {
        (void)fputs(usage, stderr);
    }
    (void)fflush(stdout);
    /* Without exit handlers: modules are known to crash in theirs, and everything that matters is closed. */
    _exit(code);
}
