"""Every mutation is an event: each route of the OpenAPI document that is not a plain read is called with valid input,
and leaves exactly its events in the trail, found by the trace of the request. What is refused, and what changes nothing,
leaves none. A route that stands in no row of this file fails the test.

A new route gets a row: a function that calls it through `t.send`, under @row(route name, event types in order). Rows run
in the order in which they stand here and hand things on in `t`."""
import base64
import datetime
import json
import os
import secrets
import shutil
import unittest

import signing
from appliance import Appliance, all_records, b64, digest_of, run, until
from oidc import Issuer
from stamping import Authority as StampAuthority
from stamping import Files, blocks, granted, query, request, stamp

SAN = "https://github.com/acme/tool/.github/workflows/release.yml@refs/tags/v1"
SUBJECT = "CN=Release Signing,O=Acme"
PERSON = "person-" + secrets.token_hex(4)
FEED = {"kind": "hec", "url": "https://localhost:1/services/collector", "credential": "env:FEED_TOKEN"}
RULES = """rules:
  - name: gated
    when: {artifact_type: [gated]}
    then: require_approval
    approvers: 1
  - name: rest
    when: {}
    then: allow
"""
SIGNED = ("codesign.commanded", "codesign.signed", "codesign.completed")
LATE = ("-not_after", "20450101000000Z")  # far off: the appliance prepares no successor by itself
ROWS = []


def row(route, *events, says=None, status=None):
    """says: what this row is about when the route has several; status: of a refusal that is recorded."""
    def keep(call):
        ROWS.append((route, says or "", events, status, call))
        return call
    return keep


# ---- tokens ----

@row("tokens.create", "identity.token.issued")
def _(t):
    made = t.send({"subject": "sweep", "roles": ["auditor"], "ttl_seconds": 600}, token="ADMIN")
    t.token_id = made.json["token_id"]
    return made


@row("tokens.revoke", "identity.token.revoked")
def _(t):
    return t.send({"reason": "sweep"}, token="ADMIN", id=t.token_id)


@row("tokens.revoke", says="again changes nothing")
def _(t):
    return t.send({"reason": "sweep"}, token="ADMIN", id=t.token_id)


# ---- keys ----

@row("keys.rotate-seal", "key.generated")
def _(t):
    return t.send(token="ADMIN")


@row("keys.create", "key.generated")
def _(t):
    made = t.send({"name": "sweep", "algorithm": "ec-p256", "purpose": "codesign"})
    t.key_id = made.json["key_id"]
    return made


@row("keys.csr", "key.csr_signed")
def _(t):
    answer = t.send({"subject": SUBJECT}, id=t.key_id)
    t.csr = answer.json["csr_pem"]
    return answer


@row("keys.certificates", "key.certified")
def _(t):
    t.chain = t.der(t.signers.chain(t.csr, usage="codeSigning"))
    return t.send({"certificate_chain": t.chain, "expected_version": t.version(t.key_id)}, id=t.key_id)


@row("keys.transition", "key.retired")
def _(t):
    other = t.make_key()
    return t.send({"to": "retired", "reason": "sweep", "expected_version": t.version(other)}, id=other)


# ---- code signing ----

@row("code-signing.preview")
def _(t):
    return t.send(signing.key_body(t.key_id, digest_of(b"sweep")))


@row("code-signing.sign", *SIGNED)
def _(t):
    t.signed = t.send(t.previewed("key", signing.key_body(t.key_id, digest_of(b"sweep"))))
    return t.signed


@row("code-signing.batch-preview")
def _(t):
    return t.send(signing.batch_body(t.key_id, [digest_of(b"one"), digest_of(b"two")]))


@row("code-signing.batch", "codesign.commanded", *SIGNED, *SIGNED[1:])
def _(t):
    return t.send(t.previewed("batch", signing.batch_body(t.key_id, [digest_of(b"one"), digest_of(b"two")])))


@row("code-signing.keyless-preview")
def _(t):
    return t.send(signing.keyless_body(t.issuer.token(), digest_of(b"sweep")))


@row("code-signing.keyless", "codesign.commanded", "attestation.verified", "codesign.keyless.signed", "codesign.completed",
     "codesign.ephemeral.destroyed")
def _(t):
    t.keyless = t.send(t.previewed("keyless", signing.keyless_body(t.issuer.token(), digest_of(b"sweep"))))
    return t.keyless


