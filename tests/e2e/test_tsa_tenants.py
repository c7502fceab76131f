"""Further tenants' time-stamping authorities: addresses, policies, keys, limits, and that they do not touch each other."""
import concurrent.futures
import http.client
import json
import os
import unittest

from appliance import Answer, Appliance, all_records, until
from stamping import Authority, Files, blocks, certificate_text, granted, query, request, serial, stamp, text_of

QUERY = {"Content-Type": "application/timestamp-query"}
TENANTS = """tenants:
  - tenant: acme
    policy_oid: 1.2.3.4.10
    policies: [1.2.3.4.11]
    hash_algorithms: [sha256]
    accuracy_ms: 2500
    key_algorithm: ec-p384
  - tenant: slow
    requests_per_second: 1
    burst: 3
  - tenant: narrow
    in_flight: 1
  - tenant: closed
    public: false
  - tenant: outside
    issuance: external
  - tenant: off
    enabled: false
  - tenant: nobody
"""
KNOWN = ("acme", "slow", "narrow", "closed", "outside", "off")


class Tenants(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.files = Files()
        cls.a = Appliance("tsaten", protocols__tsa__tenants_file=cls.files.put("tenants.yaml", TENANTS.encode()),
                          protocols__tsa__unit__overlap="1s")
        os.chmod(cls.files.folder.name, 0o755)
        cls.a.start()
        cls.tokens = {}
        for tenant in KNOWN:
            cls.a.appliance("tenant", "create", tenant)
            made = cls.a.appliance("token", "create", "--tenant", tenant, "--role", "operator", "--subject",
                                   f"user:{tenant}", "--json").stdout
            cls.tokens[tenant] = json.loads(made)["token"]
        for tenant in ("acme", "slow", "narrow"):
            until(f"{tenant} is there", lambda: granted(stamp(cls.a, b"x", f"/tsa/{tenant}")))

    @classmethod
    def tearDownClass(cls):
        cls.a.clean()
        cls.files.close()

    def chain(self, tenant):
        return request(self.a, "GET", f"/tsa/{tenant}/chain.pem").body

    def secure(self, method, path, body=None, token=None):
        connection = http.client.HTTPSConnection("127.0.0.1", self.a.port, context=self.a.tls(), timeout=20)
        headers = dict(QUERY) if body is not None else {}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        connection.request(method, path, body, headers)
        r = connection.getresponse()
        answer = Answer(r.status, dict(r.getheaders()), r.read())
        connection.close()
        return answer

    def units(self, tenant):
        return self.a.api("GET", "/api/v1/protocols/tsa/units", token=self.tokens[tenant]).json["items"]

    def bare(self, answer):
        """A refusal without what is of one request alone."""
        told = answer.json
        for name in ("instance", "trace_id"):
            told.pop(name, None)
        return answer.status, told

    def test_unknown_disabled_closed_and_not_yet_there_look_the_same(self):
        answers = [stamp(self.a, b"x", f"/tsa/{t}")
                   for t in ("unheard-of", "off", "nobody", "closed", "default", "UPPER", "a%20b")]
        self.assertEqual({a.status for a in answers}, {404})
        self.assertEqual(len({json.dumps(self.bare(a), sort_keys=True) for a in answers}), 1, answers)
        for tenant in ("unheard-of", "off", "nobody", "closed"):
            self.assertEqual(request(self.a, "GET", f"/tsa/{tenant}/chain.pem").status, 404)

    def test_policies_hashes_accuracy_and_algorithm_are_the_tenants_own(self):
        reply = stamp(self.a, b"data", "/tsa/acme")
        text = text_of(reply)
        self.assertIn("Policy OID: 1.2.3.4.10", text)
        self.assertIn("Accuracy: 0x02 seconds, 0x01F4 millis", text)
        self.assertIn("Policy OID: 1.2.3.4.11", text_of(stamp(self.a, b"data", "/tsa/acme", "-tspolicy", "1.2.3.4.11")))
        self.assertIn("Status: Rejected.", text_of(stamp(self.a, b"data", "/tsa", "-tspolicy", "1.2.3.4.10")))
        self.assertIn("unrecognized or unsupported", text_of(stamp(self.a, b"data", "/tsa/acme", "-sha512")))
        self.assertIn("Status: Granted.", text_of(stamp(self.a, b"data", "/tsa", "-sha512")))
        self.assertIn("secp384r1", certificate_text(blocks(self.chain("acme"))[0]))

    def test_keys_and_roots_are_of_one_tenant_alone(self):
        chains = {t: self.chain(t) for t in ("acme", "slow")}
        chains[""] = request(self.a, "GET", "/tsa/chain.pem").body
        certificates = [c for chain in chains.values() for c in blocks(chain)]
        self.assertEqual(len(set(certificates)), len(certificates))
        reply = stamp(self.a, b"data", "/tsa/acme")
        self.assertTrue(self.files.verifies(b"data", reply, chains["acme"]))
        self.assertFalse(self.files.verifies(b"data", reply, chains["slow"]))
        self.assertFalse(self.files.verifies(b"data", reply, chains[""]))
        mine = {u["unit_id"] for u in self.units("acme")}
        self.assertTrue(mine.isdisjoint({u["unit_id"] for u in self.units("slow")}))
        own = self.a.api("GET", "/api/v1/protocols/tsa/units").json["items"]
        self.assertTrue(mine.isdisjoint({u["unit_id"] for u in own}))
        taken = self.a.api("POST", f"/api/v1/protocols/tsa/units/{min(mine)}/retire",
                           {"reason": "not mine", "stop_stamping": True}, key=True)
        self.assertEqual(taken.status, 404, taken)

    def test_events_are_in_the_tenants_own_trail(self):
        before = len(all_records(self.a))
        number = str(serial(stamp(self.a, b"mine", "/tsa/acme")))
        page = until("it is in the tenant's trail", lambda: [
            r for r in all_records(self.a, self.tokens["acme"]) if r["data"].get("serial") == number])
        self.assertEqual(page[0]["actor"]["subject"], "tsa:anonymous")
        self.assertNotIn(number, [r["data"].get("serial") for r in all_records(self.a)[before:]])

    def test_serials_are_unique_over_tenants_and_rise_within_one(self):
        taken = {t: [serial(stamp(self.a, b"s", p)) for _ in range(5)]
                 for t, p in (("acme", "/tsa/acme"), ("", "/tsa"), ("narrow", "/tsa/narrow"))}
        every = [n for numbers in taken.values() for n in numbers]
        self.assertEqual(len(set(every)), len(every))
        for numbers in taken.values():
            self.assertEqual(numbers, sorted(numbers))
        self.assertEqual(len({n >> 20 for n in every}), 3)  # a lease for each

    def test_a_rate_beyond_its_limit_is_429_and_no_other_tenant_feels_it(self):
        replies = [stamp(self.a, b"n", "/tsa/slow") for _ in range(12)]
        refused = [r for r in replies if r.status == 429]
        self.assertGreaterEqual(len(refused), 5)
        self.assertTrue(all(r.status in (200, 429) for r in replies))
        self.assertEqual(refused[0].json["code"], "rate_limited")
        self.assertGreaterEqual(int(refused[0].headers["Retry-After"]), 1)
        self.assertTrue(granted(stamp(self.a, b"n", "/tsa/acme")))
        self.assertTrue(granted(stamp(self.a, b"n", "/tsa")))
        metrics = self.a.probe_get("/metrics").body.decode()
        self.assertRegex(metrics, r'svc_tsa_limited_total\{tenant="slow",limit="rate"\} [1-9]')
        until("it may again", lambda: granted(stamp(self.a, b"n", "/tsa/slow")))

    def test_more_at_once_than_it_may_have_is_503_and_no_other_tenant_feels_it(self):
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            others = [pool.submit(stamp, self.a, b"o", "/tsa/acme") for _ in range(20)]
            replies = [r for _ in range(20) for r in
                       pool.map(lambda _: stamp(self.a, b"n", "/tsa/narrow"), range(8))]
        self.assertTrue(all(r.status in (200, 503) for r in replies))
        refused = [r for r in replies if r.status == 503]
        self.assertTrue(refused)
        self.assertIn("Retry-After", refused[0].headers)
        self.assertTrue(all(granted(f.result()) for f in others))

    def test_a_closed_authority_is_for_its_own_tokens_over_tls_alone(self):
        der = query(b"closed")
        good = until("it is there", lambda: (lambda r: granted(r) and r)(
            self.secure("POST", "/tsa/closed", der, self.tokens["closed"])))
        chain = self.secure("GET", "/tsa/closed/chain.pem", token=self.tokens["closed"]).body
        self.assertTrue(self.files.verifies(b"closed", good, chain))
        for token in (None, "svc_closed_" + "A" * 43, self.tokens["acme"], self.a.token("OPERATOR")):
            self.assertEqual(self.secure("POST", "/tsa/closed", der, token).status, 404)
        plain = request(self.a, "POST", "/tsa/closed", der,
                        {**QUERY, "Authorization": f"Bearer {self.tokens['closed']}"})
        self.assertEqual(plain.status, 404)

    def test_a_tenant_with_an_authority_elsewhere(self):
        unit = until("a unit waits", lambda: [u for u in self.units("outside") if u["state"] == "prepared"])[0]
        self.assertIn("no time-stamping unit", text_of(stamp(self.a, b"x", "/tsa/outside")))
        path = f"/api/v1/protocols/tsa/units/{unit['unit_id']}"
        csr = self.a.api("POST", f"{path}/csr", {"subject": "CN=TSU"}, token=self.tokens["outside"], key=True)
        self.assertEqual(csr.status, 200, csr)
        files = Files()
        try:
            pem = Authority(files).chain(csr.json["csr_pem"])
            chain = ["".join(p.decode().split("-----")[2].split()) for p in pem]
            done = self.a.api("POST", f"{path}/certificates", {"certificate_chain": chain},
                              token=self.tokens["outside"], key=True)
            self.assertEqual(done.status, 200, done)
            reply = until("it stamps", lambda: (lambda r: granted(r) and r)(stamp(self.a, b"o", "/tsa/outside")))
            self.assertTrue(files.verifies(b"o", reply, self.chain("outside")))
        finally:
            files.close()

    def test_qualification_and_metrics_are_of_the_callers_tenant(self):
        answer = self.a.api("POST", "/api/v1/protocols/tsa/qualification", token=self.tokens["acme"])
        self.assertTrue(answer.json["endpoint"].endswith("/tsa/acme"), answer)
        self.assertEqual(answer.json["policy_oid"], "1.2.3.4.10")
        self.assertEqual(answer.json["unmet"], [])
        metrics = self.a.probe_get("/metrics").body.decode()
        self.assertIn('svc_tsa_unit_certificate_expiry_timestamp_seconds{tenant="acme"}', metrics)

    def test_zz_after_a_restart_marks_serials_and_units_go_on_for_each(self):
        before = {p: serial(stamp(self.a, b"b", p)) for p in ("/tsa", "/tsa/acme")}
        units = {t: [u["unit_id"] for u in self.units(t)] for t in ("acme", "slow")}
        self.assertEqual(self.a.stop(), 0)
        self.a.start()
        for path, number in before.items():
            reply = until("it stamps again", lambda: (lambda r: granted(r) and r)(stamp(self.a, b"a", path)))
            self.assertGreater(serial(reply), number)
        self.assertEqual({t: [u["unit_id"] for u in self.units(t)] for t in ("acme", "slow")}, units)


class Wrong(unittest.TestCase):
    def test_a_file_that_is_wrong_stops_the_start_and_names_the_line(self):
        files = Files()
        os.chmod(files.folder.name, 0o755)
        try:
            a = Appliance("tsabad", protocols__tsa__tenants_file=files.put(
                "bad.yaml", b"tenants:\n  - tenant: acme\n    accuracy_ms: 1\n"))
            a.spawn()
            until("it says why", lambda: "bad.yaml:3: accuracy_ms" in a.tail(400), 90)
            a.clean()
        finally:
            files.close()


if __name__ == "__main__":
    unittest.main()
