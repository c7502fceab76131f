"""A real appliance for the end-to-end tests: its own data folder, free loopback ports, the real programs."""
import base64
import hashlib
import http.client
import json
import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.parse

SRC = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
BIN = os.environ.get("SVC_TEST_BIN", os.path.join(SRC, "build/release/bin"))
START_LIMIT = float(os.environ.get("SVC_TEST_START_LIMIT", "120"))
TARGET = os.environ.get("SVC_TEST_TARGET")  # see Running
PATIENCE = float(os.environ.get("SVC_TEST_PATIENCE", "1"))  # how much slower than a machine the appliance may be


PORTS = "/tmp/svc-ports"  # a file for each port that was given out, seen by all who run tests beside us


def free_port():
    """Below the range that outgoing connections take theirs from: nobody gets it between here and its use. Each once,
    whoever asks: test files run beside each other."""
    os.makedirs(PORTS, exist_ok=True)
    while True:
        port = 20000 + secrets.randbelow(12000)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                os.close(os.open(f"{PORTS}/{port}", os.O_CREAT | os.O_EXCL))
                return port
            except OSError:
                continue


def until(what, condition, limit=30.0):
    """Polls a condition until it holds; the limit only bounds a hang, it asserts no speed."""
    limit *= PATIENCE
    end = time.monotonic() + limit
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {limit:.0f} s in vain until {what}")
        threading.Event().wait(0.02)


def yaml(settings):
    """Dotted keys to nested YAML."""
    tree = {}
    for key, value in settings.items():
        node = tree
        *folders, last = key.split(".")
        for folder in folders:
            node = node.setdefault(folder, {})
        node[last] = value

    def emit(node, depth):
        out = ""
        for key, value in node.items():
            pad = "  " * depth
            if isinstance(value, dict):
                out += f"{pad}{key}:\n" + emit(value, depth + 1)
            elif isinstance(value, list):
                out += f"{pad}{key}: [{', '.join(value)}]\n"
            elif isinstance(value, bool):
                out += f"{pad}{key}: {'true' if value else 'false'}\n"
            elif isinstance(value, str):
                out += f'{pad}{key}: "{value}"\n'
            else:
                out += f"{pad}{key}: {value}\n"
        return out

    return emit(tree, 0)


def read_env(path):
    """The variables of a client.env."""
    env = {}
    with open(path) as f:
        for line in f:
            line = line.strip()
            if line and not line.startswith("#"):
                key, _, value = line.removeprefix("export ").partition("=")
                env[key] = value.strip("'\"")
    return env


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.body[:300]!r}>"


