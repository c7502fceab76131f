"""A full disk under the signer's journal: what needs the journal fails closed and is not lost, readiness says it, the
rest goes on, and nothing has to be restarted when there is room again."""
import base64
import ctypes
import os
import pwd
import unittest

import signing
from appliance import Appliance, b64, digest_of, make_key, openssl_verifies, until

LIBC = ctypes.CDLL(None, use_errno=True)


def mount_small(where, user, size):
    """A file system of that size, in the mount namespace of the tests."""
    options = f"size={size},mode=0700,uid={user.pw_uid},gid={user.pw_gid}".encode()
    if LIBC.mount(b"none", where.encode(), b"tmpfs", 0, options) != 0:
        raise OSError(ctypes.get_errno(), "mount")


class JournalFull(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("journal", code_signing__wait="1500ms")
        cls.journal = f"{cls.a.dir}/journal"
        signer = pwd.getpwnam("svc-signer")
        os.mkdir(cls.journal)
        mount_small(cls.journal, signer, "4m")
        cls.a.settings["signer.journal"] = cls.journal
        cls.a.start()
        cls.key = make_key(cls.a)

    @classmethod
    def tearDownClass(cls):
        cls.a.stop()
        LIBC.umount2(cls.journal.encode(), 0)
        cls.a.clean()

    def fill(self):
        with open(f"{self.journal}/filler", "wb", buffering=0) as f:
            try:
                while f.write(b"\0" * 4096) > 0:
                    pass
            except OSError:
                pass

    def use_up(self):
        """Room that the journal had taken ahead is used up by signatures until one is refused."""
        for i in range(40000 // 64):
            digests = [digest_of(b"%d %d" % (i, n)) for n in range(64)]
            answer = signing.sign(self.a.session("OPERATOR"), "batch", signing.batch_body(self.key, digests))
            if answer.status != 200:
                return answer
        self.fail("the journal took everything")

    def readiness(self):
        return self.a.probe_get("/readyz").json

    def test_a_full_journal_fails_closed_says_so_and_comes_back_by_itself(self):
        session = self.a.session("OPERATOR")
        first = signing.sign(session, "key", signing.key_body(self.key, digest_of(b"before")))
        self.assertEqual(first.status, 200, first)
        self.fill()
        refused = self.use_up()
        self.assertIn(refused.status, (503, 504), refused)
        self.assertNotIn(b"signature\":", refused.body)
        until("readiness names the journal", lambda: self.readiness()["checks"]["signer"] != "ok", 30)
        self.assertIn("journal", str(self.readiness()["checks"]["signer"]))
        self.assertEqual(self.a.probe_get("/healthz").status, 200)
        metrics = self.a.probe_get("/metrics").body.decode()
        self.assertIn("svc_signer_journal_usable 0", metrics)

        # What needs no journal goes on: reading, verifying, time stamps (their record is the event log).
        self.assertEqual(session.api("GET", f"/api/v1/keys/{self.key}").status, 200)
        verified = session.api("POST", "/api/v1/code-signing/verify",
                               {"key_id": self.key, "digest": b64(digest_of(b"before")), "signature": first.json["signature"]})
        self.assertEqual(verified.status, 200, verified)

        body = signing.previewed(session, "key", signing.key_body(self.key, digest_of(b"while full")))
        waiting = session.api("POST", "/api/v1/code-signing/sign", body, key="while-full")
        self.assertGreaterEqual(waiting.status, 500, waiting)

        os.unlink(f"{self.journal}/filler")
        until("ready again", self.a.is_ready, 60)

        def signed():
            again = session.api("POST", "/api/v1/code-signing/sign", body, key="while-full")
            return again if again.status == 200 else None
        answer = until("what was accepted while it was full is signed", signed, 60)
        self.assertTrue(openssl_verifies(base64.b64decode(answer.json["public_key_der"]),
                                         base64.b64decode(answer.json["signature"]), b"while full"))


if __name__ == "__main__":
    unittest.main()
