"""The key that seals accepted commands is replaced while signing goes on."""
import threading
import unittest

from appliance import Appliance, all_records, digest_of, make_key, sign_body


class SealRotation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("seal").start()
        cls.key_id = make_key(cls.a)

    @classmethod
    def tearDownClass(cls):
        cls.a.clean()

    def rotate(self, token="OPERATOR", key=True):
        return self.a.session(token).api("POST", "/api/v1/keys/seal/rotations", None, key=key)

    def seal_keys(self):
        return [k["key_id"] for k in self.a.session("OPERATOR").api("GET", "/api/v1/keys?purpose=seal").json["items"]]

    def test_who_may_not_administer_keys_does_not_rotate(self):
        before = self.seal_keys()
        self.assertEqual(self.rotate("CI").status, 403)
        self.assertEqual(self.rotate(key=False).json["code"], "idempotency_key_required")
        self.assertEqual(self.seal_keys(), before)

    def test_signing_goes_on_across_rotations(self):
        session, results, stop = self.a.session("OPERATOR"), [], threading.Event()

        def sign_on(n):
            mine, i = self.a.session("OPERATOR"), 0
            while not stop.is_set() or i < 3:
                body = sign_body(mine, self.key_id, digest_of(b"%d-%d" % (n, i)))
                results.append(mine.api("POST", "/api/v1/code-signing/sign", body, key=True).status)
                i += 1

        threads = [threading.Thread(target=sign_on, args=(n,)) for n in range(4)]
        for t in threads:
            t.start()
        before, made = self.seal_keys(), []
        for n in range(3):
            answer = self.rotate(key=f"rotation-{n}")
            self.assertEqual(answer.status, 201, answer)
            self.assertEqual(self.rotate(key=f"rotation-{n}").json["key_id"], answer.json["key_id"])
            made.append(answer.json["key_id"])
        stop.set()
        for t in threads:
            t.join()
        self.assertEqual(set(results), {200})
        self.assertEqual(sorted(self.seal_keys()), sorted(before + made))
        sealed = [r for r in all_records(self.a) if r["type"] == "codesign.commanded"]
        self.assertGreaterEqual(len(sealed), 12)
        body = sign_body(session, self.key_id, digest_of(b"after"))
        self.assertEqual(session.api("POST", "/api/v1/code-signing/sign", body, key=True).status, 200)


if __name__ == "__main__":
    unittest.main()
