"""The trusted root, judged by those who use it: cosign without any network, svc-cli, openssl."""
import hashlib
import json
import os
import secrets
import unittest

import signing
from appliance import Appliance, b64, make_key, run
from certificates import STAMPER, Workshop, b64s, unb64
from oidc import Issuer
from peers import Rekor

BUNDLE_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
NO_TLOG = "--insecure-ignore-tlog"
STAMPS = "--use-signed-timestamps"


class TrustedRoot(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.w = Workshop()
        cls.addClassCleanup(cls.w.clean)
        cls.issuer = Issuer().start()
        cls.addClassCleanup(cls.issuer.stop)
        cls.rekor = Rekor().start()
        cls.addClassCleanup(cls.rekor.stop)
        cls.a = Appliance("trusted-root")
        cls.addClassCleanup(cls.a.clean)
        signing.write_attestors(cls.a, cls.issuer.attestor())
        signing.write_logs(cls.a, cls.rekor)
        cls.a.start()
        cls.session = cls.a.session("OPERATOR")
        cls.addClassCleanup(cls.session.close)
        cls.data = secrets.token_bytes(100)
        cls.digest = hashlib.sha256(cls.data).digest()
        cls.artifact = cls.w.write("artifact", cls.data)
        cls.root = cls.a.api("GET", signing.BASE + "/trusted-root").json
        # cosign takes the index 0 for a missing one: the keyless signature must not be a log's first
        cls.keyed = cls.signed("key", signing.key_body(make_key(cls.a), cls.digest))
        cls.keyless = cls.signed("keyless", signing.keyless_body(cls.issuer.token(), cls.digest))
        cls.keyed_again = cls.signed("key", signing.key_body(cls.keyed["key_id"], cls.digest))
        cls.w.write("key.spki", unb64(cls.keyed["public_key_der"]))
        run("openssl", "pkey", "-pubin", "-inform", "DER", "-in", cls.w.path("key.spki"), "-out", cls.w.path("key.pem"))

    @classmethod
    def signed(cls, kind, body):
        answer = signing.sign(cls.session, kind, body)
        assert answer.status == 200, answer
        operation = signing.published(cls.a, answer.json["operation_id"])
        stamp = cls.a.tsa(cls.w.query(unb64(answer.json["signature"]))).body
        return {**answer.json, "entry": operation["transparency"]["entry"], "stamp": b64(stamp)}

    def bundle(self, signed, entry=True, stamp=True):
        chain = signed.get("certificate_chain")
        hint = b64(hashlib.sha256(unb64(signed["public_key_der"])).digest())
        material = {"certificate": {"rawBytes": chain[0]}} if chain else {"publicKey": {"hint": hint}}
        if entry:
            material["tlogEntries"] = [signed["entry"]]
        if stamp:
            material["timestampVerificationData"] = {"rfc3161Timestamps": [{"signedTimestamp": signed["stamp"]}]}
        return self.w.write("bundle.json", json.dumps({
            "mediaType": BUNDLE_TYPE, "verificationMaterial": material,
            "messageSignature": {"messageDigest": {"algorithm": "SHA2_256", "digest": b64(self.digest)},
                                 "signature": signed["signature"]}}))

    def changed(self, change=None):
        """The root as a file, after `change`."""
        root = json.loads(json.dumps(self.root))
        if change:
            change(root)
        return self.w.write("root.json", json.dumps(root))

    def cosign(self, *words):
        """In a network namespace without any network: what it needs beside its files, it does not get."""
        done = run("unshare", "-n", "cosign", "verify-blob", *words, self.artifact, check=False,
                   env={**os.environ, "HOME": self.w.dir})
        return done.returncode == 0 and "Verified OK" in done.stdout + done.stderr, done.stdout + done.stderr

    def identity(self, **more):
        signed = {**self.keyless, **more}
        return ["--certificate-identity", signed["fulcio_san"], "--certificate-oidc-issuer", signed["fulcio_issuer"]]

    def judge(self, verdict, bundle, *words, change=None, identity=None):
        takes, said = self.cosign("--bundle", bundle, "--new-bundle-format", "--trusted-root", self.changed(change),
                                  "--insecure-ignore-sct", *(identity or self.identity()), *words)
        self.assertEqual(takes, verdict, said)

    # ---- what cosign refuses ----

    def test_another_authority(self):
        other = b64(self.w.root("other-ca"))

        def change(root):
            root["certificateAuthorities"][0]["certChain"]["certificates"] = [{"rawBytes": other}]

        self.judge(False, self.bundle(self.keyless), change=change)

    def test_another_stamper(self):
        self.w.root("other-tsa-root")
        chain = b64s(self.w.leaf("other-tsa", "other-tsa-root", STAMPER), self.w.der("other-tsa-root"))

        def change(root):
            root["timestampAuthorities"][0]["certChain"]["certificates"] = [{"rawBytes": c} for c in chain]

        self.judge(False, self.bundle(self.keyless, entry=False), NO_TLOG, STAMPS, change=change)

    def test_another_log(self):
        def change(root):
            root["tlogs"][0]["publicKey"]["rawBytes"] = b64(self.w.key("other-log"))

        self.judge(False, self.bundle(self.keyless), change=change)

    def test_windows_that_are_over(self):
        over = {"start": "2020-01-01T00:00:00Z", "end": "2021-01-01T00:00:00Z"}

        def close(*path):
            def change(root):
                for step in path:
                    root = root[step]
                root["validFor"] = over
            return change

        self.judge(False, self.bundle(self.keyless), change=close("certificateAuthorities", 0))
        self.judge(False, self.bundle(self.keyless, entry=False), NO_TLOG, STAMPS, change=close("timestampAuthorities", 0))
        self.judge(False, self.bundle(self.keyless), change=close("tlogs", 0, "publicKey"))

    def test_another_identity(self):
        for more in ({"fulcio_san": self.keyless["fulcio_san"] + "x"}, {"fulcio_issuer": "https://evil.example"}):
            self.judge(False, self.bundle(self.keyless), identity=self.identity(**more))

    def test_entries_that_cosign_takes_for_missing(self):
        """Known of cosign 2.5: docs/verification.md tells; should this fail, a newer one takes them."""
        for member in ("logIndex", "integratedTime"):
            signed = {**self.keyless, "entry": {**self.keyless["entry"], member: "0"}}
            takes, said = self.cosign("--bundle", self.bundle(signed), "--new-bundle-format", "--trusted-root", self.changed(),
                                      "--insecure-ignore-sct", *self.identity())
            self.assertFalse(takes)
            self.assertIn("nil value in transaction log entry", said)

    def test_what_is_missing(self):
        self.judge(False, self.bundle(self.keyless, entry=False))
        self.judge(False, self.bundle(self.keyless, stamp=False), STAMPS)

    # ---- what it takes ----

    def test_keyless(self):
        self.judge(True, self.bundle(self.keyless))
        self.judge(True, self.bundle(self.keyless), STAMPS)
        self.judge(True, self.bundle(self.keyless, stamp=False))
        self.judge(True, self.bundle(self.keyless, entry=False), NO_TLOG, STAMPS)

    def test_keyed(self):
        trusted = ["--new-bundle-format", "--trusted-root", self.changed(), "--key", self.w.path("key.pem")]
        for more, options in (({}, []), ({}, [STAMPS]), ({"stamp": False}, []), ({"entry": False}, [NO_TLOG, STAMPS])):
            takes, said = self.cosign("--bundle", self.bundle(self.keyed_again, **more), *trusted, *options)
            self.assertTrue(takes, said)

    def test_without_a_bundle(self):
        for signature in (self.w.write("signature.b64", self.keyed["signature"]),
                          self.w.write("signature.bin", unb64(self.keyed["signature"]))):
            takes, said = self.cosign("--key", self.w.path("key.pem"), "--signature", signature, NO_TLOG)
            self.assertTrue(takes, said)
        names = []
        for number, der in enumerate(self.keyless["certificate_chain"]):
            names.append(self.w.path(f"{number}.pem"))
            run("openssl", "x509", "-inform", "DER", "-in", self.w.write("der", unb64(der)), "-out", names[-1])
        takes, said = self.cosign(
            "--certificate", names[0], "--certificate-chain", names[1], "--signature",
            self.w.write("signature.b64", self.keyless["signature"]), *self.identity(), "--insecure-ignore-sct",
            "--rfc3161-timestamp", self.w.write("stamp.json", json.dumps({"SignedRFC3161Timestamp": self.keyless["stamp"]})),
            "--timestamp-certificate-chain",
            self.w.write("tsa.pem", run("curl", "-s", f"http://127.0.0.1:{self.a.plain}/tsa/chain.pem").stdout), NO_TLOG)
        self.assertTrue(takes, said)

    def test_stamps_by_a_certificate_that_was_renewed(self):
        """As if the unit's key were older than its certificate: stamps under its former one must go on to verify."""
        year = 365 * 86400 * 1000000
        self.a.sql(f"UPDATE svc.managed_keys SET created_us = created_us - {year} WHERE purpose = 'tsa'")
        try:
            renewed = self.a.api("GET", signing.BASE + "/trusted-root").json
        finally:
            self.a.sql(f"UPDATE svc.managed_keys SET created_us = created_us + {year} WHERE purpose = 'tsa'")
        [known], [same, former] = self.root["timestampAuthorities"], renewed["timestampAuthorities"]
        self.assertEqual(same, known)
        self.assertEqual(former["certChain"]["certificates"], known["certChain"]["certificates"][1:])
        self.w.root("other-unit-root")
        other = b64(self.w.leaf("other-unit", "other-unit-root", STAMPER))

        def change(root):
            root["timestampAuthorities"] = renewed["timestampAuthorities"]
            root["timestampAuthorities"][0]["certChain"]["certificates"][0]["rawBytes"] = other

        bundle = self.bundle(self.keyless, entry=False)
        self.judge(True, bundle, NO_TLOG, STAMPS, change=change)
        self.a.cli("code-signing", "verify", self.artifact, "--trusted-root", self.changed(change), "--bundle", bundle,
                   "--without-transparency", *self.identity())

    def test_svc_cli_says_the_same(self):
        self.a.cli("code-signing", "trusted-root", "-o", self.w.path("told.json"))
        self.assertEqual(json.loads(self.w.read("told.json")), self.root)
        words = ["code-signing", "verify", self.artifact, "--trusted-root", self.changed(), "--bundle"]
        self.a.cli(*words, self.bundle(self.keyless), *self.identity())
        self.a.cli(*words, self.bundle(self.keyed), "--public-key", self.w.path("key.pem"))
        done = self.a.cli(*words, self.bundle(self.keyless), *self.identity(fulcio_issuer="https://evil.example"), check=False)
        self.assertNotEqual(done.returncode, 0)

    def test_openssl_says_the_same(self):
        """What docs/verification.md tells to do with it alone."""
        signature = self.w.write("signature.bin", unb64(self.keyed["signature"]))
        run("openssl", "dgst", "-sha256", "-verify", self.w.path("key.pem"), "-signature", signature, self.artifact)
        signature = self.w.write("signature.bin", unb64(self.keyless["signature"]))
        stamp = self.w.write("stamp.tsr", unb64(self.keyless["stamp"]))
        roots = {}
        for name in ("certificateAuthorities", "timestampAuthorities"):
            roots[name] = self.w.path(f"{name}.pem")
            der = run("jq", "-r", f".{name}[0].certChain.certificates[-1].rawBytes", self.changed()).stdout
            run("openssl", "x509", "-inform", "DER", "-in", self.w.write("der", unb64(der)), "-out", roots[name])
        run("openssl", "ts", "-verify", "-in", stamp, "-data", signature, "-CAfile", roots["timestampAuthorities"])
        leaf = self.w.path("leaf.pem")
        run("openssl", "x509", "-inform", "DER", "-in", self.w.write("der", unb64(self.keyless["certificate_chain"][0])),
            "-out", leaf)
        text = run("openssl", "ts", "-reply", "-in", stamp, "-text").stdout
        at = next(line for line in text.splitlines() if line.startswith("Time stamp:")).partition(":")[2].strip()
        seconds = run("date", "-d", at, "+%s").stdout.strip()
        run("openssl", "verify", "-purpose", "codesign", "-attime", seconds, "-CAfile", roots["certificateAuthorities"], leaf)
        self.w.write("leaf.pub", run("openssl", "x509", "-in", leaf, "-noout", "-pubkey").stdout)
        run("openssl", "dgst", "-sha256", "-verify", self.w.path("leaf.pub"), "-signature", signature, self.artifact)
        told = run("openssl", "x509", "-in", leaf, "-noout", "-ext", "subjectAltName").stdout
        self.assertIn(self.keyless["fulcio_san"], told)


if __name__ == "__main__":
    unittest.main()
