"""What a core of svc-api and the files of the appliance hold: no PIN, no key of the token, no caller's token.

The core is forced by root with gdb, every mapping in it; nobody else gets one. That the search sees what is there is
proven on what must be there: the listener's TLS key, which is a file of svc-api's by design.
"""
import base64
import glob
import mmap
import os
import re
import secrets
import subprocess
import unittest

import softhsm_store
from appliance import Appliance, b64, digest_of, make_key, openssl_verifies, run, sign_body

SIGNER_UID, API_UID = 642, 643
SO_PIN, PIN = "so-" + secrets.token_hex(12), "pin-" + secrets.token_hex(12)


def forms(value):
    """How bytes may lie in memory: as they are (DER has them so), as words of a little-endian machine, or as text."""
    value = value.lstrip(b"\0")
    yield "bytes", value
    yield "little-endian", value[::-1]
    yield "hex", value.hex().encode()
    yield "HEX", value.hex().upper().encode()
    for shift in range(3):  # in a longer text, base64 has three alignments; its ends depend on the neighbours
        text = base64.b64encode(b"\0" * shift + value)
        yield f"base64+{shift}", text[4 if shift else 0:-4]
        yield f"base64url+{shift}", text[4 if shift else 0:-4].replace(b"+", b"-").replace(b"/", b"_")


def text_forms(text):
    raw = text.encode()
    yield "text", raw
    yield "UTF-16", text.encode("utf-16-le")
    yield "hex", raw.hex().encode()
    for shift in range(3):
        yield f"base64+{shift}", base64.b64encode(b"\0" * shift + raw)[4 if shift else 0:-4]


def found_in(path, wanted):
    """Which of (name, form, bytes) the file has, with the number of times."""
    if os.path.getsize(path) == 0:
        return []
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return [f"{name} as {form} at {data.find(value):#x}" for name, form, value in wanted if data.find(value) >= 0]


def without_zeros(path, block=1 << 16):
    """Most of a core is stacks and arenas that nobody has touched."""
    with open(path, "rb") as whole, open(path + ".full", "wb") as out:
        while part := whole.read(block):
            if part.count(0) != len(part):
                out.write(part)
    os.replace(path + ".full", path)
    return path


def own_token(a):
    """A token made before the first start, so that the security officer's PIN is known, too: nobody keeps that one."""
    def give(path, mode):
        os.chmod(path, mode)
        os.chown(path, SIGNER_UID, SIGNER_UID)

    data = a.settings["data_dir"]
    for path, mode in ((data, None), (f"{data}/signer", 0o700), (f"{data}/softhsm", 0o700),
                       (f"{data}/softhsm/tokens", 0o700)):
        os.makedirs(path)
        if mode:
            give(path, mode)
        else:
            os.chmod(path, 0o755)
    with open(f"{data}/softhsm/softhsm2.conf", "w") as f:
        f.write(f"directories.tokendir = {data}/softhsm/tokens\n")
    with open(f"{data}/signer/pin", "w") as f:
        f.write(PIN + "\n")
    give(f"{data}/softhsm/softhsm2.conf", 0o600)
    give(f"{data}/signer/pin", 0o600)
    run("setpriv", f"--reuid={SIGNER_UID}", f"--regid={SIGNER_UID}", "--clear-groups", "softhsm2-util", "--init-token",
        "--free", "--label", "svc", "--pin", PIN, "--so-pin", SO_PIN,
        env={**os.environ, "SOFTHSM2_CONF": f"{data}/softhsm/softhsm2.conf"})


def private_of_pem(path):
    """The secret number of a private key's file."""
    text = run("openssl", "pkey", "-in", path, "-noout", "-text").stdout
    part = re.search(r"(?:priv|privateExponent):\s*((?:[0-9a-f]{2}[:\s]*)+)", text).group(1)
    return bytes.fromhex(re.sub(r"[^0-9a-f]", "", part))


class CoreTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = a = Appliance("core")
        own_token(a)
        a.start()
        try:
            cls.use_everything(a)
            cls.values = softhsm_store.private_values(f"{a.dir}/data/softhsm/tokens", PIN)
            cls.core = cls.core_of("svc-api")
        except BaseException:
            a.clean()
            raise

    @classmethod
    def tearDownClass(cls):
        cls.a.clean()

    @classmethod
    def core_of(cls, program):
        pid = cls.a.child(program)
        done = run("gcore", "-a", "-o", f"{cls.a.dir}/core.{program}", pid, check=False)
        path = f"{cls.a.dir}/core.{program}.{pid}"
        assert os.path.exists(path), done.stdout + done.stderr
        return without_zeros(path)

    @classmethod
    def use_everything(cls, a):
        """Each kind of key is used, by each way that brings a caller's token."""
        session = a.session("OPERATOR")
        for algorithm in ("ec-p256", "rsa-3072"):
            key_id = make_key(a, algorithm)
            data = secrets.token_bytes(100)
            signed = session.api("POST", "/api/v1/code-signing/sign", sign_body(session, key_id, digest_of(data)),
                                 key=True)
            assert signed.status == 200, signed
            session.close()
        assert a.api("GET", "/api/v1/audit/records", token="AUDITOR").status == 200
        assert a.api("GET", "/api/v1/keys", token="not-a-token-" + secrets.token_hex(8)).status == 401
        made = a.api("POST", "/api/v1/tokens", {"subject": "core-test", "roles": ["auditor"]}, token="ADMIN", key=True)
        assert made.status == 201, made
        cls.issued = made.json["token"]
        assert a.api("GET", "/api/v1/audit/records", token=cls.issued).status == 200
        a.cli("whoami", check=False)
        query = run("openssl", "ts", "-query", "-data", __file__, "-sha256", "-cert", text=False).stdout
        assert a.tsa(query).status == 200

    def wanted_of_token(self):
        wanted = [("PIN", form, value) for form, value in text_forms(PIN)]
        wanted += [("SO PIN", form, value) for form, value in text_forms(SO_PIN)]
        for label, what, value in self.values:
            wanted += [(f"{what} of {label}", form, part) for form, part in forms(value)]
        return wanted

    def wanted_of_callers(self):
        """Of those who used theirs, and of one who got his from the API."""
        texts = {role: self.a.token(role) for role in ("ADMIN", "OPERATOR", "AUDITOR")}
        return [(role, form, value) for role, text in {**texts, "issued": self.issued}.items()
                for form, value in text_forms(text)]

    def test_the_token_files_gave_the_real_keys(self):
        """Otherwise the searches below would look for nothing."""
        labels = {label.split("/")[3] for label, _, _ in self.values if label.startswith("svc/1/")}
        self.assertLessEqual({"codesign", "tsa", "seal", "audit-export"}, labels, self.values)
        key_id = make_key(self.a)
        label, _, scalar = next(v for v in softhsm_store.private_values(f"{self.a.dir}/data/softhsm/tokens", PIN)
                                if v[0].endswith(key_id))
        der = bytes.fromhex("302502010104 20".replace(" ", "")) + scalar.rjust(32, b"\0")
        # ECPrivateKey without its curve; the curve stands around it, in PKCS#8 (RFC 5915, RFC 5208)
        algorithm = bytes.fromhex("301306072a8648ce3d020106082a8648ce3d030107")
        octets = bytes([0x04, len(der)]) + der
        inner = bytes.fromhex("020100") + algorithm + octets
        pkcs8 = bytes([0x30, len(inner)]) + inner
        public = run("openssl", "pkey", "-inform", "DER", "-pubout", "-outform", "DER", input=pkcs8, text=False).stdout
        answer = self.a.api("GET", f"/api/v1/keys/{key_id}", token="OPERATOR")
        self.assertEqual(answer.status, 200, answer)
        self.assertIn(b64(public), answer.body.decode().replace("\\/", "/"), label)

    def test_the_search_sees_the_key_that_is_there(self):
        key = private_of_pem(self.tls_key())
        seen = found_in(self.core, [("TLS key", form, value) for form, value in forms(key)])
        self.assertTrue(seen, "svc-api serves TLS with this key: a search that does not find it finds nothing")

    def tls_key(self):
        found = [path for path in glob.glob(f"{self.a.dir}/data/api/**/*", recursive=True)
                 if os.path.isfile(path) and b"PRIVATE KEY" in open(path, "rb").read()]
        self.assertEqual(len(found), 1, found)
        return found[0]

    def test_a_core_of_svc_api_has_no_pin_and_no_key_of_the_token(self):
        self.assertEqual(found_in(self.core, self.wanted_of_token()), [])

    def test_a_core_of_the_supervisor_has_none_either(self):
        self.assertEqual(found_in(self.core_of("svc-appliance"), self.wanted_of_token()), [])

    def test_not_even_the_signers_own_core_has_the_pin(self):
        """Root may read all of its memory but the arena of its secrets, where the kernel has memfd_secret."""
        with open(f"/proc/{self.a.child('svc-signer')}/maps") as f:
            if "secretmem" not in f.read():
                self.skipTest("this kernel has no memfd_secret: root sees the arena")
        core = self.core_of("svc-signer")
        self.assertTrue(found_in(core, [("a key's label", "text", b"svc/1/")]), "a core without the cache of keys")
        self.assertEqual(found_in(core, [w for w in self.wanted_of_token() if w[0].endswith("PIN")]), [])

    def test_a_core_of_svc_api_has_no_callers_token_once_its_request_is_over(self):
        self.assertEqual(found_in(self.core, self.wanted_of_callers()), [])

    def test_no_file_of_the_appliance_has_them_but_the_two_that_are_for_it(self):
        wanted = self.wanted_of_token()
        callers = self.wanted_of_callers()
        data = f"{self.a.dir}/data"
        seen, files = [], 0
        for folder, _, names in os.walk(self.a.dir):
            for path in (os.path.join(folder, name) for name in names):
                if os.path.basename(path).startswith("core.") or not os.path.isfile(path):
                    continue
                files += 1
                extra = [] if path == f"{data}/client.env" else callers  # root's, for the operator
                own = path == f"{data}/signer/pin"  # svc-signer's, 0600
                seen += [f"{path}: {what}" for what in found_in(path, ([] if own else wanted) + extra)]
        self.assertGreater(files, 100)
        self.assertEqual(seen, [])

    def test_nobody_but_root_gets_a_core_of_either(self):
        for program, uid in (("svc-signer", SIGNER_UID), ("svc-api", API_UID)):
            pid = self.a.child(program)
            for other in (SIGNER_UID, API_UID, 65534):  # its own user, too
                with self.subTest(program=program, uid=other):
                    self.refused(pid, other)

    def refused(self, pid, uid):
        """As this user: no memory, no environment, no descriptors, no debugger."""
        code = (f"import os\n"
                f"for name in ('mem', 'environ', 'maps', 'auxv'):\n"
                f"    try:\n"
                f"        os.read(os.open('/proc/{pid}/' + name, os.O_RDONLY), 1); print('read', name)\n"
                f"    except PermissionError: pass\n"
                f"try:\n    os.listdir('/proc/{pid}/fd'); print('listed')\n"
                f"except PermissionError: pass\n"
                f"import ctypes\n"
                f"libc = ctypes.CDLL(None, use_errno=True)\n"
                f"if libc.ptrace(0x4206, {pid}, 0, 0) == 0: print('seized')\n")  # PTRACE_SEIZE
        done = run("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "python3", "-c", code, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))


if __name__ == "__main__":
    unittest.main(verbosity=2)
