"""Breaks each part of the service under load, and judges what is left (scripts/test chaos).

    python3 chaos.py [--world embedded|external] [--long] [--rounds N] [--seed N] [FAULT...]

Short: every fault of the world once, but the few that take long, in a fixed order. Long: N rounds (SVC_CHAOS_ROUNDS, default 100) of one to three
faults chosen by the seed, which is printed: the same seed breaks the same things in the same order. After each round the
load stops, what nobody knows is asked for again, and every invariant of invariants.py is judged; in the end the read
model is made anew and compared. The external world wants tests/integration/with-stores around it.

A fault is a function under @fault(world): it breaks something while the load goes on, and returns when the load goes on
well again. It waits for conditions, never for a time.
"""
import argparse
import os
import secrets
import signal
import sys
import threading
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from world import Embedded, External, ROOM, until  # noqa: E402  (sets the paths of the others)

import faults  # noqa: E402
import signing  # noqa: E402
from invariants import hold  # noqa: E402

FAULTS = {"embedded": [], "external": []}
LONG = set()


def fault(world, name=None, long=False):
    """long: takes too long for the short form."""
    def keep(function):
        name_ = name or function.__name__.replace("_", "-")
        FAULTS[world].append((name_, function))
        if long:
            LONG.add(name_)
        return function
    return keep


# ---- kill -9 ----

def killed(w, comm):
    old = w.a.child(comm)
    faults.kill(old)
    until(f"{comm} runs again", lambda: old not in w.a.pids(comm) and w.a.pids(comm), w.patience)
    w.recovers()


for comm in ("svc-signer", "nats-server", "postgres", "svc-api"):
    fault("embedded", f"kill-{comm}")(lambda w, comm=comm: killed(w, comm))


@fault("embedded")
def kill_postgres_backend(w):
    """A backend that dies makes PostgreSQL end all sessions and recover."""
    parent = w.a.child("postgres")
    backends = [p for p in w.a.pids("postgres") if p != parent and b"svc_" in open(f"/proc/{p}/cmdline", "rb").read()]
    troubled = w.troubled()
    faults.kill(w.chance.choice(backends))
    until("it is noticed", troubled, w.patience)
    w.recovers()


@fault("embedded")
def kill_svc_appliance(w):
    """The supervisor dies, and all that it started with it; whoever watches it starts it again."""
    w.a.process.kill()
    w.a.process.wait()
    for comm in ("svc-api", "svc-signer", "nats-server", "postgres"):
        until(f"{comm} is gone", lambda: not left(w, comm), w.patience)
    w.a.spawn()
    w.recovers()


def left(w, comm):
    """Processes of this world that have lost their supervisor."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/comm") as name, open(f"/proc/{entry}/cmdline", "rb") as words:
                if name.read().strip() == comm and w.dir.encode() in words.read():
                    found.append(entry)
        except OSError:
            continue
    return found


# ---- SIGSTOP and SIGCONT ----

def stands_still(w, pids, noticed):
    with faults.stopped(pids):
        until("it is noticed", noticed, w.patience)
    w.recovers()


@fault("embedded")
def stop_svc_api(w):
    stands_still(w, w.a.pids("svc-api"), lambda: w.a.probe_get("/readyz", 1).status == 0)


@fault("embedded")
def stop_svc_signer(w):
    stands_still(w, w.a.pids("svc-signer"), w.troubled())


@fault("embedded")
def stop_nats_server(w):
    stands_still(w, w.a.pids("nats-server"), w.troubled())


@fault("embedded")
def stop_postgres(w):
    stands_still(w, w.a.pids("postgres"), w.troubled())


# ---- disks ----

def without_room(w, name):
    troubled = w.troubled()
    with faults.full(w.mounted[name], ROOM):
        until("it is noticed", troubled, w.patience)
    w.recovers()


for name in ("nats", "data"):
    fault("embedded", f"full-{name}")(lambda w, name=name: without_room(w, name))


@fault("embedded", long=True)
def full_journal(w):
    """The signer takes room for its journal ahead: thousands of signatures use it up before anything is refused."""
    session, key, batches = w.session("default", "operator"), w.keys["default"][0], []

    def refused():
        digests = [w.chance.randbytes(32) for _ in range(64)]
        body = signing.previewed(session, "batch", signing.batch_body(key, digests))
        batches.append((body, secrets.token_hex(16), secrets.token_hex(16)))
        return ask(*batches[-1]).status != 200

    def ask(body, key, trace):
        return session.api("POST", signing.BASE + signing.PATHS["batch"][1], body, key,
                           {"traceparent": f"00-{trace}-{secrets.token_hex(8)}-01"})

    def answered():
        answer = ask(*batches[-1])
        waits = answer.status in (429, 503) or answer.status == 409 and answer.json["code"] == "idempotency_in_progress"
        return None if waits else answer

    with faults.full(w.mounted["journal"], ROOM):
        until("a batch is refused", refused, w.patience)
    w.recovers()
    if until("it is answered for good", answered, w.patience).status != 200:
        w.told.add(("default", batches[-1][2]))


@fault("embedded")
def slow_disk(w):
    """Every fsync of all stores and of the signer's journal takes 100 ms longer; the service goes on, slower."""
    pids = w.a.pids("nats-server") + w.a.pids("postgres") + w.a.pids("svc-signer")
    with faults.injected(pids, "delay_enter=100000"):
        w.more(20)
    w.recovers()


