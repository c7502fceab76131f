"""What scripts/image leaves beside the disk: bill of materials, signed manifest, OCI archive, Debian packages. Judged by
the tools of others where there are some (umoci, dpkg, systemd, openssl, sha256sum).

SVC_IMAGE is the folder of an image that was built with --oci --deb --sign (default build/image/small). Runs inside
scripts/enter --image: cd tests/image && python3 -W ignore -m unittest -v test_release"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import scratch  # noqa: E402

TOP = pathlib.Path(__file__).resolve().parents[2]
IMAGE = pathlib.Path(os.environ.get("SVC_IMAGE", TOP / "build/image/small"))
BIN = pathlib.Path(os.environ.get("SVC_TEST_BIN", TOP / "build/release/bin"))
RELEASE = IMAGE / "release"
UNITS = {"svc-appliance.service": 3.6, "svc-signer.service": 1.3, "svc-api.service": 1.5}  # and their exposure at most

# What docs/release.md gives the container, of all that an engine would.
CAPABILITIES = ("chown", "dac_override", "fowner", "kill", "setgid", "setpcap", "setuid")


def run(*words, check=True, **more):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **more)
    if check and done.returncode != 0:
        raise AssertionError(f"{words}: exit {done.returncode}: {done.stdout}")
    return done


def digest(path):
    return run("sha256sum", path).stdout.split()[0]


def manifest():
    return json.loads((RELEASE / "manifest.json").read_text())


class SignedManifest(unittest.TestCase):
    """What a site does before it believes anything of a release."""

    def verify(self, file, signature=None):
        kind = "sha384" if "P-384" in run("openssl", "pkey", "-pubin", "-in", RELEASE / "release.pub", "-noout", "-text").stdout else "sha256"
        return run(BIN / "svc-cli", "code-signing", "verify", file, "--signature", signature or f"{file}.sig", "--public-key",
                   RELEASE / "release.pub", "--digest-algorithm", kind, check=False), kind

    def test_a_changed_manifest_or_sum_does_not_verify(self):
        for name in ("manifest.json", "SHA256SUMS"):
            with tempfile.TemporaryDirectory() as work:
                changed = pathlib.Path(work) / name
                text = bytearray((RELEASE / name).read_bytes())
                text[len(text) // 2] ^= 1
                changed.write_bytes(text)
                done, _ = self.verify(changed, RELEASE / f"{name}.sig")
                self.assertEqual(done.returncode, 2, done.stdout)
        done, _ = self.verify(RELEASE / "manifest.json", RELEASE / "SHA256SUMS.sig")
        self.assertEqual(done.returncode, 2, "a signature of another file")

    def test_signatures_verify_with_svc_cli_and_with_openssl(self):
        for name in ("manifest.json", "SHA256SUMS"):
            done, kind = self.verify(RELEASE / name)
            self.assertEqual(done.returncode, 0, done.stdout)
            run("openssl", "dgst", f"-{kind}", "-verify", RELEASE / "release.pub", "-signature", RELEASE / f"{name}.sig",
                RELEASE / name)

    def test_every_file_of_the_release_is_in_the_sums_and_in_the_manifest(self):
        run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=RELEASE)
        there = {str(path.relative_to(RELEASE)) for path in RELEASE.rglob("*") if path.is_file()}
        sums = {line.split(None, 1)[1].strip() for line in (RELEASE / "SHA256SUMS").read_text().splitlines()}
        self.assertEqual(there - sums, {"SHA256SUMS", "SHA256SUMS.sig", "manifest.json.sig"})
        self.assertEqual({part["name"] for part in manifest()["files"]}, sums - {"manifest.json"})
        for part in manifest()["files"]:
            self.assertEqual((digest(RELEASE / part["name"]), (RELEASE / part["name"]).stat().st_size),
                             (part["sha256"], part["size"]), part["name"])

    def test_the_manifest_names_the_fips_module_and_every_program_of_the_root(self):
        named = manifest()
        self.assertIn(named["fips_module"]["sha256"].encode(), (BIN / "svc-appliance").read_bytes())
        programs = {part["name"]: part["sha256"] for part in named["programs"]}
        for name in ("svc-appliance", "svc-signer", "svc-api", "svc-machine"):
            self.assertEqual(programs[f"/usr/bin/{name}"], digest(IMAGE / "root/usr/bin" / name))

    def test_the_update_file_is_this_release_and_verifies_with_the_key_inside_the_image(self):
        update, = RELEASE.glob("*.update")
        keys = IMAGE / "root/usr/share/svc/release-keys"
        run(BIN / "svc-release", "verify", update, "--key", keys)
        inside = json.loads(subprocess.run([BIN / "svc-release", "inspect", update], check=True, stdout=subprocess.PIPE,
                                           stderr=subprocess.DEVNULL).stdout)
        named = manifest()
        self.assertEqual((inside["version"], inside["roothash"]), (named["version"], named["verity"]["roothash"]))
        self.assertEqual(inside["sbom_sha256"], digest(RELEASE / "sbom.spdx.json"))
        self.assertEqual(inside["parts"][0]["sha256"], {part["name"]: part["sha256"] for part in named["parts"]}["root.img"])

    def test_the_disk_that_is_shipped_is_the_one_that_was_built(self):
        disk, = RELEASE.glob("*.img.zst")
        unpacked = subprocess.Popen(["zstd", "-q", "-d", "-c", disk], stdout=subprocess.PIPE)
        summed = subprocess.run(["sha256sum"], stdin=unpacked.stdout, stdout=subprocess.PIPE, text=True, check=True).stdout.split()[0]
        self.assertEqual(unpacked.wait(), 0)
        self.assertEqual({part["name"]: part["sha256"] for part in manifest()["parts"]}["svc.img"], summed)


class BillOfMaterials(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.sbom = json.loads((IMAGE / "sbom.spdx.json").read_text())
        cls.packages = {package["name"]: package for package in cls.sbom["packages"]}

    def make(self, root, out):
        about = manifest()
        built_by = TOP / "build/image/build-root.txt"
        return run("scripts/lib/release-sbom", root, out, about["version"], about["profile"], built_by, cwd=TOP, check=False,
                   env=os.environ | {"SVC_EPOCH": self.epoch()})

    def epoch(self):
        return run("date", "-u", "-d", self.sbom["creationInfo"]["created"], "+%s").stdout.strip()

    def test_a_file_that_nobody_accounts_for_stops_the_build(self):
        with tempfile.TemporaryDirectory() as work:
            root = pathlib.Path(work) / "root"
            (root / "usr/lib").mkdir(parents=True)
            shutil.copy(IMAGE / "root/usr/lib/x86_64-linux-gnu/libcrypto.so.3", root / "usr/lib/libplanted.so")
            done = self.make(root, work)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("usr/lib/libplanted.so", done.stdout)

    def test_a_changed_file_of_a_package_stops_the_build(self):
        with tempfile.TemporaryDirectory() as work:
            library = pathlib.Path(work) / "root/usr/lib/x86_64-linux-gnu/libcrypto.so.3"
            library.parent.mkdir(parents=True)
            text = bytearray((IMAGE / "root/usr/lib/x86_64-linux-gnu/libcrypto.so.3").read_bytes())
            text[100000] ^= 1
            library.write_bytes(text)
            done = self.make(pathlib.Path(work) / "root", work)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("libcrypto.so.3", done.stdout)

    def test_the_same_tree_gives_the_same_bytes(self):
        with tempfile.TemporaryDirectory() as work:
            done = self.make(IMAGE / "root", work)
            self.assertEqual(done.returncode, 0, done.stdout)
            for name in ("packages.lock", "copyright.tar.gz"):
                self.assertEqual(digest(pathlib.Path(work) / name), digest(RELEASE / name), name)
            # The initrd stands beside the tree where scripts/image works, and its program is one of ours.
            again = json.loads((pathlib.Path(work) / "sbom.spdx.json").read_text())
            self.assertEqual([p["name"] for p in again["packages"]], [p["name"] for p in self.sbom["packages"]])

    def test_every_debian_package_has_version_source_checksum_and_licence(self):
        debian = [p for p in self.sbom["packages"] if p.get("supplier") == "Organization: Debian"]
        self.assertGreater(len(debian), 50)
        for package in debian:
            self.assertTrue(package["versionInfo"] and package["sourceInfo"], package["name"])
            self.assertNotEqual(package["licenseDeclared"], "NOASSERTION", package["name"])
            if package["name"] not in ("civetweb", "libc6-dev", "systemd-boot-efi"):
                self.assertRegex(package["checksums"][0]["checksumValue"], "^[0-9a-f]{64}$")
                self.assertIn(f"pkg:deb/debian/{package['name']}@", package["externalRefs"][0]["referenceLocator"])

    def test_the_lock_and_the_bill_name_the_same_packages(self):
        locked = dict(line.split()[::-1] for line in (RELEASE / "packages.lock").read_text().splitlines()
                      if re.match(r"[0-9a-f]{64} ", line))
        summed = {p["checksums"][0]["checksumValue"] for p in self.sbom["packages"] if "checksums" in p}
        self.assertEqual(set(locked.values()), summed)

    def test_what_is_linked_into_our_programs_is_named(self):
        links = {(r["relationshipType"], r["relatedSpdxElement"]) for r in self.sbom["relationships"]
                 if r["spdxElementId"] == "SPDXRef-Package-svc"}
        for name in ("libssl3t64", "libpq5", "libnats3.10", "libp11-3t64"):
            self.assertIn(("DYNAMIC_LINK", f"SPDXRef-Package-{name}"), links)
        for name in ("civetweb", "libc6-dev"):
            self.assertIn(("STATIC_LINK", f"SPDXRef-Package-{name}"), links)

    def test_references_lead_somewhere_and_our_files_have_the_sums_of_the_tree(self):
        known = {p["SPDXID"] for p in self.sbom["packages"]} | {f["SPDXID"] for f in self.sbom["files"]} | {"SPDXRef-DOCUMENT"}
        for relation in self.sbom["relationships"]:
            self.assertLessEqual({relation["spdxElementId"], relation["relatedSpdxElement"]}, known)
        self.assertEqual(len(known), len(self.sbom["packages"]) + len(self.sbom["files"]) + 1, "an identifier twice")
        expressions = " ".join(p["licenseDeclared"] for p in self.sbom["packages"])
        self.assertEqual(set(re.findall(r"LicenseRef-[A-Za-z0-9.-]+", expressions)),
                         {info["licenseId"] for info in self.sbom["hasExtractedLicensingInfos"]})
        files = {f["fileName"]: {c["algorithm"]: c["checksumValue"] for c in f["checksums"]} for f in self.sbom["files"]}
        for name in ("usr/bin/svc-api", "usr/share/svc/policies/roles.yaml"):
            self.assertEqual(files[f"./{name}"]["SHA256"], digest(IMAGE / "root" / name))

    def test_the_copyright_files_of_all_packages_travel_with_the_release(self):
        with tarfile.open(RELEASE / "copyright.tar.gz") as packed:
            named = {name.split("/")[1] for name in packed.getnames()}
        debian = {p["name"] for p in self.sbom["packages"] if p.get("supplier") == "Organization: Debian"}
        self.assertLessEqual(debian - {"civetweb", "libc6-dev", "systemd-boot-efi"}, named)


class OciArchive(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        archive, = RELEASE.glob("*-oci.tar")
        cls.archive, cls.layout, cls.bundle = archive, cls.folder / "layout", cls.folder / "bundle"
        cls.layout.mkdir()
        run("tar", "-xf", archive, "-C", cls.layout)
        run("umoci", "unpack", "--image", f"{cls.layout}:{manifest()['version']}", cls.bundle)
        cls.tree = cls.bundle / "rootfs"

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def test_its_content_is_that_of_the_root_without_kernel_modules(self):
        own = {"etc/svc", "etc/svc/svc.yaml", "etc/resolv.conf", "etc/hosts"}
        def names(top):
            return {str(path.relative_to(top)) for path in top.rglob("*")}
        root = {name for name in names(IMAGE / "root") if not name.startswith("usr/lib/modules")}
        self.assertEqual(names(self.tree) - own, root - own)
        for name in sorted(root - own):
            path = self.tree / name
            if path.is_file() and not path.is_symlink():
                self.assertEqual(path.read_bytes(), (IMAGE / "root" / name).read_bytes(), name)

    def test_it_has_no_setuid_file_no_package_manager_and_no_shell(self):
        for path in self.tree.rglob("*"):
            status = path.lstat()
            self.assertFalse(status.st_mode & 0o6000, path)
            self.assertEqual((status.st_uid, status.st_gid), (0, 0), path)
            self.assertNotIn(path.name, ("bash", "dash", "busybox", "dpkg", "apt", "apt-get", "perl", "python3", "sshd", "sudo"))

    def test_the_same_tree_gives_the_same_bytes(self):
        again = self.folder / "again.tar"
        index = json.loads((self.layout / "index.json").read_text())
        described = json.loads((self.layout / "blobs/sha256" / index["manifests"][0]["digest"][7:]).read_text())
        epoch = run("date", "-u", "-d", described["annotations"]["org.opencontainers.image.created"], "+%s").stdout.strip()
        run("scripts/lib/release-oci", IMAGE / "root", again, manifest()["version"], cwd=TOP, env=os.environ | {"SVC_EPOCH": epoch})
        self.assertEqual(digest(again), digest(self.archive))

    def test_it_starts_read_only_signs_and_stops_in_order(self):
        process = json.loads((self.bundle / "config.json").read_text())["process"]
        with scratch.Container(self.tree, process["args"], {"SVC_TSA_CLOCK_TRUST_HOST": "true"}, CAPABILITIES) as box:
            box.wait_ready()
            settings = client_env(box, pathlib.Path(f"/proc/{box.init}/root/var/lib/svc"))
            sign_and_verify(self, box, settings, BIN / "svc-cli")
            self.assertEqual(box.stop(), 0, box.said()[-2000:])


def client_env(machine, data):
    """The settings of svc-cli that the embedded profile writes."""
    settings = {}
    scratch.until("client.env", (data / "client.env").exists, machine.alive)
    for line in (data / "client.env").read_text().splitlines():
        name, _, value = line.removeprefix("export ").partition("=")
        settings[name] = value.strip("'\"")
    return settings | {"SVC_CA_FILE": str(data / "ca.pem")}


def sign_and_verify(test, machine, settings, cli, name="site"):
    """svc-cli of this root, in that machine's network: a key, a signature, verified offline and by openssl."""
    with tempfile.TemporaryDirectory() as work:
        environment = scratch.CLEAN | settings

        def client(*words):
            done = subprocess.run(["nsenter", "-t", machine.init, "-n", "--", cli, *words], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, env=environment, timeout=scratch.LIMIT, check=False)
            test.assertEqual(done.returncode, 0, done.stdout)
            return done.stdout
        file, public = pathlib.Path(work) / "file", pathlib.Path(work) / "public.pem"
        file.write_text("what a site signs")
        made = json.loads(client("keys", "create", "--name", name, "--algorithm", "ec-p256", "--purpose", "codesign", "--json"))
        key = made.get("key_id") or made["id"]
        public.write_text(json.loads(client("keys", "get", key, "--json"))["public_key_pem"])
        client("code-signing", "sign", str(file), "--key", key, "-o", f"{file}.sig", "--yes")
        client("code-signing", "verify", str(file), "--signature", f"{file}.sig", "--public-key", str(public))
        run("openssl", "dgst", "-sha256", "-verify", public, "-signature", f"{file}.sig", file)
        return key


