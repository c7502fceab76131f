"""Updates of a machine that runs: what is refused, what a power cut leaves, an update that becomes ready and one that never
does. One machine lives through all of it, so the tests build on each other, in the order of their numbers. Runs inside
scripts/enter --image; wants the release build (build/release/bin)."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import qemu  # noqa: E402

BINARIES = os.environ.get("SVC_IMAGE_BINARIES", f"{TOP}/build/release/bin")
PROVISION = """hostname: updated
tenant: acme
network: { address: 10.0.2.15/24, gateway: 10.0.2.2 }
time: { servers: [], trust_host: true }
state: { seal: none }
"""
MEDIUM_SIZE = 192 << 20
STARTS = r"svc-initrd: release (\S+), slot ([ab])"
READY = r"svc: ready"
OPEN = r"the appliance is starting[^>]*svc> "  # the state is open, and the console takes commands
WROTE = r"slot [ab]: \d+ of \d+ KiB"


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.decode()


def svc_release(*arguments):
    return run(f"{BINARIES}/svc-release", *arguments)


def key(path):
    """A key that signs releases, and its public half."""
    run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path)
    run("openssl", "ec", "-in", path, "-pubout", "-out", f"{path}.pub")


def image(out, version, public, *options):
    subprocess.run([sys.executable, f"{TOP}/scripts/lib/image_make.py", "--level", "3", "--binaries", BINARIES, "--out", out,
                    "--version", version, "--release-key", public, "--partial", *options], check=True,
                   stdout=subprocess.DEVNULL)


def update(out, version, private, profile="small"):
    """The update file of an image; `version` is what its manifest says."""
    with open(f"{out}/root.json", encoding="utf-8") as file:
        tree = json.load(file)
    parts, manifest = (f"root={out}/root.img", f"uki={out}/svc.efi"), f"{out}/update.json"
    path = f"{out}/svc-{version}-{profile}.update"
    svc_release("manifest", "--kind", "update", "--version", version, "--min-version", "1.0.0", "--profile", profile,
                "--created", "2026-11-22T00:00:00Z", "--roothash", tree["roothash"], "--blocks", str(tree["blocks"]),
                "--salt", tree["salt"], *parts, "-o", manifest)
    run("openssl", "dgst", "-sha256", "-sign", private, "-out", f"{manifest}.sig", manifest)
    svc_release("pack", "--manifest", manifest, "--signature", f"{manifest}.sig", *parts, "-o", path)
    return path


class Update(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.mkdtemp(prefix="svc-update-", dir=f"{TOP}/build")
        cls.addClassCleanup(shutil.rmtree, cls.work, ignore_errors=True)
        cls.private, cls.foreign = f"{cls.work}/release.pem", f"{cls.work}/foreign.pem"
        for path in (cls.private, cls.foreign):
            key(path)
        public = f"{cls.private}.pub"
        image(f"{cls.work}/first", "1.0.0", public)
        image(f"{cls.work}/next", "1.1.0", public)
        image(f"{cls.work}/never", "1.2.0", public, "--cmdline", "svc.trial=10")  # nobody is ready so soon
        medium = qemu.medium(f"{cls.work}/provision.img", {"provision.yaml": PROVISION})
        cls.medium = qemu.medium(f"{cls.work}/update.img", {}, label="SVC-UPDATE", size=MEDIUM_SIZE)
        cls.machine = qemu.Machine(f"{cls.work}/first/svc.img", disks=[medium, cls.medium], folder=f"{cls.work}/machine")
        cls.addClassCleanup(cls.machine.stop)
        cls.machine.start()
        cls.failed = False

    def setUp(self):
        if type(self).failed:
            self.skipTest("the machine did not come through the test before")
        type(self).failed = True

    def tearDown(self):
        outcome = self._outcome.result
        broken = any(test is self for test, _ in outcome.failures + outcome.errors)
        type(self).failed = broken

    # ---- what the tests say to the machine ----

    def insert(self, path):
        """Puts the file on the medium, whose device the machine keeps: nothing of it is mounted between two commands."""
        fresh = f"{self.work}/fresh.img"
        with open(path, "rb") as file:
            qemu.medium(fresh, {os.path.basename(path): file.read()}, label="SVC-UPDATE", size=MEDIUM_SIZE)
        with open(fresh, "rb") as file, open(self.medium, "r+b") as out:
            shutil.copyfileobj(file, out)

    def command(self, text):
        self.machine.send(f"{text}\n")

    def apply(self, path, *patterns):
        """Each pattern in turn; the last match."""
        self.insert(path)
        self.command("update apply")
        for pattern in patterns:
            found = self.machine.expect(pattern)
        return found

    def refused(self, path, code):
        written = len(re.findall(WROTE, self.machine.said))
        self.apply(path, rf"update: refused: [^\r\n]* \({code}\)")
        self.assertEqual(len(re.findall(WROTE, self.machine.said)), written)

    def starts(self, version, slot):
        found = self.machine.expect(STARTS)
        self.assertEqual((found[1], found[2]), (version, slot))

    def comes_up(self, version, slot):
        self.starts(version, slot)
        self.machine.expect(r"svc-initrd: the root is verified")

    def reboot(self):
        self.command("reboot")
        self.machine.expect(r"Type yes to go on")
        self.command("yes")

    def status(self, *lines):
        self.command("update status")
        for line in lines:
            self.machine.expect(line)

    # ---- the tests ----

    def test_1_what_must_not_be_taken_changes_nothing(self):
        self.comes_up("1.0.0", "a")
        self.machine.expect(OPEN)
        good = update(f"{self.work}/next", "1.1.0", self.private)
        self.status(r"running +1\.0\.0", r"slot +a")
        for place in (os.path.getsize(good) // 2, os.path.getsize(good) - 1):  # root, uki
            corrupt = f"{self.work}/corrupt.update"
            shutil.copyfile(good, corrupt)
            with open(corrupt, "r+b") as file:
                file.seek(place)
                byte = file.read(1)[0]
                file.seek(place)
                file.write(bytes([byte ^ 1]))
            self.refused(corrupt, "release_file_refused")
        self.refused(update(f"{self.work}/next", "1.1.0", self.foreign), "release_signature_refused")
        self.refused(update(f"{self.work}/first", "0.9.0", self.private), "release_version_refused")
        self.refused(update(f"{self.work}/first", "1.0.0", self.private), "release_version_refused")
        self.refused(update(f"{self.work}/next", "1.1.0", self.private, "generic"), "release_not_for_this_machine")
        self.status(r"running +1\.0\.0", r"slot +a")

    def test_2_a_power_cut_leaves_a_machine_that_starts(self):
        good = update(f"{self.work}/next", "1.1.0", self.private)
        # In the middle of the root, when the footer is written, when the boot entry is.
        for place in (WROTE, r"read back and right", r"boot entry written"):
            self.apply(good, place)
            self.machine.kill()
            self.machine.start()
            found = self.machine.expect(STARTS)
            if (found[1], found[2]) == ("1.1.0", "b"):  # the cut came just after the entry was made
                self.assertEqual(place, r"boot entry written")
                self.machine.kill()  # not ready: falls back
                self.machine.start()
                found = self.machine.expect(STARTS)
            self.assertEqual((found[1], found[2]), ("1.0.0", "a"))
            self.machine.expect(r"svc-initrd: the root is verified")
            self.machine.expect(OPEN)

    def test_3_an_update_that_never_becomes_ready_is_given_up(self):
        self.machine.expect(READY)
        self.apply(update(f"{self.work}/never", "1.2.0", self.private), WROTE, r"read back and right",
                   r"in slot b; the next boot tries it")
        self.status(r"running +1\.0\.0", r"floor +1\.0\.0", r"waiting +1\.2\.0")
        self.reboot()
        self.comes_up("1.2.0", "b")
        self.machine.expect(r"version 1\.2\.0 did not become ready and is given up")
        self.comes_up("1.0.0", "a")
        self.machine.expect(READY)
        self.status(r"running +1\.0\.0", r"floor +1\.0\.0", r"failed +1\.2\.0")

    def test_4_a_good_update_is_kept_and_nothing_older_comes_back(self):
        self.apply(update(f"{self.work}/next", "1.1.0", self.private), r"in slot b; the next boot tries it")
        self.reboot()
        self.comes_up("1.1.0", "b")
        self.machine.expect(r"version 1\.1\.0 runs and is kept")
        self.status(r"running +1\.1\.0", r"slot +b", r"floor +1\.1\.0")
        self.refused(update(f"{self.work}/first", "1.0.0", self.private), "release_version_refused")


if __name__ == "__main__":
    unittest.main(verbosity=2)
