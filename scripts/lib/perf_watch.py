"""What the processes of an appliance use and how full they are, sampled while a gate loads it."""
import os
import re
import statistics
import threading

PROCESSES = ("svc-appliance", "svc-api", "svc-signer", "nats-server", "postgres")
OURS = PROCESSES[:3]
LINE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? ([0-9.eE+-]+|NaN|\+Inf)$')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
TICKS = os.sysconf("SC_CLK_TCK")


def scrape(a):
    """{name: [(labels, value)]} of /metrics."""
    found = {}
    for line in a.probe_get("/metrics").body.decode().splitlines():
        match = LINE.match(line)
        if match:
            found.setdefault(match[1], []).append((dict(LABEL.findall(match[2] or "")), float(match[3])))
    return found


def value(metrics, name, **labels):
    """The sum of the series with these labels."""
    return sum(v for l, v in metrics.get(name, []) if all(l.get(k) == x for k, x in labels.items()))


def memory(pid):
    """Bytes of its own (anonymous), threads, open files, and ticks of the processor."""
    with open(f"/proc/{pid}/status") as f:
        fields = dict(line.split(":", 1) for line in f if ":" in line)
    with open(f"/proc/{pid}/stat") as f:
        stat = f.read()
    ticks = sum(int(x) for x in stat[stat.rindex(")") + 2:].split()[11:13])
    return {"rss": int(fields["VmRSS"].split()[0]) * 1024, "anon": int(fields["RssAnon"].split()[0]) * 1024,
            "threads": int(fields["Threads"]), "files": len(os.listdir(f"/proc/{pid}/fd")), "ticks": ticks}


def resources(a):
    """By program: the sums over its processes; shared pages of PostgreSQL are counted once, as anonymous ones."""
    found = {}
    for program in PROCESSES:
        total = {"processes": 0, "rss": 0, "anon": 0, "threads": 0, "files": 0, "ticks": 0}
        for pid in a.pids(program):
            try:
                one = memory(pid)
            except (OSError, KeyError):
                continue
            total["processes"] += 1
            for key, number in one.items():
                total[key] += number
        found[program] = total
    return found


def storage(a):
    """Bytes on disk below data_dir."""
    total = 0
    for folder, _, files in os.walk(f"{a.dir}/data"):
        for name in files:
            try:
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
            except OSError:
                pass
    return total


class Watch:
    """Samples every half second between start and stop; phases are told apart by mark()."""

    def __init__(self, a, period=0.5):
        self.a, self.period, self.samples, self.phase = a, period, [], ""
        self.signer_queue = int(a.settings.get("signer.queue", 256))
        self.ended, self.thread = threading.Event(), threading.Thread(target=self.run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def mark(self, phase):
        self.phase = phase

    def run(self):
        while not self.ended.wait(self.period):
            try:
                self.take()
            except (OSError, ValueError):
                continue  # the appliance is being stopped or started

    def take(self):
        metrics = scrape(self.a)
        if not metrics:
            return
        queues = [100 * held / limit for labels, held in metrics.get("svc_bulkhead_waiting", [])
                  for other, limit in metrics.get("svc_bulkhead_queue_limit", []) if other == labels and limit > 0]
        pools = [100 * value(metrics, "svc_store_pool_connections", pool=pool, state="acquired") /
                 max(1, value(metrics, "svc_store_pool_connections", pool=pool, state="max"))
                 for pool in {l["pool"] for l, _ in metrics.get("svc_store_pool_connections", [])}]
        self.samples.append({
            "phase": self.phase, "lag": value(metrics, "svc_projection_lag_events"), "queue": max(queues, default=0),
            "pool": max(pools, default=0), "rejected": value(metrics, "svc_bulkhead_rejections_total"),
            "signer": 100 * value(metrics, "svc_signer_queue_requests") / max(1, self.signer_queue),
            "limited": value(metrics, "svc_rate_limit_rejections_total"),
            "restarts": value(metrics, "svc_signer_restarts_total"), "resources": resources(self.a)})

    def figures(self, phase=None):
        """Highest lag and saturation of a phase, and the processor time and memory of each program in it."""
        mine = [s for s in self.samples if phase is None or s["phase"] == phase]
        if not mine:
            return {}
        seconds = max(self.period, (len(mine) - 1) * self.period)
        out = {"samples": len(mine), "queue_percent": max(s["queue"] for s in mine), "lag_events": max(s["lag"] for s in mine),
               "lag_median": statistics.median(s["lag"] for s in mine), "pool_percent": max(s["pool"] for s in mine),
               "signer_percent": max(s["signer"] for s in mine),
               "rejected": mine[-1]["rejected"] - mine[0]["rejected"], "restarts": mine[-1]["restarts"] - mine[0]["restarts"]}
        for program in PROCESSES:
            first, last = mine[0]["resources"][program], mine[-1]["resources"][program]
            out[program] = {"cpu_percent": round(100 * (last["ticks"] - first["ticks"]) / TICKS / seconds, 1),
                            "rss_mib": round(max(s["resources"][program]["rss"] for s in mine) / 2**20, 1),
                            "anon_mib": round(max(s["resources"][program]["anon"] for s in mine) / 2**20, 1),
                            "threads": max(s["resources"][program]["threads"] for s in mine),
                            "files": max(s["resources"][program]["files"] for s in mine)}
        return out


def slope(points):
    """Least squares: (rise for each unit of x, what the line explains of the variance)."""
    if len(points) < 3:
        return 0.0, 0.0
    mean_x = statistics.fmean(x for x, _ in points)
    mean_y = statistics.fmean(y for _, y in points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    total = sum((y - mean_y) ** 2 for _, y in points)
    if spread == 0:
        return 0.0, 0.0
    rise = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    rest = sum((y - mean_y - rise * (x - mean_x)) ** 2 for x, y in points)
    return rise, 1 - rest / total if total > 0 else 0.0
