#!/usr/bin/env python3
"""Log collectors for tests, strict about their wire formats: what is not exactly as it must be is an error that the test
sees, and is refused. Each keeps what it accepted and does what `mode` says.

As a program: collectors.py TOKEN starts a Hec on a free port of this machine, prints the port, and obeys
POST /test/mode?MODE; GET /test/bodies answers how many requests it got and their SHA-256, GET /test/sequences what it has
accepted; it ends with its standard input."""
import hashlib
import http.server
import json
import re
import socket
import ssl
import sys
import threading
import urllib.parse

GUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def chain_next(before, record):
    return hashlib.sha256(b"svc.audit.chain.v1\0" + before + record).digest()


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def check_batch(rows, trailer):
    """rows: (sequence, chain in hex, record bytes or None), in order. Their chain runs from the trailer's seed to its
    head, and the numbers fit."""
    assert rows, "a batch without records"
    first, last, count, seed, head = trailer
    assert [row[0] for row in rows] == list(range(first, last + 1)), "sequences"
    assert count == len(rows) == last - first + 1, "count"
    chain = bytes.fromhex(seed)
    for sequence, link, record in rows:
        if record is not None:
            chain = chain_next(chain, record)
            assert chain.hex() == link, f"chain at {sequence}"
            assert json.loads(record)["sequence"] == sequence
        else:
            chain = bytes.fromhex(link)
    assert chain.hex() == head, "head"


class Collector:
    def __init__(self):
        self.lock = threading.Lock()
        self.mode = ""
        self.bodies, self.errors, self.accepted = [], [], []  # accepted: (batch id, sequences)
        self.release = threading.Event()  # lets go of those who hang

    def note(self, batch_id, rows):
        with self.lock:
            self.accepted.append((batch_id, [row[0] for row in rows]))

    @property
    def sequences(self):
        with self.lock:
            return sorted({s for _, sequences in self.accepted for s in sequences})


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    collector = None

    def log_message(self, *args):
        pass

    def answer(self, status, body=b"", **headers):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            self.collector.post(self, self.path, body)
        except (AssertionError, KeyError, ValueError, TypeError) as e:
            self.collector.errors.append(f"{self.path}: {e!r}")
            self.answer(400, {"text": "Invalid data format", "code": 6})
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def do_GET(self):
        self.collector.get(self)


class HttpCollector(Collector):
    def __init__(self, certificate=None):
        super().__init__()
        handler = type("Bound", (Handler,), {"collector": self})
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def get(self, handler):
        handler.answer(404)

    def close(self):
        self.release.set()
        self.server.shutdown()
        self.server.server_close()


