/* svc-release: makes and checks update and extension files, on any machine, without root. */
#include "appliance/release/tool/commands.h"

#include <signal.h>
#include <stdio.h>

#define LIMIT_MS (3600 * 1000)

static const char usage[] =
    "usage: svc-release COMMAND ...\n"
    "\n"
    "  tree FILE [--salt HEX]   append the dm-verity tree to a squashfs image; prints roothash, blocks and salt\n"
    "  manifest --kind update --version V --min-version V --profile P --created TIME\n"
    "           --roothash H --blocks N --salt H [--sbom-sha256 H] root=FILE uki=FILE [-o FILE]\n"
    "  manifest --kind extension --name NAME ... (as above) tree=FILE [-o FILE]\n"
    "                           what is signed: sign it with svc-cli code-signing sign FILE --key K -o FILE.sig\n"
    "                           (P-256 with sha256, or P-384 with --digest-algorithm sha384)\n"
    "  pack --manifest FILE --signature FILE [--key PEM] root=FILE uki=FILE | tree=FILE -o FILE\n"
    "                           the update or extension file; with --key, the signature is judged first\n"
    "  verify FILE --key PEM [--key PEM ...]\n"
    "                           signature, SHA-256 of each part, and the whole hash tree; a folder of *.pem is fine, too\n"
    "  inspect FILE             the manifest, without judging anything\n"
    "  footer --version V --roothash H --blocks N --salt H [-o FILE]\n"
    "                           the last 4096 bytes of a root slot that holds this release\n"
    "\n"
    "Exit codes: 0 fine, 1 failed, 2 refused (arguments, or a file that does not verify).\n";

static const struct {
    const char *name;
    struct fault (*run)(struct op *op, const struct options *options);
} commands[] = {
    { "tree", command_tree },     { "manifest", command_manifest }, { "pack", command_pack },
    { "verify", command_verify }, { "inspect", command_inspect },   { "footer", command_footer },
};

static int complain(const struct op *op, struct fault fault)
{
    const char *detail = op != NULL && op->note.set ? op->note.detail : fault_row(fault.code)->title;
    (void)fprintf(stderr, "svc-release: %s\n", detail);
    return fault.code == FAULT_BAD_ARGUMENT || fault.code == FAULT_RELEASE_FILE || fault.code == FAULT_RELEASE_SIGNATURE
               ? 2
               : 1;
}

int main(int argc, char **argv)
{
    CLEANUP(op_freep) struct op *op = NULL;
    struct options options = { 0 };
    (void)signal(SIGPIPE, SIG_IGN);
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        (void)fputs(usage, argc < 2 ? stderr : stdout);
        return argc < 2 ? 2 : 0;
    }
    struct fault done = op_new("svc-release", (struct tenant_id){ 0 }, LIMIT_MS, &op);
    for (size_t i = 0; !FAULTED(done) && i < COUNT_OF(commands); i++) {
        if (strcmp(commands[i].name, argv[1]) == 0) {
            done = options_parse(op, argc - 2, argv + 2, &options);
            done = FAULTED(done) ? done : commands[i].run(op, &options);
            return FAULTED(done) ? complain(op, done) : 0;
        }
    }
    done = FAULTED(done) ? done : op_fail(op, FAULT(BAD_ARGUMENT), "'%s' is no command; --help lists them", argv[1]);
    return complain(op, done);
}