class DebianPackages(unittest.TestCase):
    debs = sorted((RELEASE / "deb").glob("*.deb"))

    def test_the_same_inputs_give_the_same_bytes(self):
        with tempfile.TemporaryDirectory() as work:
            created = manifest()["created"]
            epoch = run("date", "-u", "-d", created, "+%s").stdout.strip()
            run("scripts/lib/release-deb", f"{work}/deb", manifest()["version"], BIN, BIN.parent / "lib", cwd=TOP,
                env=os.environ | {"SVC_EPOCH": epoch})
            self.assertEqual({deb.name: digest(deb) for deb in self.debs},
                             {deb.name: digest(deb) for deb in pathlib.Path(work, "deb").iterdir()})

    def test_a_package_whose_dependencies_are_missing_is_not_set_up(self):
        with scratch.Debian() as machine:
            said = machine.dpkg("--install", *[deb for deb in self.debs if deb.name.startswith("svc-appliance_")], check=False)
            self.assertIn("dependency problems prevent configuration of svc-appliance", said)

    def test_installing_twice_changes_nothing_and_removing_leaves_what_was_signed_with(self):
        with scratch.Debian() as machine:
            machine.install(self.debs)
            before = machine.dpkg("--verify", "svc-common", "svc-appliance") + (machine.tree / "etc/passwd").read_text()
            machine.install(self.debs)
            after = machine.dpkg("--verify", "svc-common", "svc-appliance") + (machine.tree / "etc/passwd").read_text()
            self.assertEqual(before, after)
            for line in (TOP / "rootfs/users.txt").read_text().splitlines():
                if line and not line.startswith("#"):
                    self.assertRegex((machine.tree / "etc/group").read_text(), rf"(?m)^{line.split()[0]}:")
            (machine.tree / "etc/svc/svc.yaml").write_text("# the site's own\n")
            kept = machine.tree / "var/lib/svc/signer/journal"
            kept.parent.mkdir(parents=True)
            kept.write_text("what was signed")
            machine.install(self.debs)
            self.assertEqual((machine.tree / "etc/svc/svc.yaml").read_text(), "# the site's own\n")
            machine.dpkg("--purge", *[deb.name.split("_")[0] for deb in self.debs])
            self.assertEqual(kept.read_text(), "what was signed")
            self.assertFalse((machine.tree / "usr/libexec/svc").exists())
            self.assertFalse((machine.tree / "etc/svc/svc.yaml").exists())


