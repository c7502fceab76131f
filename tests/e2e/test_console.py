"""The web console, served by a real appliance to a real browser (tests/browser/console.mjs): each page shows what the
API has, nothing is asked elsewhere, nothing needs a mouse, and what the browser saves is what svc-cli verifies."""
import base64
import gzip
import http.client
import json
import os
import secrets
import ssl
import subprocess
import unittest

import signing
from appliance import SRC, Appliance, digest_of, make_key, run

RULES = """rules:
  - name: never
    when: {artifact_type: [forbidden]}
    then: deny
    reason: forbidden artifacts stay unsigned
  - name: one
    when: {artifact_type: [release]}
    then: require_approval
    approvers: 1
  - name: rest
    when: {}
    then: allow
"""


def spki_hash(a):
    """What Chromium knows the appliance's key by, from a connection that was verified against the appliance's CA."""
    pem = ssl.get_server_certificate(("127.0.0.1", a.port), ca_certs=f"{a.dir}/data/ca.pem")
    key = run("openssl", "x509", "-noout", "-pubkey", input=pem).stdout
    der = base64.b64decode("".join(key.splitlines()[1:-1]))
    return base64.b64encode(digest_of(der)).decode()


class Console(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("console")
        cls.addClassCleanup(cls.a.clean)
        signing.write_policy(cls.a, RULES)
        cls.a.start()
        cls.key_id = make_key(cls.a)
        cls.builder = cls.make_token("builder", "operator")
        session = cls.a.session(cls.builder)
        digest = digest_of(b"shipped")
        done = signing.sign(session, "key", signing.key_body(cls.key_id, digest))
        assert done.status == 200, done
        cls.refused(session, "forbidden", b"no")
        asked = [cls.refused(session, "release", secrets.token_bytes(8)) for _ in range(2)]
        for n in range(20):  # more than a page of records
            signing.sign(session, "key", signing.key_body(cls.key_id, digest_of(b"%d" % n)))
        session.close()
        denied = cls.a.api("GET", "/api/v1/code-signing/operations?state=refused&limit=10").json["items"]
        revoked = cls.a.api("POST", "/api/v1/tokens", {"subject": "gone", "roles": ["auditor"]}, token="ADMIN", key=True).json
        cls.a.api("POST", f"/api/v1/tokens/{revoked['token_id']}/revocations", {"reason": "test"}, token="ADMIN", key=True)
        routes = cls.a.api("GET", "/api/v1/openapi.json", token=None).json["paths"]
        cls.has = staticmethod(lambda path: path in routes)
        cls.setup = {
            "base": f"https://127.0.0.1:{cls.a.port}", "spki": spki_hash(cls.a),
            "operator": cls.a.token("OPERATOR"), "auditor": cls.a.token("AUDITOR"), "revoked": revoked["token"],
            "approver": cls.make_token("anna", "approver"), "everything": cls.make_token("eve", "operator", "approver"),
            "completed": done.json["operation_id"], "digest": digest.hex(),
            "denied": next(o["operation_id"] for o in denied if o["failure_code"] == "policy_denied"),
            "approve": asked[0], "deny": asked[1], "editions": cls.has("/api/v1/editions"),
            "shots": os.environ.get("SVC_CONSOLE_SHOTS"),
        }
        cls.browser = subprocess.Popen(["node", f"{SRC}/tests/browser/console.mjs"], text=True, stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE,
                                       env={**os.environ, "NODE_EXTRA_CA_CERTS": f"{cls.a.dir}/data/ca.pem"})
        cls.addClassCleanup(cls.end_browser)
        cls.ask(json.dumps(cls.setup))

    @classmethod
    def end_browser(cls):
        cls.browser.communicate(timeout=30)

    @classmethod
    def make_token(cls, subject, *roles):
        made = cls.a.api("POST", "/api/v1/tokens", {"subject": subject, "roles": list(roles), "ttl_seconds": 3600},
                         token="ADMIN", key=True)
        assert made.status == 201, made
        return made.json["token"]

    @classmethod
    def refused(cls, session, artifact, data):
        answer = signing.sign(session, "key", signing.key_body(cls.key_id, digest_of(data), artifact_type=artifact))
        assert answer.status == 403, answer
        return {"digest": digest_of(data).hex(), "key_id": cls.key_id, "resource": answer.json.get("resource")}

    @classmethod
    def ask(cls, line):
        cls.browser.stdin.write(line + "\n")
        cls.browser.stdin.flush()

    def browse(self, scenario):
        self.ask(scenario)
        answer = json.loads(self.browser.stdout.readline() or '{"error": "the browser has ended"}')
        self.assertNotIn("error", answer, answer.get("error"))
        return answer["result"]

    def keep(self, name, text):
        path = f"{self.a.dir}/{name}"
        with open(path, "w") as f:
            f.write(text)
        return path

    # ---- without a browser ----

    def fetch(self, path, **headers):
        connection = http.client.HTTPSConnection("127.0.0.1", self.a.port, timeout=20, context=self.a.tls())
        connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        reply = connection.getresponse()
        reply.body = reply.read()
        connection.close()
        return reply

    def test_over_the_wire(self):
        plain, packed = self.fetch("/console/app.js"), self.fetch("/console/app.js", Accept_Encoding="gzip")
        self.assertEqual((plain.status, packed.status), (200, 200))
        self.assertEqual(gzip.decompress(packed.body), plain.body)
        with open(f"{SRC}/api/console/assets/app.js", "rb") as f:
            self.assertEqual(plain.body, f.read())
        again = self.fetch("/console/app.js", If_None_Match=plain.headers["ETag"])
        self.assertEqual((again.status, again.body, again.headers["Content-Length"]), (304, b"", None))
        self.assertEqual(plain.headers.get_all("X-Content-Type-Options"), ["nosniff"])
        self.assertEqual(plain.headers.get_all("Cache-Control"), ["no-cache"])
        self.assertEqual(self.fetch("/console/../api/v1/keys").status, 400)
        elsewhere = http.client.HTTPConnection("127.0.0.1", self.a.plain, timeout=20)
        elsewhere.request("GET", "/console/")
        self.assertEqual(elsewhere.getresponse().status, 404)
        elsewhere.close()

    # ---- with one ----

    def test_a_first_visit_is_small(self):
        self.browse("first")

    def test_signing_in_and_out(self):
        self.browse("signin")

    def test_overview(self):
        self.browse("overview")

    def test_records(self):
        self.browse("records")

    def test_an_export_that_the_browser_saved_verifies(self):
        files = self.browse("export")
        jws, jwks, csv = self.keep("x.jws", files["jws"]), self.keep("x.jwks", files["jwks"]), self.keep("x.csv", files["csv"])
        root = self.keep("x.pem", files["chain"][files["chain"].rindex("-----BEGIN"):])
        for artifact in (jws, csv):
            self.a.cli("audit", "verify", "--artifact", artifact, "--audit-jwks", jwks, "--tsa-root", root)

    def test_code_signing(self):
        self.browse("signing")

    def test_time_stamps(self):
        self.browse("tsa")

    def test_an_auditor_sees_what_it_may_and_is_told_of_the_rest(self):
        self.browse("auditor")

    def test_keyboard_alone(self):
        self.browse("keyboard")

    def test_looks(self):
        self.browse("looks")

    def test_pack(self):
        if not self.has("/api/v1/compliance/evidence-packs/{framework}"):
            self.skipTest("no packs here")
        seen = self.browse("packs")
        pack = self.keep("pack.json", seen["pack"])
        keys = f"{self.a.dir}/evidence.jwks"
        self.a.cli("compliance", "verification-keys", "-o", keys, token="AUDITOR")
        self.a.cli("compliance", "verify", pack, "--jwks", keys)

    def test_schedules(self):
        if not self.has("/api/v1/compliance/report-schedules"):
            self.skipTest("no schedules here")
        self.browse("schedules")

    def test_z_approvals(self):
        """Last: it decides what the other pages show."""
        self.browse("approvals")
        session = self.a.session(self.builder)
        requests = session.api("GET", "/api/v1/approval-requests?limit=10").json["items"]
        session.close()
        states = {r["resource"]: (r["state"], r["approvals"]) for r in requests}
        self.assertEqual(states[self.setup["approve"]["resource"]], ("approved", 1))
        self.assertEqual(states[self.setup["deny"]["resource"]][0], "denied")


if __name__ == "__main__":
    unittest.main()
