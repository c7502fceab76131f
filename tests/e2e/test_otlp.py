"""Spans and audit log records of a real appliance, sent to a receiver that decodes them with someone else's library."""
import http.server
import json
import os
import secrets
import signal
import socket
import ssl
import threading
import unittest

import certificates
import signing
from appliance import Appliance, all_records, digest_of, free_port, make_key, run, until
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

SERVER = ("basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth\n"
          "subjectAltName=DNS:localhost,IP:127.0.0.1\nauthorityKeyIdentifier=keyid\n")
BODIES = {"/in/v1/traces": ExportTraceServiceRequest, "/in/v1/logs": ExportLogsServiceRequest}


def make_pki(shop, name):
    def openssl(*args):
        run("openssl", *args, cwd=shop.dir)

    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}-ca.key",
            "-out", f"{name}-ca.pem", "-subj", f"/CN={name}", "-days", "2")
    shop.write(f"{name}.ext", SERVER)
    openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key",
            "-out", f"{name}.csr", "-subj", "/CN=localhost")
    openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{name}-ca.pem", "-CAkey", f"{name}-ca.key", "-CAcreateserial",
            "-out", f"{name}.pem", "-days", "2", "-extfile", f"{name}.ext")
    run("chmod", "644", shop.path(f"{name}-ca.pem"))


def plain(value):
    kind = value.WhichOneof("value")
    return [plain(v) for v in value.array_value.values] if kind == "array_value" else getattr(value, kind)


def attributes(message):
    return {a.key: plain(a.value) for a in message.attributes}


class Receiver:
    """Takes spans and log records over HTTPS, and misbehaves when it is told to."""

    def __init__(self, shop, port, token):
        self.shop, self.port, self.token = shop, port, token
        self.lock = threading.Lock()
        self.spans, self.logs, self.raw, self.refused, self.resources = [], [], [], [], []
        self.answers = []  # what the next requests get instead: (status, headers, body)
        self.hang = threading.Event()  # set: nobody is answered
        self.hung = threading.Event()
        self.partial = False  # True: one log record of the next is said to be rejected
        self.server = None
        self.connections = []

    def start(self, identity="good"):
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                receiver.connections.append(self.request)
                super().setup()

            def do_POST(self):
                receiver.take(self, self.rfile.read(int(self.headers["Content-Length"])))

            def log_message(self, *args):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *args):
                pass

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.shop.path(f"{identity}.pem"), self.shop.path(f"{identity}.key"))
        self.server = Server(("127.0.0.1", self.port), Handler)
        # The handshake happens in the connection's own thread.
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def stop(self):
        if self.server is not None:
            self.server.shutdown()
            self.server.server_close()
            self.server = None
            while self.connections:  # those that are kept, too
                try:
                    self.connections.pop().shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def take(self, request, body):
        while self.hang.is_set():
            self.hung.set()
            threading.Event().wait(0.02)
        with self.lock:
            status, headers, answer = self.answers.pop(0) if self.answers else self.judge(request, body)
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(answer)))
        request.end_headers()
        request.wfile.write(answer)

    def judge(self, request, body):
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            self.refused.append(request.headers.get("Authorization"))
            return 401, {}, b""
        if request.headers.get("Content-Type") != "application/x-protobuf" or request.path not in BODIES:
            return 400, {}, b""
        message = BODIES[request.path]()
        message.ParseFromString(body)
        self.raw.append(body)
        for resource in getattr(message, "resource_spans", []):
            self.resources.append(attributes(resource.resource))
            self.spans += [s for scope in resource.scope_spans for s in scope.spans]
        for resource in getattr(message, "resource_logs", []):
            self.resources.append(attributes(resource.resource))
            self.logs += [log for scope in resource.scope_logs for log in scope.log_records]
        answer = ExportLogsServiceResponse()
        if self.partial and request.path.endswith("logs"):
            answer.partial_success.rejected_log_records, answer.partial_success.error_message = 1, "not\nthis one"
            self.partial = False
        return 200, {"Content-Type": "application/x-protobuf"}, answer.SerializeToString()

    def of_trace(self, trace):
        with self.lock:
            return [s for s in self.spans if s.trace_id.hex() == trace]

    def records(self):
        with self.lock:
            return [attributes(log) for log in self.logs]


