"""A key's life on the real appliance: prepared, active, replaced with an overlap, retired, destroyed by two persons; its
limits, its probe, its metrics; and what a crash, a rebuild and an upgrade make of it."""
import http.client
import json
import os
import secrets
import shutil
import signal
import threading
import unittest

from appliance import Appliance, all_records, digest_of, run, until
from signing import batch_body, execute, key_body, preview, previewed, sign
from test_key_certificates import Authority

KEYS = "/api/v1/keys"
TABLES = ("managed_keys", "key_uses", "key_claims", "approval_requests", "approval_decisions")
SOFTHSM = "/usr/lib/softhsm/libsofthsm2.so"


def dump(a, table):
    return a.sql(f"SELECT r FROM (SELECT to_jsonb(t)::text AS r FROM svc.{table} t) x ORDER BY r").split("\n")


class Case(unittest.TestCase):
    SETTINGS = {}
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("keylife", **cls.SETTINGS).start()

    @classmethod
    def tearDownClass(cls):
        cls.a.clean()

    def make(self, name=None, expect=201, token="OPERATOR", token_name=None, **more):
        body = {"name": name or "k-" + secrets.token_hex(4), "algorithm": "ec-p256", **more}
        if token_name:
            body["token"] = token_name
        answer = self.a.api("POST", KEYS, body, token=token, key=True)
        self.assertEqual(answer.status, expect, answer)
        return answer.json.get("key_id", answer.json.get("code"))

    def get(self, key_id):
        answer = self.a.api("GET", f"{KEYS}/{key_id}")
        self.assertEqual(answer.status, 200, answer)
        return answer.json

    def move(self, key_id, to, token="OPERATOR", version=None, key=True, **more):
        body = {"to": to, "reason": "test", "expected_version": version or self.get(key_id)["version"], **more}
        return self.a.api("POST", f"{KEYS}/{key_id}/transitions", body, token=token, key=key)

    def moved(self, key_id, to, **more):
        answer = self.move(key_id, to, **more)
        self.assertEqual(answer.status, 200, answer)
        return answer.json

    def metric(self, line):
        for row in self.a.probe_get("/metrics").body.decode().split("\n"):
            if row.startswith(line + " "):
                return float(row.rsplit(" ", 1)[1])
        return None

    def events(self, key_id, *types):
        return [r["type"] for r in all_records(self.a)
                if r["data"].get("key_id") == key_id and (not types or r["type"] in types)]