@row("code-signing.policy.explain")
def _(t):
    return t.send({"artifact_type": "gated", "key_id": t.key_id, "principal": "somebody"})


# ---- approvals ----

@row("code-signing.sign", "codesign.commanded", "codesign.refused", "approval.requested", says="asks for an approval",
     status=403)
def _(t):
    return t.ask()


@row("approval-requests.approve", "approval.granted")
def _(t):
    t.request_id = t.waiting()["request_id"]
    return t.send({}, token="APPROVER", id=t.request_id)


@row("approval-requests.approve", says="again changes nothing")
def _(t):
    return t.send({}, token="APPROVER", id=t.request_id)


@row("approval-requests.deny", "approval.denied")
def _(t):
    t.aside(t.ask)
    return t.send({"reason": "sweep"}, token="APPROVER", id=t.waiting()["request_id"])


@row("identities.approve", "approval.granted")
def _(t):
    t.aside(t.ask)
    return t.send({"action": "sign"}, token="APPROVER", resource=t.waiting()["resource"])


# ---- time stamping ----

@row("protocols.tsa.units.csr", "key.csr_signed")
def _(t):
    t.unit = until("the first unit waits", lambda: t.units("prepared"))[0]["unit_id"]
    answer = t.send({"subject": "CN=Sweep TSU,O=Acme"}, id=t.unit)
    t.unit_csr = answer.json["csr_pem"]
    return answer


@row("protocols.tsa.units.certify", "tsa.unit.certified")
def _(t):
    chain = t.stampers.chain(t.unit_csr, *LATE)
    return t.send({"certificate_chain": t.der(chain)}, id=t.unit)


@row("protocols.tsa.units.prepare", "key.generated", "tsa.unit.prepared")
def _(t):
    until("the first unit stamps", lambda: granted(stamp(t.a, b"first")))
    made = t.send()
    t.second = made.json["unit_id"]
    return made


@row("protocols.tsa.units.activate", "tsa.unit.activated")
def _(t):
    t.aside(lambda: t.certify(t.second))
    return t.send(id=t.second)


@row("protocols.tsa.units.retire", "tsa.unit.retired", "key.erased")
def _(t):
    return t.send({"reason": "sweep"}, id=t.unit)


@row("tsa.timestamp", "tsa.timestamp.issued")
def _(t):
    answer = t.send(query(b"sweep"), token=None, content="application/timestamp-query")
    t.reply = answer.body
    return answer


@row("tsa.timestamp", says="a rejection")
def _(t):
    return t.send(b"\x30\x00", token=None, content="application/timestamp-query")


@row("tsa.tenant.timestamp", "tsa.timestamp.issued")
def _(t):
    until("acme stamps", lambda: granted(stamp(t.a, b"x", "/tsa/acme")))
    return t.send(query(b"sweep"), token=None, content="application/timestamp-query", tenant="acme")


@row("protocols.tsa.qualify")
def _(t):
    return t.send()


@row("protocols.tsa.verify")
def _(t):
    token = run("openssl", "ts", "-reply", "-in", "/dev/stdin", "-token_out", input=t.reply, text=False).stdout
    return t.send({"token": b64(token), "digest": b64(digest_of(b"sweep")), "hash_algorithm": "sha256"})


# ---- verification ----

@row("code-signing.verify")
def _(t):
    return t.send({"digest": b64(digest_of(b"sweep")), "signature": t.signed.json["signature"], "key_id": t.key_id})


@row("code-signing.keyless-verify")
def _(t):
    said = t.keyless.json
    return t.send({"digest": b64(digest_of(b"sweep")), "signature": said["signature"], "expected_issuer": t.issuer.url,
                   "certificate_chain": said["certificate_chain"], "expected_san": SAN})


@row("code-signing.verify-long-term")
def _(t):
    signature = t.signed.json["signature"]
    answer = stamp(t.a, base64.b64decode(signature))
    roots = t.der([blocks(request(t.a, "GET", "/tsa/chain.pem").body)[-1]])
    return t.send({"digest": b64(digest_of(b"sweep")), "signature": signature, "certificate_chain": t.chain[:2],
                   "root_certificates": t.chain[2:], "timestamp": b64(answer.body), "timestamp_roots": roots})


# ---- the audit trail itself ----

@row("audit.export", "tsa.timestamp.issued", "audit.export.read")
def _(t):
    return t.send(token="AUDITOR")


