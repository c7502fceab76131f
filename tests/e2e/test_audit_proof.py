"""One record shown alone: signed heads and Merkle proofs, fetched from an appliance and judged without it."""
import base64
import hashlib
import json
import os
import secrets
import unittest

from appliance import Appliance, all_records, digest_of, make_key, own_appliance, run
from signing import batch_body, sign

INCLUSION, CONSISTENCY = "/api/v1/audit/proofs/inclusion", "/api/v1/audit/proofs/consistency"


def root_of(leaves):
    """RFC 6962 2.1, as it is written there."""
    if len(leaves) < 2:
        return leaves[0] if leaves else hashlib.sha256(b"").digest()
    k = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(b"\x01" + root_of(leaves[:k]) + root_of(leaves[k:])).digest()


def payload_of(jws):
    part = jws.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


class Proofs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("audit-proof").start()
        cls.addClassCleanup(cls.a.clean)
        cls.dir = f"{cls.a.dir}/work"
        os.mkdir(cls.dir)
        cls.root = f"{cls.a.dir}/data/tsa-root.pem"
        cls.key = make_key(cls.a)
        cls.sign_some(140)  # two events each: past the first tile of 256
        cls.jwks = cls.fetched("keys.jwks", "verification-keys")

    @classmethod
    def sign_some(cls, count):
        session = cls.a.session("OPERATOR")
        while count > 0:
            body = batch_body(cls.key, [digest_of(secrets.token_bytes(8)) for _ in range(min(count, 50))])
            answer = sign(session, "batch", body)
            assert answer.status in (200, 201), answer
            count -= 50

    @classmethod
    def fetched(cls, name, *words):
        cls.a.cli("audit", *words, "-o", f"{cls.dir}/{name}", token="AUDITOR")
        return f"{cls.dir}/{name}"

    def put(self, name, content):
        with open(f"{self.dir}/{name}", "wb") as f:
            f.write(content)
        return f"{self.dir}/{name}"

    def read(self, path):
        with open(path, "rb") as f:
            return f.read()

    def offline(self, file, *args, pins=True):
        """No network, no environment: nothing but files."""
        given = ["--audit-jwks", self.jwks, "--tsa-root", self.root] if pins else []
        done = run("unshare", "--net", f"{self.a.bin}/svc-cli", "audit", "verify-proof", file, *given, *args, "--json",
                   check=False, env={"PATH": os.environ["PATH"]})
        return done.returncode, json.loads(done.stdout) if done.stdout.startswith("{") else done.stderr

    def refused(self, query, status, code, token="AUDITOR"):
        answer = self.a.api("GET", query, token=token)
        self.assertEqual((answer.status, answer.json["code"]), (status, code), answer)

    def test_questions_that_have_no_answer(self):
        for query in ("", "?sequence=0", "?sequence=x", "?sequence=-1", "?sequence=1&tree_size=0", "?sequence=5&tree_size=4",
                      "?sequence=99999999", "?sequence=1&tree_size=99999999", "?sequence=9999999999999999999"):
            self.refused(INCLUSION + query, 400, "query_parameter")
        for query in ("", "?second=5", "?first=6&second=5", "?first=0&second=99999999", "?first=-1", "?first=1&second="):
            self.refused(CONSISTENCY + query, 400, "query_parameter")
        for path in ("/api/v1/audit/head", INCLUSION + "?sequence=1", CONSISTENCY + "?first=1"):
            self.assertEqual(self.a.api("GET", path, token=None).status, 401)
            self.assertEqual(self.a.api("GET", path, token="CI").status, 403)

    def test_one_record_is_shown_without_the_rest(self):
        wanted = next(r for r in all_records(self.a) if r["type"] == "key.generated" and r["data"]["key_id"] == self.key)
        file = self.fetched("record.proof", "prove", str(wanted["sequence"]))
        code, verdict = self.offline(file, "--max-anchor-delay", "10m")
        self.assertEqual((code, verdict["valid"], verdict["anchor_good"]), (0, True, True), verdict)
        self.assertEqual(verdict["record"], wanted)
        proof = self.read(file)
        changes = {
            "another actor": proof.replace(wanted["actor"]["subject"].encode(), b"mallory"),
            "another form": json.dumps(json.loads(proof), indent=1).encode(),
            "a node less": proof.replace(json.loads(proof)["proof"][0].encode(), b"0" * 64),
            "cut": proof[:-10],
        }
        for name, content in changes.items():
            self.assertNotEqual(content, proof, name)
            code, verdict = self.offline(self.put("changed", content))
            self.assertEqual(code, 2, (name, verdict))
        code, verdict = self.offline(file, "--audit-jwks", self.jwks, pins=False)  # the stamp cannot be judged
        self.assertEqual((code, verdict["valid"]), (2, False), verdict)
        other = f"{self.dir}/other"
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=o",
            "-keyout", other + ".key", "-out", other + ".pem")
        code, verdict = self.offline(file, "--audit-jwks", self.jwks, "--tsa-root", other + ".pem", pins=False)
        self.assertEqual((code, verdict["anchor_good"]), (2, False), verdict)

    @own_appliance("others record while it reads the whole trail")
    def test_the_head_is_the_root_of_all_records(self):
        head = payload_of(self.a.api("GET", "/api/v1/audit/head", token="AUDITOR").body.decode())
        size = head["tree_size"]
        self.assertGreater(size, 256)
        self.assertEqual((head["sequence"], head["tenant_id"], head["generation"]), (size, "default", 1))
        records = all_records(self.a)[:size]
        canonical = [json.dumps(r, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() for r in records]
        leaves = [hashlib.sha256(b"\x00" + c).digest() for c in canonical]
        self.assertEqual(head["tree_root"], root_of(leaves).hex())
        old = self.a.api("GET", f"{INCLUSION}?sequence=3&tree_size=100", token="AUDITOR").json
        self.assertEqual(payload_of(old["head"])["tree_root"], root_of(leaves[:100]).hex())

    def test_a_kept_head_is_the_beginning_of_every_later_one(self):
        kept = self.fetched("kept.jws", "head")
        size = payload_of(self.read(kept).decode())["tree_size"]
        self.assertEqual(self.offline(kept)[0], 0)
        self.sign_some(50)
        file = self.fetched("since.proof", "prove-consistency", str(size))
        code, verdict = self.offline(file, "--head", kept)
        self.assertEqual((code, verdict["first"], verdict["kept_head_size"]), (0, size, size), verdict)
        self.assertGreater(verdict["tree_size"], size + 50)
        code, verdict = self.offline(self.fetched("shorter.proof", "prove-consistency", str(size - 1)), "--head", kept)
        self.assertEqual((code, verdict["kept_head_good"]), (2, False), verdict)
        self.assertIn("prove", self.a.cli("audit", "verify-proof", kept, "--audit-jwks", self.jwks, "--tsa-root",
                                          self.root).stdout)
        self.a.stop()
        self.a.start()
        again = self.a.api("GET", f"{INCLUSION}?sequence=1&tree_size={size}", token="AUDITOR").json
        code, verdict = self.offline(self.put("again", json.dumps(again, sort_keys=True, separators=(",", ":"),
                                                                  ensure_ascii=False).encode()), "--head", kept)
        self.assertEqual((code, verdict["kept_head_good"]), (0, True), verdict)

    def test_whoever_was_given_a_proof_is_on_record(self):
        self.a.api("GET", f"{INCLUSION}?sequence=2", token="AUDITOR")
        self.a.api("GET", "/api/v1/audit/head", token="AUDITOR")
        read = [r["data"] for r in all_records(self.a) if r["type"] == "audit.export.read"]
        self.assertLessEqual({"inclusion-proof", "head"}, {r["artifact"] for r in read}, read)


if __name__ == "__main__":
    unittest.main()
