#!/usr/bin/env python3
"""A transparency log that speaks the protocol of Rekor v2, for tests: there is no such server among Debian's packages.

It is no Rekor. It keeps a real Merkle tree (RFC 6962) in memory, checks requests as the protocol asks, answers with
TransparencyLogEntry, serves checkpoint, tiles and entry bundles (C2SP tlog-tiles), refuses what it has already with 409
and X-Log-Index, and signs real checkpoints (C2SP signed-note) with an Ed25519 or P-256 key through openssl.

    tiles_log.py KEY.pem ORIGIN        prints its port; ends with its standard input

POST /test/fill?N adds N leaves of nobody's. POST /test/mode sets how it misbehaves, by the body's text: "" (not at all),
"hang", "503", "html", "quiet" (409 without the header), "unproven" (answers lack the proof), "elsewhere" (as a Rekor v1:
409 whose Location is another origin).
"""
import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HASHES = {"PKIX_ECDSA_P256_SHA_256": ("SHA2_256", 32), "PKIX_ECDSA_P384_SHA_384": ("SHA2_384", 48),
          "PKIX_RSA_PKCS1V15_3072_SHA256": ("SHA2_256", 32), "PKIX_RSA_PKCS1V15_4096_SHA256": ("SHA2_256", 32)}


def b64(data):
    return base64.b64encode(data).decode()


def run(*command, data=None):
    return subprocess.run(command, input=data, capture_output=True, check=False)


class Refused(Exception):
    pass


