"""What has to hold whatever was broken, judged from outside: the load's journal, exports of the audit trail verified
offline, the signer's journal, public keys, and the read model made anew from the log.

    acknowledged = recorded exactly once; a repetition with the same key gives the same bytes
    not acknowledged = recorded whole, or not at all; and a repetition with the same key settles which
    answered that nobody knows (idempotency_indeterminate) = recorded whole and once, or not at all
    nothing is recorded for a trace of the load that the load did not send
    chain, tree, anchor and signature of every tenant's export verify without the service
    every signature verifies under its public key, and the signer's journal has its operation exactly once
    no two time stamps have one serial; every one that was given is recorded
    every effect that was queued has ended, and none was given up but the signings whose failure is recorded and told
    the read model that a rebuild makes is the one that was there, byte for byte
"""
import base64
import collections
import ctypes
import ctypes.util
import glob
import hashlib
import http.client
import json
import secrets
import struct

from appliance import run, until

# What a command leaves in the trail, by the row of the load's profile.
DONE = {
    "sign": ("codesign.commanded", "codesign.signed", "codesign.completed"),
    "owner": ("inventory.owner.recorded",),
    "attest": ("inventory.attestation.recorded",),
}
REFUSED = {"sign": (("codesign.commanded", "codesign.refused"), ("codesign.commanded", "codesign.failed"))}
STAMP = "tsa.timestamp.issued"
WALLED = "idempotency_indeterminate"  # it ran, and its answer could not be kept: whoever asked has to look


class Broken(AssertionError):
    """An invariant does not hold."""


def hold(condition, *words):
    if not condition:
        raise Broken(" ".join(str(w) for w in words))


# ---- signatures ----

CRYPTO = ctypes.CDLL(ctypes.util.find_library("crypto") or "libcrypto.so.3")
for name, result, arguments in (
        ("d2i_PUBKEY", ctypes.c_void_p, (ctypes.c_void_p, ctypes.POINTER(ctypes.c_char_p), ctypes.c_long)),
        ("EVP_PKEY_CTX_new", ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_void_p)),
        ("EVP_PKEY_verify_init", ctypes.c_int, (ctypes.c_void_p,)),
        ("EVP_PKEY_verify", ctypes.c_int, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)),
        ("EVP_PKEY_CTX_free", None, (ctypes.c_void_p,)),
        ("EVP_PKEY_free", None, (ctypes.c_void_p,))):
    getattr(CRYPTO, name).restype, getattr(CRYPTO, name).argtypes = result, arguments


def verifies(public_key_der, signature, digest):
    """ECDSA over these 32 bytes, by OpenSSL alone."""
    at = ctypes.c_char_p(public_key_der)
    key = CRYPTO.d2i_PUBKEY(None, ctypes.byref(at), len(public_key_der))
    context = CRYPTO.EVP_PKEY_CTX_new(key, None) if key else None
    good = bool(context) and CRYPTO.EVP_PKEY_verify_init(context) == 1 and \
        CRYPTO.EVP_PKEY_verify(context, signature, len(signature), digest, len(digest)) == 1
    CRYPTO.EVP_PKEY_CTX_free(context)
    CRYPTO.EVP_PKEY_free(key)
    return good


# ---- the signer's journal (signer-pkcs11/broker/segment.h) ----

def journal_counts(folder):
    """How often the journal holds each operation id."""
    counts = collections.Counter()
    for path in sorted(glob.glob(f"{folder}/*.journal")):
        with open(path, "rb") as f:
            data = f.read()
        magic, at = data[64:68], 64
        while at + 64 <= len(data) and data[at:at + 4] == magic and magic != b"\0\0\0\0":
            kind, size = struct.unpack_from(">HH", data, at + 4)
            if kind == 1:
                counts[data[at + 16:at + 32].hex()] += 1
            at += (size + 15) // 16 * 16
    return counts


# ---- metrics ----

