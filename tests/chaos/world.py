"""A place where things are broken under load: an appliance, its stores, the load at it and what the load wrote down."""
import json
import os
import random
import signal
import subprocess
import sys
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("../e2e", "../load"):
    sys.path.insert(0, os.path.join(HERE, folder))
import target  # noqa: E402
from appliance import Appliance, run, until  # noqa: E402

import faults  # noqa: E402
from invariants import Invariants  # noqa: E402
from ledger import Ledger  # noqa: E402

TENANTS = ("default", "acme", "globex")
ROOM = "900m"
# What tests/integration/with-stores says of its stores: for us, and no setting of the appliance.
OUTSIDE = {k: os.environ.pop(k) for k in list(os.environ) if k.startswith(("SVC_NATS_", "SVC_POSTGRES_"))}


class World:
    patience = float(os.environ.get("SVC_CHAOS_PATIENCE", "180"))

    def __init__(self, seed):
        self.chance, self.ledger = random.Random(seed), Ledger()
        self.seed, self.load, self.tokens = seed, None, {}
        self.sessions, self.proxies, self.invariants = {}, [], None
        self.told = set()  # (tenant, trace) of signings that a fault asked for itself, and that were answered as failed

    # ---- life ----

    def settings(self):
        return {"signer.operation_timeout": "2s", "code_signing.wait": "5s", "log.level": "warn"}

    def settle_in(self):
        """Tokens and keys of the tenants, once the appliance runs."""
        self.dir = self.a.dir
        self.tsa_root = f"{self.dir}/tsa-root.pem"
        with urllib.request.urlopen(f"http://127.0.0.1:{self.a.plain}/tsa/chain.pem") as chain, open(self.tsa_root, "wb") as f:
            f.write(b"-----BEGIN" + chain.read().split(b"-----BEGIN")[-1])
        self.tokens, self.keys = target.write(self.a, f"{self.dir}/target", TENANTS, stamps=self.has_stamps())
        self.invariants = Invariants(self)

    def has_stamps(self):
        return True

    def end(self):
        self.stop_load(check=False)
        for session in self.sessions.values():
            session.close()
        try:
            self.a.stop()
        finally:
            for proxy in self.proxies:
                proxy.end()
            self.unmount()
            self.a.clean()

    def unmount(self):
        pass

    # ---- clients ----

    def session(self, tenant, role):
        """One connection for each token; a lost one is made anew."""
        if (tenant, role) not in self.sessions:
            self.sessions[tenant, role] = self.a.session(self.tokens[tenant][role])
        return self.sessions[tenant, role]

    def cli(self, tenant, *args):
        env = {k: v for k, v in os.environ.items() if not k.startswith("SVC_")}
        env.update(SVC_TOKEN=self.tokens[tenant]["auditor"], SVC_BASE_URL=f"https://127.0.0.1:{self.a.port}",
                   SVC_CA_FILE=f"{self.dir}/data/ca.pem")
        return run(f"{self.a.bin}/svc-cli", *args, env=env)

    # ---- load ----

    def start_load(self, wanted=40):
        number = self.ledger.runs + 1
        self.ledger.begin(f"{self.dir}/load.{number}.journal")
        self.report = f"{self.dir}/load.{number}.json"
        self.load = subprocess.Popen(
            [f"{self.a.bin}/svc_load", "--target", f"{self.dir}/target", "--profile", f"{HERE}/chaos.profile",
             "--journal", self.ledger.path, "--out", self.report, "--seed", str(self.chance.randrange(1 << 48))])
        self.more(wanted)

    def stop_load(self, check=True):
        if self.load is None:
            return
        self.load.send_signal(signal.SIGTERM)
        try:
            until("the load comes to its end", self.load_is_over, 2 * self.patience)
        except AssertionError:
            self.load.kill()
            self.load.wait()
            if check:
                raise
        code, self.load = self.load.returncode, None
        self.ledger.read()
        if check and code != 0:
            raise AssertionError(f"svc_load ended with {code}")

    def load_is_over(self):
        """Ended; or what is left waits for claims of processes that are gone, which is for invariants.py to settle."""
        if self.load.poll() is not None:
            return True
        left = list(self.ledger.read().open.values())
        if left and all(o.why == "idempotency_in_progress" and o.tries > 5 for o in left) and self.a.is_ready():
            self.load.send_signal(signal.SIGTERM)
            self.load.wait(self.patience)
        return False

    def pass_time(self, seconds):
        """For what is in progress that much time passes at once. The clock that counts is the database's."""
        self.sql(f"UPDATE svc.idempotency_keys SET claimed_us = claimed_us - {seconds} * 1000000::int8 WHERE state = 'in_progress'")

    def acknowledged(self):
        return self.ledger.read().acknowledged

    def more(self, count):
        """Until that many more operations are acknowledged."""
        wanted = self.acknowledged() + count
        until(f"{count} more operations are acknowledged", lambda: self.acknowledged() >= wanted, self.patience)

    def troubled(self):
        """A condition that holds once the load has had to repeat something since now, or readiness is gone."""
        before = self.ledger.read().again
        return lambda: self.ledger.read().again > before or not self.a.is_ready()

    # ---- the service ----

    def well(self):
        until("ready again", self.a.is_ready, self.patience)

    def recovers(self, count=30):
        self.well()
        self.more(count)


