"""Dead letters in an operator's hands: a transparency log that was down for too long, a signing that failed, and a row
that was lost."""
import json
import os
import secrets
import signal
import socket
import threading
import unittest

import signing
from appliance import Appliance, digest_of, make_key, until
from peers import Rekor

class Door:
    """A way to a log that can be shut: then connections are refused at once."""

    def __init__(self, log):
        self.log, self.public_key, self.server = log, log.public_key, None
        self.open = []
        self.go_on()
        self.port = self.server.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def go_on(self):
        self.server = socket.create_server(("127.0.0.1", self.port if self.server else 0))
        threading.Thread(target=self.serve, args=(self.server,), daemon=True).start()

    def pause(self):
        self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()
        for connection in self.open:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it has ended by itself
        self.open.clear()

    def serve(self, server):
        while True:
            try:
                ours, _ = server.accept()
            except OSError:
                return
            theirs = socket.create_connection(("127.0.0.1", int(self.log.url.rsplit(":", 1)[1])))
            self.open += [ours, theirs]
            for one, other in ((ours, theirs), (theirs, ours)):
                threading.Thread(target=self.carry, args=(one, other), daemon=True).start()

    @staticmethod
    def carry(one, other):
        try:
            while data := one.recv(65536):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass


SOON = "lease_until_us = 0, worker_id = '', due_us = 0, state = 'pending'"


