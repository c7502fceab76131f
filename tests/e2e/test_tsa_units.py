"""Time-stamping units: rotation under load, keys prepared ahead, certificates of an authority elsewhere, kills."""
import json
import os
import signal
import threading
import time
import unittest

from appliance import Appliance, all_records, until
from stamping import Authority, Files, Load, blocks, certificate_text, granted, request, serial, stamp, text_of

UNITS = "/api/v1/protocols/tsa/units"


def units(appliance):
    return json.loads(appliance.cli("tsa", "units", "list", "--json").stdout)["items"]


def by_state(appliance, state):
    return [u for u in units(appliance) if u["state"] == state]


def active(appliance):
    found = by_state(appliance, "active")
    return found[0] if found else None


def events(appliance, kind):
    return [r["data"] for r in all_records(appliance) if r["type"] == f"tsa.unit.{kind}"]


def metric(appliance, name, tenant="default"):
    for line in appliance.probe_get("/metrics").body.decode().splitlines():
        if line.startswith(f'{name}{{tenant="{tenant}"}}'):
            return float(line.split(" ")[1])
    return None


def admin(appliance, *args, check=True):
    return appliance.cli("tsa", "units", *args, "--json", check=check)


def rotate(appliance):
    made = json.loads(admin(appliance, "prepare").stdout)
    return json.loads(admin(appliance, "activate", made["unit_id"]).stdout)


def pem_chain(appliance, path="/tsa/chain.pem"):
    return request(appliance, "GET", path).body


