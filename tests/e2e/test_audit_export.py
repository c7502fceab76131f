"""The audit export: five shapes, ranges and times, key rollover, files that are there only when they are whole. Every hash
is made again here, from the bytes alone."""
import base64
import csv
import glob
import hashlib
import io
import json
import os
import socket
import subprocess
import tempfile
import threading
import unittest

import signing
from appliance import Appliance, all_records, digest_of, make_key, run, until

EXPORT = "/api/v1/audit/export"
KEYS = "/api/v1/audit/verification-keys"
STREAMS = ("ndjson", "csv", "cef", "ocsf")
SUFFIX = {"jws": "jws", "ndjson": "ndjson", "csv": "csv", "cef": "cef", "ocsf": "ocsf.ndjson"}


def unb64(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def payload_of(compact):
    return json.loads(unb64(compact.split(".")[1]))


def canonical(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def chain_next(chain, record):
    return hashlib.sha256(b"svc.audit.chain.v1\0" + chain + record).digest()


def tree(leaves):
    if len(leaves) < 2:
        return leaves[0] if leaves else hashlib.sha256().digest()
    split = 1 << ((len(leaves) - 1).bit_length() - 1)
    return hashlib.sha256(b"\x01" + tree(leaves[:split]) + tree(leaves[split:])).digest()


def unescape_cef(text):
    out, rest = "", iter(text)
    for c in rest:
        out += next(rest) if c == "\\" else c
    return out


def take_apart(shape, body):
    """[(record bytes, chain hex)], statement, compact JWS, signed part of the stream."""
    if shape == "jws":
        compact = body.decode()
        statement = payload_of(compact)
        return [(canonical(e["record"]), e["chain"]) for e in statement["records"]], statement, compact
    text = body.decode()
    if shape == "csv":
        rows = list(csv.reader(io.StringIO(text, newline="")))
        assert rows[0] == "sequence,time,type,actor,roles,event_id,lane,trace_id,record,chain".split(","), rows[0]
        assert all(len(r) == 10 for r in rows)
        for row in rows[1:-1]:
            r = json.loads(row[8])
            assert row[:8] == [str(r["sequence"]), r["time"], r["type"], r["actor"]["subject"], " ".join(r["actor"]["roles"]),
                               r["event_id"], r["lane"], r["trace_id"]], row
        entries, compact = [(r[8].encode(), r[9]) for r in rows[1:-1]], rows[-1][8]
        assert rows[-1][0] == "trailer"
        last = body[:-2].rfind(b"\r\n") + 2
    else:
        lines = text.split("\n")
        assert lines.pop() == ""
        last = len(body) - len(lines[-1].encode()) - 1
        if shape == "ndjson":
            entries = [(canonical(json.loads(l)["record"]), json.loads(l)["chain"]) for l in lines[:-1]]
            compact = json.loads(lines[-1])["trailer"]
        elif shape == "ocsf":
            objects = [json.loads(l) for l in lines]
            for o in objects:
                assert (o["class_uid"], o["category_uid"]) == (6003, 6) and o["type_uid"] == 600300 + o["activity_id"], o
                assert {"time", "severity_id", "metadata", "actor", "api", "src_endpoint"} <= set(o)
            for o in objects[:-1]:
                assert json.loads(o["raw_data"])["event_id"] == o["metadata"]["uid"]
            entries = [(o["raw_data"].encode(), o["unmapped"]["chain"]) for o in objects[:-1]]
            compact = objects[-1]["unmapped"]["trailer"]
        else:
            assert all(l.startswith("CEF:0|svc|svc|1|") for l in lines)
            entries = [(unescape_cef(l.split(" cs1=", 1)[1]).encode(), l.split(" cs2=", 1)[1].split(" ")[0]) for l in lines[:-1]]
            compact = lines[-1].split("cs1=")[1]
    statement = payload_of(compact)
    assert statement["shape"] == shape and statement["stream_sha256"] == hashlib.sha256(body[:last]).hexdigest(), shape
    return entries, statement, compact


class Cutter:
    """Stands between a client and the appliance, and ends every connection after so many bytes of answers."""

    def __init__(self, port, limit):
        self.limit, self.target = limit, port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with client, socket.create_connection(("127.0.0.1", self.target)) as server:
            threading.Thread(target=self.pump, args=(client, server, None), daemon=True).start()
            self.pump(server, client, self.limit)
            for end in (client, server):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    @staticmethod
    def pump(source, sink, limit):
        try:
            while limit is None or limit > 0:
                data = source.recv(16384 if limit is None else min(16384, limit))
                if not data:
                    return
                sink.sendall(data)
                limit = limit if limit is None else limit - len(data)
        except OSError:
            pass

    def close(self):
        self.listener.close()


class Export(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("auditx").start()
        cls.dir = tempfile.mkdtemp(prefix="svc-auditx-", dir="/tmp")
        session = cls.a.session("OPERATOR")
        cls.key = make_key(cls.a)
        for n in range(3):
            answer = signing.sign(session, "batch", signing.batch_body(cls.key, [digest_of(b"%d %d" % (n, i)) for i in range(60)]))
            assert answer.status == 200, answer
        session.close()

    @classmethod
    def tearDownClass(cls):
        cls.a.clean()

    def export(self, query="", token="AUDITOR", **more):
        return self.a.api("GET", EXPORT + query, token=token, **more)

    def checked(self, shape, query=""):
        answer = self.export(f"?shape={shape}{query}")
        self.assertEqual(answer.status, 200, answer)
        entries, statement, compact = take_apart(shape, answer.body)
        self.assertEqual(unb64(compact.split(".")[1]), canonical(statement), "the statement is canonical")
        chain = bytes.fromhex(statement["chain_seed"])
        for n, (record, stated) in enumerate(entries):
            chain = chain_next(chain, record)
            self.assertEqual((stated, json.loads(record)["sequence"]), (chain.hex(), statement["first_sequence"] + n))
            self.assertEqual(canonical(json.loads(record)), record)
        self.assertEqual((len(entries), chain.hex()), (statement["count"], statement["chain_head"]))
        if statement["first_sequence"] == 1:
            leaves = [hashlib.sha256(b"\0" + record).digest() for record, _ in entries]
            self.assertEqual((statement["tree_size"], statement["tree_root"]), (len(leaves), tree(leaves).hex()))
        self.assertIn(bytes.fromhex(statement["chain_head"]), base64.b64decode(statement["timestamp"]))
        return statement, compact

    def jwks(self):
        path = f"{self.dir}/keys-{os.urandom(4).hex()}.json"
        self.a.cli("audit", "verification-keys", "-o", path, token="AUDITOR")
        return path

    def verifies(self, compact, keys):
        done = run("jose", "jws", "ver", "-i", "-", "-k", keys, "-O-", check=False, input=compact)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_every_shape_is_whole_and_hashes_from_its_own_bytes(self):
        keys, heads = self.jwks(), set()
        for shape in ("jws", *STREAMS):
            statement, compact = self.checked(shape, "&to_sequence=180")
            self.verifies(compact, keys)
            heads.add((statement["chain_head"], statement["tree_root"], statement["generation"]))
        self.assertEqual(len(heads), 1)
        for shape in STREAMS:
            self.checked(shape, "&from_sequence=17&to_sequence=17")
        read = [r for r in all_records(self.a) if r["type"] == "audit.export.read"]
        self.assertTrue({"jws", *STREAMS} <= {r["data"]["shape"] for r in read})
        mine = [r for r in read if (r["data"]["first_sequence"], r["data"]["last_sequence"]) == (1, 180)]
        self.assertGreaterEqual(len(mine), 5)
        self.assertIn(mine[0]["data"]["chain_head"], {h[0] for h in heads})
        self.assertTrue(mine[0]["actor"]["subject"])

    def test_ranges_and_times_are_contiguous(self):
        records = all_records(self.a)
        whole, _ = self.checked("ndjson", "&from_sequence=5&to_sequence=60")
        self.assertEqual((whole["first_sequence"], whole["last_sequence"], whole["count"]), (5, 60, 56))
        begin, end = records[40]["time"], records[100]["time"]
        inside = [r["sequence"] for r in records if begin <= r["time"] < end]
        timed, _ = self.checked("csv", f"&from={begin}&to={end}")
        self.assertEqual((timed["first_sequence"], timed["last_sequence"]), (min(inside), max(inside)))
        both, _ = self.checked("jws", f"&from={begin}&to_sequence={min(inside) + 3}")
        self.assertEqual((both["first_sequence"], both["count"]), (min(inside), 4))
        nothing, _ = self.checked("ocsf", "&to=2001-01-01T00:00:00Z")
        self.assertEqual((nothing["count"], nothing["first_sequence"], nothing["last_sequence"]), (0, 0, 0))

    def test_refusals(self):
        for query, field in (("?shape=xml", "shape"), ("?from_sequence=0", "from_sequence"), ("?from_sequence=x", "from_sequence"),
                             ("?to_sequence=99999999", "to_sequence"), ("?from_sequence=9&to_sequence=3", "to_sequence"),
                             ("?from=yesterday", "from"), ("?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "to")):
            answer = self.export(query)
            self.assertEqual((answer.status, answer.json["code"], answer.json.get("pointer")), (400, "query_parameter", field), answer)
        self.assertEqual(self.export("?since=1").status, 400)
        self.assertEqual((self.export(token="CI").status, self.export(token=None).status), (403, 401))
        self.assertEqual(self.a.api("POST", KEYS + "/rotations", token="AUDITOR", key=True).status, 403)
        before = len(all_records(self.a))
        head = self.a.api("HEAD", EXPORT + "?shape=csv", token="AUDITOR")
        self.assertEqual((head.status, head.body, head.headers["Content-Type"][:8]), (200, b"", "text/csv"))
        self.assertEqual(len(all_records(self.a)), before)
        done = self.a.cli("audit", "export", "--shape", "xml", check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        done = self.a.cli("audit", "export", "--split", "10", check=False)
        self.assertEqual(done.returncode, 2)

    def test_former_keys_verify_after_a_rotation_and_another_algorithm(self):
        first = self.checked("jws", "&to_sequence=20")[1]
        rotated = json.loads(self.a.cli("audit", "rotate-key", "--json").stdout)
        second = self.checked("csv", "&to_sequence=20")[1]
        kid = [json.loads(unb64(c.split(".")[0]))["kid"] for c in (first, second)]
        self.assertEqual(kid[1], rotated["jwk"]["kid"])
        self.assertNotEqual(kid[0], kid[1])
        self.a.stop()
        self.a.settings["audit.signature_algorithm"] = "PS256"
        self.a.start()
        third = self.checked("cef", "&to_sequence=20")[1]
        self.assertEqual(json.loads(unb64(third.split(".")[0]))["alg"], "PS256")
        keys = self.jwks()
        by_kid = {k["kid"]: k for k in json.load(open(keys))["keys"]}
        former, now = by_kid[kid[0]], by_kid[kid[1]]
        self.assertLess(former["svc_not_before"], now["svc_not_before"])
        self.assertLess(now["svc_not_before"], former["svc_not_after"])  # what is being signed meanwhile is finished
        self.assertNotIn("svc_not_after", now)
        for compact in (first, second, third):
            self.verifies(compact, keys)

    def test_files_of_a_split_export_are_whole_and_the_rest_is_fetched_later(self):
        folder = f"{self.dir}/split"
        args = ("audit", "export", "--shape", "csv", "--to-sequence", "130", "--split", "50", "--output-dir", folder, "--json")
        made = json.loads(self.a.cli(*args, token="AUDITOR").stdout)["files"]
        names = [f"audit-{a}-{b}.csv" for a, b in ((1, 50), (51, 100), (101, 130))]
        self.assertEqual(([os.path.basename(f["file"]) for f in made], sorted(os.listdir(folder))), (names, sorted(names)))
        statements = [take_apart("csv", open(f["file"], "rb").read())[1] for f in made]
        for before, after in zip(statements, statements[1:]):
            self.assertEqual(before["chain_head"], after["chain_seed"])
        kept = os.stat(made[0]["file"]).st_mtime_ns
        os.unlink(made[1]["file"])
        again = json.loads(self.a.cli(*args, token="AUDITOR").stdout)["files"]
        self.assertEqual([f["skipped"] for f in again], [True, False, True])
        self.assertEqual(os.stat(made[0]["file"]).st_mtime_ns, kept)

    def test_a_cut_transfer_leaves_no_file(self):
        size = len(self.export("?shape=ndjson").body)
        self.assertGreater(size, 100000)
        for limit in (8000, size // 2, size - 2000):
            cutter = Cutter(self.a.port, limit)
            try:
                done = self.a.cli("audit", "export", "--shape", "ndjson", "-o", f"{self.dir}/cut", "--base-url",
                                  f"https://127.0.0.1:{cutter.port}", token="AUDITOR", check=False)
            finally:
                cutter.close()
            self.assertNotEqual(done.returncode, 0, limit)
            self.assertEqual(glob.glob(f"{self.dir}/cut*"), [])
        self.a.cli("audit", "export", "--shape", "ndjson", "-o", f"{self.dir}/cut", token="AUDITOR")
        self.assertEqual(glob.glob(f"{self.dir}/cut*"), [f"{self.dir}/cut"])
        take_apart("ndjson", open(f"{self.dir}/cut", "rb").read())


if __name__ == "__main__":
    unittest.main()