class Outbox(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        rekor = Rekor().start()
        cls.addClassCleanup(rekor.stop)
        cls.log = Door(rekor)
        cls.a = Appliance("outbox", signer__operation_timeout="1s", code_signing__wait="3s")
        cls.addClassCleanup(cls.a.clean)
        signing.write_logs(cls.a, cls.log)
        cls.a.start()
        cls.key = make_key(cls.a)

    def setUp(self):
        self.session = self.a.session("OPERATOR")
        self.addCleanup(self.session.close)

    def sign(self):
        answer = signing.sign(self.session, "key", signing.key_body(self.key, digest_of(secrets.token_bytes(20))))
        self.assertEqual(answer.status, 200, answer)
        return answer.json["operation_id"]

    def outbox(self, *args, token="OPERATOR"):
        done = self.a.cli("operations", "outbox", *args, "--json", token=token, check=False)
        text = done.stdout or done.stderr
        return done.returncode, json.loads(text[text.index("{"):]) if "{" in text else text

    def row_of(self, key, state):
        def found():
            code, page = self.outbox("list", "--state", state)
            self.assertEqual(code, 0, page)
            return next((item for item in page["items"] if item["key"] == key and
                         (state == "pending" or item["last_code"])), None)  # noted a moment after the end
        return until(f"{key} is {state}", found, 60)

    def at_its_last_attempt(self, key, attempts):
        """A week of outage in one statement: the next attempt is the last one."""
        self.a.sql(f"UPDATE svc.outbox SET attempts = {attempts - 1}, {SOON} WHERE key = '{key}' AND state <> 'delivered'")

    def state_of(self, operation):
        return signing.operation(self.a, operation)["transparency"]["state"]

    def until_waiting(self, destination, count):
        until(f"{count} wait for somebody", lambda: f'\nsvc_outbox_requeueable_rows{{destination="{destination}"}} {count}\n'
              in self.a.probe_get("/metrics").body.decode(), 60)

    def test_a_log_that_was_down_until_the_dead_letter(self):
        self.log.pause()
        try:
            operations = [self.sign() for _ in range(3)]
            for operation in operations:
                self.at_its_last_attempt(operation, 10080)
            dead = [self.row_of(operation, "dead-lettered") for operation in operations]
            self.assertEqual(self.state_of(operations[0]), "failed")
            self.assertEqual((dead[0]["destination"], dead[0]["last_code"]), ("transparency.tlog", "transparency_log_unavailable"))
            self.assertEqual(dead[0]["attempts"], 10080)
            self.assertNotIn("payload", json.dumps(dead))
            self.until_waiting("transparency.tlog", 3)
        finally:
            self.log.go_on()
        one = dead[0]["outbox_id"]
        why = ("--reason", "the log is back")
        code, problem = self.outbox("requeue", one, *why, token="AUDITOR")
        self.assertEqual((code != 0, problem.get("code")), (True, "forbidden"), problem)
        code, row = self.outbox("requeue", one, *why)
        self.assertEqual((code, row["key"]), (0, operations[0]), row)
        signing.published(self.a, operations[0])
        code, problem = self.outbox("requeue", one, *why)
        self.assertEqual(problem.get("code"), "outbox_not_dead_lettered", problem)
        code, told = self.outbox("requeue", "--destination", "transparency.tlog", *why)
        self.assertEqual((told["requeued"], told["refused"], told["more"]), (2, 0, False), told)
        for operation in operations:
            signing.published(self.a, operation)
            kinds = [r["type"] for r in signing.records_of(self.a, operation)]
            self.assertEqual((kinds.count("transparency.failed"), kinds.count("transparency.published")), (1, 1), kinds)
        code, shown = self.outbox("show", one)
        self.assertEqual((shown["state"], shown["last_code"]), ("delivered", None), shown)
        metrics = self.a.probe_get("/metrics").body.decode()
        self.assertIn('svc_outbox_deliveries_total{destination="transparency.tlog",result="dead-lettered"} 3', metrics)
        self.assertIn('svc_outbox_delivery_duration_seconds_count{destination="transparency.tlog"}', metrics)
        self.until_waiting("transparency.tlog", 0)

    def test_b_it_may_fail_again_after_it_was_requeued(self):
        self.log.pause()
        try:
            operation = self.sign()
            self.at_its_last_attempt(operation, 10080)
            dead = self.row_of(operation, "dead-lettered")
            self.assertEqual(self.outbox("requeue", dead["outbox_id"], "--reason", "too early")[0], 0)
            self.assertEqual(self.state_of(operation), "pending")
            self.row_of(operation, "pending")
            self.at_its_last_attempt(operation, 10080)
            self.row_of(operation, "dead-lettered")
            self.assertEqual(self.state_of(operation), "failed")
        finally:
            self.log.go_on()
        self.assertEqual(self.outbox("requeue", dead["outbox_id"], "--reason", "now")[0], 0)
        signing.published(self.a, operation)
        kinds = [r["type"] for r in signing.records_of(self.a, operation)]
        self.assertEqual((kinds.count("transparency.failed"), kinds.count("transparency.published")), (2, 1), kinds)

    def test_c_a_signing_that_failed_is_not_repeated(self):
        signer = self.a.child("svc-signer")
        body = signing.previewed(self.session, "key", signing.key_body(self.key, digest_of(b"never signed")))
        os.kill(signer, signal.SIGSTOP)
        try:
            caller = threading.Thread(target=signing.execute, args=(self.a.session("OPERATOR"), "key", body, "failing"))
            caller.start()
            pending = until("the command waits", lambda: next(
                (i for i in self.outbox("list", "--destination", "codesign.command")[1]["items"]), None), 60)
            self.at_its_last_attempt(pending["key"], 12)
            dead = self.row_of(pending["key"], "dead-lettered")
            caller.join()
        finally:
            os.kill(signer, signal.SIGCONT)
        code, problem = self.outbox("requeue", dead["outbox_id"], "--reason", "please")
        self.assertEqual((code != 0, problem["code"]), (True, "outbox_effect_final"), problem)
        self.assertIn("Idempotency-Key", problem["detail"])
        self.assertEqual(signing.records_of(self.a, pending["key"], "outbox.requeued"), [])
        until("its row is counted", lambda: '\nsvc_outbox_rows{state="dead-lettered"} 1\n' in
              self.a.probe_get("/metrics").body.decode(), 60)
        self.until_waiting("codesign.command", 0)  # it stays dead, and nobody is called

    def test_d_a_row_that_was_lost_comes_back_after_a_start(self):
        self.log.pause()
        try:
            operation = self.sign()
            self.row_of(operation, "pending")
            gone = self.a.sql(f"WITH gone AS (DELETE FROM svc.outbox WHERE key = '{operation}' AND destination ="
                              " 'transparency.tlog' RETURNING id) SELECT id FROM gone")
            before = self.a.child("svc-api")
            os.kill(before, signal.SIGKILL)
            until("another svc-api", lambda: [p for p in self.a.pids("svc-api") if p != before], 60)
            until("ready again", self.a.is_ready, 60)
            again = until("the row is there again", lambda: next(
                (i for i in self.outbox("list")[1]["items"] if i["key"] == operation), None), 90)
            self.assertEqual(again["outbox_id"], gone.splitlines()[0])
        finally:
            self.log.go_on()
        signing.published(self.a, operation)
        until("nothing is left to compare", lambda: "\nsvc_outbox_reconciliation_lag_events 0\n" in
              self.a.probe_get("/metrics").body.decode(), 60)


if __name__ == "__main__":
    unittest.main()
