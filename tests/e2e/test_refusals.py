"""Bad input gets a closed code and changes nothing; every mutation needs its key; every route its permission."""
import json
import secrets
import socket
import ssl
import unittest

from appliance import Appliance, all_records, b64, digest_of, make_key, sign_body


class Refusals(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("refuse").start()
        cls.openapi = cls.a.api("GET", "/api/v1/openapi.json", token=None).json
        roles = ["admin", "operator", "approver", "ci", "adcs-collector"]
        cls.everything = cls.a.api("POST", "/api/v1/tokens", {"subject": "everybody", "roles": roles, "ttl_seconds": 3600},
                                   token="ADMIN", key=True).json["token"]

    @classmethod
    def tearDownClass(cls):
        cls.a.clean()

    def operations(self):
        for path, methods in self.openapi["paths"].items():
            for method, operation in methods.items():
                yield method.upper(), path, operation

    def concrete(self, path):
        return (path.replace("{kind}", "key").replace("{id}", "0198c0de-0000-7000-8000-000000000000").replace("{framework}", "soc2")
                .replace("{resource}", "approval_required:codesign:" + "0" * 64))

    def problem(self, answer, status, code):
        self.assertEqual(answer.status, status, answer)
        self.assertEqual(answer.headers["Content-Type"].split(";")[0], "application/problem+json")
        body = answer.json
        self.assertEqual(body["code"], code, answer)
        for member in ("type", "title", "status", "trace_id"):
            self.assertIn(member, body)
        return body

    def test_every_mutation_without_idempotency_key_is_refused(self):
        swept = 0
        for method, path, operation in self.operations():
            needs = any(p.get("name") == "Idempotency-Key" for p in operation.get("parameters", []))
            if not needs:
                continue
            swept += 1
            answer = self.a.api(method, self.concrete(path), {}, token=self.everything)
            with self.subTest(f"{method} {path}"):
                self.problem(answer, 400, "idempotency_key_required")
        self.assertGreaterEqual(swept, 4)

    def test_every_route_needs_a_token_and_its_permission(self):
        before = len(all_records(self.a))
        swept = 0
        for method, path, operation in self.operations():
            if operation.get("security") == [] or not path.startswith("/api/"):
                continue
            swept += 1
            body = {} if method in ("POST", "PUT") else None
            for token in (None, "svc_default_" + "A" * 43, "nonsense"):
                answer = self.a.api(method, self.concrete(path), body, token=token, key=True)
                with self.subTest(f"{method} {path} {token}"):
                    self.problem(answer, 401, "unauthenticated")
                    self.assertIn("Bearer", answer.headers["WWW-Authenticate"])
        self.assertGreaterEqual(swept, 8)
        for method, path, token in (("POST", "/api/v1/keys", "AUDITOR"), ("POST", "/api/v1/code-signing/sign", "AUDITOR"),
                                    ("GET", "/api/v1/audit/export", "CI"), ("GET", "/api/v1/tokens", "CI"),
                                    ("POST", "/api/v1/tokens", "OPERATOR"), ("POST", "/api/v1/code-signing/sign", "APPROVER")):
            answer = self.a.api(method, path, {} if method == "POST" else None, token=token, key=True)
            with self.subTest(f"{method} {path} {token}"):
                self.problem(answer, 403, "forbidden")
        self.assertEqual(len(all_records(self.a)), before)

    def test_json_rubbish_names_the_pointer(self):
        key_id = make_key(self.a)
        good = {"key_id": key_id, "artifact_type": "file", "digest": b64(digest_of(b"x"))}
        before = len(all_records(self.a))
        cases = [
            (b"", "json_syntax"), (b"{", "json_syntax"), (b"[]", None), (b'{"a":1}x', "json_syntax"),
            (json.dumps({**good, "extra": 1}).encode(), "json_field"),
            (json.dumps({k: v for k, v in good.items() if k != "digest"}).encode(), "json_field"),
            (json.dumps(good).encode()[:-1] + b', "key_id": "x"}', None),
            (json.dumps({**good, "digest": 7}).encode(), "json_field"),
            (json.dumps({**good, "digest": "not base64!"}).encode(), "json_field"),
            (json.dumps({**good, "artifact_type": "x" * 5000}).encode(), "json_field"),
            (b'{"key_id":"\xff"}', "json_syntax"), (b"[" * 5000 + b"]" * 5000, "json_syntax"),
        ]
        for body, code in cases:
            answer = self.a.api("POST", "/api/v1/code-signing/preview", body)
            with self.subTest(body[:60]):
                self.assertEqual(answer.status, 400, answer)
                self.assertIn(answer.json["code"], (code,) if code else ("json_syntax", "json_field"))
        self.assertEqual(len(all_records(self.a)), before)

    def test_unknown_things(self):
        self.problem(self.a.api("GET", "/api/v1/nothing"), 404, "route_not_found")
        answer = self.a.api("DELETE", "/api/v1/keys")
        self.problem(answer, 405, "method_not_allowed")
        self.assertIn("GET", answer.headers["Allow"])
        self.problem(self.a.api("GET", "/api/v1/keys?nonsense=1"), 400, "query_parameter")
        self.problem(self.a.api("GET", "/api/v1/keys/0198c0de-0000-7000-8000-000000000000"), 404, "key_not_found")
        self.problem(self.a.api("GET", "/api/v1/audit/records?cursor=AAAA", token="AUDITOR"), 400, "cursor_malformed")
        answer = self.a.api("POST", "/api/v1/code-signing/preview", b"<x/>", headers={"Content-Type": "text/xml"})
        self.problem(answer, 415, "unsupported_media_type")
        answer = self.a.api("POST", "/api/v1/code-signing/preview", b"x" * (2 << 20))
        self.problem(answer, 413, "too_large")

    def test_traceparent_is_continued_and_returned(self):
        parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        answer = self.a.api("GET", "/api/v1/keys", headers={"traceparent": parent})
        self.assertIn("0af7651916cd43dd8448eb211c80319c", answer.headers["traceparent"])
        for bad in ("00-" + "0" * 32 + "-b7ad6b7169203331-01", "junk", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"):
            answer = self.a.api("GET", "/api/v1/keys", headers={"traceparent": bad})
            self.assertNotIn("0af7651916cd43dd8448eb211c80319c", answer.headers["traceparent"])

    def test_raw_http_rubbish_does_not_stop_the_server(self):
        for rubbish in (b"\x00" * 100, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"POST /tsa HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
                        b"GET /api/v1/%2e%2e/keys HTTP/1.1\r\nHost: x\r\n\r\n", b"A" * 70000,
                        b"POST /api/v1/keys HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde"):
            for tls in (True, False):
                s = socket.create_connection(("127.0.0.1", self.a.port if tls else self.a.plain), timeout=5)
                try:
                    if tls:
                        context = ssl._create_unverified_context()
                        s = context.wrap_socket(s)
                    s.sendall(rubbish)
                    s.settimeout(3)
                    s.recv(1000)
                except OSError:
                    pass
                finally:
                    s.close()
        self.assertEqual(self.a.probe_get("/healthz").status, 200)
        self.assertEqual(self.a.api("GET", "/api/v1/keys").status, 200)

    def test_weak_tls_is_refused(self):
        context = ssl.create_default_context(cafile=f"{self.a.dir}/data/ca.pem")
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.set_ciphers("ALL:@SECLEVEL=0")
        with self.assertRaises(OSError):
            with socket.create_connection(("127.0.0.1", self.a.port), timeout=5) as s:
                context.wrap_socket(s, server_hostname="127.0.0.1")

    def test_revoked_and_expired_tokens(self):
        made = self.a.api("POST", "/api/v1/tokens", {"subject": "temp", "roles": ["ci"], "ttl_seconds": 3600},
                          token="ADMIN", key=True)
        self.assertEqual(made.status, 201, made)
        text, token_id = made.json["token"], made.json["token_id"]
        self.assertEqual(self.a.api("GET", "/api/v1/keys", token=text).status, 200)
        revoked = self.a.api("POST", f"/api/v1/tokens/{token_id}/revocations", {"reason": "test"}, token="ADMIN", key=True)
        self.assertLess(revoked.status, 300, revoked)
        answer = self.a.api("GET", "/api/v1/keys", token=text)
        self.assertEqual((answer.status, answer.json["code"]), (401, "token_revoked"))
        for record in all_records(self.a):
            self.assertNotIn(text, json.dumps(record))
        with open(self.a.log_path, errors="replace") as f:
            self.assertNotIn(text.split("_", 2)[2], f.read())

    def test_metrics_and_probes(self):
        self.a.api("GET", "/api/v1/keys")
        text = self.a.probe_get("/metrics").body.decode()
        for name in ("svc_http_requests_total", "svc_http_request_duration_seconds_bucket", "svc_signer_up 1",
                     "svc_signer_restarts_total", "svc_event_log_replicas_desired", "svc_event_log_replicas_actual",
                     "svc_projection_lag_events", "svc_store_pool_connections"):
            self.assertIn(name, text)
        ready = self.a.probe_get("/readyz").json
        for check in ("db", "nats", "projection", "signer"):
            self.assertEqual(ready["checks"][check], "ok")


class Disabled(unittest.TestCase):
    def test_code_signing_disabled_answers_501(self):
        a = Appliance("disabled", code_signing__enabled=False)
        try:
            a.start()
            answer = a.api("POST", "/api/v1/code-signing/preview",
                           {"key_id": "0198c0de-0000-7000-8000-000000000000", "artifact_type": "x", "digest": b64(digest_of(b""))})
            self.assertEqual((answer.status, answer.json["code"]), (501, "code_signing_disabled"), answer)
        finally:
            a.clean()


if __name__ == "__main__":
    unittest.main()
