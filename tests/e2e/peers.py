"""Programs of others beside the appliance: a real Rekor v1 log (scripts/lib/peers-make builds it, /opt/peers has it)."""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request

from appliance import free_port, run, until

PEERS = os.environ.get("SVC_TEST_PEERS", "/opt/peers")


class Rekor:
    """A log in memory with its own key: url, public_key (PEM file). A new one is another log."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="svc-rekor-", dir="/tmp")
        os.chmod(self.dir, 0o755)
        self.tree_port, self.port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.public_key = f"{self.dir}/rekor.pub"
        self.log_path = f"{self.dir}/log"
        self.processes = []
        self.known = []  # (id, digest) of every entry read so far

    def spawn(self, *command):
        with open(self.log_path, "ab") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.dir,
                                       env={**os.environ, "HOME": self.dir})
        self.processes.append(process)
        return process

    def start(self, limit=120):
        if not os.path.exists(f"{PEERS}/rekor-server"):
            raise AssertionError(f"{PEERS}/rekor-server is missing: scripts/test e2e builds it, as does scripts/bench")
        try:
            self.spawn(f"{PEERS}/tlogmem", "-listen", f"127.0.0.1:{self.tree_port}")
            self.answers_on(self.tree_port, limit)
            self.spawn(f"{PEERS}/rekor-server", "serve", "--port", str(self.port),
                       "--rekor_server.address", "127.0.0.1", "--rekor_server.hostname", "rekor.local",
                       "--trillian_log_server.address", "127.0.0.1", "--trillian_log_server.port", str(self.tree_port),
                       "--log_type", "prod")
            key = until("the log tells its key", self.key_or_nothing, limit)
        except AssertionError:
            with open(self.log_path, errors="replace") as f:
                print(f.read()[-3000:])
            self.stop()
            raise
        with open(self.public_key, "wb") as f:
            f.write(key)
        return self

    def alive(self):
        for process in self.processes:
            if process.poll() is not None:
                raise AssertionError(f"{process.args[0]} ended with {process.returncode}")

    def answers_on(self, port, limit):
        def listening():
            self.alive()
            return run("bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port}", check=False).returncode == 0

        until(f"port {port} answers", listening, limit)

    def get(self, path, timeout=10):
        with urllib.request.urlopen(self.url + path, timeout=timeout) as r:
            return r.read()

    def key_or_nothing(self):
        self.alive()
        try:
            return self.get("/api/v1/log/publicKey")
        except OSError:
            return None

    def size(self):
        """How many entries the log has."""
        return json.loads(self.get("/api/v1/log"))["treeSize"]

    def entries(self, digest):
        """The ids of all entries of this SHA-256 digest, found by reading the whole log: Rekor's search index misses
        what a client sent that died before it was answered."""
        for index in range(len(self.known), self.size()):
            entry_id, entry = next(iter(json.loads(self.get(f"/api/v1/log/entries?logIndex={index}")).items()))
            body = json.loads(base64.b64decode(entry["body"]))
            self.known.append((entry_id, body["spec"]["data"]["hash"]["value"]))
        return [entry_id for entry_id, value in self.known if value == digest.hex()]

    def pause(self):
        """Nothing answers any more, until go_on()."""
        for process in self.processes:
            process.send_signal(subprocess.signal.SIGSTOP)

    def go_on(self):
        for process in self.processes:
            process.send_signal(subprocess.signal.SIGCONT)

    def stop(self):
        for process in reversed(self.processes):
            if process.poll() is None:
                process.kill()
            process.wait()
        self.processes = []
        if not os.environ.get("SVC_TEST_KEEP"):
            shutil.rmtree(self.dir, ignore_errors=True)


if __name__ == "__main__":  # a log to try things with, until the standard input ends
    rekor = Rekor().start()
    print(rekor.url, rekor.public_key, flush=True)
    try:
        input()
    except EOFError:
        time.sleep(0)
    finally:
        rekor.stop()