@row("audit.rotate-key", "key.generated", "key.activated")
def _(t):
    return t.send()


@row("compliance.evidence-pack", "tsa.timestamp.issued", "compliance.pack.read")
def _(t):
    return t.send(framework="soc2", token="AUDITOR")


@row("compliance.rotate-key", "key.generated", "key.activated")
def _(t):
    return t.send()


@row("audit.feeds.preview")
def _(t):
    return t.send(FEED, id="sweep")


@row("audit.feeds.put", "audit.feed.configured")
def _(t):
    return t.send(FEED, id="sweep")


@row("audit.feeds.pause", "audit.feed.configured")
def _(t):
    return t.send(id="sweep")


@row("audit.feeds.resume", "audit.feed.configured")
def _(t):
    return t.send(id="sweep")


@row("audit.archive.preview")
def _(t):
    return t.send(token=t.acme["operator"])


@row("audit.archive.run", "key.generated", "audit.archived", "tsa.timestamp.issued")
def _(t):  # the tenant's first one makes its key; the stamp is of the appliance's own authority, in the first tenant
    return t.send(token=t.acme["operator"])


# ---- inventory: AD CS ----

@row("adcs.observations.create", "inventory.adcs.observed")
def _(t):
    return t.send(t.adcs(60, []), token=t.collector)


@row("adcs.observations.create", "inventory.adcs.observed", "inventory.adcs.drifted", says="and what changed")
def _(t):
    return t.send(t.adcs(30, [{"url": "http://ca.example.com/certsrv", "kind": "web-enrollment", "scheme": "http",
                               "channel_binding": "none", "ntlm": True}]), token=t.collector)


# ---- inventory: certificates, owners, access reviews ----

@row("certificates.record", "inventory.certificate.recorded")
def _(t):
    answer = t.send({"certificate_der": t.chain[-1]})
    t.certificate_id = answer.json["certificate_id"]
    return answer


@row("certificates.record", says="again changes nothing")
def _(t):
    return t.send({"certificate_der": t.chain[-1]})


@row("certificates.custody", "inventory.certificate.custody_recorded")
def _(t):
    return t.send({"origin": "private_ca", "holder": "sweep", "expected_version": 1}, id=t.certificate_id)


@row("credentials.owner", "inventory.owner.recorded")
def _(t):
    return t.send({"owner_id": "sweep"}, kind="key", id=t.key_id)


@row("access-reviews.open", "inventory.access_review.opened")
def _(t):
    answer = t.send({"title": "sweep", "kinds": ["key"], "owner_id": "sweep"})
    t.review_id = answer.json["review_id"]
    return answer


@row("access-reviews.decide", "inventory.access_review.decided")
def _(t):
    return t.send({"decisions": [{"kind": "key", "credential_id": t.key_id, "decision": "keep", "reason": "sweep"}]},
                  token=t.reviewer, id=t.review_id)


@row("access-reviews.complete", "inventory.access_review.completed")
def _(t):
    return t.send(token=t.reviewer, id=t.review_id)


# ---- attestations, crypto readiness ----

@row("compliance.attestations.record", "inventory.attestation.recorded")
def _(t):
    evidence = {"locator": "sweep.pdf", "sha256": "00" * 32, "media_type": "application/pdf"}
    answer = t.send({"statement": "sweep", "title": "Sweep", "evidence": evidence})
    t.attestation_id = answer.json["attestation_id"]
    return answer


@row("compliance.attestations.withdraw", "inventory.attestation.withdrawn")
def _(t):
    return t.send({"reason": "sweep"}, id=t.attestation_id)


@row("graph.crypto-readiness.record-action", "inventory.readiness.action_recorded")
def _(t):
    return t.send({"object": f"key:{t.key_id}", "action": "migrate", "state": "planned"})


# ---- report schedules ----

SCHEDULE = {"framework": "soc2", "name": "sweep", "report_type": "audit_summary", "interval_seconds": 31622400,
            "delivery": "audit_export", "recipient_ref": "vault"}


@row("compliance.report-schedules.preview")
def _(t):
    answer = t.send(SCHEDULE)
    t.schedule = {**SCHEDULE, "preview_fingerprint": answer.json["preview_fingerprint"]}
    return answer


@row("compliance.report-schedules.create", "compliance.schedule.configured")
def _(t):
    made = t.send(t.schedule)
    t.schedule_id = made.json["schedule_id"]
    return made


