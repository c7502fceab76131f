"""Certificates for managed keys: a request signed in the token, issued by a test CA made with openssl, brought back."""
import base64
import hashlib
import json
import os
import secrets
import shutil
import tempfile
import unittest

from appliance import Appliance, all_records, b64, digest_of, make_key, openssl_verifies, run, sign_body

SUBJECT = "CN=Release,OU=CI,O=Acme & Söhne,C=DE"
LEAF = "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=codeSigning\n"
AUTHORITY = "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\n"


class Authority:
    """A root and an intermediate in a folder, by openssl."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="svc-ca-", dir="/tmp")
        self.write("authority.ext", AUTHORITY)
        for name, issuer in (("root", None), ("middle", "root")):
            run("openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out",
                self.path(f"{name}.key"))
            run("openssl", "req", "-new", "-key", self.path(f"{name}.key"), "-subj", f"/CN=test {name}", "-out",
                self.path(f"{name}.csr"))
            signer = ["-key", self.path("root.key")] if issuer is None else self.signer(issuer)
            run("openssl", "x509", "-req", "-in", self.path(f"{name}.csr"), *signer, "-days", "30", "-extfile",
                self.path("authority.ext"), "-out", self.path(f"{name}.pem"))

    def signer(self, name):
        return ["-CA", self.path(f"{name}.pem"), "-CAkey", self.path(f"{name}.key")]

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as f:
            f.write(content.encode() if isinstance(content, str) else content)
        return self.path(name)

    def issue(self, csr_pem, extensions=LEAF, issuer="middle", *extra):
        out = self.path(secrets.token_hex(4))
        run("openssl", "x509", "-req", "-in", self.write("leaf.csr", csr_pem), *self.signer(issuer), "-extfile",
            self.write("leaf.ext", extensions), "-out", out, *(extra or ("-days", "10")))
        return self.der(out)

    def der(self, path):
        return run("openssl", "x509", "-in", path, "-outform", "DER", text=False).stdout

    def chain(self, leaf):
        return [b64(c) for c in (leaf, self.der(self.path("middle.pem")), self.der(self.path("root.pem")))]

    def clean(self):
        shutil.rmtree(self.dir, ignore_errors=True)


class KeyCertificates(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("certs").start()
        cls.ca = Authority()
        cls.key = make_key(cls.a)
        cls.csr = cls.ask_csr(cls.key).json["csr_pem"]

    @classmethod
    def tearDownClass(cls):
        cls.a.clean()
        cls.ca.clean()

    @classmethod
    def ask_csr(cls, key_id, subject=SUBJECT, key=True, token="OPERATOR", **more):
        return cls.a.api("POST", f"/api/v1/keys/{key_id}/csr", {"subject": subject, **more}, token=token, key=key)

    def bring(self, chain, key_id=None, version=None, key=True, token="OPERATOR"):
        key_id = key_id or self.key
        if version is None:
            version = self.a.api("GET", f"/api/v1/keys/{key_id}").json["version"]
        return self.a.api("POST", f"/api/v1/keys/{key_id}/certificates",
                          {"certificate_chain": chain, "expected_version": version}, token=token, key=key)

    def refused(self, answer, status, code, detail=""):
        self.assertEqual(answer.status, status, answer)
        self.assertEqual(answer.json["code"], code, answer)
        self.assertIn(detail, answer.json.get("detail", ""))

    def records_of(self, event_type):
        return [r for r in all_records(self.a) if r["type"] == event_type]

    def forget_answers(self):
        self.a.sql("TRUNCATE svc.idempotency_keys")

    def test_1_requests_that_are_refused_record_nothing(self):
        before = len(all_records(self.a))
        for subject in ("", "Release", "O=Acme", "CN=a,CN=b", "CN=a+O=b", "CN=a,C=Germany", "CN=a\n", "CN=" + "a" * 65,
                        "CN=a" + ",OU=b" * 300):
            with self.subTest(subject[:20]):
                self.refused(self.ask_csr(self.key, subject), 400, "json_field")
        self.refused(self.ask_csr(self.key, SUBJECT, email="nobody"), 400, "json_field")
        self.refused(self.ask_csr(self.key, SUBJECT, surprise=1), 400, "json_field")
        self.refused(self.ask_csr(self.key, token="CI"), 403, "forbidden")
        self.refused(self.ask_csr("0198c0de-0000-7000-8000-000000000000"), 404, "key_not_found")
        self.refused(self.ask_csr("nonsense"), 404, "key_not_found")
        system = [k for k in self.a.api("GET", "/api/v1/keys").json["items"] if k["system"]]
        self.assertTrue(system)
        self.refused(self.ask_csr(system[0]["key_id"]), 403, "forbidden")
        self.assertEqual(len(all_records(self.a)), before)

    def test_2_another_tenants_key_is_no_key(self):
        self.a.appliance("tenant", "create", "rival")
        made = self.a.appliance("token", "create", "--tenant", "rival", "--subject", "rival", "--role", "operator",
                                "--ttl", "1h", "--json")
        token = json.loads(made.stdout)["token"]
        leaf = self.ca.issue(self.csr)
        self.refused(self.ask_csr(self.key, token=token), 404, "key_not_found")
        self.refused(self.bring(self.ca.chain(leaf), version=1, token=token), 404, "key_not_found")

    def test_3_certificates_that_do_not_fit_are_refused(self):
        before = len(all_records(self.a))
        leaf = self.ca.issue(self.csr)
        chain = self.ca.chain(leaf)
        own = run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                  "-keyout", self.ca.path("own.key"), "-subj", "/CN=own", "-outform", "DER", text=False).stdout
        past = ("-not_before", "20200101000000Z", "-not_after", "20200102000000Z")
        rows = [
            ([b64(own)], "another key"),
            (self.ca.chain(self.ca.issue(self.csr, AUTHORITY)), "authority"),
            (self.ca.chain(self.ca.issue(self.csr, LEAF, "middle", *past)), "expired"),
            (self.ca.chain(self.ca.issue(self.csr, LEAF.replace("codeSigning", "serverAuth"))), "codeSigning"),
            (self.ca.chain(self.ca.issue(self.csr, LEAF.replace("digitalSignature", "keyAgreement"))),
             "digitalSignature"),
            ([chain[0], chain[2], chain[1]], "did not issue"),
            ([chain[0], chain[2]], "did not issue"),
            (chain[::-1], "another key"),
            (chain + chain[2:], "self-signed"),
            ([b64(leaf + b"\0")] + chain[1:], "bytes follow"),
            ([b64(leaf[:-1])] + chain[1:], "no DER"),
            ([b64(leaf[:-1] + bytes([leaf[-1] ^ 1]))] + chain[1:], ""),
        ]
        for bad, detail in rows:
            with self.subTest(detail):
                self.refused(self.bring(bad), 400, "certificate_refused", detail)
        for bad in ([], "x", {}, [1], [""], ["%%"], [["x"]], [b64(leaf)] * 9, [b64(b"x" * 33000)]):
            with self.subTest(str(bad)[:20]):
                self.refused(self.bring(bad), 400, "json_field")
        self.refused(self.bring(chain, version=7), 409, "conflict", "version 1")
        self.refused(self.bring(chain, token="CI"), 403, "forbidden")
        other = make_key(self.a)
        self.refused(self.bring(chain, key_id=other), 400, "certificate_refused", "another key")
        self.assertEqual(len(all_records(self.a)), before + 1)  # the other key's making

    def test_4_the_same_command_signs_the_same_request(self):
        key = secrets.token_hex(8)
        for algorithm in ("ec-p256", "ec-p384", "rsa-3072"):
            with self.subTest(algorithm):
                key_id = make_key(self.a, algorithm)
                first = self.ask_csr(key_id, key=key + algorithm, email="release@acme.example")
                again = self.ask_csr(key_id, key=key + algorithm, email="release@acme.example")
                self.assertEqual(first.status, 200, first)
                self.assertEqual(first.body, again.body)
                text = run("openssl", "req", "-verify", "-noout", "-text", "-in",
                           self.ca.write("some.csr", first.json["csr_pem"]), "-nameopt", "utf8,sep_comma_plus")
                self.assertIn("verify OK", text.stdout + text.stderr)
                self.assertIn("C=DE,O=Acme & Söhne,OU=CI,CN=Release", text.stdout)
                self.assertIn("email:release@acme.example", text.stdout)
                self.assertIn("Code Signing", text.stdout)
                der = run("openssl", "req", "-in", self.ca.path("some.csr"), "-outform", "DER", text=False).stdout
                self.assertEqual(b64(der), first.json["csr_der"])
                self.refused(self.ask_csr(key_id, "CN=Other", key=key + algorithm), 409, "idempotency_key_reused")
                # as when the answer was lost before it could be kept: the command runs again
                count = len(self.records_of("key.csr_signed"))
                self.forget_answers()
                late = self.ask_csr(key_id, key=key + algorithm, email="release@acme.example")
                self.assertEqual(first.body, late.body)
                self.assertEqual(len(self.records_of("key.csr_signed")), count)
                self.forget_answers()
                self.refused(self.ask_csr(key_id, "CN=Other", key=key + algorithm), 409, "idempotency_key_reused")

    def test_5_what_the_authority_issued_is_shown_and_goes_with_signatures(self):
        leaf = self.ca.issue(self.csr)
        chain = self.ca.chain(leaf)
        key = secrets.token_hex(8)
        version = self.a.api("GET", f"/api/v1/keys/{self.key}").json["version"]
        answer = self.bring(chain, version=version, key=key)
        self.assertEqual(answer.status, 200, answer)
        self.assertEqual(answer.json["certificate_chain"], chain)
        self.assertEqual(answer.json["version"], version + 1)
        self.assertEqual(self.bring(chain, version=version, key=key).body, answer.body)
        self.forget_answers()  # as when it was lost before it could be kept: the command is known by what it did
        self.assertEqual(self.bring(chain, version=version, key=key).body, answer.body)
        self.assertEqual(self.a.api("GET", f"/api/v1/keys/{self.key}").json["certificate_chain"], chain)
        self.refused(self.bring(chain, version=version), 409, "conflict")

        session = self.a.session("CI")
        data = b"a release"
        signed = session.api("POST", "/api/v1/code-signing/sign", sign_body(session, self.key, digest_of(data)), key=True)
        self.assertEqual(signed.status, 200, signed)
        self.assertTrue(openssl_verifies(base64.b64decode(signed.json["public_key_der"]),
                                         base64.b64decode(signed.json["signature"]), data))
        self.assertEqual(signed.json["certificate_chain"], chain)
        verified = run("openssl", "verify", "-purpose", "codesign", "-CAfile", self.ca.path("root.pem"), "-untrusted",
                       self.ca.path("middle.pem"),
                       self.ca.write("final.pem", run("openssl", "x509", "-inform", "DER", "-in",
                                                      self.ca.write("final.der", leaf)).stdout))
        self.assertIn("OK", verified.stdout)

    def test_6_a_renewed_certificate_replaces_the_former_even_when_it_was_there_before(self):
        first, second = (self.ca.chain(self.ca.issue(self.csr)) for _ in range(2))
        for chain in (first, second, first):
            answer = self.bring(chain)
            self.assertEqual(answer.status, 200, answer)
            self.assertEqual(answer.json["certificate_chain"], chain)

    def test_7_a_destroyed_key_gets_neither(self):
        key_id = make_key(self.a)
        csr = self.ask_csr(key_id).json["csr_pem"]
        chain = self.ca.chain(self.ca.issue(csr))
        gone = self.a.api("POST", f"/api/v1/keys/{key_id}/transitions",
                          {"to": "destroyed", "reason": "test", "expected_version": 1}, key=True)
        self.assertEqual(gone.status, 200, gone)
        self.refused(self.ask_csr(key_id), 409, "key_not_active")
        self.refused(self.bring(chain, key_id=key_id), 409, "key_not_active")

    def test_8_the_records_tell_of_all_of_it(self):
        signed, certified = self.records_of("key.csr_signed"), self.records_of("key.certified")
        self.assertEqual({r["data"]["subject"] for r in signed}, {SUBJECT})
        digest = hashlib.sha256(base64.b64decode("".join(self.csr.splitlines()[1:-1]))).hexdigest()
        self.assertIn((self.key, digest), {(r["data"]["key_id"], r["data"]["csr_sha256"]) for r in signed})
        self.assertEqual(len([r for r in certified if r["data"]["key_id"] == self.key]), 4)


if __name__ == "__main__":
    unittest.main()
