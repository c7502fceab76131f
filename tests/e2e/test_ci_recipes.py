"""docs/ci-recipes.md, run: every shell block and every job, with environment variables in place of the CI system's."""
import base64
import http.server
import json
import os
import re
import secrets
import shutil
import ssl
import string
import threading
import unittest
import urllib.parse
import zipfile

import signing
from appliance import SRC, Appliance, run
from oidc import Issuer
from peers import Rekor
from test_codesign_policy import make_token
from test_key_certificates import Authority
from test_pkcs11_module import MODULE, minimal_pe

PAGE = f"{SRC}/docs/ci-recipes.md"
GITHUB, GITLAB = "https://token.actions.githubusercontent.com", "https://gitlab.com"
RULES = """rules:
  - name: releases
    when: {artifact_type: [release]}
    then: require_approval
  - name: rest
    when: {}
    then: allow
"""
MACHINE = "/etc/ssl/certs/ca-certificates.crt"
IN_CI = f"""import ctypes, os, sys
MS_BIND = 4096
if ctypes.CDLL(None).mount(sys.argv[1].encode(), b"{MACHINE}", None, MS_BIND, None) != 0:
    sys.exit("cannot mount")
os.execvp("bash", ["bash", "-e", "-o", "pipefail", "-c", sys.argv[2]])
"""
DESK, GITHUB_KEYLESS, GITHUB_KEY = "Once, at your desk", "GitHub Actions, keyless", "GitHub Actions, with a key"
GITLAB_KEYLESS, GITLAB_KEY = "GitLab CI, keyless", "GitLab CI, with a key"
PKCS11, DOWNLOAD = "Tools that speak PKCS#11", "For those who download"


def read_page():
    """{heading: [(language, text), ...]} of all fenced blocks."""
    blocks, heading, language, lines = {}, None, None, []
    with open(PAGE) as f:
        for line in f.read().split("\n"):
            if language is None and line.startswith("## "):
                heading = line[3:]
            elif line.startswith("```"):
                if language is None:
                    language, lines = line[3:], []
                else:
                    blocks.setdefault(heading, []).append((language, "\n".join(lines) + "\n"))
                    language = None
            elif language is not None:
                lines.append(line)
    return blocks


def indent_of(line):
    return len(line) - len(line.lstrip(" "))


def mapping(lines, name):
    """The `NAME: value` lines below `name:`."""
    found, depth = {}, None
    for line in lines:
        if depth is not None and line.strip() and indent_of(line) > depth:
            key, _, value = line.strip().partition(": ")
            found[key] = value.split(" #")[0].strip()
        elif line.strip() == name + ":":
            depth = indent_of(line)
        else:
            depth = None
    return found


def commands(lines):
    """The shell texts of a job: `run:` of GitHub's steps, the items below GitLab's `script:`."""
    found, in_script, at = [], None, 0
    while at < len(lines):
        line, text = lines[at], lines[at].strip()
        at += 1
        if in_script is not None and text and indent_of(line) <= in_script:
            in_script = None
        if text == "script:":
            in_script = indent_of(line)
            continue
        item = re.fullmatch(r"run: (.*)", text) or (re.fullmatch(r"- (.*)", text) if in_script is not None else None)
        if not item:
            continue
        if item.group(1) != "|":
            found.append(item.group(1))
            continue
        body = []
        while at < len(lines) and (not lines[at].strip() or indent_of(lines[at]) > indent_of(line)):
            body.append(lines[at])
            at += 1
        depth = min(indent_of(row) for row in body if row.strip())
        found.append("\n".join(row[depth:] for row in body) + "\n")
    return found


