"""The body of scripts/perf: runs inside the build root, on a real appliance with a SoftHSM token."""
import datetime
import json
import os
import platform
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, "tests/e2e")
sys.path.insert(0, "scripts/lib")
import perf_watch  # noqa: E402
from appliance import BIN, SRC, Appliance, Replica, make_key, run, until  # noqa: E402
from perf_watch import OURS, Watch, scrape, value  # noqa: E402

MEASURED = f"{SRC}/policies/scale/measured.json"
PROFILES = {"smoke": ("",), "live": ("",), "soak": ("",), "burst": ("cap-small", "cap-medium", "cap-large"),
            "band": ("100000", "250000", "1000000"), "failover": ("two-replicas",)}
# Objectives whose surface is served: p50, p95, p99 in ms, least throughput, ceilings of queue (percent) and lag (events).
OBJECTIVES = {
    "inventory": ("PERF-SLO-002", 25, 75, 150, 100, 80, 25),
    "graph": ("PERF-SLO-003", 75, 250, 500, 20, 80, 25),
    "signer": ("PERF-SLO-007", 25, 75, 150, 100, 70, 0),
    "replay": ("PERF-SLO-008", 100, 300, 750, 500, 80, 50),
}
# What a second of the realistic phase has of each; the peak has four times as many.
ROWS = {
    "inventory": (110, "read operator /api/v1/certificates?limit=50"),
    "sign": (10, "sign operator"),
    "stamp": (50, "stamp"),
    "owner": (20, "mutation operator PUT /api/v1/credentials/key/{key}/owner {\"owner_id\":\"team-{n}\"}"),
    "graph": (22, "read operator /api/v1/graph/crypto-readiness"),
    "keys": (10, "read operator /api/v1/keys"),
    "audit": (5, "read operator /api/v1/audit/records?limit=50"),
}
BUDGET_PERCENT = 0.10
IDLE_MIB = 120
# What a run is expected to reach beyond the objectives; it is told and fails nothing.
MUTATIONS = {"per_second": 1000, "p99_ms": 60}


def refuse(text):
    print(f"scripts/perf: {text}", file=sys.stderr)
    raise SystemExit(2)


def percentile(times, part):
    return times[min(len(times) - 1, int(len(times) * part))] if times else 0.0


def machine():
    model = platform.processor() or platform.machine()
    with open("/proc/cpuinfo") as f:
        model = next((line.split(":")[1].strip() for line in f if line.startswith("model name")), model)
    with open("/proc/meminfo") as f:
        memory = int(f.readline().split()[1]) / 2**20
    return f"{os.cpu_count()} cores ({model}), {memory:.0f} GiB, SoftHSM token"


# ---- an appliance, and a load ----

def start(name, **settings):
    """With the embedded stores, or with those that SVC_POSTGRES_URL and SVC_NATS_URL name: then nothing makes tokens."""
    a = Appliance(name, log__level="warn", rate_limit__enabled=False, **settings)
    if not os.environ.get("SVC_POSTGRES_URL"):
        return a.start()
    a.spawn()

    def ready():
        if a.process.poll() is not None:
            raise SystemExit(f"svc-appliance ended with {a.process.returncode}\n{a.tail()}")
        return a.is_ready()

    until("the appliance is ready", ready, 180)
    a.env["SVC_TENANT"] = f"perf-{secrets.token_hex(4)}"
    a.appliance("tenant", "create", a.env["SVC_TENANT"])
    a.env["SVC_TOKEN_OPERATOR"] = json.loads(a.appliance(
        "token", "create", "--tenant", a.env["SVC_TENANT"], "--subject", "perf", "--role", "operator", "--json").stdout)["token"]
    return a


