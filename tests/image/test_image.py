"""What scripts/image makes: the same bytes twice, nothing in it that does not belong there, and a root that boots only as
it was made. Runs inside scripts/enter --image; wants the release build (build/release/bin)."""
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), f"{TOP}/scripts/lib"]
import image_boot  # noqa: E402
import image_disk  # noqa: E402
import qemu  # noqa: E402

BINARIES = os.environ.get("SVC_IMAGE_BINARIES", f"{TOP}/build/release/bin")
VERIFIED, PANIC = r"svc-initrd: the root is verified", r"dm-verity device corrupted|not syncing: dm-verity"
# Every program of the image. One more is a decision, not an accident.
EXECUTABLES = {
    "usr/bin/svc-api", "usr/bin/svc-appliance", "usr/bin/svc-initdb-sh", "usr/bin/svc-machine", "usr/bin/svc-signer",
    "usr/lib/postgresql/17/bin/initdb", "usr/lib/postgresql/17/bin/pg_isready", "usr/lib/postgresql/17/bin/postgres",
    "usr/lib/postgresql/17/bin/psql", "usr/sbin/chronyd", "usr/sbin/e2fsck", "usr/sbin/mke2fs", "usr/sbin/nats-server",
}


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def build(out, *options, **environment):
    command = [sys.executable, f"{TOP}/scripts/lib/image_make.py", "--level", "3", "--binaries", BINARIES, "--out", out]
    if os.environ.get("SVC_IMAGE_PARTIAL"):
        command.append("--partial")
    subprocess.run(command + list(options), check=True, stdout=subprocess.DEVNULL, env=os.environ | environment)


def flipped(path, offset, out):
    """A copy (sparse) with one bit changed."""
    subprocess.run(["cp", "--sparse=always", path, out], check=True)
    with open(out, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)
        file.seek(offset)
        file.write(bytes([byte[0] ^ 0x10]))
    return out


