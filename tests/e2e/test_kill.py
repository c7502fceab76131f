"""kill -9 of each process in the middle of concurrent signings: every acknowledged signature stays, exactly once."""
import base64
import os
import secrets
import signal
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor

from appliance import Appliance, all_records, digest_of, make_key, openssl_verifies, sign_body, until

SIGNINGS = 200
CLIENTS = 16


class KillNine(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("kill").start()
        cls.key_id = make_key(cls.a)

    @classmethod
    def tearDownClass(cls):
        cls.a.clean()

    def sign_many(self, victim):
        """200 signings from 16 clients; the victim dies when 60 were acknowledged. Returns what was acknowledged."""
        acknowledged, lock, strike = {}, threading.Lock(), threading.Event()

        def killer():
            strike.wait(120)
            os.kill(self.a.child(victim), signal.SIGKILL)

        def one(n):
            idempotency_key = f"{victim}-{n}-{secrets.token_hex(8)}"
            data = f"{victim} artifact {n}".encode()
            session = self.a.session("OPERATOR")
            try:
                body = sign_body(session, self.key_id, digest_of(data))
                answer = session.api("POST", "/api/v1/code-signing/sign", body, key=idempotency_key)
            except Exception:  # noqa: BLE001 - the server died under us: not acknowledged
                return None
            finally:
                session.close()
            if answer.status == 200:
                with lock:
                    acknowledged[idempotency_key] = (body, answer, data)
                    if len(acknowledged) == 60:
                        strike.set()
            else:
                self.assertIn(answer.status, (409, 429, 500, 502, 503), answer)
            return answer.status

        thread = threading.Thread(target=killer)
        thread.start()
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(one, range(SIGNINGS)))
        strike.set()
        thread.join()
        return acknowledged

    def check(self, victim):
        old = self.a.child(victim)
        acknowledged = self.sign_many(victim)
        self.assertGreaterEqual(len(acknowledged), 60)
        until(f"{victim} was restarted", lambda: old not in self.a.pids(victim) and self.a.pids(victim), 60)
        until("ready again", self.a.is_ready, 90)

        by_operation = {}
        for record in all_records(self.a):
            if record["type"] == "codesign.signed":
                operation = record["data"]["operation_id"]
                self.assertNotIn(operation, by_operation, "signed twice")
                by_operation[operation] = record
        session = self.a.session("OPERATOR")
        for idempotency_key, (body, answer, data) in acknowledged.items():
            self.assertIn(answer.json["operation_id"], by_operation, "acknowledged, but not in the audit trail")
            self.assertTrue(openssl_verifies(base64.b64decode(answer.json["public_key_der"]),
                                             base64.b64decode(answer.json["signature"]), data))
            again = session.api("POST", "/api/v1/code-signing/sign", body, key=idempotency_key)
            self.assertEqual((again.status, again.body), (answer.status, answer.body), "replay differs")
            self.assertEqual(again.headers.get("Idempotent-Replayed"), "true")
        exported = self.a.api("GET", "/api/v1/audit/export", token="AUDITOR")
        self.assertEqual(exported.status, 200, exported)

    def test_signer_dies(self):
        self.check("svc-signer")

    def test_api_dies(self):
        self.check("svc-api")

    def test_event_log_dies(self):
        self.check("nats-server")

    def test_database_dies(self):
        self.check("postgres")


if __name__ == "__main__":
    unittest.main()
