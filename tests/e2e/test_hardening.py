"""What each process may do, read back from a running appliance, against docs/hardening.md; and a machine that does not
allow all of it."""
import json
import os
import sys
import unittest

from appliance import BIN, SRC, Appliance, run, until

sys.path.insert(0, os.path.join(SRC, "scripts/lib"))
import hardening_page  # noqa: E402

CHILDREN = ("postgres", "nats-server", "svc-signer", "svc-api")


class Running(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("hard", hardening__required=True).start()
        cls.report = json.loads(cls.a.appliance("hardening", "--json").stdout)

    @classmethod
    def tearDownClass(cls):
        cls.a.clean()

    def test_the_page_says_what_runs(self):
        with open(hardening_page.PAGE) as f:
            self.assertEqual(f.read(), hardening_page.render(self.report, self.a.settings),
                             "scripts/enter python3 scripts/lib/hardening_page.py writes it anew")

    def test_no_child_has_a_right_beyond_its_user(self):
        seen = set()
        for process in self.report["processes"]:
            if process["name"] == "svc-appliance":
                continue
            seen.add(process["name"])
            with self.subTest(process["name"]):
                self.assertEqual(set(map(tuple, process["capabilities"].values())), {()})
                self.assertTrue(process["no_new_privileges"])
                self.assertEqual(process["seccomp"], "filter")
                self.assertIn(process["limits"]["core"], ("0", "1"))
                self.assertIn("mnt", process["namespaces"])
                self.assertEqual(process["groups"], [process["user"]])
                self.assertGreaterEqual(process["oom_score_adj"], 0)
        self.assertEqual(seen, set(CHILDREN))

    def test_secrets_are_not_dumped_and_the_api_goes_first_when_memory_ends(self):
        by_name = {p["name"]: p for p in self.report["processes"]}
        self.assertFalse(by_name["svc-api"]["dumpable"])
        self.assertFalse(by_name["svc-signer"]["dumpable"])
        self.assertEqual(max(CHILDREN, key=lambda name: by_name[name]["oom_score_adj"]), "svc-api")

    def test_nothing_of_the_appliance_lends_rights(self):
        own = [f for f in self.report["privileged_files"] if f.startswith((self.a.dir, BIN))]
        self.assertEqual(own, [])
        # What the system around it brings is seen: this is no blind spot.
        self.assertTrue(any("set-user-ID" in f for f in self.report["privileged_files"]))

    def test_text_tells_the_same(self):
        text = self.a.appliance("hardening").stdout
        for name in CHILDREN:
            self.assertIn(f"{name}\n  user              svc-", text)

    def test_without_a_running_one_it_says_so(self):
        other = Appliance("hard-none")
        other.write_config()
        done = other.appliance("hardening", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no appliance runs on", done.stderr)
        other.clean()

    def test_sql_reaches_no_program_and_no_file_of_others(self):
        done = run("setpriv", "--reuid=svc-pg", "--regid=svc-pg", "--clear-groups", "psql", "-X", "-At", "-h",
                   f"{self.a.dir}/run/postgres", "-U", "postgres", "-d", "svc", "-c",
                   "COPY (SELECT 1) TO PROGRAM 'cat >/tmp/attack'", check=False)
        self.assertNotEqual(done.returncode, 0, done)
        self.assertFalse(os.path.exists("/tmp/attack"))
        os.chmod(self.a.config, 0o644)
        read = run("setpriv", "--reuid=svc-pg", "--regid=svc-pg", "--clear-groups", "psql", "-X", "-At", "-h",
                   f"{self.a.dir}/run/postgres", "-U", "postgres", "-d", "svc", "-c",
                   f"SELECT pg_read_file('{self.a.config}')", check=False)
        self.assertIn("Permission denied", read.stderr)


class Reduced(unittest.TestCase):
    """Without CAP_SYS_ADMIN, as in many containers."""

    def setUp(self):
        self.a = Appliance("hard-less")

    def tearDown(self):
        self.a.clean()

    def spawn_less(self):
        self.a.write_config()
        wrapper = f"{self.a.dir}/less"
        with open(wrapper, "w") as f:
            f.write(f'#!/bin/sh\nexec setpriv --bounding-set=-sys_admin {BIN}/svc-appliance "$@"\n')
        os.chmod(wrapper, 0o755)
        return wrapper

    def test_it_is_refused_where_all_is_required(self):
        self.a.settings["hardening.required"] = True
        done = run(self.spawn_less(), "run", "--config", self.a.config, check=False, timeout=60)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("hardening.required: this machine does not allow: mount namespace, network namespace", done.stderr)

    def test_it_starts_and_says_what_is_missing_where_not(self):
        import subprocess
        wrapper = self.spawn_less()
        self.a.log = open(self.a.log_path, "ab")
        self.a.process = subprocess.Popen([wrapper, "run", "--config", self.a.config], stdout=self.a.log,
                                          stderr=self.a.log, start_new_session=True)
        until("it is ready", lambda: self.a.is_ready() and os.path.exists(f"{self.a.dir}/data/client.env"), 120)
        with open(self.a.log_path, errors="replace") as f:
            records = [json.loads(line) for line in f if line.startswith("{")]
        reduced = [r for r in records if r["event"] == "hardening_reduced"]
        self.assertEqual([r["missing"] for r in reduced], ["mount namespace, network namespace, IPC namespace"])
        report = json.loads(self.a.appliance("hardening", "--json").stdout)
        self.assertEqual(report["established"]["mount_namespace"], False)
        for process in report["processes"]:
            if process["name"] != "svc-appliance":
                self.assertEqual(set(map(tuple, process["capabilities"].values())), {()})
                self.assertEqual(process["seccomp"], "filter")


if __name__ == "__main__":
    unittest.main()