def target_of(a, *others):
    """One tenant, with everything that the rows ask for."""
    name = a.env["SVC_TENANT"]
    return "\n".join([*(f"url https://127.0.0.1:{x.port}" for x in (a, *others)), f"ca {a.dir}/data/ca.pem",
                      f"stamp_url http://127.0.0.1:{a.plain}", f"tenant {name}", f"token {name} operator {a.token('OPERATOR')}",
                      f"key {name} {make_key(a)}", f"stamps {name} /tsa"]) + "\n"


def trail(a):
    """How many owner records are in the tenant's audit trail."""
    session, count, cursor = a.session("OPERATOR"), 0, None
    while True:
        page = session.api("GET", "/api/v1/audit/records?type=inventory.owner.recorded&limit=500" + (f"&cursor={cursor}" if cursor else "")).json
        count, cursor = count + len(page["records"]), page.get("next_cursor")
        if not cursor:
            return count


def whole(gate, row, grown):
    """What was acknowledged is in the trail, and nothing else but what may have been."""
    gate.note("acknowledged_unknown_recorded", [row["count"], row["unknown"], grown])
    if not row["count"] <= grown <= row["count"] + row["unknown"]:
        gate.fail(f"{row['count']} mutations were acknowledged and {row['unknown']} are unknown; {grown} are recorded")


