"""Verification of keyless signatures, by our own authority and by Fulcio's roots; the trusted root that says the same."""
import json
import secrets
import time
import unittest

import signing
from appliance import Appliance, b64, run, until
from certificates import LEAF, ROOT, Workshop, b64s, keyless_leaf, unb64
from oidc import Issuer
from verifying import KEYLESS, LONG_TERM, Case, flipped

ROOT_TYPE = "application/vnd.dev.sigstore.trustedroot+json;version=0.1"
SAN = "https://github.com/acme/tool/.github/workflows/release.yml@refs/tags/v1"


class KeylessCase(Case):
    def forms(self, body):
        """With and without a stamp."""
        yield body
        yield {**body, "timestamp": b64(self.stamp(unb64(body["signature"])))}

    def identity_refusals(self, body):
        for form in self.forms(body):
            for change in ({"expected_san": form["expected_san"] + "x"}, {"expected_san": form["expected_san"][:-1]},
                           {"expected_san": form["expected_issuer"]}, {"expected_issuer": "https://evil.example"},
                           {"expected_san": form["expected_san"].upper()}, {"expected_san": "*"}, {"expected_san": ".*"}):
                self.refused(KEYLESS, form, 403, "keyless_contradiction", **change)
            for missing in ("expected_san", "expected_issuer", "certificate_chain"):
                self.refused(KEYLESS, form, 400, "json_field", **{missing: None})
            self.refused(KEYLESS, form, 400, "json_field", expected_san="")