class TokenService:
    """What GitHub gives a job to ask its identity proof of: HTTPS, a bearer token of the job, an audience."""

    def __init__(self, issuer, make):
        self.bearer = secrets.token_hex(16)
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # noqa: N802 - the base class's name
                asked = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query)
                good = self.headers.get("Authorization", "").lower() == f"bearer {service.bearer}"
                body = json.dumps({"value": make(asked["audience"][0])} if good else {"message": "no"}).encode()
                self.send_response(200 if good else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{issuer.dir}/tls.pem", f"{issuer.dir}/tls.key")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self.server.server_address[1]}/token?api-version=2.0"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Recipes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.blocks = read_page()
        cls.rekor = Rekor().start()
        cls.addClassCleanup(cls.rekor.stop)
        cls.issuer = Issuer().start()
        cls.addClassCleanup(cls.issuer.stop)
        cls.service = TokenService(cls.issuer, lambda audience: cls.issuer.token(
            cls.issuer.claims(iss=GITHUB, aud=audience)))
        cls.addClassCleanup(cls.service.stop)
        cls.a = Appliance("recipes")
        cls.addClassCleanup(cls.a.clean)
        signing.write_policy(cls.a, RULES)
        signing.write_logs(cls.a, cls.rekor)
        signing.write_attestors(cls.a, cls.issuer.attestor(issuer=GITHUB),
                                cls.issuer.attestor(method="gitlab-ci", kind="gitlab-ci", issuer=GITLAB))
        cls.a.start()
        cls.anna = make_token(cls.a, "anna", "approver")
        # cosign takes an index of 0 for a missing one: none of ours is the first entry of its log.
        proof = cls.issuer.token(cls.issuer.claims(iss=GITHUB))
        session = cls.a.session("OPERATOR")
        first = signing.sign(session, "keyless", signing.keyless_body(proof, bytes(32)))
        session.close()
        assert first.status == 200, first
        signing.published(cls.a, first.json["operation_id"])
        cls.make_repository()

    @classmethod
    def make_repository(cls):
        """The user's checkout and home, after what the page says to do once."""
        cls.home, cls.repository = f"{cls.a.dir}/home", f"{cls.a.dir}/repository"
        os.makedirs(f"{cls.home}/svc")
        os.makedirs(f"{cls.repository}/dist")
        with open(f"{cls.home}/svc/admin-token", "w") as f:
            f.write(cls.a.token("ADMIN"))
        os.chmod(f"{cls.home}/svc/admin-token", 0o600)
        with open(f"{cls.repository}/dist/tool.tar.gz", "wb") as f:
            f.write(secrets.token_bytes(50_000))
        with open(f"{cls.repository}/dist/tool.exe", "wb") as f:
            f.write(minimal_pe())
        with zipfile.ZipFile(f"{cls.repository}/dist/tool.jar", "w") as f:
            f.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\r\n\r\n")
            f.writestr("tool.txt", "content")
        # The machine's authorities, and beside them the one that stands in for whoever vouches for GitHub's service.
        cls.authorities = f"{cls.a.dir}/authorities.pem"
        with open(cls.authorities, "wb") as out:
            for path in (MACHINE, cls.issuer.ca_file):
                with open(path, "rb") as f:
                    out.write(f.read())
        for language, text in cls.blocks[DESK]:
            assert language == "sh"
            cls.shell(text, cls.desk())
        with open(f"{cls.repository}/ci-token") as f:
            cls.ci_token = f.read().strip()

    @classmethod
    def base(cls):
        return {"PATH": f"{cls.a.bin}:{os.environ['PATH']}", "HOME": cls.home, "LC_ALL": "C.UTF-8"}

    @classmethod
    def desk(cls):
        return {**cls.base(), "SVC_BASE_URL": f"https://127.0.0.1:{cls.a.port}", "SVC_CA_FILE": f"{cls.a.dir}/data/ca.pem",
                "SVC_TOKEN": cls.a.token("OPERATOR")}

    @classmethod
    def shell(cls, text, env, folder=None):
        """As a CI system runs it, on a machine that trusts our stand-in for GitHub's token service."""
        return run("unshare", "--mount", "python3", "-c", IN_CI, cls.authorities, text, env=env, cwd=folder or cls.repository)

    def job(self, heading, predefined, folder=None):
        """Runs the one job of a section in a checkout of its own, as the CI system would; returns the checkout."""
        jobs = [text.split("\n") for language, text in self.blocks[heading] if language == "yaml"]
        self.assertEqual(len(jobs), 1)
        if folder is None:
            folder = f"{self.a.dir}/job-{secrets.token_hex(4)}"
            shutil.copytree(self.repository, folder)
            os.unlink(f"{folder}/ci-token")
        env = {**self.base(), **predefined}
        for name, value in {**mapping(jobs[0], "env"), **mapping(jobs[0], "variables")}.items():
            env[name] = self.stand_in(value, env)
        texts = commands(jobs[0])
        self.assertGreater(len(texts), 1)
        if "script:" in [line.strip() for line in jobs[0]]:
            texts = ["\n".join(texts)]  # GitLab: one shell for all; GitHub: one for each step
        for text in texts:
            self.assertNotIn("${{", text, "an expression in a shell text is an injection waiting to happen")
            self.shell(text, env, folder)
        return folder

    def stand_in(self, value, env):
        known = {"https://signing.example.com:8443": f"https://127.0.0.1:{self.a.port}",
                 "${{ secrets.SVC_TOKEN }}": self.ci_token, "/usr/local/lib/libsvc-pkcs11.so": MODULE}
        if value in known:
            return known[value]
        self.assertNotIn("${{", value, "nobody says what this is")
        return string.Template(value).substitute(env)

    def github(self):
        return {"GITHUB_WORKFLOW_REF": "acme/tool/.github/workflows/release.yml@refs/tags/v1", "GITHUB_RUN_ID": "1001",
                "ACTIONS_ID_TOKEN_REQUEST_URL": self.service.url, "ACTIONS_ID_TOKEN_REQUEST_TOKEN": self.service.bearer}

    def gitlab(self):
        tag = self.issuer.gitlab_claims(
            iss=GITLAB, ref="v1", ref_type="tag", ref_path="refs/tags/v1", sub="project_path:acme/tool:ref_type:tag:ref:v1",
            ci_config_ref_uri="gitlab.com/acme/tool//.gitlab-ci.yml@refs/tags/v1")
        return {"CI_SERVER_HOST": "gitlab.com", "CI_SERVER_URL": GITLAB, "CI_PROJECT_PATH": "acme/tool",
                "CI_CONFIG_PATH": ".gitlab-ci.yml", "CI_COMMIT_TAG": "v1", "SVC_TOKEN": self.ci_token,
                "SVC_ID_TOKEN": self.issuer.token(tag)}

    def approve_in_background(self):
        """Somebody who lets the one release pass that will be asked for."""
        stop, approved = threading.Event(), []

        def watch():
            session = self.a.session(self.anna)
            while not stop.wait(0.2):
                answer = session.api("GET", "/api/v1/approval-requests?waiting_for_me=true")
                for request in answer.json["items"]:
                    done = session.api("POST", f"/api/v1/approval-requests/{request['request_id']}/approvals", {}, key=True)
                    approved.append(done.status)
            session.close()

        thread = threading.Thread(target=watch)
        thread.start()

        def end():
            stop.set()
            thread.join()
            return approved

        return end

    def test_every_block_of_the_page_is_run_here(self):
        self.assertEqual(set(self.blocks), {DESK, GITHUB_KEYLESS, GITHUB_KEY, GITLAB_KEYLESS, GITLAB_KEY, PKCS11, DOWNLOAD})
        kinds = {heading: [language for language, _ in blocks] for heading, blocks in self.blocks.items()}
        self.assertEqual(kinds[PKCS11], ["sh", "sh", "yaml"])
        self.assertEqual(set(kinds[DESK] + kinds[DOWNLOAD]), {"sh"})
        for heading in (GITHUB_KEYLESS, GITHUB_KEY, GITLAB_KEYLESS, GITLAB_KEY):
            self.assertEqual(kinds[heading], ["yaml"])

    def test_github_keyless_and_what_a_user_does_with_it(self):
        folder = self.job(GITHUB_KEYLESS, self.github())
        env = self.base()
        for _, text in self.blocks[DOWNLOAD]:
            self.shell(text, env, folder)
        with open(f"{folder}/dist/tool.tar.gz", "ab") as f:
            f.write(b"x")
        with self.assertRaises(AssertionError):
            self.shell(self.blocks[DOWNLOAD][0][1], env, folder)

    def test_github_keyless_of_another_workflow_is_refused(self):
        other = {**self.github(), "GITHUB_WORKFLOW_REF": "acme/tool/.github/workflows/other.yml@refs/tags/v1"}
        with self.assertRaisesRegex(AssertionError, "keyless_contradiction"):
            self.job(GITHUB_KEYLESS, other)

    def test_github_with_a_key_and_an_approval(self):
        end = self.approve_in_background()
        try:
            self.job(GITHUB_KEY, self.github())
        finally:
            approved = end()
        self.assertEqual(len(approved), 1, "one approval was needed")

    def test_gitlab_keyless(self):
        self.job(GITLAB_KEYLESS, self.gitlab())

    def test_gitlab_with_a_key(self):
        self.job(GITLAB_KEY, self.gitlab())

    def test_a_job_that_is_run_again_signs_once(self):
        with open(f"{self.repository}/ci/svc/key-id") as f:
            key_id = f.read().strip()
        env = {**self.desk(), "SVC_TOKEN": self.ci_token, "GITHUB_RUN_ID": "4242"}
        text = (f'svc-cli code-signing sign dist/tool.tar.gz --key {key_id} --idempotency-key "release-$GITHUB_RUN_ID" '
                "-o \"$OUT\" --yes --json")
        said = [json.loads(self.shell(text, {**env, "OUT": f"{self.a.dir}/again-{n}.sig"}).stdout) for n in range(2)]
        self.assertEqual(said[0]["operation_id"], said[1]["operation_id"])

    def test_tools_that_speak_pkcs11(self):
        folder = f"{self.a.dir}/job-pkcs11"
        shutil.copytree(self.repository, folder)
        request, certify = [text for language, text in self.blocks[PKCS11] if language == "sh"]
        self.shell(request, self.desk(), folder)
        authority = Authority()
        self.addCleanup(authority.clean)
        with open(f"{folder}/release.csr") as f:
            chain = authority.chain(authority.issue(f.read()))
        with open(f"{folder}/ci/svc/chain.pem", "w") as f:
            for der in chain:
                f.write(ssl.DER_cert_to_PEM_cert(base64.b64decode(der)))
        self.shell(certify, self.desk(), folder)
        self.job(PKCS11, self.github(), folder)
        root = f"{folder}/root.pem"
        with open(root, "w") as f:
            f.write(ssl.DER_cert_to_PEM_cert(base64.b64decode(chain[-1])))
        run("osslsigncode", "verify", "-CAfile", root, "-in", f"{folder}/dist/tool-signed.exe")


if __name__ == "__main__":
    unittest.main()