class Appliance:
    def __init__(self, name="e2e", **settings):
        self.dir = tempfile.mkdtemp(prefix=f"svc-{name}-", dir="/tmp")
        os.chmod(self.dir, 0o755)
        self.bin = settings.pop("bin", BIN)
        self.port, self.plain, self.probe, nats = (free_port() for _ in range(4))
        self.settings = {
            "data_dir": f"{self.dir}/data",
            "run_dir": f"{self.dir}/run",
            "policy_dir": f"{SRC}/policies",
            "bin_dir": self.bin,
            "http.listen": f"127.0.0.1:{self.port}",
            "http.plain_listen": f"127.0.0.1:{self.plain}",
            "http.probe_listen": f"127.0.0.1:{self.probe}",
            "nats.embedded_port": nats,
            "protocols.tsa.clock.trust_host": True,
            "rate_limit.requests": 1000000,  # tests send more than a tenant may by default
        }
        self.settings.update({k.replace("__", "."): v for k, v in settings.items()})
        self.config = f"{self.dir}/svc.yaml"
        self.log_path = f"{self.dir}/log"
        self.process = None
        self.env = {}
        self.environment = {}  # what svc-appliance is started with beside our own

    def write_config(self):
        with open(self.config, "w") as f:
            f.write(yaml(self.settings))

    def spawn(self, *args):
        self.write_config()
        self.log = open(self.log_path, "ab")
        self.process = subprocess.Popen([f"{self.bin}/svc-appliance", "run", "--config", self.config, *args],
                                        stdout=self.log, stderr=self.log, start_new_session=True,
                                        env={**os.environ, **self.environment})
        return self

    def start(self):
        self.spawn()

        def ready():
            if self.process.poll() is not None:
                raise AssertionError(f"svc-appliance ended with {self.process.returncode}\n{self.tail()}")
            return self.is_ready() and os.path.exists(f"{self.dir}/data/client.env")

        try:
            until("the appliance is ready", ready, START_LIMIT)
        except AssertionError:
            print(self.tail())
            self.stop()
            raise
        self.env.update(read_env(f"{self.dir}/data/client.env"))
        return self

    def probe_get(self, path, timeout=5):
        connection = http.client.HTTPConnection("127.0.0.1", self.probe, timeout=timeout * PATIENCE)
        try:
            connection.request("GET", path)
            r = connection.getresponse()
            return Answer(r.status, dict(r.getheaders()), r.read())
        except OSError:
            return Answer(0, {}, b"")
        finally:
            connection.close()

    def is_ready(self):
        return self.probe_get("/readyz").status == 200

    def tail(self, lines=60):
        with open(self.log_path, errors="replace") as f:
            return "".join(f.readlines()[-lines:])

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError("svc-appliance did not drain in 60 s\n" + self.tail())
        code = self.process.returncode if self.process else None
        return code

    def clean(self):
        self.stop()
        if not os.environ.get("SVC_TEST_KEEP"):
            shutil.rmtree(self.dir, ignore_errors=True)

    def pids(self, comm):
        """Pids of our own processes of this name (below our supervisor)."""
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                with open(f"/proc/{entry}/stat") as f:
                    stat = f.read()
            except OSError:
                continue
            name = stat[stat.index("(") + 1:stat.rindex(")")]
            if name == comm and self.below_us(int(entry)):
                found.append(int(entry))
        return found

    def below_us(self, pid):
        while pid > 1:
            if pid == self.process.pid:
                return True
            try:
                with open(f"/proc/{pid}/stat") as f:
                    stat = f.read()
            except OSError:
                return False
            pid = int(stat[stat.rindex(")") + 2:].split()[1])
        return False

    def child(self, comm):
        """The oldest of our processes of this name: the postmaster, not a backend."""
        return min(until(f"{comm} runs", lambda: self.pids(comm)))

    def tls(self):
        return ssl.create_default_context(cafile=f"{self.dir}/data/ca.pem")

    def session(self, token=None):
        return Session(self, token)

    def api(self, method, path, body=None, token="OPERATOR", key=None, headers=None):
        return self.session(token).api(method, path, body, key, headers)

    def token(self, role):
        return self.env["SVC_TOKEN_" + role]

    def tsa(self, der, timeout=20):
        connection = http.client.HTTPConnection("127.0.0.1", self.plain, timeout=timeout * PATIENCE)
        try:
            connection.request("POST", "/tsa", der, {"Content-Type": "application/timestamp-query"})
            r = connection.getresponse()
            return Answer(r.status, dict(r.getheaders()), r.read())
        finally:
            connection.close()

    def appliance(self, *args, check=True):
        return run(f"{self.bin}/svc-appliance", *args, "--config", self.config, check=check)

    def cli(self, *args, token="OPERATOR", check=True, **extra):
        env = {k: v for k, v in os.environ.items() if not k.startswith("SVC_")}
        env.update(self.env)
        env["SVC_TOKEN"] = self.token(token)
        return run(f"{self.bin}/svc-cli", *args, check=check, env=env, **extra)

    def sql(self, statement, user="postgres"):
        out = run("setpriv", "--reuid=svc-pg", "--regid=svc-pg", "--clear-groups",
                  "psql", "-X", "-At", "-h", f"{self.dir}/run/postgres", "-U", user, "-d", "svc",
                  "-v", "ON_ERROR_STOP=1", "-c", statement)
        return out.stdout.strip()


