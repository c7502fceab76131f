"""Trusted time: an appliance whose clock nobody vouches for stamps nothing, says so, and starts again by itself."""
import json
import re
import socket
import struct
import subprocess
import threading
import time
import unittest

from appliance import Appliance, all_records, until

ERA_1970 = 2208988800


def query(data):
    return subprocess.run(["openssl", "ts", "-query", "-data", "/dev/stdin", "-sha256", "-cert"], input=data,
                          capture_output=True, check=True).stdout


def text_of(reply):
    return subprocess.run(["openssl", "ts", "-reply", "-in", "/dev/stdin", "-text"], input=reply.body,
                          capture_output=True).stdout.decode()


def changes(appliance):
    return [(r["type"], r["data"]["reason"], r["data"]["instance"]) for r in all_records(appliance)
            if r["type"].startswith("tsa.clock.")]


def metric(appliance, name):
    lines = appliance.probe_get("/metrics").body.decode().splitlines()
    return {line.split(" ")[0]: float(line.split(" ")[1]) for line in lines if line.startswith(name)}


class TimeServer:
    """A small NTP server of this test: serves this machine's time, `off` seconds from it."""

    def __init__(self):
        self.off, self.silent, self.asked = 0.0, False, 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.name = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.going = True
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    @staticmethod
    def stamp(seconds):
        return struct.pack(">II", int(seconds) + ERA_1970, int(seconds % 1 * 2**32))

    def serve(self):
        self.socket.settimeout(0.05)
        while self.going:
            try:
                request, peer = self.socket.recvfrom(512)
            except TimeoutError:
                continue
            self.asked += 1
            if self.silent:
                continue
            now = time.time() + self.off
            head = struct.pack(">BBbbII4s", 4 << 3 | 4, 1, 6, -20, 0, 0, b"TEST")
            self.socket.sendto(head + self.stamp(now - 1) + request[40:48] + self.stamp(now) + self.stamp(now), peer)

    def close(self):
        self.going = False
        self.thread.join()
        self.socket.close()


class Clock(unittest.TestCase):
    def stamped(self, appliance):
        return "Status: Granted." in text_of(appliance.tsa(query(b"data")))

    def qualification(self, appliance, token="OPERATOR"):
        return appliance.api("POST", "/api/v1/protocols/tsa/qualification", token=token)


class Untrusted(Clock):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("tsaclock", protocols__tsa__clock__trust_host=False).start()
        synchronised = metric(cls.a, "svc_tsa_clock_synchronised")
        if synchronised.get("svc_tsa_clock_synchronised") == 1:
            cls.a.clean()
            raise unittest.SkipTest("this machine's clock is synchronised")

    @classmethod
    def tearDownClass(cls):
        cls.a.clean()

    def test_an_unsynchronised_host_gets_time_not_available(self):
        before = len(all_records(self.a))
        text = text_of(self.a.tsa(query(b"data")))
        self.assertIn("Status: Rejected.", text)
        self.assertIn("the TSA's time source is not available", text)
        self.assertIn("not synchronised", text)
        self.assertEqual(len([r for r in all_records(self.a)[before:] if r["type"] == "tsa.timestamp.issued"]), 0)

    def test_it_is_recorded_exactly_once_and_shown(self):
        until("the change is recorded", lambda: changes(self.a))
        for _ in range(5):
            self.a.tsa(query(b"data"))
        self.assertEqual([c[:2] for c in changes(self.a)], [("tsa.clock.lost", "unsynchronised")])
        ready = self.a.probe_get("/readyz")
        self.assertEqual(ready.status, 200)
        self.assertIn("tsa", ready.json["degraded"])
        self.assertEqual(ready.json["checks"]["tsa"], "tsa_time_not_available")
        self.assertEqual(metric(self.a, "svc_tsa_clock_state")['svc_tsa_clock_state{state="unsynchronised"}'], 1)
        self.assertGreaterEqual(
            metric(self.a, "svc_tsa_clock_refusals_total")['svc_tsa_clock_refusals_total{reason="unsynchronised"}'], 5)

    def test_qualification_explains_it_and_everything_else_is_met(self):
        answer = self.qualification(self.a)
        self.assertEqual(answer.status, 200, answer)
        self.assertIs(answer.json["ready"], False)
        self.assertEqual([f["condition"] for f in answer.json["unmet"]], ["trusted_clock"], answer)
        self.assertIn("not synchronised", answer.json["unmet"][0]["explanation"])
        self.assertIn("chrony", answer.json["unmet"][0]["recovery"])
        self.assertEqual([k for k, v in answer.json["conditions"].items() if not v], ["trusted_clock"])
        said = self.a.cli("protocols", "tsa", "qualify", check=False)
        self.assertEqual(said.returncode, 1, said)
        self.assertIn("not met: trusted_clock", said.stdout)
        self.assertIn("what to do: run chrony", said.stdout)

    def test_qualification_takes_no_body_and_needs_its_permission(self):
        self.assertEqual(self.a.api("POST", "/api/v1/protocols/tsa/qualification", {}).status, 400)
        self.assertEqual(self.a.api("POST", "/api/v1/protocols/tsa/qualification", token=None).status, 401)
        self.assertEqual(self.a.api("GET", "/api/v1/protocols/tsa/qualification").status, 405)


