"""The supervisor: what it refuses before anything runs, what it restarts, how it stops, and what it never gives away."""
import json
import os
import signal
import socket
import unittest

from appliance import BIN, Appliance, run, until

FIPS_MODULE = "/usr/lib/x86_64-linux-gnu/ossl-modules/fips.so"
PROGRAMS = ("svc-api", "svc-signer", "nats-server", "postgres")
USERS = {"postgres": 640, "nats-server": 641, "svc-signer": 642, "svc-api": 643}


def text_of(path):
    with open(path, errors="replace") as f:
        return f.read()


def listening(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def events(a, name):
    """The supervisor's log records of this event, oldest first."""
    found = []
    with open(a.log_path, errors="replace") as f:
        for line in f:
            if line.startswith("{"):
                record = json.loads(line)
                if record["program"] == "svc-appliance" and record["event"] == name:
                    found.append(record)
    return found


class Refused(unittest.TestCase):
    """Nothing is started, nothing listens, nothing is written when the start is refused."""

    def setUp(self):
        self.a = Appliance("refused")

    def tearDown(self):
        self.a.clean()

    def refuse(self, code, *texts, args=(), env=None):
        self.a.write_config()
        done = run(f"{BIN}/svc-appliance", "run", "--config", self.a.config, *args, check=False, timeout=60,
                   env={**os.environ, **(env or {})})
        self.assertEqual(done.returncode, code, done.stderr)
        for text in texts:
            self.assertIn(text, done.stderr)
        for port in (self.a.port, self.a.plain, self.a.probe):
            self.assertFalse(listening(port))
        return done

    def test_bad_configuration_names_line_and_key(self):
        self.a.settings["http.threads"] = 1
        self.a.settings["nonsense"] = "x"
        done = self.refuse(2, "http.threads: 1 is below 8", "nonsense: no such key")
        lines = text_of(self.a.config).split("\n")
        number = next(i for i, line in enumerate(lines, 1) if line.strip().startswith("threads:"))
        self.assertIn(f":{number}: http.threads", done.stderr)
        self.assertFalse(os.path.exists(self.a.settings["data_dir"]))

    def test_bad_variable_is_named(self):
        self.refuse(2, "SVC_HTTP_THREADS", env={"SVC_HTTP_THREADS": "many"})

    def test_missing_configuration_file(self):
        done = run(f"{BIN}/svc-appliance", "--config", "/nonexistent.yaml", check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("/nonexistent.yaml", done.stderr)

    def test_unknown_argument(self):
        done = run(f"{BIN}/svc-appliance", "frobnicate", check=False)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(len(done.stderr.strip().split("\n")), 1)

    def gate(self, *args, env=None):
        done = self.refuse(3, "self-test gate: FIPS module", args=args, env=env)
        self.assertEqual(len([x for x in done.stderr.strip().split("\n") if not x.startswith("{")]), 1)
        self.assertFalse(os.path.exists(self.a.settings["data_dir"]))

    def test_fips_module_altered_by_one_byte(self):
        copy = f"{self.a.dir}/fips.so"
        with open(FIPS_MODULE, "rb") as f:
            module = bytearray(f.read())
        module[len(module) // 2] ^= 1
        with open(copy, "wb") as f:
            f.write(module)
        self.a.settings["fips.module"] = copy
        self.gate()

    def test_fips_module_missing(self):
        self.a.settings["fips.module"] = f"{self.a.dir}/none.so"
        self.gate()

    def test_fips_option_and_variable_require_what_the_file_does_not(self):
        self.a.settings["fips.module"] = f"{self.a.dir}/none.so"
        self.a.settings["fips.required"] = False
        self.gate("--fips")
        self.gate(env={"SVC_FIPS": "1"})

    def test_a_taken_port_is_named(self):
        for key, port in (("http.listen", self.a.port), ("http.probe_listen", self.a.probe),
                          ("nats.embedded_port", self.a.settings["nats.embedded_port"])):
            with self.subTest(key), socket.socket() as s:
                s.bind(("127.0.0.1", port))
                s.listen(1)
                self.a.write_config()
                done = run(f"{BIN}/svc-appliance", "--config", self.a.config, check=False, timeout=60)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(f"{key}: cannot listen on 127.0.0.1:{port}", done.stderr)

    def test_not_root(self):
        self.a.write_config()
        done = run("setpriv", "--reuid=65534", "--clear-groups", f"{BIN}/svc-appliance", "--config", self.a.config,
                   check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("must be started as root", done.stderr)

    def test_check_config_tells_what_resolved(self):
        self.a.write_config()
        text = self.a.appliance("--check-config").stdout
        self.assertIn(f"http.listen = 127.0.0.1:{self.a.port}", text)
        self.assertIn("crypto.fips.module_active = true", text)
        printed = json.loads(self.a.appliance("--check-config", "--json").stdout)
        self.assertIs(printed["crypto"]["fips"]["module_active"], True)
        self.assertFalse(os.path.exists(self.a.settings["data_dir"]))


class Running(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("super").start()

    @classmethod
    def tearDownClass(cls):
        cls.a.clean()

    def state(self):
        with open(f"{self.a.dir}/run/state.json") as f:
            return json.load(f)

    def test_a_killed_part_comes_back_and_is_counted(self):
        names = {"svc-api": "api", "svc-signer": "signer", "nats-server": "nats", "postgres": "postgres"}
        for program, unit in names.items():
            with self.subTest(program):
                before, old = self.state()[f"{unit}_restarts"], self.a.child(program)
                os.kill(old, signal.SIGKILL)
                until(f"{unit} counted", lambda: self.state()[f"{unit}_restarts"] == before + 1)
                until(f"{program} runs again", lambda: self.a.child(program) != old)
                until("ready again", self.a.is_ready, 90)
        metrics = self.a.probe_get("/metrics").body.decode()
        self.assertIn("svc_signer_restarts_total 1", metrics)

    def test_each_part_is_its_own_user_and_cannot_become_another(self):
        for program, uid in USERS.items():
            with open(f"/proc/{self.a.child(program)}/status") as f:
                status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
            with self.subTest(program):
                self.assertEqual(set(status["Uid"].split()), {str(uid)})
                self.assertEqual(status["NoNewPrivs"], "1")
                self.assertEqual(int(status["CapEff"], 16) | int(status["CapPrm"], 16), 0)
                self.assertNotIn("0", status["Groups"].split())

    def test_no_secret_in_arguments_environment_or_log(self):
        secrets = [text_of(f"{self.a.dir}/data/signer/pin").strip(),
                   text_of(f"{self.a.dir}/data/nats-client/credentials").split(":")[1].strip(),
                   *(self.a.token(role).split("_", 2)[2] for role in ("ADMIN", "OPERATOR", "APPROVER", "CI", "AUDITOR"))]
        places = {"log": text_of(self.a.log_path)}
        for program in PROGRAMS:
            pid = self.a.child(program)
            for name in ("cmdline", "environ"):
                places[f"{program} {name}"] = text_of(f"/proc/{pid}/{name}")
        for place, text in places.items():
            for n, secret in enumerate(secrets):
                self.assertGreaterEqual(len(secret), 20)
                self.assertNotIn(secret, text, f"secret {n} in {place}")

    def test_files_are_their_users_only(self):
        d = f"{self.a.dir}/data"
        wanted = {"client.env": (0, 0o600), "postgres": (640, 0o700), "nats": (641, 0o700), "signer": (642, 0o700),
                  "signer/pin": (642, 0o600), "softhsm": (642, 0o700), "api": (643, 0o700), "api/tls.key": (643, 0o600),
                  "api/fingerprint.key": (643, 0o600), "nats-client/credentials": (643, 0o600), "ca.pem": (0, 0o644)}
        for name, (uid, mode) in wanted.items():
            about = os.stat(f"{d}/{name}")
            self.assertEqual((about.st_uid, about.st_mode & 0o7777), (uid, mode), name)

    def test_a_second_supervisor_is_refused_and_the_first_does_not_notice(self):
        for command in ("run", "rebuild"):
            done = self.a.appliance(command, check=False)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("another svc-appliance runs on", done.stderr)
        until("it is ready", self.a.is_ready)

    def test_the_listener_is_trusted_by_its_authority_only(self):
        self.assertEqual(self.a.api("GET", "/api/v1/keys").status, 200)
        for name in ("localhost", "127.0.0.1"):
            done = run("openssl", "s_client", "-connect", f"127.0.0.1:{self.a.port}", "-CAfile", f"{self.a.dir}/data/ca.pem",
                       "-verify_return_error", "-verify_ip" if name[0] == "1" else "-verify_hostname", name, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotEqual(run("openssl", "s_client", "-connect", f"127.0.0.1:{self.a.port}", "-verify_return_error",
                                check=False).returncode, 0)
        authority = run("openssl", "x509", "-in", f"{self.a.dir}/data/ca.pem", "-noout", "-ext",
                        "basicConstraints,keyUsage").stdout
        self.assertIn("CA:TRUE, pathlen:0", authority)

    def test_token_and_tenant_commands(self):
        made = json.loads(self.a.appliance("token", "create", "--subject", "e2e", "--role", "ci", "--ttl", "1h", "--json").stdout)
        self.assertEqual(self.a.api("GET", "/api/v1/keys", token=made["token"]).status, 200)
        self.assertIn(made["token_id"], self.a.appliance("token", "list").stdout)
        self.a.appliance("token", "revoke", made["token_id"], "--reason", "done")
        until("revoked", lambda: self.a.api("GET", "/api/v1/keys", token=made["token"]).status == 401)
        self.a.appliance("tenant", "create", "other-one")
        self.assertIn("other-one", self.a.appliance("tenant", "list").stdout.split())
        self.assertEqual(self.a.appliance("token", "create", "--subject", "x", check=False).returncode, 2)


class Stopping(unittest.TestCase):
    def test_drains_in_order_starts_again_and_survives_its_own_death(self):
        a = Appliance("stop")
        try:
            a.start()
            tokens = dict(a.env)
            pids = {program: a.child(program) for program in PROGRAMS}
            self.assertEqual(a.stop(), 0)
            self.assertEqual([e["unit"] for e in events(a, "stopped")], ["api", "signer", "nats", "postgres"])
            self.assertEqual(events(a, "forced"), [])
            for program, pid in pids.items():
                self.assertFalse(os.path.exists(f"/proc/{pid}"), program)
            for port in (a.port, a.plain, a.probe, a.settings["nats.embedded_port"]):
                self.assertFalse(listening(port))

            a.start()
            self.assertEqual(a.env, tokens, "tokens and certificates are kept")
            pids = {program: a.child(program) for program in PROGRAMS}
            a.process.kill()
            a.process.wait()
            for program, pid in pids.items():
                until(f"{program} dies with its supervisor", lambda: not os.path.exists(f"/proc/{pid}"))
            a.start()
            self.assertEqual(a.api("GET", "/api/v1/keys").status, 200)
            self.assertEqual(a.stop(), 0)
        finally:
            a.clean()

    def test_a_stop_while_starting_ends_at_once_and_leaves_nothing(self):
        a = Appliance("early")
        try:
            a.spawn()
            until("it has its folders", lambda: os.path.exists(f"{a.dir}/data/lock"))
            self.assertEqual(a.stop(), 0)
            for program in PROGRAMS:
                self.assertEqual(a.pids(program), [])
            a.start()
            self.assertEqual(a.stop(), 0)
        finally:
            a.clean()

    def test_a_lost_pin_is_not_replaced(self):
        a = Appliance("pin")
        try:
            a.start()
            a.stop()
            os.rename(f"{a.dir}/data/signer/pin", f"{a.dir}/pin.kept")
            done = a.appliance("run", check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("restore the file", done.stderr)
            os.rename(f"{a.dir}/pin.kept", f"{a.dir}/data/signer/pin")
            a.start()
            self.assertEqual(a.stop(), 0)
        finally:
            a.clean()


class External(unittest.TestCase):
    """Stores that run elsewhere are used and not started."""

    def test_external_stores_are_only_asked(self):
        a, b = Appliance("stores"), None
        try:
            a.start()
            socket_dir = f"{a.dir}/run/postgres"
            b = Appliance("external", postgres__url=f"host={socket_dir} port=5432 dbname=svc",
                          nats__url=f"nats://127.0.0.1:{a.settings['nats.embedded_port']}",
                          nats__credentials_file=f"{a.dir}/data/nats-client/credentials")
            b.spawn()

            def ready():
                self.assertIsNone(b.process.poll(), b.tail())
                return b.is_ready()

            until("the second one is ready", ready, 90)
            self.assertEqual(b.pids("postgres") + b.pids("nats-server"), [])
            self.assertFalse(os.path.exists(f"{b.dir}/data/postgres"))
            self.assertFalse(os.path.exists(f"{b.dir}/data/client.env"), "no first tokens outside the embedded profile")
            self.assertEqual(b.stop(), 0)
            until("it is ready", a.is_ready)
        finally:
            if b is not None:
                b.clean()
            a.clean()


if __name__ == "__main__":
    unittest.main()
