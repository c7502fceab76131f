"""AD CS observations on a real appliance: a collector's token, the client, findings, drift, and the audit trail."""
import copy
import datetime
import json
import tempfile
import unittest

from appliance import Appliance, all_records, until

USERS, ADMINS = "S-1-5-21-1-2-3-513", "S-1-5-21-1-2-3-512"


def template(name, **change):
    return {"name": name, "oid": "1.3.6.1.4.1.311.21.8.1.2.3", "schema_version": 2, "ekus": ["1.3.6.1.5.5.7.3.2"],
            "enrollee_supplies_subject": False, "manager_approval": False, "authorized_signatures": 0,
            "validity_seconds": 31536000, "renewal_seconds": 3628800, "name_flags": 0, "enrollment_flags": 0,
            "private_key_flags": 16, "permissions": [{"sid": USERS, "name": "CORP\\Domain Users", "rights": ["enroll"]}],
            **change}


def observation(ago, run, **change):
    at = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=ago)
    return {"domain": "corp.example.com", "source_id": "collector-1", "run_id": run, "relay_id": "relay-1",
            "observed_at": at.strftime("%Y-%m-%dT%H:%M:%SZ"), "schema_version": 2, "complete": True,
            "templates": [template("User")],
            "enrollment_services": [{"ca": "Corp-CA", "host": "ca1.corp.example.com", "certificate_sha256": "00" * 32,
                                     "templates": ["User"]}],
            "iis_endpoints": [{"url": "https://ca1.corp.example.com/certsrv", "kind": "web-enrollment", "scheme": "https",
                               "channel_binding": "required", "ntlm": True}],
            "ca_restrictions": [{"ca": "Corp-CA", "enrollment_agents": "restricted", "officers": "restricted",
                                 "edit_flags": 0x11014e, "interface_flags": 0x641,
                                 "permissions": [{"sid": ADMINS, "rights": ["manage-ca", "manage-certificates"]}]}],
            **change}