class Trusting(Clock):
    def test_trust_in_the_host_is_said_plainly_and_qualifies(self):
        a = Appliance("tsaclock").start()
        try:
            self.assertTrue(self.stamped(a))
            until("the state is recorded", lambda: changes(a))
            self.assertEqual([c[:2] for c in changes(a)], [("tsa.clock.trusted", "trusted")])
            with open(a.log_path, errors="replace") as f:
                self.assertIn("tsa_trusts_host_clock", f.read())
            before = [r["type"] for r in all_records(a)]
            answer = self.qualification(a)
            self.assertEqual((answer.status, answer.json["ready"], answer.json["unmet"]), (200, True, []), answer)
            self.assertEqual(answer.json["clock"], "host")
            self.assertIn("trust_host", answer.json["notices"][0])
            self.assertRegex(answer.json["endpoint"], r"^https://.*/tsa$")
            self.assertEqual(answer.json["policy_oid"], "1.3.6.1.4.1.57264.2.1.1")
            for secret in ("default", "BEGIN", a.dir):  # tenant, certificates, paths
                self.assertNotIn(secret, answer.body.decode())
            self.assertEqual([r["type"] for r in all_records(a)], before)  # it changes nothing
            said = a.cli("protocols", "tsa", "qualify")
            self.assertTrue(said.stdout.startswith("ready\n"), said)
            self.assertEqual(json.loads(a.cli("--json", "protocols", "tsa", "qualify").stdout)["ready"], True)
        finally:
            a.clean()

    def test_after_a_restart_no_earlier_time_is_stamped(self):
        """The mark comes from the log: a clock behind the last issued time is refused until it has passed."""
        a = Appliance("tsaclock").start()
        try:
            first = self.time_of(a)
            a.stop()
            a.start()
            self.assertGreater(self.time_of(a), first)
        finally:
            a.clean()

    def time_of(self, a):
        text = text_of(a.tsa(query(b"data")))
        self.assertIn("Status: Granted.", text)
        found = re.search(r"Time stamp: (.*?)(\.\d+)? (\d{4}) GMT", text)
        when = time.strptime(f"{found.group(1)} {found.group(3)}", "%b %d %H:%M:%S %Y")
        return time.mktime(when) + float(found.group(2) or 0)


class Servers(Clock):
    """The kernel's word is waived, the servers' is asked for: what they agree on decides."""

    def setUp(self):
        self.servers = [TimeServer() for _ in range(3)]

    def tearDown(self):
        for server in self.servers:
            server.close()

    def start(self):
        return Appliance("tsaclock", protocols__tsa__clock__servers=[f'"{s.name}"' for s in self.servers],
                         protocols__tsa__clock__interval="1s").start()

    def test_one_liar_changes_nothing_and_two_stop_the_stamps_until_they_tell_the_truth(self):
        self.servers[2].off = 3600
        a = self.start()
        try:
            until("two honest servers are enough", lambda: self.stamped(a))
            self.assertLess(abs(metric(a, "svc_tsa_clock_offset_seconds")["svc_tsa_clock_offset_seconds"]), 0.5)
            self.assertLess(metric(a, "svc_tsa_clock_max_error_seconds")["svc_tsa_clock_max_error_seconds"], 1)
            asked = self.servers[2].asked
            until("some rounds are over", lambda: self.servers[2].asked > asked + 2)
            self.assertTrue(self.stamped(a))
            self.assertEqual(self.qualification(a).json["clock"], "servers")

            self.servers[1].off = 3600
            until("a majority says that this clock is off", lambda: not self.stamped(a))
            text = text_of(a.tsa(query(b"data")))
            self.assertIn("the TSA's time source is not available", text)
            self.assertIn("is off from what the time servers agree on", text)
            self.servers[1].off = 0
            until("it is trusted again", lambda: self.stamped(a))

            until("all is recorded", lambda: len(changes(a)) >= 3)
            found = changes(a)
            self.assertEqual([c[0] for c in found], ["tsa.clock.trusted", "tsa.clock.lost", "tsa.clock.trusted"])
            self.assertEqual(found[1][1], "offset")
            self.assertEqual(len({c[2] for c in found}), 1)
        finally:
            a.clean()

    def test_silent_servers_stop_the_stamps_after_four_intervals(self):
        for server in self.servers:
            server.silent = True
        a = self.start()
        try:
            until("the first round is over", lambda: "too few" in text_of(a.tsa(query(b"data"))))
            self.servers[0].silent = self.servers[1].silent = False
            until("two answer", lambda: self.stamped(a))
            self.servers[1].silent = True
            until("the agreement is too old", lambda: not self.stamped(a))
            self.assertIn("too few of the time servers agree", text_of(a.tsa(query(b"data"))))
        finally:
            a.clean()

    def test_a_quorum_that_a_minority_could_outvote_is_no_configuration(self):
        a = Appliance("tsaclock", protocols__tsa__clock__servers=[f'"{s.name}"' for s in self.servers],
                      protocols__tsa__clock__quorum=1)
        try:
            a.spawn()
            until("it refuses to start", lambda: "protocols.tsa.clock.quorum" in a.tail(200))
        finally:
            a.clean()


if __name__ == "__main__":
    unittest.main()
