"""What a user comes for: sign, stamp, prove; checked with other people's tools."""
import base64
import json
import os
import secrets
import subprocess
import tempfile
import unittest

from appliance import (SRC, Appliance, all_records, b64, digest_of, make_key, openssl_verifies, own_appliance, run,
                       sign_body, until)


class MainJob(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("main").start()

    @classmethod
    def tearDownClass(cls):
        cls.a.clean()

    def sign(self, key_id, data, artifact_type="file"):
        session = self.a.session("OPERATOR")
        body = sign_body(session, key_id, digest_of(data), artifact_type)
        answer = session.api("POST", "/api/v1/code-signing/sign", body, key=True)
        self.assertEqual(answer.status, 200, answer)
        return answer.json

    def test_p256_and_p384_and_rsa_signatures_verify_with_openssl(self):
        for algorithm in ("ec-p256", "ec-p384", "rsa-3072"):
            with self.subTest(algorithm):
                key_id = make_key(self.a, algorithm)
                data = secrets.token_bytes(1000)
                receipt = self.sign(key_id, data)
                public, signature = (base64.b64decode(receipt[k]) for k in ("public_key_der", "signature"))
                self.assertTrue(openssl_verifies(public, signature, data))
                self.assertFalse(openssl_verifies(public, signature, data + b"x"))
                self.assertEqual(receipt["key_id"], key_id)
                self.assertEqual(receipt["digest_algorithm"], "sha256")
                for field in ("algorithm", "artifact_type", "transparency_destination", "signature_encoding"):
                    self.assertIn(field, receipt)

    def test_preview_leaves_no_event(self):
        key_id = make_key(self.a)
        before = len(all_records(self.a))
        session = self.a.session("CI")
        sign_body(session, key_id, digest_of(b"preview"))
        self.assertEqual(len(all_records(self.a)), before)

    def test_changed_digest_after_preview_signs_nothing(self):
        key_id = make_key(self.a)
        session = self.a.session("OPERATOR")
        body = sign_body(session, key_id, digest_of(b"one"))
        body["digest"] = b64(digest_of(b"two"))
        before = len(all_records(self.a))
        answer = session.api("POST", "/api/v1/code-signing/sign", body, key=True)
        self.assertEqual((answer.status, answer.json["code"]), (409, "preview_changed"), answer)
        self.assertEqual(len(all_records(self.a)), before)

    def test_preview_of_another_caller_is_refused(self):
        key_id = make_key(self.a)
        body = sign_body(self.a.session("CI"), key_id, digest_of(b"ci"))
        answer = self.a.api("POST", "/api/v1/code-signing/sign", body, token="OPERATOR", key=True)
        self.assertEqual((answer.status, answer.json["code"]), (409, "preview_changed"), answer)

    def test_wrong_digest_length_is_refused(self):
        key_id = make_key(self.a)
        for digest in (b"", b"x" * 31, b"x" * 33, b"x" * 64):
            answer = self.a.api("POST", "/api/v1/code-signing/preview",
                                {"key_id": key_id, "artifact_type": "file", "digest": b64(digest)})
            self.assertEqual(answer.status, 400, answer)

    def test_replay_is_byte_for_byte_and_signs_once(self):
        key_id = make_key(self.a)
        session = self.a.session("OPERATOR")
        body = sign_body(session, key_id, digest_of(b"replay"))
        first = session.api("POST", "/api/v1/code-signing/sign", body, key="replay-key-1")
        self.assertEqual(first.status, 200, first)
        again = session.api("POST", "/api/v1/code-signing/sign", body, key="replay-key-1")
        self.assertEqual((again.status, again.body), (200, first.body))
        self.assertEqual(again.headers.get("Idempotent-Replayed"), "true")
        other = sign_body(session, key_id, digest_of(b"other"))
        clash = session.api("POST", "/api/v1/code-signing/sign", other, key="replay-key-1")
        self.assertEqual((clash.status, clash.json["code"]), (409, "idempotency_key_reused"))
        operation = first.json["operation_id"]
        signed = [r for r in all_records(self.a)
                  if r["type"] == "codesign.signed" and r["data"]["operation_id"] == operation]
        self.assertEqual(len(signed), 1)

    @own_appliance("others sign batches in its tenant")
    def test_no_plain_request_in_the_log_or_the_database(self):
        """The command is sealed: an artifact type that only the request holds is found nowhere before it is signed."""
        key_id = make_key(self.a)
        self.sign(key_id, b"sealed")
        for record in all_records(self.a):
            if record["type"] == "codesign.commanded":
                self.assertIn("sealed_command", record["data"])
                self.assertNotIn("digest", record["data"])

    def test_destroyed_key_signs_no_more(self):
        key_id = make_key(self.a)
        body = sign_body(self.a.session("OPERATOR"), key_id, digest_of(b"late"))
        key = self.a.api("GET", f"/api/v1/keys/{key_id}").json
        gone = self.a.api("POST", f"/api/v1/keys/{key_id}/transitions",
                          {"to": "destroyed", "reason": "test", "expected_version": key["version"]}, key=True)
        self.assertEqual(gone.status, 200, gone)
        answer = self.a.api("POST", "/api/v1/code-signing/sign", body, key=True)
        self.assertIn(answer.json["code"], ("key_not_active", "preview_changed"), answer)
        self.assertEqual(answer.status, 409)

    def test_cli_signs_stamps_exports_and_verifies_offline(self):
        with tempfile.TemporaryDirectory(dir=self.a.dir) as d:
            artifact = f"{d}/artifact"
            with open(artifact, "wb") as f:
                f.write(secrets.token_bytes(200_000))
            key_id = make_key(self.a)
            receipt = json.loads(self.a.cli("code-signing", "sign", artifact, "--key", key_id, "-o", f"{d}/sig",
                                            "--yes", "--json").stdout)
            with open(f"{d}/pub.der", "wb") as f:
                f.write(base64.b64decode(receipt["public_key_der"]))
            self.a.cli("code-signing", "verify", artifact, "--signature", f"{d}/sig", "--public-key", f"{d}/pub.der")
            self.a.cli("tsa", "stamp", f"{d}/sig", "-o", f"{d}/sig.tsr")
            root = self.a.env["SVC_TSA_ROOT"]
            self.a.cli("tsa", "verify", f"{d}/sig", "--token", f"{d}/sig.tsr", "--root", root)
            run("openssl", "ts", "-verify", "-data", f"{d}/sig", "-in", f"{d}/sig.tsr", "-CAfile", root)
            self.a.cli("audit", "export", "-o", f"{d}/audit.jws", token="AUDITOR")
            self.a.cli("audit", "verification-keys", "-o", f"{d}/keys.json", token="AUDITOR")
            pins = ("--audit-jwks", f"{d}/keys.json", "--tsa-root", root)
            self.a.cli("audit", "verify", "--artifact", f"{d}/audit.jws", *pins)
            run("jose", "jws", "ver", "-i", f"{d}/audit.jws", "-k", f"{d}/keys.json", "-O-", "-c", check=False)
            # What was verified must fail once it is changed: the exit code tells, and the record is named.
            export = open(f"{d}/audit.jws").read()
            header, payload, signature = export.split(".")
            raw = bytearray(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
            at = raw.index(b'"codesign.signed"')
            raw[at + 3] ^= 1
            broken = base64.urlsafe_b64encode(bytes(raw)).rstrip(b"=").decode()
            with open(f"{d}/broken.jws", "w") as f:
                f.write(f"{header}.{broken}.{signature}")
            refused = self.a.cli("audit", "verify", "--artifact", f"{d}/broken.jws", *pins, check=False)
            self.assertNotEqual(refused.returncode, 0)
            self.assertRegex(refused.stdout + refused.stderr, r"sequence \d+|record \d+")
            with open(artifact, "ab") as f:
                f.write(b"x")
            changed = self.a.cli("code-signing", "verify", artifact, "--signature", f"{d}/sig", "--public-key",
                                 f"{d}/pub.der", check=False)
            self.assertNotEqual(changed.returncode, 0)

    def test_openapi_has_every_command_of_the_client(self):
        document = self.a.api("GET", "/api/v1/openapi.json", token=None).json
        self.assertTrue(document["openapi"].startswith("3."))
        self.assertIn("/api/v1/code-signing/sign", document["paths"])
        routes = {(m.upper(), p) for p, ms in document["paths"].items() for m in ms}
        listed = run(f"{os.environ.get('SVC_TEST_BIN', SRC + '/build/release/bin')}/svc-cli", "--list-routes").stdout
        used = {tuple(line.split()[:2]) for line in listed.splitlines() if line.strip()}
        self.assertTrue(used)
        self.assertEqual(used - routes, set(), "the client uses routes that the server does not have")

    def test_rebuild_gives_the_same_rows(self):
        key_id = make_key(self.a)
        self.sign(key_id, b"before rebuild")
        tables = [t for t in self.a.sql("SELECT name FROM svc.projection_tables ORDER BY 1").split("\n") if t]
        self.assertTrue(tables)

        def dump():
            out = {}
            for table in tables:
                columns = "t.*"
                if table.endswith("outbox"):
                    columns = "t.id, t.tenant_id, t.destination, t.key, t.payload, t.created_us"
                out[table] = self.a.sql(f"SELECT md5(string_agg(r, E'\\n' ORDER BY r)), count(*) FROM "
                                        f"(SELECT ROW({columns})::text AS r FROM svc.{table.removeprefix('svc.')} t) x")
            return out

        # Stop the API's own appends first: what is compared is one state of the log.
        before_records = len(all_records(self.a))
        self.a.stop()
        self.a.appliance("rebuild")
        self.a.start()
        self.assertGreaterEqual(len(all_records(self.a)), before_records)
        first = dump()
        self.a.stop()
        self.a.appliance("rebuild")
        self.a.start()
        second = dump()
        volatile = {t for t in tables if "checkpoint" in t or "envelope" in t}
        for table in tables:
            if table not in volatile and first[table] != second[table]:
                # a start appends events of its own (serial leases): only tables of records may grow by them
                self.assertIn(table.removeprefix("svc."), ("audit_records", "audit_heads", "event_envelopes"), table)


if __name__ == "__main__":
    unittest.main()
