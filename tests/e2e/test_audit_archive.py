"""The archive of the audit trail: kill -9 at each of its steps, files that are not as they were written, and the event log
backed up, lost, restored and rebuilt to the same bytes."""
import glob
import hashlib
import json
import os
import pwd
import shutil
import unittest

from appliance import Appliance, all_records, make_key, until
from failpoints import DEBUG_BIN, Failpoints, names_in

PLACES = ("audit.archive.after_write", "audit.archive.after_file", "audit.archive.after_verify",
          "audit.archive.after_append")
RUNS = "/api/v1/audit/archive/runs"


def with_archive(name, **settings):
    """An appliance that archives what is older than a second, into a folder of svc-api's own."""
    a = Appliance(name, audit__retention="1s", **settings)
    a.archive = f"{a.dir}/archive"
    a.settings["audit.archive_dir"] = a.archive
    user = pwd.getpwnam("svc-api")
    for folder in (a.archive, f"{a.dir}/backups"):
        os.mkdir(folder, 0o700)
        os.chown(folder, user.pw_uid, user.pw_gid)
    return a


def record_something(a):
    make_key(a)


def due(a):
    """Until the newest record is old enough, too."""
    def all_due():
        preview = a.api("POST", RUNS + "/preview", token="AUDITOR").json
        newest = a.api("GET", "/api/v1/audit/records?limit=1", token="AUDITOR").json["records"][0]["record"]["sequence"]
        return preview["records"] > 0 and preview["last_sequence"] >= newest
    until("what was recorded is old enough", all_due)


def run_archive(a):
    return a.api("POST", RUNS, token="OPERATOR", key=True)


def archives(a):
    return a.api("GET", "/api/v1/audit/archives", token="AUDITOR").json["items"]


def checkpoints_digest(a):
    return a.sql("SELECT md5(string_agg(c::text, ',' ORDER BY tenant_id, last_sequence)) FROM svc.audit_checkpoints c")


