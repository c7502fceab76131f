"""The time-stamping authority in other people's hands: openssl, curl, osslsigncode, jarsigner, cosign. And thousands of
queries, each legal in another way; and those that are not."""
import glob
import http.client
import itertools
import os
import random
import secrets
import subprocess
import unittest
import zipfile

import tsa_der as der
from appliance import SRC, Appliance, run
from test_pkcs11_module import minimal_pe

POLICY, OTHER = "1.3.6.1.4.1.57264.2.1.1", "1.2.3.99.6"
BAD_ALG, BAD_REQUEST, BAD_FORMAT, POLICY_FAILURE, EXTENSION = 0, 2, 5, 15, 16
VARIATIONS = int(os.environ.get("SVC_TEST_TSA_VARIATIONS", "2500"))


class Interop(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("tsa-interop", protocols__tsa__policies=[OTHER]).start()
        cls.addClassCleanup(cls.a.clean)
        cls.dir = f"{cls.a.dir}/work"
        os.mkdir(cls.dir)
        cls.url = f"http://127.0.0.1:{cls.a.plain}/tsa"
        cls.root = f"{cls.a.dir}/data/tsa-root.pem"
        cls.put("chain.pem", run("curl", "-sS", "--fail", f"{cls.url}/chain.pem").stdout.encode())
        cls.put("data", secrets.token_bytes(1000))

    @classmethod
    def at(cls, name):
        return f"{cls.dir}/{name}"

    @classmethod
    def put(cls, name, content):
        with open(cls.at(name), "wb") as f:
            f.write(content)
        return cls.at(name)

    def run_here(self, *args, check=True, **more):
        env = {"PATH": os.environ["PATH"], "HOME": self.dir, **more}
        return run(*args, check=check, cwd=self.dir, env=env)

    def curl(self, url=None):
        self.run_here("curl", "-sS", "--fail", "-H", "Content-Type: application/timestamp-query", "--data-binary",
                      "@query.tsq", "-o", "reply.tsr", *(url or [self.url]))

    # ---- openssl ts, by curl ----

    def test_openssl_takes_every_kind_of_query(self):
        for hash_name, certificate, nonce, policy in itertools.product(
                ("sha256", "sha384", "sha512"), (True, False), (True, False), (None, OTHER)):
            words = ([f"-{hash_name}"] + (["-cert"] if certificate else []) + ([] if nonce else ["-no_nonce"]) +
                     (["-tspolicy", policy] if policy else []))
            with self.subTest(words=words):
                self.run_here("openssl", "ts", "-query", "-data", "data", "-out", "query.tsq", *words)
                self.curl()
                untrusted = [] if certificate else ["-untrusted", "chain.pem"]
                for source in (("-queryfile", "query.tsq"), ("-data", "data")):
                    done = self.run_here("openssl", "ts", "-verify", *source, "-in", "reply.tsr", "-CAfile", self.root,
                                         *untrusted)
                    self.assertIn("Verification: OK", done.stdout + done.stderr)
                text = self.run_here("openssl", "ts", "-reply", "-in", "reply.tsr", "-text").stdout
                self.assertIn(f"Policy OID: {policy or POLICY}", text)
                self.assertEqual("Nonce: unspecified" in text, not nonce)

    def test_openssl_refuses_an_answer_to_another_query(self):
        self.run_here("openssl", "ts", "-query", "-data", "data", "-sha256", "-cert", "-out", "query.tsq")
        self.curl()
        self.run_here("openssl", "ts", "-query", "-data", "data", "-sha256", "-cert", "-out", "again.tsq")
        done = self.run_here("openssl", "ts", "-verify", "-queryfile", "again.tsq", "-in", "reply.tsr", "-CAfile",
                             self.root, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("nonce mismatch", done.stdout + done.stderr)

    def test_curl_by_https(self):
        self.run_here("openssl", "ts", "-query", "-data", "data", "-sha256", "-cert", "-out", "query.tsq")
        for words in ([], ["--http1.0"], ["-H", "Expect: 100-continue"]):
            with self.subTest(words=words):
                self.curl(["--cacert", f"{self.a.dir}/data/ca.pem", *words, f"https://127.0.0.1:{self.a.port}/tsa"])
                done = self.run_here("openssl", "ts", "-verify", "-data", "data", "-in", "reply.tsr", "-CAfile", self.root)
                self.assertIn("Verification: OK", done.stdout + done.stderr)

    # ---- those who sign code ----

    def key(self, name, *usage):
        self.run_here("openssl", "req", "-x509", "-newkey", "rsa:3072", "-nodes", "-subj", f"/CN={name}", "-keyout",
                      f"{name}.key", "-out", f"{name}.pem", "-addext", "keyUsage=critical,digitalSignature", "-addext",
                      "extendedKeyUsage=codeSigning", *usage)

    def test_osslsigncode_stamps_a_program(self):
        self.key("program")
        self.put("unsigned.exe", minimal_pe())
        for hash_name in ("sha256", "sha384", "sha512"):
            with self.subTest(hash=hash_name):
                signed = f"signed-{hash_name}.exe"
                self.run_here("osslsigncode", "sign", "-certs", "program.pem", "-key", "program.key", "-h", hash_name,
                              "-ts", self.url, "-in", "unsigned.exe", "-out", signed)
                judged = self.run_here("osslsigncode", "verify", "-CAfile", "program.pem", "-TSA-CAfile", self.root, "-in",
                                       signed)
                self.assertIn("Timestamp Server Signature verification: ok", judged.stdout)

    def test_jarsigner_stamps_a_jar(self):
        with zipfile.ZipFile(self.at("plain.jar"), "w") as z:
            z.writestr("Hello.txt", "hello")
        self.run_here("keytool", "-genkeypair", "-alias", "me", "-keyalg", "RSA", "-keysize", "3072", "-dname", "CN=jar",
                      "-ext", "ku=digitalSignature", "-ext", "eku=codeSigning", "-keystore", "keys.p12", "-storepass",
                      "changeit")
        self.run_here("keytool", "-importcert", "-noprompt", "-alias", "tsa", "-file", self.root, "-keystore", "keys.p12",
                      "-storepass", "changeit")
        for hash_name in ("SHA-256", "SHA-384", "SHA-512"):
            with self.subTest(hash=hash_name):
                self.run_here("jarsigner", "-keystore", "keys.p12", "-storepass", "changeit", "-tsa", self.url,
                              "-tsadigestalg", hash_name, "-signedjar", "signed.jar", "plain.jar", "me")
                judged = self.run_here("jarsigner", "-verify", "-verbose", "-certs", "-keystore", "keys.p12", "-storepass",
                                       "changeit", "signed.jar")
                self.assertIn("jar verified.", judged.stdout)
                self.assertIn("Timestamped by \"CN=", judged.stdout)
                self.assertNotIn("TSA certificate chain is invalid", judged.stdout)
        policy = self.run_here("jarsigner", "-keystore", "keys.p12", "-storepass", "changeit", "-tsa", self.url,
                               "-tsapolicyid", OTHER, "-signedjar", "signed.jar", "plain.jar", "me")
        self.assertEqual(policy.returncode, 0)

    def cosign(self, *args, check=True):
        return self.run_here("unshare", "-n", "cosign", *args, check=check) if args[0].startswith("verify") else \
            self.run_here("cosign", *args, check=check, COSIGN_PASSWORD="")

    def test_cosign_stamps_blobs_and_attestations(self):
        self.cosign("generate-key-pair")
        # its default is a digest of SHA-256 and a nonce of some 160 bits
        self.cosign("sign-blob", "--yes", "--key", "cosign.key", "--tlog-upload=false", "--timestamp-server-url", self.url,
                    "--rfc3161-timestamp", "blob.ts", "--output-signature", "blob.sig", "data")
        verify = ("verify-blob", "--key", "cosign.pub", "--insecure-ignore-tlog", "--signature", "blob.sig",
                  "--rfc3161-timestamp", "blob.ts", "--timestamp-certificate-chain")
        self.cosign(*verify, "chain.pem", "data")
        self.key("foreign")
        self.assertNotEqual(self.cosign(*verify, "foreign.pem", "data", check=False).returncode, 0)
        self.put("predicate.json", b'{"made": "here"}')
        self.cosign("attest-blob", "--yes", "--key", "cosign.key", "--tlog-upload=false", "--timestamp-server-url",
                    self.url, "--rfc3161-timestamp-bundle", "att.ts", "--predicate", "predicate.json", "--type", "custom",
                    "--output-signature", "att.sig", "data")
        self.cosign("verify-blob-attestation", "--key", "cosign.pub", "--insecure-ignore-tlog", "--signature", "att.sig",
                    "--type", "custom", "--rfc3161-timestamp", "att.ts", "--timestamp-certificate-chain", "chain.pem",
                    "data")

    # ---- queries by the thousand ----

    def connection(self):
        return http.client.HTTPConnection("127.0.0.1", self.a.plain, timeout=20)

    def ask(self, connection, body):
        connection.request("POST", "/tsa", body, {"Content-Type": "application/timestamp-query"})
        reply = connection.getresponse()
        data = reply.read()
        self.assertEqual((reply.status, reply.headers["Content-Type"]), (200, "application/timestamp-reply"))
        return data

    def legal(self, chance):
        """One query of the millions that RFC 3161 allows here, and what its answer must repeat."""
        hash_name = chance.choice(list(der.HASHES))
        imprint = der.imprint(hash_name, chance.randbytes(der.HASHES[hash_name][1]), chance.choice((der.NULL, b"")))
        policy = chance.choice((b"", der.oid(POLICY), der.oid(OTHER)))
        size = chance.choice((0, 0, 1, 8, 20, 63, 64))
        number = int.from_bytes(chance.randbytes(size), "big")
        nonce = der.integer(chance.choice((number, number, -(number >> 1)))) if size else chance.choice(
            (b"", b"\x02\x01\x00"))
        wanted = chance.choice((b"\x01\x01\xff", b"\x01\x01\x00", b""))
        return der.request(imprint, policy, nonce, wanted), imprint, policy or der.oid(POLICY), nonce, wanted

    def test_thousands_of_legal_queries_are_granted_as_asked(self):
        seed = int(os.environ.get("SVC_TEST_SEED", secrets.randbelow(1 << 32)))
        chance, connection, serials, times, judged = random.Random(seed), self.connection(), set(), [], 0
        for i in range(VARIATIONS):
            body, imprint, policy, nonce, wanted = self.legal(chance)
            data = self.ask(connection, body)
            reply = der.Reply(data)
            where = f"seed {seed}, query {i}: {body.hex()}"
            self.assertEqual((reply.status, reply.imprint, reply.policy, reply.nonce or b""), (0, imprint, policy, nonce),
                             where)
            self.assertEqual(len(reply.certificates) > 0, wanted == b"\x01\x01\xff", where)
            self.assertEqual(reply.rest, [], where)
            serials.add(reply.serial)
            times.append(reply.time)
            if i % 50 == 0 and not nonce.startswith(b"\x02\x01\x00"):
                judged += 1
                self.put("query.tsq", body)
                self.put("reply.tsr", data)
                done = self.run_here("openssl", "ts", "-verify", "-queryfile", "query.tsq", "-in", "reply.tsr", "-CAfile",
                                     self.root, "-untrusted", "chain.pem", check=False)
                self.assertIn("Verification: OK", done.stdout + done.stderr, where)
        connection.close()
        self.assertEqual(len(serials), VARIATIONS)
        self.assertGreater(judged, VARIATIONS // 100)

    def test_malformed_queries_are_refused_with_the_right_failure(self):
        """tests/fuzz/corpus/tsa_answer: the failure's number is the name's first part; g = granted."""
        connection, files = self.connection(), sorted(glob.glob(f"{SRC}/tests/fuzz/corpus/tsa_answer/*"))
        self.assertGreater(len(files), 60)
        for path in files:
            name = os.path.basename(path)
            with self.subTest(name), open(path, "rb") as f:
                reply = der.Reply(self.ask(connection, f.read()))
                if name.startswith("g-"):
                    self.assertEqual((reply.status, reply.failure), (0, None))
                else:
                    self.assertEqual((reply.status, reply.failure, reply.token), (2, int(name.split("-")[0]), None))
                    self.assertTrue(reply.text)
        connection.close()

    def test_every_cut_and_every_changed_byte_is_answered_as_one_query_or_refused(self):
        connection = self.connection()
        good = der.request(der.imprint("sha256", bytes(32)), der.oid(OTHER), der.integer(1 << 70), b"\x01\x01\xff")
        for cut in range(len(good)):
            self.assertEqual(der.Reply(self.ask(connection, good[:cut])).failure, BAD_FORMAT, cut)
        chance = random.Random(3161)
        for at in range(len(good)):
            changed = bytearray(good)
            changed[at] ^= 1 << chance.randrange(8)
            reply = der.Reply(self.ask(connection, bytes(changed)))
            if reply.token:  # then it says exactly what the changed bytes ask
                self.assertIn(reply.imprint, bytes(changed))
                self.assertIn(reply.nonce or b"", bytes(changed))
            else:
                self.assertIn(reply.failure, (BAD_ALG, BAD_REQUEST, BAD_FORMAT, POLICY_FAILURE, EXTENSION), at)
        connection.close()


if __name__ == "__main__":
    unittest.main()
