"""An empty machine becomes the service again from a backup of the log and the token; the read model comes back from a
snapshot to the same bytes as from the whole log; and kill -9 in each of it."""
import base64
import glob
import hashlib
import hmac
import json
import os
import pwd
import shutil
import stat
import subprocess
import threading
import unittest

from appliance import Appliance, all_records, digest_of, make_key, openssl_verifies, run, sign_body, until
from failpoints import DEBUG_BIN, Failpoints, names_in
from stamping import granted, query

NAME = "marie.dubois"
ERASURES = "/api/v1/privacy/erasures"
PACK = "/api/v1/compliance/evidence-packs/soc2"
POSTGRES = glob.glob("/usr/lib/postgresql/*/bin/postgres")[0]


def own(a, *folders):
    user = pwd.getpwnam("svc-api")
    for folder in folders:
        os.mkdir(folder, 0o700)
        os.chown(folder, user.pw_uid, user.pw_gid)


def sign(session, key_id, data, key=True, body=None):
    answer = session.api("POST", "/api/v1/code-signing/sign", body or sign_body(session, key_id, digest_of(data)), key=key)
    assert answer.status == 200, answer
    return answer


class Stopped:
    """The database of an appliance that is stopped, looked at by itself."""

    def __init__(self, a):
        self.a = a

    def __enter__(self):
        self.socket = f"{self.a.dir}/look"
        os.makedirs(self.socket, exist_ok=True)
        shutil.chown(self.socket, "svc-pg", "svc-pg")
        self.process = subprocess.Popen(
            ["setpriv", "--reuid=svc-pg", "--regid=svc-pg", "--clear-groups", POSTGRES, "-D", f"{self.a.dir}/data/postgres",
             "-c", "listen_addresses=", "-c", f"unix_socket_directories={self.socket}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until("the database runs", lambda: self.sql("SELECT 1", check=False).stdout.strip() == "1", 60)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)

    def sql(self, statement, check=True):
        return run("setpriv", "--reuid=svc-pg", "--regid=svc-pg", "--clear-groups", "psql", "-X", "-At", "-h", self.socket,
                   "-U", "postgres", "-d", "svc", "-v", "ON_ERROR_STOP=1", "-c", statement, check=check)

    def dump(self):
        """Every table that projections write, and the copies: name to digest of all rows."""
        tables = self.sql("SELECT name FROM svc.projection_tables ORDER BY 1").stdout.split() + ["event_envelopes"]
        one = "SELECT '{0}', count(*), md5(coalesce(string_agg(md5(t::text), '' ORDER BY md5(t::text)), '')) FROM svc.{0} t"
        return self.sql(" UNION ALL ".join(one.format(table) for table in tables)).stdout


def without_copies(text):
    return [line for line in text.split("\n") if not line.startswith("event_envelopes|")]


def dump(a):
    with Stopped(a) as stopped:
        return stopped.dump()


class Snapshots(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = a = Appliance("snapshots", bin=DEBUG_BIN)
        cls.addClassCleanup(a.clean)
        a.settings["snapshots.dir"] = cls.dir = f"{a.dir}/snapshots"
        a.settings["snapshots.interval"] = "24h"
        own(a, cls.dir)
        cls.points = Failpoints(a)
        a.start()

    def files(self):
        return sorted(glob.glob(f"{self.dir}/read-model-*.snapshot"))

    def snapshot(self):
        return json.loads(self.a.appliance("snapshot", "--json").stdout)

    def with_points(self, *args, at):
        self.points.arm(at)
        done = run(f"{self.a.bin}/svc-appliance", *args, "--config", self.a.config, check=False,
                   env={**os.environ, **self.a.environment})
        self.assertTrue(self.points.struck(), f"nobody came to {at}\n{done.stderr}")
        self.assertNotEqual(done.returncode, 0)
        return done

    def refused(self, path, word):
        done = self.a.appliance("rebuild", "--from-snapshot", path, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(word, done.stderr)

    def test_a_snapshot_is_worth_the_whole_log(self):
        a = self.a
        self.assertTrue({"snapshot.before_rename", "snapshot.before_loaded"} <= names_in("svc-api"), "no failpoints")
        until("the leader writes the first one by itself", self.files, 60)
        token = json.loads(a.appliance("token", "create", "--subject", NAME, "--role", "operator", "--role", "admin", "--ttl",
                                       "1h", "--json").stdout)
        a.env["SVC_TOKEN_MARIE"] = token["token"]
        a.appliance("tenant", "create", "other")
        session = a.session("MARIE")
        key_id = make_key(a, name=f"key-of-{NAME}", token="MARIE")
        sign(session, key_id, b"one")
        # Whoever dies while writing leaves nothing that counts.
        self.with_points("snapshot", at="snapshot.before_rename")
        self.assertTrue(os.path.exists(f"{self.dir}/.read-model.new"))
        made = self.snapshot()
        self.assertFalse(os.path.exists(f"{self.dir}/.read-model.new"))
        self.assertIn(made["path"], self.files())
        self.assertEqual(stat.S_IMODE(os.stat(made["path"]).st_mode), 0o600)
        self.assertEqual(os.path.getsize(made["path"]), made["bytes"])
        metrics = a.probe_get("/metrics").body.decode()
        self.assertRegex(metrics, r"svc_read_model_snapshots_written_total [1-9]")
        self.assertRegex(metrics, r"svc_read_model_snapshot_last_success_timestamp_seconds [1-9]")
        self.assertRegex(metrics, r"svc_read_model_snapshot_failures_total 0")
        for n in range(3):
            sign(session, key_id, b"more %d" % n)
        session.close()
        self.bad = f"{a.dir}/bad"
        own(a, self.bad)
        self.every_bad_file_is_refused(made["path"])
        a.stop()

        a.appliance("rebuild")
        whole = dump(a)
        self.assertIn("audit_records", whole)
        done = json.loads(a.appliance("rebuild", "--from-snapshot", "latest", "--json").stdout)
        with Stopped(a) as stopped:
            self.assertEqual(stopped.dump(), whole)
            last = int(stopped.sql("SELECT stream_seq FROM svc.projection_checkpoint").stdout)
            rls = stopped.sql("SELECT count(*) FROM pg_class c JOIN svc.tables t ON t.name = c.relname AND c.relnamespace ="
                              " 'svc'::regnamespace WHERE t.worker_scope <> 'none' AND NOT c.relforcerowsecurity").stdout
            self.assertEqual(rls.strip(), "0")
            # An empty database, and what is no projection gone as well: the copies come back from the log.
            stopped.sql("DELETE FROM svc.event_envelopes")
        self.assertEqual(done["messages"], last - made["checkpoint"])
        self.assertGreater(done["messages"], 0)

        # Refused, and nothing is emptied; killed before the end, and nothing is either.
        self.refused(f"{self.bad}/rolling", "snapshot_mismatch")
        self.with_points("rebuild", "--from-snapshot", made["path"], at="snapshot.before_loaded")
        self.assertEqual(without_copies(dump(a)), without_copies(whole))
        a.appliance("rebuild", "--from-snapshot", made["path"])
        self.assertEqual(dump(a), whole)
        a.start()
        self.erase(token["token_id"], made["path"], self.bad)

    def every_bad_file_is_refused(self, path):
        """Damaged, of another key; and, signed by our own key, of another log, schema or version."""
        a = self.a
        with open(path, "rb") as f:
            good = f.read()
        with open(f"{a.dir}/data/api/fingerprint.key", "rb") as f:
            key = f.read().strip()

        def signed(body):
            digest = hashlib.sha256(body).digest()
            return body + b"E" + digest + hmac.digest(key, b"svc.read-model.snapshot.v1\0" + digest, "sha256")

        def other(name):
            at = good.index(b'"%s":"' % name) + len(name) + 4
            return signed(good[:at] + (b"0" if good[at:at + 1] != b"0" else b"1") + good[at + 1:-65])

        self.assertEqual(signed(good[:-65]), good)
        wrong = {"byte": (good[:-200] + bytes([good[-200] ^ 1]) + good[-199:], "snapshot_invalid"),
                 "cut": (good[:-1], "snapshot_invalid"), "mac": (good[:-1] + bytes([good[-1] ^ 1]), "snapshot_invalid"),
                 "rolling": (other(b"rolling"), "snapshot_mismatch"), "schema": (other(b"schema"), "snapshot_mismatch"),
                 "version": (other(b"version"), "snapshot_mismatch"), "stream": (other(b"stream"), "snapshot_mismatch")}
        for name, (data, word) in wrong.items():
            with self.subTest(name):
                with open(f"{self.bad}/{name}", "wb") as f:
                    f.write(data)
                shutil.chown(f"{self.bad}/{name}", "svc-api")
                done = run("setpriv", "--reuid=svc-api", "--regid=svc-api", "--clear-groups", f"{a.bin}/svc-api",
                           "check-snapshot", f"{self.bad}/{name}", "--config", a.config, check=False)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(word, done.stderr)

    def erase(self, token_id, path, folder):
        """What was made before an erasure goes with it, and a copy of it is of no use."""
        a = self.a
        kept = f"{folder}/kept"
        shutil.copyfile(path, kept)
        shutil.chown(kept, "svc-api")
        with open(kept, "rb") as f:
            self.assertIn(NAME.encode(), f.read())
        a.appliance("token", "revoke", token_id, "--reason", "left")
        preview = a.api("POST", f"{ERASURES}/preview", {"subject": NAME})
        body = {"subject": NAME, "preview_fingerprint": preview.json["preview_fingerprint"], "reason": "asked by letter"}
        first = a.api("POST", ERASURES, body, key=True)
        a.cli("approvals", "approve", first.json["resource"], token="APPROVER")
        asked = a.api("POST", ERASURES, body, key=True)
        self.assertEqual(asked.status, 202, asked)
        where = f"{ERASURES}/{asked.json['erasure_id']}"
        until("the erasure is completed",
              lambda: a.api("GET", where, token="AUDITOR").json["state"] == "completed", 90)
        for file in self.files():
            with open(file, "rb") as f:
                self.assertNotIn(NAME.encode(), f.read())
        made = self.snapshot()
        a.stop()
        self.refused(kept, "snapshot_mismatch")
        a.appliance("rebuild")
        whole = dump(a)
        a.appliance("rebuild", "--from-snapshot", made["path"])
        self.assertEqual(dump(a), whole)


class EmptyMachine(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("machine-a")
        cls.addClassCleanup(cls.a.clean)
        cls.a.start()
        cls.b = Appliance("machine-b", bin=DEBUG_BIN)
        cls.addClassCleanup(cls.b.clean)

    def backup_under_load(self, file):
        """While signatures are made: a point of the log, whole up to there."""
        stop, made = threading.Event(), []

        def load():
            session = self.a.session("OPERATOR")
            while not stop.is_set():
                made.append(sign(session, self.key_id, b"load %d" % len(made)).json["operation_id"])
            session.close()

        thread = threading.Thread(target=load)
        thread.start()
        until("signatures are made", lambda: len(made) > 3)
        done = json.loads(self.a.appliance("backup", "-o", file, "--json").stdout)
        stop.set()
        thread.join()
        self.assertGreater(done["messages"], 0)
        self.assertEqual(stat.S_IMODE(os.stat(file).st_mode), 0o600)
        with open(file, "rb") as f:
            self.assertNotIn(self.a.token("OPERATOR").encode(), f.read())
        return done

    def test_from_backup_and_token(self):
        a, b = self.a, self.b
        session = a.session("OPERATOR")
        self.key_id = make_key(a)
        body = sign_body(session, self.key_id, digest_of(b"artifact"))
        signed = sign(session, self.key_id, b"artifact", key="the-first-one", body=body)
        stamp_query = query(b"stamped")
        stamp = a.tsa(stamp_query)
        self.assertTrue(granted(stamp))
        pack = a.api("GET", PACK, token="AUDITOR")
        self.assertEqual(pack.status, 200, pack)
        export = a.api("GET", "/api/v1/audit/export", token="AUDITOR")
        for name, data in (("stamp", stamp.body), ("query", stamp_query), ("pack", pack.body), ("export", export.body)):
            with open(f"{a.dir}/{name}", "wb") as f:
                f.write(data)
        shutil.copyfile(f"{a.dir}/data/tsa-root.pem", f"{a.dir}/root.pem")

        own(a, f"{a.dir}/backups")
        file = f"{a.dir}/backups/log"
        records = all_records(a)
        done = self.backup_under_load(file)
        session.close()
        listed = {i["path"]: i for i in json.loads(a.appliance("backup", "--list", "--json").stdout)["items"]}
        self.assertTrue(all(listed[p]["present"] for p in (a.config, f"{a.dir}/data/softhsm", f"{a.dir}/data/signer/pin")))
        self.assertTrue(listed[f"{a.dir}/data/signer/pin"]["secret"])
        a.stop()

        # The empty machine: what the list calls needed, nothing else.
        for name in ("data", "data/signer", "data/api"):
            os.mkdir(f"{b.dir}/{name}")
            shutil.copystat(f"{a.dir}/{name}", f"{b.dir}/{name}")
            about = os.stat(f"{a.dir}/{name}")
            os.chown(f"{b.dir}/{name}", about.st_uid, about.st_gid)
        for name in ("softhsm", "signer/pin", "api/fingerprint.key"):
            run("cp", "-a", f"{a.dir}/data/{name}", f"{b.dir}/data/{name}")
        b.write_config()

        # Refused before anything is written.
        with open(file, "rb") as f:
            good = f.read()
        bad = f"{a.dir}/backups/bad"
        with open(bad, "wb") as f:
            f.write(good[:5000] + bytes([good[5000] ^ 1]) + good[5001:])
        shutil.chown(bad, "svc-api")
        refused = b.appliance("restore", bad, check=False)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("log_backup_invalid", refused.stderr)
        # Interrupted: nothing serves from half a log, and the next run goes on.
        points = Failpoints(b)
        points.arm("restore.after_message")
        died = run(f"{b.bin}/svc-appliance", "restore", file, "--config", b.config, check=False,
                   env={**os.environ, **b.environment})
        self.assertTrue(points.struck(), died.stderr)
        b.environment.clear()
        b.spawn()
        self.assertEqual(b.process.wait(120), 2, b.tail())
        self.assertIn("restore --continue", b.tail(200))
        again = b.appliance("restore", file, check=False)
        self.assertEqual(again.returncode, 2, again.stderr)
        self.assertIn("--continue", again.stderr)
        restored = json.loads(b.appliance("restore", "--continue", file, "--json").stdout)
        self.assertEqual((restored["messages"], restored["digest"]), (done["messages"], done["digest"]))
        b.start()

        # Everything up to the backup is there, sequences and chain the same.
        a.env, b.env = b.env, {**a.env, "SVC_CA_FILE": b.env["SVC_CA_FILE"], "SVC_BASE_URL": b.env.get("SVC_BASE_URL", "")}
        there = all_records(b)
        self.assertGreaterEqual(len(there), len(records))
        self.assertEqual(there[:len(records)], records)
        readiness = b.probe_get("/readyz")
        self.assertEqual((readiness.status, readiness.json.get("degraded", [])), (200, []), readiness)

        # The same keys; old tokens; what was made before verifies.
        session = b.session("OPERATOR")
        new = sign(session, self.key_id, b"after")
        self.assertEqual(new.json["public_key_der"], signed.json["public_key_der"])
        self.assertTrue(openssl_verifies(base64.b64decode(new.json["public_key_der"]),
                                         base64.b64decode(new.json["signature"]), b"after"))
        # The kept answer is gone with the idempotency rows; the command is still the one that was recorded.
        repeated = sign(session, self.key_id, b"artifact", key="the-first-one", body=body)
        self.assertEqual((repeated.json["operation_id"], repeated.json["signature"]),
                         (signed.json["operation_id"], signed.json["signature"]))
        session.close()
        run("openssl", "ts", "-verify", "-queryfile", f"{a.dir}/query", "-in", f"{a.dir}/stamp", "-CAfile",
            f"{b.dir}/data/tsa-root.pem")
        b.cli("audit", "verification-keys", "-o", f"{b.dir}/keys", token="AUDITOR")
        verdict = b.cli("audit", "verify", "--artifact", f"{a.dir}/export", "--audit-jwks", f"{b.dir}/keys", "--tsa-root",
                        f"{b.dir}/data/tsa-root.pem", "--json", token="AUDITOR")
        self.assertTrue(json.loads(verdict.stdout)["valid"], verdict.stdout)
        self.assertTrue(granted(b.tsa(query(b"new"))))
        self.assertEqual(b.api("GET", PACK, token="AUDITOR").status, 200)


if __name__ == "__main__":
    unittest.main()
