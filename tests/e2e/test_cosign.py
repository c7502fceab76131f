"""Bundles of svc-cli in other people's hands: cosign verifies them without a network, and so does svc-cli."""
import base64
import json
import os
import secrets
import unittest

import signing
from appliance import Appliance, digest_of, make_key, run
from oidc import Issuer
from peers import Rekor


class Bundles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rekor = Rekor().start()
        cls.addClassCleanup(cls.rekor.stop)
        cls.issuer = Issuer().start()
        cls.addClassCleanup(cls.issuer.stop)
        cls.a = Appliance("cosign")
        cls.addClassCleanup(cls.a.clean)
        signing.write_logs(cls.a, cls.rekor)
        signing.write_attestors(cls.a, cls.issuer.attestor())
        cls.a.start()
        cls.dir = f"{cls.a.dir}/work"
        os.mkdir(cls.dir)
        # cosign takes an index of 0 for a missing one: none of ours is the first entry of its log.
        session = cls.a.session("OPERATOR")
        first = signing.sign(session, "keyless", signing.keyless_body(cls.issuer.token(), digest_of(b"first")))
        assert first.status == 200, first
        session.close()
        cls.root = f"{cls.dir}/trusted-root.json"
        cls.a.cli("code-signing", "trusted-root", "-o", cls.root)

    def setUp(self):
        self.file = f"{self.dir}/artifact-{secrets.token_hex(4)}"
        with open(self.file, "wb") as f:
            f.write(secrets.token_bytes(100_000))
        self.bundle = self.file + ".sigstore.json"

    def cosign(self, *args, file=None, bundle=None, root=None):
        """In a network namespace without any network."""
        return run("unshare", "--net", "cosign", "verify-blob", "--new-bundle-format", "--bundle", bundle or self.bundle,
                   "--trusted-root", root or self.root, *args, file or self.file, check=False,
                   env={"HOME": self.dir, "PATH": os.environ["PATH"], "TUF_ROOT": f"{self.dir}/no-tuf"})

    def cli_verify(self, *args, file=None, bundle=None, root=None):
        return run("unshare", "--net", f"{self.a.bin}/svc-cli", "code-signing", "verify", file or self.file, "--bundle",
                   bundle or self.bundle, "--trusted-root", root or self.root, *args, check=False,
                   env={"HOME": self.dir, "PATH": os.environ["PATH"]})

    def both(self, accepted, trust, **more):
        """Both tools are of one mind. trust: who must have signed, in the words of each."""
        for verify, words in ((self.cosign, trust[0]), (self.cli_verify, trust[1])):
            done = verify(*words, **more)
            with self.subTest(verify.__name__):
                self.assertEqual(done.returncode == 0, accepted, done.stdout + done.stderr)

    def damaged(self, change):
        """A copy of the bundle with one thing changed."""
        with open(self.bundle) as f:
            content = json.load(f)
        change(content)
        path = self.bundle + ".damaged"
        with open(path, "w") as f:
            json.dump(content, f)
        return path

    def check_refusals(self, trust):
        self.both(True, trust)
        other = self.file + ".other"
        with open(other, "wb") as f:
            f.write(b"something else")
        self.both(False, trust, file=other)

        def flip(name):
            def change(bundle):
                entry = bundle["verificationMaterial"]["tlogEntries"][0]
                if name == "signature":
                    raw = bytearray(base64.b64decode(bundle["messageSignature"]["signature"]))
                    raw[-1] ^= 1
                    bundle["messageSignature"]["signature"] = base64.b64encode(raw).decode()
                elif name == "root hash":
                    entry["inclusionProof"]["rootHash"] = base64.b64encode(bytes(32)).decode()
                elif name == "body":
                    raw = json.loads(base64.b64decode(entry["canonicalizedBody"]))
                    raw["spec"]["data"]["hash"]["value"] = "00" * 32
                    entry["canonicalizedBody"] = base64.b64encode(json.dumps(raw).encode()).decode()
                elif name == "promise":
                    raw = bytearray(base64.b64decode(entry["inclusionPromise"]["signedEntryTimestamp"]))
                    raw[-1] ^= 1
                    entry["inclusionPromise"]["signedEntryTimestamp"] = base64.b64encode(raw).decode()

            return change

        for name in ("signature", "root hash", "body", "promise"):
            with self.subTest(f"damaged {name}"):
                self.both(False, trust, bundle=self.damaged(flip(name)))
        # Another appliance's log is not trusted.
        with open(self.root) as f:
            root = json.load(f)
        spki = run("openssl", "ec", "-in", self.other_key(), "-pubout", "-outform", "DER", text=False).stdout
        root["tlogs"][0]["publicKey"]["rawBytes"] = base64.b64encode(spki).decode()
        foreign = f"{self.dir}/foreign-root.json"
        with open(foreign, "w") as f:
            json.dump(root, f)
        self.both(False, trust, root=foreign)

    def other_key(self):
        path = f"{self.dir}/other.key"
        run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path)
        return path

    def public_key(self, key_id, name):
        answer = self.a.api("GET", f"/api/v1/keys/{key_id}")
        self.assertEqual(answer.status, 200, answer)
        path = f"{self.dir}/{name}.pub"
        run("openssl", "pkey", "-pubin", "-inform", "DER", "-pubout", "-out", path,
            input=base64.b64decode(answer.json["public_key_der"]), text=False)
        return path

    def sign_keyed(self, algorithm="ec-p256", scheme="ecdsa"):
        key_id = make_key(self.a, algorithm)
        self.a.cli("code-signing", "sign", self.file, "--key", key_id, "--scheme", scheme, "--bundle", self.bundle,
                   "-o", self.file + ".sig", "--yes")
        return self.trust_key(self.public_key(key_id, algorithm))

    def trust_key(self, path):
        return ("--key", path), ("--public-key", path)

    def sign_keyless(self, *args):
        proof = f"{self.dir}/proof"
        with open(proof, "w") as f:
            f.write(self.issuer.token())
        os.chmod(proof, 0o600)
        self.a.cli("code-signing", "keyless", self.file, "--method", "github-actions", "--proof", proof, "--bundle", self.bundle,
                   "-o", self.file + ".sig", "--yes", *args)
        return self.trust_identity("https://github.com/" + self.issuer.claims()["job_workflow_ref"], self.issuer.url)

    def trust_identity(self, san, issuer):
        words = ("--certificate-identity", san, "--certificate-oidc-issuer", issuer)
        return (*words, "--insecure-ignore-sct"), words

    def test_a_keyed_bundle(self):
        for algorithm, scheme in (("ec-p256", "ecdsa"), ("rsa-3072", "rsa-pkcs1v15")):
            with self.subTest(algorithm):
                self.both(True, self.sign_keyed(algorithm, scheme))
                os.unlink(self.file + ".sig")
                os.unlink(self.bundle)

    def test_a_keyed_bundle_that_was_altered(self):
        self.check_refusals(self.sign_keyed())
        stranger = f"{self.dir}/stranger.pub"
        run("openssl", "ec", "-in", self.other_key(), "-pubout", "-out", stranger)
        self.both(False, self.trust_key(stranger))

    def test_a_keyless_bundle_that_was_altered(self):
        self.check_refusals(self.sign_keyless())
        san = "https://github.com/" + self.issuer.claims()["job_workflow_ref"]
        self.both(False, self.trust_identity("https://github.com/acme/other", self.issuer.url))
        self.both(False, self.trust_identity(san, "https://accounts.example.com"))

    def test_a_keyless_bundle_with_a_time_stamp(self):
        trust = self.sign_keyless("--timestamp", "--tsa-root", f"{self.a.dir}/data/tsa-root.pem")
        with open(self.bundle) as f:
            material = json.load(f)["verificationMaterial"]
        self.assertEqual(len(material["timestampVerificationData"]["rfc3161Timestamps"]), 1)
        self.both(True, trust)
        self.both(True, ((*trust[0], "--use-signed-timestamps"), trust[1]))

    def test_a_bundle_of_an_earlier_signing(self):
        key_id = make_key(self.a)
        self.a.cli("code-signing", "sign", self.file, "--key", key_id, "-o", self.file + ".sig", "--yes")
        with open(self.file, "rb") as f:
            digest = base64.b64encode(digest_of(f.read())).decode()
        listed = self.a.api("GET", signing.BASE + f"/operations?key_id={key_id}").json["items"]
        operation = next(o for o in listed if o["digest"] == digest)["operation_id"]
        self.a.cli("code-signing", "bundle", operation, "-o", self.bundle)
        done = self.cosign("--key", self.public_key(key_id, "earlier"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_openssl_takes_the_detached_signature(self):
        key_id = make_key(self.a)
        self.a.cli("code-signing", "sign", self.file, "--key", key_id, "-o", self.file + ".sig", "--yes")
        run("openssl", "dgst", "-sha256", "-verify", self.public_key(key_id, "detached"), "-signature", self.file + ".sig",
            self.file)


if __name__ == "__main__":
    unittest.main()
