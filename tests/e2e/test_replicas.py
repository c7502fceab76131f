"""Two svc-api on one database, event log and signer: drained, killed, frozen and restarted under load, behind a balancer.

A client repeats what was refused for a moment (503, 429, 409 in progress) or broken off, as it is and with the same
Idempotency-Key. Then every accepted signing is in the trail exactly once, and nobody is turned away for good."""
import collections
import http.client
import json
import os
import secrets
import signal
import subprocess
import threading
import time
import unittest

from appliance import Appliance, Replica, all_records, b64, digest_of, free_port, make_key, run, until
from draining import ORDER, drains

PATIENCE = 90  # of a client, for one signing
REPEATED = (409, 429, 502, 503)


class Balancer:
    """haproxy before both: TLS goes through, /readyz of the probe port decides who gets connections."""

    def __init__(self, appliance, *servers):
        self.port, self.appliance, self.env = free_port(), appliance, appliance.env
        lines = "".join(f"    server s{i} 127.0.0.1:{s.port} check port {s.probe}\n" for i, s in enumerate(servers))
        with open(f"{appliance.dir}/haproxy.cfg", "w") as f:
            f.write("global\n    maxconn 500\n    log stdout format raw local0\n"
                    "defaults\n    mode tcp\n    log global\n    option log-health-checks\n    timeout connect 2s\n    timeout client 60s\n    timeout server 60s\n"
                    "    timeout check 2s\n    retries 5\n    option redispatch 1\n"
                    f"frontend api\n    bind 127.0.0.1:{self.port}\n    default_backend replicas\n"
                    "backend replicas\n    balance roundrobin\n    option httpchk\n"
                    "    http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host svc\n"
                    "    http-check expect status 200\n    default-server inter 200ms fall 1 rise 1\n" + lines)
        self.log = open(f"{appliance.dir}/haproxy.log", "wb")
        self.process = subprocess.Popen(["haproxy", "-db", "-f", f"{appliance.dir}/haproxy.cfg"], stdout=self.log,
                                        stderr=self.log, start_new_session=True)

    def tls(self):
        return self.appliance.tls()

    session = Appliance.session
    api = Appliance.api

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


class Load:
    """Clients that sign until told to stop; each signing is repeated until it was answered for good."""

    def __init__(self, target, key_id, clients=4):
        self.target, self.key_id = target, key_id
        self.accepted, self.failed, self.repeats = {}, [], collections.Counter()
        self.lock, self.over = threading.Lock(), threading.Event()
        self.threads = [threading.Thread(target=self.client, args=(n,)) for n in range(clients)]

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for t in self.threads:
            t.join()

    def client(self, number):
        session, n = self.target.session("OPERATOR"), 0
        while not self.over.is_set():
            n += 1
            self.one(session, f"load-{number}-{n}-{secrets.token_hex(8)}")
        session.close()

    def repeat(self, what):
        """Calls it until its answer is none that asks for a repetition; None when the patience is over."""
        end, why = time.monotonic() + PATIENCE, None
        while time.monotonic() < end:
            try:
                answer = what()
                if answer.status not in REPEATED:
                    return answer
                why = f"{answer.status} {answer.json.get('code')}"
            except (OSError, http.client.HTTPException) as e:
                why = type(e).__name__
            with self.lock:
                self.repeats[why] += 1
            self.over.wait(0.1) if not self.over.is_set() else time.sleep(0.1)
        return None

    def one(self, session, idempotency_key):
        body = {"key_id": self.key_id, "artifact_type": "file", "digest": b64(digest_of(idempotency_key.encode()))}
        preview = self.repeat(lambda: session.api("POST", "/api/v1/code-signing/preview", body))
        if preview is not None and preview.status == 200:
            body["preview_fingerprint"] = preview.json["request_fingerprint"]
            answer = self.repeat(lambda: session.api("POST", "/api/v1/code-signing/sign", body, key=idempotency_key))
            if answer is not None and answer.status == 200:
                with self.lock:
                    self.accepted[idempotency_key] = (body, answer)
                return
            preview = answer
        with self.lock:
            self.failed.append(preview)

    def grown(self, by):
        with self.lock:
            goal = len(self.accepted) + by
        until(f"{by} more signings are accepted", lambda: len(self.accepted) >= goal or self.failed, 120)


