"""Report schedules from preview to pick-up, the inventory report, and what a time-boxed auditor may do."""
import hashlib
import json
import os
import re
import tempfile
import unittest

from appliance import Appliance, all_records, until

BASE = "/api/v1/compliance"
SCHEDULES = f"{BASE}/report-schedules"
TYPES = ["framework_evidence_pack", "inventory_snapshot", "cbom_posture", "audit_summary"]
NOBODY = "0198c0de-0000-8000-8000-000000000000"


def definition(**other):
    return {"framework": "soc2", "name": "monthly", "report_type": "audit_summary", "interval_seconds": 86400,
            "delivery": "audit_export", "recipient_ref": "vault/auditors", **other}


class Compliance(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.a = Appliance("schedules", compliance__reports__kept=2)
        cls.addClassCleanup(cls.a.clean)
        cls.a.start()
        cls.operator, cls.auditor = cls.a.session("OPERATOR"), cls.a.session("AUDITOR")

    def get(self, path):
        answer = self.auditor.api("GET", path)
        self.assertEqual(answer.status, 200, answer)
        return answer.json

    def create(self, key=True, **other):
        return self.operator.api("POST", SCHEDULES, definition(**other), key)

    def file(self, name, content=None):
        path = os.path.join(self.folder.name, name)
        if content is not None:
            with open(path, "w") as f:
                json.dump(content, f)
        return path

    def age(self, schedule_id, seconds=10 ** 9):
        self.a.sql(f"UPDATE svc.report_schedules SET counted_from_us = counted_from_us - {seconds}000000 "
                   f"WHERE schedule_id = '{schedule_id}'")

    def events(self, kind, schedule_id):
        return [r for r in all_records(self.a) if r["type"] == kind and r["data"].get("schedule_id") == schedule_id]

    def reports(self, schedule_id):
        return self.get(f"{BASE}/reports?schedule_id={schedule_id}")["items"]

    # ---- schedules ----

    def test_1_what_is_not_acceptable_is_refused_by_name(self):
        for pointer, value in (("delivery", "email"), ("delivery", "webhook"), ("interval_seconds", 3599),
                               ("interval_seconds", 31622401), ("framework", "soc3"), ("report_type", "everything"),
                               ("name", " "), ("recipient_ref", ""), ("enabled", "yes"), ("surprise", 1)):
            for path, more in ((f"{SCHEDULES}/preview", {}), (SCHEDULES, {"preview_fingerprint": "0" * 64})):
                with self.subTest(f"{pointer} {value} {path}"):
                    answer = self.operator.api("POST", path, definition(**{pointer: value}, **more), key=True)
                    self.assertEqual((answer.status, answer.json["code"]), (400, "json_field"), answer)
                    self.assertIn(pointer, answer.body.decode())
        self.assertEqual(self.auditor.api("POST", f"{SCHEDULES}/preview", definition()).status, 403)
        self.assertEqual(self.get(SCHEDULES)["items"], [])

    def test_2_a_schedule_is_previewed_made_paused_and_resumed(self):
        preview = self.operator.api("POST", f"{SCHEDULES}/preview", definition(framework=" SOC2 ", name=" monthly "))
        self.assertEqual(preview.json["definition"], {**definition(), "enabled": True})
        for member in ("later_writes", "recovery_steps", "verification_steps"):
            self.assertGreater(len(preview.json[member]), 0, member)
        bound = {"definition": preview.json["definition"], "reports_kept": 2,
                 "schema": "svc.compliance.report-schedule.preview.v1", "tenant_id": "default"}
        canonical = json.dumps(bound, sort_keys=True, separators=(",", ":")).encode()
        self.assertEqual(preview.json["preview_fingerprint"], hashlib.sha256(canonical).hexdigest())
        body = {**definition(), "preview_fingerprint": preview.json["preview_fingerprint"]}

        other = self.operator.api("POST", SCHEDULES, {**body, "interval_seconds": 3600}, key=True)
        self.assertEqual((other.status, other.json["code"]), (409, "preview_changed"), other)
        made = self.operator.api("POST", SCHEDULES, body, key="once")
        self.assertEqual((made.status, made.json["version"], made.json["enabled"]), (201, 1, True), made)
        again = self.operator.api("POST", SCHEDULES, body, key="once")
        self.assertEqual((again.status, again.body), (201, made.body))
        path = f"{SCHEDULES}/{made.json['schedule_id']}"

        stale = self.operator.api("POST", f"{path}/pause", {"expected_version": 2}, key=True)
        self.assertEqual((stale.status, stale.json["code"]), (409, "conflict"), stale)
        paused = self.operator.api("POST", f"{path}/pause", {"expected_version": 1}, key="pause")
        self.assertEqual((paused.status, paused.json["version"], paused.json["enabled"]), (200, 2, False), paused)
        self.assertNotIn("next_due_at", paused.json)
        self.assertEqual(self.operator.api("POST", f"{path}/pause", {"expected_version": 1}, key="pause").body, paused.body)
        resumed = self.operator.api("POST", f"{path}/resume", {"expected_version": 2}, key=True)
        self.assertEqual((resumed.json["version"], resumed.json["enabled"]), (3, True))
        self.assertGreater(resumed.json["next_due_at"], made.json["next_due_at"])
        versions = [(r["data"]["version"], r["data"]["definition"]["enabled"])
                    for r in self.events("compliance.schedule.configured", made.json["schedule_id"])]
        self.assertEqual(versions, [(1, True), (2, False), (3, True)])
        self.assertEqual(self.get(path)["version"], 3)
        self.assertEqual(self.auditor.api("GET", f"{SCHEDULES}/{NOBODY}").status, 404)

    def test_3_lists_are_filtered_and_paged(self):
        ids = [self.create(name=f"list {n}", framework=f, report_type=t).json["schedule_id"]
               for n, (f, t) in enumerate((("hipaa", TYPES[1]), ("hipaa", TYPES[2]), ("nis2", TYPES[2])))]
        self.operator.api("POST", f"{SCHEDULES}/{ids[0]}/pause", {"expected_version": 1}, key=True)

        def listed(query):
            return [i["schedule_id"] for i in self.get(f"{SCHEDULES}?{query}")["items"]]

        self.assertEqual(listed("framework=hipaa"), [ids[1], ids[0]])
        self.assertEqual(listed("framework=hipaa&enabled=true"), [ids[1]])
        self.assertEqual(listed("enabled=false"), [ids[0]])
        self.assertEqual(listed(f"report_type={TYPES[2]}&framework=nis2"), [ids[2]])
        first = self.get(f"{SCHEDULES}?limit=2")
        rest = self.get(f"{SCHEDULES}?limit=2&cursor={first['next_cursor']}")
        seen = [i["schedule_id"] for i in first["items"] + rest["items"]]
        self.assertEqual(seen[:3], ids[::-1])
        self.assertEqual(len(set(seen)), len(seen))
        for query in ("framework=soc3", "report_type=x", "enabled=maybe"):
            self.assertEqual(self.auditor.api("GET", f"{SCHEDULES}?{query}").status, 400, query)

    def test_4_due_reports_are_made_kept_and_picked_up(self):
        made = {kind: json.loads(self.a.cli("compliance", "report-schedules", "create", "-f", self.file(
            f"{kind}.json", definition(name=kind, report_type=kind)), "--json").stdout)["schedule_id"] for kind in TYPES}
        for schedule in made.values():
            self.age(schedule)
        for kind, schedule in made.items():
            with self.subTest(kind):
                report = until(f"{kind} is there", lambda schedule=schedule: self.reports(schedule))[0]
                self.assertEqual((report["state"], report["report_type"]), ("generated", kind), report)
                path = self.file(f"{kind}.out")
                self.a.cli("compliance", "reports", "get", report["report_id"], "-o", path, token="AUDITOR")
                with open(path, "rb") as f:
                    document = f.read()
                self.assertEqual(hashlib.sha256(document).hexdigest(), report["digest"])
                self.assertEqual(len(document), report["size"])
                event = self.events("compliance.report.generated", schedule)
                self.assertEqual([e["data"]["digest"] for e in event], [report["digest"]])
                text = document.decode()
                self.assertIsNone(re.search(r"\bis (compliant|certified)\b", text))
                manifest = json.loads(text)["signed_export"]["manifest"]
                self.assertEqual(manifest["tenant_id"], "default")
                keys = self.file("keys.json")
                with open(keys, "wb") as f:
                    f.write(self.auditor.api("GET", f"{BASE}/verification-keys").body)
                self.a.cli("compliance", "verify", path, "--jwks", keys)
                with open(path, "wb") as f:
                    f.write(text.replace(manifest["tenant_id"], "another", 1).encode())
                self.assertNotEqual(self.a.cli("compliance", "verify", path, "--jwks", keys, check=False).returncode, 0)
        read = [r for r in all_records(self.a) if r["type"] == "compliance.pack.read" and r["data"]["artifact"] == "report"]
        self.assertEqual([r["actor"]["subject"] for r in read], ["auditor"] * 4)

        # One at a time, and only the newest two stay.
        schedule = made["audit_summary"]
        seen = [self.reports(schedule)[0]["report_id"]]
        for _ in range(2):
            self.age(schedule)
            seen.insert(0, until("another one", lambda: [r["report_id"] for r in self.reports(schedule)
                                                         if r["report_id"] not in seen])[0])
        self.assertEqual([r["report_id"] for r in self.reports(schedule)], seen[:2])
        self.assertEqual(self.auditor.api("GET", f"{BASE}/reports/{seen[2]}").status, 404)
        until("its document is gone, too", lambda: self.a.sql(
            f"SELECT count(*) FROM svc.compliance_documents WHERE report_id = '{seen[2]}'") == "0")
        self.assertEqual(len(self.events("compliance.report.queued", schedule)), 3)

        # What is recorded and not there any more is said so, and never something else given out.
        self.a.sql(f"UPDATE svc.compliance_documents SET body = 'x' WHERE report_id = '{seen[1]}'")
        gone = self.auditor.api("GET", f"{BASE}/reports/{seen[1]}")
        self.assertEqual((gone.status, gone.json["code"]), (410, "report_document_gone"), gone)

        tenant = json.loads(self.a.appliance("tenant", "create", "umbrella", "--json").stdout)
        self.assertTrue(tenant)
        stranger = json.loads(self.a.appliance("token", "create", "--tenant", "umbrella", "--role", "operator",
                                               "--subject", "stranger", "--json").stdout)["token"]
        for path in (f"{BASE}/reports/{seen[0]}", f"{SCHEDULES}/{schedule}"):
            self.assertEqual(self.a.api("GET", path, token=stranger).status, 404, path)
        body = definition()
        ours = self.operator.api("POST", f"{SCHEDULES}/preview", body).json["preview_fingerprint"]
        theirs = self.a.api("POST", SCHEDULES, {**body, "preview_fingerprint": ours}, token=stranger, key=True)
        self.assertEqual((theirs.status, theirs.json["code"]), (409, "preview_changed"), theirs)

    def test_5_the_inventory_report_tells_what_is_covered(self):
        report = self.get(f"{BASE}/inventory-report")
        self.assertEqual(len(report["frameworks"]), 15)
        for framework in report["frameworks"]:
            self.assertTrue(framework["catalogue"] and framework["version"], framework)
        self.assertEqual(report["report_types"], TYPES)
        document = self.a.api("GET", "/api/v1/openapi.json", token=None).json["paths"]
        served = {(r["method"], r["path"]): r["permission"] for r in report["served_routes"]}
        self.assertEqual(served, {(m.upper(), p): o.get("x-permission") for p, ms in document.items() for m, o in ms.items()})
        read = until("its download is recorded", lambda: [r for r in all_records(self.a)
                     if r["type"] == "compliance.pack.read" and r["data"]["artifact"] == "inventory-report"])
        self.assertEqual([r["actor"]["subject"] for r in read], ["auditor"])
        self.assertGreater(read[0]["sequence"], report["audit"]["head_sequence"])
        records = {r["sequence"]: r for r in all_records(self.a) if r["sequence"] <= report["audit"]["head_sequence"]}
        self.assertGreater(len(report["evidence_references"]), 1)
        for reference in report["evidence_references"]:
            newest = max(s for s, r in records.items() if r["type"] == reference["type"])
            self.assertEqual((reference["sequence"], reference["event_id"]), (newest, records[newest]["event_id"]))
        self.assertEqual(report["audit"]["head_sequence"], max(records))
        self.assertTrue(report["inventory_counts"])
        every = self.get(f"{SCHEDULES}?limit=200")["items"]
        self.assertEqual(report["report_schedules"], every)
        self.assertEqual(report["enabled_report_schedule_count"], len([s for s in every if s["enabled"]]))
        said = self.a.cli("compliance", "inventory-report", token="AUDITOR").stdout
        self.assertIn("soc2", said)

    def test_6_the_client_shows_pauses_and_resumes(self):
        path = self.file("client.json", definition(name="by hand"))
        preview = self.a.cli("compliance", "report-schedules", "preview", "-f", path).stdout
        self.assertIn("by hand", preview)
        made = json.loads(self.a.cli("compliance", "report-schedules", "create", "-f", path, "--json").stdout)
        for word, enabled in (("pause", False), ("resume", True)):
            done = json.loads(self.a.cli("compliance", "report-schedules", word, made["schedule_id"], "--json").stdout)
            self.assertEqual(done["enabled"], enabled)
        stale = self.a.cli("compliance", "report-schedules", "pause", made["schedule_id"], "--expected-version", "1", check=False)
        self.assertNotEqual(stale.returncode, 0)
        self.assertIn("conflict", stale.stderr)
        self.assertIn("by hand", self.a.cli("compliance", "report-schedules", "list", "--enabled", "true").stdout)
        self.assertIn("by hand", self.a.cli("compliance", "report-schedules", "show", made["schedule_id"]).stdout)
        self.assertIn("audit_summary", self.a.cli("compliance", "reports", "list").stdout)

    # ---- auditors ----

    def test_7_an_auditor_reads_the_audit_trail_and_nothing_else(self):
        document = self.a.api("GET", "/api/v1/openapi.json", token=None).json["paths"]
        session, wrong = self.a.session("AUDITOR"), []
        for path, methods in document.items():
            for method, operation in methods.items():
                url = re.sub(r"\{[^}]*\}", NOBODY, path)
                body = {} if method in ("post", "put") else None
                answer = session.api(method.upper(), url, body, key=True)
                permission = operation.get("x-permission")
                if (answer.status == 403) == (permission in (None, "audit:read")):
                    wrong.append((method, path, permission, answer))
        self.assertEqual(wrong, [])

    def test_8_an_auditors_token_ends_by_itself(self):
        for ttl, status in ((90 * 86400 + 1, 400), (90 * 86400, 201), (None, 201)):
            body = {"subject": "auditor-9", "roles": ["auditor"], **({"ttl_seconds": ttl} if ttl else {})}
            answer = self.a.api("POST", "/api/v1/tokens", body, token="ADMIN", key=True)
            self.assertEqual(answer.status, status, answer)
            if status == 400:
                self.assertEqual((answer.json["code"], answer.json.get("pointer", "/ttl_seconds")),
                                 ("token_lifetime", "/ttl_seconds"))
        mixed = {"subject": "auditor-9", "roles": ["ci", "auditor"], "ttl_seconds": 365 * 86400}
        self.assertEqual(self.a.api("POST", "/api/v1/tokens", mixed, token="ADMIN", key=True).json["code"], "token_lifetime")
        refused = self.a.appliance("token", "create", "--role", "auditor", "--subject", "a", "--ttl", "8760h", check=False)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("token_lifetime", refused.stderr)
        other = {"subject": "ci-9", "roles": ["ci"], "ttl_seconds": 365 * 86400}
        self.assertEqual(self.a.api("POST", "/api/v1/tokens", other, token="ADMIN", key=True).status, 201)


if __name__ == "__main__":
    unittest.main()
