"""An erasure that dies at any of its steps is finished by the next process, and its history is one."""
import json
import os
import secrets
import unittest

from appliance import Appliance, all_records, make_key, until
from failpoints import DEBUG_BIN, Failpoints, names_in

ALL = ["privacy.after_put", "privacy.after_list", "privacy.after_rehearsal", "privacy.after_activate",
       "projection.before_regenerated", "projection.after_regenerated", "privacy.after_erase", "privacy.after_scrub"]
# The supervisor waits longer after each death: all of them take two minutes (SVC_TEST_ALL_PLACES=1).
PLACES = ALL if os.environ.get("SVC_TEST_ALL_PLACES") else [ALL[1], ALL[4], ALL[6]]
ERASURES = "/api/v1/privacy/erasures"


class Crash(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("privacy-crash", bin=DEBUG_BIN)
        cls.points = Failpoints(cls.a)
        cls.a.start()

    @classmethod
    def tearDownClass(cls):
        cls.a.clean()

    def test_it_is_finished_wherever_it_dies(self):
        self.assertTrue(set(ALL) <= names_in("svc-api"), "a build without the failpoints")
        names = [f"person-{secrets.token_hex(4)}-x" for _ in PLACES]
        for name in names:
            make_key(self.a, name=name)
        for number, (place, name) in enumerate(zip(PLACES, names)):
            with self.subTest(place):
                preview = self.a.api("POST", f"{ERASURES}/preview", {"subject": name}).json
                body = {"subject": name, "preview_fingerprint": preview["preview_fingerprint"], "reason": "asked"}
                resource = self.a.api("POST", ERASURES, body, key=True).json["resource"]
                self.a.cli("approvals", "approve", resource, token="APPROVER")
                self.points.arm(place)
                try:
                    self.a.api("POST", ERASURES, body, key=True)
                except OSError:
                    pass
                self.points.wait()

                def ended():
                    if not self.a.is_ready():
                        return None
                    newest = self.a.api("GET", f"{ERASURES}?limit=1", token="AUDITOR").json["items"][0]
                    return newest if newest["state"] in ("completed", "failed") else None

                done = until("the erasure has ended", ended, 90)
                self.assertEqual((done["state"], done["generation"], done["messages"]),
                                 ("completed", number + 2, preview["messages"]), done)
                self.assertNotIn(name, json.dumps(all_records(self.a)))
        self.assertEqual(len(self.a.api("GET", "/api/v1/audit/history", token="AUDITOR").json["items"]), len(PLACES))


if __name__ == "__main__":
    unittest.main()
