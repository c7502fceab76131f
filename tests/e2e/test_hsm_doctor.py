"""svc-appliance hsm doctor, as an operator uses it: beside a running appliance, as svc-signer's user."""
import json
import unittest

from appliance import Appliance, own_appliance, run


class HsmDoctor(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.appliance = Appliance("doctor").start()

    @classmethod
    def tearDownClass(cls):
        cls.appliance.stop()
        cls.appliance.clean()

    def objects(self):
        """Every object of the token, as its own tools see it."""
        with open(f"{self.appliance.dir}/data/signer/pin") as f:
            pin = f.read().strip()
        said = run("env", f"SOFTHSM2_CONF={self.appliance.dir}/data/softhsm/softhsm2.conf", "pkcs11-tool", "--module",
                   "/usr/lib/softhsm/libsofthsm2.so", "--token-label", "svc", "--pin", pin, "--list-objects")
        return sorted(line for line in said.stdout.splitlines() if "label:" in line)

    @own_appliance("looks into the token")
    def test_it_finds_the_embedded_token_fit_and_leaves_nothing_behind(self):
        before = self.objects()
        said = self.appliance.appliance("hsm", "doctor", "--quick", "--json")
        report = json.loads(said.stdout)
        self.assertEqual(report["result"], "ok")
        steps = {step["step"]: step["result"] for step in report["steps"]}
        for step in ("load", "login", "ec-p256 generate", "rsa-3072 PSS SHA-256", "aes-256 seal and unseal", "threads"):
            self.assertEqual(steps[step], "ok", step)
        self.assertEqual(report["quirks"], {"given": "", "needed": ""})
        self.assertTrue(any(row["operation"].startswith("ec-p256") and row["p50_us"] > 0 for row in report["times"]))
        self.assertEqual(self.objects(), before)
        self.assertTrue(self.appliance.is_ready())

    def test_it_says_what_is_wrong(self):
        said = self.appliance.appliance("hsm", "doctor", "--module", "/nowhere/p11.so", check=False)
        self.assertEqual(said.returncode, 1)
        self.assertIn("FAILED   load", said.stdout)
        said = self.appliance.appliance("hsm", "doctor", "--module", "/usr/lib/softhsm/libsofthsm2.so", "--label", "svc",
                                        "--pin-file", f"{self.appliance.dir}/svc.yaml", check=False)
        self.assertEqual(said.returncode, 1)

    def test_it_explains_codes_without_a_token(self):
        said = self.appliance.appliance("hsm", "doctor", "--explain", "CKR_DEVICE_ERROR")
        self.assertIn("CKR_DEVICE_ERROR (0x30)", said.stdout)
        self.assertIn("token_unavailable", said.stdout)
        every = json.loads(self.appliance.appliance("hsm", "doctor", "--explain", "--json").stdout)
        self.assertGreater(len(every), 80)
        self.assertTrue(all(row["name"].startswith("CKR_") for row in every))

    def test_words_that_make_no_sense_are_refused(self):
        for words in (["hsm"], ["hsm", "nurse"], ["hsm", "doctor", "--nonsense"],
                      ["hsm", "doctor", "--explain", "CKR_NONSENSE"]):
            said = self.appliance.appliance(*words, check=False)
            self.assertEqual(said.returncode, 2, words)
            self.assertTrue(said.stderr)


if __name__ == "__main__":
    unittest.main()