def load(target, rows, phase):
    """One phase of the load generator: {row: figures}. Its journal is kept for counting."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        profile = ["threads 2", *(f"row {name} {weight} {what}" for name, (weight, what) in rows.items()), f"phase {phase}"]
        for name, text in (("profile", "\n".join(profile) + "\n"), ("target", target)):
            with open(f"{folder}/{name}", "w") as f:
                f.write(text)
        done = subprocess.run([f"{BIN}/svc_load", "--target", f"{folder}/target", "--profile", f"{folder}/profile",
                               "--out", f"{folder}/out"], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"svc_load failed: {done.stderr}")
        with open(f"{folder}/out") as f:
            report = json.load(f)["phases"][0]
    return report, {row["row"]: row for row in report["rows"]}


class Certificates:
    """Different certificates of one size: a real one whose serial number is another each time."""

    def __init__(self):
        with tempfile.TemporaryDirectory(dir="/tmp") as folder:
            run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                f"{folder}/key", "-out", f"{folder}/cert", "-outform", "DER", "-subj", "/CN=perf.example", "-days", "90",
                "-set_serial", "0x" + "5a" * 16)
            with open(f"{folder}/cert", "rb") as f:
                self.der = f.read()
        self.at = self.der.index(b"\x5a" * 16)

    def one(self):
        serial = b"\x5a" + secrets.token_bytes(15)
        return self.der[:self.at] + serial + self.der[self.at + 16:]


def record_certificates(a, count, clients=16):
    """Through the API, as somebody records them; milliseconds of each, sorted."""
    import base64
    source, times, lock, left = Certificates(), [], threading.Lock(), [count]

    def work():
        session, mine = a.session("OPERATOR"), []
        while True:
            with lock:
                if left[0] == 0:
                    times.extend(mine)
                    return
                left[0] -= 1
            body = {"certificate": base64.b64encode(source.one()).decode(), "origin": "imported"}
            begun = time.monotonic()
            answer = session.api("POST", "/api/v1/certificates", body, key=True)
            if answer.status != 201:
                raise SystemExit(f"recording a certificate: {answer}")
            mine.append((time.monotonic() - begun) * 1000)

    threads = [threading.Thread(target=work) for _ in range(clients)]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(times), time.monotonic() - begun


# ---- rows and verdicts ----

class Gate:
    def __init__(self, gate, profile):
        self.gate, self.profile, self.rows, self.figures, self.failures = gate, profile, [], {}, []

    def fail(self, why):
        self.failures.append(why)

    def row(self, name, phase, figures, watched=None, asked_rate=None):
        """One line of the table. Errors fail it; so does an objective that is not met."""
        slo = OBJECTIVES.get(name)
        errors = int(figures.get("refused", 0) + figures.get("unknown", 0))
        requests = int(figures["count"]) + errors
        row = {"name": name, "phase": phase, "requests": requests, "errors": errors,
               "per_second": int(figures["per_second"]), **{f"{k}_us": int(figures[f"{k}_ms"] * 1000)
                                                            for k in ("p50", "p95", "p99", "max")}}
        if watched:
            row |= {"queue_percent": int(watched["queue_percent"]), "lag_events": int(watched["lag_events"])}
        why = []
        if requests == 0 or errors * 100 > BUDGET_PERCENT * requests:
            why.append(f"{errors} of {requests} failed")
        reach = None
        if slo:
            row["slo"] = slo[0]
            for k, most in zip(("p50", "p95", "p99"), slo[1:4]):
                if figures[f"{k}_ms"] > most:
                    why.append(f"{k} {figures[f'{k}_ms']:.1f} ms of {most}")
            if figures["per_second"] < slo[4]:
                why.append(f"{figures['per_second']:.0f}/s of {slo[4]}")
            if watched and watched["queue_percent"] > slo[5]:
                why.append(f"queue {watched['queue_percent']:.0f} % of {slo[5]}")
            if watched and watched["lag_events"] > slo[6] and name != "signer":
                why.append(f"lag {watched['lag_events']:.0f} events of {slo[6]}")
            reach = figures["per_second"] >= 4 * slo[4] and all(figures[f"{k}_ms"] <= most / 3
                                                                for k, most in zip(("p50", "p95", "p99"), slo[1:4]))
        row["passed"] = not why
        self.rows.append(row)
        for text in why:
            self.fail(f"{name}, {phase}: {text}")
        print(f"{name:10} {phase:10} {row['per_second']:7}/s  p50 {figures['p50_ms']:8.2f}  p95 {figures['p95_ms']:8.2f}  "
              f"p99 {figures['p99_ms']:8.2f}  max {figures['max_ms']:8.2f} ms  {errors} errors"
              + (f"  queue {watched['queue_percent']:.0f} %  lag {watched['lag_events']:.0f}" if watched else "")
              + (f"  {slo[0]}" if slo else "") + ("  4x within a third" if reach else "") + ("  FAILED" if why else ""), flush=True)

    def note(self, name, value):
        self.figures[name] = value
        print(f"{name}: {value}", flush=True)

    def end(self, out, record, command):
        result = {"gate": self.gate, "profile": self.profile, "measured_at":
                  datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), "machine": machine(), "command": command,
                  "version": run(f"{BIN}/svc-api", "--version").stdout.split()[-1], "passed": not self.failures,
                  "rows": self.rows, "figures": self.figures}
        with open(out, "w") as f:
            json.dump({**result, "failures": self.failures}, f, indent=1)
        if record:
            with open(MEASURED) as f:
                kept = json.load(f)
            kept["runs"] = [r for r in kept["runs"] if (r["gate"], r["profile"]) != (self.gate, self.profile)] + [result]
            with open(MEASURED, "w") as f:
                json.dump(kept, f, indent=1, sort_keys=True)
                f.write("\n")
        for why in self.failures:
            print(f"FAILED  {why}", file=sys.stderr)
        print(f"{self.gate} {self.profile}".strip() + (": failed" if self.failures else ": passed") + f"; {out}", flush=True)
        return 1 if self.failures else 0


def idle_memory(a, gate):
    """Of our own processes, before anybody asks anything."""
    found = perf_watch.resources(a)
    used = round(sum(found[p]["rss"] for p in OURS) / 2**20, 1)
    gate.note("idle_memory_of_ours_mib", used)
    if used > IDLE_MIB:
        gate.fail(f"our processes use {used} MiB when idle, of {IDLE_MIB}")


def signer_row(a, gate, phase, threads, seconds):
    """The signer's door itself, as svc-api uses it: Sign, from threads that sign as fast as they are answered."""
    with Watch(a, period=0.2) as watch:
        watch.mark(phase)
        process = subprocess.run(["setpriv", "--reuid=svc-api", "--regid=svc-api", "--clear-groups", f"{BIN}/bench_signer",
                                  a.config], input=f"ec-p256 default {threads} {seconds} no\n", capture_output=True, text=True)
        watched = watch.figures(phase)
    if process.returncode != 0:
        raise SystemExit(process.stderr)
    f = json.loads(process.stdout.splitlines()[0])
    gate.row("signer", phase, {"count": f["per_second"] * seconds, "unknown": f["failed"], "per_second": f["per_second"],
                               **{f"{k}_ms": f[f"{k}_us"] / 1000 for k in ("p50", "p95", "p99", "max")}},
             {"queue_percent": watched["signer_percent"], "lag_events": watched["lag_events"]})