class OwnRoot(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("tsunits", protocols__tsa__unit__overlap="2s").start()
        cls.files = Files()

    @classmethod
    def tearDownClass(cls):
        cls.a.clean()
        cls.files.close()

    def test_refusals(self):
        now = active(self.a)["unit_id"]
        for args, code in ((["activate", now], "tsa_unit_state"),
                           (["retire", now, "--reason", "x"], "tsa_unit_state"),
                           (["csr", now, "--subject", "CN=x"], "tsa_unit_state"),
                           (["activate", "0190a6b2-0001-7000-8000-00000000abcd"], "not_found"),
                           (["retire", "nonsense", "--reason", "x"], "not_found")):
            done = admin(self.a, *args, check=False)
            self.assertNotEqual(done.returncode, 0, args)
            self.assertIn(code, done.stdout + done.stderr, args)
        self.assertEqual(self.a.api("POST", UNITS, token="AUDITOR", key="units-by-auditor").status, 403)
        self.assertEqual(self.a.api("GET", UNITS, token=None).status, 401)
        self.assertEqual(active(self.a)["unit_id"], now)

    def test_the_certificate_is_for_time_stamping_alone_and_its_key_stamps_less_long(self):
        text = certificate_text(blocks(pem_chain(self.a))[0])
        self.assertRegex(text, r"Extended Key Usage: critical\s+Time Stamping\n")
        self.assertRegex(text, r"Private Key Usage Period:\s+Not Before: .* Not After: ")
        unit = active(self.a)
        self.assertLess(unit["key_usage_end"], unit["not_after"])
        end = metric(self.a, "svc_tsa_unit_key_usage_end_timestamp_seconds")
        self.assertGreater(metric(self.a, "svc_tsa_unit_certificate_expiry_timestamp_seconds"), end)
        self.assertGreater(end, time.time())

    def test_a_rotation_under_load_drops_nothing_and_all_tokens_verify_with_the_chain(self):
        before = active(self.a)
        load = Load(self.a)
        try:
            load.more(100)
            first, first_chain = load.stamps[0], pem_chain(self.a)
            for _ in range(3):
                rotate(self.a)
                load.more(50)
        finally:
            load.stop()
        self.assertEqual([str(b) for b in load.bad], [])
        after = active(self.a)
        self.assertNotEqual(before["unit_id"], after["unit_id"])
        chain = pem_chain(self.a)
        self.assertEqual(blocks(chain)[-1], blocks(first_chain)[-1])
        self.assertGreaterEqual(len(blocks(chain)), 5)
        for data, reply in (first, load.stamps[-1], load.stamps[len(load.stamps) // 2]):
            self.assertTrue(self.files.verifies(data, reply, chain))
        self.assertTrue(self.files.verifies(*first, first_chain))
        serials = [serial(r) for _, r in load.stamps[:: max(1, len(load.stamps) // 60)]]
        self.assertEqual(len(set(serials)), len(serials))
        signers = {r["data"]["key_id"] for r in all_records(self.a) if r["type"] == "tsa.timestamp.issued"}
        self.assertTrue({before["unit_id"], after["unit_id"]} <= signers)

    def test_without_its_certificate_a_token_verifies_by_the_chain(self):
        rotate(self.a)
        reply = stamp(self.a, b"short", certificate=False)
        rotate(self.a)
        self.assertTrue(self.files.verifies(b"short", reply, pem_chain(self.a)))

    def test_replaced_units_are_retired_and_their_keys_leave_the_token(self):
        before = active(self.a)["unit_id"]
        rotate(self.a)
        until("the replaced unit is retired", lambda: before in [u["unit_id"] for u in by_state(self.a, "retired")])
        key = self.a.api("GET", f"/api/v1/keys/{before}")
        self.assertEqual(key.json["state"], "destroyed", key)
        until("the key is out of the token", lambda: before in
              [r["data"]["key_id"] for r in all_records(self.a) if r["type"] == "key.erased"])
        self.assertTrue(granted(stamp(self.a, b"on")))
        for kind in ("prepared", "certified", "activated", "retired"):
            self.assertTrue(events(self.a, kind), kind)

    def test_the_active_unit_in_doubt_is_retired_and_another_one_takes_over(self):
        doubted = active(self.a)["unit_id"]
        admin(self.a, "retire", doubted, "--reason", "key in doubt", "--stop-stamping")
        until("another unit is active", lambda: active(self.a))
        self.assertNotEqual(active(self.a)["unit_id"], doubted)
        until("it stamps", lambda: granted(stamp(self.a, b"again")))

    def test_a_command_that_is_repeated_makes_no_second_unit(self):
        first = self.a.api("POST", UNITS, key="prepare-once")
        again = self.a.api("POST", UNITS, key="prepare-once")
        self.assertEqual((first.status, again.status, first.json["unit_id"]), (201, 201, again.json["unit_id"]))
        self.assertEqual(self.a.api("POST", UNITS, key="prepare-twice").status, 409)
        admin(self.a, "retire", first.json["unit_id"], "--reason", "not needed")
        self.assertEqual(len([u for u in units(self.a) if u["unit_id"] == first.json["unit_id"]]), 1)

    def test_the_chain_is_cacheable(self):
        first = request(self.a, "GET", "/tsa/chain.pem")
        self.assertIn("max-age", first.headers["Cache-Control"])
        again = request(self.a, "GET", "/tsa/chain.pem", headers={"If-None-Match": first.headers["ETag"]})
        self.assertEqual((again.status, again.body), (304, b""))

    def test_the_trusted_root_knows_all_units(self):
        before = active(self.a)
        rotate(self.a)
        root = self.a.api("GET", "/api/v1/code-signing/trusted-root")
        self.assertEqual(root.status, 200, root)
        leaves = {c["certChain"]["certificates"][0]["rawBytes"] for c in root.json["timestampAuthorities"]}
        self.assertIn(before["certificate_chain"][0], leaves)
        self.assertIn(active(self.a)["certificate_chain"][0], leaves)


class Ahead(unittest.TestCase):
    def test_the_next_unit_is_made_and_takes_over_by_itself_under_load(self):
        a = Appliance("tsahead", protocols__tsa__unit__key_usage_period="40s",
                      protocols__tsa__unit__prepare_ahead="30s", protocols__tsa__unit__activate_ahead="22s",
                      protocols__tsa__unit__certificate_validity="600s", protocols__tsa__unit__overlap="1s").start()
        files = Files()
        load = None
        try:
            load = Load(a, 3)
            until("two units followed each other", lambda: len(events(a, "activated")) >= 3, 120)
            load.more(20)
            load.stop()
            self.assertEqual([str(b) for b in load.bad], [])
            chain = pem_chain(a)
            for at in (0, len(load.stamps) // 2, -1):
                self.assertTrue(files.verifies(*load.stamps[at], chain))
        finally:
            if load is not None:
                load.stop()
            files.close()
            a.clean()


class Elsewhere(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("tsext", protocols__tsa__unit__issuance="external",
                          protocols__tsa__unit__overlap="1s").start()
        cls.files = Files()
        cls.authority = Authority(cls.files)

    @classmethod
    def tearDownClass(cls):
        cls.a.clean()
        cls.files.close()

    def bring(self, unit, *more, **kinds):
        csr = json.loads(admin(self.a, "csr", unit, "--subject", "CN=Outside TSU,O=Example").stdout)["csr_pem"]
        pem = self.authority.chain(csr, *more, **kinds)
        return pem, admin(self.a, "import", unit, "--chain", self.files.put("chain.pem", b"".join(pem)), check=False)

    def test_1_without_a_certificate_nothing_is_stamped_and_it_is_said(self):
        waiting = until("a unit was prepared", lambda: by_state(self.a, "prepared"))
        self.assertEqual([u["issuance"] for u in waiting], ["external"])
        text = text_of(stamp(self.a, b"early"))
        self.assertIn("Status: Rejected.", text)
        self.assertIn("no time-stamping unit", text)
        ready = self.a.probe_get("/readyz")
        self.assertEqual(ready.status, 200)
        self.assertIn("tsa_units", ready.json["degraded"])
        self.assertEqual(request(self.a, "GET", "/tsa/chain.pem").status, 503)
        found = self.a.api("POST", "/api/v1/protocols/tsa/qualification").json["unmet"]
        self.assertIn("timestamping_certificate", [f["condition"] for f in found])

    def test_2_what_is_not_for_stamping_alone_or_not_whole_is_refused(self):
        unit = by_state(self.a, "prepared")[0]["unit_id"]
        for kinds in ({"usage": "timeStamping"}, {"usage": "critical,timeStamping,codeSigning"},
                      {"key_usage": "critical,digitalSignature,keyEncipherment"}):
            _, done = self.bring(unit, **kinds)
            self.assertNotEqual(done.returncode, 0, kinds)
            self.assertIn("certificate_refused", done.stdout + done.stderr)
        pem, _ = self.bring(unit, usage="timeStamping")
        for chain in ([pem[0]], pem[:2], [pem[0], pem[2]], pem[1:]):
            done = admin(self.a, "import", unit, "--chain", self.files.put("bad.pem", b"".join(chain)), check=False)
            self.assertNotEqual(done.returncode, 0)
        self.assertEqual(by_state(self.a, "prepared")[0]["unit_id"], unit)

    def test_3_an_imported_chain_stamps_and_verifies(self):
        unit = by_state(self.a, "prepared")[0]["unit_id"]
        _, done = self.bring(unit)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        until("it takes over by itself", lambda: active(self.a))
        until("it is in place", lambda: granted(stamp(self.a, b"outside")))
        reply, chain = stamp(self.a, b"outside"), pem_chain(self.a)
        self.assertEqual(len(blocks(chain)), 3)
        self.assertTrue(self.files.verifies(b"outside", reply, chain))
        until("readiness has it", lambda: "tsa_units" not in self.a.probe_get("/readyz").json.get("degraded", []))
        found = self.a.api("POST", "/api/v1/protocols/tsa/qualification").json["unmet"]
        self.assertNotIn("timestamping_certificate", [f["condition"] for f in found if "30 days" not in f["explanation"]])

    def test_4_an_expired_unit_is_refused_and_never_replaced_by_another_key(self):
        made = until("the next one waits", lambda: by_state(self.a, "prepared"))[0]["unit_id"]
        end = time.time() + 8
        stamp_of = time.strftime("%Y%m%d%H%M%SZ", time.gmtime(end))
        _, done = self.bring(made, "-not_after", stamp_of)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        admin(self.a, "activate", made)
        self.assertTrue(granted(stamp(self.a, b"in time")))
        until("its end has passed", lambda: not granted(stamp(self.a, b"late")), 40)
        text = text_of(stamp(self.a, b"late"))
        self.assertIn("time source is not available", text)
        self.assertIn("usage period", text)
        self.assertIn("tsa_units", self.a.probe_get("/readyz").json["degraded"])


class Killed(unittest.TestCase):
    def test_a_kill_at_any_moment_of_a_rotation_leaves_one_active_unit_and_nothing_half_made(self):
        a = Appliance("tskill", protocols__tsa__unit__overlap="1s").start()
        files = Files()
        try:
            early = stamp(a, b"early")
            for round_ in range(6):
                done = threading.Event()

                def turn():
                    try:
                        rotate(a)
                    except Exception:  # noqa: BLE001 - it is killed in the middle of it
                        pass
                    done.set()

                thread = threading.Thread(target=turn)
                thread.start()
                threading.Event().wait(0.03 + 0.06 * round_)
                os.kill(a.child("svc-api"), signal.SIGKILL)
                thread.join()
                until("it is ready again", a.is_ready, 60)
                until("it stamps again", lambda: granted(stamp(a, b"again")), 60)
                found = units(a)
                self.assertEqual(len([u for u in found if u["state"] == "active"]), 1, found)
                waiting = [u for u in found if u["state"] in ("prepared", "certified")]
                self.assertLessEqual(len(waiting), 1, found)
                until("what waits is certified", lambda: not by_state(a, "prepared"))
                for unit in waiting:
                    admin(a, "activate", unit["unit_id"])
            self.assertEqual([u["number"] for u in units(a)], list(range(1, len(units(a)) + 1)))
            chain = pem_chain(a)
            self.assertTrue(files.verifies(b"early", early, chain))
            self.assertTrue(files.verifies(b"now", stamp(a, b"now"), chain))
        finally:
            files.close()
            a.clean()


if __name__ == "__main__":
    unittest.main()
