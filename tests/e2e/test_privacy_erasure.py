"""A person is erased: from the trail, the log, the read model, and from every file of the data folder."""
import base64
import json
import os
import secrets
import unittest

from appliance import Appliance, all_records, make_key, sign_body, digest_of, until

NAME = b"marie.dubois"
ERASURES = "/api/v1/privacy/erasures"


def files_with(folder, needle):
    """Paths below folder whose content holds the bytes."""
    found = []
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as f:
                    if needle in f.read():
                        found.append(path)
    return found


class Erasure(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("erasure").start()
        made = cls.a.appliance("token", "create", "--subject", NAME.decode(), "--role", "operator", "--role", "admin",
                               "--ttl", "1h", "--json")
        cls.token = json.loads(made.stdout)
        cls.a.env["SVC_TOKEN_MARIE"] = cls.token["token"]

    @classmethod
    def tearDownClass(cls):
        cls.a.clean()

    def erase(self, subject, approve=True):
        preview = self.a.api("POST", f"{ERASURES}/preview", {"subject": subject})
        self.assertEqual(preview.status, 200, preview)
        body = {"subject": subject, "preview_fingerprint": preview.json["preview_fingerprint"], "reason": "asked by letter"}
        first = self.a.api("POST", ERASURES, body, key=True)
        self.assertEqual(first.status, 403, first)
        resource = first.json["resource"]
        self.assertTrue(resource.startswith("approval_required:erasure:"), resource)
        self.a.cli("approvals", "approve", resource, token="APPROVER")
        second = self.a.api("POST", ERASURES, body, key=True)
        self.assertEqual(second.status, 202, second)
        path = f"{ERASURES}/{second.json['erasure_id']}"

        def ended():
            now = self.a.api("GET", path, token="AUDITOR").json
            return now if now["state"] in ("completed", "failed") else None

        done = until("the erasure is completed", ended, 60)
        self.assertEqual(done["state"], "completed", done)
        return preview.json, done

    def test_a_person_is_nowhere_any_more(self):
        a = self.a
        marie = a.session("MARIE")
        key_id = make_key(a, name="key-of-marie.dubois", token="MARIE")
        for i in range(5):
            body = sign_body(marie, key_id, digest_of(b"x%d" % i))
            self.assertEqual(marie.api("POST", "/api/v1/code-signing/sign", body, key=True).status, 200)
        others = [r for r in all_records(a) if NAME.decode() not in json.dumps(r)]
        before = a.api("GET", "/api/v1/audit/export", token="AUDITOR")
        self.assertEqual(before.status, 200, before)

        refused = a.api("POST", f"{ERASURES}/preview", {"subject": NAME.decode()})
        self.assertEqual((refused.status, refused.json["code"]), (409, "privacy_subject_active"), refused)
        refused = a.api("POST", f"{ERASURES}/preview", {"subject": "codesign"})
        self.assertEqual((refused.status, refused.json["code"]), (400, "privacy_subject_refused"), refused)
        a.appliance("token", "revoke", self.token["token_id"], "--reason", "left")

        self.assertTrue(files_with(f"{a.dir}/data", NAME))
        preview, done = self.erase(NAME.decode())
        self.assertGreaterEqual(preview["messages"], 12, preview)
        self.assertEqual(done["messages"], preview["messages"])
        self.assertEqual(done["later_messages"], 0, done)

        records = all_records(a)
        self.assertNotIn(NAME.decode(), json.dumps(records))
        by_sequence = {r["sequence"]: r for r in records}
        for record in others:
            self.assertEqual(by_sequence[record["sequence"]], record)  # all else stands where and as it stood
        key = a.api("GET", f"/api/v1/keys/{key_id}").json
        self.assertTrue(key["name"].startswith("key-of-erased-"), key)
        self.assertEqual(a.api("GET", "/api/v1/tokens", token="ADMIN").body.count(NAME), 0)
        self.assertTrue(a.is_ready(), a.probe_get("/readyz"))

        history = json.loads(a.cli("audit", "history", "--json", token="AUDITOR").stdout)
        self.assertEqual(history["generation"], 2)
        row = history["items"][0]
        payload = json.loads(base64.urlsafe_b64decode(row["statement"].split(".")[1] + "=="))
        self.assertEqual(payload["superseded_head"], row["superseded_head"])
        self.assertEqual(payload["new_head"], row["new_head"])
        attested = a.api("POST", "/api/v1/privacy/archive-erasure-attestations",
                         {"erasure_id": done["erasure_id"], "archive_locator": "tape 7", "archive_sha256": "ab" * 32,
                          "action": "destroyed", "performed_by": "vault operator", "performed_at": "2026-01-01T00:00:00Z"},
                         key=True)
        self.assertEqual(attested.status, 201, attested)
        listed = a.api("GET", "/api/v1/privacy/archive-erasure-attestations", token="AUDITOR").json["items"]
        self.assertEqual([x["archive_locator"] for x in listed], ["tape 7"])

        # The lanes go on behind the overwritten messages; another one of the same tenant is erased too.
        make_key(a, name="key-of-somebody-else")
        self.assertEqual(self.erase("somebody-else")[1]["generation"], 3)

        head = int(a.sql("SELECT stream_seq FROM svc.projection_checkpoint"))
        tables = {"audit_records": f"stream_seq <= {head}", "event_envelopes": f"stream_seq <= {head}", "tokens": "true",
                  "managed_keys": "true", "codesign_operations": "true", "privacy_erasures": "true",
                  "audit_generations": "true", "approval_requests": "true"}
        dump = ";".join(f"SELECT '{x}', md5(string_agg(t::text, ',' ORDER BY t::text)) FROM svc.{x} t WHERE {which}"
                        for x, which in tables.items())
        live = a.sql(dump)
        self.assertEqual(a.stop(), 0, a.tail())
        a.appliance("scrub")
        self.assertEqual(files_with(f"{a.dir}/data", NAME), [])
        self.assertEqual(files_with(f"{a.dir}/run", NAME), [])
        self.assertEqual(files_with(f"{a.dir}/data", b"somebody-else"), [])
        a.appliance("rebuild")
        a.start()
        self.assertEqual(a.sql(dump), live)
        self.assertNotIn(NAME.decode(), json.dumps(all_records(a)))
        with open(a.log_path, "rb") as f:
            self.assertNotIn(NAME, f.read())


if __name__ == "__main__":
    unittest.main()
