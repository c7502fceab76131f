"""scripts/image --boot: starts the disk in QEMU, provisioned for trying it out, and prints when it is ready. The console is
seen on standard output and taken from standard input; Ctrl-C ends it, and what it wrote goes with it."""
import argparse
import os
import re
import select
import sys
import tempfile
import time

sys.dont_write_bytecode = True
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f"{TOP}/tests/image")
import qemu  # noqa: E402
import serving  # noqa: E402

READY = re.compile(r"svc: ready|machine +ready")


def parse():
    parser = argparse.ArgumentParser(prog="scripts/image --boot")
    parser.add_argument("--profile", choices=("small", "generic"), default="small")
    parser.add_argument("--out")
    parser.add_argument("--secure-boot", action="store_true")
    parser.add_argument("--tpm", action="store_true")
    parser.add_argument("--disk", action="append", default=[], metavar="FILE")
    parser.add_argument("--console", action="store_true")
    parser.add_argument("--memory", type=int, default=2048)
    options = parser.parse_args()
    options.out = options.out or f"{TOP}/build/image/{options.profile}"
    return options


def relay(machine):
    """Console to standard output, standard input to the console, until the machine is off; has it been ready?"""
    started, said, is_ready = time.monotonic(), 0, False
    inputs = [sys.stdin, machine.serial]
    while machine.process.poll() is None:
        found, _, _ = select.select(inputs, [], [], 1)
        if sys.stdin in found:
            text = os.read(sys.stdin.fileno(), 4096)
            if text:
                machine.send(text.decode(errors="replace"))
            else:
                inputs.remove(sys.stdin)
        if machine.serial in found and not machine.read(0):
            break
        sys.stdout.write(machine.said[said:])
        sys.stdout.flush()
        said = len(machine.said)
        if not is_ready and READY.search(machine.said):
            is_ready = True
            print(f"\nimage: ready after {time.monotonic() - started:.0f} s: {machine.url(serving.HTTPS)}", flush=True)
    return is_ready


def main():
    options = parse()
    with tempfile.TemporaryDirectory() as work:
        own = not options.disk and not options.console
        disks = [f"{work}/provision.img"] if own else options.disk
        machine = qemu.Machine(f"{options.out}/svc.img", secure_boot=options.secure_boot, tpm=options.tpm, disks=disks,
                               forward=[serving.HTTPS, serving.PLAIN, serving.PROBE], memory=options.memory)
        if own:
            qemu.medium(disks[0], {"provision.yaml": serving.provisioning(machine)})
        with machine:
            print(f"image: {options.out}/svc.img starts; its port 8443 is {machine.url(serving.HTTPS)}, its probes "
                  f"{machine.url(serving.PROBE, 'http')}", flush=True)
            return 0 if relay(machine) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