def failing_sync(w, comm):
    """An fsync says EIO: what was written before it may be lost, and nobody may go on as if it were not."""
    troubled = w.troubled()
    with faults.injected(w.a.pids(comm), "error=EIO:when=1"):
        until("it is noticed", troubled, w.patience)


@fault("embedded")
def failing_fsync_postgres(w):
    """PostgreSQL ends all sessions and recovers from what is on disk for certain."""
    failing_sync(w, "postgres")
    w.recovers()


@fault("embedded")
def failing_fsync_svc_signer(w):
    """The signer signs nothing any more, until somebody has looked at the disk and started it anew."""
    failing_sync(w, "svc-signer")
    until("readiness names the signer", lambda: w.a.probe_get("/readyz").status == 503, w.patience)
    faults.kill(w.a.child("svc-signer"), signal.SIGTERM)
    w.recovers()


# ---- the clock ----

@fault("embedded")
def clock_jump(w):
    """An hour back: no stamp may be given that is earlier than one before. Then a quarter of an hour forward, for good."""
    refused = lambda: sum(o.row == "stamp" and o.outcome == "refused" for o in w.ledger.read().operations)  # noqa: E731
    stamped = lambda: sum(o.row == "stamp" and o.outcome == "done" for o in w.ledger.read().operations)  # noqa: E731
    base, before = w.clock.offset, refused()
    w.clock.set(base - 3600)
    until("a stamp is refused", lambda: refused() > before, w.patience)
    w.more(20)  # the rest goes on
    w.clock.set(base)
    before = stamped()
    until("stamps are given again", lambda: stamped() > before + 10, w.patience)
    w.clock.set(base + 900)
    before = stamped()
    until("stamps are given again", lambda: stamped() > before + 10, w.patience)
    w.recovers()


# ---- power ----

@fault("embedded")
def power_loss(w):
    """The event log comes back as it was some time ago, as from a disk that had lied about what is on it. All that the
    read model has a copy of is repaired; until then nothing is served, whoever asks."""
    store, older = w.mounted["nats"], f"{w.dir}/nats.older"
    with faults.stopped(w.a.pids("nats-server")):
        faults.run("rm", "-rf", older)
        faults.run("cp", "-a", store, older)
    w.more(40)
    w.stop_load()
    w.invariants.quiet()
    w.a.process.kill()
    w.a.process.wait()
    for comm in ("svc-api", "svc-signer", "nats-server", "postgres"):
        until(f"{comm} is gone", lambda: not left(w, comm), w.patience)
    faults.run("find", store, "-mindepth", "1", "-delete")
    faults.run("cp", "-a", f"{older}/.", store)
    w.start_load(0)
    w.a.spawn()

    def told():
        ready = w.a.probe_get("/readyz")
        return ready.status == 503 and ready.json["checks"].get("projection") == "tail_lost" and ready.json["projection"]

    said = until("the lost tail is told", told, w.patience)
    first = said["first_bad_seq"]
    hold(first == said["log_last"] + 1, said)
    tried = w.ledger.read().again
    until("clients have tried", lambda: w.ledger.read().again > tried + 20, w.patience)
    w.a.stop()
    hold(w.ledger.read().acknowledged_now == 0, "acknowledged without a log to trust:", w.ledger.acknowledged_now)
    done = w.a.appliance("repair-log", "--from", str(first), "--yes", check=False)
    hold(done.returncode == 0, done.stdout, done.stderr)
    w.a.spawn()
    w.recovers()


