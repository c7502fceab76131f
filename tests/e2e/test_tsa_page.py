"""GET /tsa, for people: sound HTML, nothing from elsewhere, true, and its commands work as they stand."""
import base64
import hashlib
import html.parser
import http.client
import json
import os
import re
import unittest

from appliance import Appliance, own_appliance, run, until
from stamping import Files
from test_tsa import query

VOID = {"meta", "link", "br", "img", "input", "hr"}
INSIDE = {"head": "html", "body": "html", "main": "body", "title": "head", "style": "head", "dt": "dl", "dd": "dl"}


class Page(html.parser.HTMLParser):
    """Every element closed, in order, where it belongs; and what was met on the way."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.seen, self.blocks, self.links, self.attributes, self.ids = [], [], [], [], [], set()
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), attrs
        assert INSIDE.get(tag, "").strip() in ("", self.open[-1] if self.open else ""), (tag, self.open)
        assert tag not in ("p", "pre", "dl", "h1", "h2", "h3") or "p" not in self.open, (tag, self.open)
        self.seen.append(tag)
        self.attributes += names
        self.links += [value for name, value in attrs if name in ("href", "src", "action")]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "pre":
            self.blocks.append("")

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open)
        self.open.pop()

    def handle_data(self, data):
        if "pre" in self.open:
            self.blocks[-1] += data

    def handle_decl(self, decl):
        assert decl == "DOCTYPE html" and not self.seen


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("tsa-page", protocols__tsa__policies=["1.2.3.99.6"]).start()
        cls.addClassCleanup(cls.a.clean)
        cls.dir = f"{cls.a.dir}/work"
        os.mkdir(cls.dir)
        cls.url, cls.plain_url = f"https://127.0.0.1:{cls.a.port}/tsa", f"http://127.0.0.1:{cls.a.plain}/tsa"

    def ask(self, method="GET", path="/tsa", plain=True, body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.a.plain, timeout=20) if plain else \
            http.client.HTTPSConnection("127.0.0.1", self.a.port, timeout=20, context=self.a.tls())
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        reply = connection.getresponse()
        reply.body = reply.read()
        connection.close()
        return reply

    def page(self, **more):
        reply = self.ask(Accept="text/html,application/xhtml+xml;q=0.9", **more)
        self.assertEqual((reply.status, reply.headers["Content-Type"]), (200, "text/html; charset=utf-8"))
        return reply

    def test_nothing_but_its_own_style_is_let_through(self):
        reply = self.page()
        text = reply.body.decode()
        policy = dict(part.strip().split(" ", 1) for part in reply.headers["Content-Security-Policy"].split(";"))
        style = re.findall(r"<style>(.*?)</style>", text, re.S)
        self.assertEqual(len(style), 1)
        digest = base64.b64encode(hashlib.sha256(style[0].encode()).digest()).decode()
        self.assertEqual((policy["default-src"], policy["style-src"]), ("'none'", f"'sha256-{digest}'"))
        self.assertEqual(policy["frame-ancestors"], "'none'")
        page = Page(text)
        self.assertFalse({"script", "img", "link", "iframe", "form", "object"} & set(page.seen), page.seen)
        self.assertFalse([name for name in page.attributes if name.startswith("on") or name == "style"])
        self.assertEqual(page.links, [f"{self.url}/chain.pem"])
        self.assertNotRegex(style[0], r"url\(|@import")

    def test_html_is_sound_and_made_for_phones_and_the_dark(self):
        text = self.page().body.decode()
        page = Page(text)
        self.assertTrue(text.startswith("<!DOCTYPE html>\n<html lang=\"en\">"))
        self.assertEqual([page.seen.count(tag) for tag in ("html", "head", "title", "body", "main", "h1")], [1] * 6)
        self.assertIn('name="viewport" content="width=device-width, initial-scale=1"', text)
        self.assertIn("color-scheme:light dark", text)
        self.assertIn("prefers-color-scheme:dark", text)

    def test_headers_head_cache_and_both_listeners(self):
        one, other = self.page(), self.page(plain=False)
        self.assertEqual(one.body, other.body)  # whoever asks: it may be kept by caches
        self.assertEqual(one.headers.get_all("Cache-Control"), ["public, max-age=30"])
        self.assertEqual(one.headers["X-Content-Type-Options"], "nosniff")
        head = self.ask("HEAD")
        self.assertEqual((head.status, head.body), (200, b""))
        self.assertEqual(head.headers["Content-Length"], str(len(one.body)))
        strange = self.ask(Host="evil.example", X_Forwarded_Host="evil.example")
        self.assertNotIn(b"evil", strange.body)
        self.assertLess(len(one.body), 16384)

    def test_post_and_the_chain_are_as_ever(self):
        reply = self.ask("POST", body=query(b"x", "-sha256"), Content_Type="application/timestamp-query",
                         Accept="text/html")
        self.assertEqual(reply.headers["Content-Type"], "application/timestamp-reply")
        chain = self.ask(path="/tsa/chain.pem", Accept="text/html")
        self.assertEqual(chain.headers["Content-Type"], "application/pem-certificate-chain")
        self.assertEqual(chain.headers.get_all("Cache-Control"), ["public, max-age=300"])
        self.assertEqual(self.ask(path="/tsa/nobody").status, 404)
        self.assertIn("GET, HEAD, POST", self.ask("PUT", body=b"").headers["Allow"])

    def test_it_tells_the_clock_policies_and_fingerprints(self):
        text = self.page().body.decode()
        self.assertIn('<span class="good">Trusted.</span>', text)
        self.assertIn("<code>1.3.6.1.4.1.57264.2.1.1</code> (default)", text)
        self.assertIn("<code>1.2.3.99.6</code>", text)
        chain = self.ask(path="/tsa/chain.pem").body.decode().split("-----BEGIN")
        for pem in (chain[1], chain[-1]):
            der = run("openssl", "x509", "-outform", "DER", input=("-----BEGIN" + pem).encode(), text=False).stdout
            self.assertIn(hashlib.sha256(der).hexdigest(), text)

    @own_appliance("its ports are forwarded from others")
    def test_its_commands_work_as_they_stand(self):
        blocks = {title: text for title, text in zip(
            ("openssl", "chain", "signtool", "osslsigncode", "jarsigner", "cosign", "svc-cli"), Page(
                self.page().body.decode()).blocks, strict=True)}
        with open(f"{self.dir}/FILE", "w") as f:
            f.write("stamp me")
        env = {"PATH": f"{self.a.bin}:{os.environ['PATH']}", "CURL_CA_BUNDLE": f"{self.a.dir}/data/ca.pem",
               "SVC_CA_FILE": f"{self.a.dir}/data/ca.pem", "HOME": self.dir}
        sh = lambda text: run("bash", "-e", "-c", text, cwd=self.dir, env=env)  # noqa: E731
        sh(blocks["chain"])
        done = sh(blocks["openssl"])
        self.assertIn("Verification: OK", done.stdout + done.stderr)
        run("cp", f"{self.a.dir}/data/tsa-root.pem", f"{self.dir}/root.pem")
        self.assertIn("good time stamp", sh(blocks["svc-cli"]).stdout)
        for name in ("signtool", "osslsigncode", "jarsigner"):
            self.assertIn(f" {self.plain_url} ", blocks[name])
        self.assertIn(f"--timestamp-server-url {self.url} FILE", blocks["cosign"])


class FurtherTenants(unittest.TestCase):
    def test_each_has_its_page_and_the_closed_one_for_its_own_only(self):
        files = Files()
        self.addCleanup(files.close)
        os.chmod(files.folder.name, 0o755)
        tenants = b"tenants:\n  - tenant: acme\n    policy_oid: 1.2.3.4.10\n  - tenant: closed\n    public: false\n"
        a = Appliance("tsa-pages", protocols__tsa__tenants_file=files.put("tenants.yaml", tenants))
        self.addCleanup(a.clean)
        a.start()
        for tenant in ("acme", "closed"):
            a.appliance("tenant", "create", tenant)
        token = json.loads(a.appliance("token", "create", "--tenant", "closed", "--role", "operator", "--subject", "user:c",
                                       "--json").stdout)["token"]
        page = until("the page is there", lambda: (lambda r: r if r.status == 200 else None)(
            a.api("GET", "/tsa/acme", token=None)))
        text = page.body.decode()
        Page(text)
        self.assertIn(f"https://127.0.0.1:{a.port}/tsa/acme", text)
        self.assertIn("<code>1.2.3.4.10</code> (default)", text)
        closed = until("the closed one is there", lambda: (lambda r: r if r.status == 200 else None)(
            a.api("GET", "/tsa/closed", token=token)))
        self.assertEqual(closed.headers["Cache-Control"], "private, max-age=30")
        self.assertNotIn(f":{a.plain}/", closed.body.decode())  # it is not there in plain text
        self.assertEqual(a.api("GET", "/tsa/closed", token=None).status, 404)
        self.assertEqual(a.api("GET", "/tsa/closed").status, 404)


if __name__ == "__main__":
    unittest.main()
