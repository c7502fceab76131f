"""scripts/bench tsa: the bare token, POST /tsa, and sigstore's timestamp-server, taking turns on one machine."""
import json
import os
import re
import statistics
import subprocess
import sys

sys.path.insert(0, "tests/e2e")
from appliance import Appliance, free_port, run, until  # noqa: E402

PEER = "build/bench-peers/timestamp-server"
ROUNDS = 3
LUA = """
local f = io.open(os.getenv("TSQ"), "rb"); local body = f:read("*a"); f:close()
wrk.method = "POST"; wrk.body = body
wrk.headers["Content-Type"] = "application/timestamp-query"
if os.getenv("CLOSE") then wrk.headers["Connection"] = "close" end
function done(summary, latency, requests)
    local e = summary.errors
    io.write(string.format('JSON {"requests":%d,"us":%d,"failed":%d,"p50_us":%.1f,"p95_us":%.1f,"p99_us":%.1f,"max_us":%.1f}\\n',
        summary.requests, summary.duration, e.connect + e.read + e.write + e.status + e.timeout,
        latency:percentile(50), latency:percentile(95), latency:percentile(99), latency.max))
end
"""


def load(url, connections, seconds, tsq, close=False):
    """One slice of load by wrk, a client that costs little beside what it measures."""
    script = f"{os.path.dirname(tsq)}/post.lua"
    with open(script, "w") as f:
        f.write(LUA)
    env = {**os.environ, "TSQ": tsq, **({"CLOSE": "1"} if close else {})}
    out = run("wrk", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "--timeout", "30s", "-s", script, url,
              env=env).stdout
    figures = json.loads(re.search(r"JSON (.*)", out).group(1))
    figures["per_second"] = figures["requests"] * 1e6 / figures["us"]
    return figures


class Peer:
    """sigstore's timestamp-server with its key in a file: it records nothing."""

    def __init__(self, folder, algorithm):
        os.makedirs(folder, exist_ok=True)
        f = lambda name: f"{folder}/{name}"  # noqa: E731
        kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"] if algorithm == "ec-p256" else ["-newkey", "rsa:3072"]
        run("openssl", "req", "-x509", *kind, "-nodes", "-keyout", f("root.key"), "-out", f("root.pem"), "-subj", "/CN=root",
            "-days", "30")
        run("openssl", "req", *kind, "-nodes", "-keyout", f("leaf.key"), "-out", f("leaf.csr"), "-subj", "/CN=tsa")
        with open(f("ext"), "w") as ext:
            ext.write("extendedKeyUsage=critical,timeStamping\nkeyUsage=critical,digitalSignature\n")
        run("openssl", "x509", "-req", "-in", f("leaf.csr"), "-CA", f("root.pem"), "-CAkey", f("root.key"), "-extfile", f("ext"),
            "-days", "20", "-out", f("leaf.pem"))
        run("openssl", "pkcs8", "-topk8", "-in", f("leaf.key"), "-passout", "pass:bench", "-out", f("leaf.enc"))
        with open(f("chain.pem"), "w") as chain:
            chain.write(open(f("leaf.pem")).read() + open(f("root.pem")).read())
        self.root, self.port = f("root.pem"), free_port()
        self.url = f"http://127.0.0.1:{self.port}/api/v1/timestamp"
        self.log = open(f("log"), "w")
        self.process = subprocess.Popen(
            [PEER, "serve", "--host", "127.0.0.1", "--port", str(self.port), "--timestamp-signer", "file",
             "--file-signer-key-path", f("leaf.enc"), "--file-signer-passwd", "bench", "--certificate-chain-path", f("chain.pem"),
             "--disable-ntp-monitoring", "--log-type", "prod"], stdout=self.log, stderr=self.log)
        until("the peer answers", lambda: run("curl", "-s", "-o", "/dev/null", f"http://127.0.0.1:{self.port}/ping",
                                              check=False).returncode == 0)

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


def issued(a):
    text = run("curl", "-s", f"http://127.0.0.1:{a.probe}/metrics").stdout
    return sum(float(line.split()[-1]) for line in text.splitlines()
               if line.startswith("svc_tsa_timestamps_total") and 'result="granted"' in line)


