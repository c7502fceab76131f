"""Publication in a real Rekor v1 log: the entry, its evidence, repetition, outages, and what the log cannot take."""
import base64
import json
import secrets
import unittest
import urllib.request

import signing
from appliance import Appliance, digest_of, make_key, run, until
from peers import Rekor


class Transparency(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rekor = Rekor().start()
        cls.addClassCleanup(cls.rekor.stop)
        cls.a = Appliance("tlog")
        cls.addClassCleanup(cls.a.clean)
        signing.write_logs(cls.a, cls.rekor)
        cls.a.start()
        cls.keys = {alg: make_key(cls.a, alg) for alg in ("ec-p256", "ec-p384", "rsa-3072")}

    def setUp(self):
        self.session = self.a.session("OPERATOR")
        self.addCleanup(self.session.close)
        self.data = secrets.token_bytes(33)

    def sign(self, algorithm="ec-p256", **more):
        answer = signing.sign(self.session, "key", signing.key_body(self.keys[algorithm], digest_of(self.data), **more))
        self.assertEqual(answer.status, 200, answer)
        return answer.json

    def test_every_kind_of_key_that_the_log_takes(self):
        for algorithm, scheme in (("ec-p256", None), ("ec-p384", None), ("rsa-3072", "rsa-pkcs1v15")):
            self.data = secrets.token_bytes(33)
            more = {"signature_scheme": scheme} if scheme else {}
            with self.subTest(algorithm):
                receipt = self.sign(algorithm, **more)
                self.assertIn(self.rekor.url, receipt["transparency_destination"])
                self.check(signing.published(self.a, receipt["operation_id"]), receipt)

    def check(self, found, receipt):
        """The evidence against the log itself, with Rekor's own client."""
        ids = self.rekor.entries(digest_of(self.data))
        self.assertEqual(len(ids), 1)
        entry = next(iter(json.loads(self.rekor.get(f"/api/v1/log/entries/{ids[0]}")).values()))
        self.assertEqual(found["transparency"]["log_index"], entry["logIndex"])
        body = json.loads(base64.b64decode(entry["body"]))
        self.assertEqual(body["spec"]["data"]["hash"]["value"], digest_of(self.data).hex())
        self.assertEqual(body["spec"]["signature"]["content"], receipt["signature"])
        self.assertIn(entry["body"], json.dumps(found["transparency"]["entry"]))
        verified = run("rekor-cli", "verify", "--rekor_server", self.rekor.url, "--uuid", ids[0], "--store_tree_state=false",
                       env={"HOME": self.rekor.dir, "PATH": "/usr/bin:/bin"}, check=False)
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)
        self.assertEqual(len(signing.records_of(self.a, receipt["operation_id"], "transparency.published")), 1)

    def test_what_the_log_does_not_take_is_told_at_preview(self):
        body = signing.key_body(self.keys["rsa-3072"], digest_of(self.data), signature_scheme="rsa-pss")
        answer = signing.preview(self.session, "key", body)
        self.assertEqual((answer.status, answer.json["code"]), (400, "transparency_unsupported"), answer)

    def test_an_entry_that_is_there_already_is_taken_as_ours(self):
        """Somebody else published our signature first: the log answers 409, and its entry is the evidence."""
        self.rekor.pause()
        try:
            receipt = self.sign()
            self.assertEqual(signing.operation(self.a, receipt["operation_id"])["transparency"]["state"], "pending")
        finally:
            self.rekor.go_on()
        pem = run("openssl", "pkey", "-pubin", "-inform", "DER", "-pubout", input=base64.b64decode(receipt["public_key_der"]),
                  text=False).stdout
        entry = {"apiVersion": "0.0.1", "kind": "hashedrekord",
                 "spec": {"data": {"hash": {"algorithm": "sha256", "value": digest_of(self.data).hex()}},
                          "signature": {"content": receipt["signature"],
                                        "publicKey": {"content": base64.b64encode(pem).decode()}}}}
        request = urllib.request.Request(f"{self.rekor.url}/api/v1/log/entries", json.dumps(entry).encode(),
                                         {"Content-Type": "application/json"})
        try:
            urllib.request.urlopen(request, timeout=60).read()
        except urllib.error.HTTPError as e:
            self.assertEqual(e.code, 409)  # the appliance was faster; then it is the other way round
        self.check(signing.published(self.a, receipt["operation_id"]), receipt)

    def test_signing_does_not_wait_for_the_log(self):
        self.rekor.pause()
        try:
            receipts = []
            for _ in range(5):
                self.data = secrets.token_bytes(33)
                receipts.append((self.data, self.sign()))
            for _, receipt in receipts:
                found = signing.operation(self.a, receipt["operation_id"])
                self.assertEqual((found["state"], found["transparency"]["state"]), ("completed", "pending"))
        finally:
            self.rekor.go_on()
        for data, receipt in receipts:
            self.data = data
            self.check(signing.published(self.a, receipt["operation_id"]), receipt)

    def test_many_at_once_are_each_published_once(self):
        size = self.rekor.size()
        digests = [digest_of(secrets.token_bytes(20)) for _ in range(64)]
        answer = signing.sign(self.session, "batch", signing.batch_body(self.keys["ec-p256"], digests))
        self.assertEqual(answer.status, 200, answer)
        for operation in signing.operations_of(answer):
            signing.published(self.a, operation)
        self.assertEqual(self.rekor.size(), size + 64)

    def test_a_restart_in_between_loses_nothing(self):
        self.rekor.pause()
        try:
            receipt = self.sign()
            self.a.stop()
        finally:
            self.rekor.go_on()
        self.a.start()
        self.check(signing.published(self.a, receipt["operation_id"]), receipt)


class AnotherLog(unittest.TestCase):
    def test_an_entry_under_another_key_is_not_believed(self):
        """The log answers with a key that is not the pinned one: nothing is recorded as published."""
        first, second = Rekor().start(), Rekor().start()
        a = Appliance("tlog-liar")
        try:
            second.public_key = first.public_key  # pinned: the key of the one, url of the other
            signing.write_logs(a, second)
            a.start()
            session = a.session("OPERATOR")
            digest = digest_of(b"unbelieved")
            answer = signing.sign(session, "key", signing.key_body(make_key(a), digest))
            self.assertEqual(answer.status, 200, answer)
            operation = answer.json["operation_id"]
            until("it was submitted", lambda: second.entries(digest), 120)
            until("the answer was looked at", lambda: "transparency_unverified" in a.tail(2000) or
                  signing.operation(a, operation)["transparency"]["state"] == "failed", 120)
            self.assertNotEqual(signing.operation(a, operation)["transparency"]["state"], "published")
            self.assertEqual(signing.records_of(a, operation, "transparency.published"), [])
            self.assertEqual(signing.operation(a, operation)["state"], "completed")
        finally:
            a.clean()
            first.stop()
            second.stop()


if __name__ == "__main__":
    unittest.main()
