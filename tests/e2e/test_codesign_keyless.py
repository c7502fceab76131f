"""Keyless signing for a verified CI identity: what is believed, what is refused, and what is left behind."""
import base64
import glob
import json
import os
import secrets
import tempfile
import time
import unittest

import signing
from appliance import Appliance, all_records, b64, digest_of, openssl_verifies, run, until
from oidc import Issuer

FULCIO = "1.3.6.1.4.1.57264.1."
RULES = """rules:
  - name: acme-releases
    when:
      mode: keyless
      issuer: ["https://127.0.0.1:*"]
      san: ["https://github.com/acme/tool/*"]
      artifact_type: [file]
    then: allow
  - name: gated
    when: {mode: keyless, artifact_type: [gated]}
    then: require_approval
    approvers: 1
"""


class Keyless(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.issuer = Issuer().start()
        cls.addClassCleanup(cls.issuer.stop)
        cls.a = Appliance("keyless")
        cls.addClassCleanup(cls.a.clean)
        cls.issuer.add_key("pinned-only", "ES256", show=False)
        jwks = f"{cls.a.dir}/pinned.jwks"
        with open(jwks, "w") as f:
            json.dump({"keys": [cls.issuer.public("pinned-only")]}, f)
        signing.write_policy(cls.a, RULES)
        signing.write_attestors(
            cls.a, cls.issuer.attestor(required_claims='{repository_owner: acme, ref_protected: "true"}'),
            {"method": "gitlab-ci", "tenant": "default", "kind": "gitlab-ci", "issuer": cls.issuer.url, "audience": "[svc]",
             "jwks_file": jwks},
            {"method": "builder", "tenant": "default", "kind": "generic", "issuer": cls.issuer.url, "audience": "[svc]",
             "jwks_file": jwks, "san": '"https://github.com/acme/tool/{sub}"'},
            {"method": "rival-ci", "tenant": "rival", "kind": "github-actions", "issuer": cls.issuer.url,
             "audience": "[svc]", "jwks_file": jwks})
        cls.a.start()
        cls.proofs = []

    def setUp(self):
        self.session = self.a.session("OPERATOR")
        self.addCleanup(self.session.close)
        self.data = secrets.token_bytes(50)

    def proof(self, claims=None, **more):
        made = self.issuer.token(claims, **more)
        self.proofs.append(made)
        return made

    def ask(self, proof, method="github-actions", **more):
        """Previews and executes; the answer of whichever refused, or of the execution."""
        self.proofs.append(proof)
        body = signing.keyless_body(proof, digest_of(self.data), method, **more)
        answer = signing.preview(self.session, "keyless", body)
        if answer.status != 200:
            return answer
        self.assertNotIn(proof, answer.body.decode())
        return signing.execute(self.session, "keyless", {**body, "preview_fingerprint": answer.json["request_fingerprint"]})

    def refused(self, proof, status, code, method="github-actions", **more):
        before = {r["data"]["operation_id"] for r in all_records(self.a) if r["type"] == "codesign.keyless.signed"}
        answer = self.ask(proof, method, **more)
        self.assertEqual((answer.status, answer.json["code"]), (status, code), answer)
        after = {r["data"]["operation_id"] for r in all_records(self.a) if r["type"] == "codesign.keyless.signed"}
        self.assertEqual(after, before, "something was signed")
        return answer

    # ---- refusals ----

    def test_times(self):
        now = int(time.time())
        self.refused(self.proof(self.issuer.claims(iat=now - 4000, nbf=now - 4000, exp=now - 3400)), 403,
                     "identity_proof_expired")
        self.refused(self.proof(self.issuer.claims(iat=now - 1, nbf=now + 3000, exp=now + 3300)), 403,
                     "identity_proof_not_yet_valid")
        self.refused(self.proof(self.issuer.claims(iat=now + 3000, nbf=now + 3000, exp=now + 3300)), 403,
                     "identity_proof_not_yet_valid")

    def test_algorithms(self):
        self.refused(self.issuer.token_without_signature(), 403, "identity_proof_algorithm")
        for form in ("-o", "-P"):  # the public key as PEM and as JSON, taken for an HMAC secret
            path = self.issuer.keys["key-1"][0]
            secret = (run("jose", "jwk", "pub", "-i", path, "-o", "-").stdout if form == "-o" else
                      run("jose", "fmt", "-j", path, "-g", "n", "-u-").stdout).encode()
            self.refused(self.issuer.token_hs256_with_the_public_key(secret), 403, "identity_proof_algorithm")

    def test_signatures(self):
        good = self.proof()
        head, claims, signature = good.split(".")
        other = self.proof(self.issuer.claims(repository="acme/other")).split(".")
        self.refused(".".join((head, other[1], signature)), 403, "identity_proof_signature")
        self.refused(".".join((head, claims, other[2])), 403, "identity_proof_signature")
        self.issuer.add_key("stranger", show=False)
        self.refused(self.proof(kid="stranger"), 403, "identity_proof_signature")
        self.refused(self.proof(kid="stranger", header={"kid": "key-1"}), 403, "identity_proof_signature")
        self.refused(self.proof(kid="pinned-only"), 403, "identity_proof_signature")

    def test_claims(self):
        for claims in (self.issuer.claims(aud="sigstore"), self.issuer.claims(aud=["a", "b"]), self.issuer.claims(aud=None),
                       self.issuer.claims(iss="https://token.example.com"), self.issuer.claims(iss=None),
                       self.issuer.claims(repository_owner="evil"), self.issuer.claims(repository_owner=None),
                       self.issuer.claims(ref_protected="false"), self.issuer.claims(job_workflow_ref=None),
                       self.issuer.claims(exp=None), self.issuer.claims(sub=None)):
            answer = self.ask(self.proof(claims))
            with self.subTest(claims):
                self.assertEqual(answer.status, 403, answer)
                self.assertIn(answer.json["code"], ("identity_proof_claim", "identity_proof_expired"), answer)

    def test_forms(self):
        good = self.proof()
        for proof in ("x", "a.b", "a.b.c", good + ".x", good.replace(".", ",", 1), "e30.e30.e30", "." * 3, good[:-1] + "=",
                      "é" * 30):
            answer = self.ask(proof)
            with self.subTest(proof[:30]):
                self.assertEqual(answer.status, 400 if answer.json["code"] != "identity_proof_algorithm" else 403, answer)
                self.assertIn(answer.json["code"], ("identity_proof_malformed", "identity_proof_algorithm"), answer)
        answer = self.ask(good + "A" * (17 << 10))
        self.assertIn((answer.status, answer.json["code"]), ((400, "json_field"), (413, "too_large"),
                                                             (400, "identity_proof_malformed")), answer)
        self.refused(good, 400, "identity_method_unknown", method="nobody")
        self.refused(good, 400, "identity_method_unknown", method="rival-ci")

    def test_a_contradiction_is_recorded_as_refused(self):
        for more in ({"expected_san": "https://github.com/acme/other/.github/workflows/x.yml@refs/heads/main"},
                     {"expected_issuer": "https://accounts.example.com"}):
            self.refused(self.proof(), 403, "keyless_contradiction", **more)
            last = [r for r in all_records(self.a) if r["type"] == "codesign.keyless.refused"][-1]
            self.assertEqual(last["data"]["code"] if "code" in last["data"] else last["data"]["failure_code"],
                             "keyless_contradiction")

    def test_policy_looks_at_the_verified_identity(self):
        stranger = self.issuer.claims(job_workflow_ref="acme/secret/.github/workflows/x.yml@refs/heads/main",
                                      repository="acme/secret")
        self.refused(self.proof(stranger), 403, "policy_denied")

    def test_an_approval_binds_the_identity(self):
        proof = self.proof()
        body = {**signing.keyless_body(proof, digest_of(self.data)), "artifact_type": "gated"}
        body = signing.previewed(self.session, "keyless", body)
        answer = signing.execute(self.session, "keyless", body)
        self.assertEqual((answer.status, answer.json["code"]), (403, "approval_required"), answer)
        done = self.a.api("POST", f"/api/v1/identities/{answer.json['resource']}/approvals", {"action": "sign"},
                          token="APPROVER", key=True)
        self.assertIn(done.status, (200, 201), done)
        # A new run of the same workflow has another token; it is the same identity.
        fresh = {**signing.keyless_body(self.proof(), digest_of(self.data)), "artifact_type": "gated"}
        answer = signing.sign(self.session, "keyless", fresh)
        self.assertEqual(answer.status, 200, answer)
        other = self.issuer.claims(job_workflow_ref="acme/tool/.github/workflows/other.yml@refs/heads/main")
        answer = signing.sign(self.session, "keyless", {**signing.keyless_body(self.proof(other), digest_of(self.data)),
                                                        "artifact_type": "gated"})
        self.assertEqual((answer.status, answer.json["code"]), (403, "approval_required"), answer)

    # ---- what is believed ----

    def check(self, answer, claims):
        self.assertEqual(answer.status, 200, answer)
        self.assertEqual(answer.json["fulcio_issuer"], self.issuer.url)
        public = base64.b64decode(answer.json["public_key_der"])
        self.assertTrue(openssl_verifies(public, signing.signatures_of(answer)[0], self.data))
        with tempfile.TemporaryDirectory() as d:
            names = []
            for number, der in enumerate(answer.json["certificate_chain"]):
                names.append(f"{d}/{number}.pem")
                run("openssl", "x509", "-inform", "DER", "-in", "/dev/stdin", "-out", names[-1], input=base64.b64decode(der),
                    text=False)
            root = names[-1]
            run("openssl", "verify", "-purpose", "any", "-check_ss_sig", "-x509_strict", "-CAfile", root, names[0])
            text = run("openssl", "x509", "-in", names[0], "-noout", "-text").stdout
            spki = run("openssl", "x509", "-in", names[0], "-noout", "-pubkey").stdout
            given = run("openssl", "pkey", "-pubin", "-inform", "DER", "-pubout", input=public, text=False).stdout.decode()
            self.assertEqual(spki, given)
            self.assertIn("CA:TRUE", run("openssl", "x509", "-in", root, "-noout", "-text").stdout)
        self.assertIn(f"URI:{answer.json['fulcio_san']}", text)
        self.assertIn("Code Signing", text)
        for arc in (1, 8):
            self.assertIn(FULCIO + str(arc), text)
        for value in claims:
            self.assertIn(value, text)
        operation = answer.json["operation_id"]
        until("the ephemeral key is destroyed",
              lambda: signing.records_of(self.a, operation, "codesign.ephemeral.destroyed"), 60)
        self.assertEqual(len(signing.records_of(self.a, operation, "codesign.keyless.signed")), 1)
        self.assertNotIn(operation, self.token_objects())
        return text

    def token_objects(self):
        pin_file = f"{self.a.dir}/data/signer/pin"
        with open(pin_file) as f:
            pin = f.read().strip()
        return run("pkcs11-tool", "--module", "/usr/lib/softhsm/libsofthsm2.so", "--token-label", "svc", "--login", "--pin", pin,
                   "--list-objects", env={**os.environ, "SOFTHSM2_CONF": f"{self.a.dir}/data/softhsm/softhsm2.conf"}).stdout

    def test_github_actions(self):
        claims = self.issuer.claims()
        answer = self.ask(self.proof(claims))
        self.check(answer, (claims["repository"], claims["sha"], claims["ref"], claims["event_name"]))
        self.assertEqual(answer.json["fulcio_san"], "https://github.com/" + claims["job_workflow_ref"])

    def test_gitlab_ci_with_pinned_keys(self):
        claims = self.issuer.gitlab_claims()
        fetched = self.issuer.fetched
        answer = self.ask(self.proof(claims, kid="pinned-only"), "gitlab-ci")
        self.assertEqual((answer.status, answer.json["code"]), (403, "policy_denied"), answer)
        explained = self.a.api("POST", signing.BASE + "/policy/explain", {
            "artifact_type": "file", "issuer": self.issuer.url, "san": "https://" + claims["ci_config_ref_uri"]})
        self.assertEqual(explained.json["outcome"], "deny", explained)
        self.assertEqual(self.issuer.fetched, fetched)

    def test_a_generic_issuer_with_a_template(self):
        answer = self.ask(self.proof({**self.issuer.claims(), "sub": "nightly"}, kid="pinned-only"), "builder",
                          expected_san="https://github.com/acme/tool/nightly", expected_issuer=self.issuer.url)
        self.check(answer, ())
        self.assertEqual(answer.json["fulcio_san"], "https://github.com/acme/tool/nightly")

    def test_a_repetition_is_the_same_bytes(self):
        body = signing.previewed(self.session, "keyless", signing.keyless_body(self.proof(), digest_of(self.data)))
        key = secrets.token_hex(16)
        first = signing.execute(self.session, "keyless", body, key)
        self.assertEqual(first.status, 200, first)
        again = signing.execute(self.session, "keyless", body, key)
        self.assertEqual((again.status, again.body), (200, first.body))
        fresh = {**body, "identity_payload": b64(self.proof().encode())}
        answer = signing.execute(self.session, "keyless", fresh)
        self.assertEqual((answer.status, answer.json["code"]), (409, "preview_changed"), answer)

    def test_two_signings_have_two_keys(self):
        first, second = self.ask(self.proof()), self.ask(self.proof())
        self.assertNotEqual(first.json["public_key_der"], second.json["public_key_der"])

    def test_a_new_key_of_the_issuer_is_fetched(self):
        self.issuer.add_key("rotated", "ES256")
        # An unknown key is asked for at most once in a while: what came before us may have used that up.
        until("the new key is known", lambda: self.ask(self.proof(kid="rotated")).status == 200, 120)

    def test_zz_the_proof_is_nowhere_in_the_clear(self):
        """Last by name: looks for every proof of this class in everything that is kept."""
        answer = self.ask(self.proof())
        self.check(answer, ())
        self.assertGreater(len(self.proofs), 3)
        needles = {part.encode() for proof in self.proofs for part in proof.split(".") if len(part) > 60}
        needles |= {base64.b64encode(proof.encode())[:80] for proof in self.proofs if len(proof) > 200}
        dump = run("setpriv", "--reuid=svc-pg", "--regid=svc-pg", "--clear-groups", "pg_dump", "-h",
                   f"{self.a.dir}/run/postgres", "-U", "postgres", "svc", text=False).stdout
        self.assertIn(answer.json["operation_id"].encode(), dump, "the dump is the right one")
        kept = {"the database": dump}
        for folder in ("nats", "signer", "api", "postgres", "softhsm"):
            for path in glob.glob(f"{self.a.dir}/data/{folder}/**", recursive=True):
                if os.path.isfile(path):
                    with open(path, "rb") as f:
                        kept[path] = f.read()
        with open(self.a.log_path, "rb") as f:
            kept["the log"] = f.read()
        self.assertTrue(any(b"codesign.commanded" in content for path, content in kept.items() if "/nats/" in path))
        for place, content in kept.items():
            for needle in needles:
                self.assertNotIn(needle, content, place)


class Disabled(unittest.TestCase):
    def test_without_keyless_its_routes_answer_501(self):
        a = Appliance("no-keyless")
        try:
            a.start()
            body = signing.keyless_body("a.b.c", digest_of(b""))
            answer = a.api("POST", signing.BASE + "/keyless/preview", body)
            self.assertEqual((answer.status, answer.json["code"]), (501, "keyless_disabled"), answer)
            answer = a.api("POST", signing.BASE + "/keyless", {**body, "preview_fingerprint": "0" * 64}, key=True)
            self.assertEqual((answer.status, answer.json["code"]), (501, "keyless_disabled"), answer)
        finally:
            a.clean()

    def test_an_incomplete_configuration_does_not_start(self):
        for settings in ({"code_signing__keyless__enabled": True},
                         {"code_signing__keyless__enabled": True, "code_signing__keyless__attestors_file": "/nonexistent"},
                         {"code_signing__transparency__logs_file": "/nonexistent"}):
            a = Appliance("incomplete", **settings)
            try:
                a.spawn()
                self.assertNotEqual(a.process.wait(120), 0, a.tail())
            finally:
                a.clean()


if __name__ == "__main__":
    unittest.main()