class HardenedUnits(unittest.TestCase):
    """The packages on a Debian 13 whose first process is systemd, with the units as they are shipped."""

    @classmethod
    def setUpClass(cls):
        cls.machine = scratch.Debian()
        cls.addClassCleanup(cls.machine.__exit__)
        cls.machine.install(DebianPackages.debs)
        cls.machine.boot()

    def status(self, pid):
        text = self.machine.run("cat", f"/proc/{pid}/status").stdout
        return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)

    def main_pid(self, unit):
        return self.machine.run("systemctl", "show", "-P", "MainPID", unit).stdout.strip()

    def api(self, *words):
        return self.machine.run("runuser", "-u", "svc-api", "--", "/usr/libexec/svc/svc-api", words[0], "--config",
                                "/etc/svc/svc.yaml", *words[1:]).stdout

    def configure(self, text):
        (self.machine.tree / "etc/svc/svc.yaml").write_text(text)

    def test_systemd_understands_every_line_of_them(self):
        said = self.machine.run("systemd-analyze", "verify", "--recursive-errors=one", *UNITS, "svc-signer.socket").stdout
        self.assertEqual(said.strip(), "")

    def test_their_exposure_is_below_the_limits(self):
        for unit, limit in UNITS.items():
            self.machine.run("systemd-analyze", "security", "--no-pager", f"--threshold={int(limit * 10)}", "--offline=yes", unit)

    def test_nothing_is_started_by_installing(self):
        for unit in (*UNITS, "svc-signer.socket"):
            self.assertEqual(self.machine.run("systemctl", "is-enabled", unit, check=False).stdout.strip(), "disabled")

    def test_1_the_appliance_signs_under_its_unit(self):
        machine = self.machine
        self.configure("protocols: {tsa: {clock: {trust_host: true}}}\n")
        machine.run("systemctl", "start", "svc-appliance")
        machine.wait_ready()
        cli = machine.tree / "usr/bin/svc-cli"
        settings = client_env(machine, machine.tree / "var/lib/svc")
        sign_and_verify(self, machine, settings, cli)
        main = self.status(self.main_pid("svc-appliance"))
        self.assertEqual((main["NoNewPrivs"].strip(), main["Seccomp"].strip()), ("1", "2"))
        children = machine.run("cat", f"/proc/{self.main_pid('svc-appliance')}/task/{self.main_pid('svc-appliance')}/children").stdout
        users = {self.status(pid)["Uid"].split()[0] for pid in children.split()}
        self.assertEqual(users, {"640", "641", "642", "643"})
        for pid in children.split():
            status = self.status(pid)
            self.assertEqual((status["NoNewPrivs"].strip(), int(status["CapEff"], 16)), ("1", 0), status["Name"])
        self.assertNotIn("hardening_reduced", machine.run("journalctl", "--no-pager", "-o", "cat", "-u", "svc-appliance").stdout)
        machine.run("systemctl", "stop", "svc-appliance")
        self.assertEqual(machine.run("systemctl", "show", "-P", "Result", "svc-appliance").stdout.strip(), "success")
        self.assertIn("appliance_stopped", machine.run("journalctl", "--no-pager", "-o", "cat", "-u", "svc-appliance").stdout)

    def test_2_signer_and_api_sign_under_theirs_with_stores_of_the_site(self):
        machine = self.machine
        machine.run("rm", "-rf", "/var/lib/svc")
        script = pathlib.Path(__file__).with_name("site-stores.sh").read_text()
        machine.run("bash", "-c", script)
        machine.run("systemctl", "start", "svc-signer.socket", "svc-api")
        machine.wait_ready()
        settings = {"SVC_BASE_URL": "https://127.0.0.1:8443", "SVC_CA_FILE": str(machine.tree / "etc/svc/tls.pem")}
        self.api("tenant", "create", "default")
        made = self.api("token", "create", "--tenant", "default", "--subject", "operator", "--role", "operator", "--json")
        settings["SVC_TOKEN"] = json.loads(made.splitlines()[-1])["token"]
        sign_and_verify(self, machine, settings, machine.tree / "usr/bin/svc-cli")
        machine.run("systemctl", "restart", "svc-signer")
        sign_and_verify(self, machine, settings, machine.tree / "usr/bin/svc-cli", "after-a-restart")
        for unit, user in (("svc-signer", "642"), ("svc-api", "643")):
            status = self.status(self.main_pid(unit))
            self.assertEqual((status["Uid"].split()[0], status["NoNewPrivs"].strip(), status["Seccomp"].strip()), (user, "1", "2"))
            self.assertEqual((int(status["CapBnd"], 16), int(status["CapEff"], 16)), (0, 0), unit)
        door = machine.run("stat", "-c", "%U %a", "/run/svc/signer/signer.sock").stdout.strip()
        self.assertEqual(door, "svc-api 600")
        machine.run("systemctl", "stop", "svc-api", "svc-signer.socket", "svc-signer")
        for unit in ("svc-api", "svc-signer"):
            self.assertEqual(machine.run("systemctl", "show", "-P", "Result", unit).stdout.strip(), "success", unit)


if __name__ == "__main__":
    unittest.main()
