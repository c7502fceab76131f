"""The body of scripts/bench: runs inside the build root, on a real appliance with a SoftHSM token."""
import datetime
import json
import os
import platform
import secrets
import statistics
import subprocess
import sys
import time

sys.path.insert(0, "tests/e2e")
sys.path.insert(0, "scripts/lib")
import bench_tsa  # noqa: E402
import signing  # noqa: E402
from appliance import BIN, Appliance, digest_of, make_key, run, until  # noqa: E402
from peers import Rekor  # noqa: E402

what = [a for a in sys.argv[1:] if not a.startswith("--")] or ["all"]
out_file = sys.argv[sys.argv.index("--out") + 1] if "--out" in sys.argv else "build/bench.json"
if "--out" in sys.argv:
    what = [a for a in what if a != out_file] or ["all"]
want = lambda part: "all" in what or part in what  # noqa: E731
SECONDS = os.environ.get("SVC_BENCH_SECONDS", "4")


def bench(program, *args, env=None, user=None):
    command = [f"{BIN}/{program}", *map(str, args)]
    if user:
        command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *command]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(env or {})})
    if done.returncode != 0:
        raise SystemExit(f"{command}\n{done.stdout}{done.stderr}")
    print(done.stderr, end="", file=sys.stderr, flush=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


class Turns:
    """A measuring program that is told run after run, so that programs can take turns."""

    def __init__(self, program, *args, user, env=None):
        self.process = subprocess.Popen(["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups",
                                         f"{BIN}/{program}", *map(str, args)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env={**os.environ, **(env or {})})

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        if self.process.wait() != 0:
            raise SystemExit(f"{self.process.args} failed")


ROUNDS = 5


def take_turns(token, signer, algorithm, scheme, clients):
    """Raw token, signer, signer with journal, again and again in short slices: what else the machine does meanwhile
    meets all three. The row is the median of the rounds, ratios and differences those within a round."""
    slice_s = float(SECONDS) / 8
    rounds = [(token.ask(f"raw {algorithm} {scheme} {clients} {slice_s}"),
               signer.ask(f"{algorithm} {scheme} {clients} {slice_s} no"),
               signer.ask(f"{algorithm} {scheme} {clients} {slice_s} yes")) for _ in range(ROUNDS)]
    median = lambda of: statistics.median(of(r) for r in rounds)  # noqa: E731
    name = algorithm + (" pss" if scheme == "pss" else "")
    for i, part in enumerate(("raw C_Sign", "svc-signer", "svc-signer journalled")):
        figures = {k: round(median(lambda r: r[i][k]), 1) for k in ("per_second", "p50_us", "p95_us", "p99_us")}  # noqa: B023
        if i > 0:
            figures["failed"] = sum(r[i]["failed"] for r in rounds)
            figures["added_p50_us"] = median(lambda r: r[i]["p50_us"] - r[0]["p50_us"])  # noqa: B023
            figures["added_p99_us"] = median(lambda r: r[i]["p99_us"] - r[0]["p99_us"])  # noqa: B023
            figures["ratio_to_raw"] = round(median(lambda r: r[i]["per_second"] / r[0]["per_second"]), 3)  # noqa: B023
        row(part, name, clients, figures)


def calibrate():
    """openssl speed beside everything, so that two runs on machines of another pace can be compared."""
    text = run("openssl", "speed", "-seconds", "2", "ecdsap256", check=False).stdout
    line = [x for x in text.splitlines() if "nistp256" in x]
    return float(line[-1].split()[-2]) if line else None


result = {"date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), "machine": platform.processor() or
          platform.machine(), "kernel": platform.release(), "cores": os.cpu_count(), "command": "scripts/bench " + " ".join(what),
          "openssl_p256_sign_per_s": calibrate(), "rows": []}
try:
    with open("/proc/cpuinfo") as f:
        result["machine"] = next(line.split(":")[1].strip() for line in f if line.startswith("model name"))
except (OSError, StopIteration):
    pass


def row(part, algorithm, clients, figures, base=None):
    entry = {"part": part, "algorithm": algorithm, "clients": clients, **figures}
    if base:
        entry["ratio_to_raw"] = round(figures["per_second"] / base, 3)
    result["rows"].append(entry)
    unit = "ms" if "p50_ms" in figures else "us"
    print(f"{part:22} {algorithm:12} {clients:3} clients {figures['per_second']:10.1f}/s   "
          f"p50 {figures['p50_' + unit]:9.2f} {unit}  p95 {figures['p95_' + unit]:9.2f}  p99 {figures['p99_' + unit]:9.2f}"
          + (f"   {entry['ratio_to_raw']:.2f} of raw" if "ratio_to_raw" in entry else "")
          + (f"   {entry['times_peer']:.2f} x timestamp-server" if "times_peer" in entry else "")
          + (f"   +{entry['added_p50_us']:.0f}/{entry['added_p99_us']:.0f} us" if "added_p50_us" in entry else "")
          + (f"   {figures['refused']} refused" if figures.get("refused") else "")
          + (f"   {figures['failed']} FAILED" if figures.get("failed") else ""), flush=True)
    return figures["per_second"]


def token_of(appliance):
    """The bare token of an appliance, for turns."""
    return Turns("bench_token", "/usr/lib/softhsm/libsofthsm2.so", "svc", f"{appliance.dir}/data/signer/pin", user="svc-signer",
                 env={"SOFTHSM2_CONF": f"{appliance.dir}/data/softhsm/softhsm2.conf"})


def memory_row(tokens, sizes):
    result["rows"].append({"part": "memory of /tsa", "tokens": tokens, **sizes})
    print(f"memory of /tsa         {tokens:9} tokens   " + "  ".join(f"{k} {v / 1024:.1f} MiB" for k, v in sizes.items()), flush=True)


print(f"{result['date']}  {result['machine']}  {result['cores']} cores  "
      f"openssl P-256 {result['openssl_p256_sign_per_s']} sign/s")
a = Appliance("bench", log__level="warn").start()  # of the parts that follow
try:
    raw = {}
    token = token_of(a)
    if want("signer"):
        signer = Turns("bench_signer", a.config, user="svc-api")
        for algorithm, scheme in (("ec-p256", "default"), ("ec-p384", "default"), ("rsa-3072", "default"), ("rsa-3072", "pss")):
            for clients in (1, 2, 4, 8, 32):
                take_turns(token, signer, algorithm, scheme, clients)
        signer.end()
    if want("codesign"):
        for algorithm in ("ec-p256", "rsa-3072"):
            for threads in (1, 2, 8):
                raw[algorithm, threads] = row("raw C_Sign", algorithm, threads,
                                              token.ask(f"raw {algorithm} default {threads} {float(SECONDS) / 4}"))
    token.end()
    best = {alg: max([v for (x, _), v in raw.items() if x == alg], default=None) for alg in ("ec-p256", "rsa-3072")}
    if want("codesign"):
        env = {"SVC_TOKEN": a.token("OPERATOR"), "SVC_CA_FILE": f"{a.dir}/data/ca.pem"}
        pace = max(0.25, float(SECONDS) / 4)
        # 128 clients are more than there are connection threads: what is cut or refused is counted.
        for algorithm, requests in (("ec-p256", {1: 600, 8: 2000, 32: 4000, 128: 4000}),
                                    ("rsa-3072", {1: 300, 8: 1200, 32: 2000})):
            key_id = make_key(a, algorithm)
            bench("bench_http", "sign", f"https://127.0.0.1:{a.port}", 4, 100, key_id, env=env)  # warm
            for connections, count in requests.items():
                figures = bench("bench_http", "sign", f"https://127.0.0.1:{a.port}", connections, int(count * pace), key_id,
                                env=env)[0]
                row("/sign end to end", algorithm, connections, figures, best[algorithm])
finally:
    a.clean()


def publication(in_flight, count):
    """From the first signature on, how many entries a second reach a real log and are recorded as evidence."""
    rekor = Rekor().start()
    a = Appliance("bench-tlog", log__level="warn", code_signing__transparency__in_flight=in_flight)
    try:
        signing.write_logs(a, rekor)
        a.start()
        key_id, session = make_key(a), a.session("OPERATOR")
        recorded = lambda: int(a.sql("SELECT count(*) FROM svc.transparency_entries WHERE state = 'published'"))  # noqa: E731
        rekor.pause()  # everything is signed and queued before the clock runs
        for start in range(0, count, 64):
            digests = [digest_of(secrets.token_bytes(16)) for _ in range(min(64, count - start))]
            answer = signing.sign(session, "batch", signing.batch_body(key_id, digests))
            assert answer.status == 200, answer
        rekor.go_on()
        begun = time.monotonic()
        until("everything is published", lambda: recorded() == count, 600)
        elapsed = time.monotonic() - begun
        assert rekor.size() == count
        entry = {"part": "publication in Rekor", "in_flight": in_flight, "entries": count,
                 "per_second": round(count / elapsed, 1)}
        result["rows"].append(entry)
        print(f"{entry['part']:22} {'ec-p256':9} {in_flight:3} in flight {entry['per_second']:8.1f}/s   {count} entries",
              flush=True)
    finally:
        a.clean()
        rekor.stop()


try:
    if want("tsa"):
        for algorithm in ("ec-p256", "rsa-3072"):
            bench_tsa.measure(algorithm, float(SECONDS), row, token_of)
    if "tsa-memory" in what:
        bench_tsa.memory(int(os.environ.get("SVC_BENCH_TOKENS", "1000000")), memory_row)
    if want("tlog"):
        for in_flight, count in ((1, 32), (16, 512), (64, 1536)):
            publication(in_flight, count)
    if want("audit"):
        import bench_audit
        bench_audit.run(result)
    if want("mutations"):
        import bench_mutations
        bench_mutations.run(result)
    if want("compliance"):
        import bench_compliance
        bench_compliance.run(result)
finally:
    with open(out_file, "w") as f:
        json.dump(result, f, indent=1)
    print(f"written: {out_file}")