class KeyLifecycle(Case):
    SETTINGS = {"keys__probe_interval": "1s", "keys__destroy_approval": True, "http__threads": 160}

    def test_refusals_change_nothing(self):
        prepared, active = self.make("refused", prepare=True), self.make("refused")
        before = len(all_records(self.a))
        self.assertEqual(self.make("refused", expect=409), "already_exists")
        self.assertEqual(self.make("refused", expect=409, prepare=True), "already_exists")
        elsewhere = self.a.api("POST", KEYS, {"name": "x", "algorithm": "ec-p256", "token": "nowhere"}, key=True)
        self.assertEqual((elsewhere.status, elsewhere.json["pointer"]), (400, "/token"), elsewhere)
        for to, more, status, code in (("active", {}, 409, "key_not_active"), ("prepared", {}, 400, "json_field"),
                                       ("retired", {"version": 9}, 409, "conflict"),
                                       ("retired", {"token": "CI"}, 403, "forbidden"),
                                       ("retired", {"overlap": "soon"}, 400, "json_field"),
                                       ("retired", {"max_uses": 4}, 400, "json_field"),
                                       ("destroyed", {"overlap": "1h"}, 400, "json_field")):
            answer = self.move(active, to, **more)
            self.assertEqual((answer.status, answer.json["code"]), (status, code), answer)
        self.assertEqual(self.move(prepared, "retired").json["code"], "key_not_active")
        session = self.a.session("OPERATOR")
        self.assertEqual(preview(session, "key", key_body(prepared, digest_of(b"x"))).json["code"], "key_not_active")
        for role in ("tsa", "seal", "ca", "audit-export"):
            own = self.a.api("GET", f"{KEYS}?purpose={role}").json["items"][0]["key_id"]
            self.assertEqual(self.move(own, "retired").json["code"], "forbidden")
        self.assertEqual(len(all_records(self.a)), before)

    def test_the_client_walks_through_a_life(self):
        authority = Authority()
        self.addCleanup(authority.clean)
        old = json.loads(self.a.cli("keys", "create", "--name", "walk", "--algorithm", "ec-p256", "--json").stdout)
        new = json.loads(self.a.cli("keys", "create", "--name", "walk", "--algorithm", "ec-p256", "--prepare",
                                    "--max-uses", "7", "--not-after", "2090-01-01T00:00:00Z", "--json").stdout)["key_id"]
        artifact = f"{self.a.dir}/artifact"
        with open(artifact, "w") as f:
            f.write("hello")
        refused = self.a.cli("code-signing", "sign", artifact, "--key", new, "--yes", check=False)
        self.assertEqual(refused.returncode, 2, refused)
        self.assertIn("key_not_active", refused.stderr)
        # A certificate before the activation: the first signature comes with it.
        csr = self.a.cli("keys", "csr", new, "--subject", "CN=Walk,O=Acme").stdout
        leaf = authority.issue(csr)
        chain = f"{self.a.dir}/chain.pem"
        with open(chain, "wb") as f:
            f.write(run("openssl", "x509", "-inform", "DER", input=leaf, text=False).stdout)
            for name in ("middle.pem", "root.pem"):
                with open(authority.path(name), "rb") as part:
                    f.write(part.read())
        self.a.cli("keys", "certify", new, "--chain", chain)
        end = run("openssl", "x509", "-inform", "DER", "-noout", "-enddate", "-dateopt", "iso_8601", input=leaf,
                  text=False).stdout.decode().strip().split("=")[1].replace(" ", "T")
        self.assertEqual(self.get(new)["certificate_expires_at"][:19], end[:19])

        done = json.loads(self.a.cli("keys", "activate", new, "--overlap", "1h", "--reason", "yearly", "--json").stdout)
        self.assertEqual((done["state"], done["uses_left"], done["max_uses"]), ("active", 7, 7))
        was = self.get(old["key_id"])
        self.assertEqual((was["state"], was["replaced_by"], was["retire_reason"]), ("retiring", new, "yearly"))
        for key_id in (old["key_id"], new):
            self.a.cli("code-signing", "sign", artifact, "--key", key_id, "--yes")
        self.assertEqual(self.get(new)["uses_left"], 6)
        self.a.cli("keys", "retire", old["key_id"], "--reason", "all have moved")
        refused = self.a.cli("code-signing", "sign", artifact, "--key", old["key_id"], "--yes", check=False)
        self.assertEqual(refused.returncode, 2, refused)
        self.assertIn(new, refused.stderr) # where to go
        listed = json.loads(self.a.cli("keys", "list", "--name", "walk", "--state", "active", "--json").stdout)["items"]
        self.assertEqual([k["key_id"] for k in listed], [new])
        soon = self.a.cli("keys", "list", "--purpose", "codesign", "--expires-before", "2089-01-01T00:00:00Z").stdout
        self.assertIn(new, soon)
        text = self.a.cli("keys", "get", new).stdout
        for word in ("uses left", "6", "2090-01-01", "certified until"):
            self.assertIn(word, text)
        self.assertEqual(self.events(new, "key.activated"), ["key.activated"])

    def test_two_persons_destroy(self):
        key_id = self.make("pair")
        alone = self.a.cli("keys", "destroy", key_id, "--reason", "gone", check=False)
        self.assertEqual(alone.returncode, 2, alone)
        resource = next(word for word in alone.stderr.split() if word.startswith("approval_required:key-destroy:"))
        problem = self.move(key_id, "destroyed")
        self.assertEqual((problem.status, problem.json["code"], problem.json["resource"]),
                         (403, "approval_required", resource))
        self.assertEqual(self.a.cli("approvals", "approve", resource, check=False).returncode, 2)
        shown = self.a.cli("approvals", "list", "--waiting", token="APPROVER").stdout
        self.assertIn("destroy", shown)
        self.a.cli("approvals", "approve", resource, token="APPROVER")
        self.assertEqual(self.get(key_id)["state"], "active")
        done = json.loads(self.a.cli("keys", "destroy", key_id, "--reason", "gone", "--json").stdout)
        self.assertEqual(done["state"], "destroyed")
        until("it is erased", lambda: "key.erased" in self.events(key_id))

    def test_an_overlap_ends_by_itself(self):
        old, new = self.make("short"), self.make("short", prepare=True)
        self.moved(new, "active", overlap="1s")
        until("it is retired", lambda: self.get(old)["state"] == "retired")
        self.assertEqual(self.events(old, "key.retired"), ["key.retired"])
        body = key_body(old, digest_of(b"late"))
        self.assertEqual(preview(self.a.session("OPERATOR"), "key", body).json["code"], "key_not_active")

    def test_rotation_under_load_drops_no_request(self):
        self.make("busy")
        results, stop, rounds = [], threading.Event(), 3

        def work(n):
            session, i = self.a.session("OPERATOR"), 0
            while not stop.is_set():
                key_id = session.api("GET", f"{KEYS}?name=busy&state=active").json["items"][0]["key_id"]
                body = previewed(session, "key", key_body(key_id, digest_of(b"%d-%d" % (n, i))))
                answer = execute(session, "key", body)
                results.append((answer.status, key_id, answer.body[:200]))
                i += 1

        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        for t in threads:
            t.start()
        try:
            keys = {self.a.api("GET", f"{KEYS}?name=busy&state=active").json["items"][0]["key_id"]}
            for _ in range(rounds):
                seen = len(results)
                until("work goes on", lambda seen=seen: len(results) > seen + 20, 120)
                new = self.make("busy", prepare=True)
                self.moved(new, "active", overlap="1h")
                keys.add(new)
            seen = len(results)
            until("work goes on", lambda: len(results) > seen + 20, 120)
        finally:
            stop.set()
            for t in threads:
                t.join()
        self.assertEqual([r for r in results if r[0] != 200], [])
        self.assertEqual({r[1] for r in results}, keys)
        for key_id in keys:
            self.assertEqual(self.get(key_id)["uses"], sum(r[1] == key_id for r in results))

    def test_many_at_once_get_exactly_the_limit(self):
        key_id, answers = self.make(max_uses=10), []
        body = previewed(self.a.session("OPERATOR"), "key", key_body(key_id, digest_of(b"limit")))
        go = threading.Event()

        def work():
            session = self.a.session("OPERATOR")
            go.wait()
            answers.append(execute(session, "key", body))

        threads = [threading.Thread(target=work) for _ in range(64)]
        for t in threads:
            t.start()
        go.set()
        for t in threads:
            t.join()
        codes = [a.status if a.status == 200 else a.json["code"] for a in answers]
        self.assertEqual((codes.count(200), codes.count("key_exhausted")), (10, 54), codes)
        key = self.get(key_id)
        self.assertEqual((key["uses"], key["uses_left"]), (10, 0))
        signed = [r for r in all_records(self.a) if r["type"] == "codesign.signed" and r["data"]["key_id"] == key_id]
        self.assertEqual(len(signed), 10)
        refused = [r for r in all_records(self.a) if r["data"].get("code") == "key_exhausted"]
        self.assertEqual({r["type"] for r in refused} - {"codesign.refused"}, set())
        until("it is probed all the same", lambda: self.get(key_id).get("probe", {}).get("ok"))
        self.assertEqual(self.get(key_id)["uses"], 10)
        # A batch is signed whole or not at all.
        limited = self.make(max_uses=2)
        answer = preview(self.a.session("OPERATOR"), "batch", batch_body(limited, [digest_of(b"%d" % i) for i in range(3)]))
        self.assertEqual(answer.json["code"], "key_exhausted")
        self.assertEqual(self.get(limited)["uses_left"], 2)

    def test_moves_survive_kills_and_happen_once(self):
        current = self.make("crash")
        for n in range(5):
            new, command = self.make("crash", prepare=True), secrets.token_hex(8)
            version = self.get(new)["version"]
            killer = threading.Timer(0.004 * n, lambda: os.kill(self.a.child("svc-api"), signal.SIGKILL))
            killer.start()

            def settled():
                try:
                    answer = self.a.api("POST", f"{KEYS}/{new}/transitions",
                                        {"to": "active", "reason": f"round {n}", "expected_version": version,
                                         "overlap": "1h"}, key=command)
                except (OSError, http.client.HTTPException):
                    return None # it died, or is not back yet
                if answer.json.get("code") == "idempotency_in_progress": # of the one who died; it is given up in time
                    self.a.sql("UPDATE svc.idempotency_keys SET claimed_us = claimed_us - 601000000"
                               " WHERE state = 'in_progress'")
                    return None
                return None if answer.status in (429, 502, 503, 504) else answer

            answer = until("the move is answered", settled, 180)
            killer.join()
            until("it is ready", self.a.is_ready, 120)
            self.assertEqual(answer.status, 200, answer)
            self.assertEqual(self.events(new, "key.activated"), ["key.activated"])
            self.assertEqual((self.get(new)["state"], self.get(current)["state"]), ("active", "retiring"))
            self.assertEqual(self.get(current)["replaced_by"], new)
            current = new
        self.assertEqual(sign(self.a.session("OPERATOR"), "key", key_body(current, digest_of(b"on"))).status, 200)

    def test_a_key_that_is_gone_from_the_token_is_found_and_named(self):
        key_id = self.make("victim")
        until("it is probed", lambda: self.get(key_id).get("probe", {}).get("ok"))
        with open(f"{self.a.dir}/data/signer/pin") as f:
            pin = f.read().strip()
        label = f"svc/1/default/codesign/ec-p256/{key_id}"
        for kind in ("privkey", "pubkey"):
            run("pkcs11-tool", "--module", SOFTHSM, "--token-label", "svc", "--login", "--pin", pin, "--delete-object",
                "--type", kind, "--label", label,
                env={**os.environ, "SOFTHSM2_CONF": f"{self.a.dir}/data/softhsm/softhsm2.conf"})
        until("the probe finds out", lambda: self.get(key_id)["probe"]["ok"] is False)
        self.assertEqual(self.get(key_id)["probe"]["code"], "key_not_found")
        until("it is recorded", lambda: self.events(key_id, "key.probe_failed") == ["key.probe_failed"])
        until("readiness has it", lambda: self.a.probe_get("/readyz").json["checks"]["key_probes"] == "key_not_found")
        ready = self.a.probe_get("/readyz")
        self.assertEqual(ready.status, 200, ready)
        self.assertIn("key_probes", ready.json["degraded"])
        self.assertEqual(self.metric('svc_signer_probe_failing_keys{purpose="codesign"}'), 1)
        self.assertGreater(self.metric('svc_signer_probes_total{purpose="codesign",result="failed"}'), 0)
        # What is retired is not probed any more.
        self.moved(key_id, "retired")
        until("all is well", lambda: self.a.probe_get("/readyz").json["checks"]["key_probes"] == "ok")
        self.assertEqual(self.events(key_id, "key.probe_failed"), ["key.probe_failed"])

    def test_metrics_tell_of_signer_and_keys(self):
        session = self.a.session("OPERATOR")
        self.assertEqual(sign(session, "key", key_body(self.make(), digest_of(b"metrics"))).status, 200)
        row = 'svc_signer_operations_total{purpose="codesign",operation="sign",outcome="ok"}'
        before = until("signings are counted", lambda: self.metric(row))
        for name in ("svc_signer_up", "svc_signer_journal_usable"):
            self.assertEqual(self.metric(name), 1)
        self.assertGreater(self.metric("svc_signer_journal_bytes"), 0)
        self.assertIsNotNone(self.metric("svc_signer_queue_requests"))
        text = self.a.probe_get("/metrics").body.decode()
        for name in ("svc_signer_sessions_open", "svc_signer_sessions_in_use", "svc_signer_sessions_set_aside",
                     "svc_signer_token_state", "svc_signer_module_refusals_total", "svc_signer_recoveries_total",
                     "svc_signer_probe_last_success_timestamp_seconds", "svc_signer_probes_total"):
            self.assertIn(f"# TYPE {name} ", text)
        until("keys are counted", lambda: self.metric('svc_signer_keys{purpose="seal",state="active"}') == 1)
        until("the authority's certificate is seen",
              lambda: (self.metric('svc_signer_key_certificate_expiry_timestamp_seconds{purpose="tsa"}') or 0) > 0)
        # Another process of the signer begins to count anew; the sum goes on.
        old = self.a.child("svc-signer")
        os.kill(old, signal.SIGKILL)
        until("a new signer", lambda: [p for p in self.a.pids("svc-signer") if p != old], 60)
        until("it is ready", self.a.is_ready, 60)
        self.assertEqual(sign(session, "key", key_body(self.make(), digest_of(b"metrics 2"))).status, 200)
        until("it goes on", lambda: self.metric(row) > before)

    def test_z_rebuild_gives_the_same_rows(self):
        self.a.stop()
        self.a.settings["keys.probe_interval"] = "0s" # nothing is recorded between the two looks
        self.a.start()
        self.assertEqual(sign(self.a.session("OPERATOR"), "key", key_body(self.make(max_uses=3), digest_of(b"r"))).status, 200)
        before = {table: dump(self.a, table) for table in TABLES}
        self.a.stop()
        self.a.appliance("rebuild")
        self.a.start()
        self.assertEqual({table: dump(self.a, table) for table in TABLES}, before)


