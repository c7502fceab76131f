"""The time-stamping authority over HTTP, judged by `openssl ts`: tokens, refusals, serials, records."""
import concurrent.futures
import http.client
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from appliance import Appliance, all_records, until

SHA1_QUERY = bytes.fromhex("3029020101302130090605" "2b0e03021a05000414") + b"x" * 20 + b"\x01\x01\xff"


def query(data, *options):
    return subprocess.run(["openssl", "ts", "-query", "-data", "/dev/stdin", *options], input=data, capture_output=True,
                          check=True).stdout


def text_of(reply):
    return subprocess.run(["openssl", "ts", "-reply", "-in", "/dev/stdin", "-text"], input=reply.body,
                          capture_output=True).stdout.decode()


class TimeStamps(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("tsa", protocols__tsa__policies=["1.2.3.99.6"]).start()
        cls.folder = tempfile.mkdtemp(prefix="svc-tsa-", dir="/tmp")
        cls.chain = cls.get("/tsa/chain.pem").body
        with open(f"{cls.folder}/root.pem", "wb") as f:
            f.write(b"-----BEGIN" + cls.chain.split(b"-----BEGIN")[-1])

    @classmethod
    def tearDownClass(cls):
        cls.a.clean()
        shutil.rmtree(cls.folder, ignore_errors=True)

    @classmethod
    def get(cls, path):
        connection = http.client.HTTPConnection("127.0.0.1", cls.a.plain, timeout=20)
        connection.request("GET", path)
        reply = connection.getresponse()
        reply.body = reply.read()
        connection.close()
        return reply

    def verify(self, data, reply):
        with open(f"{self.folder}/artifact", "wb") as f:
            f.write(data)
        with open(f"{self.folder}/reply.tsr", "wb") as f:
            f.write(reply.body)
        done = subprocess.run(["openssl", "ts", "-verify", "-data", f"{self.folder}/artifact", "-in",
                               f"{self.folder}/reply.tsr", "-CAfile", f"{self.folder}/root.pem"], capture_output=True)
        return done.stdout + done.stderr

    def serial(self, reply):
        return int(re.search(r"Serial number: (0x[0-9A-F]+)", text_of(reply)).group(1), 16)

    def refused(self, der, failure, word):
        before = self.issued()
        reply = self.a.tsa(der)
        self.assertEqual((reply.status, reply.headers["Content-Type"]), (200, "application/timestamp-reply"), reply)
        text = text_of(reply)
        self.assertIn("Status: Rejected.", text)
        self.assertIn(failure, text)
        self.assertIn(word, text)
        self.assertEqual(self.issued(), before)

    def issued(self):
        return len([r for r in all_records(self.a) if r["type"] == "tsa.timestamp.issued"])

    def test_refusals_are_answers_of_rfc_3161_and_record_nothing(self):
        good = query(b"data", "-sha256", "-cert")
        self.refused(b"", "data submitted has the wrong format", "empty")
        self.refused(b"rubbish", "data submitted has the wrong format", "TimeStampReq")
        self.refused(good + b"\0", "data submitted has the wrong format", "follow")
        self.refused(good.replace(b"\x02\x01\x01\x30", b"\x02\x01\x00\x30", 1), "transaction not permitted", "version")
        self.refused(SHA1_QUERY, "unrecognized or unsupported algorithm", "1.3.14.3.2.26")
        self.refused(query(b"data", "-sha256", "-tspolicy", "1.2.3.4.1"), "policy", "1.2.3.4.1")

    def test_wrong_content_type_and_size_are_http_problems(self):
        for body, headers, status in ((b"x", {"Content-Type": "application/json"}, 415),
                                      (b"x" * 65537, {"Content-Type": "application/timestamp-query"}, 413)):
            connection = http.client.HTTPConnection("127.0.0.1", self.a.plain, timeout=20)
            connection.request("POST", "/tsa", body, headers)
            reply = connection.getresponse()
            reply.read()
            connection.close()
            self.assertEqual(reply.status, status)
            self.assertEqual(reply.headers["Content-Type"], "application/problem+json")

    def test_openssl_verifies_and_the_record_says_the_same(self):
        data = os.urandom(100)
        reply = self.a.tsa(query(data, "-sha512", "-cert", "-tspolicy", "1.2.3.99.6"))
        self.assertIn(b"Verification: OK", self.verify(data, reply))
        self.assertNotIn(b"Verification: OK", self.verify(data + b"x", reply))
        text = text_of(reply)
        self.assertIn("Policy OID: 1.2.3.99.6", text)
        self.assertIn("Accuracy: 0x01 seconds", text)
        record = [r for r in all_records(self.a) if r["type"] == "tsa.timestamp.issued"
                  and r["data"]["serial"] == str(self.serial(reply))]
        self.assertEqual(len(record), 1)
        self.assertEqual(record[0]["data"]["hash_algorithm"], "sha512")
        self.assertEqual(record[0]["actor"]["subject"], "tsa:anonymous")

    def test_tls_listener_serves_it_too(self):
        reply = self.tls_post(query(b"tls", "-sha256", "-cert"))
        self.assertIn(b"Verification: OK", self.verify(b"tls", reply))

    def tls_post(self, der):
        connection = http.client.HTTPSConnection("127.0.0.1", self.a.port, context=self.a.tls(), timeout=20)
        connection.request("POST", "/tsa", der, {"Content-Type": "application/timestamp-query"})
        reply = connection.getresponse()
        reply.body = reply.read()
        connection.close()
        return reply

    def test_many_at_once_are_all_recorded_with_serials_of_their_own(self):
        before = self.issued()
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            replies = list(pool.map(lambda i: self.a.tsa(query(b"n%d" % i, "-sha256")), range(200)))
        serials = [self.serial(r) for r in replies]
        self.assertEqual(len(set(serials)), 200)
        until("all are recorded", lambda: self.issued() == before + 200)
        recorded = {r["data"]["serial"] for r in all_records(self.a) if r["type"] == "tsa.timestamp.issued"}
        self.assertTrue({str(s) for s in serials} <= recorded)

    def test_serials_rise_and_the_chain_stays_over_a_restart(self):
        before = self.serial(self.a.tsa(query(b"before", "-sha256")))
        self.assertEqual(self.a.stop(), 0)
        self.a.start()
        self.assertEqual(self.get("/tsa/chain.pem").body, self.chain)
        reply = self.a.tsa(query(b"after", "-sha256", "-cert"))
        self.assertGreater(self.serial(reply), before)
        self.assertIn(b"Verification: OK", self.verify(b"after", reply))


if __name__ == "__main__":
    unittest.main()