def stamps_verify(url, root, folder, tsq):
    """What is measured has to be a time stamp that others accept."""
    run("curl", "-s", "-H", "Content-Type: application/timestamp-query", "--data-binary", f"@{tsq}", "-o", f"{folder}/r.tsr", url)
    assert "Verification: OK" in run("openssl", "ts", "-verify", "-queryfile", tsq, "-in", f"{folder}/r.tsr", "-CAfile",
                                     root).stdout


def process_memory(a):
    """Resident KiB of our processes."""
    sizes = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            name = open(f"/proc/{pid}/comm").read().strip()
            mine = a.dir in open(f"/proc/{pid}/cmdline").read()
            text = open(f"/proc/{pid}/status").read()
        except OSError:
            continue
        if name in ("svc-api", "svc-signer", "nats-server") and mine:
            sizes[name] = int(re.search(r"VmRSS:\s+(\d+)", text).group(1))
    return sizes


def measure(algorithm, seconds, row, turns):
    a = Appliance(f"bench-tsa-{algorithm}", log__level="warn", protocols__tsa__key_algorithm=algorithm).start()
    peer = token = None
    try:
        peer = Peer(f"{a.dir}/peer", algorithm) if os.path.exists(PEER) else None
        token = turns(a)
        tsq = f"{a.dir}/q.tsq"
        run("openssl", "ts", "-query", "-data", a.config, "-sha256", "-cert", "-out", tsq)
        ours = f"http://127.0.0.1:{a.plain}/tsa"
        stamps_verify(ours, f"{a.dir}/data/tsa-root.pem", a.dir, tsq)
        if peer:
            stamps_verify(peer.url, peer.root, a.dir, tsq)
        for connections, close in ((1, False), (16, False), (64, False), (16, True)):
            rounds = []
            for _ in range(ROUNDS):
                raw = max((token.ask(f"raw {algorithm} default {threads} {seconds / 4}") for threads in (2, 8)),
                          key=lambda r: r["per_second"])
                before = issued(a)
                own = load(ours, connections, seconds, tsq, close)
                assert issued(a) - before >= own["requests"] - own["failed"], "fewer stamps than answers"
                rounds.append((raw, own, load(peer.url, connections, seconds, tsq, close) if peer else None))
            report(algorithm, connections, close, rounds, row)
    finally:
        if token:
            token.end()
        if peer:
            peer.stop()
        a.clean()


def report(algorithm, connections, close, rounds, row):
    median = lambda of: statistics.median(of(r) for r in rounds)  # noqa: E731
    for i, part in enumerate(("raw C_Sign", "/tsa", "timestamp-server")):
        if rounds[0][i] is None:
            continue
        figures = {k: median(lambda r: r[i][k]) for k in ("per_second", "p50_us", "p95_us", "p99_us")}  # noqa: B023
        if i > 0:
            figures = {k.replace("_us", "_ms"): v / 1000 if k.endswith("_us") else v for k, v in figures.items()}
            figures["failed"] = sum(r[i]["failed"] for r in rounds)
            figures["ratio_to_raw"] = round(median(lambda r: r[i]["per_second"] / r[0]["per_second"]), 3)  # noqa: B023
        if i == 1 and rounds[0][2] is not None:
            figures["times_peer"] = round(median(lambda r: r[1]["per_second"] / r[2]["per_second"]), 2)
        row(part + (" close" if close and i > 0 else ""), algorithm, connections, figures)


def memory(tokens, row_of_memory):
    """Memory over many tokens: what grows with them is a leak."""
    a = Appliance("bench-tsa-memory", log__level="warn").start()
    try:
        tsq = f"{a.dir}/q.tsq"
        run("openssl", "ts", "-query", "-data", a.config, "-sha256", "-cert", "-out", tsq)
        url = f"http://127.0.0.1:{a.plain}/tsa"
        load(url, 16, 2, tsq)
        begun = issued(a)
        step = max(1, tokens // 10)
        row_of_memory(0, process_memory(a))
        for part in range(1, 11):
            while issued(a) - begun < part * step:
                load(url, 16, 5, tsq)
            row_of_memory(int(issued(a) - begun), process_memory(a))
    finally:
        a.clean()