class Tokens(Case):
    """A second token beside the first one, in the same module."""
    SETTINGS = {"keys__probe_interval": "1s"}

    def user(self, *command):
        return run("setpriv", "--reuid=svc-signer", "--regid=svc-signer", "--clear-groups", *command,
                   env={**os.environ, "SOFTHSM2_CONF": f"{self.a.dir}/data/softhsm/softhsm2.conf"}).stdout

    def test_a_key_lives_and_dies_in_the_token_that_was_named(self):
        before = self.make("both")
        self.a.stop()
        folder = f"{self.a.dir}/data/signer"
        self.user("softhsm2-util", "--init-token", "--free", "--label", "second", "--pin", "2222-second", "--so-pin",
                  "so-2222-second")
        with open(f"{folder}/pin2", "w") as f:
            f.write("2222-second\n")
        shutil.chown(f"{folder}/pin2", "svc-signer", "svc-signer")
        os.chmod(f"{folder}/pin2", 0o600)
        with open(f"{self.a.dir}/tokens.yaml", "w") as f:
            f.write(f"tokens:\n  - name: main\n    label: svc\n    pin_file: {folder}/pin\n"
                    f"  - name: backup\n    label: second\n    pin_file: {folder}/pin2\n")
        self.a.settings["token.tokens_file"] = f"{self.a.dir}/tokens.yaml"
        self.a.start()
        nowhere = self.a.api("POST", KEYS, {"name": "x", "algorithm": "ec-p256", "token": "third"}, key=True)
        self.assertEqual((nowhere.status, nowhere.json["pointer"]), (400, "/token"), nowhere)
        self.assertIn("main, backup", nowhere.json["detail"])
        keys = {name: self.make(token_name=name) for name in ("main", "backup")}
        session = self.a.session("OPERATOR")
        for key_id in (before, *keys.values()): # keys from before are in the first one
            self.assertEqual(sign(session, "key", key_body(key_id, digest_of(b"t"))).status, 200)
            until("it is probed", lambda key_id=key_id: self.get(key_id).get("probe", {}).get("ok"))
        there = self.user("pkcs11-tool", "--module", SOFTHSM, "--token-label", "second", "--login", "--pin",
                          "2222-second", "--list-objects")
        self.assertIn(keys["backup"], there)
        self.assertNotIn(keys["main"], there)
        csr = session.api("POST", f"{KEYS}/{keys['backup']}/csr", {"subject": "CN=Backup"}, key=True)
        self.assertEqual(csr.status, 200, csr)
        for name in ("main", "backup"):
            until(f"{name} is shown", lambda name=name: self.metric(
                f'svc_signer_token_state{{token="{name}",state="ok"}}') == 1)
        self.moved(keys["backup"], "destroyed")
        until("it is erased", lambda: "key.erased" in self.events(keys["backup"]))
        self.assertNotIn(keys["backup"], self.user("pkcs11-tool", "--module", SOFTHSM, "--token-label", "second",
                                                   "--login", "--pin", "2222-second", "--list-objects"))