class Image(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.mkdtemp(prefix="svc-image-", dir=f"{TOP}/build")
        cls.addClassCleanup(shutil.rmtree, cls.work, ignore_errors=True)
        cls.out = f"{cls.work}/one"
        build(cls.out)
        with open(f"{cls.out}/root.json", encoding="utf-8") as file:
            cls.verity = json.load(file)
        with open(f"{cls.out}/contents.json", encoding="utf-8") as file:
            cls.files = {row["path"]: row for row in json.load(file)}
        with open(f"{cls.out}/cmdline", encoding="utf-8") as file:
            cls.cmdline = file.read()

    # ---- what is in it ----

    def test_another_folder_umask_time_zone_and_unpacking_give_the_same_bytes(self):
        other = f"{self.work}/another/folder"
        umask = os.umask(0o077)
        try:
            build(other, "--cache", f"{self.work}/packages", TZ="Asia/Tokyo", LC_ALL="C")
        finally:
            os.umask(umask)
        for name in ("contents.json", "root.json", "root.img", "initrd.img", "svc.unsigned.efi", "esp.img", "svc.img"):
            self.assertEqual(sha256(f"{self.out}/{name}"), sha256(f"{other}/{name}"), name)

    def test_another_version_has_another_root_hash(self):
        build(f"{self.work}/next", "--version", "9.9.9")
        with open(f"{self.work}/next/root.json", encoding="utf-8") as file:
            self.assertNotEqual(json.load(file)["roothash"], self.verity["roothash"])

    def test_nothing_is_setuid_and_nobody_may_write_anything(self):
        for folder, folders, files in os.walk(f"{self.out}/root"):
            for name in folders + files:
                mode = os.lstat(os.path.join(folder, name)).st_mode
                if stat.S_ISLNK(mode):
                    continue
                self.assertFalse(mode & (stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX | 0o022), f"{folder}/{name}")

    def test_only_the_listed_programs_can_be_run(self):
        found = set()
        for path, row in self.files.items():
            if "link" in row:
                continue
            with open(f"{self.out}/root/{path}", "rb") as file:
                head = file.read(4)
            self.assertNotEqual(head[:2], b"#!", f"{path} is a script")
            if row["mode"] == "0755" and ".so" not in path:
                found.add(path)
        missing = {path for path in EXECUTABLES if not os.path.exists(f"{BINARIES}/{os.path.basename(path)}")}
        if os.environ.get("SVC_IMAGE_PARTIAL"):
            found |= {path for path in missing if os.path.basename(path).startswith("svc-")}
        self.assertEqual(found, EXECUTABLES)

    def test_every_link_leads_to_a_file_of_the_image(self):
        for path, row in self.files.items():
            if "link" in row and not row["link"].startswith(("/run", "/tmp")) and path != "usr/bin/sh":
                base = "" if row["link"].startswith("/") else os.path.dirname(path)
                target = os.path.normpath(f"{self.out}/root/{base}/{row['link']}")
                self.assertTrue(os.path.exists(target), f"{path} -> {row['link']}")

    def test_every_account_is_without_password_and_shell(self):
        with open(f"{self.out}/root/etc/passwd", encoding="utf-8") as file:
            for line in file:
                self.assertRegex(line, r"^[a-z_-]+:x:\d+:\d+::/:/bin/false\n$")
        self.assertNotIn("etc/shadow", self.files)

    def test_the_slot_says_what_is_in_it_and_the_other_one_nothing(self):
        def last_page(label):
            said = subprocess.run(["sfdisk", "-J", f"{self.out}/svc.img"], check=True, stdout=subprocess.PIPE).stdout
            row, = [row for row in json.loads(said)["partitiontable"]["partitions"] if row["name"] == label]
            with open(f"{self.out}/svc.img", "rb") as file:
                file.seek((row["start"] + row["size"]) * 512 - 4096)
                return file.read(4096)
        self.assertEqual(last_page("svc-root-b"), bytes(4096))
        text = last_page("svc-root-a").rstrip(b"\0").decode()
        version = self.verity["version"]
        self.assertEqual(text, f"SVCROOT1\nversion={version}\nroothash={self.verity['roothash']}\n"
                               f"blocks={self.verity['blocks']}\nsalt={self.verity['salt']}\n")

    # ---- what boots ----

    def straight(self, root, roothash=None):
        """A machine that boots kernel and initrd without firmware (a third of the time), with one slot on its disk."""
        roothash = roothash or self.verity["roothash"]
        disk, size = f"{self.work}/slot.img", os.stat(root).st_size + (2 << 20)
        with open(disk, "wb") as file:
            file.truncate(size + (2 << 20))
        table = f"label: gpt\nstart=2048, size={size // 512}, name=svc-root-a\n"
        subprocess.run(["sfdisk", "-q", disk], input=table.encode(), check=True)
        subprocess.run(["dd", f"if={root}", f"of={disk}", "bs=1M", "seek=1", "conv=notrunc,sparse", "status=none"], check=True)
        with open(disk, "r+b") as file:
            file.seek((1 << 20) + size - image_disk.FOOTER)
            file.write(image_disk.footer(self.verity | {"roothash": roothash}, self.verity["version"]))
        cmdline = self.cmdline.replace(self.verity["roothash"], roothash)
        return qemu.Machine(disk, kernel=(f"{self.out}/vmlinuz", f"{self.out}/initrd.img", cmdline))

    def test_a_root_of_which_one_byte_was_changed_does_not_boot(self):
        data = self.verity["blocks"] * 4096
        whole = os.stat(f"{self.out}/root.img").st_size
        places = {"the super block": 40, "the middle": data // 2 + 1234, "the last data": data - 4096 + 5,
                  "the tree's root": data + 4096 + 7, "the tree's last block": whole - 4096 + 3}
        for name, offset in places.items():
            with self.subTest(name):
                bad = flipped(f"{self.out}/root.img", offset, f"{self.work}/bad.img")
                with self.straight(bad) as machine:
                    machine.expect(PANIC + r"|svc-initrd: this release does not start")
                    machine.never(VERIFIED)
        with self.subTest("and as it was made it does"), self.straight(f"{self.out}/root.img") as machine:
            machine.expect(VERIFIED)

    def test_a_root_does_not_boot_under_the_hash_of_another(self):
        with self.straight(f"{self.out}/root.img", hashlib.sha256(b"another").hexdigest()) as machine:
            machine.expect(PANIC + r"|svc-initrd: this release does not start")
            machine.never(VERIFIED)

    def test_with_secure_boot_only_what_was_signed_starts(self):
        key = f"{self.work}/sb.key"
        subprocess.run(["openssl", "rsa", "-in", qemu.SB_KEY, "-passin", f"pass:{qemu.SB_PASSWORD}", "-out", key], check=True,
                       stderr=subprocess.DEVNULL)
        signed = f"{self.work}/signed"
        os.makedirs(signed)
        for name in ("svc", "loader"):
            shutil.copyfile(f"{self.out}/{name}.unsigned.efi", f"{signed}/{name}.unsigned.efi")
        image_boot.finish(signed, key, qemu.SB_CERT)

        def disk(name, loader, boot, **more):
            out = f"{self.work}/{name}.img"
            subprocess.run(["cp", "--sparse=always", f"{self.out}/svc.img", out], check=True)
            for source, target in ((loader, "EFI/BOOT/BOOTX64.EFI"), (boot, f"EFI/Linux/svc-{self.verity['version']}.efi")):
                subprocess.run(["mcopy", "-o", "-i", f"{out}@@1M", source, f"::{target}"], check=True)
            return qemu.Machine(out, secure_boot=True, **more)

        with self.subTest("an unsigned boot loader"):
            with disk("loader", f"{self.out}/loader.efi", f"{signed}/svc.efi") as machine:
                machine.expect(r"BdsDxe: failed to (start|load) Boot0001.*(Access Denied|Security Violation)")
        with self.subTest("a boot file with one byte of its command line changed"):
            with open(f"{signed}/svc.efi", "rb") as file:
                offset = file.read().index(b"lockdown=confidentiality") + 9
            bad = flipped(f"{signed}/svc.efi", offset, f"{signed}/bad.efi")
            with disk("boot", f"{signed}/loader.efi", bad) as machine:
                machine.expect(r"(?i)error (loading|executing|starting).*(access denied|security violation)|"
                               r"(access denied|security violation)")
                machine.never(r"svc-initrd")
        with self.subTest("all of it signed, on a bigger disk: the state grows with it"):
            with disk("good", f"{signed}/loader.efi", f"{signed}/svc.efi", size="3000M") as machine:
                machine.expect(r"UEFI Secure Boot is enabled")
                machine.expect(VERIFIED)
                machine.expect(r"svc-state is now 2198 MiB")
                machine.kill()
                subprocess.run(["qemu-img", "convert", "-O", "raw", machine.overlay, f"{self.work}/grown.img"], check=True)
                said = subprocess.run(["sfdisk", "--verify", f"{self.work}/grown.img"], check=True, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT).stdout.decode()
                self.assertIn("No errors detected", said)


if __name__ == "__main__":
    unittest.main()
