"""scripts/bench audit: the audit trail at scale. A history of 20 tenants is put into the log of a real appliance while
svc-api stands still; then it is caught up with, exported, verified, paged through and rebuilt."""
import http.client
import json
import os
import random
import resource
import signal
import subprocess
import time

from appliance import BIN, Appliance, until

EVENTS = int(os.environ.get("SVC_BENCH_EVENTS", "1000000"))
EXPORTED = min(100000, EVENTS // 8)
SHAPES = ("jws", "ndjson", "csv", "cef", "ocsf")
TENANT = "bench-01"  # has a seventh of all, and its share of the rest


def seed(a):
    command = ["setpriv", "--reuid=svc-api", "--regid=svc-api", "--clear-groups", f"{BIN}/bench_audit", "--config", a.config,
               "--events", str(EVENTS)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{command}\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def catch_up(a, seeded, limit=900):
    """Events a second from the new svc-api's first batch to its last one; the database is asked, svc-api is busy."""
    begun, first, end = None, 0, time.monotonic() + limit
    checkpoint = 0
    while checkpoint < seeded["last_seq"]:
        if time.monotonic() > end:
            raise SystemExit(f"the projector stands at {checkpoint} of {seeded['last_seq']}\n{a.tail()}")
        checkpoint = int(a.sql("SELECT stream_seq FROM svc.projection_checkpoint"))
        if begun is None:
            first, begun = checkpoint, time.monotonic()
        elif checkpoint == first:
            begun = time.monotonic()
        time.sleep(0.1)
    seconds = time.monotonic() - begun
    return {"seconds": round(seconds, 1), "events": seeded["events"], "messages": seeded["messages"],
            "per_second": round(seeded["events"] / seconds)}


def memory(pid, field):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(field + ":"))


def forget_peak(pid):
    with open(f"/proc/{pid}/clear_refs", "w") as f:
        f.write("5")


def connection(a):
    return http.client.HTTPSConnection("127.0.0.1", a.port, timeout=300, context=a.tls())


def export(a, token, shape, last, into=None):
    c = connection(a)
    size = 0
    try:
        c.request("GET", f"/api/v1/audit/export?shape={shape}&from_sequence=1&to_sequence={last}",
                  headers={"Authorization": f"Bearer {token}"})
        answer = c.getresponse()
        if answer.status != 200:
            raise SystemExit(f"export {shape}: {answer.status} {answer.read()[:500]!r}")
        while piece := answer.read(1 << 18):
            size += len(piece)
            if into:
                into.write(piece)
    finally:
        c.close()
    return size


def exports(a, token, row):
    export(a, token, "ndjson", 10)  # makes the tenant's export key
    pid = a.child("svc-api")
    for shape in SHAPES:
        path = f"{a.dir}/bench.{shape}"
        before = memory(pid, "VmRSS")
        forget_peak(pid)
        begun = time.monotonic()
        with open(path, "wb") as f:
            size = export(a, token, shape, EXPORTED, f)
        seconds = time.monotonic() - begun
        row({"part": "audit export", "shape": shape, "records": EXPORTED, "megabytes": round(size / 1e6, 1),
             "seconds": round(seconds, 2), "per_second": round(EXPORTED / seconds),
             "api_rss_before_mb": round(before / 1024), "api_peak_rss_mb": round(memory(pid, "VmHWM") / 1024)})
        verify(a, path, shape, size, row)
        os.unlink(path)


def verify(a, path, shape, size, row):
    keys = f"{a.dir}/bench.jwks"
    with open(keys, "w") as f:
        f.write(a.cli("audit", "verification-keys", token="BENCH").stdout)
    begun = time.monotonic()
    done = a.cli("audit", "verify", "--artifact", path, "--audit-jwks", keys, "--tsa-root", f"{a.dir}/data/tsa-root.pem",
                 token="BENCH", check=False)
    seconds = time.monotonic() - begun
    row({"part": "audit verify", "shape": shape, "records": EXPORTED, "seconds": round(seconds, 2), "code": done.returncode,
         "megabytes_per_minute": round(size / 1e6 / seconds * 60)})
    if done.returncode != 0:
        print(done.stdout[-500:], done.stderr[-500:])


class Pages:
    def __init__(self, a, token):
        self.connection, self.token = connection(a), token

    def get(self, query):
        begun = time.monotonic()
        self.connection.request("GET", f"/api/v1/audit/records?{query}", headers={"Authorization": f"Bearer {self.token}"})
        answer = self.connection.getresponse()
        body = answer.read()
        took = (time.monotonic() - begun) * 1000
        if answer.status == 429:
            time.sleep(float(answer.headers.get("Retry-After", "1")))
            return self.get(query)
        if answer.status != 200:
            raise SystemExit(f"page {query}: {answer.status} {body[:500]!r}")
        return json.loads(body), took

    def walk(self, query, most):
        """Every page from one end to the other, by 500; what stands where, and the cursors."""
        cursors, cursor = [""], ""
        while len(cursors) <= most:
            page, _ = self.get(f"{query}&limit=500{cursor}")
            if "next_cursor" not in page:
                break
            cursor = f"&cursor={page['next_cursor']}"
            cursors.append(cursor)
        return cursors


def percentiles(times):
    times = sorted(times)
    at = lambda share: round(times[min(len(times) - 1, int(len(times) * share))], 2)  # noqa: E731
    return {"requests": len(times), "p50_ms": at(0.5), "p95_ms": at(0.95), "p99_ms": at(0.99), "max_ms": round(times[-1], 2)}


def pages(a, token, row):
    """Pages of 100 at depths that are spread over all that a filter finds."""
    chance = random.Random(1)
    all_pages = Pages(a, token)
    middle = a.sql(f"SELECT to_char(to_timestamp(percentile_disc(0.5) WITHIN GROUP (ORDER BY time_us) / 1e6)"
                   f" AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') FROM svc.audit_records WHERE tenant_id = '{TENANT}'")
    for what, query in (("all, newest first", "order=desc"), ("all, oldest first", "order=asc"),
                        ("a frequent type", "type=codesign.signed"), ("a rare type", "type=key.generated"),
                        ("a frequent actor", "actor=system:outbox"), ("a rare actor", "actor=admin"),
                        ("type and actor", "type=codesign.commanded&actor=ada%40example.org"),
                        ("type and actor, rare", "type=tenant.created&actor=system:cli"),
                        ("until the middle", f"to={middle}"), ("from the middle on, oldest first", f"order=asc&from={middle}"),
                        ("until the middle, a type", f"type=codesign.signed&to={middle}")):
        cursors = all_pages.walk(query, 1000)
        picked = [chance.choice(cursors) for _ in range(200)]
        row({"part": "audit page of 100", "filter": what, "depth": f"up to {500 * len(cursors)}",
             **percentiles([all_pages.get(f"{query}&limit=100{cursor}")[1] for cursor in picked])})


def heads(a):
    return a.sql("SELECT tenant_id, sequence, encode(chain, 'hex') FROM svc.audit_heads ORDER BY 1")


def rebuild(a, seeded, row):
    """Stops the appliance, rebuilds, and starts it again."""
    before = heads(a)
    a.stop()
    before_cpu = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.monotonic()
    done = a.appliance("rebuild", check=False)
    seconds = time.monotonic() - begun
    cpu = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = cpu.ru_utime + cpu.ru_stime - before_cpu.ru_utime - before_cpu.ru_stime
    if done.returncode != 0:
        raise SystemExit(f"rebuild: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    row({"part": "audit rebuild", "events": seeded["events"], "seconds": round(seconds, 1),
         "cpu_seconds": round(cpu, 1), "per_second": round(seeded["events"] / seconds)})
    a.start()
    after = heads(a)
    kept = [line for line in before.splitlines() if line.startswith("bench-")]
    if not set(kept) <= set(after.splitlines()):
        raise SystemExit("the rebuild did not give the same heads")


def run(result):
    def row(entry):
        result["rows"].append(entry)
        print("  ".join(f"{k} {v}" if k not in ("part", "shape", "filter") else f"{v:20}" for k, v in entry.items()), flush=True)

    a = Appliance("bench-audit", log__level="warn")
    try:
        a.start()
        api = a.child("svc-api")
        os.kill(api, signal.SIGSTOP)  # what is appended meanwhile is the backlog of the next one
        seeded = seed(a)
        row({"part": "audit seeding", "seed_seconds": seeded["seconds"], "events": seeded["events"],
             "messages": seeded["messages"], "megabytes": round(seeded["bytes"] / 1e6)})
        os.kill(api, signal.SIGKILL)
        row({"part": "audit catching up", **catch_up(a, seeded)})
        until("the appliance serves again", a.is_ready, 300)
        made = json.loads(a.appliance("token", "create", "--tenant", TENANT, "--subject", "bench", "--role", "auditor",
                                      "--json").stdout)
        a.env["SVC_TOKEN_BENCH"] = made["token"]
        pages(a, made["token"], row)
        exports(a, made["token"], row)
        rebuild(a, seeded, row)
    finally:
        a.clean()
