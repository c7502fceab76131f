"""What the tests of time-stamping units share: queries, verification by openssl, an authority elsewhere, load."""
import http.client
import os
import re
import subprocess
import tempfile
import threading

from appliance import Answer, until


def query(data, *options, certificate=True):
    wanted = ["-cert"] if certificate else []
    hashed = [] if any(o.startswith("-sha") for o in options) else ["-sha256"]
    return subprocess.run(["openssl", "ts", "-query", "-data", "/dev/stdin", *hashed, *wanted, *options], input=data,
                          capture_output=True, check=True).stdout


def text_of(reply):
    return subprocess.run(["openssl", "ts", "-reply", "-in", "/dev/stdin", "-text"], input=reply.body,
                          capture_output=True).stdout.decode()


def granted(reply):
    return reply.status == 200 and reply.body[4:9] == b"\x30\x03\x02\x01\x00"


def serial(reply):
    return int(re.search(r"Serial number: (0x[0-9A-F]+)", text_of(reply)).group(1), 16)


def request(appliance, method, path, body=None, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", appliance.plain, timeout=20)
    try:
        connection.request(method, path, body, headers or {})
        r = connection.getresponse()
        return Answer(r.status, dict(r.getheaders()), r.read())
    finally:
        connection.close()


def stamp(appliance, data, path="/tsa", *options, certificate=True):
    return request(appliance, "POST", path, query(data, *options, certificate=certificate),
                   {"Content-Type": "application/timestamp-query"})


def blocks(pem):
    return [b"-----BEGIN" + part for part in pem.split(b"-----BEGIN")[1:]]


def certificate_text(pem):
    return subprocess.run(["openssl", "x509", "-text", "-noout"], input=pem, capture_output=True, check=True).stdout.decode()


class Files:
    """A folder of this test."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="svc-stamps-", dir="/tmp")

    def put(self, name, data):
        path = os.path.join(self.folder.name, name)
        with open(path, "wb") as f:
            f.write(data)
        return path

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def close(self):
        self.folder.cleanup()

    def verifies(self, data, reply, chain):
        """By openssl: the last certificate of the chain is pinned, the others are at hand."""
        every = blocks(chain)
        arguments = ["-data", self.put("data", data), "-in", self.put("reply", reply.body), "-CAfile",
                     self.put("root.pem", every[-1])]
        if len(every) > 1:
            arguments += ["-untrusted", self.put("rest.pem", b"".join(every[:-1]))]
        done = subprocess.run(["openssl", "ts", "-verify", *arguments], capture_output=True)
        return b"Verification: OK" in done.stdout + done.stderr


class Authority:
    """A certificate authority elsewhere: a root and one below it, by openssl."""

    def __init__(self, files):
        self.files = files
        self.make("root", "/CN=Outside Root", None, "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign")
        self.make("below", "/CN=Outside Issuer", "root",
                  "basicConstraints=critical,CA:TRUE,pathlen:0\nkeyUsage=critical,keyCertSign")

    def run(self, *args):
        subprocess.run(["openssl", *args], capture_output=True, check=True)

    def make(self, name, subject, by, extensions):
        path = self.files.path
        self.run("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                 path(f"{name}.key"), "-out", path(f"{name}.csr"), "-subj", subject)
        self.sign(path(f"{name}.csr"), name, by, extensions)

    def sign(self, csr, name, by, extensions, *more):
        path = self.files.path
        extensions_file = self.files.put(f"{name}.ext", extensions.encode())
        signer = ["-signkey", path(f"{name}.key")] if by is None else \
            ["-CA", path(f"{by}.pem"), "-CAkey", path(f"{by}.key"), "-CAcreateserial"]
        if "-not_after" not in more:
            more += ("-days", "30")
        self.run("x509", "-req", "-in", csr, "-out", path(f"{name}.pem"), "-extfile", extensions_file, *signer, *more)
        with open(path(f"{name}.pem"), "rb") as f:
            return f.read()

    def chain(self, csr_pem, *more, usage="critical,timeStamping", key_usage="critical,digitalSignature"):
        csr = self.files.put("unit.csr", csr_pem.encode())
        extensions = f"basicConstraints=critical,CA:FALSE\nkeyUsage={key_usage}\nextendedKeyUsage={usage}\n"
        leaf = self.sign(csr, "unit", "below", extensions, *more)
        rest = []
        for name in ("below", "root"):
            with open(self.files.path(f"{name}.pem"), "rb") as f:
                rest.append(f.read())
        return [leaf, *rest]


class Load:
    """Stamps without pause over keep-alive connections until it is stopped; every answer is judged."""

    def __init__(self, appliance, threads=6, path="/tsa"):
        self.appliance, self.path = appliance, path
        self.going, self.stamps, self.bad = True, [], []
        self.threads = [threading.Thread(target=self.work, args=(i,)) for i in range(threads)]
        for thread in self.threads:
            thread.start()

    def work(self, number):
        connection = http.client.HTTPConnection("127.0.0.1", self.appliance.plain, timeout=20)
        data = b"load %d" % number
        der = query(data)
        while self.going:
            try:
                connection.request("POST", self.path, der, {"Content-Type": "application/timestamp-query"})
                r = connection.getresponse()
                reply = Answer(r.status, dict(r.getheaders()), r.read())
            except (OSError, http.client.HTTPException) as e:
                self.bad.append(e)
                connection.close()
                continue
            (self.stamps if granted(reply) else self.bad).append((data, reply))
        connection.close()

    def more(self, count):
        target = len(self.stamps) + count
        until(f"{count} more stamps are made", lambda: len(self.stamps) >= target or self.bad)

    def stop(self):
        self.going = False
        for thread in self.threads:
            thread.join()