class Replica:
    """A second svc-api on an appliance's database, event log and signer, with listeners of its own."""

    def __init__(self, appliance, name="replica", **settings):
        self.appliance, self.name, self.env = appliance, name, appliance.env
        self.port, self.plain, self.probe = (free_port() for _ in range(3))
        self.settings = {**appliance.settings,
                         "http.listen": f"127.0.0.1:{self.port}",
                         "http.plain_listen": f"127.0.0.1:{self.plain}",
                         "http.probe_listen": f"127.0.0.1:{self.probe}",
                         **{k.replace("__", "."): v for k, v in settings.items()}}
        self.config, self.log_path = f"{appliance.dir}/{name}.yaml", f"{appliance.dir}/{name}.log"
        self.process = None

    def spawn(self):
        with open(self.config, "w") as f:
            f.write(yaml(self.settings))
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--reuid=svc-api", "--regid=svc-api", "--clear-groups", "--no-new-privs",
                 f"{self.appliance.bin}/svc-api", "serve", "--config", self.config],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/",
                env={"PATH": os.environ["PATH"]})
        return self

    def start(self):
        self.spawn()

        def ready():
            if self.process.poll() is not None:
                raise AssertionError(f"{self.name} ended with {self.process.returncode}\n{self.tail()}")
            return self.is_ready()

        until(f"{self.name} is ready", ready, START_LIMIT)
        return self

    def pid(self):
        return self.process.pid

    def stop(self, limit=60):
        """SIGTERM, and its exit code."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(limit)
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError(f"{self.name} did not drain in {limit} s\n" + self.tail())
        return self.process.returncode if self.process else None

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def tls(self):
        return self.appliance.tls()

    probe_get = Appliance.probe_get
    is_ready = Appliance.is_ready
    tail = Appliance.tail
    session = Appliance.session
    api = Appliance.api


class Running(Appliance):
    """An appliance that runs already, somewhere else: the image in QEMU, another machine. Named by SVC_TEST_TARGET, a
    client.env (as svc-appliance writes it) with SVC_PROBE_URL and, as JSON, SVC_TEST_SETTINGS beside: the settings of
    svc.yaml that it was given. All test files share it, so what a test would do to processes, files or settings of an
    appliance of its own skips that test, with the reason. tests/image/suite.py tells what has to pass nevertheless."""

    def __init__(self, name="e2e", **settings):
        self.dir = tempfile.mkdtemp(prefix=f"svc-{name}-", dir="/tmp")
        os.chmod(self.dir, 0o755)
        self.bin, self.env, self.environment, self.name = BIN, read_env(TARGET), {}, name
        self.runs_with = Fixed(json.loads(self.env.pop("SVC_TEST_SETTINGS", "{}")))
        if settings.pop("bin", BIN) != BIN:
            raise unittest.SkipTest("wants a build with failpoints")
        for key, value in settings.items():
            self.runs_with[key.replace("__", ".")] = value
        self.port, self.plain, self.probe = (urllib.parse.urlsplit(self.env[variable]).port for variable in
                                             ("SVC_BASE_URL", "SVC_TSA_URL", "SVC_PROBE_URL"))
        os.mkdir(f"{self.dir}/data", 0o755)
        for variable, file in (("SVC_CA_FILE", "ca.pem"), ("SVC_TSA_ROOT", "tsa-root.pem")):
            shutil.copy(self.env[variable], f"{self.dir}/data/{file}")
            self.env[variable] = f"{self.dir}/data/{file}"
        with open(f"{self.dir}/data/client.env", "w") as f:
            f.writelines(f"{variable}='{value}'\n" for variable, value in self.env.items())

    def start(self):
        if not self.is_ready():
            raise AssertionError("the appliance of SVC_TEST_TARGET is not ready")
        return self

    def clean(self):
        shutil.rmtree(self.dir, ignore_errors=True)

    def tail(self, lines=60):
        return ""

    def appliance(self, *args, check=True):
        """Of its commands only those that the API has, too."""
        words = dict(zip(args[2:], args[3:]))
        if args[:2] != ("token", "create") or "--tenant" in words or not words.get("--ttl", "1h").endswith("h"):
            raise unittest.SkipTest(f"runs svc-appliance {' '.join(args[:2])}")
        life = {"ttl_seconds": int(words["--ttl"][:-1]) * 3600} if "--ttl" in words else {}
        roles = [value for word, value in zip(args[2:], args[3:]) if word == "--role"]
        made = self.api("POST", "/api/v1/tokens", {"subject": words["--subject"], "roles": roles, **life}, token="ADMIN",
                        key=True)
        return subprocess.CompletedProcess(args, made.status != 201, made.body.decode(), "")

    @property
    def settings(self):
        return self.runs_with

    def another(what):
        def skip(self, *_, **__):
            raise unittest.SkipTest(what)
        return skip

    spawn = another("starts the appliance")
    stop = another("stops the appliance")
    sql = another("asks the database")
    pids = child = another("looks for the appliance's processes")
    process = property(another("wants the appliance's process"))
    config = property(another("wants the appliance's configuration file"))
    log_path = property(another("reads the appliance's log"))
    del another


class Fixed(dict):
    """Settings of an appliance that runs: to ask for another one skips the test."""

    def __setitem__(self, key, value):
        if self.get(key) != value:
            raise unittest.SkipTest(f"wants {key} = {value}")

    def __missing__(self, key):
        raise unittest.SkipTest(f"wants to know {key}")

    def update(self, *more, **settings):
        for key, value in dict(*more, **settings).items():
            self[key] = value


class Session:
    """One keep-alive HTTPS connection with one token."""

    def __init__(self, appliance, token):
        self.appliance = appliance
        self.text = appliance.env.get(f"SVC_TOKEN_{token}", token) if token else None
        self.connection = None

    def api(self, method, path, body=None, key=None, headers=None, timeout=60):
        all_headers = dict(headers or {})
        if self.text:
            all_headers.setdefault("Authorization", f"Bearer {self.text}")
        if key is True:
            key = secrets.token_hex(16)
        if key:
            all_headers["Idempotency-Key"] = key
        data = None
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            all_headers.setdefault("Content-Type", "application/json")
        if self.connection is None:
            self.connection = http.client.HTTPSConnection("127.0.0.1", self.appliance.port, timeout=timeout * PATIENCE,
                                                          context=self.appliance.tls())
        try:
            self.connection.request(method, path, data, all_headers)
            r = self.connection.getresponse()
            return Answer(r.status, dict(r.getheaders()), r.read())
        except (OSError, http.client.HTTPException):
            self.close()
            raise

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def run(*args, check=True, **extra):
    extra.setdefault("stdin", subprocess.DEVNULL)
    if "input" in extra:
        del extra["stdin"]
    done = subprocess.run([str(a) for a in args], capture_output=True, text=extra.pop("text", True), **extra)
    if check and done.returncode != 0:
        raise AssertionError(f"{args} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def b64(data):
    return base64.b64encode(data).decode()


def digest_of(data):
    return hashlib.sha256(data).digest()


def make_key(appliance, algorithm="ec-p256", name=None, token="OPERATOR"):
    answer = appliance.api("POST", "/api/v1/keys",
                           {"name": name or "k-" + secrets.token_hex(4), "algorithm": algorithm, "purpose": "codesign"},
                           token=token, key=True)
    assert answer.status == 201, answer
    return answer.json["key_id"]


def sign_body(session, key_id, digest, artifact_type="file"):
    body = {"key_id": key_id, "artifact_type": artifact_type, "digest": b64(digest)}
    preview = session.api("POST", "/api/v1/code-signing/preview", body)
    assert preview.status == 200, preview
    return {**body, "preview_fingerprint": preview.json["request_fingerprint"]}


def openssl_verifies(public_key_der, signature, data, extra=()):
    with tempfile.TemporaryDirectory() as d:
        for name, content in (("pub", public_key_der), ("sig", signature), ("data", data)):
            with open(f"{d}/{name}", "wb") as f:
                f.write(content)
        done = run("openssl", "dgst", "-sha256", "-verify", f"{d}/pub", "-keyform", "DER", *extra,
                   "-signature", f"{d}/sig", f"{d}/data", check=False)
        return done.returncode == 0


def all_records(appliance, token="AUDITOR"):
    """Every audit record, oldest first, through the pages."""
    session, out, cursor = appliance.session(token), [], None
    while True:
        path = "/api/v1/audit/records?order=asc&limit=500" + (f"&cursor={cursor}" if cursor else "")
        answer = session.api("GET", path)
        assert answer.status == 200, answer
        out += [row["record"] for row in answer.json["records"]]
        cursor = answer.json.get("next_cursor")
        if not cursor:
            return out


def own_appliance(why):
    """Marks a test that an appliance which others share, or which runs elsewhere (SVC_TEST_TARGET), cannot pass."""
    return unittest.skipIf(TARGET, why)


if TARGET:
    OwnAppliance, Appliance = Appliance, Running
