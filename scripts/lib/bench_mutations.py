"""scripts/bench mutations: small mutations (the owner of a credential is recorded: one event) with 1, 8 and 32 clients on
a real appliance, with the processor time of each process for one of them, and the round trips that a request waits for."""
import json
import os
import re
import subprocess

from appliance import BIN, Appliance, make_key

SECONDS = float(os.environ.get("SVC_BENCH_SECONDS", "4"))
BODY = json.dumps({"owner_id": "team-release", "contact": "release@example.com", "environment": "production"})


def put(a, url, clients, requests):
    env = {**os.environ, "SVC_TOKEN": a.token("OPERATOR"), "SVC_CA_FILE": f"{a.dir}/data/ca.pem"}
    done = subprocess.run([f"{BIN}/bench_http", "mutate", url, str(clients), str(requests), BODY], capture_output=True,
                          text=True, env=env)
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)
    print(done.stderr, end="", flush=True)
    return json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])


def processor_time(a):
    """Ticks of user and kernel time by program; those of ended backends are the postmaster's children's."""
    used = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or not a.below_us(int(entry)):
            continue
        try:
            with open(f"/proc/{entry}/stat") as f:
                stat = f.read()
        except OSError:
            continue
        name = stat[stat.index("(") + 1:stat.rindex(")")]
        fields = stat[stat.rindex(")") + 2:].split()
        user, system = used.get(name, (0, 0))
        used[name] = (user + int(fields[11]), system + int(fields[12]))
    return used


def waits(a):
    text = a.probe_get("/metrics").body.decode()
    return {of: float(n) for of, n in re.findall(r'svc_http_waits_total\{of="(\w+)"\} ([0-9.e+]+)', text)}


def run(result):
    a = Appliance("bench-mutations", log__level="warn")
    try:
        a.start()
        key_id = make_key(a)
        url = f"https://127.0.0.1:{a.port}/api/v1/credentials/key/{key_id}/owner"
        put(a, url, 8, 400)  # warm
        for clients, pace in ((1, 200), (8, 800), (32, 1500)):
            requests = int(pace * SECONDS)
            before, waited = processor_time(a), waits(a)
            figures = put(a, url, clients, requests)
            after, now = processor_time(a), waits(a)
            made = figures["requests"] + clients
            entry = {"part": "small mutation", "clients": clients, **figures,
                     "waits": {of: round((now[of] - waited.get(of, 0)) / made, 2) for of in now},
                     "processor_us": {name: round(sum(after[name][i] - before.get(name, (0, 0))[i] for i in (0, 1)) * 10000 / made)
                                      for name in after}}
            result["rows"].append(entry)
            print(f"small mutation         {clients:3} clients {figures['per_second']:9.1f}/s   p50 {figures['p50_ms']:.2f} ms  "
                  f"p95 {figures['p95_ms']:.2f}  p99 {figures['p99_ms']:.2f}   waits {entry['waits']}   processor time "
                  + ", ".join(f"{k} {v} us" for k, v in sorted(entry["processor_us"].items(), key=lambda x: -x[1]) if v > 0)
                  + (f"   {figures['refused']} refused" if figures["refused"] else "")
                  + (f"   {figures['failed']} FAILED" if figures["failed"] else ""), flush=True)
    finally:
        a.clean()