class Keyless(KeylessCase):
    """Under the appliance's own keyless authority."""

    @classmethod
    def setUpClass(cls):
        cls.w = Workshop()
        cls.addClassCleanup(cls.w.clean)
        cls.issuer = Issuer().start()
        cls.addClassCleanup(cls.issuer.stop)
        cls.a = Appliance("verify-keyless")
        cls.addClassCleanup(cls.a.clean)
        signing.write_attestors(cls.a, cls.issuer.attestor())
        cls.a.start()
        cls.root = cls.a.api("GET", signing.BASE + "/trusted-root")

    def signed(self):
        """Body of a verification without a stamp, and the operation."""
        answer = signing.sign(self.session, "keyless", signing.keyless_body(self.issuer.token(), self.digest))
        self.assertEqual(answer.status, 200, answer)
        return {"digest": b64(self.digest), "signature": answer.json["signature"],
                "certificate_chain": answer.json["certificate_chain"], "expected_san": answer.json["fulcio_san"],
                "expected_issuer": answer.json["fulcio_issuer"]}, answer.json["operation_id"]

    def test_refusals(self):
        body, _ = self.signed()
        other, _ = self.signed()
        chain = body["certificate_chain"]
        self.identity_refusals(body)
        for form in self.forms(body):
            self.refused(KEYLESS, form, 400, "signature_invalid", digest=b64(flipped(self.digest)))
            self.refused(KEYLESS, form, 400, "signature_invalid", certificate_chain=other["certificate_chain"])
            self.refused(KEYLESS, form, 400, "certificate_refused", certificate_chain=chain[::-1])
            self.refused(KEYLESS, form, 400, "certificate_refused",
                         certificate_chain=[b64(flipped(unb64(chain[0]))), chain[1]])
            self.refused(KEYLESS, form, 400, "json_field", "/signature_scheme", signature_scheme="rsa-pss")
            self.refused(KEYLESS, form, 400, "json_field", "/certificate_chain/0", certificate_chain=[b64(b"x")])
        self.refused(KEYLESS, body, 400, "signature_invalid", signature=b64(flipped(unb64(body["signature"]))))
        self.refused(KEYLESS, body, 400, "timestamp_invalid", timestamp=b64(self.stamp(unb64(other["signature"]))))
        self.refused(KEYLESS, body, 400, "timestamp_invalid", timestamp=b64(b"\x30\x00"))

    def test_who_looks_like_us_is_not_us(self):
        """A certificate of the same identity by another authority, even one of the same name."""
        body, _ = self.signed()
        subject = next(iter(self.root.json["certificateAuthorities"]))["subject"]
        self.w.key("imposter")
        self.w.certify("imposter", None, ROOT, subject=f"/O={subject['organization']}/CN={subject['commonName']}")
        leaf = self.w.leaf("imposter-leaf", "imposter", keyless_leaf(body["expected_san"], body["expected_issuer"]))
        forged = {**body, "certificate_chain": b64s(leaf, self.w.der("imposter")),
                  "signature": b64(self.w.sign("imposter-leaf", self.digest))}
        for form in self.forms(forged):
            self.refused(KEYLESS, form, 400, "certificate_refused")
        self.refused(KEYLESS, forged, 400, "certificate_refused", certificate_chain=b64s(leaf) + body["certificate_chain"][1:])

    def test_another_tenants_authority_is_not_ours(self):
        body, _ = self.signed()
        self.a.appliance("tenant", "create", "rival")
        made = self.a.appliance("token", "create", "--tenant", "rival", "--subject", "rival", "--role", "operator",
                                "--ttl", "1h", "--json")
        rival = self.a.session(json.loads(made.stdout)["token"])
        self.addCleanup(rival.close)
        for form in self.forms(body):
            answer = rival.api("POST", KEYLESS, form)
            self.assertEqual((answer.status, answer.json["code"]), (400, "certificate_refused"), answer)
        theirs = rival.api("GET", signing.BASE + "/trusted-root").json
        self.assertEqual(theirs["certificateAuthorities"], [])
        self.assertEqual(theirs["timestampAuthorities"], self.root.json["timestampAuthorities"])

    def test_good_ones(self):
        body, operation = self.signed()
        until("the ephemeral key is destroyed",
              lambda: signing.records_of(self.a, operation, "codesign.ephemeral.destroyed"), 60)
        for form, source in zip(self.forms(body), ("now", "timestamp")):
            told = self.good(KEYLESS, form)
            self.assertEqual(told["time_source"], source)
            self.assertEqual((told["fulcio_san"], told["fulcio_issuer"]), (body["expected_san"], body["expected_issuer"]))
            self.assertLessEqual(told["not_before"], told["judged_at"])
            self.good(KEYLESS, form, certificate_chain=body["certificate_chain"][:1])
        stamped = {k: v for k, v in form.items() if not k.startswith("expected_")}
        self.good(LONG_TERM, stamped)  # its own authority is the default there, too
        self.good(LONG_TERM, stamped, root_certificates=body["certificate_chain"][-1:])

    def window(self, certificates):
        """In which all of them are valid."""
        begins, ends = [], []
        for certificate in certificates:
            text = run("openssl", "x509", "-inform", "DER", "-in", self.w.write("one.der", unb64(certificate["rawBytes"])),
                       "-noout", "-dates", "-dateopt", "iso_8601").stdout
            begin, end = [line.partition("=")[2].replace(" ", "T").replace("Z", ".000000Z") for line in text.splitlines()]
            begins.append(begin)
            ends.append(end)
        return {"start": max(begins), "end": min(ends)}

    def test_the_trusted_root(self):
        self.assertEqual(self.root.status, 200)
        root = self.root.json
        self.assertEqual(set(root), {"mediaType", "tlogs", "certificateAuthorities", "ctlogs", "timestampAuthorities"})
        self.assertEqual((root["mediaType"], root["tlogs"], root["ctlogs"]), (ROOT_TYPE, [], []))
        body, _ = self.signed()
        [authority], [stamper] = root["certificateAuthorities"], root["timestampAuthorities"]
        self.assertEqual([c["rawBytes"] for c in authority["certChain"]["certificates"]], body["certificate_chain"][1:])
        for entry, count in ((authority, 1), (stamper, 2)):
            self.assertEqual(set(entry), {"subject", "certChain", "validFor"})
            self.assertEqual(set(entry["validFor"]), {"start", "end"})
            certificates = entry["certChain"]["certificates"]
            self.assertEqual(len(certificates), count)
            last = self.w.write("last.der", unb64(certificates[-1]["rawBytes"]))
            text = run("openssl", "x509", "-inform", "DER", "-in", last, "-noout", "-subject", "-nameopt", "sep_comma_plus").stdout
            self.assertIn("CN=" + entry["subject"]["commonName"], text)
            self.assertEqual(entry["validFor"], self.window(certificates))
        chain = self.w.write("chain.pem", run("curl", "-s", f"http://127.0.0.1:{self.a.plain}/tsa/chain.pem").stdout)
        leaf = run("openssl", "x509", "-in", chain, "-outform", "DER", text=False).stdout
        self.assertEqual(stamper["certChain"]["certificates"][0]["rawBytes"], b64(leaf))


