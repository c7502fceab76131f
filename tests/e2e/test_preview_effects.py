"""A preview changes nothing: no event, no SQL write, no signer call, no socket, no idempotency row."""
import glob
import json
import os
import re
import signal
import socket
import subprocess
import unittest

import signing
from appliance import Appliance, digest_of, make_key, until
from oidc import Issuer

PREVIEWS = 40  # of each kind
RULES = """rules:
  - name: gated
    when: {artifact_type: [gated]}
    then: require_approval
    approvers: 2
    max_signings: 1
  - name: forbidden
    when: {artifact_type: [forbidden]}
    then: deny
    reason: not this one
  - name: rest
    when: {}
    then: allow
"""


def stream_state(a):
    """The event log's own word about itself, by the wire protocol of NATS."""
    with open(f"{a.dir}/data/nats-client/credentials") as f:
        user, _, password = f.read().strip().partition(":")
    with socket.create_connection(("127.0.0.1", a.settings["nats.embedded_port"]), timeout=20) as s:
        wire = s.makefile("rwb")
        login = json.dumps({"user": user, "pass": password, "verbose": False, "pedantic": False, "headers": False})
        wire.write(f"CONNECT {login}\r\nSUB answer 1\r\nPUB $JS.API.STREAM.INFO.SVC_EVENTS answer 0\r\n\r\n".encode())
        wire.flush()
        while True:
            line = wire.readline()
            if line.startswith(b"MSG answer"):
                info = json.loads(wire.read(int(line.split()[-1])))
                return {k: info["state"][k] for k in ("messages", "bytes", "last_seq")}
            if line.startswith(b"-ERR") or not line:
                raise AssertionError(line)


class Sockets:
    """Every socket() and connect() of a process while we are inside, by strace."""

    def __init__(self, pid):
        self.pid, self.lines = pid, []

    def __enter__(self):
        self.out = f"/tmp/strace-{self.pid}"
        self.process = subprocess.Popen(["strace", "-f", "-q", "-e", "trace=socket,connect", "-e", "signal=none", "-o",
                                         self.out, "-p", str(self.pid)], stderr=subprocess.PIPE, text=True)
        until("strace is attached to every thread", self.attached, 60)
        return self

    def attached(self):
        if self.process.poll() is not None:
            raise AssertionError(f"strace: {self.process.stderr.read()}")
        for status in glob.glob(f"/proc/{self.pid}/task/*/status"):
            try:
                with open(status) as f:
                    if f"TracerPid:\t{self.process.pid}\n" not in f.read():
                        return False
            except OSError:
                continue
        return True

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        self.process.stderr.close()
        with open(self.out) as f:
            self.lines = [line for line in f if re.search(r"\b(socket|connect)\(", line)]
        os.unlink(self.out)


