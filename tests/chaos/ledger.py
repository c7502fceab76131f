"""The journal of svc_load, read while it grows: what was sent, what was answered, what nobody knows."""
import json


class Operation:
    """One mutation, signing or time stamp, as its journal lines tell it."""

    def __init__(self, sent, run):
        self.run, self.row, self.tenant, self.role = run, sent["row"], sent["tenant"], sent["role"]
        self.method, self.path, self.key, self.trace = sent["method"], sent["path"], sent["key"], sent["trace"]
        self.body, self.sent_at = sent["body"], sent["at"]
        self.tries, self.outcome, self.status, self.code, self.answer, self.sha256 = 1, None, None, None, None, None
        self.ended_at = self.why = None

    @property
    def settled(self):
        return self.outcome in ("done", "refused")

    def __repr__(self):
        return f"<{self.row} {self.method} {self.path} of {self.tenant}, key {self.key}, trace {self.trace}: {self.outcome} " \
               f"{self.status} {self.code} after {self.tries}>"


class Ledger:
    """All runs of the load at one world. `acknowledged` counts answers that said done, `acknowledged_now` those of the
    present run."""

    def __init__(self):
        self.operations, self.acknowledged, self.acknowledged_now, self.again = [], 0, 0, 0
        self.runs = 0
        self.open, self.path, self.offset, self.rest = {}, None, 0, b""

    def begin(self, path):
        """A new run of the load writes there from now on."""
        self.read()
        self.open, self.path, self.offset, self.rest, self.runs = {}, path, 0, b"", self.runs + 1
        self.acknowledged_now = 0

    def read(self):
        """Takes in what was written since."""
        if self.path is None:
            return self
        try:
            with open(self.path, "rb") as f:
                f.seek(self.offset)
                data = f.read()
        except FileNotFoundError:
            return self
        self.offset += len(data)
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            self.take(json.loads(line))
        return self

    def take(self, line):
        if line["say"] == "send":
            operation = Operation(line, self.runs)
            self.open[line["op"]] = operation
            self.operations.append(operation)
            return
        operation = self.open[line["op"]]
        if line["say"] == "again":
            operation.tries, operation.why, self.again = line["try"] + 1, line["why"], self.again + 1
            return
        del self.open[line["op"]]
        operation.ended_at = line["at"]
        operation.outcome, operation.status, operation.code = line["outcome"], line["status"], line["code"]
        operation.answer, operation.sha256 = line.get("answer"), line["sha256"]
        self.acknowledged += operation.outcome == "done"
        self.acknowledged_now += operation.outcome == "done"
