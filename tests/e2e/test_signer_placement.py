"""Where svc-signer is: behind the socket that the supervisor holds for it, or on another host over mutual TLS."""
import os
import pwd
import secrets
import shutil
import signal
import stat
import subprocess
import tempfile
import unittest

from appliance import BIN, Appliance, digest_of, free_port, make_key, run, sign_body, until
from certificates import Workshop

API, SIGNER = pwd.getpwnam("svc-api"), pwd.getpwnam("svc-signer")
NAMES = {"signer": "DNS:signer.test", "api": "URI:spiffe://test/api", "other": "DNS:other.test"}


def sign(session, key_id, data, **more):
    body = sign_body(session, key_id, digest_of(data))
    return session.api("POST", "/api/v1/code-signing/sign", body, key=True, **more)


class Door(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("door").start()
        cls.socket = f"{cls.a.dir}/run/signer/signer.sock"
        cls.key_id = make_key(cls.a)

    @classmethod
    def tearDownClass(cls):
        cls.a.clean()

    def mode(self):
        return stat.S_IMODE(os.stat(self.socket).st_mode)

    def test_the_socket_is_the_apis_alone_and_handed_to_the_signer(self):
        about, folder = os.stat(self.socket), os.stat(os.path.dirname(self.socket))
        self.assertEqual((stat.S_IMODE(about.st_mode), about.st_uid, about.st_gid), (0o600, API.pw_uid, API.pw_gid))
        self.assertEqual((stat.S_IMODE(folder.st_mode), folder.st_uid), (0o700, API.pw_uid))
        signer = self.a.child("svc-signer")
        self.assertEqual(os.stat(f"/proc/{signer}").st_uid, SIGNER.pw_uid)
        inode = os.readlink(f"/proc/{signer}/fd/3")
        self.assertIn(inode, [os.readlink(f"/proc/{self.a.process.pid}/fd/{fd}")
                              for fd in os.listdir(f"/proc/{self.a.process.pid}/fd")])
        with open(f"/proc/{signer}/environ", "rb") as f:
            self.assertIn(f"LISTEN_PID={signer}".encode(), f.read().split(b"\0"))
        for user in (SIGNER, pwd.getpwnam("nobody")):
            done = run("setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "python3", "-c",
                       f"import socket; socket.socket(socket.AF_UNIX).connect('{self.socket}')", check=False)
            self.assertIn("PermissionError", done.stderr)

    def test_who_asks_while_the_signer_restarts_waits_for_the_next_one(self):
        session = self.a.session("OPERATOR")
        for i in range(3):
            before = self.a.child("svc-signer")
            body = sign_body(session, self.key_id, digest_of(f"restart {i}".encode()))
            os.kill(before, signal.SIGKILL)
            until("it is gone", lambda: before not in self.a.pids("svc-signer"))
            answer = session.api("POST", "/api/v1/code-signing/sign", body, key=True)
            self.assertEqual(answer.status, 200, answer)
            self.assertNotEqual(self.a.child("svc-signer"), before)
            until("the supervisor knows", lambda: self.a.is_ready() and self.mode() == 0o600)

    def test_nothing_is_left_when_the_appliance_stops(self):
        a = Appliance("door-end").start()
        self.assertEqual(a.stop(), 0)
        self.assertFalse(os.path.exists(f"{a.dir}/run/signer/signer.sock"))
        a.clean()


class Away(unittest.TestCase):
    """With programs by links of our own, so that svc-signer can be taken away."""

    @classmethod
    def setUpClass(cls):
        cls.bin = tempfile.mkdtemp(prefix="svc-bin-", dir="/tmp")
        os.chmod(cls.bin, 0o755)
        for name in ("svc-appliance", "svc-api", "svc-signer", "svc-cli"):
            os.symlink(f"{BIN}/{name}", f"{cls.bin}/{name}")
        cls.a = Appliance("away", bin=cls.bin).start()
        cls.socket = f"{cls.a.dir}/run/signer/signer.sock"
        cls.key_id = make_key(cls.a)

    @classmethod
    def tearDownClass(cls):
        cls.a.clean()
        shutil.rmtree(cls.bin)

    def mode(self):
        return stat.S_IMODE(os.stat(self.socket).st_mode)

    def test_a_signer_that_stays_away_is_told_at_the_door_and_comes_back(self):
        session = self.a.session("OPERATOR")
        link = f"{self.bin}/svc-signer"
        os.remove(link)
        with open(link, "w") as f:
            f.write("#!/bin/sh\nexit 1\n")
        os.chmod(link, 0o755)
        try:
            os.kill(self.a.child("svc-signer"), signal.SIGKILL)
            until("the door is shut", lambda: self.mode() == 0)
            body = sign_body(session, self.key_id, digest_of(b"nobody there"))
            answer = session.api("POST", "/api/v1/code-signing/sign", body, key="nobody-there")
            self.assertEqual(answer.status, 503, answer)
            self.assertEqual(answer.json["code"], "signer_unavailable")
            self.assertEqual(self.a.probe_get("/readyz").status, 503)
        finally:
            os.remove(link)
            os.symlink(f"{BIN}/svc-signer", link)
        until("the door is open", lambda: self.mode() == 0o600, 90)
        until("ready again", self.a.is_ready, 60)
        answer = until("the same command succeeds", lambda: (lambda r: r if r.status == 200 else None)(
            session.api("POST", "/api/v1/code-signing/sign", body, key="nobody-there")), 60)
        self.assertEqual(answer.status, 200)


class OtherHost:
    """svc-signer as it runs on a host of its own: one program, one user, one folder, no appliance around it."""

    def __init__(self, shop):
        self.dir = tempfile.mkdtemp(prefix="svc-host-", dir="/tmp")
        self.port = free_port()
        self.pin = secrets.token_hex(8)
        self.process = None
        for name in ("softhsm", "softhsm/tokens", "signer", "tls", "run"):
            os.makedirs(f"{self.dir}/{name}", 0o700)
        self.write("softhsm/softhsm2.conf", f"directories.tokendir = {self.dir}/softhsm/tokens\n")
        self.write("signer/pin", self.pin + "\n")
        self.take("signer", shop)
        self.write("signer.yaml", f"""data_dir: {self.dir}
run_dir: {self.dir}/run
signer:
  listen: 127.0.0.1:{self.port}
  tls_certificate_file: {self.dir}/tls/signer.pem
  tls_key_file: {self.dir}/tls/signer.key
  tls_ca_file: {self.dir}/tls/ca.pem
  peer_names: ["spiffe://test/api"]
""")
        self.own()
        self.as_signer("softhsm2-util", "--init-token", "--free", "--label", "svc", "--pin", self.pin, "--so-pin",
                       secrets.token_hex(8))

    def write(self, name, text):
        with open(f"{self.dir}/{name}", "w") as f:
            f.write(text)

    def take(self, name, shop):
        """That certificate for this host's end, put in place at once as a renewal is."""
        for source, target in ((f"{name}.key", "signer.key"), (f"{name}.pem", "signer.pem"), ("ca.pem", "ca.pem")):
            shutil.copy(shop.path(source), f"{self.dir}/tls/new")
            os.chown(f"{self.dir}/tls/new", SIGNER.pw_uid, SIGNER.pw_gid)
            os.chmod(f"{self.dir}/tls/new", 0o600)
            os.rename(f"{self.dir}/tls/new", f"{self.dir}/tls/{target}")

    def own(self):
        for folder, _, files in os.walk(self.dir):
            os.chown(folder, SIGNER.pw_uid, SIGNER.pw_gid)
            for name in files:
                os.chown(f"{folder}/{name}", SIGNER.pw_uid, SIGNER.pw_gid)
                os.chmod(f"{folder}/{name}", 0o600)

    def words(self, *words):
        return ("setpriv", f"--reuid={SIGNER.pw_uid}", f"--regid={SIGNER.pw_gid}", "--clear-groups", *words)

    def environment(self):
        return {"PATH": os.environ["PATH"], "SOFTHSM2_CONF": f"{self.dir}/softhsm/softhsm2.conf"}

    def as_signer(self, *words):
        return run(*self.words(*words), env=self.environment())

    def log(self):
        with open(f"{self.dir}.log") as f:
            return f.read()

    def start(self):
        self.out = open(f"{self.dir}.log", "ab")
        self.process = subprocess.Popen(self.words(f"{BIN}/svc-signer", "--config", f"{self.dir}/signer.yaml"),
                                        stdout=self.out, stderr=self.out, env=self.environment())
        before = self.log().count('"listening"')

        def listens():
            assert self.process.poll() is None, self.log()
            return self.log().count('"listening"') > before or '"listening"' in self.log()

        until("the signer listens", listens)
        return self

    def end(self, how=signal.SIGTERM):
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(30)
            self.out.close()
            self.process = None

    def clean(self):
        self.end(signal.SIGKILL)
        shutil.rmtree(self.dir, ignore_errors=True)
        if os.path.exists(f"{self.dir}.log"):
            os.remove(f"{self.dir}.log")


def certificates():
    shop = Workshop()
    shop.root("ca")
    for name, usage in (("signer", "serverAuth"), ("other", "serverAuth"), ("api", "clientAuth")):
        shop.leaf(name, "ca", f"basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n"
                              f"extendedKeyUsage={usage}\nsubjectAltName={NAMES[name]}\n")
    return shop


def remote_appliance(shop, port):
    """Its end of the connection: files of svc-api's."""
    a = Appliance("remote", signer__address=f"127.0.0.1:{port}", signer__tls_certificate_file=shop.path("api.pem"),
                  signer__tls_key_file=shop.path("api.key"), signer__tls_ca_file=shop.path("ca.pem"),
                  signer__peer_names=["signer.test"], signer__operation_timeout="2s", code_signing__wait="6s")
    os.chown(shop.path("api.key"), API.pw_uid, API.pw_gid)
    os.chmod(shop.path("api.key"), 0o600)
    return a


class Remote(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shop = certificates()
        cls.host = OtherHost(cls.shop)
        cls.a = remote_appliance(cls.shop, cls.host.port)
        try:
            cls.host.start()
            cls.a.start()
            cls.key_id = make_key(cls.a)
        except BaseException:
            cls.tearDownClass()
            raise

    @classmethod
    def tearDownClass(cls):
        cls.a.clean()
        cls.host.clean()
        cls.shop.clean()

    def assert_signs(self, data):
        session = self.a.session("OPERATOR")
        answer = until("it signs", lambda: (lambda r: r if r.status == 200 else None)(sign(session, self.key_id, data)), 60)
        session.close()
        return answer

    def signer_word(self):
        ready = self.a.probe_get("/readyz")
        return ready.json["checks"]["signer"] if ready.status else None

    def test_the_appliance_starts_no_signer_and_has_no_token(self):
        self.assertEqual(self.a.pids("svc-signer"), [])
        for name in ("data/softhsm", "data/signer/pin", "run/signer/signer.sock"):
            self.assertFalse(os.path.exists(f"{self.a.dir}/{name}"), name)
        self.assertIn("signer_elsewhere", self.a.tail(400))
        self.assertEqual(self.signer_word(), "ok")

    def test_signatures_come_from_the_other_host(self):
        answer = self.assert_signs(b"made elsewhere")
        key = self.a.api("GET", f"/api/v1/keys/{self.key_id}").json
        self.assertIn("key_generated", self.host.log())
        self.assertTrue(key)
        self.assertTrue(answer.json["operation_id"])

    def test_a_connection_that_is_lost_is_made_again_without_a_restart(self):
        api = self.a.child("svc-api")
        for how in (signal.SIGKILL, signal.SIGTERM):
            self.host.end(how)
            until("/readyz says so", lambda: self.signer_word() not in ("ok", None))
            session = self.a.session("OPERATOR")
            answer = sign(session, self.key_id, b"meanwhile" + bytes([how]))
            self.assertEqual((answer.status, answer.json["code"]), (503, "signer_unavailable"), answer)
            self.assertIn("Retry-After", answer.headers)
            session.close()
            self.host.start()
            until("ready again", self.a.is_ready, 60)
            self.assert_signs(b"afterwards" + bytes([how]))
        self.assertEqual(self.a.child("svc-api"), api)

    def test_a_host_of_another_name_is_not_asked(self):
        self.host.end()
        self.host.take("other", self.shop)
        self.host.start()
        try:
            until("/readyz says so", lambda: self.signer_word() not in ("ok", None))
            session = self.a.session("OPERATOR")
            answer = sign(session, self.key_id, b"to a stranger")
            self.assertEqual((answer.status, answer.json["code"]), (503, "signer_unavailable"), answer)
            until("its log says so", lambda: "refused_by_peer" in self.host.log())
        finally:
            self.host.take("signer", self.shop)  # renewed in place: it needs no restart
        until("ready again", self.a.is_ready, 60)
        self.assert_signs(b"to the right one")


class Refused(unittest.TestCase):
    def check(self, words, **settings):
        a = Appliance("remote-bad", **settings)
        try:
            a.spawn()
            self.assertEqual(a.process.wait(60), 2)
            self.assertIn(words, a.tail())
        finally:
            a.clean()

    def test_half_a_configuration_is_refused(self):
        files = {"signer__tls_certificate_file": "/c", "signer__tls_key_file": "/k", "signer__tls_ca_file": "/a"}
        self.check("signer.tls_certificate_file: is needed with signer.address", signer__address="127.0.0.1:9")
        self.check("signer.peer_names: needs 1 to 32 names with signer.listen", signer__listen="127.0.0.1:9", **files)
        self.check("'*.test' must be a whole name", signer__listen="127.0.0.1:9", signer__peer_names=['"*.test"'], **files)
        self.check("a host has a signer or uses another's", signer__listen="127.0.0.1:9", signer__address="127.0.0.1:9",
                   signer__peer_names=["x"], **files)


if __name__ == "__main__":
    unittest.main()