class Hec(HttpCollector):
    def __init__(self, token, certificate=None):
        self.token, self.acks, self.channels, self.asked = token, {}, set(), 0
        super().__init__(certificate)

    def get(self, handler):
        if handler.path == "/test/bodies":
            with self.lock:
                handler.answer(200, {"count": len(self.bodies), "errors": self.errors,
                                     "kinds": len({hashlib.sha256(b).hexdigest() for b in self.bodies})})
        elif handler.path == "/test/sequences":
            handler.answer(200, {"last": max(self.sequences, default=0), "count": len(self.sequences)})
        else:
            handler.answer(404)

    def post(self, handler, path, body):
        if path.startswith("/test/mode"):
            self.mode = path.partition("?")[2]
            (self.release.clear if self.mode == "hang" else self.release.set)()
            return handler.answer(200)
        if handler.headers["Authorization"] != f"Splunk {self.token}":
            return handler.answer(403, {"text": "Invalid token", "code": 4})
        assert handler.headers["Content-Type"] == "application/json"
        assert GUID.match(handler.headers["X-Splunk-Request-Channel"])
        if path.startswith("/services/collector/ack?"):
            return self.ack(handler, path, body)
        assert path == "/services/collector/event", path
        return self.event(handler, body)

    def ack(self, handler, path, body):
        channel = urllib.parse.parse_qs(path.partition("?")[2])["channel"]
        assert channel == [handler.headers["X-Splunk-Request-Channel"]]
        ids = json.loads(body)
        assert set(ids) == {"acks"} and all(isinstance(i, int) for i in ids["acks"])
        self.asked += 1
        told = {}
        for i in ids["acks"]:
            told[str(i)] = self.acks.get((channel[0], i), False) and self.mode != "unindexed"
            if told[str(i)]:
                del self.acks[(channel[0], i)]  # told once
        handler.answer(200, {"acks": told})

    def event(self, handler, body):
        with self.lock:
            self.bodies.append(body)
        mode = self.mode
        if mode == "hang":
            self.release.wait(60)
            handler.close_connection = True
            return None
        if mode.isdigit():
            text = {"503": ("Server is busy", 9), "403": ("Token disabled", 1), "400": ("Incorrect index", 7)}[mode]
            extra = {"Retry_After": "1"} if mode == "503" else {}
            return handler.answer(int(mode), {"text": text[0], "code": text[1]}, X_Request_Id="req-7", **extra)
        if mode == "garbage":
            return handler.answer(200, b"<html>welcome</html>")
        batch_id, rows = self.take(body)
        if mode == "drop":
            handler.close_connection = True
            return None
        self.note(batch_id, rows)
        if mode == "noack":
            return handler.answer(200, {"text": "Success", "code": 0})
        channel = handler.headers["X-Splunk-Request-Channel"]
        with self.lock:
            self.channels.add(channel)
            number = len(self.accepted) - 1
            self.acks[(channel, number)] = True
        return handler.answer(200, {"text": "Success", "code": 0, "ackId": number}, X_Request_Id=f"req-{number}")

    @staticmethod
    def take(body):
        events, at, text = [], 0, body.decode()
        decoder = json.JSONDecoder()
        while at < len(text):
            event, at = decoder.raw_decode(text, at)
            while at < len(text) and text[at] in " \r\n":
                at += 1
            assert set(event) - {"index"} == {"time", "host", "source", "sourcetype", "event"}, sorted(event)
            assert isinstance(event["time"], float) and event["time"] > 1.6e9
            events.append(event["event"])
        rows = [(e["record"]["sequence"], e["chain"], canonical(e["record"])) if "record" in e
                else (e["sequence"], e["chain"], None) for e in events[:-1]]
        batch = {e["batch_id"] for e in events}
        assert len(batch) == 1
        t = events[-1]["trailer"]
        check_batch(rows, (t["first_sequence"], t["last_sequence"], t["count"], t["chain_seed"], t["chain_head"]))
        return batch.pop(), rows


class Azure(HttpCollector):
    """Token issuer and ingestion endpoint in one."""

    def __init__(self, client_id, secret, certificate=None):
        self.client_id, self.secret, self.tokens = client_id, secret, []
        super().__init__(certificate)

    def post(self, handler, path, body):
        return self.issue(handler, body) if path == "/tenant/oauth2/v2.0/token" else self.ingest(handler, path, body)

    def issue(self, handler, body):
        assert handler.headers["Content-Type"] == "application/x-www-form-urlencoded"
        form = dict(urllib.parse.parse_qsl(body.decode(), strict_parsing=True))
        assert set(form) == {"grant_type", "client_id", "client_secret", "scope"}
        assert form["grant_type"] == "client_credentials" and form["scope"] == "https://monitor.azure.com//.default"
        if form["client_id"] != self.client_id or form["client_secret"] != self.secret:
            return handler.answer(401, {"error": "invalid_client", "error_description": "no"})
        self.tokens.append(f"token-{len(self.tokens)}")
        return handler.answer(200, {"token_type": "Bearer", "expires_in": 3599, "access_token": self.tokens[-1]})

    def ingest(self, handler, path, body):
        assert path == "/dataCollectionRules/dcr-0123/streams/Custom-SvcAudit?api-version=2023-01-01", path
        assert handler.headers["Content-Type"] == "application/json" and len(body) < 1 << 20
        assert GUID.match(handler.headers["x-ms-client-request-id"])
        with self.lock:
            self.bodies.append(body)
        if not self.tokens or handler.headers["Authorization"] != f"Bearer {self.tokens[-1]}":
            return handler.answer(401, {"error": {"code": "InvalidToken"}}, x_ms_request_id="azure-401")
        if self.mode == "429":
            return handler.answer(429, {"error": {"code": "TooManyRequests"}}, Retry_After="2",
                                  x_ms_request_id="azure-429")
        items = json.loads(body)
        records, order = {}, []
        for item in items[:-1]:
            assert item["Kind"] == "record" and len(item["Record"]) <= 32768
            if item["Part"] == 1:
                order.append(item["Sequence"])
                records[item["Sequence"]] = [item["Chain"], "", item["Parts"], item["TimeGenerated"]]
            records[item["Sequence"]][1] += item["Record"]
        rows = [(s, records[s][0], records[s][1].encode()) for s in order]
        t = items[-1]
        assert t["Kind"] == "trailer" and len({i["BatchId"] for i in items}) == 1
        check_batch(rows, (t["FirstSequence"], t["LastSequence"], t["RecordCount"], t["ChainSeed"], t["ChainHead"]))
        self.note(t["BatchId"], rows)
        return handler.answer(204, x_ms_request_id="azure-204")


