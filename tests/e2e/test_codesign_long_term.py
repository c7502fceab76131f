"""Verification by a time stamp and a certificate that was issued for a managed key, expired or not."""
import hashlib
import time
import unittest

from appliance import Appliance, b64, make_key, until
from certificates import LEAF, ROOT, STAMPER, Workshop, b64s, unb64
from verifying import HASHES, LONG_TERM, UNKNOWN, Case, flipped


class LongTerm(Case):
    @classmethod
    def setUpClass(cls):
        cls.w = Workshop()
        cls.addClassCleanup(cls.w.clean)
        cls.a = Appliance("long-term").start()
        cls.addClassCleanup(cls.a.clean)

    def long_term(self, key="ec-p256", hash="sha256", scheme=None, leaf=LEAF, **times):
        """A managed key with a certificate of the workshop's authority, a signature by it, and a stamp over that."""
        key_id = make_key(self.a, key)
        self.w.root("ca")
        self.w.leaf("middle", "ca", ROOT + "authorityKeyIdentifier=keyid\n")
        csr = self.a.api("POST", f"/api/v1/keys/{key_id}/csr", {"subject": "CN=Release,O=Acme"}, key=True)
        self.assertEqual(csr.status, 200, csr)
        self.w.certify("release", "middle", leaf, csr=csr.json["csr_pem"], **times)
        chain = b64s(self.w.der("release"), self.w.der("middle"))
        if not times and leaf == LEAF:
            given = self.a.api("POST", f"/api/v1/keys/{key_id}/certificates",
                               {"certificate_chain": chain, "expected_version": 1}, key=True)
            self.assertEqual(given.status, 200, given)
        body, _ = self.signed(key_id, hash, scheme)
        del body["key_id"]
        return {**body, "certificate_chain": chain, "root_certificates": b64s(self.w.der("ca")),
                "timestamp": b64(self.stamp(unb64(body["signature"])))}

    def test_long_term_refusals(self):
        body = self.long_term()
        chain = body["certificate_chain"]
        root = body["root_certificates"][0]
        signature = unb64(body["signature"])
        stranger = b64(self.w.root("stranger"))
        sister = b64(self.w.leaf("sister", "middle"))
        rows = [
            ("signature_invalid", {"digest": b64(bytes(32))}),
            ("timestamp_invalid", {"signature": b64(flipped(signature))}),
            ("timestamp_invalid", {"timestamp": b64(self.stamp(b"another signature"))}),
            ("timestamp_invalid", {"timestamp": b64(self.stamp(self.digest))}),
            ("timestamp_invalid", {"timestamp": b64(flipped(unb64(body["timestamp"])))}),
            ("timestamp_invalid", {"timestamp": b64(b"x")}),
            ("timestamp_invalid", {"timestamp_roots": [stranger]}),
            ("timestamp_invalid", {"timestamp_roots": [root]}),
            ("certificate_refused", {"root_certificates": [stranger]}),
            ("certificate_refused", {"root_certificates": None}),
            ("certificate_refused", {"certificate_chain": chain[::-1]}),
            ("certificate_refused", {"certificate_chain": [chain[0], root, chain[1]]}),
            ("certificate_refused", {"certificate_chain": [chain[0]]}),
            ("certificate_refused", {"certificate_chain": [chain[1]]}),
            ("certificate_refused", {"certificate_chain": [root]}),
            ("certificate_refused", {"certificate_chain": [chain[0], sister]}),
            ("signature_invalid", {"certificate_chain": [sister, chain[1]]}),
            ("json_field", {"certificate_chain": [chain[0][:-8], chain[1]]}),
            ("json_field", {"certificate_chain": [chain[0], b64(unb64(chain[1]) + b"\0")]}),
            ("json_field", {"certificate_chain": ["%", chain[1]]}),
            ("json_field", {"certificate_chain": [""]}),
            ("json_field", {"certificate_chain": []}),
            ("json_field", {"certificate_chain": chain[0]}),
            ("json_field", {"certificate_chain": chain + [root] * 15}),
            ("json_field", {"certificate_chain": None}),
            ("json_field", {"timestamp": None}),
            ("json_field", {"root_certificates": [chain[1]]}),
            ("json_field", {"root_certificates": ["x"]}),
            ("json_field", {"timestamp_roots": ["x"]}),
            ("json_field", {"timestamp_roots": []}),
            ("json_field", {"key_id": UNKNOWN}),
        ]
        for code, change in rows:
            with self.subTest(code, change=str(change)[:60]):
                self.refused(LONG_TERM, body, 400, code, **change)
        altered = flipped(unb64(chain[0]))
        self.refused(LONG_TERM, body, 400, "certificate_refused", certificate_chain=[b64(altered), chain[1]])
        self.refused(LONG_TERM, body, 400, "json_field", "/certificate_chain/1", certificate_chain=[chain[0], b64(b"x")])
        self.good(LONG_TERM, body)

    def test_long_term_of_certificates_for_other_uses(self):
        for leaf in (LEAF.replace("codeSigning", "serverAuth"), LEAF.replace("digitalSignature", "keyAgreement"),
                     ROOT + "authorityKeyIdentifier=keyid\n"):
            with self.subTest(leaf):
                self.refused(LONG_TERM, self.long_term(leaf=leaf), 400, "certificate_refused")

    def test_a_stamp_outside_the_validity(self):
        self.refused(LONG_TERM, self.long_term(begins=-7200, ends=-3600), 400, "timestamp_outside_validity")
        self.refused(LONG_TERM, self.long_term(begins=3600, ends=7200), 400, "timestamp_outside_validity")

    def test_a_stamp_of_another_authority(self):
        body = self.long_term()
        self.w.root("tsa-root")
        self.w.leaf("tsa", "tsa-root", STAMPER)
        self.w.leaf("no-tsa", "tsa-root", LEAF)
        other = b64(self.w.stamp("tsa", unb64(body["signature"])))
        self.refused(LONG_TERM, body, 400, "timestamp_invalid", timestamp=other)
        told = self.good(LONG_TERM, body, timestamp=other, timestamp_roots=b64s(self.w.der("tsa-root")))
        self.assertEqual(told["timestamp_policy"], "1.2.3.4")
        self.assertIn("CN=tsa", told["timestamp_signer"])
        self.refused(LONG_TERM, body, 400, "timestamp_invalid", timestamp=other, timestamp_roots=b64s(self.w.der("no-tsa")))

    def test_long_term(self):
        for key, hash, scheme in (("ec-p256", "sha256", "ecdsa"), ("ec-p384", "sha384", "ecdsa"),
                                  ("rsa-3072", "sha512", "rsa-pss"), ("rsa-3072", "sha256", "rsa-pkcs1v15")):
            with self.subTest(key=key, scheme=scheme):
                body = self.long_term(key, hash, scheme)
                told = self.good(LONG_TERM, body)
                leaf = unb64(body["certificate_chain"][0])
                self.assertEqual(told["certificate_sha256"], hashlib.sha256(leaf).hexdigest())
                self.assertLess(told["not_before"], told["gen_time"])
                self.assertLess(told["gen_time"], told["not_after"])
                self.assertEqual((told["digest_algorithm"], told["signature_scheme"]), (hash, scheme))
                for name in ("timestamp_serial", "timestamp_policy", "timestamp_signer"):
                    self.assertTrue(told[name])
                whole = body["certificate_chain"] + body["root_certificates"]
                self.good(LONG_TERM, body, certificate_chain=whole)
                self.good(LONG_TERM, body, certificate_chain=whole[:1], root_certificates=whole[:0:-1])
        signature = unb64(body["signature"])
        for hash in HASHES:
            self.good(LONG_TERM, body, timestamp=b64(self.stamp(signature, hash)))
        self.good(LONG_TERM, body, timestamp=b64(self.stamp(signature, certificate=False)))

    def test_an_expired_certificate_is_judged_at_the_stamp(self):
        body = self.long_term(ends=4)
        self.good(LONG_TERM, body)
        end = time.time() + 5
        until("the certificate has expired", lambda: time.time() > end)
        self.good(LONG_TERM, body)
        self.refused(LONG_TERM, body, 400, "timestamp_outside_validity", timestamp=b64(self.stamp(unb64(body["signature"]))))

    def test_a_key_with_a_certificate_that_is_destroyed(self):
        body = self.long_term()
        key_id = self.a.api("GET", "/api/v1/keys").json["items"][0]["key_id"]
        gone = self.a.api("POST", f"/api/v1/keys/{key_id}/transitions",
                          {"to": "destroyed", "reason": "test", "expected_version": 2}, key=True)
        self.assertEqual(gone.status, 200, gone)
        self.good(LONG_TERM, body)


if __name__ == "__main__":
    unittest.main()
