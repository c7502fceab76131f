"""A CI system's token issuer: real HTTPS with a certificate of its own authority, a JWKS, tokens made by `jose`."""
import base64
import hashlib
import hmac
import http.server
import json
import os
import secrets
import shutil
import ssl
import tempfile
import threading
import time

from appliance import run


def b64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unsigned(header, claims):
    return b64url(json.dumps(header).encode()) + "." + b64url(json.dumps(claims).encode())


class Issuer:
    """url is the issuer; keys are shown under /jwks as long as they are in `shown`."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="svc-oidc-", dir="/tmp")
        os.chmod(self.dir, 0o755)
        self.ca_file = f"{self.dir}/ca.pem"
        self.keys, self.shown, self.fetched, self.down = {}, [], 0, False
        self.make_certificate()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{self.dir}/tls.pem", f"{self.dir}/tls.key")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self.server.server_address[1]}"
        self.jwks_url = f"{self.url}/jwks"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.add_key("key-1")

    def make_certificate(self):
        d = self.dir
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", "/CN=issuer test authority", "-addext", "basicConstraints=critical,CA:TRUE", "-addext",
            "keyUsage=critical,keyCertSign", "-keyout", f"{d}/ca.key", "-out", self.ca_file)
        run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=127.0.0.1",
            "-keyout", f"{d}/tls.key", "-out", f"{d}/tls.csr")
        with open(f"{d}/ext", "w") as f:
            f.write("subjectAltName=IP:127.0.0.1\nbasicConstraints=critical,CA:FALSE\nextendedKeyUsage=serverAuth\n"
                    "keyUsage=critical,digitalSignature\nauthorityKeyIdentifier=keyid\nsubjectKeyIdentifier=hash\n")
        run("openssl", "x509", "-req", "-in", f"{d}/tls.csr", "-CA", self.ca_file, "-CAkey", f"{d}/ca.key", "-days", "2",
            "-extfile", f"{d}/ext", "-out", f"{d}/tls.pem")

    def handler(self):
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):  # noqa: N802 - the base class's name
                found = self.path == "/jwks" and not issuer.down
                body = issuer.jwks().encode() if found else b"{}"
                if found:
                    issuer.fetched += 1
                self.send_response(200 if found else 503 if issuer.down else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        return Handler

    def start(self):
        self.thread.start()
        return self

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def add_key(self, kid, algorithm="RS256", show=True):
        path = f"{self.dir}/{kid}.jwk"
        run("jose", "jwk", "gen", "-i", json.dumps({"alg": algorithm, "kid": kid}), "-o", path)
        self.keys[kid] = (path, algorithm)
        if show:
            self.shown.append(kid)

    def public(self, kid):
        out = json.loads(run("jose", "jwk", "pub", "-i", self.keys[kid][0], "-o", "-").stdout)
        return {**{k: v for k, v in out.items() if k != "key_ops"}, "use": "sig"}

    def jwks(self):
        return json.dumps({"keys": [self.public(kid) for kid in self.shown]})

    def write_jwks(self, path):
        with open(path, "w") as f:
            f.write(self.jwks())
        return path

    def claims(self, **more):
        """What GitHub Actions states, for a run of acme's release workflow."""
        now = int(time.time())
        sha = "ab" * 20
        out = {
            "iss": self.url, "aud": "svc", "jti": secrets.token_hex(8), "iat": now - 1, "nbf": now - 1, "exp": now + 300,
            "sub": "repo:acme/tool:ref:refs/tags/v1", "repository": "acme/tool", "repository_owner": "acme",
            "repository_id": "4711", "repository_owner_id": "42", "repository_visibility": "public",
            "ref": "refs/tags/v1", "ref_type": "tag", "ref_protected": "true", "sha": sha, "workflow": "release",
            "workflow_ref": "acme/tool/.github/workflows/release.yml@refs/tags/v1", "workflow_sha": sha,
            "job_workflow_ref": "acme/tool/.github/workflows/release.yml@refs/tags/v1", "job_workflow_sha": sha,
            "run_id": "1001", "run_number": "7", "run_attempt": "1", "runner_environment": "github-hosted",
            "event_name": "push", "actor": "dev", "base_ref": "", "head_ref": "",
        }
        out.update(more)
        return {k: v for k, v in out.items() if v is not None}

    def gitlab_claims(self, **more):
        """What GitLab CI states, for a pipeline of acme's main branch."""
        now = int(time.time())
        sha = "cd" * 20
        out = {
            "iss": self.url, "aud": "svc", "jti": secrets.token_hex(8), "iat": now - 1, "nbf": now - 1, "exp": now + 300,
            "sub": "project_path:acme/tool:ref_type:branch:ref:main", "namespace_id": "7", "namespace_path": "acme",
            "project_id": "99", "project_path": "acme/tool", "user_login": "dev", "user_id": "5", "pipeline_id": "123",
            "pipeline_source": "push", "job_id": "456", "ref": "main", "ref_type": "branch", "ref_path": "refs/heads/main",
            "ref_protected": "true", "runner_environment": "gitlab-hosted", "sha": sha, "project_visibility": "public",
            "ci_config_ref_uri": "gitlab.com/acme/tool//.gitlab-ci.yml@refs/heads/main", "ci_config_sha": sha,
        }
        out.update(more)
        return {k: v for k, v in out.items() if v is not None}

    def token(self, claims=None, kid="key-1", header=None):
        """A compact JWS, signed by jose."""
        path, algorithm = self.keys[kid]
        protected = {"alg": algorithm, "kid": kid, "typ": "JWT", **(header or {})}
        done = run("jose", "jws", "sig", "-I", "-", "-k", path, "-s", json.dumps({"protected": protected}), "-c", "-o", "-",
                   input=json.dumps(self.claims() if claims is None else claims))
        return done.stdout.strip()

    def token_without_signature(self, claims=None, algorithm="none"):
        return unsigned({"alg": algorithm, "kid": "key-1", "typ": "JWT"}, claims or self.claims()) + "."

    def token_hs256_with_the_public_key(self, secret, claims=None):
        """Key confusion: the issuer's public key taken for an HMAC secret."""
        text = unsigned({"alg": "HS256", "kid": "key-1", "typ": "JWT"}, claims or self.claims())
        return text + "." + b64url(hmac.new(secret, text.encode(), hashlib.sha256).digest())

    def attestor(self, **more):
        """The entry of the attestors file that trusts this issuer."""
        return {"method": "github-actions", "tenant": "default", "kind": "github-actions", "issuer": self.url,
                "audience": "[svc]", "jwks_url": self.jwks_url, "jwks_ca_file": self.ca_file, **more}