class Scrape:
    """A page of metrics. One that is not on it is no zero: whoever reads a name that is gone judges nothing."""

    def __init__(self, page):
        self.sums, self.families = collections.defaultdict(float), set()
        for line in page.splitlines():
            if line.startswith("# TYPE "):
                self.families.add(line.split()[2])
            elif line and line[0] != "#":
                name, value = line.rsplit(" ", 1)
                self.sums[name.split("{")[0]] += float(value)

    def sum(self, name, part=""):
        """Over all its labels. part: of a histogram, _sum or _count."""
        hold(name in self.families, "there is no metric", name)
        return self.sums[name + part]


# ---- the checks ----

class Invariants:
    """Of one world (world.py): grows with it, so that each round judges only what is new of the trail."""

    def __init__(self, world):
        self.world, self.seen, self.replayed = world, {}, 0
        self.trail = {tenant: [] for tenant in world.tokens}
        self.judged = self.waited = self.walled = 0

    def check(self, replays=40):
        """After the load has stopped and the service is well again."""
        ledger = self.world.ledger.read()
        for operation in ledger.operations:
            if operation.row != "stamp" and not operation.settled:
                self.settle(operation)
        self.quiet()
        for tenant in self.trail:
            self.read_trail(tenant)
        self.recorded(ledger.operations)
        self.stamps([o for o in ledger.operations if o.row == "stamp"])
        self.signatures([o for o in ledger.operations if o.row == "sign" and o.outcome == "done"])
        self.replay([o for o in ledger.operations if o.row != "stamp" and o.settled and o.code != WALLED], replays)
        self.walled = sum(o.code == WALLED for o in ledger.operations)
        self.given_up(ledger.operations)
        self.metrics()
        self.judged = len(ledger.operations)

    def repeat(self, operation):
        """The same request with the same key, until it is answered for good. A claim whose process died in the middle of
        it is taken over after ten minutes, if not before: they pass at once here."""
        stuck, said = [], ["nothing"]

        def once():
            try:
                answer = self.world.session(operation.tenant, operation.role).api(
                    operation.method, operation.path, operation.body.encode(), operation.key,
                    {"traceparent": f"00-{operation.trace}-{secrets.token_hex(8)}-01"})
            except (OSError, http.client.HTTPException) as e:
                said[0] = e
                return None
            said[0] = answer
            if answer.status in (429, 503):
                return None
            if answer.status == 409 and answer.json["code"] == "idempotency_in_progress":
                stuck.append(answer)
                if len(stuck) == 50:
                    self.world.pass_time(601)
                    self.waited += 1
                return None
            return answer

        try:
            return until(f"{operation} is answered for good", once, self.world.patience)
        except AssertionError as e:
            raise Broken(f"{e}; at last: {said[0]}") from None

    def settle(self, operation):
        """What nobody knows: its repetition tells, and tells the same the next time."""
        answer = self.repeat(operation)
        operation.outcome = "done" if 200 <= answer.status < 300 else "refused"
        operation.status, operation.answer = answer.status, answer.body.decode()
        operation.code = None if operation.outcome == "done" else answer.json["code"]
        operation.sha256 = hashlib.sha256(answer.body).hexdigest()

    def quiet(self):
        """Nothing is under way any more: all that was commanded has ended, and the read model has all that was answered,
        as it has what is recorded after it."""
        world, trace = self.world, secrets.token_hex(16)
        session = world.session("default", "operator")
        path, key = f"/api/v1/credentials/key/{world.keys['default'][0]}/owner", secrets.token_hex(16)

        def recorded():
            try:
                session.api("PUT", path, {"owner_id": f"mark-{key}"}, key, {"traceparent": f"00-{trace}-{trace[:16]}-01"})
                page = world.session("default", "auditor").api(
                    "GET", "/api/v1/audit/records?limit=20&type=inventory.owner.recorded")
            except (OSError, http.client.HTTPException):
                return False
            return page.status == 200 and trace in [row["record"]["trace_id"] for row in page.json["records"]]

        until("what was answered is in the read model", recorded, world.patience)
        until("every effect of the outbox has ended", lambda: not self.effects("pending", "processing"), world.patience)

    def effects(self, *states):
        """Rows of the outbox, of all tenants: the table itself and not its gauge, which is counted now and then. Nothing
        of the load is queued for later, so nothing may wait when it is over."""
        rows = json.loads(self.world.sql(
            "SELECT coalesce(json_agg(json_build_object('tenant', o.tenant_id, 'destination', o.destination, 'key', o.key,"
            " 'trace', o.trace_id, 'state', o.state, 'attempts', o.attempts, 'code', f.code, 'owed', EXISTS (SELECT FROM"
            " svc.codesign_operations c WHERE c.tenant_id = o.tenant_id AND c.command_id = o.key AND c.state = 'commanded')"
            ")), '[]') FROM svc.outbox o LEFT JOIN svc.outbox_failures f ON f.tenant_id = o.tenant_id AND f.outbox_id = o.id"
            " WHERE o.state <> 'delivered'"))
        known = ("pending", "processing", "dead-lettered")
        hold(all(r["state"] in known for r in rows), "an effect of no known state:", rows)
        return [r for r in rows if r["state"] in states]

    def read_trail(self, tenant):
        """The rest of the tenant's trail, as an export that was verified offline; all of it each time, as the chain is."""
        w = self.world
        path, keys = f"{w.dir}/{tenant}.ndjson", f"{w.dir}/{tenant}.keys.json"
        w.cli(tenant, "audit", "export", "--shape", "ndjson", "-o", path)
        w.cli(tenant, "audit", "verification-keys", "-o", keys)
        pins = ["--audit-jwks", keys, "--tsa-root", w.tsa_root]
        done = run("unshare", "--net", f"{w.a.bin}/svc-cli", "audit", "verify", "--artifact", path, *pins, "--json", check=False)
        hold(done.returncode == 0, f"the trail of {tenant} does not verify:", done.stdout, done.stderr)
        with open(path, encoding="utf-8") as f:
            lines = [json.loads(line) for line in f]
        records = [line.get("record", line) for line in lines if "sequence" in line.get("record", line)]
        old = self.trail[tenant]
        hold(records[:len(old)] == old, f"what was recorded of {tenant} before is not what is recorded now")
        sequences = [r["sequence"] for r in records]
        hold(sequences == list(range(1, len(records) + 1)), f"the trail of {tenant} has holes")
        self.trail[tenant] = records

    def recorded(self, operations):
        by_trace = collections.defaultdict(list)
        for tenant, records in self.trail.items():
            for record in records:
                by_trace[tenant, record["trace_id"]].append(record)
        for operation in operations:
            if operation.row == "stamp":
                continue
            found = sorted(r["type"] for r in by_trace.pop((operation.tenant, operation.trace), []))
            whole, nothing = [sorted(DONE[operation.row])], [[]]
            if operation.outcome == "done":
                allowed = whole
            elif operation.code == WALLED:
                allowed = whole + nothing
            else:
                allowed = [sorted(x) for x in REFUSED.get(operation.row, ())] + nothing
            hold(found in allowed, operation, "left", found)
        ours = {o.trace for o in operations}
        for (tenant, trace), records in by_trace.items():
            hold(trace not in ours or records[0]["type"] == STAMP, f"recorded for {tenant} and never sent there: {records}")

    def stamps(self, operations):
        issued = [r["data"] for records in self.trail.values() for r in records if r["type"] == STAMP]
        serials = collections.Counter(r["serial"] for r in issued)
        hold(not serials or max(serials.values()) == 1, "a serial was given twice:", serials.most_common(1))
        tokens = collections.Counter(r["token_sha256"] for r in issued)
        imprints = {o.trace: base64.b64decode(o.body)[24:56].hex() for o in operations}
        sent = set(imprints.values())
        for operation in operations:
            if operation.outcome == "done":
                token = hashlib.sha256(base64.b64decode(operation.answer)[9:]).hexdigest()
                hold(tokens[token] == 1, operation, "was given, and is recorded", tokens[token], "times")
        times = collections.Counter(r["imprint"] for r in issued)
        for imprint, count in times.items():
            hold(imprint not in sent or count == 1, "one query, recorded", count, "times:", imprint)
        self.times_grow(operations, {r["token_sha256"]: r["gen_time"] for r in issued})

    @staticmethod
    def times_grow(operations, times):
        """A stamp that was asked for after another one was given states no earlier time."""
        given = []
        for operation in operations:
            if operation.outcome == "done":
                time = times[hashlib.sha256(base64.b64decode(operation.answer)[9:]).hexdigest()]
                given += [(operation.sent_at, 1, time, operation), (operation.ended_at, 0, time, operation)]
        latest = ""
        for _, begins, time, operation in sorted(given, key=lambda x: x[:2]):
            if begins:
                hold(time >= latest, operation, "states", time, "after", latest, "was given")
            else:
                latest = max(latest, time)

    def signatures(self, operations):
        counts = journal_counts(self.world.signer_journal)
        for operation in operations:
            answer = json.loads(operation.answer)
            digest = base64.b64decode(json.loads(operation.body)["digest"])
            hold(verifies(base64.b64decode(answer["public_key_der"]), base64.b64decode(answer["signature"]), digest),
                 operation, "was given a signature that does not verify")
            entries = counts[answer["operation_id"].replace("-", "")]
            hold(entries == 1, operation, "has", entries, "entries in the signer's journal")

    def replay(self, operations, count):
        """The newest ones, and others by chance: each the same bytes again."""
        chosen = operations[-count // 2:] + self.world.chance.sample(operations, min(len(operations), count // 2))
        for operation in chosen:
            answer = self.repeat(operation)
            hold((answer.status, hashlib.sha256(answer.body).hexdigest()) == (operation.status, operation.sha256),
                 operation, "was answered", operation.answer, "and is now answered", answer)
            hold(answer.headers.get("Idempotent-Replayed") == "true", operation, "ran again")
            self.replayed += 1

    def given_up(self, operations):
        """A dead letter is a signing that failed for good: its end is in the trail, whoever asked was told so (what the
        load asked for, `recorded` has judged by its answer), and it is not owed any more, so no operator can let it go
        again. No other effect may be given up, whatever was broken: somebody would have to let it go again."""
        told = {(o.tenant, o.trace) for o in operations if o.row == "sign" and o.outcome == "refused"} | self.world.told
        failed = {(tenant, record["trace_id"]) for tenant, records in self.trail.items() for record in records
                  if record["type"] == "codesign.failed"}
        dead = self.effects("dead-lettered")
        for row in dead:
            hold(row["destination"] == "codesign.command", "an effect was given up that has to be let go again:", row)
            hold(not row["owed"], "a signing was given up and has not ended:", row)
            hold((row["tenant"], row["trace"]) in failed, "a signing was given up, and its failure is not recorded:", row)
            hold((row["tenant"], row["trace"]) in told, "a signing was given up, and nobody was told:", row)
        forgotten = failed - {(row["tenant"], row["trace"]) for row in dead}
        hold(not forgotten, "a signing failed, and its effect is no dead letter:", sorted(forgotten))

    def metrics(self):
        """Sums that have to fit each other."""
        scrape = Scrape(self.world.a.probe_get("/metrics").body.decode())
        for name in ("svc_audit_reconciliation_missing_total", "svc_projection_lag_events"):
            hold(scrape.sum(name) == 0, name, "is", scrape.sum(name))
        for name in ("svc_tsa_duration_seconds", "svc_codesign_sign_seconds"):
            hold(scrape.sum(name, "_sum") >= 0, name, "sums up to less than nothing")

    def rebuilt(self):
        """With the appliance stopped: dump, rebuild, dump."""
        before = self.world.dump()
        self.world.a.appliance("rebuild")
        after = self.world.dump()
        hold(len(before) > 20 and set(before) == set(after), "tables:", sorted(set(before) ^ set(after)))
        for table, content in before.items():
            hold(content == after[table], f"a rebuild makes another {table}: {content} before, {after[table]} after")
