"""SIGTERM under load: what was accepted is answered and recorded, in the order of the drain; a second signal forces."""
import collections
import http.client
import os
import secrets
import signal
import threading
import unittest

from appliance import Appliance, all_records, digest_of, make_key, sign_body, until
from draining import ORDER, drains, records_of


class Drain(unittest.TestCase):
    def test_what_was_accepted_is_answered_and_a_second_signal_forces_it(self):
        a = Appliance("drain")
        self.addCleanup(a.clean)
        key_id = make_key(a.start())
        answered, broken, lock, more = {}, [], threading.Lock(), threading.Event()

        def client(number):
            session, n = a.session("OPERATOR"), 0
            try:
                while True:
                    n += 1
                    key = f"drain-{number}-{n}-{secrets.token_hex(8)}"
                    body = sign_body(session, key_id, digest_of(key.encode()))
                    answer = session.api("POST", "/api/v1/code-signing/sign", body, key=key)
                    with lock:
                        answered[key] = (body, answer)
                        if len(answered) >= 40:
                            more.set()
            except (OSError, http.client.HTTPException, AssertionError) as e:
                broken.append(e)
            finally:
                session.close()

        threads = [threading.Thread(target=client, args=(n,)) for n in range(6)]
        for t in threads:
            t.start()
        more.wait(120)
        self.assertEqual(a.stop(), 0, a.tail())
        for t in threads:
            t.join()
        self.assertEqual(drains(a.log_path), [ORDER])
        wrong = [answer for _, answer in answered.values() if answer.status not in (200, 503)]
        self.assertEqual(wrong, [], "an accepted request was abandoned")
        self.assertEqual({answer.json["code"] for _, answer in answered.values() if answer.status == 503} - {"draining"},
                         set())
        a.start()
        signed = collections.Counter(r["data"]["operation_id"] for r in all_records(a) if r["type"] == "codesign.signed")
        self.assertEqual(set(signed.values()), {1})
        self.assertEqual({x.json["operation_id"] for _, x in answered.values() if x.status == 200} - signed.keys(), set())

        os.kill(a.child("svc-api"), signal.SIGSTOP)
        a.process.send_signal(signal.SIGTERM)
        until("the drain has begun", lambda: any(r["event"] == "stopping" for r in records_of(a.log_path, "svc-appliance")))
        a.process.send_signal(signal.SIGTERM)
        a.process.wait(60)
        forced = [r["unit"] for r in records_of(a.log_path, "svc-appliance") if r["event"] == "forced"]
        self.assertIn("api", forced)
        for program in ("svc-api", "svc-signer", "nats-server", "postgres"):
            self.assertEqual(a.pids(program), [])


if __name__ == "__main__":
    unittest.main()
