"""kill -9 at each step of a signing, at named places: one signature, nothing acknowledged is lost, one log entry."""
import os
import secrets
import signal
import unittest

import signing
from appliance import Appliance, digest_of, make_key, openssl_verifies, until
from failpoints import DEBUG_BIN, Failpoints, names_in
from oidc import Issuer
from peers import Rekor

CRASHES_EACH_START = 4  # the supervisor waits longer before each further restart; a new start begins with short waits

REQUEST = ("codesign.after_append",)
WORKER = ("codesign.after_lease", "codesign.before_sign", "codesign.after_sign", "codesign.before_completion",
          "codesign.after_completion")
SIGNER = ("signer.before_c_sign", "signer.after_c_sign", "signer.before_journal", "signer.after_journal")
PUBLICATION = ("transparency.before_submit", "transparency.after_submit", "transparency.after_append")
CLEANUP = ("codesign.before_cleanup", "codesign.after_cleanup")


def state_of(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            stat = f.read()
        return stat[stat.rindex(")") + 2]
    except OSError:
        return None


class Crash(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rekor = Rekor().start()
        cls.addClassCleanup(cls.rekor.stop)
        cls.issuer = Issuer().start()
        cls.addClassCleanup(cls.issuer.stop)
        cls.a = Appliance("crash", bin=DEBUG_BIN)
        cls.addClassCleanup(cls.a.clean)
        cls.points = Failpoints(cls.a)
        signing.write_logs(cls.a, cls.rekor)
        signing.write_attestors(cls.a, cls.issuer.attestor())
        cls.a.start()
        cls.key_id = make_key(cls.a)
        cls.crashes = 0

    @classmethod
    def tearDownClass(cls):
        cls.a.stop()
        with open(cls.a.log_path, errors="replace") as f:
            complaints = [line for line in f if "Sanitizer" in line or "runtime error:" in line]
        if complaints:
            raise AssertionError("".join(complaints[:20]))

    def setUp(self):
        if self.crashes >= CRASHES_EACH_START:
            self.a.stop()
            self.a.start()
            type(self).crashes = 0
        type(self).crashes += 1

    def test_the_places_are_there(self):
        type(self).crashes -= 1
        api, signer = names_in("svc-api"), names_in("svc-signer")
        self.assertEqual(set(REQUEST + WORKER + PUBLICATION + CLEANUP) - api, set())
        self.assertEqual(set(SIGNER) - signer, set())

    def body(self, kind):
        self.datas = [secrets.token_bytes(40) for _ in range(3 if kind == "batch" else 1)]
        digests = [digest_of(d) for d in self.datas]
        if kind == "batch":
            return signing.batch_body(self.key_id, digests)
        if kind == "keyless":
            return signing.keyless_body(self.issuer.token(), digests[0])
        return signing.key_body(self.key_id, digests[0])

    def crash(self, kind, place):
        until("it is ready", self.a.is_ready, 120)
        session = self.a.session("OPERATOR")
        body = signing.previewed(session, kind, self.body(kind))
        key = secrets.token_hex(16)
        if place.startswith("signer."):
            self.points.arm(place)
            first = signing.try_once(session, kind, body, key)
            self.points.wait()
        else:
            first = self.api_dies(place, lambda: signing.try_once(session, kind, body, key))
        answer = signing.repeat_until_answered(session, kind, body, key)
        self.assertEqual(answer.status, 200, answer)
        if first is not None and first.status == 200:
            self.assertEqual(first.body, answer.body, "what was acknowledged before has changed")
        self.check(session, kind, body, key, answer)
        session.close()

    def api_dies(self, place, act):
        """What a dead process had leased or claimed is its own for some time (up to ten minutes), which we do not wait
        for: with the supervisor held back nobody else holds anything, and that time passes at once."""
        api = self.a.child("svc-api")
        os.kill(self.a.process.pid, signal.SIGSTOP)
        try:
            self.points.arm(place)
            first = act()
            self.points.wait()
            until("it is dead", lambda: state_of(api) in ("Z", "X", None), 60)
            self.a.sql("UPDATE svc.outbox SET lease_until_us = 1 WHERE state = 'processing'")
            self.a.sql("UPDATE svc.idempotency_keys SET claimed_us = claimed_us - 601000000 WHERE state = 'in_progress'")
        finally:
            os.kill(self.a.process.pid, signal.SIGCONT)
        return first

    def check(self, session, kind, body, key, answer):
        operations, signatures = signing.operations_of(answer), signing.signatures_of(answer)
        self.assertEqual(len(operations), len(self.datas))
        for data, operation, signature in zip(self.datas, operations, signatures):
            self.check_one(kind, data, operation, signature)
        if kind == "keyless":
            until("the ephemeral key is destroyed",
                  lambda: signing.records_of(self.a, operations[0], "codesign.ephemeral.destroyed"), 120)
        again = signing.repeat_until_answered(session, kind, body, key)
        self.assertEqual((again.status, again.body), (200, answer.body), "replay differs")
        for operation in operations:
            types = [r["type"] for r in signing.records_of(self.a, operation)]
            self.assertEqual(len(types), len(set(types)), f"recorded twice: {types}")

    def check_one(self, kind, data, operation, signature):
        found = signing.published(self.a, operation)
        spki = signing.base64.b64decode(found["public_key_der"])
        self.assertTrue(openssl_verifies(spki, signature, data))
        made = signing.records_of(self.a, operation, "codesign.signed", "codesign.keyless.signed")
        self.assertEqual([signing.base64.b64decode(r["data"]["signature"]) for r in made], [signature])
        self.assertEqual(signing.journal_entries(self.a, operation), 1)
        self.assertEqual(len(self.rekor.entries(digest_of(data))), 1, "entries in the log")
        for event in ("codesign.commanded", "codesign.completed", "transparency.published"):
            self.assertEqual(len(signing.records_of(self.a, operation, event)), 1, event)


def method(kind, place):
    def test(self):
        self.crash(kind, place)

    return test


for kind, places in (("key", REQUEST + WORKER + SIGNER + PUBLICATION),
                     ("keyless", REQUEST + WORKER + SIGNER + PUBLICATION + CLEANUP),
                     ("batch", REQUEST + ("codesign.after_sign", "signer.after_c_sign", "signer.after_journal",
                                          "transparency.after_submit"))):
    for place in places:
        setattr(Crash, f"test_{kind}_{place.replace('.', '_')}", method(kind, place))


if __name__ == "__main__":
    unittest.main()
