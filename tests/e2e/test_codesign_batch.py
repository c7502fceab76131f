"""Several digests under one preview and one Idempotency-Key: all or nothing, each its own event."""
import hashlib
import secrets
import unittest

import signing
from appliance import Appliance, all_records, b64, digest_of, make_key, openssl_verifies, own_appliance


class Batch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("batch").start()
        cls.addClassCleanup(cls.a.clean)
        cls.key_id = make_key(cls.a)

    def setUp(self):
        self.session = self.a.session("OPERATOR")
        self.addCleanup(self.session.close)

    def sign(self, body, key=None):
        answer = signing.sign(self.session, "batch", body, key)
        self.assertEqual(answer.status, 200, answer)
        return answer

    @own_appliance("reads the signer's journal")
    def test_each_digest_is_its_own_signature_and_event(self):
        datas = [secrets.token_bytes(20) for _ in range(64)]
        answer = self.sign(signing.batch_body(self.key_id, [digest_of(d) for d in datas]))
        operations, signatures = signing.operations_of(answer), signing.signatures_of(answer)
        self.assertEqual((len(set(operations)), len(set(signatures))), (64, 64))
        self.assertEqual([s["digest"] for s in answer.json["signatures"]], [b64(digest_of(d)) for d in datas])
        public = signing.base64.b64decode(answer.json["public_key_der"])
        for data, signature in zip(datas, signatures):
            self.assertTrue(openssl_verifies(public, signature, data))
        made = {}
        for record in all_records(self.a):
            if record["data"].get("operation_id") in operations:
                made.setdefault(record["data"]["operation_id"], []).append(record["type"])
        self.assertEqual(set(made), set(operations))
        for types in made.values():
            self.assertEqual(sorted(types), ["codesign.commanded", "codesign.completed", "codesign.signed"])
        for operation in operations:
            self.assertEqual(signing.journal_entries(self.a, operation), 1)
            self.assertEqual(signing.operation(self.a, operation)["command_id"], answer.json["operation_id"])

    def test_a_repetition_is_the_same_bytes(self):
        body = signing.previewed(self.session, "batch", signing.batch_body(self.key_id, [digest_of(b"1"), digest_of(b"2")]))
        key = secrets.token_hex(16)
        answers = [signing.execute(self.session, "batch", body, key) for _ in range(3)]
        self.assertEqual({(a.status, a.body) for a in answers}, {(200, answers[0].body)})
        self.assertEqual(answers[1].headers.get("Idempotent-Replayed"), "true")

    def test_other_hashes(self):
        for name in ("sha384", "sha512"):
            digests = [hashlib.new(name, b"%d" % n).digest() for n in range(2)]
            answer = self.sign(signing.batch_body(self.key_id, digests, digest_algorithm=name))
            self.assertEqual(answer.json["digest_algorithm"], name)

    def test_one_bad_digest_refuses_all(self):
        good = digest_of(b"good")
        before = len(all_records(self.a))
        for digests, code in (([good, good[:31]], "digest_length"), ([good, good + b"x"], "digest_length"),
                              ([good, b""], "digest_length"), ([], "json_field"),
                              ([good] + [digest_of(b"%d" % n) for n in range(64)], "json_field")):
            answer = signing.preview(self.session, "batch", signing.batch_body(self.key_id, digests))
            with self.subTest([len(d) for d in digests][:3]):
                self.assertEqual((answer.status, answer.json["code"]), (400, code), answer)
        body = signing.batch_body(self.key_id, [good])
        answer = signing.preview(self.session, "batch", {**body, "digests": [b64(good), "not base64!"]})
        self.assertEqual((answer.status, answer.json["code"]), (400, "json_field"), answer)
        self.assertEqual(len(all_records(self.a)), before)

    def test_a_changed_batch_is_refused(self):
        digests = [digest_of(b"%d" % n) for n in range(3)]
        body = signing.previewed(self.session, "batch", signing.batch_body(self.key_id, digests))
        for changed in (digests[:2], digests[::-1], digests + [digest_of(b"more")], [digests[0], digests[1], digest_of(b"x")]):
            answer = signing.execute(self.session, "batch", {**body, "digests": [b64(d) for d in changed]})
            self.assertEqual((answer.status, answer.json["code"]), (409, "preview_changed"), answer)
        single = signing.key_body(self.key_id, digests[0], preview_fingerprint=body["preview_fingerprint"])
        answer = signing.execute(self.session, "key", single)
        self.assertEqual((answer.status, answer.json["code"]), (409, "preview_changed"), answer)

    def test_a_key_used_for_another_batch_is_refused(self):
        key = secrets.token_hex(16)
        self.sign(signing.batch_body(self.key_id, [digest_of(b"a"), digest_of(b"b")]), key)
        other = signing.previewed(self.session, "batch", signing.batch_body(self.key_id, [digest_of(b"a"), digest_of(b"c")]))
        answer = signing.execute(self.session, "batch", other, key)
        self.assertEqual((answer.status, answer.json["code"]), (409, "idempotency_key_reused"), answer)


if __name__ == "__main__":
    unittest.main()
