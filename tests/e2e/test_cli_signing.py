"""svc-cli at signing, against a server of this test's own that keeps to the contract, and lies where it is told to: what
the client asks, believes, writes, and says. Keys, certificates and time stamps are openssl's."""
import base64
import hashlib
import http.server
import json
import os
import shutil
import ssl
import subprocess
import tempfile
import threading
import unittest
import urllib.parse

from appliance import BIN, b64, run

CLI = os.path.join(BIN, "svc-cli")
KEY_ID = "0190a6b2-0001-7000-8000-00000000abcd"
RESOURCE = "approval_required:codesign:" + "ab" * 32
SAN = "https://github.com/acme/app/.github/workflows/release.yml@refs/tags/v1"
ISSUER = "https://token.actions.githubusercontent.com"
PROOF = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln"
ROOT_TYPE = "application/vnd.dev.sigstore.trustedroot+json;version=0.1"
TSA_CONFIG = """
[tsa]
serial = {d}/serial
signer_digest = sha256
default_policy = 1.2.3.4
digests = sha256
ess_cert_id_alg = sha256
"""


def read(path):
    with open(path, "rb") as f:
        return f.read()


def write(path, data):
    with open(path, "wb" if isinstance(data, bytes) else "w") as f:
        f.write(data)


class Server:
    """One answer for each route; `hooks` change them: (method, path) -> function(server, body, answer) -> (status, answer)."""

    def __init__(self, d):
        self.d, self.hooks, self.seen = d, {}, []
        self.destination, self.pending, self.approved, self.bodies = "none", 0, False, {}
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do(self, method):
                length = int(self.headers.get("Content-Length", 0))
                status, kind, body = server.answer(method, self.path, self.rfile.read(length), self.headers)
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                self.do("GET")

            def do_POST(self):
                self.do("POST")

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{d}/tls.pem", f"{d}/tls.key")
        self.http.socket = context.wrap_socket(self.http.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()

    def answer(self, method, target, raw, headers):
        url = urllib.parse.urlsplit(target)
        path = url.path.removeprefix("/api/v1")
        if path == "/tsa":
            return 200, "application/timestamp-reply", self.stamp(raw)
        body = json.loads(raw) if raw else None
        self.seen.append((method, path, body, dict(headers), url.query))
        made = self.route(method, path, body, headers, url.query)
        status, made = made if isinstance(made, tuple) else (200, made)
        hook = self.hooks.get((method, path))
        if hook:
            status, made = hook(self, body, made)
        kind = "application/json" if status < 300 else "application/problem+json"
        return status, kind, json.dumps(made).encode()

    def calls(self, path):
        return [call for call in self.seen if call[1] == path]

    def route(self, method, path, body, headers, query):
        if path.endswith("/preview"):
            return self.preview(path, body)
        if path in ("/code-signing/sign", "/code-signing/batch", "/code-signing/keyless"):
            assert headers["Idempotency-Key"] and headers["Authorization"] == "Bearer svc_t_test"
            return self.sign(path, body)
        if path.startswith("/code-signing/operations/"):
            return self.operation(path.rsplit("/", 1)[1])
        if path == "/approval-requests":
            return {"items": [{"request_id": KEY_ID, "resource": RESOURCE,
                               "state": "approved" if self.approved else "pending"}]}
        if path == "/id-token":
            assert headers["Authorization"] == "Bearer job-token", headers
            return {"value": PROOF, "count": 1}
        return 404, {"code": "route_not_found", "title": "No such route"}

    def preview(self, path, body):
        made = {**body, "request_fingerprint": "f" * 64, "principal": "ci/release", "algorithm": "ec-p256",
                "digest_algorithm": body.get("digest_algorithm", "sha256"), "signature_scheme": "ecdsa",
                "transparency_destination": self.destination, "policy": {"enabled": False, "outcome": "allow"}}
        made.pop("identity_payload", None)
        if "keyless" not in path:
            made["approval"] = {"required": False}
        return made

    def signature(self, digest, algorithm, key):
        write(f"{self.d}/digest.bin", digest)
        run("openssl", "pkeyutl", "-sign", "-inkey", f"{self.d}/{key}.key", "-in", f"{self.d}/digest.bin", "-pkeyopt",
            f"digest:{algorithm}", "-out", f"{self.d}/digest.sig")
        return read(f"{self.d}/digest.sig")

    def sign(self, path, body):
        keyless = path.endswith("keyless")
        digests = [base64.b64decode(d) for d in body.get("digests", [body.get("digest")])]
        algorithm = body.get("digest_algorithm", "sha256")
        made = {"operation_id": "0190a6b2-0001-8000-8000-000000000000", "algorithm": "ec-p256",
                "digest_algorithm": algorithm, "signature_encoding": "ecdsa-der",
                "public_key_der": b64(read(f"{self.d}/{'leaf' if keyless else 'key'}.spki")),
                "artifact_type": body["artifact_type"], "transparency_destination": self.destination}
        if keyless:
            made |= {"fulcio_san": SAN, "fulcio_issuer": ISSUER,
                     "certificate_chain": [b64(read(f"{self.d}/leaf.der")), b64(read(f"{self.d}/ca.der"))]}
        else:
            made["key_id"] = KEY_ID
        signed = [{"operation_id": f"0190a6b2-0001-8000-8000-{i:012}", "digest": b64(digest),
                   "signature": b64(self.signature(digest, algorithm, "leaf" if keyless else "key"))}
                  for i, digest in enumerate(digests)]
        if "digests" in body:
            made["signatures"] = signed
        else:
            made["signature"] = signed[0]["signature"]
        for item in signed:
            self.bodies[item["operation_id"]] = {**made, **item}
        return made

    def operation(self, operation_id):
        made = {**self.bodies[operation_id], "state": "completed"}
        if self.destination != "none":
            self.pending -= 1
            made["transparency"] = {"state": "pending", "log": self.destination}
            if self.pending < 0:
                made["transparency"] |= {"state": "published", "log_index": 7, "entry": self.entry(made)}
        return made

    def entry(self, operation):
        pem = base64.b64encode(read(f"{self.d}/key.pub")).decode()
        body = {"apiVersion": "0.0.1", "kind": "hashedrekord",
                "spec": {"data": {"hash": {"algorithm": "sha256", "value": "00"}},
                         "signature": {"content": operation["signature"], "publicKey": {"content": pem}}}}
        return {"logIndex": "7", "logId": {"keyId": b64(bytes(32))}, "integratedTime": "1767225600",
                "kindVersion": {"kind": "hashedrekord", "version": "0.0.1"},
                "inclusionPromise": {"signedEntryTimestamp": b64(b"set")},
                "inclusionProof": {"logIndex": "0", "rootHash": b64(bytes(32)), "treeSize": "1", "hashes": [],
                                   "checkpoint": {"envelope": "log\n1\nAA==\n\n\u2014 log AAAAAAA=\n"}},
                "canonicalizedBody": b64(json.dumps(body).encode())}

    def stamp(self, query):
        write(f"{self.d}/q.tsq", query)
        run("openssl", "ts", "-reply", "-queryfile", f"{self.d}/q.tsq", "-config", f"{self.d}/tsa.cnf", "-section", "tsa",
            "-inkey", f"{self.d}/tsa.key", "-signer", f"{self.d}/tsa.pem", "-out", f"{self.d}/r.tsr")
        return read(f"{self.d}/r.tsr")


def make_key(d, name):
    run("openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", f"{d}/{name}.key")
    run("openssl", "pkey", "-in", f"{d}/{name}.key", "-pubout", "-out", f"{d}/{name}.pub")
    run("openssl", "pkey", "-in", f"{d}/{name}.key", "-pubout", "-outform", "DER", "-out", f"{d}/{name}.spki")


def make_root(d, name, *extensions):
    make_key(d, name)
    adds = [word for e in extensions for word in ("-addext", e)]
    run("openssl", "req", "-x509", "-key", f"{d}/{name}.key", "-subj", f"/CN={name}", "-days", "3650", "-out",
        f"{d}/{name}.pem", *adds)
    run("openssl", "x509", "-in", f"{d}/{name}.pem", "-outform", "DER", "-out", f"{d}/{name}.der")


def make_leaf(d, name, ca, subject, days, extensions):
    make_key(d, name)
    write(f"{d}/{name}.ext", extensions)
    run("openssl", "req", "-new", "-key", f"{d}/{name}.key", "-subj", subject, "-out", f"{d}/{name}.csr")
    run("openssl", "x509", "-req", "-in", f"{d}/{name}.csr", "-CA", f"{d}/{ca}.pem", "-CAkey", f"{d}/{ca}.key", "-days",
        str(days), "-extfile", f"{d}/{name}.ext", "-out", f"{d}/{name}.pem")
    run("openssl", "x509", "-in", f"{d}/{name}.pem", "-outform", "DER", "-out", f"{d}/{name}.der")


def make_world(d):
    make_key(d, "key")
    make_root(d, "ca")
    make_root(d, "tsaca")
    make_root(d, "tls", "subjectAltName=IP:127.0.0.1")
    make_leaf(d, "leaf", "ca", "/", 1, "keyUsage=critical,digitalSignature\nextendedKeyUsage=codeSigning\n"
              f"subjectAltName=critical,URI:{SAN}\n1.3.6.1.4.1.57264.1.8=ASN1:UTF8String:{ISSUER}\n")
    make_leaf(d, "tsa", "tsaca", "/CN=tsa", 3650,
              "keyUsage=critical,digitalSignature\nextendedKeyUsage=critical,timeStamping\n")
    write(f"{d}/tsa.cnf", TSA_CONFIG.format(d=d))
    write(f"{d}/serial", "01\n")
    chain = [{"rawBytes": b64(read(f"{d}/tsa.der"))}, {"rawBytes": b64(read(f"{d}/tsaca.der"))}]
    valid = {"start": "2020-01-01T00:00:00Z"}
    write(f"{d}/root.json", json.dumps({
        "mediaType": ROOT_TYPE, "tlogs": [],
        "certificateAuthorities": [{"certChain": {"certificates": [{"rawBytes": b64(read(f"{d}/ca.der"))}]},
                                    "validFor": valid}],
        "timestampAuthorities": [{"certChain": {"certificates": chain}, "validFor": valid}]}))


def problem(status, code, **more):
    return status, {"code": code, "title": code, "status": status, **more}


def approval_required(times):
    """Refuses the first `times` executions for want of an approval."""
    left = [times]

    def hook(server, body, made):
        left[0] -= 1
        return problem(403, "approval_required", resource=RESOURCE) if left[0] >= 0 else (200, made)

    return hook


class CliSigning(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.world = tempfile.mkdtemp(prefix="svc-cli-world-", dir="/tmp")
        make_world(cls.world)
        cls.server = None

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.world)

    def setUp(self):
        self.d = tempfile.mkdtemp(prefix="svc-cli-", dir="/tmp")
        self.server = Server(self.world)
        self.file = f"{self.d}/artifact"
        write(self.file, "hello\n")
        write(f"{self.d}/proof", PROOF + "\n")

    def tearDown(self):
        self.server.close()
        shutil.rmtree(self.d)

    def cli(self, *words, stdin=None, code=0, **env):
        made = subprocess.run(
            [CLI, *words], capture_output=True, text=True, input=stdin, check=False, timeout=120,
            env={"PATH": os.environ["PATH"], "SVC_BASE_URL": self.server.url, "SVC_CA_FILE": f"{self.world}/tls.pem",
                 "SVC_TOKEN": "svc_t_test", "SVC_TSA_ROOT": f"{self.world}/tsaca.pem",
                 **{k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}, **env})
        self.assertEqual(made.returncode, code, made.stdout + made.stderr)
        self.assertNotIn(PROOF.split(".")[1], made.stdout + made.stderr)
        return made

    def sign(self, *words, **more):
        return self.cli("code-signing", "sign", self.file, "--key", KEY_ID, "--yes", *words, **more)

    def keyless(self, *words, **more):
        return self.cli("code-signing", "keyless", self.file, "--method", "github-actions", "--yes", *words, **more)

    def left(self):
        return sorted(set(os.listdir(self.d)) - {"artifact", "proof", "two", "three", "out", "list"})

    # ---- refused ----

    def test_a_signature_that_does_not_verify_is_not_written(self):
        def lie(server, body, made):
            other = server.signature(hashlib.sha256(b"other").digest(), "sha256", "key")
            return 200, {**made, "signature": b64(other)}

        self.server.hooks["POST", "/code-signing/sign"] = lie
        said = self.sign(code=1)
        self.assertIn("signature_invalid", said.stderr)
        self.assertEqual(self.left(), [])

    def test_a_batch_of_other_digests_or_numbers_is_not_written(self):
        write(f"{self.d}/two", "2")
        for lie in (lambda s: s[:1], lambda s: s + s[:1], lambda s: s[::-1]):
            self.server.hooks["POST", "/code-signing/batch"] = \
                lambda server, body, made, lie=lie: (200, {**made, "signatures": lie(made["signatures"])})
            self.sign(f"{self.d}/two", code=1)
            self.assertEqual(self.left(), [])

    def test_a_certificate_of_another_key_or_identity_is_not_written(self):
        lies = ({"certificate_chain": [b64(read(f"{self.world}/ca.der"))]}, {"certificate_chain": []},
                {"fulcio_san": "https://evil"})
        for lie in lies:
            self.server.hooks["POST", "/code-signing/keyless"] = lambda s, b, made, lie=lie: (200, {**made, **lie})
            said = self.keyless("--proof", f"{self.d}/proof", code=1)
            self.assertIn("certificate", said.stderr)
            self.assertEqual(self.left(), [])

    def test_what_the_policy_denies_is_not_sent(self):
        self.server.hooks["POST", "/code-signing/preview"] = lambda s, b, made: (200, {
            **made, "policy": {"enabled": True, "outcome": "deny", "rule": "no-friday", "reason": "not today"}})
        said = self.sign(code=2)
        self.assertIn("policy_denied: nothing was signed: rule no-friday: not today", said.stderr)
        self.assertEqual(self.server.calls("/code-signing/sign"), [])

    def test_a_missing_approval_says_who_does_what(self):
        self.server.hooks["POST", "/code-signing/sign"] = approval_required(1)
        said = self.sign(code=1)
        self.assertIn("approval_required", said.stderr)
        self.assertIn(f"svc-cli approvals approve {RESOURCE}", said.stderr)
        self.assertIn("not ci/release", said.stderr)
        self.assertIn("--wait-approval", said.stderr)
        self.assertEqual(self.left(), [])
        self.server.hooks["POST", "/code-signing/sign"] = approval_required(1)
        said = self.sign("--json", code=1)
        self.assertEqual(json.loads(said.stderr)["resource"], RESOURCE)

    def test_a_missing_approval_of_a_raw_request_says_the_same(self):
        self.server.hooks["POST", "/code-signing/sign"] = approval_required(1)
        write(f"{self.d}/out", json.dumps({"artifact_type": "file", "digest": b64(bytes(32))}))
        said = self.cli("code-signing", "sign", "-f", f"{self.d}/out", code=1)
        self.assertIn(f"svc-cli approvals approve {RESOURCE}", said.stderr)

    def test_waiting_for_an_approval_ends(self):
        self.server.hooks["POST", "/code-signing/sign"] = approval_required(1)
        said = self.sign("--wait-approval", "300ms", code=1)
        self.assertIn("no approval came in time", said.stderr)
        self.assertEqual(len(self.server.calls("/code-signing/sign")), 1)

    def test_a_denied_approval_ends_the_waiting(self):
        self.server.hooks["POST", "/code-signing/sign"] = approval_required(1)
        previews = []

        def denied(server, body, made):
            previews.append(1)
            state = "denied" if len(previews) > 2 else "pending"
            return 200, {**made, "approval": {"required": True, "state": state, "approvers": 1, "approvals": 0}}

        self.server.hooks["POST", "/code-signing/preview"] = denied
        said = self.sign("--wait-approval", "1m", code=2)
        self.assertIn("approval_denied", said.stderr)

    def test_forms_that_contradict_themselves_are_refused(self):
        write(f"{self.d}/two", "2")
        write(f"{self.d}/list", f"{self.file}\n")
        for words in (("--batch-file", f"{self.d}/list"), ("-f", self.file), (f"{self.d}/two", "-o", f"{self.d}/x"),
                      ("-o", "-", "--timestamp"), ("-o", f"{self.d}/x", "--bundle", f"{self.d}/x"),
                      ("--digest-algorithm", "md5"), ("--wait-log", "x"), (f"{self.d}/nowhere",),
                      ("-o", f"{self.d}/nowhere/x")):
            self.sign(*words, code=2)
        self.assertEqual(self.server.seen, [])
        self.sign("--timestamp", code=2, SVC_TSA_ROOT=f"{self.d}/nowhere")
        self.assertEqual(self.server.seen, [])
        self.cli("code-signing", "sign", self.file, "--key", KEY_ID, code=2)  # nobody to ask
        self.assertEqual(self.server.calls("/code-signing/sign"), [])
        self.cli("code-signing", "keyless", "-", "--method", "m", "--proof", "-", stdin="x", code=2)
        self.keyless(code=2)  # no proof
        self.keyless("--proof", self.file, code=2)  # no ID token in it

    def test_a_trusted_root_that_is_none_is_not_written(self):
        self.server.hooks["GET", "/code-signing/trusted-root"] = lambda s, b, made: (200, {"mediaType": "x"})
        self.cli("code-signing", "trusted-root", "-o", f"{self.d}/tr.json", code=2)
        self.assertEqual(self.left(), [])

    # ---- done ----

    def test_one_file_with_signature_stamp_and_bundle(self):
        said = self.sign("-o", f"{self.d}/sig", "--timestamp", "--bundle", f"{self.d}/bundle", "--json")
        receipt = json.loads(said.stdout)
        self.assertEqual(receipt["key_id"], KEY_ID)
        self.assertEqual(receipt["files"], [{"file": self.file, "operation_id": receipt["operation_id"],
                                             "signature_file": f"{self.d}/sig", "timestamp_file": f"{self.d}/sig.tsr",
                                             "bundle_file": f"{self.d}/bundle"}])
        run("openssl", "dgst", "-sha256", "-verify", f"{self.world}/key.pub", "-signature", f"{self.d}/sig", self.file)
        run("openssl", "ts", "-verify", "-data", f"{self.d}/sig", "-in", f"{self.d}/sig.tsr", "-CAfile",
            f"{self.world}/tsaca.pem")
        bundle = json.loads(read(f"{self.d}/bundle"))
        self.assertEqual(bundle["mediaType"], "application/vnd.dev.sigstore.bundle.v0.3+json")
        hint = hashlib.sha256(read(f"{self.world}/key.spki")).digest()
        self.assertEqual(bundle["verificationMaterial"]["publicKey"], {"hint": b64(hint)})
        self.assertEqual(base64.b64decode(bundle["messageSignature"]["signature"]), read(f"{self.d}/sig"))
        verify = ("code-signing", "verify", self.file, "--bundle", f"{self.d}/bundle", "--public-key",
                  f"{self.world}/key.pub", "--trusted-root", f"{self.world}/root.json")
        self.assertIn("1 of 1 verified", self.cli(*verify).stdout)
        verdict = json.loads(self.cli(*verify, "--json").stdout)
        self.assertEqual((verdict["valid"], verdict["timestamps_verified"]), (True, 1))
        write(self.file, "hellO\n")
        self.cli(*verify, code=2)

    def test_other_digests_and_the_detached_form(self):
        self.sign("--digest-algorithm", "sha512", "-o", f"{self.d}/sig")
        body = self.server.calls("/code-signing/sign")[0][2]
        self.assertEqual(body["digest_algorithm"], "sha512")
        self.assertEqual(base64.b64decode(body["digest"]), hashlib.sha512(b"hello\n").digest())
        verify = ("code-signing", "verify", self.file, "--signature", f"{self.d}/sig", "--public-key",
                  f"{self.world}/key.pub")
        self.cli(*verify, code=2)
        self.cli(*verify, "--digest-algorithm", "sha512")

    def test_several_files_are_one_batch(self):
        for name in ("two", "three"):
            write(f"{self.d}/{name}", name)
        os.mkdir(f"{self.d}/out")
        self.sign(f"{self.d}/two", f"{self.d}/three", "-o", f"{self.d}/out", "--bundle", f"{self.d}/out", "--timestamp")
        batch = self.server.calls("/code-signing/batch")
        self.assertEqual((len(batch), len(batch[0][2]["digests"])), (1, 3))
        self.assertEqual(len(self.server.calls("/code-signing/batch/preview")), 1)
        self.assertEqual(len(os.listdir(f"{self.d}/out")), 9)
        for name in ("artifact", "two", "three"):
            run("openssl", "dgst", "-sha256", "-verify", f"{self.world}/key.pub", "-signature",
                f"{self.d}/out/{name}.sig", f"{self.d}/{name}")
            self.cli("code-signing", "verify", f"{self.d}/{name}", "--bundle", f"{self.d}/out/{name}.sigstore.json",
                     "--public-key", f"{self.world}/key.pub")

    def test_a_list_of_files_is_a_batch(self):
        write(f"{self.d}/two", "2")
        write(f"{self.d}/list", f"{self.file}\r\n\n{self.d}/two")
        self.cli("code-signing", "sign", "--batch-file", f"{self.d}/list", "--key", KEY_ID, "--yes")
        self.assertEqual(self.left(), ["artifact.sig", "two.sig"])

    def test_an_approval_is_waited_for(self):
        self.server.hooks["POST", "/code-signing/sign"] = approval_required(1)
        previews = []

        def approving(server, body, made):
            previews.append(1)
            state = "approved" if len(previews) > 3 else "pending"
            return 200, {**made, "approval": {"required": True, "state": state, "approvers": 1, "approvals": 0}}

        self.server.hooks["POST", "/code-signing/preview"] = approving
        said = self.sign("--wait-approval", "1m")
        self.assertIn("waiting for that", said.stderr)
        keys = [call[3]["Idempotency-Key"] for call in self.server.calls("/code-signing/sign")]
        self.assertEqual((len(keys), len(set(keys))), (2, 2))
        self.assertEqual(self.left(), ["artifact.sig"])

    def test_a_log_entry_is_waited_for(self):
        self.server.destination, self.server.pending = "rekor-v1:https://log", 3
        said = self.sign("--bundle", f"{self.d}/bundle")
        self.assertIn("waiting for the entry", said.stderr)
        entry = json.loads(read(f"{self.d}/bundle"))["verificationMaterial"]["tlogEntries"][0]
        self.assertEqual((entry["logIndex"], entry["inclusionProof"]["treeSize"]), ("7", "1"))
        self.assertEqual(entry["integratedTime"], "1767225600")

    def test_a_log_that_is_slow_leaves_the_signature_and_says_what_goes_on(self):
        self.server.destination, self.server.pending = "rekor-v1:https://log", 10**9
        said = self.sign("--bundle", f"{self.d}/bundle", "--wait-log", "300ms", code=1)
        self.assertIn("publication goes on in the background", said.stderr)
        self.assertIn("signed: ", said.stdout)
        self.assertEqual(self.left(), ["artifact.sig"])
        self.server.pending = 0
        operation = self.server.calls("/code-signing/operations/0190a6b2-0001-8000-8000-000000000000")[0][1]
        self.cli("code-signing", "bundle", operation.rsplit("/", 1)[1], "-o", f"{self.d}/bundle")
        self.cli("code-signing", "verify", self.file, "--bundle", f"{self.d}/bundle", "--public-key",
                 f"{self.world}/key.pub")

    def test_a_publication_that_failed_is_told(self):
        self.server.destination = "rekor-v1:https://log"
        self.server.hooks["GET", "/code-signing/operations/0190a6b2-0001-8000-8000-000000000000"] = \
            lambda s, b, made: (200, {**made, "transparency": {"state": "failed"}})
        said = self.sign("--bundle", f"{self.d}/bundle", code=1)
        self.assertIn("publication failed", said.stderr)
        self.assertEqual(self.left(), ["artifact.sig"])

    def test_keyless_with_a_proof_from_each_source(self):
        self.keyless("--proof", f"{self.d}/proof")
        self.keyless("--proof", "-", stdin=PROOF)
        self.keyless(SVC_ID_TOKEN=PROOF)
        github = {"ACTIONS_ID_TOKEN_REQUEST_URL": f"{self.server.url}/id-token?api-version=2",
                  "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "job-token"}
        self.keyless(code=2, **github)  # for whom?
        self.keyless("--audience", "a b&c", "--id-token-ca", f"{self.world}/tls.pem", **github)
        self.assertEqual(self.server.calls("/id-token")[0][4], "api-version=2&audience=a%20b%26c")
        bodies = [call[2] for call in self.server.calls("/code-signing/keyless")]
        self.assertEqual({body["identity_payload"] for body in bodies}, {b64(PROOF.encode())})
        self.assertEqual(len(bodies), 4)

    def test_keyless_bundle_is_verified_offline_by_its_time_stamp(self):
        said = self.keyless("--proof", f"{self.d}/proof", "--expect-san", SAN, "--expect-issuer", ISSUER, "--timestamp",
                            "--bundle", f"{self.d}/bundle", "--certificate", f"{self.d}/chain.pem")
        self.assertIn(SAN, said.stdout)
        self.assertEqual(self.server.calls("/code-signing/keyless")[0][2]["expected_san"], SAN)
        verify = ["code-signing", "verify", self.file, "--bundle", f"{self.d}/bundle", "--trusted-root",
                  f"{self.world}/root.json"]
        who = ["--certificate-identity", SAN, "--certificate-oidc-issuer", ISSUER]
        self.assertIn(SAN, self.cli(*verify, *who).stdout)
        self.cli(*verify, code=2)
        self.cli(*verify, "--certificate-identity", SAN, "--certificate-oidc-issuer", "https://evil", code=2)
        self.cli(*verify, "--certificate-identity", SAN + "x", "--certificate-oidc-issuer", ISSUER, code=2)
        home = {**os.environ, "HOME": self.d}
        run("cosign", "verify-blob", "--bundle", f"{self.d}/bundle", "--new-bundle-format", "--trusted-root",
            f"{self.world}/root.json", *who, "--insecure-ignore-sct", "--insecure-ignore-tlog",
            "--use-signed-timestamps", self.file, env=home)

    def test_keyless_waits_for_its_approval_and_proves_itself_anew(self):
        self.server.hooks["POST", "/code-signing/keyless"] = approval_required(1)
        looks = []

        def approving(server, body, made):
            looks.append(1)
            server.approved = len(looks) > 2
            return 200, made

        self.server.hooks["GET", "/approval-requests"] = approving
        self.keyless("--proof", f"{self.d}/proof", "--wait-approval", "1m")
        self.assertEqual(len(self.server.calls("/code-signing/keyless")), 2)
        self.assertEqual(len(self.server.calls("/code-signing/keyless/preview")), 2)

    def test_verification_for_the_long_term(self):
        self.keyless("--proof", f"{self.d}/proof", "--timestamp", "--certificate", f"{self.d}/chain.pem")
        words = {"--signature": f"{self.file}.sig", "--timestamp": f"{self.file}.sig.tsr",
                 "--certificate": f"{self.d}/chain.pem", "--root": f"{self.world}/ca.pem"}

        def verify(code=0, **changed):
            chosen = {**words, **{f"--{k}": v for k, v in changed.items()}}
            return self.cli("code-signing", "verify-long-term", self.file, *[w for p in chosen.items() for w in p],
                            code=code)

        self.assertIn("while its certificate was valid", verify().stdout)
        verify(2, root=f"{self.world}/tsaca.pem")
        verify(2, certificate=f"{self.world}/ca.pem")
        self.cli("tsa", "stamp", self.file, "-o", f"{self.d}/out")
        self.assertIn("something else", verify(2, timestamp=f"{self.d}/out").stderr)
        # The same key, certified for a time that is over: the stamp lies behind it.
        run("openssl", "x509", "-req", "-in", f"{self.world}/leaf.csr", "-CA", f"{self.world}/ca.pem", "-CAkey",
            f"{self.world}/ca.key", "-not_before", "20200101000000Z", "-not_after", "20210101000000Z", "-extfile",
            f"{self.world}/leaf.ext", "-out", f"{self.d}/out")
        self.assertIn("timestamp_outside_validity", verify(2, certificate=f"{self.d}/out").stderr)

    def test_the_trusted_root_is_written_as_it_came(self):
        root = json.loads(read(f"{self.world}/root.json"))
        self.server.hooks["GET", "/code-signing/trusted-root"] = lambda s, b, made: (200, root)
        self.cli("code-signing", "trusted-root", "-o", f"{self.d}/tr.json")
        self.assertEqual(json.loads(read(f"{self.d}/tr.json")), root)

    def test_every_command_explains_itself_and_needs_no_server(self):
        listed = self.cli("--list-routes").stdout.splitlines()
        for words in sorted({line.split(" ", 2)[2] for line in listed}):
            said = self.cli(*words.split(), "--help").stdout
            self.assertIn("Example:", said)
            self.assertIn(f"svc-cli {words}", said)


if __name__ == "__main__":
    unittest.main()
