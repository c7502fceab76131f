"""Verification of signatures under keys: what is refused and with which code, what is good, and that openssl agrees."""
import hashlib
import json
import os
import unittest

import signing
from appliance import Appliance, all_records, b64, make_key, own_appliance, run
from certificates import Workshop, unb64
from verifying import HASHES, KEYLESS, LONG_TERM, UNKNOWN, VERIFY, Case, flipped


class Keys(Case):
    @classmethod
    def setUpClass(cls):
        cls.w = Workshop()
        cls.addClassCleanup(cls.w.clean)
        cls.a = Appliance("verify").start()
        cls.addClassCleanup(cls.a.clean)
        cls.keys = {name: make_key(cls.a, name) for name in ("ec-p256", "ec-p384", "rsa-3072")}

    def signed(self, key="ec-p256", hash="sha256", scheme=None):
        return super().signed(self.keys.get(key, key), hash, scheme)

    def both(self, body, spki):
        """The same question under the key's id and under its public half."""
        return body, {**body, "key_id": None, "public_key_der": spki}

    # ---- refusals ----

    def test_what_was_altered_does_not_verify(self):
        for key in self.keys:
            body, spki = self.signed(key)
            signature, digest = unb64(body["signature"]), unb64(body["digest"])
            for form in self.both(body, spki):
                for change in ({"digest": b64(flipped(digest))}, {"signature": b64(flipped(signature))},
                               {"signature": b64(flipped(signature, 0))}, {"signature": b64(signature[:-1])},
                               {"signature": b64(signature + b"\0")}, {"signature": b64(b"\0")},
                               {"signature": b64(bytes(len(signature)))}, {"signature": b64(b"\xff" * 1024)}):
                    with self.subTest(key=key, change=str(change)[:40]):
                        self.refused(VERIFY, form, 400, "signature_invalid", **change)

    def test_another_key_does_not_verify(self):
        body, spki = self.signed()
        other = make_key(self.a)
        self.refused(VERIFY, body, 400, "signature_invalid", key_id=other)
        self.refused(VERIFY, body, 400, "signature_invalid", key_id=None, public_key_der=b64(self.w.key("other")))
        self.refused(VERIFY, body, 400, "signature_invalid", key_id=self.keys["ec-p384"])
        self.refused(VERIFY, body, 400, "signature_invalid", key_id=self.keys["rsa-3072"])

    def test_another_scheme_or_hash_does_not_verify(self):
        body, spki = self.signed()
        for form in self.both(body, spki):
            for scheme in ("rsa-pss", "rsa-pkcs1v15", "RSA", "none"):
                self.refused(VERIFY, form, 400, "json_field", "/signature_scheme", signature_scheme=scheme)
            for hash in ("sha1", "md5", "SHA256", "sha512/256"):
                self.refused(VERIFY, form, 400, "json_field", "/digest_algorithm", digest_algorithm=hash)
            for hash in ("sha384", "sha512"):
                self.refused(VERIFY, form, 400, "digest_length", "/digest", digest_algorithm=hash)
            self.refused(VERIFY, form, 400, "digest_length", "/digest", digest=b64(b""))
        rsa, spki = self.signed("rsa-3072", scheme="rsa-pss")
        for form in self.both(rsa, spki):
            self.refused(VERIFY, form, 400, "signature_invalid", signature_scheme="rsa-pkcs1v15")
            self.refused(VERIFY, form, 400, "json_field", "/signature_scheme", signature_scheme="ecdsa")
        long, spki = self.signed("rsa-3072", "sha384")
        for form in self.both(long, spki):
            self.refused(VERIFY, form, 400, "digest_length", digest_algorithm="sha512")

    def test_a_pss_salt_of_another_length_is_another_scheme(self):
        spki = self.w.key("pss", "RSA", "rsa_keygen_bits:2048")
        body = {"public_key_der": b64(spki), "digest": b64(self.digest), "signature_scheme": "rsa-pss"}
        for salt, verdict in (("digest", True), ("0", False), ("max", False)):
            signature = self.w.sign("pss", self.digest, "sha256", "rsa_padding_mode:pss", f"rsa_pss_saltlen:{salt}")
            answer = self.ask(VERIFY, body, signature=b64(signature))
            self.assertEqual(answer.status == 200, verdict, answer)

    def test_either_a_key_or_a_public_key(self):
        body, spki = self.signed()
        self.refused(VERIFY, body, 400, "json_field", "/key_id", public_key_der=spki)
        self.refused(VERIFY, body, 400, "json_field", "/key_id", key_id=None)
        for missing in ("digest", "signature"):
            self.refused(VERIFY, body, 400, "json_field", **{missing: None})
        self.refused(VERIFY, body, 400, "json_field", surprise=1)
        self.refused(VERIFY, body, 400, "json_field", signature="")
        self.refused(VERIFY, body, 400, "json_field", signature="%%%")
        self.refused(VERIFY, body, 400, "json_field", signature=b64(bytes(3329)))
        self.assertEqual(self.session.api("POST", VERIFY, b'{"digest":"a","digest":"b"}').status, 400)
        self.assertEqual(self.session.api("POST", VERIFY, b"[]").status, 400)

    def test_public_keys_that_nobody_should_believe(self):
        body, spki = self.signed()
        der = unb64(spki)
        weak = self.w.key("weak", "RSA", "rsa_keygen_bits:1024")
        strange = self.w.key("strange", "EC", "ec_paramgen_curve:secp256k1")
        small = self.w.key("small", "EC", "ec_paramgen_curve:P-224")
        for bad in (b"x", b"\x30\x00", der[:-1], der + b"\0", b"\x30\x82\xff\xff" + der[4:], bytes(600), weak, strange, small,
                    self.w.key("ed", "ED25519", None), self.w.key("dh", "X25519", None),
                    self.w.key("pss-only", "RSA-PSS", "rsa_keygen_bits:2048"), self.w.root("not-a-key")):
            self.refused(VERIFY, body, 400, "json_field", "/public_key_der", key_id=None, public_key_der=b64(bad))
        self.refused(VERIFY, body, 400, "json_field", key_id=None, public_key_der=b64(bytes(5000)))

    def test_keys_that_are_not_ours_are_unknown(self):
        body, spki = self.signed()
        self.a.appliance("tenant", "create", "rival")
        made = self.a.appliance("token", "create", "--tenant", "rival", "--subject", "rival", "--role", "operator",
                                "--ttl", "1h", "--json")
        rival = self.a.session(json.loads(made.stdout)["token"])
        self.addCleanup(rival.close)
        system = [k["key_id"] for k in self.a.api("GET", "/api/v1/keys").json["items"] if k["system"]]
        self.assertTrue(system)
        answers = [rival.api("POST", VERIFY, body)]
        answers += [self.ask(VERIFY, body, key_id=key) for key in (UNKNOWN, "nonsense", body["key_id"].upper()[:-1], *system)]
        for answer in answers:
            told = {k: v for k, v in answer.json.items() if k not in ("trace_id", "instance")}
            self.assertEqual((answer.status, told["code"]), (404, "key_not_found"), answer)
            self.assertEqual(told, {k: v for k, v in answers[0].json.items() if k in told})
        # under the public half it is everybody's
        answer = rival.api("POST", VERIFY, {**{k: v for k, v in body.items() if k != "key_id"}, "public_key_der": spki})
        self.assertEqual(answer.status, 200, answer)

    def test_who_may_ask(self):
        body, _ = self.signed()
        for path in (VERIFY, KEYLESS, LONG_TERM):
            self.assertEqual(self.a.api("POST", path, body, token=None).status, 401)
        self.assertEqual(self.a.api("GET", signing.BASE + "/trusted-root", token=None).status, 401)
        self.assertEqual(self.a.api("POST", VERIFY, body, token="AUDITOR").status,
                         self.a.api("GET", "/api/v1/keys", token="AUDITOR").status)

    # ---- what is good ----

    def test_every_algorithm_and_scheme(self):
        for key, scheme, options in (("ec-p256", "ecdsa", ()), ("ec-p384", "ecdsa", ()), ("rsa-3072", "rsa-pkcs1v15", ()),
                                     ("rsa-3072", "rsa-pss", ("rsa_padding_mode:pss", "rsa_pss_saltlen:digest"))):
            for hash in HASHES:
                with self.subTest(key=key, scheme=scheme, hash=hash):
                    body, spki = self.signed(key, hash, scheme)
                    told = self.good(VERIFY, body)
                    self.assertEqual(told, {
                        "valid": True, "digest_algorithm": hash, "signature_scheme": scheme, "key_id": self.keys[key],
                        "approved_mode": True, "key_state": "active", "public_key_sha256": hashlib.sha256(unb64(spki)).hexdigest()})
                    under = self.good(VERIFY, body, key_id=None, public_key_der=spki)
                    self.assertEqual(under, {k: v for k, v in told.items() if not k.startswith("key_")})
                    self.assertTrue(self.w.takes(unb64(spki), unb64(body["digest"]), unb64(body["signature"]), hash, *options))
        self.assertEqual(self.good(VERIFY, self.signed()[0], digest_algorithm=None)["digest_algorithm"], "sha256")

    def test_cosign_agrees_where_it_can(self):
        """As docs/verification.md tells: ecdsa and rsa-pkcs1v15 over sha256."""
        artifact = self.w.write("artifact", self.data)
        for key, scheme, hash, takes in (("ec-p256", "ecdsa", "sha256", True), ("ec-p384", "ecdsa", "sha256", True),
                                         ("rsa-3072", "rsa-pkcs1v15", "sha256", True), ("rsa-3072", "rsa-pss", "sha256", False),
                                         ("ec-p384", "ecdsa", "sha384", False), ("rsa-3072", "rsa-pkcs1v15", "sha512", False)):
            body, spki = self.signed(key, hash, scheme)
            run("openssl", "pkey", "-pubin", "-inform", "DER", "-in", self.w.write("spki", unb64(spki)), "-out",
                self.w.path("key.pem"))
            done = run("unshare", "-n", "cosign", "verify-blob", "--key", self.w.path("key.pem"), "--signature",
                       self.w.write("signature", unb64(body["signature"])), "--insecure-ignore-tlog", artifact, check=False,
                       env={**os.environ, "HOME": self.w.dir})
            with self.subTest(key=key, scheme=scheme, hash=hash):
                self.assertEqual(done.returncode == 0, takes, done.stderr)

    def test_signatures_of_others_verify_under_their_public_keys(self):
        for name, algorithm, option in (("p521", "EC", "ec_paramgen_curve:P-521"), ("rsa2k", "RSA", "rsa_keygen_bits:2048"),
                                        ("rsa4k", "RSA", "rsa_keygen_bits:4096")):
            spki = self.w.key(name, algorithm, option)
            body = {"public_key_der": b64(spki), "digest": b64(self.digest), "signature": b64(self.w.sign(name, self.digest))}
            scheme = "ecdsa" if algorithm == "EC" else "rsa-pkcs1v15"
            told = self.good(VERIFY, body, signature_scheme=scheme)
            self.assertEqual((told["signature_scheme"], told["approved_mode"]), (scheme, name == "rsa4k"))

    def test_a_destroyed_key_still_verifies(self):
        for key in ("ec-p256", "rsa-3072"):
            key_id = make_key(self.a, key)
            body, spki = self.signed(key_id)
            gone = self.a.api("POST", f"/api/v1/keys/{key_id}/transitions",
                              {"to": "destroyed", "reason": "test", "expected_version": 1}, key=True)
            self.assertEqual(gone.status, 200, gone)
            self.assertEqual(self.good(VERIFY, body)["key_state"], "destroyed")
            self.refused(VERIFY, body, 400, "signature_invalid", digest=b64(flipped(unb64(body["digest"]))))

    @own_appliance("takes a key out of the token")
    def test_a_key_that_the_token_has_lost_still_verifies(self):
        key_id = make_key(self.a)
        body, spki = self.signed(key_id)
        with open(f"{self.a.dir}/data/signer/pin") as f:
            pin = f.read().strip()
        for kind in ("privkey", "pubkey"):
            run("pkcs11-tool", "--module", "/usr/lib/softhsm/libsofthsm2.so", "--token-label", "svc", "--login", "--pin", pin,
                "--delete-object", "--type", kind, "--id", key_id.replace("-", ""),
                env={**os.environ, "SOFTHSM2_CONF": f"{self.a.dir}/data/softhsm/softhsm2.conf"})
        self.assertNotEqual(self.sign_again(key_id).status, 200)
        self.assertEqual(self.good(VERIFY, body)["key_state"], "active")
        self.refused(VERIFY, body, 400, "signature_invalid", digest=b64(bytes(32)))

    def sign_again(self, key_id):
        return signing.sign(self.session, "key", signing.key_body(key_id, self.digest))

    def test_nothing_is_recorded(self):
        body, spki = self.signed()
        before = len(all_records(self.a))
        for form in self.both(body, spki):
            self.good(VERIFY, form)
            self.refused(VERIFY, form, 400, "signature_invalid", digest=b64(bytes(32)))
        self.assertEqual(len(all_records(self.a)), before)


if __name__ == "__main__":
    unittest.main()