def phases(a, gate, plan, seconds):
    target = target_of(a)
    with Watch(a) as watch:
        for phase, times in plan:
            watch.mark(phase)
            rate = times * sum(weight for weight, _ in ROWS.values())
            report, rows = load(target, ROWS, f"{phase} for={seconds} rate={rate} clients=64")
            watch.mark("")
            watched = watch.figures(phase)
            for name in ROWS:
                gate.row(name, phase, rows[name], watched)
            if report["missed"]:
                gate.fail(f"{phase}: {report['missed']} requests could not be begun in time")
            gate.note(f"resources_{phase}", {k: watched[k] for k in (*perf_watch.PROCESSES, "pool_percent", "rejected")})
    return target


def apply_times(metrics):
    """Percentiles of how long the projector took for a batch, in ms: the upper ends of the histogram's buckets."""
    buckets = sorted((float(l["le"]), v) for l, v in metrics.get("svc_projection_apply_duration_seconds_bucket", []))
    total = value(metrics, "svc_projection_apply_duration_seconds_count")
    return {f"{k}_ms": min(1000 * next((le for le, seen in buckets if seen >= p * total), 30), 30000)
            for k, p in (("p50", .5), ("p95", .95), ("p99", .99), ("max", 1))}


def replay_row(a, gate):
    """Everything again into an emptied read model: its pace; its latencies are those of batches while serving."""
    times = apply_times(scrape(a))
    events = int(a.sql("SELECT count(*) FROM svc.audit_records"))
    a.stop()
    begun = time.monotonic()
    a.appliance("rebuild")
    took = time.monotonic() - begun
    gate.row("replay", "rebuild", {"count": events, "per_second": events / took, **times})


# ---- the gates ----

def smoke(gate, seconds):
    a = start("perf-smoke")
    try:
        idle_memory(a, gate)
        record_certificates(a, 200)
        phases(a, gate, (("smoke", 1),), seconds)
        signer_row(a, gate, "smoke", 1, 1)
    finally:
        a.clean()


def live(gate, seconds):
    a = start("perf-live")
    try:
        idle_memory(a, gate)
        record_certificates(a, 2000)
        target = phases(a, gate, (("realistic", 1), ("peak", 4)), seconds)
        _, rows = load(target, {"owner": ROWS["owner"]}, f"mutations for={seconds} clients=32")
        gate.row("owner", "mutations", rows["owner"])
        gate.note("mutations_reach", {"asked": MUTATIONS, "reached": rows["owner"]["per_second"] >= MUTATIONS["per_second"] and
                                      rows["owner"]["p99_ms"] <= MUTATIONS["p99_ms"]})
        signer_row(a, gate, "realistic", 1, 3)
        signer_row(a, gate, "peak", 4, 3)
        replay_row(a, gate)
    finally:
        a.clean()


STORAGE_MOST = 16384  # bytes for each mutation: event, copy, audit record, kept answer, rows, and their indexes
GROWTH = (("anon", "memory", 16 * 2**20), ("threads", "threads", 8), ("files", "open files", 16))


