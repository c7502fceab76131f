"""What the tests of verification as a service share."""
import hashlib
import secrets
import unittest

import signing
from appliance import b64

VERIFY = signing.BASE + "/verify"
KEYLESS = signing.BASE + "/keyless/verify"
LONG_TERM = signing.BASE + "/verify-long-term"
HASHES = ("sha256", "sha384", "sha512")
UNKNOWN = "0198c0de-0000-7000-8000-000000000000"


def flipped(data, at=-1):
    out = bytearray(data)
    out[at] ^= 1
    return bytes(out)


class Case(unittest.TestCase):
    """One appliance, one workshop."""

    def setUp(self):
        self.session = self.a.session("OPERATOR")
        self.addCleanup(self.session.close)
        self.data = secrets.token_bytes(40)
        self.digest = hashlib.sha256(self.data).digest()

    def ask(self, path, body, **change):
        """`change`: members to replace, None to leave one out."""
        whole = {k: v for k, v in {**body, **change}.items() if v is not None}
        return self.session.api("POST", path, whole)

    def refused(self, path, body, status, code, pointer=None, **change):
        answer = self.ask(path, body, **change)
        self.assertEqual((answer.status, answer.json["code"]), (status, code), answer)
        if pointer is not None:
            self.assertEqual(answer.json["errors"][0]["pointer"] if "errors" in answer.json else answer.json.get("pointer"),
                             pointer, answer)
        self.assertTrue(answer.json.get("detail"), answer)
        return answer

    def good(self, path, body, **change):
        answer = self.ask(path, body, **change)
        self.assertEqual(answer.status, 200, answer)
        self.assertIs(answer.json["valid"], True)
        return answer.json

    def stamp(self, data, hash="sha256", certificate=True):
        reply = self.a.tsa(self.w.query(data, hash, certificate))
        self.assertEqual(reply.status, 200)
        return reply.body

    def signed(self, key_id, hash="sha256", scheme=None):
        """Body of a verification under the key's id, and the key's public half."""
        digest = hashlib.new(hash, self.data).digest()
        more = {"digest_algorithm": hash}
        if scheme:
            more["signature_scheme"] = scheme
        answer = signing.sign(self.session, "key", signing.key_body(key_id, digest, **more))
        self.assertEqual(answer.status, 200, answer)
        return ({"key_id": key_id, "digest": b64(digest), "signature": answer.json["signature"], **more},
                answer.json["public_key_der"])
