"""Evidence packs as an auditor takes them away: fetched with audit:read alone, verified by the client and by others' tools,
altered and refused, rendered, and each download in the audit trail."""
import base64
import hashlib
import html.parser
import json
import os
import re
import uuid
import unittest

from appliance import Appliance, all_records, digest_of, make_key, own_appliance, run, sign_body

PACKS = "/api/v1/compliance/evidence-packs/"
KEYS = "/api/v1/compliance/verification-keys"
FRAMEWORKS = ("pci-dss", "hipaa", "soc2", "nist-800-53", "nist-csf-2.0", "fedramp", "cmmc-2.0", "cnsa-2.0", "fips-140",
              "common-criteria", "cabf-br", "webtrust", "etsi", "eidas", "nis2")
MEMBERS = {"format", "framework", "signed_export", "public_key_der", "custody", "adcs", "crypto_readiness"}
NAMESPACE = uuid.UUID("6f1c0d5e-3b7a-4c52-9a54-1f0c2d9b8e47")


def canonical(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def unb64(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class Page(html.parser.HTMLParser):
    """Which elements there are, and that each is closed."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.text = [], set(), ""

    def handle_starttag(self, tag, attributes):
        self.seen.add(tag)
        assert not any(name.startswith("on") or name in ("src", "action") for name, _ in attributes), (tag, attributes)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        self.text += data


class Packs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("packs").start()
        cls.dir = cls.a.dir
        session = cls.a.session("OPERATOR")
        cls.key = make_key(cls.a)
        for n in range(3):
            body = sign_body(session, cls.key, digest_of(b"release %d" % n))
            answer = session.api("POST", "/api/v1/code-signing/sign", body, key=True)
            assert answer.status == 200, answer
        session.close()
        cls.jwks, cls.root = f"{cls.dir}/evidence.jwks", f"{cls.dir}/tsa-root.pem"
        cls.a.cli("compliance", "verification-keys", "-o", cls.jwks, token="AUDITOR")
        with open(f"{cls.dir}/chain.pem", "w") as f:
            f.write(cls.a.cli("tsa", "chain").stdout)
        with open(f"{cls.dir}/chain.pem") as f, open(cls.root, "w") as out:
            out.write("-----BEGIN CERTIFICATE-----" + f.read().rsplit("-----BEGIN CERTIFICATE-----", 1)[1])
        cls.packs = {}
        for framework in FRAMEWORKS:
            answer = cls.a.api("GET", PACKS + framework, token="AUDITOR")
            assert answer.status == 200, answer
            cls.packs[framework] = answer

    @classmethod
    def tearDownClass(cls):
        cls.a.clean()

    def file(self, content, name=None):
        path = f"{self.dir}/{name or 'pack-' + os.urandom(4).hex()}"
        with open(path, "wb") as f:
            f.write(content if isinstance(content, bytes) else json.dumps(content).encode())
        return path

    def verify(self, path, *more, jwks=None):
        done = self.a.cli("compliance", "verify", path, "--jwks", jwks or self.jwks, "--json", *more, check=False)
        return done.returncode, json.loads(done.stdout)

    def test_what_is_wrong_is_refused_before_anything_is_made(self):
        for framework in ("soc3", "SOC2", "none"):
            answer = self.a.api("GET", PACKS + framework, token="AUDITOR")
            self.assertEqual((answer.status, answer.json["code"]), (404, "compliance_framework_unknown"))
            for known in FRAMEWORKS:
                self.assertIn(known, answer.json["detail"])
        self.assertEqual(self.a.api("GET", PACKS + "soc2", token="CI").status, 403)
        self.assertEqual(self.a.api("GET", PACKS + "soc2", token=None).status, 401)
        self.assertEqual(self.a.api("GET", PACKS + "soc2?days=30", token="AUDITOR").json["code"], "query_parameter")
        self.assertEqual(self.a.api("POST", KEYS + "/rotations", token="AUDITOR", key=True).status, 403)

    def test_each_framework_makes_seven_members_that_everybody_can_verify(self):
        for framework, answer in self.packs.items():
            pack = answer.json
            self.assertEqual(set(pack), MEMBERS)
            self.assertEqual((pack["format"], pack["framework"]), ("svc.compliance.evidence-pack.v5", framework))
            signed = pack["signed_export"]
            payload = unb64(signed["jws"].split(".")[1])
            self.assertEqual(payload, canonical(signed["manifest"]))
            self.assertEqual(signed["manifest_sha256"], hashlib.sha256(payload).hexdigest())
            self.assertIn(bytes.fromhex(signed["manifest_sha256"]), base64.b64decode(signed["timestamp"]))
            done = run("jose", "jws", "ver", "-i", "-", "-k", self.jwks, "-O-", input=signed["jws"])
            self.assertEqual(done.stdout.encode(), payload)
            for copy in ("custody", "adcs", "crypto_readiness"):
                self.assertEqual(pack[copy], signed["manifest"][copy])
            code, verdict = self.verify(self.file(answer.body), "--tsa-root", self.root)
            self.assertEqual((code, verdict["valid"], verdict["timestamp_good"]), (0, True, True), verdict)
            self.assertEqual(verdict["manifest_sha256"], signed["manifest_sha256"])
            self.assertNotRegex(payload.decode(), r"(?i)\bcompliant\b|(?<!\.)\bcertified\b")  # key.certified is an event

    @own_appliance("others record while it reads the whole trail")
    def test_references_are_records_of_the_trail(self):
        records = {r["event_id"]: r for r in all_records(self.a)}
        chains = {row["record"]["sequence"]: row["chain"] for row in
                  self.a.api("GET", "/api/v1/audit/records?order=asc&limit=500", token="AUDITOR").json["records"]}
        seen = 0
        for answer in self.packs.values():
            manifest = answer.json["signed_export"]["manifest"]
            self.assertEqual(manifest["tenant_id"], "default")
            for verdict in manifest["verdicts"]:
                for prerequisite in verdict["prerequisites"]:
                    for r in prerequisite["references"]:
                        if "event_id" in r:
                            seen += 1
                            record = records[r["event_id"]]
                            self.assertEqual((record["sequence"], record["type"], record["time"], chains[record["sequence"]]),
                                             (r["sequence"], r["type"], r["observed_at"], r["chain"]))
        self.assertGreater(seen, 10)

    def test_a_sample_of_a_packs_population_is_what_anybody_draws_from_the_trail(self):
        manifest = self.packs["soc2"].json["signed_export"]["manifest"]
        window, audit, population = manifest["evidence_window"], manifest["audit"], manifest["population"]
        self.assertEqual(population["total"] + population["outside_window"] + audit["archived_through"], audit["head_sequence"])
        asked = next(p for v in manifest["verdicts"] if v["control"] == "CC7" for p in v["prerequisites"]
                     if p["name"] == "credential-lifecycle")
        types = json.loads(self.a.cli("compliance", "sample", "soc2", "--control", "CC7", "--prerequisite", asked["name"],
                                      "--sample", "1", "--seed", "s", "--json", token="AUDITOR").stdout)["population"]["types"]
        trail = sorted((r for r in all_records(self.a) if window["from"] <= r["time"] <= window["to"]
                        and r["sequence"] <= audit["head_sequence"]), key=lambda r: (r["time"], r["sequence"]))
        for more, total, records in (((), population["total"], trail), (("--control", "CC7", "--prerequisite", asked["name"]),
                                     asked["population"]["total"], [r for r in trail if r["type"] in types])):
            said = json.loads(self.a.cli("compliance", "sample", "soc2", "--sample", "5", "--seed", "2026-Q3", "--json", "--to",
                                         window["to"], "--head-sequence", str(audit["head_sequence"]), *more,
                                         token="AUDITOR").stdout)
            self.assertEqual((said["population"]["total"], len(records)), (total, total))
            ranks, counter = [], 0
            while len(ranks) < 5:
                x = int(hashlib.sha256(f"svc.population.sample.v1:2026-Q3:{counter}".encode()).hexdigest()[:16], 16)
                counter += 1
                if x < 2**64 - 2**64 % total and x % total + 1 not in ranks:
                    ranks.append(x % total + 1)
            self.assertEqual(said["ranks"], ranks)
            self.assertEqual([r["record"] for r in said["records"]], [records[rank - 1] for rank in ranks])

    def test_every_download_is_in_the_audit_trail_before_it_leaves(self):
        read = [r for r in all_records(self.a) if r["type"] == "compliance.pack.read"]
        told = {(r["data"]["framework"], r["data"]["manifest_sha256"]) for r in read}
        for framework, answer in self.packs.items():
            self.assertIn((framework, answer.json["signed_export"]["manifest_sha256"]), told)
        self.assertEqual({r["data"]["artifact"] for r in read if r["data"]["framework"] in FRAMEWORKS} - {"population-sample"},
                         {"evidence-pack"})
        self.assertTrue(all(r["actor"]["subject"] for r in read))
        head = self.a.api("HEAD", PACKS + "soc2", token="AUDITOR")
        self.assertEqual((head.status, head.body), (200, b""))
        again = [r for r in all_records(self.a) if r["type"] == "compliance.pack.read"]
        self.assertEqual(len(again), len(read), "a HEAD request hands nothing out")

    def test_what_was_altered_is_refused_and_named(self):
        good = self.packs["soc2"].json
        manifest = good["signed_export"]["manifest"]

        def altered(change):
            pack = json.loads(json.dumps(good))
            change(pack)
            return self.verify(self.file(pack))

        def turn(pack):
            pack["signed_export"]["manifest"]["verdicts"][0]["verdict"] = "evidenced" if manifest["verdicts"][0]["verdict"] == "gap" else "gap"

        for change, code in (
                (turn, "manifest_copy_differs"),
                (lambda p: p["custody"].update(total=p["custody"]["total"] + 1), "custody_copy_differs"),
                (lambda p: p["adcs"].update(more=1), "adcs_copy_differs"),
                (lambda p: p["crypto_readiness"].update(total=9999), "crypto_readiness_copy_differs"),
                (lambda p: p.update(extra=1), "pack_members"),
                (lambda p: p.update(framework="hipaa"), "framework_copy_differs"),
                (lambda p: p["signed_export"].update(manifest_sha256="00" * 32), "manifest_digest_differs"),
                (lambda p: p["signed_export"].update(jws=p["signed_export"]["jws"][:-4] + "AAAA"), "signature_invalid")):
            status, verdict = altered(change)
            self.assertEqual((status, verdict["valid"], verdict["code"]), (2, False, code), verdict)
        other = self.file(self.a.api("GET", "/api/v1/audit/verification-keys", token="AUDITOR").body)
        status, verdict = self.verify(self.file(good), jwks=other)
        self.assertEqual((status, verdict["code"]), (2, "key_not_pinned"))

    def test_another_tenant_sees_nothing_of_the_first(self):
        self.a.appliance("tenant", "create", "rival")
        made = json.loads(self.a.appliance("token", "create", "--tenant", "rival", "--subject", "rival-auditor", "--role",
                                           "auditor", "--json").stdout)
        token = made["token"]
        answer = self.a.api("GET", PACKS + "nist-800-53", token=token)
        self.assertEqual(answer.status, 200, answer)
        manifest = answer.json["signed_export"]["manifest"]
        self.assertEqual(manifest["tenant_id"], "rival")
        self.assertNotIn(self.key, answer.body.decode())
        ids = {r["event_id"] for r in all_records(self.a)}
        self.assertFalse(ids & set(re.findall("[0-9a-f]{8}-[0-9a-f-]{27}", answer.body.decode())))
        status, verdict = self.verify(self.file(answer.body))
        self.assertEqual((status, verdict["code"]), (2, "key_not_pinned"), "it is signed by a key of its own")
        jwks = self.file(self.a.api("GET", KEYS, token=token).body)
        self.assertEqual(self.verify(self.file(answer.body), jwks=jwks)[0], 0)

    def test_renderings_carry_the_digest_and_follow_from_it(self):
        path, digest = self.file(self.packs["nist-800-53"].body), self.packs["nist-800-53"].json["signed_export"]["manifest_sha256"]
        out = f"{self.dir}/page.html"
        self.a.cli("compliance", "render", path, "--jwks", self.jwks, "--format", "html", "-o", out)
        page = Page()
        with open(out, encoding="utf-8") as f:
            page.feed(f.read())
        self.assertEqual((page.open, page.seen & {"script", "img", "link", "iframe", "form"}), ([], set()))
        self.assertIn(digest, page.text)
        done = run("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", f"file://{out}")
        self.assertIn(digest, done.stdout)
        oscal = json.loads(self.a.cli("compliance", "render", path, "--jwks", self.jwks, "--format", "oscal").stdout)
        document = oscal["assessment-results"]
        self.assertLessEqual({"uuid", "metadata", "import-ap", "results"}, set(document))
        self.assertEqual(document["uuid"], str(uuid.uuid5(NAMESPACE, f"{digest}/assessment-results")))
        self.assertEqual(document["metadata"]["version"], digest)
        result = document["results"][0]
        manifest = self.packs["nist-800-53"].json["signed_export"]["manifest"]
        states = [f["target"]["status"]["state"] == "satisfied" for f in result["findings"]]
        self.assertEqual(states, [v["verdict"] == "evidenced" for v in manifest["verdicts"]])
        known = {o["uuid"] for o in result["observations"]}
        for finding in result["findings"]:
            self.assertRegex(finding["target"]["target-id"], r"^[a-z][a-z0-9._-]*$")
            self.assertLessEqual({r["observation-uuid"] for r in finding["related-observations"]}, known)
        self.assertTrue(all({"uuid", "description", "methods", "collected"} <= set(o) for o in result["observations"]))

    def test_the_client_checks_before_it_writes_and_a_rotation_keeps_what_was_signed(self):
        out = f"{self.dir}/fetched.json"
        told = json.loads(self.a.cli("compliance", "evidence-pack", "eidas", "--jwks", self.jwks, "-o", out, "--json",
                                     token="AUDITOR").stdout)
        with open(out, "rb") as f:
            self.assertEqual(told["manifest_sha256"], json.load(f)["signed_export"]["manifest_sha256"])
        rotated = self.a.cli("compliance", "rotate-key")
        self.assertIn("ES256", rotated.stdout)
        done = self.a.cli("compliance", "evidence-pack", "eidas", "--jwks", self.jwks, "-o", f"{out}.new", token="AUDITOR",
                          check=False)
        self.assertEqual((done.returncode, os.path.exists(f"{out}.new")), (2, False))
        self.assertIn("key_not_pinned", done.stderr)
        later = f"{self.dir}/later.jwks"
        self.a.cli("compliance", "verification-keys", "-o", later, token="AUDITOR")
        fresh = self.a.api("GET", PACKS + "eidas", token="AUDITOR")
        self.assertEqual([self.verify(p, jwks=later)[0] for p in (out, self.file(fresh.body))], [0, 0])
        pem = f"{self.dir}/key.der"
        with open(pem, "wb") as f:
            f.write(base64.b64decode(fresh.json["public_key_der"]))
        done = self.a.cli("compliance", "verify", self.file(fresh.body), "--key", pem)
        self.assertIn("good evidence pack", done.stdout)


if __name__ == "__main__":
    unittest.main()
