"""Audit feeds of a real appliance: every kind of collector, strict about its wire format, and rsyslog's own receiver."""
import json
import os
import signal
import subprocess
import sys
import unittest

import certificates
from appliance import SRC, Appliance, free_port, run, until

sys.path.insert(0, f"{SRC}/tests/feeds")
import collectors  # noqa: E402

FEEDS = "/api/v1/audit/feeds"
SECRETS = {"FEED_HEC": "hec-secret-2f1b", "FEED_AZ_ID": "app id/7", "FEED_AZ_KEY": "az+secret=9&c", "FEED_BAD": "wrong-7c"}
SERVER = ("basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth\n"
          "subjectAltName=DNS:localhost,IP:127.0.0.1\nauthorityKeyIdentifier=keyid\n")
CLIENT = "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=clientAuth\n"
RSYSLOG = """global(workDirectory="{dir}" maxMessageSize="64k" defaultNetstreamDriver="ossl"
  defaultNetstreamDriverCAFile="{dir}/ca.pem" defaultNetstreamDriverCertFile="{dir}/server.pem"
  defaultNetstreamDriverKeyFile="{dir}/server.key")
module(load="imtcp" streamDriver.name="ossl" streamDriver.mode="1" streamDriver.authMode="anon")
template(name="raw" type="string" string="%structured-data% %msg%\\n")
action(type="omfile" file="{dir}/got" template="raw")
input(type="imtcp" port="{port}" address="127.0.0.1")
"""


class Pki:
    """A root, and certificates of a server and a client under it, as files."""

    def __init__(self):
        self.shop = certificates.Workshop()
        self.dir = self.shop.dir
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                     "ca.key", "-out", "ca.pem", "-subj", "/CN=feeds", "-days", "2")
        for name, extensions in (("server", SERVER), ("client", CLIENT)):
            with open(f"{self.dir}/{name}.ext", "w") as f:
                f.write(extensions)
            self.openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                         f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
            self.openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                         "-out", f"{name}.pem", "-days", "2", "-extfile", f"{name}.ext")
            with open(f"{self.dir}/{name}.both", "w") as out:
                for part in (f"{name}.key", f"{name}.pem"):
                    with open(f"{self.dir}/{part}") as f:
                        out.write(f.read())
        run("chmod", "644", *[f"{self.dir}/{f}" for f in os.listdir(self.dir)])
        with open(f"{self.dir}/ca.pem") as f:
            self.ca = f.read()

    def openssl(self, *args):
        run("openssl", *args, cwd=self.dir)


