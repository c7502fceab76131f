"""What the appliance says of its cryptography: editions, bill of materials, crypto readiness in three shapes with one
digest that is recomputed here, attestations and actions; over the API and with svc-cli."""
import csv
import hashlib
import io
import json
import os
import tempfile
import unittest

import signing
from appliance import Appliance, digest_of, make_key, until

READINESS = "/api/v1/graph/crypto-readiness"


def line(row):
    return json.dumps(row, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def digest_over(rows):
    return hashlib.sha256(b"".join(rows)).hexdigest()


class CryptoPosture(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.a = Appliance("posture", fips__custody_certificates=["CMVP 0000 of token main"])
        cls.addClassCleanup(cls.a.clean)
        cls.a.start()
        cls.key = make_key(cls.a, "ec-p256", "release")
        cls.auditor = cls.a.session("AUDITOR")
        cls.addClassCleanup(cls.auditor.close)

    def file(self, name, value):
        path = os.path.join(self.folder.name, name)
        with open(path, "w") as f:
            json.dump(value, f)
        return path

    def rows(self):
        answer = self.auditor.api("GET", READINESS)
        self.assertEqual(answer.status, 200, answer)
        return {row["object"]: row for row in answer.json["rows"]}

    def test_1_editions_state_what_the_process_knows(self):
        self.assertEqual(self.auditor.api("GET", "/api/v1/editions").status, 403)
        said = self.a.api("GET", "/api/v1/editions").json
        self.assertEqual(said["edition"], "community")
        self.assertIsNone(said["deployment_entitlement"]["production_units_consumed"])
        fips = said["fips"]
        self.assertEqual([fips[k] for k in ("required", "module_active", "self_test_passed")], [True] * 3)
        self.assertEqual(fips["standard"], "FIPS 140-3")
        self.assertIn("FIPS", fips["module"]["name"])
        profile = fips["regulated_deployment_profile"]
        self.assertEqual(profile["hsm_kms_validation_certificates"], ["CMVP 0000 of token main"])
        self.assertIn("AES-256-GCM", profile["approved_algorithms"])
        self.assertIn("ML-DSA", profile["non_fips_fences"])
        with open(profile["module_selector"]["file"], "rb") as f:
            self.assertEqual(profile["module_selector"]["sha256"], hashlib.sha256(f.read()).hexdigest())
        shown = self.a.cli("editions").stdout
        self.assertIn("module active", shown)
        self.assertEqual(json.loads(self.a.cli("editions", "--json").stdout), said)

    def test_2_all_shapes_have_the_same_rows_and_digest(self):
        as_json = self.auditor.api("GET", READINESS)
        dataset = as_json.json
        lines = [line(row) for row in dataset["rows"]]
        self.assertEqual(digest_over(lines), dataset["dataset_digest"])
        self.assertTrue(dataset["complete"])
        self.assertEqual(dataset["total"], len(lines))
        objects = [row["object"] for row in dataset["rows"]]
        self.assertEqual(objects, sorted(objects))
        self.assertIn("listener:https", objects)
        self.assertIn(f"key:{self.key}", objects)

        as_lines = self.auditor.api("GET", READINESS + "?format=ndjson")
        *records, trailer = as_lines.body.splitlines(keepends=True)
        self.assertEqual(records, lines)
        self.assertEqual(json.loads(trailer)["dataset_digest"], digest_over(records))

        as_csv = self.auditor.api("GET", READINESS + "?format=csv")
        self.assertTrue(as_csv.headers["Content-Type"].startswith("text/csv"))
        *table, last = list(csv.reader(io.StringIO(as_csv.body.decode(), newline="")))
        titles, cells = table[0], table[1:]
        self.assertEqual([dict(zip(titles, row))["row"].encode() + b"\n" for row in cells], lines)
        self.assertEqual([dict(zip(titles, row))["object"] for row in cells], objects)
        self.assertIn("dataset_digest=" + dataset["dataset_digest"], last[0])
        for answer in (as_json, as_lines, as_csv):
            self.assertEqual(answer.headers["Svc-Dataset-Digest"], dataset["dataset_digest"])
        self.assertEqual(self.auditor.api("GET", READINESS + "?format=xml").status, 400)
        self.assertEqual(self.a.api("GET", READINESS, token="CI").status, 403)

    def test_3_a_signature_is_seen_and_an_action_is_bound(self):
        mine = f"key:{self.key}"
        before = self.rows()[mine]
        self.assertEqual(before["recommendation"]["code"], "investigate_use")
        session = self.a.session("CI")
        signed = signing.sign(session, "key", signing.key_body(self.key, digest_of(b"posture")))
        session.close()
        self.assertEqual(signed.status, 200, signed)
        action = {"object": mine, "action": "migrate", "state": "planned", "due": "2031-01-01T00:00:00Z", "note": "beside ml-dsa-65"}
        shown = self.a.cli("graph", "crypto-readiness-action", "-f", self.file("action.json", action)).stdout
        self.assertIn(mine, shown)
        wrong = self.a.cli("graph", "crypto-readiness-action", "-f", self.file("wrong.json", {**action, "object": "key:nothing"}),
                           check=False)
        self.assertEqual(wrong.returncode, 2)
        after = self.rows()[mine]
        self.assertEqual(after["dependents"]["signing_operations"], 1)
        self.assertEqual(after["recommendation"]["code"], "plan_second_signature")
        self.assertEqual([(a["action"], a["state"], a["note"]) for a in after["actions"]],
                         [("migrate", "planned", "beside ml-dsa-65")])
        reference = after["evidence"][1]
        found = self.auditor.api("GET", "/api/v1/audit/records?type=" + reference["type"]).json["records"]
        self.assertIn((reference["event_id"], reference["sequence"], reference["chain"]),
                      [(r["record"]["event_id"], r["record"]["sequence"], r["chain"]) for r in found])

        self.assertIn("plan_second_signature", self.a.cli("graph", "crypto-readiness", token="AUDITOR").stdout)
        path = os.path.join(self.folder.name, "readiness.ndjson")
        self.a.cli("graph", "crypto-readiness", "--format", "ndjson", "-o", path, token="AUDITOR")
        with open(path, "rb") as f:
            *records, trailer = f.readlines()
        whole = json.loads(self.a.cli("graph", "crypto-readiness", "--json", token="AUDITOR").stdout)
        self.assertEqual(digest_over(records), json.loads(trailer)["dataset_digest"])
        self.assertEqual(whole["dataset_digest"], digest_over(records))

    def test_4_the_bill_of_materials(self):
        answer = self.auditor.api("GET", "/api/v1/cbom")
        self.assertEqual(answer.status, 200, answer)
        bom = answer.json
        self.assertEqual((bom["bomFormat"], bom["specVersion"], bom["version"]), ("CycloneDX", "1.6", 1))
        self.assertRegex(bom["serialNumber"], r"^urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
        refs = [c["bom-ref"] for c in bom["components"]]
        self.assertEqual(len(refs), len(set(refs)))
        for component in bom["components"]:
            self.assertEqual(component["type"], "cryptographic-asset")
            self.assertIn(component["cryptoProperties"]["assetType"],
                          ("algorithm", "certificate", "protocol", "related-crypto-material"))
        for dependency in bom["dependencies"]:
            self.assertIn(dependency["ref"], refs)
            self.assertTrue(set(dependency["dependsOn"]) <= set(refs), dependency)
        self.assertEqual({d["ref"] for d in bom["dependencies"]}, {r for r in refs if not r.startswith("algorithm:")})
        listener = next(c for c in bom["components"] if c["bom-ref"] == "listener:https")
        suites = [s["name"] for s in listener["cryptoProperties"]["protocolProperties"]["cipherSuites"]]
        self.assertIn("TLS_AES_256_GCM_SHA384", suites)
        key = next(c for c in bom["components"] if c["bom-ref"] == f"key:{self.key}")
        self.assertEqual(key["cryptoProperties"]["relatedCryptoMaterialProperties"]["algorithmRef"], "algorithm:ec-p256")
        path = os.path.join(self.folder.name, "cbom.json")
        self.a.cli("cbom", "-o", path, token="AUDITOR")
        with open(path, "rb") as f:
            self.assertEqual(f.read(), answer.body)  # the same facts, the same bytes
        self.assertEqual(json.loads(self.a.cli("cbom", "--json", token="AUDITOR").stdout), bom)
        self.assertEqual(self.a.api("HEAD", "/api/v1/cbom", token="AUDITOR").status, 200)
        self.rows()  # recorded behind them
        def recorded():
            found = self.auditor.api("GET", "/api/v1/audit/records?type=inventory.dataset.read").json["records"]
            found = sorted((r["record"] for r in found), key=lambda r: r["sequence"])
            return found if found[-1]["data"]["artifact"] == "crypto-readiness" else None
        read = [r for r in until("all of it is recorded", recorded) if r["data"]["artifact"] == "cbom"]
        self.assertEqual({r["data"]["sha256"] for r in read}, {hashlib.sha256(answer.body).hexdigest()})
        self.assertEqual([r["actor"]["subject"] for r in read], ["auditor"] * 3)  # a HEAD request hands nothing out

    def test_5_attestations(self):
        body = {"statement": "cmvp-certificate", "title": "Certificate of the module",
                "evidence": {"locator": "file:cmvp.pdf", "sha256": hashlib.sha256(b"x").hexdigest(), "media_type": "application/pdf"}}
        made = json.loads(self.a.cli("compliance", "attestations", "record", "-f", self.file("a.json", body), "--json").stdout)
        again = json.loads(self.a.cli("compliance", "attestations", "record", "-f", self.file("a.json", {**body, "title": "New"}),
                                      "--json").stdout)
        current = self.a.cli("compliance", "attestations", "list", "--current", token="AUDITOR").stdout
        self.assertIn(again["attestation_id"], current)
        self.assertNotIn(made["attestation_id"], current)
        said = self.a.cli("compliance", "attestations", "withdraw", again["attestation_id"], "--reason", "wrong file").stdout
        self.assertIn("wrong file", said)
        twice = self.a.cli("compliance", "attestations", "withdraw", again["attestation_id"], "--reason", "twice", check=False)
        self.assertEqual(twice.returncode, 2)
        self.assertIn("attestation_withdrawn", twice.stderr)
        listed = json.loads(self.a.cli("compliance", "attestations", "list", "--json", token="AUDITOR").stdout)["items"]
        self.assertEqual([(i["title"], i["state"]) for i in listed], [("New", "withdrawn"), ("Certificate of the module", "valid")])


if __name__ == "__main__":
    unittest.main()