MESSAGE = re.compile(rb"<110>1 (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) (\S+) svc - (record|trailer|digest) "
                     rb"\[svcAudit@(\d+)((?: [a-z0-9]+=\"[^\"\\\]]*\")+)\](?: (.*))?$", re.S)


class Syslog(Collector):
    """RFC 5425: every message is read, then our close_notify answers the client's."""

    def __init__(self, certificate, client_ca=None):
        super().__init__()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate)
        if client_ca:
            self.context.load_verify_locations(client_ca)
            self.context.verify_mode = ssl.CERT_REQUIRED
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def close(self):
        self.release.set()
        self.listener.close()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.talk, args=(connection,), daemon=True).start()

    def talk(self, connection):
        mode = self.mode
        try:
            if mode == "hang":
                self.release.wait(60)
                connection.close()
                return
            tls = self.context.wrap_socket(connection, server_side=True, suppress_ragged_eofs=False)
            if mode == "cut":
                tls.recv(100)
                connection.close()
                return
            data = b""
            while True:
                part = tls.recv(65536)
                if not part:
                    break
                data += part
            with self.lock:
                self.bodies.append(data)
            if mode != "silent":
                self.take(data)
                tls.unwrap()
            tls.close()
        except (AssertionError, ValueError) as e:
            self.errors.append(repr(e))
        except (ssl.SSLError, OSError):
            connection.close()

    def take(self, data):
        at, records, order, batches, trailer = 0, {}, [], set(), None
        while at < len(data):
            frame = re.compile(rb"([1-9][0-9]{0,5}) ").match(data, at)
            assert frame, f"no frame at {at}"
            at = frame.end() + int(frame[1])
            assert at <= len(data), "a message is cut"
            message = MESSAGE.match(data[frame.end():at])
            assert message and int(frame[1]) <= 8192 and trailer is None, data[frame.end():at][:200]
            told = dict(p.split("=", 1) for p in re.findall(r'([a-z0-9]+="[^"]*")', message[5].decode()))
            told = {k: v.strip('"') for k, v in told.items()}
            batches.add(told["batch"])
            if message[3] == b"trailer":
                trailer = (int(told["first"]), int(told["last"]), int(told["count"]), told["seed"], told["head"])
                continue
            sequence = int(told["sequence"])
            if told["part"] == "1":
                order.append(sequence)
                records[sequence] = [told["chain"], b""]
            records[sequence][1] += message[6].removeprefix(b"\xef\xbb\xbf")
        assert trailer and len(batches) == 1
        rows = [(s, *records[s]) for s in order]
        check_batch(rows, trailer)
        self.note(batches.pop(), rows)


def main():
    collector = Hec(sys.argv[1])
    print(collector.port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
