"""ML-DSA-65 keys: made, used and destroyed where the configuration allows them, marked everywhere, refused elsewhere.

The judge of signatures is the openssl program, apart from all of ours.
"""
import base64
import json
import os
import secrets
import signal
import tempfile
import unittest

from appliance import BIN, Appliance, all_records, b64, digest_of, make_key, run, sign_body, until

MODULE = os.environ.get("SVC_TEST_PKCS11_MODULE", os.path.normpath(f"{BIN}/../lib/libsvc-pkcs11.so"))
NOTE = "no part of an approved-mode claim"


def openssl_accepts(public_key_der, digest, signature):
    """Pure ML-DSA over the digest's bytes, with an empty context."""
    with tempfile.TemporaryDirectory() as d:
        for name, content in (("pub", public_key_der), ("sig", signature), ("message", digest)):
            with open(f"{d}/{name}", "wb") as f:
                f.write(content)
        done = run("openssl", "pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-inkey", f"{d}/pub", "-rawin",
                   "-in", f"{d}/message", "-sigfile", f"{d}/sig", check=False)
        return done.returncode == 0


def unb64(text):
    return base64.b64decode(text, validate=True)


class Post_quantum(unittest.TestCase):
    def assert_marked(self, answer):
        self.assertIs(answer["approved_mode"], False)
        self.assertIn(NOTE, answer["approved_mode_note"])

    def assert_refused(self, answer, status, code, *words):
        self.assertEqual((answer.status, answer.json["code"]), (status, code), answer)
        for word in words:
            self.assertIn(word, answer.json["detail"])

    def sign(self, key_id, digest, key=True):
        session = self.a.session("OPERATOR")
        answer = session.api("POST", "/api/v1/code-signing/sign", sign_body(session, key_id, digest), key=key)
        self.assertEqual(answer.status, 200, answer)
        return answer.json

    def key(self, key_id):
        answer = self.a.api("GET", f"/api/v1/keys/{key_id}")
        self.assertEqual(answer.status, 200, answer)
        return answer.json

    def destroy(self, key_id):
        answer = self.a.api("POST", f"/api/v1/keys/{key_id}/transitions",
                            {"to": "destroyed", "reason": "the test is over",
                             "expected_version": self.key(key_id)["version"]}, key=True)
        self.assertEqual(answer.status, 200, answer)

    def sealed_files(self):
        folder = f"{self.a.dir}/data/signer/sealed"
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


