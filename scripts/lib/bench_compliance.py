"""scripts/bench compliance: evidence packs over a tenant with 1,000,000 events in its window, on a real appliance: how long
one takes, fifteen in a row, what memory that costs, samples, and what signing notices of it."""
import http.client
import json
import os
import signal
import statistics
import subprocess
import threading
import time

import bench_audit
from appliance import BIN, Appliance, make_key, until

EVENTS = int(os.environ.get("SVC_BENCH_EVENTS", "1000000"))
ROUNDS = int(os.environ.get("SVC_BENCH_ROUNDS", "5"))
TENANT = "bench-01"
FRAMEWORKS = ("pci-dss", "hipaa", "soc2", "nist-800-53", "nist-csf-2.0", "fedramp", "cmmc-2.0", "cnsa-2.0", "fips-140",
              "common-criteria", "cabf-br", "webtrust", "etsi", "eidas", "nis2")


def seed(a):
    """One tenant, the last 80 days."""
    command = ["setpriv", "--reuid=svc-api", "--regid=svc-api", "--clear-groups", f"{BIN}/bench_audit", "--config", a.config,
               "--events", str(EVENTS), "--tenants", "1", "--days", "80"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{command}\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout)


class Client:
    def __init__(self, a, token):
        self.connection = http.client.HTTPSConnection("127.0.0.1", a.port, timeout=300, context=a.tls())
        self.token = token

    def get(self, path):
        """The answer's bytes and the seconds that it took; a limited rate is waited for, and not timed."""
        while True:
            begun = time.monotonic()
            self.connection.request("GET", path, headers={"Authorization": f"Bearer {self.token}"})
            answer = self.connection.getresponse()
            body = answer.read()
            took = time.monotonic() - begun
            if answer.status == 200:
                return body, took
            if answer.status != 429:
                raise SystemExit(f"{path}: {answer.status} {body[:500]!r}")
            time.sleep(float(answer.headers.get("Retry-After", "1")))

    def pack(self, framework):
        return self.get(f"/api/v1/compliance/evidence-packs/{framework}")


def database_memory(a):
    """What the backends of the embedded PostgreSQL hold of their own, in KiB: shared buffers are not theirs."""
    total = 0
    for pid in a.pids("postgres"):
        try:
            total += bench_audit.memory(pid, "RssAnon")
        except (OSError, StopIteration):
            pass
    return total


def sizes(a, api):
    return {"api_rss_mb": round(bench_audit.memory(api, "VmRSS") / 1024, 1),
            "database_anon_mb": round(database_memory(a) / 1024, 1)}


def packs(a, client, row):
    api = a.child("svc-api")
    client.pack("soc2")  # makes what is made at first
    before = sizes(a, api)
    bench_audit.forget_peak(api)
    for framework in FRAMEWORKS:
        times = [client.pack(framework) for _ in range(ROUNDS)]
        manifest = json.loads(times[-1][0])["signed_export"]["manifest"]
        row({"part": "evidence pack", "framework": framework, "records": manifest["population"]["total"],
             "bytes": len(times[-1][0]), **bench_audit.percentiles([seconds * 1000 for _, seconds in times])})
    begun = time.monotonic()
    took = [client.pack(framework)[1] for framework in FRAMEWORKS]
    row({"part": "15 evidence packs", "seconds": round(sum(took), 2), "with_pauses": round(time.monotonic() - begun, 2)})
    after = sizes(a, api)
    row({"part": "memory of packs", **{f"{k}_before": v for k, v in before.items()},
         **{f"{k}_after": v for k, v in after.items()},
         "api_peak_mb": round(bench_audit.memory(api, "VmHWM") / 1024, 1), "packs": (ROUNDS + 1) * len(FRAMEWORKS)})


def samples(client, row):
    for what, query in (("the whole window", "seed=s&n=100"),
                        ("a prerequisite", "seed=s&n=100&control=CC7&prerequisite=credential-lifecycle")):
        times = [client.get(f"/api/v1/compliance/populations/soc2/sample?{query}")[1] * 1000 for _ in range(ROUNDS)]
        row({"part": "sample of 100", "population": what, **bench_audit.percentiles(times)})


def sign(a, key_id, requests):
    env = {**os.environ, "SVC_TOKEN": a.token("OPERATOR"), "SVC_CA_FILE": f"{a.dir}/data/ca.pem"}
    done = subprocess.run([f"{BIN}/bench_http", "sign", f"https://127.0.0.1:{a.port}", "4", str(requests), key_id],
                          capture_output=True, text=True, env=env)
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)
    return json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])


def beside_signing(a, client, row):
    """Signing alone and with one pack after another beside it, taking turns."""
    key_id = make_key(a)
    requests = 150
    sign(a, key_id, 50)
    rounds = {"alone": [], "beside packs": []}
    made = 0
    for _ in range(3):
        rounds["alone"].append(sign(a, key_id, requests))
        stop = threading.Event()

        def make_packs():
            nonlocal made
            at = 0
            while not stop.is_set():
                client.pack(FRAMEWORKS[at % len(FRAMEWORKS)])
                at += 1
                made += 1

        thread = threading.Thread(target=make_packs)
        thread.start()
        rounds["beside packs"].append(sign(a, key_id, requests))
        stop.set()
        thread.join()
    for what, figures in rounds.items():
        median = lambda name: statistics.median(f[name] for f in figures)  # noqa: E731, B023
        row({"part": "signing", "what": what, "clients": 4, **{k: round(median(k), 2) for k in
             ("per_second", "p50_ms", "p95_ms", "p99_ms")}, "refused": sum(f["refused"] for f in figures),
             "failed": sum(f["failed"] for f in figures), **({"packs": made} if what != "alone" else {})})


def run(result):
    def row(entry):
        result["rows"].append(entry)
        print("  ".join(f"{k} {v}" if k not in ("part", "framework", "what", "population") else f"{v:18}"
                        for k, v in entry.items()), flush=True)

    a = Appliance("bench-compliance", log__level="warn")
    try:
        a.start()
        api = a.child("svc-api")
        os.kill(api, signal.SIGSTOP)  # what is appended meanwhile is the backlog of the next one
        seeded = seed(a)
        row({"part": "seeding", "seed_seconds": seeded["seconds"], "events": seeded["events"]})
        os.kill(api, signal.SIGKILL)
        row({"part": "catching up", **bench_audit.catch_up(a, seeded)})
        until("the appliance serves again", a.is_ready, 300)
        a.sql("VACUUM ANALYZE svc.audit_records")  # as autovacuum does within minutes
        token = json.loads(a.appliance("token", "create", "--tenant", TENANT, "--subject", "bench", "--role", "auditor",
                                       "--json").stdout)["token"]
        client = Client(a, token)
        packs(a, client, row)
        samples(client, row)
        beside_signing(a, client, row)
    finally:
        a.clean()