class AuditFeeds(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pki = Pki()
        cls.addClassCleanup(cls.pki.shop.clean)
        both = f"{cls.pki.dir}/server.both"
        cls.hec = collectors.Hec(SECRETS["FEED_HEC"], both)
        cls.azure = collectors.Azure(SECRETS["FEED_AZ_ID"], SECRETS["FEED_AZ_KEY"], both)
        cls.syslog = collectors.Syslog(both, client_ca=f"{cls.pki.dir}/ca.pem")
        for collector in (cls.hec, cls.azure, cls.syslog):
            cls.addClassCleanup(collector.close)
        cls.rsyslog_port = free_port()
        allow = [f"localhost:{cls.hec.port}=FEED_HEC+FEED_BAD", f"localhost:{cls.azure.port}=FEED_AZ_ID+FEED_AZ_KEY",
                 f"localhost:{cls.syslog.port}", f"localhost:{cls.rsyslog_port}"]
        cls.a = Appliance("feeds", audit__feeds__allow=[f'"{entry}"' for entry in allow],
                          audit__feeds__tls_certificate_file=f"{cls.pki.dir}/client.pem",
                          audit__feeds__tls_key_file=f"{cls.pki.dir}/client.key")
        cls.a.environment = SECRETS
        cls.addClassCleanup(cls.a.clean)
        cls.a.start()
        cls.configs = {
            "hec": {"kind": "hec", "url": f"https://localhost:{cls.hec.port}", "credential": "env:FEED_HEC",
                    "index": "audit", "ca_pem": cls.pki.ca},
            "azure": {"kind": "azure-monitor", "url": f"https://localhost:{cls.azure.port}", "ca_pem": cls.pki.ca,
                      "credential": "env:FEED_AZ_KEY", "client_id": "env:FEED_AZ_ID", "rule_id": "dcr-0123",
                      "token_url": f"https://localhost:{cls.azure.port}/tenant/oauth2/v2.0/token",
                      "stream": "Custom-SvcAudit"},
            "syslog": {"kind": "syslog", "url": f"tls://localhost:{cls.syslog.port}", "ca_pem": cls.pki.ca,
                       "client_certificate": True},
            "rsyslog": {"kind": "syslog", "url": f"tls://localhost:{cls.rsyslog_port}", "ca_pem": cls.pki.ca},
        }

    def put(self, feed, **change):
        config = {k: v for k, v in {**self.configs[feed.split("-")[0]], **change}.items() if v is not None}
        return self.a.api("PUT", f"{FEEDS}/{feed}", config, key=True)

    def status(self, feed):
        answer = self.a.api("GET", FEEDS, token="AUDITOR")
        self.assertEqual(answer.status, 200, answer)
        return next((f for f in answer.json["items"] if f["feed_id"] == feed), None)

    def head(self):
        """The newest record that is not about feeds: those that are go along, but wait for another one."""
        records = self.a.api("GET", "/api/v1/audit/records?limit=100", token="AUDITOR").json["records"]
        return next(r["record"]["sequence"] for r in records if not r["record"]["type"].startswith("audit.feed."))

    def wait(self, feed, state, least=0):
        def there():
            found = self.status(feed)
            return found if found["state"] == state and found["last_delivered_sequence"] >= least else None
        try:
            return until(f"{feed} is {state}", there)
        except AssertionError as e:
            raise AssertionError(f"{e}: {self.status(feed)}\n{self.a.tail(20)}") from None

    def happen(self):
        """Something worth a record."""
        answer = self.a.api("POST", "/api/v1/tokens", {"subject": "somebody", "roles": ["ci"], "ttl_seconds": 60},
                            token="ADMIN", key=True)
        self.assertEqual(answer.status, 201, answer)
        return self.head()

    def test_1_who_may_and_what_is_refused(self):
        config = self.configs["hec"]
        self.assertEqual(self.a.api("PUT", f"{FEEDS}/x", config, token="AUDITOR", key=True).status, 403)
        self.assertEqual(self.a.api("POST", f"{FEEDS}/x/preview", config, token="AUDITOR").status, 403)
        self.assertEqual(self.a.api("GET", FEEDS, token="CI").status, 403)
        for change, code in (({"credential": "hec-secret"}, "audit_feed_config"),
                             ({"credential": "env:PATH"}, "audit_feed_destination"),
                             ({"url": "https://elsewhere.example"}, "audit_feed_destination"),
                             ({"url": f"http://192.0.2.1:{self.hec.port}"}, "audit_feed_config"),
                             ({"kind": "kafka"}, "audit_feed_config"), ({"enabled": "yes"}, "json_field"),
                             ({"from_sequence": 10**9}, "audit_feed_config"), ({"more": 1}, "json_field")):
            with self.subTest(change=change):
                answer = self.put("hec", **change)
                self.assertEqual(answer.json["code"], code, answer)
        self.assertEqual(self.a.api("PUT", f"{FEEDS}/Not_an_id", config, key=True).json["code"], "audit_feed_config")
        self.assertEqual(self.a.api("POST", f"{FEEDS}/nobody/pause", key=True).status, 404)

    def test_2_preview_tells_all_and_does_nothing(self):
        before = self.head()
        answer = self.a.api("POST", f"{FEEDS}/hec/preview", self.configs["hec"])
        self.assertEqual(answer.status, 200, answer)
        told = answer.json
        self.assertEqual(told["host"], f"localhost:{self.hec.port}")
        self.assertEqual(told["credentials"], [{"reference": "env:FEED_HEC", "set": True}])
        self.assertEqual((told["credential"], told["permission"], told["version"]), ("env:FEED_HEC", "audit:write", 1))
        for name in ("writes", "later_effect", "proof", "recovery"):
            self.assertTrue(told[name])
        path = f"{self.a.dir}/feed.json"
        with open(path, "w") as f:
            json.dump(self.configs["hec"], f)
        self.assertIn("env:FEED_HEC", self.a.cli("audit", "feeds", "preview", "hec", "-f", path).stdout)
        self.assertIsNone(self.status("hec"))
        self.assertEqual(self.head(), before)
        self.assertEqual((self.hec.bodies, self.hec.asked), ([], 0))

    def test_3_every_kind_gets_every_record(self):
        for feed in ("hec", "azure", "syslog"):
            answer = self.put(feed)
            self.assertEqual((answer.status, answer.json.get("version")), (200, 1), answer)
        for feed, collector in (("hec", self.hec), ("azure", self.azure), ("syslog", self.syslog)):
            with self.subTest(feed):
                head = self.happen()
                status = self.wait(feed, "delivered", head)
                self.assertEqual(collector.errors, [])
                self.assertEqual(collector.sequences[:head], list(range(1, head + 1)))
                self.assertEqual((status["lag_records"], status["attempts"], status["next_attempt_at"],
                                  status["last_error_code"]), (0, 0, None, None))
        self.assertEqual(self.status("azure")["collector_request_id"], "azure-204")
        self.assertEqual(self.azure.tokens, ["token-0"])  # kept
        listed = self.a.cli("audit", "feeds", "list", token="AUDITOR").stdout
        self.assertIn("azure-monitor", listed)
        metrics = self.a.probe_get("/metrics").body.decode()
        self.assertIn('svc_audit_feed_records_total{kind="syslog"}', metrics)
        self.assertIn('svc_audit_feed_state{feed="default/hec",state="delivered"} 1', metrics)

    def test_4_patience_refusal_and_another_start(self):
        self.azure.tokens.append("revoked")  # the one that is kept is good no more: another one is asked for
        self.wait("azure", "delivered", self.happen())
        self.assertEqual(len(self.azure.tokens), 3)
        self.azure.mode = "429"
        self.hec.mode = "403"
        last = self.happen()
        retrying = self.wait("azure", "retrying")
        self.assertEqual((retrying["last_error_code"], retrying["collector_request_id"]), ("collector_busy", "azure-429"))
        self.assertTrue(retrying["next_attempt_at"] and retrying["lag_records"] > 0)
        failed = self.wait("hec", "failed")
        self.assertEqual((failed["last_error_code"], failed["collector_request_id"], failed["next_attempt_at"]),
                         ("credential_refused", "req-7", None))
        ready = self.a.probe_get("/readyz")
        self.assertEqual(ready.status, 200)
        self.assertEqual(until("the feed is told of", lambda: "audit_feeds" in self.a.probe_get("/readyz").body.decode()),
                         True)
        self.azure.mode = self.hec.mode = ""
        os.kill(self.a.child("svc-api"), signal.SIGKILL)  # the open batch survives it
        until("it is back", self.a.is_ready, 60)
        self.wait("azure", "delivered", last)
        self.assertEqual(self.status("hec")["state"], "failed")
        self.a.cli("audit", "feeds", "resume", "hec")
        self.assertEqual(self.wait("hec", "delivered", last)["version"], 2)
        self.assertEqual((self.hec.errors, self.azure.errors), ([], []))

    def test_5_a_connection_that_ends_badly_is_no_delivery(self):
        for mode in ("cut", "silent"):
            with self.subTest(mode):
                self.syslog.mode = mode
                last = self.happen()
                self.assertEqual(self.wait("syslog", "retrying")["last_error_code"], "connection_not_closed_cleanly")
                self.syslog.mode = ""
                self.wait("syslog", "delivered", last)
        self.assertEqual(self.put("syslog-strange", ca_pem=None).status, 200)  # the machine's authorities: not ours
        self.assertEqual(self.wait("syslog-strange", "retrying")["last_error_code"], "collector_unreachable")
        self.assertEqual(self.put("syslog-named", server_name="another.example").status, 200)
        self.assertEqual(self.wait("syslog-named", "retrying")["last_error_code"], "collector_unreachable")
        for feed in ("syslog-strange", "syslog-named"):
            self.a.cli("audit", "feeds", "pause", feed)
            self.assertEqual(self.status(feed)["state"], "paused")
        self.assertEqual(self.syslog.errors, [])

    def test_6_rsyslog_takes_it(self):
        where = self.pki.dir
        with open(f"{where}/rsyslog.conf", "w") as f:
            f.write(RSYSLOG.format(dir=where, port=self.rsyslog_port))
        daemon = subprocess.Popen(["rsyslogd", "-n", "-f", f"{where}/rsyslog.conf", "-i", f"{where}/rsyslog.pid"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.kill)
        self.assertEqual(self.put("rsyslog").status, 200)
        head = self.happen()
        self.wait("rsyslog", "delivered", head)

        def got():
            try:
                with open(f"{where}/got") as f:
                    lines = f.read().splitlines()
            except FileNotFoundError:
                return None
            records = {json.loads(line.partition("] ")[2])["sequence"]: line for line in lines if "part=" in line}
            return records if len(records) >= head else None

        records = until("rsyslog wrote them", got)
        self.assertEqual(sorted(records)[:head], list(range(1, head + 1)))
        self.assertTrue(all(line.startswith("[svcAudit@32473 batch=") for line in records.values()))

    def test_7_no_secret_was_kept(self):
        kept = self.a.sql("SELECT string_agg(record::text, '') FROM (SELECT convert_from(record, 'UTF8') AS record"
                          " FROM svc.audit_records) r") + self.a.sql("SELECT string_agg(config, '') FROM svc.audit_feeds")
        with open(self.a.log_path, errors="replace") as f:
            kept += f.read()
        for secret in SECRETS.values():
            self.assertNotIn(secret, kept)
        self.assertIn("env:FEED_HEC", kept)


if __name__ == "__main__":
    unittest.main()
