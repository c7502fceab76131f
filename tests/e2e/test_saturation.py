"""Full everywhere: probes answer without waiting for anybody, and who is refused is told to come again."""
import errno
import json
import os
import re
import signal
import socket
import ssl
import threading
import unittest

from appliance import Appliance, digest_of, make_key, sign_body, until

CONNECTIONS = 500


class Crowd:
    """Connections that hold whatever a server lends them: silent ones, halves of requests, answers nobody reads."""

    def __init__(self, appliance):
        self.a, self.sockets, self.context = appliance, [], appliance.tls()

    def raw(self, port, first):
        """Connects without waiting for anybody, and says `first` once it is connected."""
        s = socket.socket()
        s.setblocking(False)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        if s.connect_ex(("127.0.0.1", port)) not in (0, errno.EINPROGRESS):
            s.close()
            return
        self.sockets.append((s, first))

    def say(self):
        for s, first in self.sockets:
            try:
                s.send(first)
            except OSError:
                pass  # not connected yet, or cut already

    def talk(self, request):
        """A TLS connection whose handshake is done, that has sent this."""
        s = socket.create_connection(("127.0.0.1", self.a.port), timeout=5)
        try:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            tls = self.context.wrap_socket(s, server_hostname="127.0.0.1")
            tls.send(request)
            self.sockets.append((tls, b""))
        except (OSError, ssl.SSLError):
            s.close()

    def gather(self, count):
        head = b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n"
        for n in range(20):  # as many as there are threads
            self.talk((head, head + b"\r\n" + head + b"\r\n")[n % 2])
        while len(self.sockets) < count:
            self.raw(self.a.port, b"")
            self.raw(self.a.port, b"\x16\x03\x01\x02\x00\x01")
            self.raw(self.a.plain, b"POST /tsa HTTP/1.1\r\nHost: lo")
            self.raw(self.a.plain, b"POST /tsa HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n"
                                   b"Content-Type: application/timestamp-query\r\n\r\nhalf")
        self.say()

    def leave(self):
        for s, _ in self.sockets:
            s.close()