@row("compliance.report-schedules.pause", "compliance.schedule.configured")
def _(t):
    return t.send({"expected_version": 1}, id=t.schedule_id)


@row("compliance.report-schedules.pause", says="again changes nothing")
def _(t):
    return t.send({"expected_version": 2}, id=t.schedule_id)


@row("compliance.report-schedules.resume", "compliance.schedule.configured")
def _(t):
    return t.send({"expected_version": 2}, id=t.schedule_id)


# ---- erasure: of the other tenant, as it rewrites what was there ----

# ---- the outbox ----

def dead_letter(t):
    """A key that is wound down: its end waits in the outbox, and is made a dead letter of."""
    key = t.make_key()
    path = f"/api/v1/keys/{key}/transitions"
    moved = t.a.api("POST", path, {"to": "retired", "reason": "sweep", "expected_version": t.version(key), "overlap": "24h"},
                    key=True)
    assert moved.status == 200, moved
    return t.a.sql("WITH dead AS (UPDATE svc.outbox SET state = 'dead-lettered', due_us = 0 WHERE destination = 'keys.retire'"
                   f" AND key = '{key}' RETURNING id) SELECT id FROM dead").splitlines()[0]


@row("outbox.requeue", "outbox.requeued")
def _(t):
    t.aside(lambda: setattr(t, "dead", dead_letter(t)))
    return t.send({"reason": "sweep"}, id=t.dead)


@row("outbox.requeue-destination", "outbox.requeued")
def _(t):
    t.aside(lambda: dead_letter(t))
    return t.send({"destination": "keys.retire", "reason": "sweep"})


@row("privacy.erasures.preview")
def _(t):
    t.make_key(t.acme["operator"], PERSON)
    answer = t.send({"subject": PERSON}, token=t.acme["operator"])
    t.erasure = {"subject": PERSON, "reason": "asked", "preview_fingerprint": answer.json["preview_fingerprint"]}
    return answer


@row("privacy.erasures.create", "approval.requested", says="asks for an approval", status=403)
def _(t):
    answer = t.send(t.erasure, token=t.acme["operator"])
    t.resource = answer.json["resource"]
    return answer


@row("privacy.erasures.create", "privacy.erasure.requested")
def _(t):
    path = f"/api/v1/identities/{t.resource}/approvals"
    approved = t.a.api("POST", path, {"action": "erase"}, token=t.acme["approver"], key=True)
    assert approved.status == 200, approved
    answer = t.send(t.erasure, token=t.acme["operator"])
    t.erasure_id = answer.json["erasure_id"]
    return answer


@row("privacy.attestations.create", "privacy.archive.attested")
def _(t):
    until("it is erased", lambda: t.a.api("GET", f"/api/v1/privacy/erasures/{t.erasure_id}",
                                          token=t.acme["auditor"]).json["state"] == "completed", 60)
    return t.send({"erasure_id": t.erasure_id, "archive_locator": "acme/audit-1.jws", "archive_sha256": "00" * 32,
                   "action": "destroyed", "performed_by": "somebody", "performed_at": "2020-01-01T00:00:00Z"},
                  token=t.acme["operator"])