class Fulcio(KeylessCase):
    """Under the pinned roots of a Fulcio, whose certificates the test makes as it likes."""

    @classmethod
    def setUpClass(cls):
        cls.w = Workshop()
        cls.addClassCleanup(cls.w.clean)
        cls.issuer = Issuer().start()
        cls.addClassCleanup(cls.issuer.stop)
        cls.a = Appliance("verify-fulcio")
        cls.addClassCleanup(cls.a.clean)
        cls.w.root("fulcio")
        cls.w.leaf("fulcio-middle", "fulcio", ROOT + "extendedKeyUsage=codeSigning\nauthorityKeyIdentifier=keyid\n")
        cls.w.root("fulcio-old", begins=-864000, ends=-432000)
        cls.w.write("roots.pem", cls.w.read("fulcio-middle.pem") + cls.w.read("fulcio.pem") + cls.w.read("fulcio-old.pem"))
        signing.write_attestors(cls.a, cls.issuer.attestor())
        cls.a.settings["code_signing.keyless.fulcio_url"] = "http://127.0.0.1:9"
        cls.a.settings["code_signing.keyless.fulcio_root_file"] = cls.w.path("roots.pem")
        cls.a.start()

    def body(self, ca="fulcio-middle", extensions=None, **times):
        name = "signer-" + secrets.token_hex(4)
        leaf = self.w.leaf(name, ca, extensions or keyless_leaf(SAN, "https://issuer.example"), **times)
        return {"digest": b64(self.digest), "signature": b64(self.w.sign(name, self.digest)),
                "certificate_chain": b64s(leaf), "expected_san": SAN, "expected_issuer": "https://issuer.example"}

    def test_identities(self):
        self.identity_refusals(self.body())
        for extensions in (LEAF, keyless_leaf("https://other.example", "https://issuer.example"),
                           LEAF + f"subjectAltName=critical,URI:{SAN}\n",
                           keyless_leaf(SAN, "https://issuer.example").replace("UTF8String", "IA5String"),
                           LEAF + f"subjectAltName=critical,URI:{SAN}\n1.3.6.1.4.1.57264.1.8=DER:0c\n"):
            with self.subTest(extensions):
                answer = self.ask(KEYLESS, self.body(extensions=extensions))
                self.assertIn((answer.status, answer.json["code"]),
                              ((403, "keyless_contradiction"), (400, "certificate_refused")), answer)

    def test_times(self):
        rows = (
            (dict(begins=-7200, ends=-3600), "certificate_refused", "timestamp_outside_validity"),
            (dict(begins=3600, ends=7200), "certificate_refused", "timestamp_outside_validity"),
        )
        for times, now, stamped in rows:
            bare, with_stamp = self.forms(self.body(**times))
            answer = self.refused(KEYLESS, bare, 400, now)
            self.assertIn("time stamp", answer.json["detail"])
            self.refused(KEYLESS, with_stamp, 400, stamped)
        for form in self.forms(self.body("fulcio-old")):
            self.refused(KEYLESS, form, 400, "certificate_refused")
        bare, with_stamp = self.forms(self.body("fulcio-old", begins=-864000, ends=-432000))
        self.refused(KEYLESS, bare, 400, "certificate_refused")
        self.refused(KEYLESS, with_stamp, 400, "timestamp_outside_validity")

    def test_other_uses(self):
        good = keyless_leaf(SAN, "https://issuer.example")
        for extensions in (good.replace("extendedKeyUsage=codeSigning", "extendedKeyUsage=clientAuth"),
                           good.replace("extendedKeyUsage=codeSigning\n", ""),
                           good.replace("keyUsage=critical,digitalSignature", "keyUsage=critical,keyAgreement"),
                           good.replace("CA:FALSE", "CA:TRUE")):
            for form in self.forms(self.body(extensions=extensions)):
                self.refused(KEYLESS, form, 400, "certificate_refused")

    def test_an_expired_one_with_a_stamp(self):
        body = self.body(ends=4)
        bare, with_stamp = self.forms(body)
        self.good(KEYLESS, bare)
        end = time.time() + 5
        until("the certificate has expired", lambda: time.time() > end)
        self.refused(KEYLESS, bare, 400, "certificate_refused")
        self.assertEqual(self.good(KEYLESS, with_stamp)["time_source"], "timestamp")

    def test_good_ones(self):
        middle, root = self.w.der("fulcio-middle"), self.w.der("fulcio")
        for form in self.forms(self.body()):
            self.good(KEYLESS, form)
            self.good(KEYLESS, form, certificate_chain=form["certificate_chain"] + b64s(middle))
            self.good(KEYLESS, form, certificate_chain=form["certificate_chain"] + b64s(middle, root))
        self.good(KEYLESS, self.body("fulcio"))
        two = keyless_leaf(SAN, "https://issuer.example").replace(f"URI:{SAN}", f"URI:https://a.example,email:a@b.example,URI:{SAN}")
        self.good(KEYLESS, self.body(extensions=two))

    def test_the_trusted_root_has_chains(self):
        root = self.a.api("GET", signing.BASE + "/trusted-root").json
        chains = [[c["rawBytes"] for c in a["certChain"]["certificates"]] for a in root["certificateAuthorities"]]
        self.assertEqual(chains, [b64s(self.w.der("fulcio-middle"), self.w.der("fulcio")), b64s(self.w.der("fulcio-old"))])
        self.assertEqual({a["uri"] for a in root["certificateAuthorities"]}, {"http://127.0.0.1:9"})
        self.assertEqual(root["certificateAuthorities"][0]["subject"], {"organization": "Test", "commonName": "fulcio"})


if __name__ == "__main__":
    unittest.main()