class Otlp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shop = certificates.Workshop()
        cls.addClassCleanup(cls.shop.clean)
        for name in ("good", "other"):
            make_pki(cls.shop, name)
        cls.tokens = [f"otlp-token-{secrets.token_hex(8)}"]
        cls.put_token(cls.tokens[0])
        cls.receiver = Receiver(cls.shop, free_port(), cls.tokens[0])
        cls.receiver.start()
        cls.addClassCleanup(cls.receiver.stop)
        cls.a = Appliance("otlp", telemetry__otlp__enabled=True, rate_limit__enabled=False,
                          telemetry__otlp__endpoint=f"https://localhost:{cls.receiver.port}/in/",
                          telemetry__otlp__bearer_token_file=cls.shop.path("token"),
                          telemetry__otlp__ca_file=cls.shop.path("good-ca.pem"),
                          telemetry__otlp__interval="100ms", telemetry__otlp__timeout="20s",
                          telemetry__otlp__queue=256, log__level="debug")
        cls.addClassCleanup(cls.a.clean)
        cls.a.start()
        cls.key_id = make_key(cls.a)

    @classmethod
    def put_token(cls, text):
        path = cls.shop.write("token.new", text + "\n")
        os.chmod(path, 0o600)
        run("chown", "svc-api", path)
        os.rename(path, cls.shop.path("token"))

    def metric(self, name):
        for line in self.a.probe_get("/metrics").body.decode().splitlines():
            if line.split(" ")[0] == name:
                return float(line.split(" ")[1])
        return None

    def log(self):
        with open(self.a.log_path, errors="replace") as f:
            return f.read()

    def happen(self, count=1):
        for _ in range(count):
            answer = self.a.api("POST", "/api/v1/tokens", {"subject": "somebody", "roles": ["ci"], "ttl_seconds": 60},
                                token="ADMIN", key=True)
            self.assertEqual(answer.status, 201, answer)

    def complete(self):
        """Every record of the trail arrived, each message's in its place, and says the same of itself."""
        trail = [(r["sequence"], r["event_id"], r["type"]) for r in all_records(self.a)]
        first = {}
        for r in self.receiver.records():
            first.setdefault((r["svc.tenant.id"], r["svc.audit.sequence"]), r)
        mine = [r for (tenant, _), r in first.items() if tenant == "default"]
        got = [(r["svc.audit.sequence"], r["svc.audit.id"], r["svc.audit.type"]) for r in mine]
        order = [r["svc.audit.stream_sequence"] for r in first.values()]
        return got[:len(trail)] == trail and order == sorted(order)

    # ---- the tests ----

    def test_1_plaintext_needs_a_word_and_takes_no_token(self):
        settings = dict(self.a.settings)
        for change, word in (({"telemetry.otlp.endpoint": "http://127.0.0.1:1"}, "telemetry.otlp.insecure"),
                             ({"telemetry.otlp.endpoint": "http://127.0.0.1:1", "telemetry.otlp.insecure": True}, "TLS only"),
                             ({"telemetry.otlp.endpoint": "https://user:pw@host"}, "without credentials"),
                             ({"telemetry.otlp.sample_ratio": "2"}, "0 to 1")):
            other = Appliance("otlp-refused")
            self.addCleanup(other.clean)
            other.settings = {**settings, **change}
            other.write_config()
            done = run(f"{self.a.bin}/svc-api", "serve", "--config", other.config, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(word, done.stderr)

    def test_2_a_signing_is_one_trace_from_request_to_token(self):
        trace, parent = secrets.token_hex(16), secrets.token_hex(8)
        session = self.a.session("CI")
        body = signing.previewed(session, "key", signing.key_body(self.key_id, digest_of(b"traced")))
        answer = session.api("POST", "/api/v1/code-signing/sign", body, key=True,
                             headers={"traceparent": f"00-{trace}-{parent}-01", "tracestate": "a=1,b@c=2"})
        self.assertEqual(answer.status, 200, answer)
        self.assertEqual(answer.headers["tracestate"], "a=1,b@c=2")
        wanted = ["POST /api/v1/code-signing/sign", "idempotency claim", "append codesign", "project", "projection wait",
                  "deliver codesign.command", "signer sign", "transaction"]

        def whole():
            spans = self.receiver.of_trace(trace)
            names = [s.name for s in spans]
            return spans if set(wanted) <= set(names) and names.count("append codesign") == 2 and \
                names.count("project") >= 2 else None

        try:
            spans = until("the trace is whole", whole)
        except AssertionError:
            self.fail(sorted(s.name for s in self.receiver.of_trace(trace)))
        by_id = {s.span_id: s for s in spans}
        self.assertEqual(len(by_id), len(spans))
        one = {s.name: s for s in spans if s.name in wanted}
        server = one[wanted[0]]
        self.assertEqual(server.parent_span_id.hex(), parent)
        self.assertEqual(answer.headers["traceparent"], f"00-{trace}-{server.span_id.hex()}-01")
        for span in spans:
            self.assertTrue(span is server or span.parent_span_id in by_id, span)
            self.assertLessEqual(span.start_time_unix_nano, span.end_time_unix_nano)
        deliver = one["deliver codesign.command"]
        project = by_id[deliver.parent_span_id]
        append = by_id[project.parent_span_id]
        self.assertEqual((project.name, append.name), ("project", "append codesign"))
        self.assertEqual(append.parent_span_id, server.span_id)
        self.assertEqual(one["signer sign"].parent_span_id, deliver.span_id)
        self.assertEqual(one["idempotency claim"].parent_span_id, server.span_id)
        second = next(s for s in spans if s.name == "append codesign" and s is not append)
        self.assertEqual(second.parent_span_id, deliver.span_id)
        self.assertTrue(any(s.name == "project" and s.parent_span_id == second.span_id for s in spans))
        got = attributes(server)
        self.assertEqual((got["http.route"], got["http.status_code"], got["http.request.method"], got["url.scheme"],
                          got["svc.tenant.id"]), ("/api/v1/code-signing/sign", 200, "POST", "https", "default"))
        resource = self.receiver.resources[0]
        self.assertEqual(resource["service.name"], "svc-api")
        self.assertTrue(resource["service.instance.id"] and resource["service.version"] and resource["host.name"])
        with self.receiver.lock:
            sent = b"".join(self.receiver.raw)
        for secret in (self.a.token("CI"), body["digest"], body["preview_fingerprint"], self.tokens[0]):
            self.assertNotIn(secret.encode(), sent)

    def test_3_the_callers_flag_and_failures(self):
        quiet, loud = secrets.token_hex(16), secrets.token_hex(16)
        answer = self.a.api("GET", "/api/v1/keys", headers={"traceparent": f"00-{quiet}-{secrets.token_hex(8)}-00"})
        self.assertTrue(answer.headers["traceparent"].endswith("-00"))
        answer = self.a.api("GET", "/api/v1/keys/nokey?secretquery=1",
                            headers={"traceparent": f"00-{loud}-{secrets.token_hex(8)}-01", "tracestate": "A=broken"})
        self.assertNotIn("tracestate", answer.headers)
        span = until("the span is there", lambda: self.receiver.of_trace(loud))[0]
        self.assertEqual(attributes(span)["http.status_code"], answer.status)
        self.assertEqual(attributes(span)["error.type"], answer.json["code"])
        self.assertEqual(span.status.code, 0)  # the caller's mistake is no failure of the server's
        self.assertEqual(self.receiver.of_trace(quiet), [])
        record = next(json.loads(line) for line in self.log().splitlines() if loud in line and "http_request" in line)
        self.assertEqual({k: record[k] for k in ("trace_id", "method", "status")},
                         {"trace_id": loud, "method": "GET", "status": answer.status})
        self.assertTrue(record["route"] and "bytes" in record and "duration_ms" in record)
        for secret in ("secretquery", self.a.token("OPERATOR"), "nokey"):
            self.assertNotIn(secret, self.log())

    def test_4_the_audit_trail_arrives_whole(self):
        """Over an outage of the receiver, its refusals, and a kill of svc-api in the middle."""
        self.receiver.partial = True
        self.happen(3)
        until("the trail arrived", self.complete)
        until("the rejected one is counted", lambda: self.metric("svc_otlp_audit_rejected_total") == 1)
        self.assertIn("not?this one", self.log())
        self.receiver.stop()
        self.happen(3)
        until("a failure is counted", lambda: self.metric('svc_otlp_export_failures_total{signal="logs"}'))
        os.kill(self.a.child("svc-api"), signal.SIGKILL)
        self.receiver.answers = [(503, {"Retry-After": "1"}, b""), (429, {}, b"")]
        self.receiver.start()
        until("the appliance is ready again", self.a.is_ready, 60)
        self.happen(2)
        until("the trail arrived", self.complete, 60)
        record = next(r for r in self.receiver.records() if r["svc.audit.type"] == "codesign.signed")
        self.assertGreater(record["svc.audit.payload_bytes"], 2)
        self.assertEqual(record["svc.audit.schema_version"], 1)
        self.assertTrue(record["svc.actor.subject"])
        operator = [r for r in self.receiver.records() if r["svc.audit.type"].startswith("identity.token")][-1]
        self.assertIn("admin", operator["svc.actor.roles"])
        until("nothing waits", lambda: self.metric("svc_otlp_audit_lag_events") == 0)
        last = int(self.a.sql("SELECT stream_seq FROM svc.otlp_audit_stream"))
        self.assertEqual(last, int(self.a.sql("SELECT max(stream_seq) FROM svc.event_envelopes")))

    def test_5_a_receiver_that_hangs_slows_nothing(self):
        self.receiver.hang.set()
        self.addCleanup(self.receiver.hang.clear)
        session = self.a.session("OPERATOR")
        before = self.metric("svc_otlp_spans_dropped_total")

        def dropped():
            self.assertEqual(session.api("GET", "/api/v1/keys").status, 200)
            return self.metric("svc_otlp_spans_dropped_total") > before

        until("spans are dropped", dropped, 60)
        self.happen()
        self.assertTrue(self.receiver.hung.is_set() and self.receiver.hang.is_set())
        self.assertTrue(self.a.is_ready())
        self.receiver.hang.clear()
        until("the trail arrived", self.complete, 60)

    def test_6_a_changed_token_is_read_and_the_receiver_is_verified(self):
        self.tokens.append(f"otlp-token-{secrets.token_hex(8)}")
        with self.receiver.lock:
            self.receiver.token = self.tokens[1]
        self.happen()
        until("the old token was refused", lambda: self.receiver.refused)
        self.assertFalse(self.complete())
        self.put_token(self.tokens[1])
        until("the trail arrived", self.complete, 60)
        self.receiver.stop()
        self.receiver.start("other")
        failed = self.metric('svc_otlp_export_failures_total{signal="logs"}')
        self.happen()
        until("a failure is counted", lambda: self.metric('svc_otlp_export_failures_total{signal="logs"}') > failed)
        self.assertFalse(self.complete())
        self.receiver.stop()
        self.receiver.start()
        until("the trail arrived", self.complete, 60)
        for token in self.tokens:
            self.assertNotIn(token, self.log())
        self.assertIn("otlp_export_recovered", self.log())


if __name__ == "__main__":
    unittest.main()
