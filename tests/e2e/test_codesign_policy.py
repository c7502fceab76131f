"""Who may sign: rules that deny, rules that ask for approvers, what an approval binds, and the trail that it leaves."""
import json
import re
import secrets
import unittest

import signing
from appliance import Appliance, all_records, digest_of, make_key, openssl_verifies, until

RULES = """rules:
  - name: never
    when: {artifact_type: [forbidden]}
    then: deny
    reason: forbidden artifacts stay unsigned
  - name: one
    when: {artifact_type: [release]}
    then: require_approval
    approvers: 1
  - name: two
    when: {artifact_type: [critical]}
    then: require_approval
    approvers: 2
  - name: limited
    when: {artifact_type: [limited]}
    then: require_approval
    approvers: 1
    max_signings: 2
  - name: snapshots
    when: {artifact_type: ["snapshot-*", file]}
    then: allow
"""
RESOURCE = re.compile(r"^approval_required:codesign:[0-9a-f]{64}$")


def make_token(a, subject, *roles):
    made = a.api("POST", "/api/v1/tokens", {"subject": subject, "roles": list(roles), "ttl_seconds": 3600}, token="ADMIN",
                 key=True)
    assert made.status == 201, made
    return made.json["token"]


class Policy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("policy")
        cls.addClassCleanup(cls.a.clean)
        signing.write_policy(cls.a, RULES)
        cls.a.start()
        cls.key_id = make_key(cls.a)
        cls.builder = make_token(cls.a, "builder", "operator")
        cls.anna, cls.ben = make_token(cls.a, "anna", "approver"), make_token(cls.a, "ben", "approver")
        cls.both = make_token(cls.a, "both", "operator", "approver")

    def body(self, artifact_type, data=None, key_id=None):
        self.data = data or secrets.token_bytes(40)
        return signing.key_body(key_id or self.key_id, digest_of(self.data), artifact_type=artifact_type)

    def prepare(self, body, token=None):
        session = self.a.session(token or self.builder)
        self.addCleanup(session.close)
        return session, signing.previewed(session, "key", body)

    def problem(self, answer, status, code):
        self.assertEqual((answer.status, answer.json.get("code")), (status, code), answer)
        return answer.json

    def refused(self, session, body):
        """Asks for a signature, is told that an approval is due, and for which resource."""
        answer = signing.execute(session, "key", body)
        resource = self.problem(answer, 403, "approval_required")["resource"]
        self.assertRegex(resource, RESOURCE)
        return resource

    def waiting(self, token, resource):
        answer = self.a.api("GET", "/api/v1/approval-requests?waiting_for_me=true&limit=200", token=token)
        self.assertEqual(answer.status, 200, answer)
        return [r for r in answer.json["items"] if r["resource"] == resource]

    def approve(self, token, resource, **more):
        return self.a.api("POST", f"/api/v1/identities/{resource}/approvals", {"action": "sign", **more}, token=token, key=True)

    def approved(self, token, resource):
        answer = self.approve(token, resource)
        self.assertIn(answer.status, (200, 201), answer)
        return answer

    def decide(self, token, request_id, what, key=True, **body):
        return self.a.api("POST", f"/api/v1/approval-requests/{request_id}/{what}", body, token=token, key=key)

    def signs(self, session, body, key=None):
        answer = signing.execute(session, "key", body, key)
        self.assertEqual(answer.status, 200, answer)
        return answer

    # ---- refusals ----

    def test_a_rule_denies_and_says_why(self):
        session, body = self.prepare(self.body("forbidden"))
        told = signing.preview(session, "key", self.body("forbidden", self.data)).json["policy"]
        self.assertEqual((told["outcome"], told["rule"], told["reason"]),
                         ("deny", "never", "forbidden artifacts stay unsigned"))
        key = secrets.token_hex(16)
        first = signing.execute(session, "key", body, key)
        self.problem(first, 403, "policy_denied")
        again = signing.execute(session, "key", body, key)
        self.assertEqual((again.status, again.json["code"]), (403, "policy_denied"))
        refused = [r for r in all_records(self.a) if r["type"] == "codesign.refused"]
        operations = [r["data"]["operation_id"] for r in refused]
        self.assertEqual(len(operations), len(set(operations)), "one refusal for each operation")
        types = {r["type"] for r in signing.records_of(self.a, operations[-1])}
        self.assertEqual(types, {"codesign.commanded", "codesign.refused"})
        self.assertEqual(signing.journal_entries(self.a, operations[-1]), 0, "the signer was asked")
        self.assertEqual(signing.operation(self.a, operations[-1])["state"], "refused")

    def test_what_no_rule_names_is_denied(self):
        session, body = self.prepare(self.body("something-else"))
        self.problem(signing.execute(session, "key", body), 403, "policy_denied")

    def test_what_a_rule_allows_is_signed_at_once(self):
        session, body = self.prepare(self.body("snapshot-7"))
        self.signs(session, body)

    # ---- approvals ----

    def test_an_approval_lets_exactly_this_pass(self):
        session, body = self.prepare(self.body("release"))
        told = signing.preview(session, "key", self.body("release", self.data)).json["approval"]
        self.assertEqual((told["required"], told["state"], told["approvers"]), (True, "none", 1))
        key = secrets.token_hex(16)
        first = signing.execute(session, "key", body, key)
        resource = self.problem(first, 403, "approval_required")["resource"]
        self.assertEqual(resource, told["resource"])
        self.assertEqual(self.refused(session, body), resource)
        self.assertEqual(len(self.waiting(self.anna, resource)), 1, "asked twice, one request")
        self.assertEqual(self.waiting(self.both, resource)[0]["requester"], "builder")

        self.approved(self.anna, resource)
        self.assertEqual(self.waiting(self.anna, resource), [])
        same = signing.execute(session, "key", body, key)
        self.assertEqual((same.status, same.body), (403, first.body), "the old Idempotency-Key keeps its answer")
        answer = self.signs(session, body)
        self.assertTrue(openssl_verifies(signing.base64.b64decode(answer.json["public_key_der"]),
                                         signing.signatures_of(answer)[0], self.data))
        told = signing.preview(session, "key", self.body("release", self.data)).json["approval"]
        self.assertEqual((told["state"], told["resource"], told["approvals"]), ("approved", resource, 1))
        # Another principal, another key, another digest: each asks for an approval of its own.
        others = [self.prepare(self.body("release", self.data), self.both),
                  self.prepare(self.body("release", self.data, make_key(self.a))),
                  self.prepare(self.body("release"))]
        resources = [self.refused(s, b) for s, b in others]
        self.assertEqual(len({resource, *resources}), 4)

    def test_the_requester_is_no_approver(self):
        session, body = self.prepare(self.body("release"), self.both)
        resource = self.refused(session, body)
        self.problem(self.approve(self.both, resource), 403, "approver_is_requester")
        self.assertEqual(self.waiting(self.both, resource), [], "waits for others")
        request = self.waiting(self.anna, resource)[0]
        self.problem(self.decide(self.both, request["request_id"], "approvals"), 403, "approver_is_requester")
        self.problem(self.approve("OPERATOR", resource), 403, "forbidden")
        self.refused(session, body)
        self.approved(self.ben, resource)
        self.signs(session, body)

    def test_two_approvers_are_two_people(self):
        session, body = self.prepare(self.body("critical"))
        resource = self.refused(session, body)
        self.approved(self.anna, resource)
        self.approve(self.anna, resource)  # once more, with whatever answer: it counts once
        self.assertEqual(self.refused(session, body), resource)
        told = signing.preview(session, "key", self.body("critical", self.data)).json["approval"]
        self.assertEqual((told["state"], told["approvers"], told["approvals"]), ("pending", 2, 1))
        self.approved(self.ben, resource)
        self.signs(session, body)
        granted = [r["data"] for r in all_records(self.a)
                   if r["type"] == "approval.granted" and r["data"]["resource"] == resource]
        self.assertEqual([(g["approver"], g["approved"]) for g in granted], [("anna", False), ("ben", True)])
        self.assertEqual({(g["requester"], g["action"]) for g in granted}, {("builder", "sign")})
        self.change_is_evidence()

    def change_is_evidence(self):
        """What frameworks ask of these records is what stands in them."""
        answer = self.a.api("GET", "/api/v1/compliance/evidence-packs/soc2", token="AUDITOR")
        self.assertEqual(answer.status, 200, answer)
        verdicts = {v["control"]: v for v in answer.json["signed_export"]["manifest"]["verdicts"]}
        for control, name in (("CC7", "policy-decision"), ("CC8", "active-authored-policy"), ("CC8", "approved-change")):
            asked = next(p for p in verdicts[control]["prerequisites"] if p["name"] == name)
            self.assertEqual(asked["state"], "met", asked)
        self.assertEqual([e["reason"] for e in asked["population"]["excluded"]], ["condition"], asked)

    def test_one_denial_is_enough(self):
        session, body = self.prepare(self.body("critical"))
        resource = self.refused(session, body)
        request = self.waiting(self.anna, resource)[0]
        self.approved(self.anna, resource)
        answer = self.decide(self.ben, request["request_id"], "denials", reason="not before the audit")
        self.assertIn(answer.status, (200, 201), answer)
        self.problem(signing.execute(session, "key", body), 403, "approval_denied")
        self.problem(self.approve(self.both, resource), 409, "approval_request_closed")
        shown = self.a.api("GET", f"/api/v1/approval-requests/{request['request_id']}", token=self.anna).json
        self.assertEqual(shown["state"], "denied")

    def test_an_approval_counts_its_signings(self):
        session, body = self.prepare(self.body("limited"))
        resource = self.refused(session, body)
        self.approved(self.anna, resource)
        keys = [secrets.token_hex(16) for _ in range(2)]
        answers = [self.signs(session, body, key) for key in keys]
        for key, answer in zip(keys, answers):
            again = self.signs(session, body, key)
            self.assertEqual(again.body, answer.body, "a repetition is no further signing")
        self.assertEqual(self.refused(session, body), resource)
        told = signing.preview(session, "key", self.body("limited", self.data)).json["approval"]
        self.assertIn(told["state"], ("used_up", "pending"))
        self.approved(self.ben, resource)
        self.signs(session, body)
        used = [r for r in all_records(self.a) if r["type"] == "approval.used" and r["data"]["resource"] == resource]
        operations = [r["data"]["operation_id"] for r in used]
        self.assertEqual((len(operations), len(set(operations))), (3, 3))

    def test_a_decision_is_idempotent(self):
        session, body = self.prepare(self.body("critical"))
        resource = self.refused(session, body)
        request = self.waiting(self.anna, resource)[0]["request_id"]
        key = secrets.token_hex(16)
        answers = [self.decide(self.anna, request, "approvals", key=key) for _ in range(3)]
        self.assertEqual({(a.status, a.body) for a in answers}, {(answers[0].status, answers[0].body)})
        granted = [r for r in all_records(self.a)
                   if r["type"] == "approval.granted" and r["data"]["resource"] == resource]
        self.assertEqual(len(granted), 1)

    def test_a_batch_is_approved_or_refused_as_a_whole(self):
        session = self.a.session(self.builder)
        self.addCleanup(session.close)
        digests = [digest_of(secrets.token_bytes(8)) for _ in range(3)]
        body = signing.previewed(session, "batch", signing.batch_body(self.key_id, digests, artifact_type="release"))
        answer = signing.execute(session, "batch", body)
        resource = self.problem(answer, 403, "approval_required")["resource"]
        self.approved(self.anna, resource)
        answer = signing.execute(session, "batch", body)
        self.assertEqual(answer.status, 200, answer)
        smaller = signing.previewed(session, "batch", signing.batch_body(self.key_id, digests[:2], artifact_type="release"))
        other = self.problem(signing.execute(session, "batch", smaller), 403, "approval_required")["resource"]
        self.assertNotEqual(other, resource)

    def test_nobody_elses_tenant(self):
        session, body = self.prepare(self.body("release"))
        resource = self.refused(session, body)
        request = self.waiting(self.anna, resource)[0]["request_id"]
        self.a.appliance("tenant", "create", "rival")
        made = json.loads(self.a.appliance("token", "create", "--tenant", "rival", "--subject", "rival", "--role", "approver",
                                           "--ttl", "1h", "--json").stdout)["token"]
        unknown = self.approve(made, "approval_required:codesign:" + "0" * 64)
        foreign = self.approve(made, resource)
        self.assertEqual((foreign.status, foreign.json["code"]), (unknown.status, unknown.json["code"]))
        self.assertEqual(foreign.status, 404, foreign)
        for what in ("approvals", "denials"):
            self.assertEqual(self.decide(made, request, what, reason="mine").status, 404)
        self.assertEqual(self.waiting(made, resource), [])
        self.refused(session, body)

    def test_rubbish_is_refused(self):
        for resource in ("x", "approval_required:codesign:" + "0" * 63, "approval_required:codesign:" + "G" * 64,
                         "approval_required:other:" + "0" * 64):
            answer = self.approve(self.anna, resource)
            with self.subTest(resource):
                self.assertIn(answer.status, (400, 404), answer)
        session, body = self.prepare(self.body("release"))
        answer = self.approve(self.anna, self.refused(session, body), action="issue")
        self.problem(answer, 400, "json_field")
        self.refused(session, body)

    def test_the_trail_tells_who_let_what_pass(self):
        session, body = self.prepare(self.body("critical"))
        resource = self.refused(session, body)
        self.approved(self.anna, resource)
        self.approved(self.ben, resource)
        operation = self.signs(session, body).json["operation_id"]
        mine = [r for r in all_records(self.a) if r["data"].get("resource") == resource or
                r["data"].get("operation_id") == operation]
        types = [r["type"] for r in mine]
        for event in ("codesign.refused", "approval.requested", "approval.granted", "codesign.signed", "codesign.completed"):
            self.assertIn(event, types)
        self.assertLess(types.index("approval.requested"), types.index("approval.granted"))
        self.assertLess(types.index("approval.granted"), types.index("codesign.signed"))
        asked = mine[types.index("approval.requested")]["data"]
        self.assertEqual((asked["requester"], asked["rule"], asked["approvers"]), ("builder", "two", 2))
        exported = self.a.api("GET", "/api/v1/audit/export", token="AUDITOR")
        self.assertEqual(exported.status, 200, exported)

    def test_explain_names_the_rule_without_effect(self):
        before = len(all_records(self.a))
        question = f"{self.a.dir}/question.json"
        for artifact_type, rule, outcome in (("forbidden", "never", "deny"), ("critical", "two", "require_approval"),
                                             ("snapshot-1", "snapshots", "allow"), ("odd", "(no rule)", "deny")):
            asked = {"artifact_type": artifact_type, "key_id": self.key_id}
            answer = self.a.api("POST", signing.BASE + "/policy/explain", asked, token=self.builder)
            self.assertEqual(answer.status, 200, answer)
            self.assertEqual((answer.json["outcome"], answer.json["rule"]), (outcome, rule), answer)
            with open(question, "w") as f:
                json.dump(asked, f)
            said = self.a.cli("code-signing", "policy", "explain", "-f", question).stdout
            self.assertIn(rule, said)
        self.assertEqual(len(all_records(self.a)), before)


class Everything(unittest.TestCase):
    """ca.policy.require_approval without rules: every signing needs somebody else."""

    def test_every_signing_needs_an_approval(self):
        a = Appliance("approve-all", ca__policy__require_approval=True)
        try:
            a.start()
            key_id = make_key(a)
            session = a.session("OPERATOR")
            body = signing.previewed(session, "key", signing.key_body(key_id, digest_of(b"x")))
            answer = signing.execute(session, "key", body)
            self.assertEqual((answer.status, answer.json["code"]), (403, "approval_required"), answer)
            resource = answer.json["resource"]
            done = a.api("POST", f"/api/v1/identities/{resource}/approvals", {"action": "sign"}, token="APPROVER", key=True)
            self.assertIn(done.status, (200, 201), done)
            self.assertEqual(signing.execute(session, "key", body).status, 200)
            # It holds after a restart, and after the read model was made anew from the log.
            a.stop()
            a.appliance("rebuild")
            a.start()
            session = a.session("OPERATOR")
            answer = until("it signs", lambda: signing.try_once(session, "key", body, secrets.token_hex(16)), 60)
            self.assertEqual(answer.status, 200, answer)
            session.close()
        finally:
            a.clean()


if __name__ == "__main__":
    unittest.main()
