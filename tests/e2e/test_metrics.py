"""What a monitoring system gets: a real scrape that promtool takes, with every metric in the manual and no label that
grows with what callers send; gauges of the machine, of expiry and of the audit chain."""
import os
import re
import signal
import subprocess
import time
import unittest
import uuid

from appliance import SRC, Appliance, digest_of, make_key, sign_body, until
from stamping import granted, stamp

LINE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("metrics").start()

    @classmethod
    def tearDownClass(cls):
        cls.a.clean()

    def scrape(self):
        answer = self.a.probe_get("/metrics")
        self.assertEqual(answer.status, 200, answer)
        self.assertEqual(answer.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
        return answer.body.decode()

    def series(self, text=None):
        """{name: {labels: value}}; a histogram's parts under their own names."""
        found = {}
        for line in (text or self.scrape()).splitlines():
            if line and not line.startswith("#"):
                name, labels, value = LINE.match(line).groups()
                found.setdefault(name, {})[tuple(sorted(LABEL.findall(labels or "")))] = float(value)
        return found

    def one(self, name, **labels):
        return self.series().get(name, {}).get(tuple(sorted(labels.items())))

    def sign(self, data):
        session = self.a.session("OPERATOR")
        body = sign_body(session, self.key_id, digest_of(data))
        key = str(uuid.uuid4())
        for _ in range(2):  # the second one is a replay
            self.assertEqual(session.api("POST", "/api/v1/code-signing/sign", body, key=key).status, 200)

    def main_job(self):
        self.key_id = make_key(self.a)
        self.sign(b"first")
        self.assertTrue(granted(stamp(self.a, b"stamped")))
        self.assertEqual(self.a.api("GET", "/api/v1/audit/export", token="AUDITOR").status, 200)

    def test_1_a_scrape_after_the_main_job(self):
        self.main_job()
        until("disks, certificates and chains were looked at", lambda: {
            "svc_disk_free_bytes", "svc_certificates"} <= set(self.series()) and
            (self.one("svc_audit_chain_verified_timestamp_seconds") or 0) > 0, 60)
        text = self.scrape()
        checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
        self.assertEqual((checked.returncode, checked.stdout, checked.stderr), (0, "", ""))

        families = {}
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split()
                families[name] = kind
                self.assertIn(f"# HELP {name} ", text)
        with open(f"{SRC}/docs/metrics.md") as f:
            documented = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", f.read(), re.M))
        self.assertEqual({name: kind for name, kind in families.items() if documented.get(name) != kind}, {},
                         "not in docs/metrics.md: print it with svc-api metrics")
        self.assertEqual(set(documented) - set(families), set())

        found = self.series(text)

        def value(name, **labels):
            return found[name][tuple(sorted(labels.items()))]

        self.assertEqual(value("svc_http_requests_total", method="POST", route="/api/v1/code-signing/sign", code="200"), 2)
        self.assertEqual(value("svc_http_request_duration_seconds_count", method="POST", route="/tsa"), 1)
        for up in ("svc_signer_up", "svc_event_log_trusted", "svc_projector_leader", "svc_signer_journal_usable"):
            self.assertEqual(value(up), 1, up)
        for none in ("svc_projection_stopped", "svc_audit_chain_broken_tenants", "svc_signer_restarts_total"):
            self.assertEqual(value(none), 0, none)
        self.assertEqual(value("svc_event_log_replicas_actual"), value("svc_event_log_replicas_desired"))
        self.assertEqual(value("svc_idempotency_claims_total", outcome="replayed"), 1)
        self.assertGreaterEqual(value("svc_idempotency_claims_total", outcome="run"), 2)
        self.assertGreater(value("svc_event_append_duration_seconds_count", outcome="stored"), 3)
        self.assertGreater(value("svc_projection_applied_messages_total"), 3)
        self.assertGreaterEqual(value("svc_signer_call_duration_seconds_count", operation="sign", outcome="ok"), 2)
        self.assertGreater(value("svc_audit_chain_records_verified_total"), 0)
        for area in ("data", "journal", "postgres", "nats"):
            self.assertTrue(0 < value("svc_disk_free_bytes", area=area) <= value("svc_disk_total_bytes", area=area))
            folder = {"data": "", "journal": "signer"}.get(area, area) # which svc-api does not see
            disk = os.statvfs(f"{self.a.dir}/data/{folder}")
            self.assertEqual(value("svc_disk_total_bytes", area=area), disk.f_blocks * disk.f_frsize, area)
        bounds = {dict(labels)["le"] for labels in found["svc_http_request_duration_seconds_bucket"]}
        with open(f"{SRC}/policies/monitoring/slo.yaml") as f:
            promised = {f"{int(ms) / 1000:g}" for row in re.findall(r"latency_ms: {(.*)}", f.read())
                        for ms in re.findall(r"\d\d+", re.sub(r"p\d\d", "", row))}
        self.assertGreater(len(promised), 6)
        self.assertLessEqual(promised, bounds, "a promised latency is no bound of the histograms")
        now = time.time()
        self.assertGreater(value("svc_listener_certificate_expiry_timestamp_seconds", listener="https"), now)
        self.assertGreater(value("svc_certificate_next_expiry_timestamp_seconds"), now)
        self.assertTrue(now - 3600 < value("process_start_time_seconds") <= now + 1)
        self.assertGreater(value("process_resident_memory_bytes"), 1 << 20)
        self.assertGreater(value("process_open_fds"), 10)
        for pool in ("request", "probe", "reserved", "bookkeeping", "lock"):
            self.assertGreater(value("svc_store_pool_connections", pool=pool, state="total"), 0)

    def test_2_no_label_grows_with_what_callers_send(self):
        self.main_job()
        self.a.appliance("tenant", "create", "second")
        session = self.a.session("OPERATOR")

        def round_of(n):
            """Everything that a caller can vary, each time anew."""
            some = uuid.uuid4()
            for path in (f"/api/v1/keys/{some}", f"/api/v1/keys/{some.hex}", f"/api/v1/keys/{some.int}", f"/nowhere/{some}",
                         f"/api/v1/{some}/x", f"/tsa/{some.hex[:20]}", f"/api/v1/certificates/{some}", f"/?q={some}"):
                session.api("GET", path)
            session.api(f"X{n}".upper(), "/api/v1/keys")
            session.api("POST", "/api/v1/keys", {"name": str(some), "algorithm": "ec-p256", "purpose": "codesign"}, key=True)
            session.api("POST", "/api/v1/keys", {"name": str(some), "algorithm": str(some), "purpose": str(some)}, key=True)
            self.sign(some.bytes)
            stamp(self.a, some.bytes)

        def counts():
            return {name: len(rows) for name, rows in self.series().items()}

        for n in range(3):  # by now every series that there can be is there
            round_of(n)
        before = until("what is sampled was", lambda: counts() if {"svc_disk_free_bytes", "svc_signer_keys"} <=
                       set(counts()) else None)
        for n in range(25):
            round_of(n + 3)
        grown = {name: (before.get(name, 0), count) for name, count in counts().items()
                 if count > before.get(name, 0) + 2 * (19 if name.endswith("_bucket") else 1)}
        self.assertEqual(grown, {})
        values = {value for rows in self.series().values() for labels in rows for _, value in labels}
        self.assertEqual([v for v in values if re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-|[0-9a-f]{16}", v)], [])
        self.assertLess(max(counts().values()), 1024)

    def test_3_a_chain_that_was_tampered_with_is_told(self):
        self.a.sql("UPDATE svc.audit_records SET record = record || 'x' WHERE sequence = 2 AND tenant_id = 'default'")
        os.kill(self.a.child("svc-api"), signal.SIGKILL)  # the next pass is that of the next start
        until("the chain is known to be broken", lambda: self.a.is_ready() and
              self.one("svc_audit_chain_broken_tenants") == 1, 120)
        until("readiness tells", lambda: "audit_chain" in self.a.probe_get("/readyz").json.get("degraded", []))
        ready = self.a.probe_get("/readyz")
        self.assertEqual((ready.status, ready.json["checks"]["audit_chain"]), (200, "audit_chain_broken"))


if __name__ == "__main__":
    unittest.main()