class Crash(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = with_archive("archive-crash", bin=DEBUG_BIN)
        cls.addClassCleanup(cls.a.clean)
        cls.points = Failpoints(cls.a)
        cls.a.start()
        cls.a.cli("audit", "verification-keys", "-o", f"{cls.a.dir}/keys", token="AUDITOR")

    def verify(self, path):
        done = self.a.cli("audit", "verify", "--artifact", path, "--audit-jwks", f"{self.a.dir}/keys", "--tsa-root",
                          f"{self.a.dir}/data/tsa-root.pem", "--json", check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def check_all(self):
        """Every file is one of a checkpoint, verifies by itself, and continues the one before it."""
        listed = sorted(archives(self.a), key=lambda item: item["number"])
        self.assertEqual([item["number"] for item in listed], list(range(1, len(listed) + 1)))
        last, head = 0, "0" * 64
        for item in listed:
            path = f"{self.a.archive}/{item['archive']}"
            self.assertEqual(os.stat(path).st_mode & 0o7777, 0o600)
            with open(path, "rb") as f:
                self.assertEqual(hashlib.sha256(f.read()).hexdigest(), item["archive_sha256"])
            self.assertEqual((item["first_sequence"], item["chain_seed"], item["file"]), (last + 1, head, "present"))
            last, head = item["last_sequence"], item["chain_head"]
            verdict = self.verify(path)
            self.assertTrue(verdict["valid"], verdict)
            self.assertEqual(verdict["chain_head"], head)
        there = {os.path.relpath(path, self.a.archive) for path in glob.glob(f"{self.a.archive}/*/*")}
        there |= {os.path.relpath(path, self.a.archive) for path in glob.glob(f"{self.a.archive}/*/.*")}
        self.assertEqual(there, {item["archive"] for item in listed})
        served = all_records(self.a)
        self.assertEqual(served[0]["sequence"], last + 1)
        return listed

    def test_1_a_run_that_dies_is_continued(self):
        self.assertTrue(set(PLACES) <= names_in("svc-api"), "a build without the failpoints")
        for place in PLACES:
            with self.subTest(place):
                record_something(self.a)
                due(self.a)
                before = len(archives(self.a))
                self.points.arm(place)
                try:
                    self.assertNotEqual(run_archive(self.a).status, 200)
                except OSError:
                    pass
                except Exception:  # noqa: BLE001 - the server died under us
                    pass
                self.points.wait()
                until("ready again", self.a.is_ready, 90)
                left = [os.path.basename(path) for path in glob.glob(f"{self.a.archive}/default/audit-*.jws")]
                answer = until("a run ends well", lambda: (lambda x: x if x.status == 200 else None)(run_archive(self.a)),
                               60)
                if place == "audit.archive.after_append":
                    self.assertGreater(len(archives(self.a)), before)
                else:
                    self.assertGreaterEqual(answer.json["segments"], 1)
                listed = self.check_all()
                self.assertTrue({f"default/{name}" for name in left} <= {item["archive"] for item in listed},
                                "a file was left and not taken")

    def test_2_what_is_archived_is_refused_by_name(self):
        newest = archives(self.a)[0]
        answer = self.a.api("GET", f"/api/v1/audit/export?from_sequence={newest['last_sequence']}", token="AUDITOR")
        self.assertEqual((answer.status, answer.json["code"]), (410, "audit_archived"))
        self.assertIn(newest["archive"], answer.json["detail"])
        done = self.a.cli("audit", "archives", "list", token="AUDITOR")
        self.assertIn(newest["archive"], done.stdout)
        self.assertIn("records due", self.a.cli("audit", "archives", "preview", token="AUDITOR").stdout)

    def test_3_a_file_that_is_not_ours_stops_the_run(self):
        record_something(self.a)
        due(self.a)
        before = checkpoints_digest(self.a)
        newest = archives(self.a)[0]
        strange = f"{self.a.archive}/default/audit-{newest['last_sequence'] + 1}.jws"
        shutil.copyfile(f"{self.a.archive}/{newest['archive']}", strange)
        os.chmod(strange, 0o600)
        shutil.chown(strange, "svc-api")
        answer = run_archive(self.a)
        self.assertEqual((answer.status, answer.json["code"]), (500, "audit_archive_invalid"))
        self.assertEqual(checkpoints_digest(self.a), before)
        metrics = self.a.probe_get("/metrics").body.decode()
        self.assertRegex(metrics, r"svc_audit_retention_failures_total [1-9]")
        self.assertRegex(metrics, r"svc_audit_records_archived_total \d")
        os.unlink(strange)
        done = self.a.cli("audit", "archives", "run", token="OPERATOR")
        self.assertIn("records archived", done.stdout)
        self.check_all()


class Backup(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = with_archive("archive-backup")
        cls.addClassCleanup(cls.a.clean)
        cls.a.start()

    def test_the_log_is_lost_and_comes_back(self):
        a, file = self.a, f"{self.a.dir}/backups/log"
        due(a)
        self.assertEqual(run_archive(a).status, 200)
        records, checkpoints = all_records(a), checkpoints_digest(a)
        self.assertEqual(records[0]["sequence"], archives(a)[0]["last_sequence"] + 1)
        done = a.appliance("backup", "-o", file)
        self.assertRegex(done.stdout, r"backed up: \d+ messages, 0 replacements, digest [0-9a-f]{64}")
        self.assertEqual(os.stat(file).st_mode & 0o7777, 0o600)
        again = a.appliance("backup", "-o", file, check=False)
        self.assertEqual(again.returncode, 2, again.stderr)
        a.stop()
        refused = a.appliance("restore", file, check=False)  # the log is there
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("not empty", refused.stderr)
        stream = glob.glob(f"{a.dir}/data/nats/**/streams", recursive=True)
        self.assertEqual(len(stream), 1, stream)
        lost = f"{a.dir}/lost"
        shutil.move(stream[0], lost)
        cut = f"{a.dir}/backups/cut"
        shutil.copyfile(file, cut)
        os.truncate(cut, os.path.getsize(file) - 1)
        shutil.chown(cut, "svc-api")
        refused = a.appliance("restore", cut, check=False)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("log_backup_invalid", refused.stderr)
        a.appliance("restore", file)
        done = a.appliance("rebuild")
        self.assertIn("each with its whole source", done.stdout + done.stderr)
        a.start()
        # What a stop and a start record themselves comes behind; what was there is the same.
        self.assertEqual(all_records(a)[:len(records)], records)
        self.assertEqual(checkpoints_digest(a), checkpoints)


if __name__ == "__main__":
    unittest.main()