def judge_slopes(gate, watch, mutations):
    """After the first fifth, which fills pools and caches: what a million mutations would add, where a line explains it."""
    kept = watch.samples[len(watch.samples) // 5:]
    share = mutations * 0.8 / max(1, len(kept) - 1)
    for program in OURS:
        for key, words, most in GROWTH:
            points = [(i * share, s["resources"][program][key]) for i, s in enumerate(kept)]
            rise, explained = perf_watch.slope(points)
            grown = rise * 1e6
            gate.figures[f"{program}_{key}_per_million"] = int(grown)
            print(f"{program:14} {words:10} {grown / (2**20 if key == 'anon' else 1):10.2f} {'MiB ' if key == 'anon' else ''}"
                  f"a million mutations (explains {explained:.2f})", flush=True)
            if grown > most and explained > 0.5:
                gate.fail(f"{program}: {words} rises by {grown:.0f} a million mutations")


def soak(gate, seconds):
    mutations = int(os.environ.get("SVC_PERF_MUTATIONS", "1000000"))
    a = start("perf-soak")
    try:
        idle_memory(a, gate)
        target = target_of(a)
        before = perf_watch.storage(a)
        with Watch(a, period=max(0.5, mutations / 1e6)) as watch:
            watch.mark("soak")
            _, rows = load(target, {"owner": ROWS["owner"]}, f"soak ops={mutations} clients=16")
            watched = watch.figures("soak")
        gate.row("owner", "soak", rows["owner"], watched)
        judge_slopes(gate, watch, mutations)
        stored = int((perf_watch.storage(a) - before) / mutations)
        gate.note("storage_bytes_per_mutation", stored)
        if stored > STORAGE_MOST:
            gate.fail(f"{stored} bytes are stored for each mutation, of {STORAGE_MOST}")
        if watched["lag_median"] > OBJECTIVES["replay"][6]:
            gate.fail(f"the read model is {watched['lag_median']:.0f} events behind all the time")
        if watched["pool_percent"] >= 100 and watched["rejected"]:
            gate.fail("a pool of the database was used up")
        gate.note("resources_soak", {k: watched[k] for k in (*perf_watch.PROCESSES, "pool_percent", "rejected", "restarts")})
        if watched["restarts"] or watched["rejected"]:
            gate.fail(f"{watched['restarts']:.0f} restarts, {watched['rejected']:.0f} requests refused by a bulkhead")
        until("the read model has caught up", lambda: value(scrape(a), "svc_projection_lag_events") == 0, 120)
    finally:
        a.clean()


def external(profile):
    """A burst through embedded stores says nothing of others."""
    if not os.environ.get("SVC_POSTGRES_URL") or not os.environ.get("SVC_NATS_URL"):
        refuse(f"burst {profile} needs SVC_POSTGRES_URL and SVC_NATS_URL of an external database and event stream")


def burst(gate, seconds):
    if gate.profile == "cap-small" and os.environ.get("SVC_POSTGRES_URL"):
        refuse("cap-small is the burst through the embedded stores: unset SVC_POSTGRES_URL")
    clients = {"cap-small": 64, "cap-medium": 128, "cap-large": 256}[gate.profile]
    a = start("perf-burst")
    try:
        target = target_of(a)
        before = trail(a)
        with Watch(a, period=0.25) as watch:
            watch.mark("burst")
            _, rows = load(target, {"owner": ROWS["owner"]}, f"burst for={seconds} clients={clients}")
            ended = time.monotonic()
            until("the read model has caught up", lambda: value(scrape(a), "svc_projection_lag_events") == 0, 300)
            watched = watch.figures("burst")
        gate.row("owner", "burst", rows["owner"], watched)
        gate.note("caught_up_after_seconds", round(time.monotonic() - ended, 2))
        whole(gate, rows["owner"], trail(a) - before)
        if watched["queue_percent"] > OBJECTIVES["replay"][5]:
            gate.fail(f"queue {watched['queue_percent']:.0f} %")
    finally:
        a.clean()


RTO_SECONDS = 30


def leads(x):
    return value(scrape(x), "svc_projector_leader") == 1


def failover(gate, seconds):
    """Two svc-api on one database, log and signer, both loaded; the one that leads is killed."""
    a = start("perf-failover")
    b = Replica(a).start()
    try:
        target = target_of(a, b)
        before = trail(a)
        done = {}

        def work():
            done["rows"] = load(target, {"owner": ROWS["owner"]}, f"failover for={seconds} clients=16")[1]

        thread = threading.Thread(target=work)
        thread.start()
        until("half of it is over", lambda: trail(a) > before + 50, 120)
        leader, other = (b, a) if leads(b) else (a, b)
        killed = time.monotonic()
        os.kill(leader.pid() if leader is b else a.child("svc-api"), signal.SIGKILL)
        until("the other one leads", lambda: leads(other) or leads(leader), 120)
        took = time.monotonic() - killed
        thread.join()
        until("ready", lambda: other.is_ready(), 120)
        row = done["rows"]["owner"]
        gate.row("owner", "failover", row)
        gate.note("leads_again_after_seconds", round(took, 2))
        gate.note("longest_wait_of_a_caller_seconds", round(row["max_ms"] / 1000, 2))
        whole(gate, row, trail(other) - before)
        if row["max_ms"] > RTO_SECONDS * 1000:
            gate.fail(f"a caller waited {row['max_ms'] / 1000:.0f} s of {RTO_SECONDS}")
    finally:
        b.kill()
        a.clean()


def band(gate, seconds):
    credentials = int(gate.profile)
    a = start("perf-band")
    try:
        times, took = record_certificates(a, credentials)
        gate.row("record", "load", {"count": credentials, "per_second": credentials / took, **{
            f"{k}_ms": percentile(times, p) for k, p in (("p50", .5), ("p95", .95), ("p99", .99), ("max", 1))}})
        a.sql("VACUUM ANALYZE")  # as autovacuum does within minutes
        target = target_of(a)
        with Watch(a) as watch:
            watch.mark("reads")
            _, rows = load(target, {"inventory": ROWS["inventory"]}, f"reads for={seconds} rate=400 clients=32")
            gate.row("inventory", "reads", rows["inventory"], watch.figures("reads"))
    finally:
        a.clean()


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    gate = arguments[0] if arguments else ""
    out = None
    if "--out" in sys.argv:
        at = sys.argv.index("--out")
        if at + 1 == len(sys.argv):
            refuse("--out needs a file")
        out = sys.argv[at + 1]
        arguments.remove(out)
    if gate not in PROFILES:
        refuse(f"no gate {gate!r}: one of {', '.join(PROFILES)}")
    profile = arguments[1] if len(arguments) > 1 else PROFILES[gate][0]
    if profile not in PROFILES[gate]:
        refuse(f"{gate} has no profile {profile!r}: one of {', '.join(PROFILES[gate])}")
    seconds = float(os.environ.get("SVC_PERF_SECONDS", {"smoke": 5, "live": 60, "burst": 20, "band": 10, "failover": 20}.get(gate, 0)))
    made = Gate(gate, profile)
    if gate == "burst" and profile != "cap-small":
        external(profile)  # refused before anything is started
    {"smoke": smoke, "live": live, "soak": soak, "burst": burst, "band": band, "failover": failover}[gate](made, seconds)
    command = " ".join(["scripts/perf", gate, profile]).strip()
    if os.environ.get("SVC_PERF_SECONDS"):
        command = f"SVC_PERF_SECONDS={os.environ['SVC_PERF_SECONDS']} {command}"
    return made.end(out or f"build/perf-{gate}{'-' + profile if profile else ''}.json", "--record" in sys.argv, command)


if __name__ == "__main__":
    raise SystemExit(main())