class Effects(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.issuer = Issuer().start()
        cls.addClassCleanup(cls.issuer.stop)
        cls.a = Appliance("effects", postgres__max_conns=4)
        cls.addClassCleanup(cls.a.clean)
        signing.write_policy(cls.a, RULES)
        signing.write_attestors(cls.a, cls.issuer.attestor())
        cls.a.start()
        cls.key_id = make_key(cls.a)
        names = cls.a.sql("SELECT schemaname || '.' || tablename FROM pg_tables WHERE schemaname = 'svc' AND tablename "
                          "NOT IN ('rate_buckets', 'instances') ORDER BY 1").splitlines()
        assert len(names) > 40, names
        cls.tables = " UNION ALL ".join(f"SELECT '{n}', count(*), max(xmin::text::int8), max(xmax::text::int8) FROM {n}"
                                        for n in names)
        # Housekeeping would write, too.
        cls.a.sql("ALTER SYSTEM SET autovacuum = off")
        cls.a.sql("SELECT pg_reload_conf()")
        until("no housekeeping runs", lambda: cls.a.sql("SHOW autovacuum") == "off" and cls.a.sql(
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'autovacuum%'") == "0", 60)

    def written(self):
        """What only a write changes. Of each table: how many rows, and the newest transaction that wrote or locked one
        of them. Two tables are no effect of anybody's request: what is left of a tenant's request budget, and which
        instances live."""
        return {
            "events": stream_state(self.a),
            "tables": self.a.sql(self.tables),
            "idempotency_rows": self.a.sql("SELECT count(*) FROM svc.idempotency_keys"),
            "outbox_rows": self.a.sql("SELECT count(*) FROM svc.outbox"),
            "audit_records": self.a.sql("SELECT count(*) FROM svc.audit_records"),
            "journal": sorted((p, os.stat(p).st_size, os.stat(p).st_mtime_ns)  # its room is taken ahead: the time tells a write
                              for p in glob.glob(f"{self.a.dir}/data/signer/*.journal")),
            "token": sorted((p, os.stat(p).st_mtime_ns) for p in glob.glob(f"{self.a.dir}/data/softhsm/**", recursive=True)
                            if os.path.isfile(p) and not p.endswith(".lock")),
            "jwks_fetches": self.issuer.fetched,
        }

    def settled(self):
        """Once everything that earlier requests set off has ended: twice the same, with a reading in between."""
        last = [None]

        def same():
            now = self.written()
            last[0], before = now, last[0]
            return now if now == before else None

        return until("the appliance rests", same, 90)

    def preview_all(self, session):
        answers = []
        for n in range(PREVIEWS):
            digest = digest_of(b"artifact %d" % n)
            kind = ("gated", "forbidden", "file")[n % 3]
            answers += [
                signing.preview(session, "key", signing.key_body(self.key_id, digest, artifact_type=kind)),
                signing.preview(session, "batch", signing.batch_body(self.key_id, [digest, digest_of(digest)])),
                signing.preview(session, "keyless", signing.keyless_body(self.proof, digest)),
                session.api("POST", "/api/v1/compliance/report-schedules/preview",
                            {"framework": "soc2", "name": f"monthly {n}", "report_type": "framework_evidence_pack",
                             "interval_seconds": 3600 + n, "delivery": "audit_export", "recipient_ref": "vault"}),
                session.api("POST", signing.BASE + "/policy/explain",
                            {"artifact_type": kind, "key_id": self.key_id, "principal": "somebody"}),
            ]
        return answers

    def test_previews_have_no_effect(self):
        self.proof = self.issuer.token()
        session = self.a.session("OPERATOR")
        self.assertEqual(signing.sign(session, "key", signing.key_body(self.key_id, digest_of(b"warm"))).status, 200)
        self.preview_all(session)  # connections are opened now, not while they are counted
        api, signer = self.a.child("svc-api"), self.a.child("svc-signer")
        before = self.settled()
        with Sockets(api) as sockets:
            answers = self.preview_all(session)
        for answer in answers:
            self.assertEqual(answer.status, 200, answer)
        self.assertEqual(self.written(), before)
        self.assertEqual(sockets.lines, [])
        self.assertEqual(self.issuer.fetched, 0, "a preview fetched keys")

        # Not even a signer that could answer is needed: with one that stands still, the same is told.
        os.kill(signer, signal.SIGSTOP)
        try:
            again = self.preview_all(session)
        finally:
            os.kill(signer, signal.SIGCONT)
        told = [a.json.get("request_fingerprint") for a in answers]
        self.assertEqual([a.json.get("request_fingerprint") for a in again], told)
        self.assertEqual(self.written(), before)
        until("ready again", self.a.is_ready, 60)

    def test_the_counters_see_a_signing(self):
        """The control: what must not change for a preview does change for a signature."""
        session = self.a.session("OPERATOR")
        body = signing.previewed(session, "key", signing.key_body(self.key_id, digest_of(b"control")))
        before = self.settled()
        with Sockets(self.a.child("svc-api")) as sockets:
            self.assertEqual(signing.execute(session, "key", body).status, 200)
            keyless = signing.sign(session, "keyless", signing.keyless_body(self.issuer.token(), digest_of(b"control")))
            self.assertEqual(keyless.status, 200, keyless)
        after = self.settled()
        for counter in before:
            if counter != "outbox_rows":  # finished rows may have gone again
                self.assertNotEqual(after[counter], before[counter], counter)
        self.assertNotEqual(sockets.lines, [], "the keys of the issuer were fetched through a socket")


if __name__ == "__main__":
    unittest.main()