class Saturation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("full", http__threads=24, bulkheads__api__limit=8, bulkheads__api__queue=4,
                          bulkheads__protocol__limit=4, bulkheads__heavy__limit=2, code_signing__wait="6s").start()
        cls.a.appliance("tenant", "create", "rival")
        made = cls.a.appliance("token", "create", "--tenant", "rival", "--subject", "rival", "--role", "operator",
                               "--ttl", "1h", "--json")
        cls.a.env["SVC_TOKEN_RIVAL"] = json.loads(made.stdout)["token"]
        cls.key_id = make_key(cls.a)

    @classmethod
    def tearDownClass(cls):
        cls.a.clean()

    def metric(self, name, **labels):
        text = self.a.probe_get("/metrics").body.decode()
        inside = ",".join(f'{k}="{v}"' for k, v in labels.items())
        found = re.search(re.escape(f"{name}{{{inside}}}" if inside else name) + r" (\S+)\n", text)
        return float(found.group(1)) if found else None

    def try_keys(self, token="OPERATOR"):
        try:
            return self.a.api("GET", "/api/v1/keys", token=token)
        except OSError:
            return None

    def sign_at_once(self, count):
        """So many signings by one tenant; their ends gather in the list that is given back with the threads."""
        bodies = [sign_body(self.a.session("OPERATOR"), self.key_id, digest_of(b"%d" % n)) for n in range(count)]
        ends, lock = [], threading.Lock()

        def one(body):
            try:
                answer = self.a.session("OPERATOR").api("POST", "/api/v1/code-signing/sign", body, key=True)
            except OSError:
                return
            with lock:
                ends.append(answer)

        threads = [threading.Thread(target=one, args=(body,)) for body in bodies]
        return threads, ends

    def hold(self, comm, number):
        for pid in self.a.pids(comm):
            os.kill(pid, number)

    def test_idle_connections_do_not_starve_requests(self):
        crowd = Crowd(self.a)
        try:
            for _ in range(60):
                crowd.talk(b"")
            answer = until("a request gets through", self.try_keys, 30)
            self.assertEqual(answer.status, 200)
        finally:
            crowd.leave()

    def test_a_full_bulkhead_answers_503_at_once_and_another_tenant_gets_in(self):
        """The signer stands still, so one tenant's requests pile up: beyond its share they are refused."""
        threads, ends = self.sign_at_once(40)
        signer = self.a.child("svc-signer")
        before = self.metric("svc_bulkhead_rejections_total", bulkhead="api")
        os.kill(signer, signal.SIGSTOP)
        try:
            for t in threads:
                t.start()
            until("some were refused", lambda: [e for e in ends if e.json["code"] == "bulkhead_saturated"], 30)
            for bulkhead in ("api", "outbox", "signing"):  # what was let in stands in front of the signer
                until("it is full of them", lambda: self.metric("svc_bulkhead_in_use", bulkhead=bulkhead) > 0, 30)
            until("the other tenant gets through", lambda: getattr(self.try_keys("RIVAL"), "status", 0) == 200, 30)
            self.assertGreater(self.metric("svc_bulkhead_share_rejections_total", bulkhead="api"), 0)
            until("liveness says so", lambda: self.a.probe_get("/healthz").json["signer"] == "unreachable", 30)
            until("readiness says so", lambda: self.a.probe_get("/readyz").json["checks"]["signer"] == "unreachable", 30)
            self.assertEqual(self.a.probe_get("/healthz").status, 503)
            self.assertEqual(self.a.probe_get("/readyz").status, 503)
            self.assertEqual(self.a.probe_get("/metrics").status, 200)
            self.assertGreater(self.metric("svc_bulkhead_rejections_total", bulkhead="api"), before)
            self.assertEqual(self.metric("svc_bulkhead_limit", bulkhead="api"), 8)
        finally:
            os.kill(signer, signal.SIGCONT)
        for t in threads:
            t.join()
        for end in ends:
            self.assertIn(end.status, (200, 503), end)
            if end.status == 503:
                self.assertIsNotNone(end.headers.get("Retry-After"), end)
                self.assertIs(end.json.get("retryable"), True, end)
        until("ready again", self.a.is_ready, 60)
        self.assertEqual(self.metric("svc_bulkhead_in_use", bulkhead="outbox"), 0)

    def test_probes_wait_for_nobody(self):
        """Five hundred connections of all kinds, and neither datastore nor signer do anything."""
        crowd = Crowd(self.a)
        threads, _ = self.sign_at_once(12)
        try:
            crowd.gather(CONNECTIONS)
            self.hold("postgres", signal.SIGSTOP)
            for t in threads:
                t.start()
            until("the datastore's check is shed", lambda: self.metric("svc_readiness_probe_shed", check="db") == 1, 30)
            crowd.say()
            ready = self.a.probe_get("/readyz")
            self.assertEqual((ready.status, ready.json["checks"]["db"]), (200, "ok"), ready)
            self.assertIn("db", ready.json["degraded"])
            self.assertEqual(self.a.probe_get("/healthz").status, 200)
            self.hold("svc-signer", signal.SIGSTOP)
            until("the signer is missed", lambda: self.a.probe_get("/healthz").status == 503, 30)
            for _ in range(20):
                self.assertEqual(self.a.probe_get("/healthz").status, 503)
                self.assertEqual(self.a.probe_get("/readyz").json["checks"]["signer"], "unreachable")
                self.assertEqual(self.a.probe_get("/metrics").status, 200)
        finally:
            self.hold("svc-signer", signal.SIGCONT)
            self.hold("postgres", signal.SIGCONT)
            crowd.leave()
        for t in threads:
            t.join()
        until("ready again", self.a.is_ready, 60)
        self.assertEqual(until("a request gets through", self.try_keys, 30).status, 200)


if __name__ == "__main__":
    unittest.main()
