"""An event log that lost its tail: what /readyz says, that nothing is served and nothing appended, and repair-log."""
import subprocess
import unittest

from appliance import Appliance, all_records, until


def words_of(done):
    return done.stdout + done.stderr


class LostTail(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("faults", protocols__tsa__enabled=False).start()
        cls.addClassCleanup(cls.a.clean)

    def token(self, subject):
        made = self.a.api("POST", "/api/v1/tokens", {"subject": subject, "roles": ["auditor"], "ttl_seconds": 600},
                          token="ADMIN", key=True)
        self.assertEqual(made.status, 201, made)

    def store(self, *words):
        subprocess.run([w.replace("@", f"{self.a.dir}/data/nats") for w in words], check=True)

    def swap_in(self, name):
        self.store("rm", "-rf", "@")
        self.store("cp", "-a", f"@.{name}", "@")

    def repair(self, *words):
        return self.a.appliance("repair-log", *words, check=False)

    def untrusted(self):
        """What /readyz says while the log cannot be trusted."""
        ready = until("the fault is told", lambda: self.a.probe_get("/readyz").status == 503 and self.a.probe_get("/readyz"))
        self.assertEqual((ready.json["status"], ready.json["checks"]["projection"]), ("not_ready", "tail_lost"))
        self.assertEqual((ready.json["checks"]["db"], ready.json["checks"]["nats"]), ("ok", "ok"))
        return ready.json["projection"]

    def test_the_tail_comes_back_and_nothing_else_does(self):
        self.token("before")
        self.a.stop()
        self.store("cp", "-a", "@", "@.older")
        self.a.start()
        self.token("after")
        before = all_records(self.a)
        self.a.stop()
        self.store("cp", "-a", "@", "@.newer")
        self.swap_in("older")

        self.a.spawn()
        said = self.untrusted()
        first, last = said["first_bad_seq"], said["checkpoint"]
        self.assertEqual((first, said["lag"]), (said["log_last"] + 1, 0))
        with self.assertRaises(OSError):
            self.a.api("GET", "/api/v1/keys")
        self.assertIn(f"first bad message {first}", self.a.tail(200))
        self.a.stop()

        for words in ([], ["--from", "0"], ["--from", str(first + 1)], ["--from", str(first), "--now"]):
            done = self.repair(*words)
            self.assertEqual(done.returncode, 2, words_of(done))
        looked = self.repair("--from", str(first))
        self.assertEqual(looked.returncode, 2, words_of(looked))
        self.assertIn(f"would append again: messages {first} to {last}", words_of(looked))
        self.assertIn("nothing was changed", words_of(looked))
        self.a.spawn()
        self.assertEqual(self.untrusted()["first_bad_seq"], first)
        self.a.stop()

        done = self.repair("--from", str(first), "--yes")
        self.assertEqual(done.returncode, 0, words_of(done))
        self.assertIn(f"appended again: {last - first + 1} messages", words_of(done))
        self.assertEqual(self.repair("--from", str(first), "--yes").returncode, 2)
        self.a.start()
        records = all_records(self.a)
        self.assertEqual(records[:len(before)], before)
        repaired = [r for r in records[len(before):] if r["type"] == "audit.log.repaired"]
        self.assertEqual([(r["data"]["first_sequence"], r["data"]["last_sequence"]) for r in repaired], [(first, last)])
        self.token("later")
        self.a.stop()
        self.a.appliance("rebuild")  # the log alone tells all of it
        self.a.start()
        self.assertEqual(all_records(self.a)[:len(records)], records)


if __name__ == "__main__":
    unittest.main()
