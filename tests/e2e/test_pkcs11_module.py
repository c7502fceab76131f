"""libsvc-pkcs11.so in the hands of the tools that people have: pkcs11-tool, openssl, jarsigner, osslsigncode.

Each of them is the judge of what another one signed: openssl of pkcs11-tool's and its own signatures, jarsigner and
osslsigncode of theirs.
"""
import base64
import glob
import hashlib
import json
import os
import re
import secrets
import signal
import struct
import subprocess
import unittest
import zipfile

import signing
from appliance import BIN, Appliance, all_records, make_key, run, until
from test_codesign_policy import make_token
from test_key_certificates import Authority

MODULE = os.environ.get("SVC_TEST_PKCS11_MODULE", os.path.normpath(f"{BIN}/../lib/libsvc-pkcs11.so"))
PROVIDER = "/usr/lib/x86_64-linux-gnu/ossl-modules/pkcs11.so"
ENGINE = os.environ.get("SVC_TEST_PKCS11_ENGINE", "/usr/lib/x86_64-linux-gnu/engines-3/pkcs11.so")
RULES = """rules:
  - name: never
    when: {artifact_type: [forbidden]}
    then: deny
    reason: forbidden artifacts stay unsigned
  - name: one
    when: {artifact_type: [release]}
    then: require_approval
    approvers: 1
  - name: the-rest
    when: {}
    then: allow
"""
OPENSSL_CONF = """openssl_conf = init
[init]
providers = providers
[providers]
default = default_sect
pkcs11 = pkcs11_sect
[default_sect]
activate = 1
[pkcs11_sect]
module = %s
pkcs11-module-path = %s
pkcs11-module-encode-provider-uri-to-pem = true
activate = 1
[req]
distinguished_name = dn
[dn]
"""
RESOURCE = re.compile(r"approval_required:codesign:[0-9a-f]{64}")


def minimal_pe():
    """A 64-bit PE that does nothing: one section with one instruction."""
    dos = b"MZ" + b"\0" * 58 + struct.pack("<I", 64)
    coff = struct.pack("<HHIIIHH", 0x8664, 1, 0, 0, 0, 240, 0x22)
    optional = struct.pack("<HBBIIIII", 0x20B, 14, 0, 512, 0, 0, 0x1000, 0x1000)
    optional += struct.pack("<QIIHHHHHHIIIIHHQQQQII", 0x140000000, 0x1000, 512, 6, 0, 0, 0, 6, 0, 0, 0x2000, 512, 0, 3,
                            0x160, 0x100000, 0x1000, 0x100000, 0x1000, 0, 16)
    optional += b"\0" * 128
    section = b".text\0\0\0" + struct.pack("<IIIIIIHHI", 1, 0x1000, 512, 512, 0, 0, 0, 0, 0x60000020)
    return (dos + b"PE\0\0" + coff + optional + section).ljust(512, b"\0") + b"\xc3".ljust(512, b"\0")


