"""Certificates, owners and access reviews in a running appliance, through svc-cli: what the product knows of its own keys
is there by itself, what users bring is as they state it, and a review closes only when all is decided and dead."""
import json
import secrets
import unittest

from appliance import Appliance, make_key, until
from certificates import Workshop

OPERATOR2 = "SECOND"


class Inventory(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.workshop = Workshop()
        cls.addClassCleanup(cls.workshop.clean)
        cls.a = Appliance("inventory").start()
        cls.addClassCleanup(cls.a.clean)
        made = cls.a.appliance("token", "create", "--subject", "second", "--role", "operator", "--json")
        cls.a.env["SVC_TOKEN_SECOND"] = json.loads(made.stdout)["token"]
        cls.workshop.key("web")
        cls.workshop.root("web")
        cls.pem = cls.workshop.path("web.pem")

    def say(self, *words, token="OPERATOR", check=True):
        done = self.a.cli(*words, "--json", token=token, check=check)
        return json.loads(done.stdout) if check else done

    def every(self, *words, token="OPERATOR"):
        items, more = [], ()
        while True:
            page = self.say(*words, "--limit", "2", *more, token=token)
            items += page["items"]
            if "next_cursor" not in page:
                return items
            more = ("--cursor", page["next_cursor"])

    def test_1_what_the_product_keeps_is_there_by_itself(self):
        def units():
            return [c for c in self.every("certificates", "list") if c["origin"] == "time_stamping_unit"]
        stamping = until("the unit's certificate is listed", units)[0]
        self.assertEqual((stamping["custody"], stamping["storage_class"], stamping["exportability"], stamping["holder"]),
                         ("recorded", "pkcs11_token", "non_exportable", "svc-signer"), stamping)
        self.assertTrue(any(c["origin"] == "own_authority" for c in self.every("certificates", "list")))
        refused = self.say("certificates", "custody", stamping["certificate_id"], "--origin", "third_party", check=False)
        self.assertIn("custody_of_own_key", refused.stderr + refused.stdout)

    def test_2_what_users_bring_is_as_they_state_it(self):
        made = self.say("certificates", "record", self.pem, "--origin", "self_signed", "--holder", "web team")
        self.assertEqual((made["custody"], made["missing_fields"]),
                         ("unrecorded", ["exportability", "locus", "storage_class"]), made)
        unrecorded = self.every("certificates", "list", "--custody", "unrecorded")
        self.assertEqual([c["certificate_id"] for c in unrecorded], [made["certificate_id"]])
        again = self.say("certificates", "record", self.pem)
        self.assertEqual((again["certificate_id"], again["version"]), (made["certificate_id"], 1))
        done = self.say("certificates", "custody", made["certificate_id"], "--origin", "self_signed", "--storage-class",
                        "plain_file", "--exportability", "exportable", "--holder", "web team", "--locus", "/etc/tls/web.key")
        self.assertEqual((done["custody"], done["version"]), ("recorded", 2), done)
        self.assertEqual(self.say("certificates", "show", made["certificate_id"])["locus"], "/etc/tls/web.key")
        table = self.a.cli("certificates", "list").stdout
        self.assertIn("plain_file", table)
        self.assertIn("is no X.509", self.a.cli("certificates", "record", self.workshop.write("bad", b"0\x03\x02\x01\x00"),
                                                check=False).stderr)

    def test_3_credentials_owners_and_a_review(self):
        key_id = make_key(self.a)
        temporary = json.loads(self.a.appliance("token", "create", "--subject", "leaver", "--role", "ci", "--json").stdout)
        live = self.every("credentials", "list", "--live", "true", token="AUDITOR")
        self.assertNotIn(temporary["token"], json.dumps(live))
        mine = {f"{c['kind']}:{c['credential_id']}" for c in live if not c["system"]}
        self.assertIn(f"key:{key_id}", mine)
        for c in live:
            self.assertEqual(c["owner"], None, c)
        owned = self.say("credentials", "owner", "key", key_id, "--owner", "release", "--contact", "release@example.com",
                         "--application", "app-1", "--environment", "production")
        self.assertEqual((owned["owner"]["owner_id"], owned["owner"]["complete"], owned["owner"]["attested_by"]),
                         ("release", True, "operator"), owned)

        review = self.say("access-reviews", "open", "--title", "q" + secrets.token_hex(2))
        self.assertEqual((review["total"], review["undecided"]), (len(mine), len(mine)), review)
        leaver = f"token:{temporary['token_id']}"
        keep = sorted(mine - {leaver})
        own = self.say("access-reviews", "decide", review["review_id"], leaver, "--decision", "keep", "--reason", "mine", check=False)
        self.assertIn("access_review_person", own.stderr + own.stdout)
        self.say("access-reviews", "decide", review["review_id"], *keep, "--decision", "keep", "--reason", "in use", token=OPERATOR2)
        early = self.say("access-reviews", "complete", review["review_id"], token=OPERATOR2, check=False)
        self.assertIn("1 of", early.stderr + early.stdout)
        self.say("access-reviews", "decide", review["review_id"], leaver, "--decision", "revoke", "--reason", "left", token=OPERATOR2)
        alive = self.say("access-reviews", "complete", review["review_id"], token=OPERATOR2, check=False)
        self.assertIn("still live", alive.stderr + alive.stdout)
        self.a.appliance("token", "revoke", temporary["token_id"], "--reason", "review")
        own = self.say("access-reviews", "complete", review["review_id"], check=False)
        self.assertIn("access_review_person", own.stderr + own.stdout)
        done = self.say("access-reviews", "complete", review["review_id"], token=OPERATOR2)
        self.assertEqual((done["state"], done["kept"], done["revoked"]), ("completed", len(keep), 1), done)
        shown = self.say("access-reviews", "show", review["review_id"], token="AUDITOR")
        self.assertEqual({i["decision"] for i in shown["items"]}, {"keep", "revoke"})
        record = self.a.api("GET", "/api/v1/audit/records?type=inventory.access_review.completed", token="AUDITOR").json
        data = record["records"][0]["record"]["data"]
        self.assertEqual((data["reviewer"], data["opened_by"], data["inventory_digest"]),
                         ("second", "operator", review["inventory_digest"]), data)
        self.assertEqual((data["kinds"], data["owner_id"], data["whole"]), ("certificate key token", "", True), data)


if __name__ == "__main__":
    unittest.main()
