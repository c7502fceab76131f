"""svc-cli and a server that is busy: it repeats what it may, as late as it is asked to, and never something else."""
import http.server
import json
import os
import shutil
import ssl
import tempfile
import threading
import unittest

from appliance import BIN, run

CREATE = ("keys", "create", "--name", "release", "--algorithm", "ec-p256")


def problem(status, code, after):
    return status, {"code": code, "title": "later", "status": status}, after


class Busy(http.server.ThreadingHTTPServer):
    """Answers from a list, and keeps what it was asked."""
    daemon_threads = True

    def __init__(self, folder):
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
            "-keyout", f"{folder}/key.pem", "-out", f"{folder}/ca.pem")
        super().__init__(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{folder}/ca.pem", f"{folder}/key.pem")
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.answers, self.asked = [], []


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.append((self.path, self.headers.get("Idempotency-Key"), body))
        status, answer, after = self.server.answers.pop(0)
        text = json.dumps(answer).encode()
        self.send_response(status)
        if after is not None:
            self.send_header("Retry-After", after)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST

    def log_message(self, *args):
        pass


class CliBusy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="svc-busy-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        cls.server = Busy(cls.dir)
        cls.addClassCleanup(cls.server.server_close)
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        cls.addClassCleanup(cls.server.shutdown)

    def cli(self, answers, *args, **env):
        """The run and what the server was asked; all of its answers are fetched."""
        self.server.answers, self.server.asked = list(answers), []
        clean = {k: v for k, v in os.environ.items() if not k.startswith("SVC_")}
        done = run(f"{BIN}/svc-cli", *args, check=False,
                   env={**clean, "SVC_BASE_URL": f"https://127.0.0.1:{self.server.server_port}",
                        "SVC_CA_FILE": f"{self.dir}/ca.pem", "SVC_TOKEN": "svc_t_x", **env})
        self.assertEqual(self.server.answers, [], done)
        return done, self.server.asked

    def test_what_is_refused_for_now_is_sent_again_as_it_is(self):
        done, asked = self.cli([problem(429, "rate_limited", "1"), problem(503, "bulkhead_saturated", "1"),
                                problem(409, "idempotency_in_progress", "1"), (201, {"id": "k1"}, None)], *CREATE)
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(len(set(asked)), 1, asked)
        path, key, body = asked[0]
        self.assertEqual((path, json.loads(body)["name"], len(key)), ("/api/v1/keys", "release", 36))
        for code in ("rate_limited", "bulkhead_saturated", "idempotency_in_progress"):
            self.assertIn(f"{code}: the same request again in 1 s", done.stderr)

    def test_a_read_too_and_json_says_nothing_of_it(self):
        done, asked = self.cli([problem(503, "store_busy", "0"), (200, {"items": []}, None)], "keys", "list", "--json")
        self.assertEqual((done.returncode, done.stderr, len(asked)), (0, "", 2), done)

    def test_it_is_not_repeated_when_it_would_take_too_long_or_nobody_asks_for_it_or_it_is_refused_for_good(self):
        for answer in (problem(429, "rate_limited", "31"), problem(503, "draining", None),
                       problem(503, "draining", "Fri, 31 Dec 1999 23:59:59 GMT"),
                       problem(409, "idempotency_key_reused", "1"), problem(500, "internal", "1")):
            done, asked = self.cli([answer], *CREATE)
            self.assertEqual(done.returncode, 2 if answer[0] < 500 else 1, done)
            self.assertIn(f"svc-cli: {answer[1]['code']}: later", done.stderr)
        self.assertEqual(self.cli([problem(429, "rate_limited", "1")], *CREATE, "--no-wait")[0].returncode, 2)
        self.assertEqual(self.cli([problem(429, "rate_limited", "1")], *CREATE, SVC_NO_WAIT="1")[0].returncode, 2)


if __name__ == "__main__":
    unittest.main()
