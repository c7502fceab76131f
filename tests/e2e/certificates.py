"""Keys, certificates and time stamps that the tests make themselves, with openssl alone, in a folder of their own."""
import base64
import os
import shutil
import tempfile
import time

from appliance import b64, run

ROOT = "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\nsubjectKeyIdentifier=hash\n"
LEAF = ("basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=codeSigning\n"
        "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n")
STAMPER = ("basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n"
           "extendedKeyUsage=critical,timeStamping\n")
TSA_CONFIG = """[tsa]
serial = {folder}/tsa.serial
signer_digest = sha256
default_policy = 1.2.3.4
digests = sha256, sha384, sha512
ess_cert_id_alg = sha256
"""


def moment(seconds_from_now):
    return time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + seconds_from_now))


def keyless_leaf(san, issuer):
    """Extensions of a certificate in Fulcio's form."""
    return LEAF + f"subjectAltName=critical,URI:{san}\n1.3.6.1.4.1.57264.1.8=ASN1:UTF8String:{issuer}\n"


class Workshop:
    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="svc-pki-", dir="/tmp")
        os.chmod(self.dir, 0o755)

    def clean(self):
        shutil.rmtree(self.dir, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.dir, name)

    def read(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()

    def write(self, name, content):
        with open(self.path(name), "wb") as f:
            f.write(content.encode() if isinstance(content, str) else content)
        return self.path(name)

    def key(self, name, algorithm="EC", option="ec_paramgen_curve:P-256"):
        more = ("-pkeyopt", option) if option else ()
        run("openssl", "genpkey", "-algorithm", algorithm, *more, "-out", self.path(f"{name}.key"))
        run("openssl", "pkey", "-in", self.path(f"{name}.key"), "-pubout", "-outform", "DER", "-out",
            self.path(f"{name}.spki"))
        return self.read(f"{name}.spki")

    def root(self, name, **more):
        self.key(name)
        return self.certify(name, None, ROOT, **more)

    def leaf(self, name, ca, extensions=LEAF, **more):
        self.key(name)
        return self.certify(name, ca, extensions, **more)

    def certify(self, name, ca, extensions, begins=-3600, ends=86400, csr=None, subject=None):
        """name.pem and the DER of it; from the key of that name, or from a request."""
        if csr is None:
            run("openssl", "req", "-new", "-key", self.path(f"{name}.key"), "-subj", subject or f"/CN={name}/O=Test", "-out",
                self.path(f"{name}.csr"))
        else:
            self.write(f"{name}.csr", csr)
        by = ["-key", self.path(f"{name}.key")] if ca is None else [
            "-CA", self.path(f"{ca}.pem"), "-CAkey", self.path(f"{ca}.key")]
        run("openssl", "x509", "-req", "-in", self.path(f"{name}.csr"), *by, "-not_before", moment(begins), "-not_after",
            moment(ends), "-extfile", self.write(f"{name}.ext", extensions), "-out", self.path(f"{name}.pem"))
        return self.der(name)

    def der(self, name):
        return run("openssl", "x509", "-in", self.path(f"{name}.pem"), "-outform", "DER", text=False).stdout

    def sign(self, name, digest, algorithm="sha256", *options):
        more = [word for option in options for word in ("-pkeyopt", option)]
        return run("openssl", "pkeyutl", "-sign", "-inkey", self.path(f"{name}.key"), "-in", self.write("digest", digest),
                   "-pkeyopt", f"digest:{algorithm}", *more, text=False).stdout

    def query(self, data, hash="sha256", certificate=True):
        return run("openssl", "ts", "-query", "-data", self.write("stamped", data), f"-{hash}",
                   *(("-cert",) if certificate else ()), text=False).stdout

    def stamp(self, name, data, hash="sha256"):
        """By a stamper of ours: a leaf with the extensions STAMPER."""
        self.write("tsa.cnf", TSA_CONFIG.format(folder=self.dir))
        if not os.path.exists(self.path("tsa.serial")):
            self.write("tsa.serial", "01\n")
        self.write("query.tsq", self.query(data, hash))
        return run("openssl", "ts", "-reply", "-queryfile", self.path("query.tsq"), "-config", self.path("tsa.cnf"),
                   "-section", "tsa", "-inkey", self.path(f"{name}.key"), "-signer", self.path(f"{name}.pem"),
                   text=False).stdout

    def takes(self, public_key_der, digest, signature, algorithm="sha256", *options):
        """openssl's own verdict over a digest."""
        more = [word for option in options for word in ("-pkeyopt", option)]
        done = run("openssl", "pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-inkey",
                   self.write("judge.spki", public_key_der), "-in", self.write("digest", digest), "-sigfile",
                   self.write("signature", signature), "-pkeyopt", f"digest:{algorithm}", *more, check=False)
        return done.returncode == 0


def b64s(*ders):
    return [b64(der) for der in ders]


def unb64(text):
    return base64.b64decode(text)
