"""First boot of the appliance image as a site does it: by a provisioning medium, and by answers at the console. Runs inside
scripts/enter --image; wants a disk (SVC_IMAGE_DISK, default: build/image/small/svc.img)."""
import json
import os
import re
import ssl
import subprocess
import sys
import tempfile
import unittest
import urllib.request

sys.dont_write_bytecode = True
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.dirname(os.path.abspath(__file__))]
import qemu  # noqa: E402

DISK = os.environ.get("SVC_IMAGE_DISK", f"{TOP}/build/image/small/svc.img")
NETWORK = "network: { address: 10.0.2.15/24, gateway: 10.0.2.2 }\n"
TOKEN = r"ADMIN TOKEN of (\S+) in tenant (\S+), until \S+ It is shown once\.\s+(\S+)\s"
PIN = "correct-horse"


class FirstBoot(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.TemporaryDirectory(prefix="svc-first-boot-", dir=f"{TOP}/build")
        self.addCleanup(self.work.cleanup)

    def path(self, name, text=None):
        path = os.path.join(self.work.name, name)
        if text is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return path

    def openssl(self, *words, **options):
        return subprocess.run(["openssl", *words], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options).stdout

    def get(self, machine, path, token, ca):
        context = ssl.create_default_context(cafile=ca)
        request = urllib.request.Request(machine.url(8443) + path, headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, context=context, timeout=qemu.LIMIT) as answer:
            return json.load(answer)

    def command(self, machine, line, wanted):
        machine.send(line + "\n")
        return machine.expect(wanted)


class ByMedium(FirstBoot):
    def test_a_refused_file_is_told_and_a_good_one_makes_the_machine(self):
        wrong = qemu.medium(self.path("wrong.img"), {"provision.yaml": "hostname: signer-1\ntenant: acme\n" + NETWORK +
                                                     "time: { trust_host: true }\nsurprise: 1\n"})
        with qemu.Machine(DISK, disks=[wrong], forward=[8443], folder=self.path("machine")) as machine:
            machine.expect(r"provision\.yaml:5: surprise: no such key")
            machine.expect(r"not provisioned: attach a medium")
            self.command(machine, "sh", r"not understood; help lists the commands")
            self.command(machine, "token issue", r"not now: the machine is not in a state for that")
            machine.stop()
            qemu.medium(wrong, {"provision.yaml": "hostname: signer-1\ntenant: acme\n" + NETWORK +
                                "time: { trust_host: true }\nadmin: { subject: ops@site }\n"})
            machine.start()
            machine.expect(r"RECOVERY KEY of this machine's state")
            recovery = machine.expect(r"\n\s+([A-Z2-7][A-Z2-7-]{30,})\s").group(1)
            found = machine.expect(TOKEN)
            self.assertEqual(found.group(1, 2), ("ops@site", "acme"))
            machine.expect(r"written to the medium SVC-PROVISION: out/ca\.pem, out/tsa-root\.pem")
            self.command(machine, "written", r"svc> ")
            self.command(machine, "status", r"== signer-1 == svc \S+ \(small\), slot a")
            machine.expect(r"machine +ready")
            machine.expect(r"state +none: .*key is on the same disk")
            machine.expect(r"FIPS +required, module active, self-test passed")
            shown = machine.expect(r"CA SHA-256 +([0-9A-F:]{95})").group(1)
            ca = self.path("ca.pem", qemu.medium_read(wrong, "out/ca.pem").decode())
            real = self.openssl("x509", "-in", ca, "-noout", "-fingerprint", "-sha256").decode().strip().split("=")[1]
            self.assertEqual(shown, real)
            self.get(machine, "/api/v1/tokens", found.group(3), ca)
            # The second start shows neither key nor token, and takes no second provisioning.
            machine.send("reboot\n")
            machine.expect(r"Type yes to go on: ")
            machine.send("yes\n")
            machine.expect(r"svc-initrd: ")
            after = len(machine.said)
            machine.expect(r"machine +ready")
            self.assertNotRegex(machine.said[after:], r"ADMIN TOKEN|RECOVERY KEY of")
            self.assertNotIn(recovery, machine.said[after:])
            self.command(machine, "provision", r"this machine is provisioned")
            machine.send("poweroff\n")
            machine.expect(r"Type yes to go on: ")
            machine.send("yes\n")
            machine.wait_off()


class AtTheConsole(FirstBoot):
    QUESTIONS = (
        ("Host name: ", "-wrong"), ("hostname: '-wrong' must be", None), ("Host name: ", "signer-1"),
        ("Network interface", ""), ("Addresses of this machine", "10.0.2.15/24"), ("Gateways", "10.0.2.2"),
        ("DNS servers", ""), ("Time servers", ""), ("No time servers", "true"), ("Tenant: ", "acme"),
        ("Subject of the first token", ""), ("How long", ""), ("Certificate of the HTTPS", "csr"),
        ("Further names", "127.0.0.1"), ("Keys in: ", ""), ("Serve time stamps", ""), ("Policy of time stamps", "1.2.3.4"),
        ("Key of the encrypted state", "pin"), ("PIN of the state", PIN), ("The same again", PIN), ("Type yes to go on", "yes"),
    )

    def sign(self, request, names):
        """A site's authority, and its certificate for the machine's request."""
        ca, key = self.path("site-ca.pem"), self.path("site-ca.key")
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-keyout",
                     key, "-out", ca, "-subj", "/CN=site authority", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
        extensions = self.path("extensions", f"subjectAltName={names}\nextendedKeyUsage=serverAuth\nbasicConstraints=CA:FALSE\n"
                               "authorityKeyIdentifier=keyid\nsubjectKeyIdentifier=hash\n")
        leaf = self.openssl("x509", "-req", "-in", self.path("tls.csr", request), "-CA", ca, "-CAkey", key, "-days", "20",
                            "-extfile", extensions).decode()
        with open(ca, encoding="utf-8") as file:
            return ca, leaf + file.read()

    def test_the_questions_a_pin_and_the_sites_certificate(self):
        with qemu.Machine(DISK, forward=[8443], folder=self.path("machine")) as machine:
            machine.expect(r"not provisioned: attach a medium")
            machine.expect(r"svc> ")
            machine.send("provision\n")
            for question, text in self.QUESTIONS:
                machine.expect(re.escape(question))
                if text is not None:
                    machine.send(text + "\n")
            machine.expect(r"RECOVERY KEY of this machine's state")
            request = machine.expect(r"(-----BEGIN CERTIFICATE REQUEST-----[^-]+-----END CERTIFICATE REQUEST-----)").group(1)
            machine.expect(r"Take the provisioning medium away")
            token = re.search(TOKEN, machine.said).group(3)
            self.assertNotIn(PIN, machine.said)
            # A new token only with the PIN.
            machine.send("token issue\n")
            machine.expect("PIN of this machine, not shown: ")
            machine.send("not-the-pin\n")
            machine.expect("the PIN is not the one of this machine")
            machine.send("hsm doctor\n")
            machine.expect("The token is fit for the signer")
            # The site's certificate, pasted; one that lacks a name changes nothing.
            for names, wanted in (("DNS:signer-1", r"it is not good for 127\.0\.0\.1"),
                                  ("DNS:signer-1,IP:127.0.0.1,IP:10.0.2.15", r"takes some seconds\. Type yes to go on: ")):
                ca, chain = self.sign(request.replace("\r", "") + "\n", names)
                machine.send("certificate import\n")
                machine.expect(r"a line with one dot ends it")
                machine.send(chain + ".\n")
                machine.expect(wanted)
            machine.send("yes\n")
            machine.expect(r"machine +the appliance is starting")
            machine.expect(r"machine +ready")
            self.get(machine, "/api/v1/tokens", token, ca)
            # The next start asks for the PIN, and does not show what is typed.
            machine.kill()
            machine.start()
            machine.expect(r"PIN or recovery key, not shown: ")
            machine.send("wrong-pin\n")
            machine.expect(r"unlock: ")
            machine.send(PIN + "\n")
            machine.expect(r"machine +ready")
            self.assertNotIn(PIN, machine.said)
            self.get(machine, "/api/v1/tokens", token, ca)


if __name__ == "__main__":
    unittest.main()
