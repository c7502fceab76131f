"""A second tenant sees nothing of the first, in any list, by any id, with any key."""
import json
import unittest

from appliance import Appliance, all_records, b64, digest_of, make_key, sign_body


class Tenants(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("tenants").start()
        cls.a.appliance("tenant", "create", "rival")
        for role in ("admin", "operator", "auditor"):
            made = json.loads(cls.a.appliance("token", "create", "--tenant", "rival", "--subject", f"rival-{role}",
                                              "--role", role, "--ttl", "1h", "--json").stdout)
            cls.a.env[f"SVC_TOKEN_RIVAL_{role.upper()}"] = made["token"]

    @classmethod
    def tearDownClass(cls):
        cls.a.clean()

    def test_rival_sees_nothing_in_any_list(self):
        key_id = make_key(self.a, name="crown-jewel")
        session = self.a.session("OPERATOR")
        body = sign_body(session, key_id, digest_of(b"mine"), artifact_type="crown-artifact")
        signed = session.api("POST", "/api/v1/code-signing/sign", body, key=True)
        self.assertEqual(signed.status, 200, signed)
        document = self.a.api("GET", "/api/v1/openapi.json", token=None).json
        wanted = {"/api/v1/audit/proofs/inclusion": "?sequence=1", "/api/v1/audit/proofs/consistency": "?first=1&second=1"}
        swept = 0
        for path, methods in document["paths"].items():
            if "get" not in methods or "{" in path or not path.startswith("/api/") or path.endswith("openapi.json"):
                continue
            for role in ("RIVAL_ADMIN", "RIVAL_OPERATOR", "RIVAL_AUDITOR"):
                answer = self.a.api("GET", path + wanted.get(path, ""), token=role)
                text = answer.body.decode(errors="replace")
                with self.subTest(f"{path} {role}"):
                    self.assertIn(answer.status, (200, 403), answer)
                    for secret in (key_id, "crown-jewel", "crown-artifact", signed.json["operation_id"]):
                        self.assertNotIn(secret, text)
                swept += answer.status == 200
        self.assertGreaterEqual(swept, 4)

    def test_foreign_key_answers_like_an_unknown_one(self):
        key_id = make_key(self.a)
        unknown = "0198c0de-0000-7000-8000-000000000000"

        def ask(key):
            a = self.a.api("GET", f"/api/v1/keys/{key}", token="RIVAL_OPERATOR")
            b = self.a.api("POST", "/api/v1/code-signing/preview",
                           {"key_id": key, "artifact_type": "x", "digest": b64(digest_of(b"x"))}, token="RIVAL_OPERATOR")
            c = self.a.api("POST", f"/api/v1/keys/{key}/transitions",
                           {"to": "destroyed", "reason": "spite", "expected_version": 1}, token="RIVAL_OPERATOR", key=True)

            def bare(answer):
                body = {k: v for k, v in answer.json.items() if k not in ("trace_id", "instance")}
                return answer.status, json.dumps(body, sort_keys=True).replace(key, "ID")

            return [bare(x) for x in (a, b, c)]

        self.assertEqual(ask(key_id), ask(unknown))
        self.assertEqual(self.a.api("GET", f"/api/v1/keys/{key_id}").json["state"], "active")

    def test_every_tenant_table_forces_row_level_security(self):
        loose = self.a.sql(
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id' "
            "WHERE n.nspname = 'svc' AND c.relkind IN ('r', 'p') AND NOT (c.relrowsecurity AND c.relforcerowsecurity)")
        self.assertEqual(loose, "")
        count = self.a.sql(
            "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id' WHERE n.nspname = 'svc' AND c.relkind = 'r'")
        self.assertGreaterEqual(int(count), 5)

    def test_same_idempotency_key_in_two_tenants_are_two_commands(self):
        first = self.a.api("POST", "/api/v1/keys", {"name": "a", "algorithm": "ec-p256", "purpose": "codesign"}, key="shared-1")
        second = self.a.api("POST", "/api/v1/keys", {"name": "b", "algorithm": "ec-p256", "purpose": "codesign"},
                            token="RIVAL_OPERATOR", key="shared-1")
        self.assertEqual((first.status, second.status), (201, 201), (first, second))
        self.assertNotEqual(first.json["key_id"], second.json["key_id"])

    def test_chains_are_separate(self):
        for role in ("AUDITOR", "RIVAL_AUDITOR"):
            records = all_records(self.a, role)
            self.assertEqual([r["sequence"] for r in records], list(range(1, len(records) + 1)))
            self.assertEqual(len({r["tenant_id"] for r in records}), 1)


if __name__ == "__main__":
    unittest.main()