class Log:
    def __init__(self, key, origin):
        self.key, self.origin = key, origin
        self.lock = threading.Lock()
        self.bodies, self.leaves, self.known = [], [], {}
        self.mode, self.asked = "", 0
        self.go_on = threading.Event()
        spki = run("openssl", "pkey", "-in", key, "-pubout", "-outform", "DER").stdout
        self.ed25519 = len(spki) == 44
        name = f"{origin}\n".encode() + b"\x01" + spki[-32:] if self.ed25519 else spki
        self.id = hashlib.sha256(name).digest()

    # ---- the tree ----

    @staticmethod
    def node(left, right):
        return hashlib.sha256(b"\x01" + left + right).digest()

    def root(self, first, end):
        if end - first == 1:
            return self.leaves[first]
        half = 1 << ((end - first - 1).bit_length() - 1)
        return self.node(self.root(first, first + half), self.root(first + half, end))

    def path(self, index, first, end):
        if end - first == 1:
            return []
        middle = first + (1 << ((end - first - 1).bit_length() - 1))
        if index < middle:
            return self.path(index, first, middle) + [self.root(middle, end)]
        return self.path(index, middle, end) + [self.root(first, middle)]

    def append(self, body):
        self.bodies.append(body)
        self.leaves.append(hashlib.sha256(b"\x00" + body).digest())
        self.known[body] = len(self.bodies) - 1
        return len(self.bodies) - 1

    def sign(self, text):
        if self.ed25519:
            with tempfile.NamedTemporaryFile() as f:
                f.write(text)
                f.flush()
                return run("openssl", "pkeyutl", "-sign", "-rawin", "-inkey", self.key, "-in", f.name).stdout
        return run("openssl", "dgst", "-sha256", "-sign", self.key, data=text).stdout

    def checkpoint(self):
        size = len(self.leaves)
        root = self.root(0, size) if size else hashlib.sha256(b"").digest()
        text = f"{self.origin}\n{size}\n{b64(root)}\n"
        return f"{text}\n\u2014 {self.origin} {b64(self.id[:4] + self.sign(text.encode()))}\n"

    # ---- requests ----

    def check(self, request):
        """The body that the log keeps, in canonical form."""
        record = request["hashedRekordRequestV002"]
        signature = record["signature"]
        verifier = signature["verifier"]
        if set(request) != {"hashedRekordRequestV002"} or set(record) != {"digest", "signature"}:
            raise Refused("unknown field")
        algorithm, size = HASHES[verifier["keyDetails"]]
        digest, content = (base64.b64decode(x, validate=True) for x in (record["digest"], signature["content"]))
        if len(digest) != size:
            raise Refused("the digest is not of the key's hash")
        kind = "x509Certificate" if "x509Certificate" in verifier else "publicKey"
        der = base64.b64decode(verifier[kind]["rawBytes"], validate=True)
        self.check_signature(kind, der, algorithm, digest, content)
        body = {"apiVersion": "0.0.2", "kind": "hashedrekord",
                "spec": {"hashedRekordV002": {"data": {"algorithm": algorithm, "digest": b64(digest)},
                                              "signature": {"content": b64(content), "verifier": verifier}}}}
        return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()

    @staticmethod
    def check_signature(kind, der, algorithm, digest, content):
        with tempfile.TemporaryDirectory() as folder:
            if kind == "x509Certificate":
                der = run("openssl", "x509", "-inform", "DER", "-noout", "-pubkey", data=der).stdout
            files = {name: os.path.join(folder, name) for name in ("key", "digest", "signature")}
            for name, data in (("key", der), ("digest", digest), ("signature", content)):
                with open(files[name], "wb") as f:
                    f.write(data)
            done = run("openssl", "pkeyutl", "-verify", "-pubin", "-inkey", files["key"], "-in", files["digest"],
                       "-sigfile", files["signature"], "-pkeyopt", "digest:" + algorithm.replace("SHA2_", "sha"))
        if done.returncode != 0:
            raise Refused("the signature does not verify")

    def entry(self, index):
        size = len(self.leaves)
        return {"logIndex": str(index), "logId": {"keyId": b64(self.id)},
                "kindVersion": {"kind": "hashedrekord", "version": "0.0.2"},
                "integratedTime": str(int(time.time())), "inclusionPromise": None,
                "inclusionProof": {"logIndex": str(index), "rootHash": b64(self.root(0, size)), "treeSize": str(size),
                                   "hashes": [b64(x) for x in self.path(index, 0, size)],
                                   "checkpoint": {"envelope": self.checkpoint()}},
                "canonicalizedBody": b64(self.bodies[index])}

    # ---- tiles ----

    def tile(self, level, number, width):
        span = 256 ** level
        total = len(self.leaves) // span
        if number * 256 + width > total:
            return None
        return b"".join(self.root(i * span, (i + 1) * span) for i in range(number * 256, number * 256 + width))

    def bundle(self, number, width):
        if number * 256 + width > len(self.bodies):
            return None
        return b"".join(len(x).to_bytes(2, "big") + x for x in self.bodies[number * 256:number * 256 + width])


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    log = None

    def log_message(self, *_):
        pass

    def answer(self, status, body, kind="application/json", **headers):
        body = body if isinstance(body, bytes) else body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        log = self.log
        if self.path.startswith("/test/fill?"):
            with log.lock:
                for _ in range(int(self.path.split("?")[1])):
                    log.append(b"filler %d" % len(log.bodies))
            return self.answer(200, "{}")
        if self.path == "/test/mode":
            log.mode = body.decode()
            (log.go_on.clear if log.mode == "hang" else log.go_on.set)()
            return self.answer(200, "{}")
        log.asked += 1
        if log.mode == "hang":
            log.go_on.wait(60)
            self.close_connection = True
            return None
        if log.mode == "503":
            return self.answer(503, "{}", Retry_After="0")
        if log.mode == "html":
            return self.answer(200, "<html>busy</html>", "text/html")
        if log.mode == "elsewhere":
            return self.answer(409, "{}", Location="https://elsewhere.example/api/v1/log/entries/" + "0" * 64)
        return self.create(body)

    def create(self, body):
        log = self.log
        try:
            kept = log.check(json.loads(body))
        except (Refused, KeyError, TypeError, ValueError) as e:
            return self.answer(400, json.dumps({"code": 3, "message": f"invalid hashedrekord request: {e}"}))
        with log.lock:
            if kept in log.known:
                index = log.known[kept]
                message = f"an equivalent entry already exists in the transparency log with index {index}"
                headers = {} if log.mode == "quiet" else {"X_Log_Index": str(index)}
                return self.answer(409, json.dumps({"code": 6, "message": message, "details": []}), **headers)
            entry = log.entry(log.append(kept))
        if log.mode == "unproven":
            entry["inclusionProof"] = None
        return self.answer(201, json.dumps(entry))

    def do_GET(self):
        log = self.log
        if self.path == "/test/asked":
            return self.answer(200, str(log.asked))
        if self.path == "/test/size":
            return self.answer(200, str(len(log.leaves)))
        with log.lock:
            if self.path == "/api/v2/checkpoint":
                return self.answer(200, log.checkpoint(), "text/plain; charset=utf-8")
            found = re.fullmatch(r"/api/v2/tile/(\d+|entries)/((?:x\d{3}/)*\d{3})(?:\.p/(\d+))?", self.path)
            data = None
            if found:
                number = int(found[2].replace("x", "").replace("/", ""))
                width = int(found[3] or 256)
                data = log.bundle(number, width) if found[1] == "entries" else log.tile(int(found[1]), number, width)
        if data is None:
            return self.answer(404, "not found", "text/plain")
        return self.answer(200, data, "application/octet-stream")


class Server(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True


def main():
    Handler.log = Log(sys.argv[1], sys.argv[2])
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
