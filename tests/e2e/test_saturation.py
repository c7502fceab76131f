"""Probes answer while every worker of the API is taken, and requests get through idle connections."""
import os
import signal
import socket
import ssl
import threading
import unittest

from appliance import Appliance, digest_of, make_key, sign_body, until


class Saturation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("full", http__threads=24, bulkheads__api__limit=8, bulkheads__api__queue=4,
                          bulkheads__protocol__limit=4, bulkheads__heavy__limit=2, code_signing__wait="6s").start()

    @classmethod
    def tearDownClass(cls):
        cls.a.clean()

    def test_idle_connections_do_not_starve_requests(self):
        context, idle = self.a.tls(), []
        try:
            for _ in range(100):
                s = socket.create_connection(("127.0.0.1", self.a.port), timeout=5)
                s.settimeout(5)
                try:
                    idle.append(context.wrap_socket(s, server_hostname="127.0.0.1"))
                except (OSError, ssl.SSLError):
                    s.close()
            answer = until("a request gets through", lambda: self.try_keys(), 30)
            self.assertEqual(answer.status, 200)
            self.assertEqual(self.a.probe_get("/healthz").status, 200)
            self.assertEqual(self.a.probe_get("/metrics").status, 200)
        finally:
            for s in idle:
                s.close()

    def try_keys(self):
        try:
            return self.a.api("GET", "/api/v1/keys")
        except OSError:
            return None

    def test_full_bulkhead_answers_503_at_once_and_probes_go_on(self):
        """The signer stands still, so requests pile up in the API: beyond limit and queue they are refused."""
        key_id = make_key(self.a)
        bodies = [sign_body(self.a.session("OPERATOR"), key_id, digest_of(b"%d" % n)) for n in range(40)]
        signer, statuses, lock = self.a.child("svc-signer"), [], threading.Lock()

        def one(body):
            try:
                answer = self.a.session("OPERATOR").api("POST", "/api/v1/code-signing/sign", body, key=True)
            except OSError:
                return
            with lock:
                statuses.append((answer.status, answer.json.get("code"), answer.headers.get("Retry-After")))

        os.kill(signer, signal.SIGSTOP)
        try:
            threads = [threading.Thread(target=one, args=(body,)) for body in bodies]
            for t in threads:
                t.start()
            until("some were refused", lambda: [s for s in statuses if s[1] == "bulkhead_saturated"], 30)
            self.assertEqual(self.a.probe_get("/metrics").status, 200)
            until("readiness says so", lambda: self.a.probe_get("/readyz").status == 503, 30)
        finally:
            os.kill(signer, signal.SIGCONT)
        for t in threads:
            t.join()
        for status, code, retry in statuses:
            self.assertIn(status, (200, 503), (status, code))
            if status == 503:
                self.assertIsNotNone(retry, code)
        until("ready again", self.a.is_ready, 60)
        self.assertEqual(self.a.api("GET", "/api/v1/keys").status, 200)


if __name__ == "__main__":
    unittest.main()