# ---- the way to the stores ----

def away(w, proxy, how):
    if how == "reset":
        proxy.cut()
        w.recovers()
    elif how == "refuse":
        troubled = w.troubled()
        with proxy.refused():
            until("it is noticed", troubled, w.patience)
        w.recovers()
    elif how == "stall":
        troubled = w.troubled()
        with proxy.stalled():
            until("it is noticed", troubled, w.patience)
        w.recovers()
    else:
        with proxy.delayed(0.05):
            w.more(10)
        w.recovers()


for store in ("database", "log"):
    for how in ("reset", "refuse", "stall", "delay"):
        fault("external", f"{store}-{how}")(lambda w, store=store, how=how: away(w, getattr(w, store), how))


@fault("external")
def both_reset_while_svc_api_dies(w):
    old = w.a.child("svc-api")
    w.database.cut()
    w.log.cut()
    faults.kill(old)
    until("svc-api runs again", lambda: old not in w.a.pids("svc-api") and w.a.pids("svc-api"), w.patience)
    w.recovers()


# ---- rounds ----

def one_round(w, names):
    chosen = dict(FAULTS[w.name])
    w.start_load()
    for name in names:
        chosen[name](w)
    w.stop_load()
    w.well()
    w.invariants.check()


def tell(w, label, begun, code):
    done = w.ledger.read()
    print(f"{label} ({time.monotonic() - begun:.1f} s, {len(done.operations)} operations, {done.acknowledged} acknowledged, "
          f"{done.again} repeats, {w.invariants.replayed if w.invariants else 0} replayed, "
          f"{w.invariants.walled if w.invariants else 0} indeterminate) ... {code}", flush=True)


def rounds_of(w, options):
    names = [name for name, _ in FAULTS[w.name]]
    if options.faults:
        return [[name] for name in options.faults if name in names]
    if not options.long:
        return [[name] for name in names if name not in LONG]
    return [w.chance.choices(names, k=w.chance.randint(1, 3)) for _ in range(options.rounds)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--world", choices=sorted(FAULTS), default="embedded")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--rounds", type=int, default=int(os.environ.get("SVC_CHAOS_ROUNDS", "100")))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SVC_CHAOS_SEED", str(secrets.randbits(32)))))
    parser.add_argument("faults", nargs="*")
    options = parser.parse_args()
    print(f"chaos: world {options.world}, seed {options.seed}", flush=True)
    w = {"embedded": Embedded, "external": External}[options.world](options.seed)
    w.name = options.world
    failed = 0
    begun = time.monotonic()
    try:
        w.start()
        tell(w, f"{w.name}: starts", begun, "ok")
        for names in rounds_of(w, options):
            begun = time.monotonic()
            one_round(w, names)
            tell(w, f"{w.name}: {' '.join(names)}", begun, "ok")
        begun = time.monotonic()
        w.a.stop()
        w.invariants.rebuilt()
        tell(w, f"{w.name}: rebuild gives the same bytes", begun, "ok")
    except Exception:  # noqa: BLE001
        failed = 1
        traceback.print_exc()
        print(f"the service's last words:\n{w.a.tail(80)}")
        tell(w, f"{w.name}: seed {options.seed}", begun, "FAILED")
    finally:
        w.end()
    return failed


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    threading.excepthook = lambda *_: None
    sys.exit(main())
