"""svc-cli code-signing verify-remote: the appliance's verdict, by every route, and what the client does not even ask."""
import hashlib
import json
import secrets
import unittest

import signing
from appliance import Appliance, make_key, run
from certificates import LEAF, Workshop, unb64
from oidc import Issuer


class VerifyRemote(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.w = Workshop()
        cls.addClassCleanup(cls.w.clean)
        cls.issuer = Issuer().start()
        cls.addClassCleanup(cls.issuer.stop)
        cls.a = Appliance("verify-remote")
        cls.addClassCleanup(cls.a.clean)
        signing.write_attestors(cls.a, cls.issuer.attestor())
        cls.a.start()
        cls.session = cls.a.session("OPERATOR")
        cls.addClassCleanup(cls.session.close)
        cls.data = secrets.token_bytes(100000)
        cls.file = cls.w.write("artifact", cls.data)
        cls.other = cls.w.write("other", cls.data + b"x")
        cls.key = make_key(cls.a)
        cls.sig, cls.spki = cls.signed("key", "k", cls.key)
        cls.keyless_sig, _ = cls.signed("keyless", "l")
        cls.stamp = cls.stamped(cls.sig, "k.tsr")
        cls.keyless_stamp = cls.stamped(cls.keyless_sig, "l.tsr")
        cls.certify()

    @classmethod
    def signed(cls, kind, name, key=None):
        digest = hashlib.sha256(cls.data).digest()
        body = signing.key_body(key, digest) if key else signing.keyless_body(cls.issuer.token(), digest)
        answer = signing.sign(cls.session, kind, body)
        assert answer.status == 200, answer
        chain = "".join(run("openssl", "x509", "-inform", "DER", "-in", cls.w.write("der", unb64(c))).stdout
                        for c in answer.json.get("certificate_chain", []))
        cls.w.write(f"{name}.pem", chain)
        if kind == "keyless":
            cls.identity = ["--certificate-identity", answer.json["fulcio_san"], "--certificate-oidc-issuer",
                            answer.json["fulcio_issuer"]]
        return (cls.w.write(f"{name}.sig", unb64(answer.json["signature"])),
                cls.w.write(f"{name}.spki", unb64(answer.json["public_key_der"])))

    @classmethod
    def stamped(cls, signature, name):
        return cls.w.write(name, cls.a.tsa(cls.w.query(cls.w.read(signature))).body)

    @classmethod
    def certify(cls):
        cls.w.root("ca")
        csr = cls.a.api("POST", f"/api/v1/keys/{cls.key}/csr", {"subject": "CN=Release"}, key=True)
        assert csr.status == 200, csr
        cls.w.certify("release", "ca", LEAF, csr=csr.json["csr_pem"])

    def ask(self, *words, file=None, code=0):
        done = self.a.cli("code-signing", "verify-remote", file or self.file, *words, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stderr

    def test_what_is_not_asked(self):
        certificate = ["--certificate", self.w.path("release.pem")]
        for words in ((), ("--key", self.key, "--public-key", self.spki), ("--key", self.key, *self.identity),
                      ("--key", self.key, "--timestamp", self.stamp), certificate,
                      (*certificate, *self.identity[:2]), (*certificate, *self.identity[2:]),
                      (*certificate, *self.identity, "--root", self.w.path("ca.pem")),
                      (*certificate, *self.identity, "--tsa-root", self.w.path("ca.pem"))):
            self.assertIn("bad_argument", self.ask("--signature", self.sig, *words, code=2))
        self.assertIn("--signature", self.ask("--key", self.key, code=2))

    def test_refusals_have_the_servers_code(self):
        by_key = ["--signature", self.sig, "--key", self.key]
        long = ["--signature", self.sig, "--certificate", self.w.path("release.pem"), "--timestamp", self.stamp]
        keyless = ["--signature", self.keyless_sig, "--certificate", self.w.path("l.pem")]
        for words, code, more in (
                (by_key, "signature_invalid", {"file": self.other}),
                (["--signature", self.keyless_sig, "--key", self.key], "signature_invalid", {}),
                (["--signature", self.sig, "--key", "0198c0de-0000-7000-8000-000000000000"], "key_not_found", {}),
                (long, "certificate_refused", {}),
                ([*long[:-1], self.keyless_stamp, "--root", self.w.path("ca.pem")], "timestamp_invalid", {}),
                ([*long, "--root", self.w.path("ca.pem"), "--tsa-root", self.w.path("ca.pem")], "timestamp_invalid", {}),
                ([*keyless, *self.identity[:3], "https://evil.example"], "keyless_contradiction", {})):
            with self.subTest(code):
                said = self.ask(*words, code=2, **more)
                self.assertIn(code, said)
        said = json.loads(self.ask(*by_key, "--json", code=2, file=self.other))
        self.assertEqual(said["code"], "signature_invalid")

    def test_good_ones(self):
        root = ["--root", self.w.path("ca.pem")]
        pem = ["--public-key", self.w.path("release.pem")]
        long = ["--certificate", self.w.path("release.pem"), "--timestamp", self.stamp]
        keyless = ["--signature", self.keyless_sig, "--certificate", self.w.path("l.pem")]
        stamp = ["--timestamp", self.keyless_stamp]
        tsa_root = self.w.write("tsa.pem", run("curl", "-s", f"http://127.0.0.1:{self.a.plain}/tsa/chain.pem").stdout)
        for words, line in ((["--signature", self.sig, "--key", self.key], "active"),
                            (["--signature", self.sig, "--public-key", self.spki], "ecdsa"),
                            (["--signature", self.sig, *pem, "--scheme", "ecdsa"], "ecdsa"),
                            (["--signature", self.sig, *long, *root], "stamped at"),
                            (["--signature", self.sig, *long, *root, "--tsa-root", tsa_root], "Time Stamping Unit"),
                            ([*keyless, *self.identity], "judged at"), ([*keyless, *self.identity, *stamp], self.identity[1]),
                            ([*keyless, *stamp], "stamped at")):
            with self.subTest(words=words[2:]):
                said = self.ask(*words)
                self.assertIn("good signature, says the appliance", said)
                self.assertIn(line, said)
                self.assertIs(json.loads(self.ask(*words, "--json"))["valid"], True)


if __name__ == "__main__":
    unittest.main()
