"""Exports of a running appliance, judged offline by pinned keys and a pinned root alone: without a network."""
import json
import os
import shutil
import tempfile
import unittest

from appliance import Appliance, make_key, run

SHAPES = {"jws": "jws", "ndjson": "ndjson", "csv": "csv", "cef": "cef", "ocsf": "ocsf.ndjson"}


class Verify(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("auditv").start()
        cls.addClassCleanup(cls.a.clean)
        cls.dir = tempfile.mkdtemp(prefix="svc-auditv-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        cls.keys, cls.root = f"{cls.dir}/keys.json", f"{cls.a.dir}/data/tsa-root.pem"
        for _ in range(4):
            make_key(cls.a)

    def export(self, name, shape, *more):
        path = f"{self.dir}/{name}.{SHAPES[shape]}"
        self.a.cli("audit", "export", "--shape", shape, "-o", path, *more, token="AUDITOR")
        if not os.path.exists(self.keys):  # made with the first export
            self.a.cli("audit", "verification-keys", "-o", self.keys, token="AUDITOR")
        return path

    def judge(self, code, *arguments, keys=True, root=True):
        pins = (("--audit-jwks", self.keys) if keys else ()) + (("--tsa-root", self.root) if root else ())
        done = run("unshare", "--net", f"{self.a.bin}/svc-cli", "audit", *arguments, *pins, "--json", check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def test_exports_of_every_shape_hold_and_an_altered_one_does_not(self):
        heads = set()
        for shape in SHAPES:
            path = self.export("whole", shape, "--to-sequence", "9")
            verdict = self.judge(0, "verify", "--artifact", path, "--max-anchor-delay", "1h")
            self.assertTrue(all(verdict[k] for k in ("valid", "signature_good", "chain_good", "tree_good", "anchor_good")), verdict)
            self.assertEqual((verdict["shape"], verdict["records_good"]), (shape, 9))
            heads.add(verdict["chain_head"])
            self.assertEqual(self.judge(2, "verify", "--artifact", path, root=False)["code"], "audit_pins_missing")
            self.judge(2 if shape == "jws" else 0, "verify", "--artifact", path, keys=False)
            with open(path, "rb") as f:
                body = f.read()
            at = len(body) // 3  # within a record
            with open(path + ".bad", "wb") as f:
                f.write(body[:at] + bytes((body[at] ^ 1,)) + body[at + 1:])
            bad = self.judge(2, "verify", "--artifact", path + ".bad")
            self.assertFalse(bad["valid"])
            self.assertTrue(shape == "jws" or 1 <= bad["broken_sequence"] <= 9, bad)
        self.assertEqual(len(heads), 1)

    def test_segments_continue_and_two_exports_are_compared(self):
        first = self.export("first", "csv", "--to-sequence", "5")
        second = self.export("second", "ocsf", "--from-sequence", "6", "--to-sequence", "8")
        whole = self.export("all", "jws")
        both = self.judge(0, "verify", "--artifact", first, second)
        self.assertEqual([s["tree_good"] for s in both["segments"]], [True, True])
        self.assertEqual(self.judge(2, "verify", "--artifact", second, first)["segments"][1]["code"], "audit_segments_apart")
        self.assertEqual(self.judge(0, "compare", first, second)["relation"], "continues")
        self.assertEqual(self.judge(0, "compare", second, whole)["relation"], "extends")
        self.assertEqual(self.judge(0, "compare", whole, whole)["relation"], "same")


if __name__ == "__main__":
    unittest.main()
