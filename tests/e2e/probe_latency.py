"""How long probes take while the service is saturated: not a test, a measurement (docs/operations.md).

    cd tests/e2e && SVC_TEST_BIN=... python3 -W ignore probe_latency.py [probes of each kind and phase]

500 connections: silent ones, halves of requests, answers nobody reads, and 100 that ask without pause.
"""
import os
import signal
import subprocess
import sys
import time

from appliance import Appliance, until
from test_saturation import Crowd

PROBES = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
BUSY = 100


def measure(a, phase):
    for path in ("/healthz", "/readyz", "/metrics"):
        took, statuses = [], {}
        for _ in range(PROBES):
            begun = time.perf_counter()
            status = a.probe_get(path, timeout=30).status
            took.append((time.perf_counter() - begun) * 1000)
            statuses[status] = statuses.get(status, 0) + 1
        took.sort()
        print(f"{phase:34} {path:9} p50 {took[len(took) // 2]:6.1f} ms   p99 {took[len(took) * 99 // 100]:6.1f} ms"
              f"   max {took[-1]:6.1f} ms   {statuses}", flush=True)


def main():
    a = Appliance("latency").start()
    crowd, wrk = Crowd(a), None
    try:
        measure(a, "idle")
        crowd.gather(500 - BUSY)
        wrk = subprocess.Popen(["wrk", "-t1", f"-c{BUSY}", "-d600s", "--timeout", "30s", "-H",
                                f"Authorization: Bearer {a.token('OPERATOR')}", f"https://127.0.0.1:{a.port}/api/v1/keys"],
                               stdout=subprocess.DEVNULL)
        crowd.say()
        measure(a, "500 connections, 100 of them busy")
        for pid in a.pids("svc-signer"):
            os.kill(pid, signal.SIGSTOP)
        measure(a, "and the signer stands still")
        for pid in a.pids("postgres"):
            os.kill(pid, signal.SIGSTOP)
        measure(a, "and PostgreSQL, too")
    finally:
        if wrk is not None:
            wrk.kill()
            wrk.wait()
        for comm in ("postgres", "svc-signer"):
            for pid in a.pids(comm):
                os.kill(pid, signal.SIGCONT)
        crowd.leave()
        until("ready again", a.is_ready, 60)
        a.clean()


if __name__ == "__main__":
    main()