class Upgrade(Case):
    """The tables as they were before keys had a life, with rows; the migration must find what a rebuild would."""
    SETTINGS = {"keys__probe_interval": "0s"}

    def old_rows(self, table):
        """Those that could have been there before: keys that the authority prepared and activated could not."""
        return [r for r in dump(self.a, table) if '"purpose": "tsa"' not in r]

    def test_existing_keys_are_active_and_keep_what_they_did(self):
        authority = Authority()
        self.addCleanup(authority.clean)
        session, key_id = self.a.session("OPERATOR"), self.make("veteran")
        for n in range(3):
            self.assertEqual(sign(session, "key", key_body(key_id, digest_of(b"%d" % n))).status, 200)
        csr = session.api("POST", f"{KEYS}/{key_id}/csr", {"subject": "CN=Veteran"}, key=True).json["csr_pem"]
        for days in ("10", "12000"): # UTCTime, then GeneralizedTime, and that stays
            chain = authority.chain(authority.issue(csr, "basicConstraints=critical,CA:FALSE\n", "middle", "-days", days))
            done = session.api("POST", f"{KEYS}/{key_id}/certificates", {
                "certificate_chain": chain[:1], "expected_version": self.get(key_id)["version"]}, key=True)
            self.assertEqual(done.status, 200, done)
        query = run("openssl", "ts", "-query", "-data", "/dev/stdin", "-sha256", input=b"x", text=False).stdout
        for _ in range(4):
            self.assertEqual(self.a.tsa(query).status, 200)
        stamps = f"SELECT sum(uses) FROM svc.key_uses u JOIN svc.managed_keys k USING (tenant_id, key_id) WHERE purpose = 'tsa'"
        until("stamps are counted", lambda: self.a.sql(stamps) == "4")
        before = {table: self.old_rows(table) for table in TABLES}
        old = self.get(key_id)
        self.assertEqual((old["uses"], old["certificate_expires_at"][:2]), (3, "20"))
        columns = ("token max_uses claimed not_after_us activated_us retires_us retired_us retire_reason replaced_by "
                   "move_command certificate_not_after_us probe_code probe_us").split()
        self.a.sql("BEGIN; " + "".join(f"ALTER TABLE svc.managed_keys DROP COLUMN {c}; " for c in columns) +
                   "DROP INDEX svc.managed_keys_name; DROP TABLE svc.key_uses, svc.key_claims; "
                   "DELETE FROM svc.tables WHERE name IN ('key_uses', 'key_claims'); "
                   "DELETE FROM svc.schema_migrations WHERE version = 80; COMMIT")
        self.a.stop()
        self.a.start()
        self.assertEqual({table: self.old_rows(table) for table in TABLES}, before)
        self.assertEqual(self.get(key_id), old)
        self.assertEqual(sign(self.a.session("OPERATOR"), "key", key_body(key_id, digest_of(b"on"))).status, 200)
        self.a.stop()
        self.a.appliance("rebuild")
        self.a.start()
        self.assertEqual(self.get(key_id)["uses"], 4)


if __name__ == "__main__":
    unittest.main()