class Where_it_is_allowed(Post_quantum):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("pqc", fips__required=False, features__pqc=True).start()
        cls.key_id = make_key(cls.a, "ml-dsa-65", "pq-release")
        cls.classic = make_key(cls.a, "ec-p256", "classic")

    @classmethod
    def tearDownClass(cls):
        cls.a.clean()

    # ---- refusals ----

    def test_a_scheme_of_another_family_is_refused_both_ways(self):
        for key_id, scheme in ((self.key_id, "ecdsa"), (self.key_id, "rsa-pss"), (self.classic, "ml-dsa")):
            body = {"key_id": key_id, "artifact_type": "file", "digest": b64(digest_of(b"x")),
                    "signature_scheme": scheme}
            self.assert_refused(self.a.api("POST", "/api/v1/code-signing/preview", body), 400, "json_field",
                                "ml-dsa for an ML-DSA key")

    def test_certificates_are_refused_with_what_to_do_instead(self):
        answer = self.a.api("POST", f"/api/v1/keys/{self.key_id}/csr", {"subject": "CN=x"}, key=True)
        self.assert_refused(answer, 400, "unsupported", "public key")

    def test_another_purpose_is_refused(self):
        answer = self.a.api("POST", "/api/v1/keys", {"name": "pq-tsa", "algorithm": "ml-dsa-65", "purpose": "tsa"},
                            key=True)
        self.assert_refused(answer, 400, "json_field", "codesign")

    def test_no_sigstore_bundle_is_promised_for_it(self):
        with tempfile.TemporaryDirectory() as d:
            with open(f"{d}/artifact", "w") as f:
                f.write("artifact")
            done = self.a.cli("code-signing", "sign", f"{d}/artifact", "--key", self.key_id, "--yes", "--bundle",
                              f"{d}/bundle", check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("no Sigstore bundle holds an ML-DSA signature", done.stderr)
            self.assertEqual(os.listdir(d), ["artifact"])

    def test_a_wrong_signature_is_refused_by_key_and_by_public_key(self):
        digest = digest_of(b"wrong")
        signed = self.sign(self.key_id, digest)
        other = {"digest": b64(digest_of(b"other")), "signature": signed["signature"]}
        spoilt = bytearray(unb64(signed["signature"]))
        spoilt[1000] ^= 1
        altered = {"digest": b64(digest), "signature": b64(bytes(spoilt))}
        for body in (other, altered):
            for by in ({"key_id": self.key_id}, {"public_key_der": signed["public_key_der"]}):
                self.assert_refused(self.a.api("POST", "/api/v1/code-signing/verify", {**body, **by}), 400,
                                    "signature_invalid")

    # ---- what works ----

    def test_keys_and_answers_are_marked(self):
        key = self.key(self.key_id)
        self.assertEqual((key["algorithm"], key["state"]), ("ml-dsa-65", "active"))
        self.assert_marked(key)
        listed = {k["key_id"]: k for k in self.a.api("GET", "/api/v1/keys?purpose=codesign").json["items"]}
        self.assert_marked(listed[self.key_id])
        # Where FIPS is not required nothing is claimed of classic keys either, and nothing needs explaining.
        self.assertIs(listed[self.classic]["approved_mode"], False)
        self.assertNotIn("approved_mode_note", listed[self.classic])
        preview = self.a.api("POST", "/api/v1/code-signing/preview",
                             {"key_id": self.key_id, "artifact_type": "file", "digest": b64(digest_of(b"p"))}).json
        self.assertEqual(preview["signature_scheme"], "ml-dsa")
        self.assert_marked(preview)

    def test_openssl_accepts_the_signature_and_nothing_else(self):
        digest = digest_of(b"artifact")
        signed = self.sign(self.key_id, digest)
        signature, public = unb64(signed["signature"]), unb64(signed["public_key_der"])
        self.assertEqual((signed["algorithm"], signed["signature_encoding"], len(signature), len(public)),
                         ("ml-dsa-65", "ml-dsa-65", 3309, 1974))
        self.assert_marked(signed)
        self.assertTrue(openssl_accepts(public, digest, signature))
        self.assertFalse(openssl_accepts(public, digest_of(b"another"), signature))
        operation = self.a.api("GET", f"/api/v1/code-signing/operations/{signed['operation_id']}").json
        self.assertEqual((operation["state"], operation["signature"]), ("completed", signed["signature"]))
        self.assertEqual(operation["signature_encoding"], "ml-dsa-65")
        self.assert_marked(operation)
        for by in ({"key_id": self.key_id}, {"public_key_der": signed["public_key_der"]}):
            verdict = self.a.api("POST", "/api/v1/code-signing/verify",
                                 {"digest": b64(digest), "signature": signed["signature"], **by})
            self.assertEqual((verdict.status, verdict.json["signature_scheme"]), (200, "ml-dsa"), verdict)
            self.assert_marked(verdict.json)

    def test_every_digest_algorithm_signs(self):
        for name, size in (("sha256", 32), ("sha384", 48), ("sha512", 64)):
            session, digest = self.a.session("OPERATOR"), secrets.token_bytes(size)
            body = {"key_id": self.key_id, "artifact_type": "file", "digest": b64(digest), "digest_algorithm": name}
            preview = session.api("POST", "/api/v1/code-signing/preview", body).json
            signed = session.api("POST", "/api/v1/code-signing/sign",
                                 {**body, "preview_fingerprint": preview["request_fingerprint"]}, key=True).json
            self.assertTrue(openssl_accepts(unb64(signed["public_key_der"]), digest, unb64(signed["signature"])), name)

    def test_a_whole_batch_fits_every_limit_and_is_found_in_the_list(self):
        session = self.a.session("OPERATOR")
        digests = [digest_of(f"member {n}".encode()) for n in range(64)]
        body = {"key_id": self.key_id, "artifact_type": "file", "digests": [b64(d) for d in digests]}
        preview = session.api("POST", "/api/v1/code-signing/batch/preview", body)
        self.assertEqual(preview.status, 200, preview)
        self.assert_marked(preview.json)
        key = secrets.token_hex(16)
        body["preview_fingerprint"] = preview.json["request_fingerprint"]
        signed = session.api("POST", "/api/v1/code-signing/batch", body, key=key)
        self.assertEqual(signed.status, 200, signed)
        self.assert_marked(signed.json)
        public = unb64(signed.json["public_key_der"])
        for digest, one in list(zip(digests, signed.json["signatures"]))[::9]:
            self.assertTrue(openssl_accepts(public, digest, unb64(one["signature"])))
        again = session.api("POST", "/api/v1/code-signing/batch", body, key=key)
        self.assertEqual(again.body, signed.body)
        page = session.api("GET", f"/api/v1/code-signing/operations?limit=200&key_id={self.key_id}")
        self.assertEqual(page.status, 200, page)
        self.assertGreaterEqual(len(page.json["items"]), 64)
        for item in page.json["items"]:
            self.assert_marked(item)

    def test_the_record_of_a_signature_says_that_it_is_outside(self):
        signed = self.sign(self.key_id, digest_of(b"recorded"))
        found = [r for r in all_records(self.a) if signed["operation_id"] in json.dumps(r)]
        self.assertTrue(any('"approved_mode": false' in json.dumps(r) for r in found), found)

    def test_the_client_makes_signs_and_verifies_without_the_server(self):
        made = json.loads(self.a.cli("keys", "create", "--name", "pq-cli", "--algorithm", "ml-dsa-65", "--json").stdout)
        self.assert_marked(made)
        self.assertRegex(self.a.cli("keys", "get", made["key_id"]).stdout, "approved mode +no\n")
        with tempfile.TemporaryDirectory() as d:
            with open(f"{d}/artifact", "w") as f:
                f.write("artifact of the client")
            signed = json.loads(self.a.cli("code-signing", "sign", f"{d}/artifact", "--key", made["key_id"], "--yes",
                                           "--json").stdout)
            self.assert_marked(signed)
            with open(f"{d}/pub", "w") as f:
                f.write(self.a.cli("keys", "get", made["key_id"], "--public-key-pem").stdout)
            offline = {"SVC_BASE_URL": "https://127.0.0.1:1"}
            args = ("code-signing", "verify", f"{d}/artifact", "--signature", f"{d}/artifact.sig", "--public-key",
                    f"{d}/pub")
            verdict = json.loads(run(f"{BIN}/svc-cli", *args, "--json", env={**os.environ, **offline}).stdout)
            self.assertEqual((verdict["valid"], verdict["signature_scheme"], verdict["public_key"]),
                             (True, "ml-dsa", "ML-DSA-65"))
            self.assert_marked(verdict)
            self.assertIn("good signature", run(f"{BIN}/svc-cli", *args, "--scheme", "ml-dsa").stdout)
            wrong = run(f"{BIN}/svc-cli", *args, "--scheme", "ecdsa", check=False)
            self.assertNotEqual(wrong.returncode, 0)
            remote = self.a.cli("code-signing", "verify-remote", f"{d}/artifact", "--signature", f"{d}/artifact.sig",
                                "--key", made["key_id"])
            self.assertRegex(remote.stdout, "approved mode +no\n")
            with open(f"{d}/artifact", "a") as f:
                f.write("!")
            self.assertNotEqual(run(f"{BIN}/svc-cli", *args, check=False).returncode, 0)

    def test_the_pkcs11_module_shows_no_key_that_it_could_not_use(self):
        if not os.path.exists(MODULE):
            self.skipTest(f"{MODULE} is not built")
        token = f"{self.a.dir}/operator"
        with open(os.open(token, os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
            f.write(self.a.token("OPERATOR"))
        environment = {"PATH": os.environ["PATH"], "SVC_BASE_URL": f"https://127.0.0.1:{self.a.port}",
                       "SVC_CA_FILE": f"{self.a.dir}/data/ca.pem", "SVC_TOKEN_FILE": token}
        done = run("pkcs11-tool", "--module", MODULE, "-O", env=environment)
        self.assertIn("classic", done.stdout)
        self.assertNotIn("pq-release", done.stdout)

    def test_kill_9_of_the_signer_loses_no_key_and_repeats_no_signature(self):
        digest, idempotency_key = digest_of(b"through a crash"), secrets.token_hex(16)
        session = self.a.session("OPERATOR")
        body = sign_body(session, self.key_id, digest)
        first = session.api("POST", "/api/v1/code-signing/sign", body, key=idempotency_key)
        self.assertEqual(first.status, 200, first)
        pid = self.a.child("svc-signer")
        os.kill(pid, signal.SIGKILL)
        until("another signer runs", lambda: any(p != pid for p in self.a.pids("svc-signer")))
        until("the appliance is ready again", self.a.is_ready, 60)
        again = session.api("POST", "/api/v1/code-signing/sign", body, key=idempotency_key)
        self.assertEqual(again.body, first.body)
        later = self.sign(self.key_id, digest)
        self.assertNotEqual(later["signature"], first.json["signature"])  # hedged: another operation, other bytes
        self.assertTrue(openssl_accepts(unb64(later["public_key_der"]), digest, unb64(later["signature"])))

    def test_an_altered_file_is_refused_and_said_so(self):
        key_id = make_key(self.a, "ml-dsa-65")
        name = next(n for n in self.sealed_files() if key_id in n)
        path = f"{self.a.dir}/data/signer/sealed/{name}"
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        with open(path, "r+b") as f:
            f.seek(100)
            byte = f.read(1)
            f.seek(100)
            f.write(bytes([byte[0] ^ 1]))
        session = self.a.session("OPERATOR")
        answer = session.api("POST", "/api/v1/code-signing/sign", sign_body(session, key_id, digest_of(b"x")), key=True)
        self.assertEqual(answer.status, 500, answer)
        self.assertIn("sealed_key_refused", answer.body.decode())

    def test_a_destroyed_key_signs_no_more_and_its_file_is_gone(self):
        key_id = make_key(self.a, "ml-dsa-65")
        digest = digest_of(b"before the end")
        signed = self.sign(key_id, digest)
        self.assertTrue(any(key_id in name for name in self.sealed_files()))
        self.destroy(key_id)
        until("the file is gone", lambda: not any(key_id in name for name in self.sealed_files()), 60)
        answer = self.a.api("POST", "/api/v1/code-signing/preview",
                            {"key_id": key_id, "artifact_type": "file", "digest": b64(digest)})
        self.assertEqual((answer.status, answer.json["code"]), (409, "key_not_active"), answer)
        verdict = self.a.api("POST", "/api/v1/code-signing/verify",
                             {"key_id": key_id, "digest": b64(digest), "signature": signed["signature"]})
        self.assertEqual(verdict.status, 200, verdict)
        self.assert_marked(verdict.json)


class Where_it_is_not(Post_quantum):
    """One appliance in three lives: with the feature, with FIPS required, and with neither."""

    def refusals(self, key_id, signed, digest, status, code, word):
        self.assert_refused(self.a.api("POST", "/api/v1/keys", {"name": "refused", "algorithm": "ml-dsa-65",
                                                                "purpose": "codesign"}, key=True), status, code, word)
        body = {"key_id": key_id, "artifact_type": "file", "digest": b64(digest)}
        self.assert_refused(self.a.api("POST", "/api/v1/code-signing/preview", body), status, code, word)
        body["preview_fingerprint"] = "0" * 64
        self.assert_refused(self.a.api("POST", "/api/v1/code-signing/sign", body, key=True), status, code, word)
        for by in ({"key_id": key_id}, {"public_key_der": signed["public_key_der"]}):
            self.assert_refused(self.a.api("POST", "/api/v1/code-signing/verify",
                                           {"digest": b64(digest), "signature": signed["signature"], **by}),
                                status, code, word)
        listed = {k["key_id"]: k for k in self.a.api("GET", "/api/v1/keys?purpose=codesign").json["items"]}
        self.assertNotIn("refused", [k["name"] for k in listed.values()])
        self.assert_marked(listed[key_id])
        self.assert_marked(self.a.api("GET", f"/api/v1/code-signing/operations/{signed['operation_id']}").json)
        return listed

    def live(self, **settings):
        self.a.settings.update({k.replace("__", "."): v for k, v in settings.items()})
        self.a.start()

    def test_fips_and_a_missing_feature_refuse_each_step(self):
        self.a = Appliance("pqc-off", fips__required=False, features__pqc=True)
        self.addCleanup(self.a.clean)
        self.a.start()
        key_id, classic = make_key(self.a, "ml-dsa-65", "pq"), make_key(self.a, "ec-p256", "classic")
        digest = digest_of(b"of the first life")
        signed = self.sign(key_id, digest)
        before = self.sign(classic, digest)
        self.assertEqual(self.a.stop(), 0)

        self.live(fips__required=True)
        listed = self.refusals(key_id, signed, digest, 400, "algorithm_not_approved", "approved mode")
        self.assertIs(listed[classic]["approved_mode"], True)
        now = self.sign(classic, digest)
        self.assertIs(now["approved_mode"], True)
        # What was recorded without the claim does not gain it later.
        operation = self.a.api("GET", f"/api/v1/code-signing/operations/{before['operation_id']}").json
        self.assertIs(operation["approved_mode"], False)
        self.assertTrue(openssl_accepts(unb64(signed["public_key_der"]), digest, unb64(signed["signature"])))
        self.assertEqual(self.a.stop(), 0)

        self.live(fips__required=False, features__pqc=False)
        self.refusals(key_id, signed, digest, 501, "pqc_disabled", "features.pqc")
        operation = self.a.api("GET", f"/api/v1/code-signing/operations/{now['operation_id']}").json
        self.assertIs(operation["approved_mode"], True)
        self.destroy(key_id)  # whoever gives post-quantum keys up can be rid of them
        until("the file is gone", lambda: not self.sealed_files(), 60)


if __name__ == "__main__":
    unittest.main()
