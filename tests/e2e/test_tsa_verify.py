"""Time stamps judged: svc-cli offline, POST /api/v1/protocols/tsa/verify, and openssl's word on the token's profile."""
import http.client
import json
import os
import re
import subprocess
import unittest

from appliance import Appliance, b64, digest_of, run, until
from test_tsa import query, text_of

PATH = "/api/v1/protocols/tsa/verify"
DATA = b"what is stamped\n"


class Judged(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("tsa-verify", protocols__tsa__time_digits=6, protocols__tsa__state_name=True,
                          protocols__tsa__verify_every=1, protocols__tsa__policies=["1.2.3.99.6"]).start()
        cls.addClassCleanup(cls.a.clean)
        cls.dir = f"{cls.a.dir}/work"
        os.mkdir(cls.dir)
        cls.root = f"{cls.a.dir}/data/tsa-root.pem"
        cls.put("data", DATA)
        cls.put("other", DATA + b"x")
        cls.put("query.tsq", query(DATA, "-sha384", "-cert"))
        cls.reply = cls.a.tsa(cls.read("query.tsq"))
        cls.put("reply.tsr", cls.reply.body)
        cls.openssl("ts", "-reply", "-in", cls.at("reply.tsr"), "-token_out", "-out", cls.at("token.der"))
        cls.put("bare.tsr", cls.a.tsa(query(DATA, "-sha256")).body)
        cls.put("refused.tsr", cls.a.tsa(query(DATA, "-sha256", "-tspolicy", "1.2.3.4.1")).body)

    @classmethod
    def at(cls, name):
        return f"{cls.dir}/{name}"

    @classmethod
    def put(cls, name, content):
        with open(cls.at(name), "wb") as f:
            f.write(content)
        return cls.at(name)

    @classmethod
    def read(cls, name):
        with open(cls.at(name), "rb") as f:
            return f.read()

    @classmethod
    def openssl(cls, *args):
        return run("openssl", *args)

    def offline(self, *args):
        """No network, no environment: nothing but files."""
        return run("unshare", "--net", f"{self.a.bin}/svc-cli", *args, check=False, env={"PATH": os.environ["PATH"]})

    # ---- svc-cli ----

    def test_what_does_not_hold_ends_with_2(self):
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                     "/CN=SVC Time Stamping Root", "-keyout", self.at("k"), "-out", self.at("foreign.pem"))
        wrong = "sha384:" + "00" * 48
        for words, says in (
                ((self.at("other"), "--token", self.at("reply.tsr"), "--root", self.root), "not what was stamped"),
                ((self.at("data"), "--token", self.at("reply.tsr"), "--root", self.at("foreign.pem")), "pinned root"),
                ((self.at("data"), "--token", self.at("refused.tsr"), "--root", self.root), "refused"),
                ((self.at("data"), "--token", self.at("bare.tsr"), "--root", self.root), "neither in it nor among"),
                ((self.at("data"), "--token", self.at("data"), "--root", self.root), "not an RFC 3161"),
                (("--digest", wrong, "--token", self.at("reply.tsr"), "--root", self.root), "another sha384 digest"),
                (("--digest", "sha1:00", "--token", self.at("reply.tsr"), "--root", self.root), "--digest"),
                (("--token", self.at("reply.tsr"), "--root", self.root), "FILE or --digest"),
                ((self.at("data"), "--token", self.at("reply.tsr")), "no root"),
                ((self.at("data"), "--token", self.at("reply.tsr"), "--root", self.root, "--at",
                  "2060-01-01T00:00:00Z"), "given time"),
                ((self.at("data"), "--token", self.at("reply.tsr"), "--root", self.root, "--at", "soon"), "--at"),
                ((self.at("data"), "--token", self.at("reply.tsr"), "--root", self.root, "--query",
                  self.put("q2", query(DATA, "-sha384", "-cert"))), "nonce")):
            with self.subTest(words=words):
                done = self.offline("tsa", "verify", *words)
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertIn(says, done.stderr)
                self.assertNotIn("good time stamp", done.stdout)

    def test_a_good_stamp_ends_with_0_by_file_digest_and_query(self):
        digest = run("openssl", "dgst", "-sha384", "-r", self.at("data")).stdout.split()[0]
        for words in ((self.at("data"),), ("--digest", f"sha384:{digest}"),
                      (self.at("data"), "--query", self.at("query.tsq")), (self.at("data"), "--at", self.stated())):
            for token in ("reply.tsr", "token.der"):
                with self.subTest(words=words, token=token):
                    done = self.offline("tsa", "verify", *words, "--token", self.at(token), "--root", self.root)
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                    self.assertIn("good time stamp", done.stdout)
        self.put("chain.pem", self.chain())
        done = self.offline("tsa", "verify", self.at("data"), "--token", self.at("bare.tsr"), "--root", self.root,
                            "--certificates", self.at("chain.pem"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def chain(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.a.plain, timeout=20)
        connection.request("GET", "/tsa/chain.pem")
        body = connection.getresponse().read()
        connection.close()
        return body

    def stated(self):
        return json.loads(self.offline("--json", "tsa", "inspect", self.at("reply.tsr")).stdout)["time"]

    def test_inspect_tells_of_query_reply_refusal_and_token(self):
        asked = json.loads(self.offline("--json", "tsa", "inspect", self.at("query.tsq")).stdout)
        self.assertEqual((asked["kind"], asked["hash_algorithm"], asked["certificate_wanted"]), ("query", "sha384", True))
        told = [json.loads(self.offline("--json", "tsa", "inspect", self.at(n)).stdout) for n in ("reply.tsr", "token.der")]
        self.assertEqual(told[0], told[1])
        self.assertEqual((told[0]["imprint_hex"], told[0]["verified"]), (asked["imprint_hex"], False))
        refusal = self.offline("--json", "tsa", "inspect", self.at("refused.tsr"))
        self.assertEqual(refusal.returncode, 2)
        self.assertEqual(json.loads(refusal.stdout)["failure"], "unacceptedPolicy")
        for name, word in (("query.tsq", "wanted"), ("reply.tsr", "sha384"), ("refused.tsr", "unacceptedPolicy")):
            self.assertIn(word, self.offline("tsa", "inspect", self.at(name)).stdout)
        self.assertEqual(self.offline("tsa", "inspect", self.at("data")).returncode, 2)

    def test_stamp_is_verified_before_it_is_written(self):
        out = self.at("stamped.tsr")
        for url in (f"http://127.0.0.1:{self.a.plain}/tsa", f"https://127.0.0.1:{self.a.port}/tsa"):
            self.a.cli("tsa", "stamp", self.at("data"), "-o", out, "--url", url, "--root", self.root)
            done = self.offline("tsa", "verify", self.at("data"), "--token", out, "--root", self.root)
            self.assertEqual(done.returncode, 0, done.stderr)
            os.unlink(out)
        done = self.a.cli("tsa", "stamp", self.at("data"), "-o", out, "--url", url, "--root", self.at("chain-none"),
                          check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertFalse(os.path.exists(out))

    # ---- over HTTP ----

    def judge(self, token, data=DATA, hash_algorithm="sha384", role="OPERATOR", **more):
        digest = subprocess.run(["openssl", "dgst", f"-{hash_algorithm}", "-binary"], input=data, capture_output=True,
                                check=True).stdout
        return self.a.api("POST", PATH, {"token": b64(token), "hash_algorithm": hash_algorithm, "digest": b64(digest),
                                         **more}, token=role)

    def test_the_api_judges_by_closed_reasons(self):
        reply = self.read("reply.tsr")
        foreign = self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                               "/CN=x", "-keyout", self.at("k2")).stdout
        damaged = reply[:-3] + bytes([reply[-3] ^ 1]) + reply[-2:]
        for answer, reason in ((self.judge(b"rubbish"), "malformed"),
                               (self.judge(self.read("refused.tsr"), hash_algorithm="sha256"), "not_granted"),
                               (self.judge(damaged), "signature"),
                               (self.judge(reply, roots_pem=foreign), "certificate"),
                               (self.judge(reply, roots_pem="nothing"), "no_root"),
                               (self.judge(reply, at="2060-01-01T00:00:00Z"), "certificate"),
                               (self.judge(reply, DATA + b"x"), "digest"),
                               (self.judge(reply, nonce="01"), "nonce")):
            with self.subTest(reason=reason):
                self.assertEqual(answer.status, 200, answer)
                self.assertEqual((answer.json["verified"], answer.json["reasons"]), (False, [reason]))
                self.assertTrue(answer.json["detail"])
                self.assertIsNone(answer.json["time"])

    def test_the_api_verifies_with_own_and_with_given_roots(self):
        with open(self.root) as f:
            pem = f.read()
        for more, roots in (({}, "authority"), ({"roots_pem": pem}, "given")):
            answer = self.judge(self.read("reply.tsr"), **more)
            self.assertEqual((answer.status, answer.json["verified"], answer.json["reasons"]), (200, True, []), answer)
            self.assertEqual((answer.json["roots"], answer.json["time"]), (roots, self.stated()))
        bare = self.judge(self.read("bare.tsr"), hash_algorithm="sha256")  # without its certificates: ours are known
        self.assertTrue(bare.json["verified"], bare)

    def test_the_api_asks_for_a_permission_and_sound_members(self):
        self.assertEqual(self.a.api("POST", PATH, {}, token=None).status, 401)
        self.assertEqual(self.judge(b"x", hash_algorithm="sha1").status, 400)
        self.assertEqual(self.a.api("POST", PATH, {"token": b64(b"x")}).status, 400)
        self.assertEqual(self.a.api("GET", PATH).status, 405)

    # ---- the token's profile, as configured ----

    def test_profile_has_digits_name_and_no_ordering(self):
        fractions = []
        for i in range(12):
            text = text_of(self.a.tsa(query(b"%d" % i, "-sha256", "-cert")))
            self.assertIn("TSA: DirName:", text)
            self.assertIn("Ordering: no", text)
            self.assertIn("Accuracy: 0x01 seconds", text)
            fractions += re.findall(r"Time stamp: .*:\d\d(?:\.(\d+))? ", text)
        self.assertEqual(len(fractions), 12)
        self.assertTrue(all(not f.endswith("0") and len(f) <= 6 for f in fractions), fractions)
        self.assertTrue(any(len(f) > 3 for f in fractions), fractions)

    def test_every_token_was_checked_and_none_failed(self):
        self.a.tsa(query(b"checked", "-sha256"))
        text = until("metrics tell of checks", lambda: (lambda t: t if "svc_tsa_token_checks_total" in t else None)(
            self.a.probe_get("/metrics").body.decode() or self.a.api("GET", "/metrics").body.decode()))
        counts = dict(re.findall(r'svc_tsa_token_checks_total\{result="(\w+)"\} (\d+)', text))
        granted = re.search(r'svc_tsa_timestamps_total\{result="granted"\} (\d+)', text).group(1)
        self.assertEqual(counts.get("failed", "0"), "0")
        self.assertEqual(counts["passed"], granted)

    def test_http_answers_for_the_transport(self):
        for method, body, headers, status in (("PUT", b"x", {"Content-Type": "application/timestamp-query"}, 405),
                                              ("DELETE", None, {}, 405),
                                              ("POST", b"x", {"Content-Type": "application/octet-stream"}, 415),
                                              ("POST", b"x", {}, 415),
                                              ("POST", b"x" * 65537, {"Content-Type": "application/timestamp-query"}, 413),
                                              ("POST", b"x" * 65536, {"Content-Type": "application/timestamp-query"}, 200)):
            connection = http.client.HTTPConnection("127.0.0.1", self.a.plain, timeout=20)
            connection.request(method, "/tsa", body, headers)
            reply = connection.getresponse()
            reply.read()
            connection.close()
            self.assertEqual(reply.status, status, (method, headers))
            if status == 405:
                self.assertIn("POST", reply.headers["Allow"])


if __name__ == "__main__":
    unittest.main()