class Sweep:
    """What a row has: the appliance, the route at hand, and what earlier rows left."""

    def __init__(self, a, issuer, signers, stampers, acme):
        self.a, self.issuer, self.signers, self.stampers, self.acme = a, issuer, signers, stampers, acme
        self.seen = {}
        answer = a.api("GET", "/api/v1/openapi.json", token=None)
        self.routes = {operation["operationId"]: (method.upper(), path, operation)
                       for path, methods in answer.json["paths"].items() for method, operation in methods.items()}
        self.trace = None

    def begin(self, route):
        self.method, self.path, self.operation = self.routes[route]
        self.trace = secrets.token_hex(16)

    def is_mutation(self, route):
        return any(p["name"] == "Idempotency-Key" for p in self.routes[route][2].get("parameters", []))

    def send(self, body=None, token="OPERATOR", content=None, key=True, **params):
        wanted = any(p["name"] == "Idempotency-Key" for p in self.operation.get("parameters", []))
        headers = {"traceparent": f"00-{self.trace}-{secrets.token_hex(8)}-01"}
        if content:
            headers["Content-Type"] = content
        session = self.a.session(token)
        try:
            return session.api(self.method, self.path.format(**params), body, wanted and key, headers)
        finally:
            session.close()

    def aside(self, call):
        """Something that a row needs first, and that is not what it is about."""
        kept = self.method, self.path, self.operation, self.trace
        self.trace = secrets.token_hex(16)
        call()
        self.method, self.path, self.operation, self.trace = kept

    def records(self):
        """Event types by trace, in the trail's order, of both tenants; archived ones as they were when they were seen."""
        for token in ("AUDITOR", self.acme["auditor"]):
            for record in all_records(self.a, token):
                self.seen[record["tenant_id"], record["sequence"]] = record["trace_id"], record["type"]
        found = {}
        for _, (trace, kind) in sorted(self.seen.items()):
            found.setdefault(trace, []).append(kind)
        return found

    def previewed(self, kind, body):
        return signing.previewed(self.a.session("OPERATOR"), kind, body)

    def version(self, key_id):
        return self.a.api("GET", f"/api/v1/keys/{key_id}").json["version"]

    def make_key(self, token="OPERATOR", name=None):
        body = {"name": name or "k" + secrets.token_hex(4), "algorithm": "ec-p256"}
        made = self.a.api("POST", "/api/v1/keys", body, token=token, key=True)
        assert made.status == 201, made
        return made.json["key_id"]

    def ask(self):
        self.method, self.path, self.operation = self.routes["code-signing.sign"]
        body = signing.key_body(self.key_id, digest_of(secrets.token_bytes(8)), artifact_type="gated")
        return self.send(self.previewed("key", body))

    @staticmethod
    def adcs(ago, endpoints):
        at = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=ago)
        return {"domain": "sweep.example.com", "source_id": "sweep", "run_id": f"run-{ago}", "relay_id": "none",
                "observed_at": at.strftime("%Y-%m-%dT%H:%M:%SZ"), "schema_version": 2, "complete": True, "templates": [],
                "enrollment_services": [{"ca": "Sweep-CA", "host": "ca.example.com", "certificate_sha256": "00" * 32, "templates": []}],
                "iis_endpoints": endpoints,
                "ca_restrictions": [{"ca": "Sweep-CA", "enrollment_agents": "restricted", "officers": "restricted",
                                     "edit_flags": 0, "interface_flags": 0x200, "permissions": []}]}

    def waiting(self):
        answer = self.a.api("GET", "/api/v1/approval-requests?waiting_for_me=true&limit=1", token="APPROVER")
        return answer.json["items"][0]

    def units(self, state):
        return [u for u in self.a.api("GET", "/api/v1/protocols/tsa/units").json["items"] if u["state"] == state]

    def certify(self, unit):
        base = f"/api/v1/protocols/tsa/units/{unit}"
        csr = self.a.api("POST", f"{base}/csr", {"subject": "CN=Sweep TSU,O=Acme"}, key=True).json["csr_pem"]
        done = self.a.api("POST", f"{base}/certificates", {"certificate_chain": self.der(self.stampers.chain(csr, *LATE))}, key=True)
        assert done.status == 200, done

    @staticmethod
    def der(pems):
        return [b64(run("openssl", "x509", "-outform", "DER", input=pem, text=False).stdout) for pem in pems]