class Replicas(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("replicas", http__drain_delay="1s")
        cls.addClassCleanup(cls.a.clean)
        cls.a.start()
        cls.b = Replica(cls.a).start()
        cls.addClassCleanup(cls.b.kill)
        cls.key_id = make_key(cls.a)
        cls.balancer = Balancer(cls.a, cls.a, cls.b)
        cls.addClassCleanup(cls.balancer.stop)
        until("the balancer sees one", lambda: cls.balanced(), 60)

    @classmethod
    def balanced(cls):
        try:
            return cls.balancer.api("GET", "/api/v1/keys").status == 200
        except (OSError, http.client.HTTPException):
            return False

    def leads(self, server):
        text = server.probe_get("/metrics").body.decode()
        return any(line.split() == ["svc_projector_leader", "1"] for line in text.splitlines())

    def leader(self):
        return until("somebody leads", lambda: next((s for s in (self.a, self.b) if self.leads(s)), None), 60)

    def pid(self, server):
        return self.a.child("svc-api") if server is self.a else self.b.pid()

    def settle(self, *loads):
        """Nothing failed for good, and everything accepted is there, exactly once."""
        accepted = {key: value for load in loads for key, value in load.accepted.items()}
        print(f"\n  {len(accepted)} signings; repeated: {dict(sum((load.repeats for load in loads), collections.Counter()))}",
              end=" ")
        self.assertEqual([failed for load in loads for failed in load.failed], [])
        by_operation = collections.Counter(r["data"]["operation_id"] for r in all_records(self.a)
                                           if r["type"] == "codesign.signed")
        self.assertEqual([o for o, n in by_operation.items() if n != 1], [], "signed twice")
        operations = {answer.json["operation_id"] for _, answer in accepted.values()}
        self.assertEqual(len(operations), len(accepted), "two signings are one operation")
        self.assertEqual(operations - by_operation.keys(), set(), "accepted, and not in the trail")
        session = self.a.session("OPERATOR")
        for key, (body, answer) in list(accepted.items())[::37]:
            again = session.api("POST", "/api/v1/code-signing/sign", body, key=key)
            self.assertEqual((again.status, again.body), (answer.status, answer.body))

    def test_1_a_rolling_restart_loses_nothing(self):
        old = self.a.child("svc-api")
        with Load(self.balancer, self.key_id) as load:
            load.grown(10)
            os.kill(old, signal.SIGTERM)
            said = until("it says so", lambda: (r := self.a.probe_get("/readyz")).status == 503 and r)
            self.assertEqual(said.json["status"], "stopping")
            until("its supervisor starts it again", lambda: self.a.pids("svc-api") and old not in self.a.pids("svc-api"), 60)
            until("it is ready", self.a.is_ready, 90)
            load.grown(10)
            self.assertEqual(self.b.stop(), 0)
            load.grown(10)
            self.b.start()
            load.grown(10)
        self.settle(load)
        self.assertEqual(drains(self.a.log_path)[-1], ORDER)
        self.assertEqual(drains(self.b.log_path)[-1], ORDER)

    def test_2_a_killed_leader_is_replaced(self):
        leader = self.leader()
        other = self.b if leader is self.a else self.a
        load, old = Load(other, self.key_id), self.pid(leader)
        with load:
            load.grown(10)
            begun = time.monotonic()
            os.kill(old, signal.SIGKILL)
            # The supervisor may have started the killed one again before the other one asked: then that one may lead.
            until("somebody leads", lambda: self.leads(other) or (leader is self.a and old not in self.a.pids("svc-api") and
                                                                  self.leads(leader)), 60)
            print(f"\n  killed: led again after {time.monotonic() - begun:.1f} s", end=" ")
            load.grown(10)
            if leader is self.b:
                self.b.process.wait()
                self.b.start()
            until("both are ready", lambda: self.a.is_ready() and self.b.is_ready(), 90)
        self.settle(load)

    def test_3_a_frozen_leader_is_replaced_and_changes_nothing_when_it_goes_on(self):
        leader = self.leader()
        other, pid = (self.b if leader is self.a else self.a), self.pid(leader)
        with Load(other, self.key_id) as load, Load(leader, self.key_id, clients=2) as to_leader:
            load.grown(10)
            begun = time.monotonic()
            os.kill(pid, signal.SIGSTOP)
            try:
                until("the other one leads", lambda: self.leads(other), 90)
                print(f"\n  frozen: the other one leads after {time.monotonic() - begun:.1f} s", end=" ")
                load.grown(10)
            finally:
                os.kill(pid, signal.SIGCONT)
            until("the old one knows that it does not lead", lambda: leader.is_ready() and not self.leads(leader), 60)
            self.assertTrue(self.leads(other))
            to_leader.grown(5)
        self.assertEqual(self.pid(leader), pid, "it is the same process")
        self.settle(load, to_leader)

        export, keys = f"{self.a.dir}/trail.ndjson", f"{self.a.dir}/jwks.json"
        self.a.cli("audit", "export", "--shape", "ndjson", "-o", export, token="AUDITOR")
        self.a.cli("audit", "verification-keys", "-o", keys, token="AUDITOR")
        done = run(f"{self.a.bin}/svc-cli", "audit", "verify", "--artifact", export, "--audit-jwks", keys, "--tsa-root",
                   f"{self.a.dir}/data/tsa-root.pem", "--json", check=False)
        self.assertTrue(json.loads(done.stdout)["chain_good"], done.stdout + done.stderr)

    def test_4_a_second_signal_ends_a_drain_at_once(self):
        self.b.stop()  # the embedded database has connections for two
        slow = Replica(self.a, "slow", http__drain_delay="300s").start()
        try:
            slow.process.send_signal(signal.SIGTERM)
            said = until("it says so", lambda: (r := slow.probe_get("/readyz")).status == 503 and r)
            self.assertEqual(said.json["status"], "stopping")
            answer = slow.api("GET", "/api/v1/keys")
            self.assertEqual((answer.status, answer.headers["Connection"]), (200, "close"))
            slow.process.send_signal(signal.SIGTERM)
            self.assertEqual(slow.process.wait(60), 1)
            self.assertEqual(drains(slow.log_path), [["drain_forced"]])
        finally:
            slow.kill()


if __name__ == "__main__":
    unittest.main()
