"""A dead or hanging signer fails closed inside the deadline, and signing works again when it returns."""
import os
import signal
import subprocess
import unittest

from appliance import BIN, Appliance, all_records, digest_of, free_port, make_key, run, sign_body, until


class Outage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("outage", signer__operation_timeout="2s", code_signing__wait="4s").start()
        cls.key_id = make_key(cls.a)

    @classmethod
    def tearDownClass(cls):
        cls.a.clean()

    def tsq(self, data=b"hello"):
        done = run("openssl", "ts", "-query", "-data", "/dev/stdin", "-sha256", "-cert", input=data, text=False)
        return done.stdout

    def test_stopped_signer_fails_closed_and_recovers(self):
        session = self.a.session("OPERATOR")
        body = sign_body(session, self.key_id, digest_of(b"while stopped"))
        signer = self.a.child("svc-signer")
        os.kill(signer, signal.SIGSTOP)
        try:
            def says_so():
                ready = self.a.probe_get("/readyz")
                return ready.status == 503 and ready.json["checks"]["signer"] != "ok"

            until("/readyz says so", says_so)
            answer = session.api("POST", "/api/v1/code-signing/sign", body, key="outage-1")
            self.assertEqual(answer.status, 503, answer)
            self.assertIn(answer.json["code"], ("signer_unavailable", "deadline_exceeded", "token_unavailable"))
            self.assertIn("Retry-After", answer.headers)
            reply = self.a.tsa(self.tsq())
            self.assertEqual((reply.status, reply.headers["Content-Type"]), (200, "application/timestamp-reply"))
            text = subprocess.run(["openssl", "ts", "-reply", "-in", "/dev/stdin", "-text"], input=reply.body,
                                  capture_output=True).stdout
            self.assertIn(b"Rejected", text)
        finally:
            os.kill(signer, signal.SIGCONT)
        until("ready again", self.a.is_ready)
        again = until("the same command succeeds", lambda: (lambda r: r if r.status == 200 else None)(
            session.api("POST", "/api/v1/code-signing/sign", body, key="outage-1")), 60)
        operation = again.json["operation_id"]
        signed = [r for r in all_records(self.a) if r["type"] == "codesign.signed" and r["data"]["operation_id"] == operation]
        self.assertEqual(len(signed), 1)

    def test_killed_signer_comes_back_by_itself(self):
        before = self.a.child("svc-signer")
        os.kill(before, signal.SIGKILL)
        until("a new signer", lambda: [p for p in self.a.pids("svc-signer") if p != before], 60)
        until("ready again", self.a.is_ready, 60)
        self.assertIn("svc_signer_restarts_total", self.a.probe_get("/metrics").body.decode())
        session = self.a.session("OPERATOR")
        body = sign_body(session, self.key_id, digest_of(b"after"))
        self.assertEqual(session.api("POST", "/api/v1/code-signing/sign", body, key=True).status, 200)

    def test_no_key_or_pin_in_the_api_process(self):
        with open(f"{self.a.dir}/data/signer/pin") as f:
            pin = f.read().strip().encode()
        self.assertGreaterEqual(len(pin), 8)
        api = self.a.child("svc-api")
        found = False
        with open(f"/proc/{api}/maps") as maps, open(f"/proc/{api}/mem", "rb", 0) as mem:
            for line in maps:
                span, mode = line.split()[:2]
                if "r" not in mode or "[v" in line:
                    continue
                low, high = (int(x, 16) for x in span.split("-"))
                try:
                    mem.seek(low)
                    found = found or pin in mem.read(high - low)
                except (OSError, ValueError, OverflowError):
                    continue
        self.assertFalse(found)
        for path in (f"/proc/{api}/environ", f"/proc/{api}/cmdline"):
            with open(path, "rb") as f:
                self.assertNotIn(pin, f.read())


class Gate(unittest.TestCase):
    def refuse(self, a, code, text):
        a.spawn()
        self.assertEqual(a.process.wait(60), code, a.tail())
        self.assertIn(text, a.tail())
        for port in (a.port, a.plain, a.probe):
            import socket
            with self.assertRaises(OSError):
                socket.create_connection(("127.0.0.1", port), timeout=1)

    def test_altered_fips_module_ends_the_start(self):
        a = Appliance("gate")
        module = f"{a.dir}/fips.so"
        with open("/usr/lib/x86_64-linux-gnu/ossl-modules/fips.so", "rb") as f:
            data = bytearray(f.read())
        data[len(data) // 2] ^= 1
        with open(module, "wb") as f:
            f.write(data)
        a.settings["fips.module"] = module
        try:
            self.refuse(a, 3, "fips")
        finally:
            a.clean()

    def test_missing_fips_module_ends_the_start(self):
        a = Appliance("gate2")
        a.settings["fips.module"] = f"{a.dir}/absent.so"
        try:
            self.refuse(a, 3, "absent.so")
        finally:
            a.clean()

    def test_bad_configuration_names_line_and_key(self):
        a = Appliance("conf")
        a.settings["protocols.tsa.accuracy_ms"] = 0
        a.settings["no_such_key"] = "x"
        try:
            self.refuse(a, 2, "protocols.tsa.accuracy_ms")
            self.assertIn("no_such_key", a.tail())
            checked = a.appliance("--check-config", check=False)
            self.assertEqual(checked.returncode, 2)
        finally:
            a.clean()

    def test_check_config_reports_the_fips_module(self):
        a = Appliance("check")
        a.write_config()
        try:
            done = a.appliance("--check-config")
            self.assertRegex(done.stdout, r"crypto\.fips\.module_active\s*[=:]\s*true")
        finally:
            a.clean()


if __name__ == "__main__":
    unittest.main()