class EveryMutation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.files, cls.more = Files(), Files()
        cls.addClassCleanup(cls.files.close)
        cls.addClassCleanup(cls.more.close)
        os.chmod(cls.files.folder.name, 0o755)
        cls.issuer = Issuer().start()
        cls.addClassCleanup(cls.issuer.stop)
        tenants = cls.files.put("tenants.yaml", b"tenants:\n  - tenant: acme\n    issuance: own\n")
        archive = cls.files.path("archive")
        os.mkdir(archive, 0o700)
        shutil.chown(archive, "svc-api", "svc-api")
        cls.a = Appliance("sweep", audit__retention="1s", audit__archive_dir=archive,
                          audit__feeds__allow=["localhost:1=FEED_TOKEN"], protocols__tsa__unit__issuance="external", protocols__tsa__unit__overlap="1s",
                          protocols__tsa__tenants_file=tenants)
        cls.addClassCleanup(cls.a.clean)
        cls.a.environment["FEED_TOKEN"] = secrets.token_hex(8)
        signing.write_policy(cls.a, RULES)
        signing.write_attestors(cls.a, cls.issuer.attestor())
        cls.a.start()
        cls.a.appliance("tenant", "create", "acme")
        acme = {role: json.loads(cls.a.appliance("token", "create", "--tenant", "acme", "--role", role, "--subject", role,
                                                 "--json").stdout)["token"] for role in ("auditor", "operator", "approver")}
        collector = cls.a.appliance("token", "create", "--role", "adcs-collector", "--subject", "sweep", "--json")
        cls.t = Sweep(cls.a, cls.issuer, StampAuthority(cls.files), StampAuthority(cls.more), acme)
        cls.t.collector = json.loads(collector.stdout)["token"]
        reviewer = cls.a.appliance("token", "create", "--role", "operator", "--subject", "reviewer", "--json")
        cls.t.reviewer = json.loads(reviewer.stdout)["token"]

    def metric(self, name):
        for line in self.a.probe_get("/metrics").body.decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
        return None

    def test_1_every_route_has_a_row(self):
        routes = {name for name, (method, _, _) in self.t.routes.items() if method != "GET"}
        rows = {route for route, *_ in ROWS}
        self.assertEqual(sorted(routes - rows), [], "routes without a row in this file")
        self.assertEqual(sorted(rows - set(self.t.routes)), [], "rows of routes that are not there")
        silent = {route for route in routes if self.t.is_mutation(route)} - {r for r, _, events, *_ in ROWS if events}
        self.assertEqual(sorted(silent), [], "mutations without an event")

    def test_2_each_leaves_exactly_its_events(self):
        wanted = {}
        for route, says, events, status, call in ROWS:
            with self.subTest(f"{route} {says}"):
                self.t.begin(route)
                trace = self.t.trace
                answer = call(self.t)
                self.assertEqual(answer.status // 100 if status is None else answer.status, status or 2, answer)
                wanted[trace] = (f"{route} {says}", list(events))
                until(f"the events of {route}", lambda: len(self.t.records().get(trace, [])) >= len(events))
        found = self.t.records()
        for trace, (name, events) in wanted.items():
            with self.subTest(name):
                self.assertEqual(found.get(trace, []), events)

    def test_3_what_is_refused_leaves_none(self):
        strange = {"id": "0198c0de-0000-7000-8000-000000000000", "tenant": "nobody", "resource": "nothing"}
        traces = {}
        for route in self.t.routes:
            if not self.t.is_mutation(route):
                continue
            with self.subTest(route):
                self.t.begin(route)
                traces[self.t.trace] = route
                params = {p["name"]: strange.get(p["name"], "x") for p in self.t.operation["parameters"]}
                for more in ({"token": None}, {"key": False}, {"token": self.t.acme["auditor"]}, {"body": {"odd": 1}},
                             {"body": b"{"}):
                    answer = self.t.send(**{"body": {}, **more}, **params)
                    self.assertGreaterEqual(answer.status, 400, answer)
        found = self.t.records()
        self.assertEqual({route: found[trace] for trace, route in traces.items() if trace in found}, {})

    def test_4_answers_and_events_are_compared_while_it_runs(self):
        count = int(self.a.sql("SELECT count(*) FROM svc.idempotency_keys WHERE recorded IS NOT NULL"))
        self.assertGreater(count, 20)
        until("all answers were compared", lambda: self.metric("svc_audit_reconciliation_checked_total") >= count and
              self.metric("svc_audit_reconciliation_lag_seconds") == 0)
        self.assertEqual(self.metric("svc_audit_reconciliation_missing_total"), 0)
        self.assertNotIn("audit_reconciliation", self.a.probe_get("/readyz").json.get("degraded", []))

        key = secrets.token_hex(8)
        made = self.a.api("POST", "/api/v1/keys", {"name": "lost", "algorithm": "ec-p256"}, key=key)
        self.assertEqual(made.status, 201, made)
        self.a.sql(f"UPDATE svc.idempotency_keys SET event_seq = 1 WHERE key = '{key}'")
        until("the missing event is counted", lambda: self.metric("svc_audit_reconciliation_missing_total") == 1)
        until("it is shown", lambda: self.a.probe_get("/readyz").json["checks"]["audit_reconciliation"] == "audit_event_missing")
        ready = self.a.probe_get("/readyz")
        self.assertEqual(ready.status, 200)
        self.assertIn("audit_reconciliation", ready.json["degraded"])
        with open(self.a.log_path) as f:
            lines = [line for line in f if '"audit_event_missing"' in line]
        self.assertEqual([json.loads(line)["route"] for line in lines], ["keys.create"])


if __name__ == "__main__":
    unittest.main()