class Embedded(World):
    """Everything in one appliance, its folders on small file systems of their own, svc-api's clock in a file."""

    def start(self):
        self.a = a = Appliance("chaos", **{k.replace(".", "__"): v for k, v in self.settings().items()})
        self.dir = a.dir
        self.signer_journal = f"{a.dir}/journal"
        # Everything of the data folder is on one small file system, but the log and the signer's journal: those have
        # their own, so that each can be full alone.
        self.mounted = {"data": f"{a.dir}/data", "nats": f"{a.dir}/data/nats", "journal": self.signer_journal}
        for name, owner in (("data", "root"), ("nats", "svc-nats"), ("journal", "svc-signer")):
            os.mkdir(self.mounted[name])
            faults.mount_small(self.mounted[name], owner, ROOM, "0755" if owner == "root" else "0700")
        a.settings["signer.journal"] = self.signer_journal
        self.clock = faults.Clock(a)
        a.start()
        self.settle_in()
        return self

    def unmount(self):
        for path in reversed(self.mounted.values()):
            faults.unmount(path)

    def sql(self, statement):
        return self.a.sql(statement)

    def dump(self):
        """The read model's tables, by a PostgreSQL of this test over the folder of the stopped one."""
        with faults.Cluster(f"{self.a.dir}/data/postgres", self.a.dir) as cluster:
            return dump_of(cluster.sql)


class External(World):
    """Stores that run elsewhere, reached through proxies that can cut, stall and delay."""

    def start(self):
        url, credentials = OUTSIDE["SVC_NATS_URL"], OUTSIDE["SVC_NATS_CREDENTIALS_FILE"]
        host, _, port = url.removeprefix("nats://").rpartition(":")
        sockets = os.environ["SVC_TEST_PG_DIR"]
        self.a = a = Appliance("chaosx", **{k.replace(".", "__"): v for k, v in self.settings().items()})
        self.dir = a.dir
        self.database = faults.Proxy(faults.unix_listener(f"{a.dir}/.s.PGSQL.5432"), f"{sockets}/.s.PGSQL.5432")
        self.log = faults.Proxy(faults.tcp_listener(), (host, int(port)))
        self.proxies = [self.database, self.log]
        own = f"{a.dir}/nats-credentials"
        with open(credentials, "rb") as f, open(own, "wb", opener=lambda p, flags: os.open(p, flags, 0o600)) as out:
            out.write(f.read())
        faults.chown(own, "svc-api")
        a.settings.update({"postgres.url": f"host={a.dir} port=5432 dbname=svc", "nats.url": f"nats://127.0.0.1:{self.log.port}",
                           "nats.credentials_file": own})
        self.signer_journal = f"{a.dir}/data/signer"
        self.clock = faults.Clock(a)
        a.spawn()

        def ready():
            if a.process.poll() is not None:
                raise AssertionError(f"svc-appliance ended with {a.process.returncode}\n{a.tail()}")
            return a.is_ready()

        until("the appliance is ready", ready, 120)
        a.appliance("tenant", "create", "default", check=False)
        for role in target.ROLES:
            made = a.appliance("token", "create", "--tenant", "default", "--subject", role, "--role", role, "--ttl", "24h", "--json")
            a.env[f"SVC_TOKEN_{role.upper()}"] = json.loads(made.stdout)["token"]
        self.settle_in()
        return self

    def dump(self):
        return dump_of(self.sql)

    def sql(self, statement):
        return run("psql", "-XAt", "-v", "ON_ERROR_STOP=1", os.environ["SVC_TEST_PG_ADMIN"], "-c", statement).stdout.strip()


def dump_of(sql):
    """Name -> digest and number of rows, of every table that projections write."""
    found = {}
    for table in sql("SELECT name FROM svc.projection_tables ORDER BY 1").split("\n"):
        table = table.removeprefix("svc.")
        columns = "t.*"
        if table.endswith("outbox"):  # how far its delivery is belongs to the workers
            columns = "t.id, t.tenant_id, t.destination, t.key, t.payload, t.created_us"
        found[table] = sql(f"SELECT md5(coalesce(string_agg(r, E'\\n' ORDER BY r), '')), count(*) FROM "
                           f"(SELECT ROW({columns})::text AS r FROM svc.{table} t) x")
    return found