class Adcs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("adcs")
        cls.addClassCleanup(cls.a.clean)
        cls.a.start()
        made = cls.a.appliance("token", "create", "--role", "adcs-collector", "--subject", "collector-1", "--json")
        cls.a.env["SVC_TOKEN_COLLECTOR"] = json.loads(made.stdout)["token"]

    def observe(self, body, check=True):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
            json.dump(body, f)
            f.flush()
            return self.a.cli("adcs", "observe", "-f", f.name, "--json", token="COLLECTOR", check=check)

    def test_1_a_collector_may_do_nothing_else_and_nobody_else_observes(self):
        refused = self.a.api("POST", "/api/v1/adcs/observations", observation(10, "r"), key=True)
        self.assertEqual((refused.status, refused.json["code"]), (403, "forbidden"))
        for path in ("/api/v1/adcs/observations", "/api/v1/adcs/drift", "/api/v1/audit/records", "/api/v1/keys"):
            self.assertEqual(self.a.api("GET", path, token="COLLECTOR").status, 403, path)

        nothing = observation(400, "run-0", templates=[], enrollment_services=[], iis_endpoints=[], ca_restrictions=[])
        refused = self.observe(nothing, check=False)
        self.assertIn("at least one enrollment service", refused.stderr)

    def test_2_findings_appear_and_are_cleared_and_the_trail_tells(self):
        first = json.loads(self.observe(observation(300, "run-1")).stdout)
        self.assertEqual((first["latest"], first["changes"]), (True, 0))
        sick = observation(200, "run-2")
        sick["templates"][0].update(enrollee_supplies_subject=True, name_flags=1)
        second = json.loads(self.observe(sick).stdout)
        self.assertEqual(second["changes"], 2)
        self.assertEqual(self.observe(sick, check=False).returncode, 2)  # refused: a source does not go back
        listed = self.a.cli("adcs", "list", token="AUDITOR").stdout
        self.assertRegex(listed, r"corp\.example\.com .* 1 +0 +0 ")
        shown = self.a.cli("adcs", "get", second["observation_id"], token="AUDITOR").stdout
        self.assertRegex(shown, rf"ESC1 +critical +template +user +{USERS}")
        self.observe(observation(100, "run-3"))
        drift = json.loads(self.a.cli("adcs", "drift", "--domain", "corp.example.com", "--json", token="AUDITOR").stdout)
        self.assertEqual({row["recorded_by"] for row in drift["items"]}, {"collector-1"})
        self.assertEqual([(row["run_id"], row["drift"]["findings_appeared"], row["drift"]["findings_cleared"])
                          for row in drift["items"]], [("run-3", 0, 1), ("run-2", 1, 0)])
        self.assertRegex(self.a.cli("adcs", "drift", token="AUDITOR").stdout, "run-3 +2 +0 +1 ")
        kinds = [(r["type"], r["schema_version"]) for r in all_records(self.a) if r["type"].startswith("inventory.adcs.")]
        self.assertEqual(kinds, [("inventory.adcs.observed", 2), *[("inventory.adcs.observed", 2),
                                                                  ("inventory.adcs.drifted", 2)] * 2])
        chains = {row["record"]["sequence"]: row["chain"] for row in
                  self.a.api("GET", "/api/v1/audit/records?type=inventory.adcs.drifted", token="AUDITOR").json["records"]}
        self.assertEqual({row["sequence"]: row["chain"] for row in drift["items"]}, chains)

    def test_2b_a_source_has_one_speaker(self):
        made = self.a.appliance("token", "create", "--role", "adcs-collector", "--subject", "collector-2", "--json")
        self.a.env["SVC_TOKEN_SECOND"] = json.loads(made.stdout)["token"]
        refused = self.a.api("POST", "/api/v1/adcs/observations", observation(5, "forged"), token="SECOND", key=True)
        self.assertEqual((refused.status, refused.json["code"]), (409, "adcs_source_bound"))

    def test_3_history_does_not_count(self):
        v1 = {k: v for k, v in observation(50, "run-4", schema_version=1, complete=False).items()
              if k not in ("enrollment_services", "iis_endpoints", "ca_restrictions")}
        self.assertFalse(json.loads(self.observe(v1).stdout)["latest"])
        listed = json.loads(self.a.cli("adcs", "list", "--json", token="AUDITOR").stdout)["items"]
        self.assertEqual([row["run_id"] for row in listed], ["run-3"])
        listed = json.loads(self.a.cli("adcs", "list", "--history", "--json", token="AUDITOR").stdout)["items"]
        self.assertEqual([row["schema_version"] for row in listed], [1, 2, 2, 2])

    def test_4_an_erased_principal_leaves_the_observation_readable(self):
        body = observation(20, "run-5", templates=[template("User", permissions=[
            {"sid": "S-1-5-21-1-2-3-4711", "name": "CORP\\Erika Mustermann", "rights": ["owner"]}])])
        made = json.loads(self.observe(body).stdout)
        preview = self.a.api("POST", "/api/v1/privacy/erasures/preview", {"subject": "S-1-5-21-1-2-3-4711"})
        self.assertEqual(preview.status, 200, preview)
        ask = {"subject": "S-1-5-21-1-2-3-4711", "reason": "asked",
               "preview_fingerprint": preview.json["preview_fingerprint"]}
        refused = self.a.api("POST", "/api/v1/privacy/erasures", ask, key=True)
        approved = self.a.api("POST", f"/api/v1/identities/{refused.json['resource']}/approvals", {"action": "erase"},
                              token="APPROVER", key=True)
        self.assertEqual(approved.status, 200, approved)
        erasure = self.a.api("POST", "/api/v1/privacy/erasures", ask, key=True)
        self.assertEqual(erasure.status, 202, erasure)
        path = f"/api/v1/privacy/erasures/{erasure.json['erasure_id']}"
        until("it is erased", lambda: self.a.api("GET", path, token="AUDITOR").json["state"] == "completed", 60)
        whole = self.a.api("GET", f"/api/v1/adcs/observations/{made['observation_id']}", token="AUDITOR").json
        self.assertEqual([(f["rule"], f["severity"]) for f in whole["findings"]], [("ESC4", "high")])
        self.assertNotIn("4711", json.dumps(whole))
        self.assertTrue(whole["findings"][0]["principals"][0].startswith("erased-"), whole["findings"])
        following = copy.deepcopy(body)
        following.update(run_id="run-6", observed_at=observation(5, "")["observed_at"])
        self.assertGreater(json.loads(self.observe(following).stdout)["changes"], 0)


if __name__ == "__main__":
    unittest.main()