class Pkcs11Module(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = a = Appliance("p11")
        cls.addClassCleanup(a.clean)
        signing.write_policy(a, RULES)
        a.start()
        cls.dir = f"{a.dir}/work"
        os.mkdir(cls.dir)
        cls.ca = Authority()
        cls.addClassCleanup(cls.ca.clean)
        cls.builder = make_token(a, "builder", "operator")
        cls.approver = make_token(a, "anna", "approver")
        cls.keys = {}
        for algorithm in ("ec-p256", "ec-p384", "rsa-3072"):
            cls.keys[algorithm] = make_key(a, algorithm, f"release-{algorithm}")
            cls.certify(cls.keys[algorithm], algorithm)
        cls.write("openssl.cnf", OPENSSL_CONF % (PROVIDER, MODULE))
        cls.write("p11.cfg", f"name = svc\nlibrary = {MODULE}\nslotListIndex = 0\n")

    @classmethod
    def certify(cls, key_id, common_name):
        made = cls.a.api("POST", f"/api/v1/keys/{key_id}/csr", {"subject": f"CN={common_name},O=Acme"}, key=True)
        assert made.status in (200, 201), made
        chain = cls.ca.chain(cls.ca.issue(made.json["csr_pem"]))
        version = cls.a.api("GET", f"/api/v1/keys/{key_id}").json["version"]
        brought = cls.a.api("POST", f"/api/v1/keys/{key_id}/certificates",
                            {"certificate_chain": chain, "expected_version": version}, key=True)
        assert brought.status == 200, brought

    @classmethod
    def write(cls, name, content, mode=0o644):
        path = f"{cls.dir}/{name}"
        with open(path, "wb") as f:
            f.write(content if isinstance(content, bytes) else content.encode())
        os.chmod(path, mode)
        return path

    def setUp(self):
        self.log = f"{self.dir}/p11-{secrets.token_hex(4)}.log"

    def env(self, token=None, **more):
        """Settings of the module. Freed memory is poisoned, so that touching it (a host may finalize in its last moments)
        does not go unseen."""
        path = self.write("token-" + secrets.token_hex(4), token or self.builder, 0o600)
        return {"PATH": os.environ["PATH"], "HOME": self.dir, "LC_ALL": "C.UTF-8", "MALLOC_PERTURB_": "165",
                "SVC_BASE_URL": f"https://127.0.0.1:{self.a.port}", "SVC_CA_FILE": f"{self.a.dir}/data/ca.pem",
                "SVC_TOKEN_FILE": path, "SVC_PKCS11_LOG": self.log, **more}

    def tool(self, *args, check=True, env=None, **more):
        return run("pkcs11-tool", "--module", MODULE, *args, check=check, env=env or self.env(**more), cwd=self.dir)

    def openssl(self, *args, check=True, **more):
        return run("openssl", *args, check=check, env=self.env(OPENSSL_CONF=f"{self.dir}/openssl.cnf", **more),
                   cwd=self.dir)

    def told(self):
        try:
            with open(self.log) as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def id(self, algorithm):
        return self.keys[algorithm].replace("-", "")

    def public(self, algorithm):
        der = self.a.api("GET", f"/api/v1/keys/{self.keys[algorithm]}").json["public_key_der"]
        return self.write(f"{algorithm}.pub", base64.b64decode(der))

    def verifies(self, algorithm, hash_name, signature, data, *options):
        done = run("openssl", "dgst", f"-{hash_name}", "-verify", self.public(algorithm), "-keyform", "DER", *options,
                   "-signature", signature, data, check=False)
        return done.returncode == 0

    def operation_of(self, digest):
        """The operation that signed this digest; governed like any other."""
        items = self.a.api("GET", "/api/v1/code-signing/operations?limit=50").json["items"]
        found = [i for i in items if i.get("digest") == base64.b64encode(digest).decode()]
        self.assertEqual(len(found), 1, items)
        self.assertEqual((found[0]["state"], found[0]["principal"]), ("completed", "builder"))
        types = [r["type"] for r in signing.records_of(self.a, found[0]["operation_id"])]
        self.assertIn("codesign.commanded", types)
        self.assertIn("codesign.signed", types)
        return found[0]

    def signings(self):
        return sum(r["type"] == "codesign.signed" for r in all_records(self.a))

    # ---- refusals ----

    def test_a_wrong_token_is_refused(self):
        wrong = self.builder[:-4] + ("AAAA" if not self.builder.endswith("AAAA") else "BBBB")
        done = self.tool("--list-objects", token=wrong, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("CKR_USER_NOT_LOGGED_IN", done.stderr)
        self.assertRegex(self.told(), r"svc-pkcs11 \S+: list the keys: unauthenticated: .*SVC_TOKEN_FILE \(trace [0-9a-f]{32}\)")
        self.assertNotIn(wrong, self.told())

    def test_a_token_file_that_others_may_read_is_refused(self):
        env = self.env()
        os.chmod(env["SVC_TOKEN_FILE"], 0o644)
        done = self.tool("--list-objects", env=env, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("chmod 0600", self.told())

    def test_a_role_that_may_not_sign_is_refused(self):
        auditor = make_token(self.a, "auditor-" + secrets.token_hex(2), "auditor")
        self.write("digest", secrets.token_bytes(32))
        done = self.tool("--sign", "-m", "ECDSA", "--id", self.id("ec-p256"), "-i", "digest", "-o", "refused", token=auditor,
                         check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("forbidden", self.told())
        self.assertFalse(os.path.exists(f"{self.dir}/refused"))

    def test_without_settings_it_says_what_is_missing(self):
        done = self.tool("--list-objects", env={"PATH": os.environ["PATH"]}, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("svc-pkcs11", done.stderr)
        self.assertIn("set SVC_BASE_URL", done.stderr)

    def test_a_server_of_another_authority_is_not_talked_to(self):
        done = self.tool("--list-objects", SVC_CA_FILE=self.ca.path("root.pem"), SVC_PKCS11_TIMEOUT="2s", check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("SVC_CA_FILE", self.told())

    def test_an_unknown_key_is_not_found(self):
        self.write("digest", secrets.token_bytes(32))
        done = self.tool("--sign", "-m", "ECDSA", "--id", secrets.token_hex(16), "-i", "digest", "-o", "refused",
                         check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertFalse(os.path.exists(f"{self.dir}/refused"))

    def test_a_destroyed_key_is_gone(self):
        key_id = make_key(self.a, "ec-p256", "short-lived")
        self.assertIn("short-lived", self.tool("--list-objects").stdout)
        gone = self.a.api("POST", f"/api/v1/keys/{key_id}/transitions",
                          {"to": "destroyed", "reason": "test", "expected_version": 1}, token="ADMIN", key=True)
        self.assertEqual(gone.status, 200, gone)
        self.assertNotIn("short-lived", self.tool("--list-objects").stdout)

    def test_what_the_policy_denies_is_not_signed(self):
        before = self.signings()
        self.write("digest", secrets.token_bytes(32))
        done = self.tool("--sign", "-m", "ECDSA", "--id", self.id("ec-p256"), "-i", "digest", "-o", "refused",
                         SVC_ARTIFACT_TYPE="forbidden", check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("0x200", done.stderr)  # CKR_FUNCTION_REJECTED, which pkcs11-tool has no name for
        self.assertRegex(self.told(), r"sign with release-ec-p256 \([0-9a-f-]{36}\): policy_denied: .*"
                                      r"forbidden artifacts stay unsigned")
        self.assertEqual(self.signings(), before)

    def test_a_bare_digest_is_no_digest_info(self):
        self.write("digest", secrets.token_bytes(32))
        done = self.tool("--sign", "-m", "RSA-PKCS", "--id", self.id("rsa-3072"), "-i", "digest", "-o", "refused",
                         check=False)
        self.assertIn("CKR_DATA_INVALID", done.stderr)
        self.assertIn("a DigestInfo of SHA-256", self.told())

    # ---- approvals ----

    def approve(self, resource):
        answer = self.a.api("POST", f"/api/v1/identities/{resource}/approvals", {"action": "sign"}, token=self.approver,
                            key=True)
        self.assertIn(answer.status, (200, 201), answer)

    def test_an_approval_is_asked_for_and_signs_afterwards(self):
        digest = secrets.token_bytes(32)
        self.write("digest", digest)
        args = ("--sign", "-m", "ECDSA", "--id", self.id("ec-p256"), "-i", "digest", "-o", "approved")
        done = self.tool(*args, SVC_ARTIFACT_TYPE="release", check=False)
        self.assertNotEqual(done.returncode, 0)
        resource = RESOURCE.search(self.told())
        self.assertIsNotNone(resource, self.told())
        self.approve(resource.group())
        self.tool(*args, SVC_ARTIFACT_TYPE="release")
        self.operation_of(digest)

    def test_a_tool_may_wait_for_the_approval(self):
        digest = secrets.token_bytes(32)
        self.write("digest", digest)
        waiting = subprocess.Popen(
            ["pkcs11-tool", "--module", MODULE, "--sign", "-m", "ECDSA", "--id", self.id("ec-p256"), "-i", "digest",
             "-o", "waited"], cwd=self.dir, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env=self.env(SVC_ARTIFACT_TYPE="release", SVC_PKCS11_APPROVAL_WAIT="2m"))
        self.addCleanup(waiting.kill)
        resource = until("the tool waits", lambda: RESOURCE.search(self.told()))
        self.assertIsNone(waiting.poll())
        self.approve(resource.group())
        self.assertEqual(waiting.wait(60), 0)
        self.operation_of(digest)

    # ---- pkcs11-tool ----

    def test_objects_are_listed_with_what_they_are(self):
        listed = self.tool("--list-objects").stdout
        for algorithm in self.keys:
            self.assertEqual(listed.count(f"label:      release-{algorithm}"), 3, listed)  # both halves, certificate
        self.assertIn("test middle", listed)
        self.assertIn("test root", listed)
        self.assertIn("never extractable", listed)
        only = self.tool("--list-objects", SVC_PKCS11_KEYS="release-ec-p256," + self.keys["ec-p384"]).stdout
        self.assertIn("release-ec-p384", only)
        self.assertNotIn("release-rsa-3072", only)
        slots = self.tool("--list-slots").stdout
        self.assertRegex(slots, r"token label\s+: svc\n")
        self.assertNotIn("login required", slots)
        self.tool("--list-objects", "--login", "--pin", "whatever")

    def test_pkcs11_tool_signs_with_each_mechanism(self):
        pss = ("-sigopt", "rsa_padding_mode:pss", "-sigopt", "rsa_pss_saltlen:digest")
        rows = [("ec-p256", "ECDSA-SHA256", "sha256", ()), ("ec-p256", "ECDSA-SHA384", "sha384", ()),
                ("ec-p384", "ECDSA-SHA384", "sha384", ()), ("ec-p384", "ECDSA-SHA512", "sha512", ()),
                ("rsa-3072", "SHA256-RSA-PKCS", "sha256", ()), ("rsa-3072", "SHA512-RSA-PKCS", "sha512", ()),
                ("rsa-3072", "SHA256-RSA-PKCS-PSS", "sha256", pss), ("rsa-3072", "SHA384-RSA-PKCS-PSS", "sha384", pss)]
        for algorithm, mechanism, hash_name, options in rows:
            with self.subTest(mechanism=mechanism, key=algorithm):
                content = secrets.token_bytes(70000)  # more than the tool hands over at once
                data = self.write("data", content)
                self.tool("--sign", "-m", mechanism, "--id", self.id(algorithm), "-i", "data", "-o", "signature",
                          "--signature-format", "openssl")
                self.assertTrue(self.verifies(algorithm, hash_name, f"{self.dir}/signature", data, *options))
                self.operation_of(hashlib.new(hash_name, content).digest())

    def test_pkcs11_tool_signs_digests_and_digest_infos(self):
        head = bytes.fromhex("3031300d060960864801650304020105000420")
        for algorithm, mechanism, before, more, options in (
                ("ec-p256", "ECDSA", b"", (), ()),
                ("rsa-3072", "RSA-PKCS", head, (), ()),
                ("rsa-3072", "RSA-PKCS-PSS", b"", ("--hash-algorithm", "SHA256"), ("-sigopt", "rsa_padding_mode:pss"))):
            with self.subTest(mechanism=mechanism):
                content = secrets.token_bytes(100)
                data, digest = self.write("data", content), hashlib.sha256(content).digest()
                self.write("digest", before + digest)
                self.tool("--sign", "-m", mechanism, "--id", self.id(algorithm), "-i", "digest", "-o", "signature",
                          "--signature-format", "openssl", *more)
                self.assertTrue(self.verifies(algorithm, "sha256", f"{self.dir}/signature", data, *options))
                self.operation_of(digest)

    def test_settings_may_stand_in_a_file(self):
        env = self.env()
        config = self.write("pkcs11.conf", "# for this test\n" + "".join(
            f"{name} = {env.pop(name)}\n" for name in list(env) if name.startswith("SVC_")))
        self.assertIn("release-ec-p256", self.tool("--list-objects", env={**env, "SVC_PKCS11_CONFIG": config}).stdout)

    # ---- openssl, by pkcs11-provider ----

    def test_openssl_signs_by_the_provider(self):
        for algorithm in ("ec-p256", "rsa-3072"):
            uri = f"pkcs11:token=svc;object=release-{algorithm};type=private"
            with self.subTest(key=algorithm):
                content = secrets.token_bytes(5000)
                data, digest = self.write("data", content), hashlib.sha256(content).digest()
                signature = f"{self.dir}/signature"
                self.openssl("dgst", "-sha256", "-sign", uri, "-out", signature, data)
                self.assertTrue(self.verifies(algorithm, "sha256", signature, data))
                self.operation_of(digest)
                content = secrets.token_bytes(50)
                data, digest = self.write("data", content), hashlib.sha256(content).digest()
                self.write("digest", digest)
                self.openssl("pkeyutl", "-sign", "-inkey", uri, "-in", "digest", "-pkeyopt", "digest:sha256", "-out", signature)
                self.assertTrue(self.verifies(algorithm, "sha256", signature, data))
                self.operation_of(digest)

    def test_openssl_signs_pss_and_says_when_it_may_not(self):
        uri = "pkcs11:token=svc;object=release-rsa-3072;type=private"
        data = self.write("data", secrets.token_bytes(50))
        options = ("-sigopt", "rsa_padding_mode:pss", "-sigopt", "rsa_pss_saltlen:digest")
        self.openssl("dgst", "-sha384", *options, "-sign", uri, "-out", "signature", data)
        self.assertTrue(self.verifies("rsa-3072", "sha384", f"{self.dir}/signature", data, *options))
        done = self.openssl("dgst", "-sha256", "-sign", uri, "-out", "refused", data, SVC_ARTIFACT_TYPE="forbidden",
                            check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("policy_denied", self.told())

    def test_openssl_signs_a_cms_message(self):
        uri = "pkcs11:token=svc;object=release-ec-p256"
        data = self.write("data", b"some release notes\n")
        self.openssl("storeutl", "-certs", "-out", "leaf.pem", uri + ";type=cert")
        self.openssl("cms", "-sign", "-binary", "-md", "sha256", "-signer", "leaf.pem", "-inkey", uri + ";type=private",
                     "-in", data, "-outform", "DER", "-out", "data.p7s")
        with open(f"{self.dir}/authorities.pem", "w") as f:
            for name in ("root.pem", "middle.pem"):
                with open(self.ca.path(name)) as source:
                    f.write(source.read())
        run("openssl", "cms", "-verify", "-binary", "-in", f"{self.dir}/data.p7s", "-inform", "DER", "-content", data,
            "-CAfile", f"{self.dir}/authorities.pem", "-purpose", "any", "-out", "/dev/null")

    # ---- jarsigner ----

    def jar(self):
        path = f"{self.dir}/unsigned.jar"
        with zipfile.ZipFile(path, "w") as z:
            z.writestr(zipfile.ZipInfo("Hello.txt"), secrets.token_hex(20))
        return path

    def jarsigner(self, jar, key, *options, **more):
        return run("jarsigner", "-keystore", "NONE", "-storetype", "PKCS11", "-providerClass",
                   "sun.security.pkcs11.SunPKCS11", "-providerArg", "p11.cfg", *options, "-signedjar", "signed.jar", jar,
                   key, env=self.env(**more), cwd=self.dir, check=False)

    def test_jarsigner_signs_and_verifies(self):
        trust = f"{self.dir}/trust.p12"
        for alias, path in (("root", self.ca.path("root.pem")), ("tsa", f"{self.a.dir}/data/tsa-root.pem")):
            run("keytool", "-importcert", "-noprompt", "-alias", alias, "-file", path, "-keystore", trust, "-storepass",
                "changeit")
        tsa = ("-tsa", f"http://127.0.0.1:{self.a.plain}/tsa")
        for algorithm, options, said in (
                ("ec-p256", ("-storepass", "anything", *tsa), "SHA256withECDSA"),
                ("ec-p384", ("-protected",), "SHA384withECDSA"),
                ("rsa-3072", ("-protected",), "SHA384withRSA"),
                ("rsa-3072", ("-protected", "-sigalg", "RSASSA-PSS"), "RSASSA-PSS")):
            with self.subTest(key=algorithm, options=options):
                before = self.signings()
                done = self.jarsigner(self.jar(), f"release-{algorithm}", *options)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr + self.told())
                self.assertEqual(self.signings(), before + 1)
                judged = run("jarsigner", "-verify", "-verbose", "-certs", "-keystore", trust, "-storepass", "changeit",
                             f"{self.dir}/signed.jar")
                self.assertIn("jar verified.", judged.stdout)
                self.assertIn(said, judged.stdout)
                self.assertIn("CN=test middle", judged.stdout)  # the chain came along
                self.assertNotIn("Invalid certificate chain", judged.stdout)
                self.assertEqual("-tsa" in options, "Timestamped by" in judged.stdout, judged.stdout)

    def test_jarsigner_says_when_it_may_not(self):
        done = self.jarsigner(self.jar(), "release-ec-p256", "-protected", SVC_ARTIFACT_TYPE="forbidden")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("CKR_FUNCTION_REJECTED", done.stdout + done.stderr)
        self.assertIn("policy_denied", self.told())

    # ---- osslsigncode ----

    def authenticode(self, *key_options, **more):
        """Signed and time-stamped, both by the appliance."""
        self.write("unsigned.exe", minimal_pe())
        chain = self.a.api("GET", f"/api/v1/keys/{self.keys['rsa-3072']}").json["certificate_chain"]
        with open(f"{self.dir}/chain.pem", "w") as f:
            for der in chain:
                f.write(f"-----BEGIN CERTIFICATE-----\n{der}\n-----END CERTIFICATE-----\n")
        before = self.signings()
        signed = f"{self.dir}/signed-{secrets.token_hex(3)}.exe"
        done = run("osslsigncode", "sign", "-certs", "chain.pem", *key_options, "-h", "sha256", "-n", "a program",
                   "-ts", f"http://127.0.0.1:{self.a.plain}/tsa", "-in", "unsigned.exe", "-out", signed, env=self.env(**more), cwd=self.dir, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + self.told())
        self.assertEqual(self.signings(), before + 1)
        judged = run("osslsigncode", "verify", "-CAfile", self.ca.path("root.pem"), "-TSA-CAfile",
                     f"{self.a.dir}/data/tsa-root.pem", "-in", signed, check=False)
        self.assertEqual(judged.returncode, 0, judged.stdout + judged.stderr)
        self.assertIn("Signature verification: ok", judged.stdout)
        self.assertIn("Timestamp Server Signature verification: ok", judged.stdout)

    def test_osslsigncode_signs_by_the_provider(self):
        self.openssl("pkey", "-in", "pkcs11:token=svc;object=release-rsa-3072;type=private", "-out", "uri.pem")
        with open(f"{self.dir}/uri.pem") as f:
            self.assertIn("BEGIN PKCS#11 PROVIDER URI", f.read())  # a name, not a key
        self.authenticode("-key", "uri.pem", OPENSSL_CONF=f"{self.dir}/openssl.cnf")

    def test_osslsigncode_signs_by_the_engine(self):
        self.authenticode("-pkcs11engine", ENGINE, "-pkcs11module", MODULE, "-key", "pkcs11:object=release-rsa-3072")

    # ---- endurance ----

    def bench(self, label, threads, seconds, **more):
        return subprocess.Popen([f"{BIN}/bench_pkcs11", MODULE, label, str(threads), str(seconds)], env=self.env(**more),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def result(self, process):
        out, err = process.communicate(timeout=180)
        self.assertEqual(process.returncode, 0, err + self.told())
        print(out.strip(), end=" ", flush=True)
        return json.loads(out)

    def test_threads_sign_side_by_side(self):
        before = self.signings()
        measured = self.result(self.bench("release-ec-p256", 4, 3))
        self.assertEqual(measured["failures"], 0, self.told())
        self.assertEqual(self.signings(), before + measured["signatures"])

    def test_a_crash_of_the_appliance_is_outlasted_and_nothing_is_signed_twice(self):
        """A signing that was accepted before the crash is handed out after it; one that died before it was accepted is
        taken over soon, since its claim's process is gone, and accepted then."""
        before = self.signings()
        process = self.bench("release-ec-p256", 2, 300)
        until("it signs", lambda: self.signings() > before + 5)
        old = self.a.child("svc-api")
        os.kill(old, 9)
        until("svc-api is back", lambda: self.a.pids("svc-api") not in ([], [old]) and self.a.is_ready())
        at_crash = self.signings()
        until("it signs again", lambda: self.signings() > at_crash + 10, 120)
        process.send_signal(signal.SIGTERM)
        measured = self.result(process)
        self.assertEqual(measured["failures"], 0, self.told())
        until("what was signed is in the trail, once", lambda: self.signings() == before + measured["signatures"])


if __name__ == "__main__":
    unittest.main()
