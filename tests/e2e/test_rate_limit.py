"""The request budget of a tenant on a real appliance, and what one mutation waits for."""
import json
import unittest

from appliance import Appliance, make_key, until

BUDGET = 64


class RateLimit(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("rate", rate_limit__requests=BUDGET, rate_limit__window="24h")
        try:
            cls.a.start()
        except BaseException:
            cls.a.clean()
            raise
        cls.addClassCleanup(cls.a.clean)

    def lines(self, route):
        with open(self.a.log_path, errors="replace") as f:
            found = [json.loads(line) for line in f if '"http_request"' in line and route in line]
        return [line for line in found if line["route"] == route]

    def test_1_a_small_mutation_waits_three_times_for_the_database_and_once_for_the_log(self):
        key_id = make_key(self.a)
        path = f"/api/v1/credentials/key/{key_id}/owner"
        for _ in range(6):
            self.assertEqual(self.a.api("PUT", path, {"owner_id": "team"}, key=True).status, 200)
        route = "/api/v1/credentials/:id/:id/owner"
        lines = until("they are in the access log", lambda: len(self.lines(route)) == 6 and self.lines(route))
        counts = sorted((int(line["store_waits"]), int(line["log_waits"])) for line in lines)
        # Now and then one of them asks for tokens of the tenant's budget: a lease of several is for several requests.
        self.assertLessEqual([store for store, _ in counts].count(4), 4, counts)
        self.assertEqual({log for _, log in counts}, {1}, counts)
        self.assertEqual(counts[0], (3, 1), counts)

    def test_2_a_spent_budget_is_refused_with_a_time_to_come_again(self):
        session = self.a.session("OPERATOR")
        answers = [session.api("GET", "/api/v1/keys") for _ in range(BUDGET + 1)]
        session.close()
        refused = [answer for answer in answers if answer.status != 200]
        self.assertGreater(len(answers) - len(refused), 0)
        self.assertGreater(len(refused), 0)
        last = answers[-1]
        self.assertEqual((last.status, last.headers["Content-Type"], last.json["code"], last.json["retryable"]),
                         (429, "application/problem+json", "rate_limited", True), last)
        self.assertTrue(1 <= int(last.headers["Retry-After"]) <= 24 * 3600 // BUDGET, last.headers)
        # Also of the tenant's other tokens; nothing is claimed by what is refused.
        self.assertEqual(self.a.api("GET", "/api/v1/credentials", token="AUDITOR").status, 429)
        before = self.a.sql("SELECT count(*) FROM svc.idempotency_keys")
        self.assertEqual(self.a.api("POST", "/api/v1/keys", {"name": "k"}, key=True).status, 429)
        self.assertEqual(self.a.sql("SELECT count(*) FROM svc.idempotency_keys"), before)
        # svc-cli waits as long as it is told to, but not for minutes.
        said = self.a.cli("keys", "list", check=False)
        self.assertEqual(said.returncode, 2, said)
        self.assertIn("rate_limited", said.stderr)
        self.assertIn("worth repeating in", said.stderr)
        self.assertNotIn("the same request again", said.stderr)

    def test_3_probes_public_endpoints_and_other_tenants_go_on(self):
        for path in ("/healthz", "/readyz", "/metrics"):
            self.assertEqual(self.a.probe_get(path).status, 200, path)
        for _ in range(BUDGET + 1):
            self.assertEqual(self.a.session().api("GET", "/api/v1/openapi.json").status, 200)
        self.assertEqual(self.a.api("GET", "/api/v1/keys", token=None).status, 401)
        text = self.a.probe_get("/metrics").body.decode()
        rejections = next(line for line in text.splitlines() if line.startswith("svc_rate_limit_rejections_total"))
        self.assertGreater(float(rejections.split()[1]), 0)
        self.a.appliance("tenant", "create", "globex")
        token = json.loads(self.a.appliance("token", "create", "--tenant", "globex", "--subject", "g", "--role", "auditor",
                                            "--json").stdout)["token"]
        self.assertEqual(self.a.api("GET", "/api/v1/credentials", token=token).status, 200)


if __name__ == "__main__":
    unittest.main()
