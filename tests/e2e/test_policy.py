"""The rules of signing as people meet them: shown, explained, and refused at start when they are wrong."""
import os
import unittest

import signing
from appliance import Appliance, all_records, make_key

EXPLAIN, SHOW = signing.BASE + "/policy/explain", signing.BASE + "/policy"
RULES = """rules:
  - name: other-tenant
    when: {tenant: [beta]}
    then: deny
    reason: beta signs nothing
  - name: release
    when: {tenant: [default, beta], key: ["release-*"]}
    then: require_approval
    approvers: 2
    window: 8h
    max_signings: 3
  - name: ci-in-2030
    when:
      role: [ci]
      artifact_type: [tarball]
      time: {not_before: 2030-01-01T00:00:00Z}
    then: allow
  - name: workflow
    when: {issuer: ["https://issuer.example"], san: ["https://git.example/acme/*"]}
    then: allow
"""


class Rules(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("rules")
        cls.addClassCleanup(cls.a.clean)
        signing.write_policy(cls.a, RULES)
        cls.a.start()
        cls.release = make_key(cls.a, name="release-1")
        cls.other = make_key(cls.a, name="other-1")

    def explain(self, token="CI", **body):
        answer = self.a.api("POST", EXPLAIN, {"artifact_type": "tarball", **body}, token=token)
        self.assertEqual(answer.status, 200, answer)
        return answer.json

    def refused(self, body, status, code, pointer=None):
        answer = self.a.api("POST", EXPLAIN, body, token="CI")
        self.assertEqual((answer.status, answer.json["code"]), (status, code), answer)
        if pointer:
            self.assertEqual(answer.json.get("pointer"), pointer, answer)

    def test_bad_questions_are_refused_by_field(self):
        good = {"artifact_type": "tarball"}
        nobody = "0198c0de-0000-7000-8000-000000000000"
        self.refused({}, 400, "json_field")
        self.refused({**good, "keyid": "x"}, 400, "json_field")
        self.refused({**good, "mode": "both"}, 400, "json_field", "/mode")
        self.refused({**good, "digest_algorithm": "sha1"}, 400, "json_field", "/digest_algorithm")
        self.refused({**good, "at": "tomorrow"}, 400, "json_field", "/at")
        self.refused({**good, "roles": ["r"] * 9}, 400, "json_field", "/roles")
        self.refused({**good, "mode": "keyless", "key_id": self.release}, 400, "json_field", "/key_id")
        self.refused({**good, "issuer": "i", "key_name": "k"}, 400, "json_field", "/key_name")
        self.refused({**good, "mode": "key", "san": "s"}, 400, "json_field", "/san")
        self.refused({**good, "key_id": self.release, "key_name": "release-1"}, 400, "json_field", "/key_name")
        self.refused({**good, "key_id": nobody}, 404, "key_not_found", "/key_id")
        self.refused({**good, "key_id": "x"}, 404, "key_not_found", "/key_id")
        system = [k for k in self.a.api("GET", "/api/v1/keys?purpose=tsa").json["items"]]
        if system:
            self.refused({**good, "key_id": system[0]["key_id"]}, 404, "key_not_found", "/key_id")
        for method, path in (("POST", EXPLAIN), ("GET", SHOW)):
            answer = self.a.api(method, path, good if method == "POST" else None, token="AUDITOR")
            self.assertEqual((answer.status, answer.json["code"]), (403, "forbidden"), answer)

    def test_it_says_what_each_rule_failed_on_and_changes_nothing(self):
        before = len(all_records(self.a))
        said = self.explain(key_id=self.other)
        self.assertEqual((said["policy_enabled"], said["outcome"], said["rule"], said["file"], said["line"]),
                         (True, "deny", "(no rule)", "", 0), said)
        self.assertEqual([(r["rule"], r["matched"], r.get("failed_on")) for r in said["considered"]],
                         [("release", False, "key"), ("ci-in-2030", False, "time"), ("workflow", False, "issuer")])
        said = self.explain(key_id=self.release)
        self.assertEqual((said["outcome"], said["rule"], said["file"], said["line"]),
                         ("require_approval", "release", "10-test.yaml", 6))
        self.assertEqual((said["approvers"], said["window_seconds"], said["max_signings"]), (2, 28800, 3))
        self.assertEqual(len(said["considered"]), 1)
        self.assertEqual((said["input"]["key_id"], said["input"]["key_name"]), (self.release, "release-1"))
        self.assertEqual(said["input"]["digest_algorithm"], "sha256")
        by_name = self.explain(key_name="release-1")
        self.assertEqual((by_name["rule"], by_name["input"]["key_id"]), ("release", self.release))
        planned = self.explain(key_name="release-of-next-year")
        self.assertEqual(planned["rule"], "release")
        self.assertNotIn("key_id", planned["input"])
        self.assertEqual(len(all_records(self.a)), before)

    def test_the_caller_is_asked_about_unless_another_is_named(self):
        at = "2030-06-01T12:00:00Z"
        mine = self.explain(at=at)
        self.assertEqual((mine["outcome"], mine["rule"], mine["input"]["roles"]), ("allow", "ci-in-2030", ["ci"]))
        self.assertEqual(self.explain(token="OPERATOR", at=at)["outcome"], "deny")
        self.assertEqual(self.explain(token="OPERATOR", at=at, roles=["ci"])["outcome"], "allow")
        someone = self.explain(at=at, principal="somebody-else")
        self.assertEqual((someone["outcome"], someone["input"]["roles"]), ("deny", []))
        self.assertEqual(self.explain(at=at, principal="somebody-else", roles=["x", "ci"])["outcome"], "allow")
        keyless = self.explain(issuer="https://issuer.example", san="https://git.example/acme/w@v1")
        self.assertEqual((keyless["rule"], keyless["input"]["mode"]), ("workflow", "keyless"))

    def test_the_rules_are_shown_in_order_without_other_tenants(self):
        answer = self.a.api("GET", SHOW, token="CI")
        self.assertEqual(answer.status, 200, answer)
        shown = answer.json
        self.assertEqual([r["rule"] for r in shown["rules"]], ["release", "ci-in-2030", "workflow"])
        self.assertEqual(shown["rules"][0]["when"], {"tenant": ["default"], "key": ["release-*"]})
        self.assertEqual((shown["policy_enabled"], shown["require_approval"], shown["approval_window_seconds"]),
                         (True, False, 86400))
        self.assertRegex(shown["digest"], "^[0-9a-f]{64}$")
        self.assertEqual(self.explain()["digest"], shown["digest"])
        self.assertNotIn(b"beta", answer.body)


class Settings(unittest.TestCase):
    def test_a_policy_that_is_off_says_so(self):
        a = Appliance("rules-off")
        self.addCleanup(a.clean)
        a.start()
        shown = a.api("GET", SHOW, token="CI").json
        self.assertEqual((shown["policy_enabled"], shown["rules"]), (False, []))
        said = a.api("POST", EXPLAIN, {"artifact_type": "x"}, token="CI").json
        self.assertEqual((said["policy_enabled"], said["outcome"], said["rule"], said["considered"]),
                         (False, "allow", "(no rule)", []))

    def test_bad_rules_refuse_the_start_by_line(self):
        a = Appliance("rules-bad")
        self.addCleanup(a.clean)
        folder = signing.write_policy(a, RULES.replace("max_signings", "max_signing"))
        a.spawn()
        self.assertNotEqual(a.process.wait(120), 0)
        self.assertIn("10-test.yaml:11: rule release: 'max_signing' is no key of a rule", a.tail(400))
        os.remove(f"{folder}/codesign/10-test.yaml")
        a.spawn()
        self.assertNotEqual(a.process.wait(120), 0)
        self.assertIn("holds no *.yaml file with rules", a.tail(400))


if __name__ == "__main__":
    unittest.main()
