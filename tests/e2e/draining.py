"""The steps of a drain, as a log tells them."""
import json


def records_of(path, program="svc-api"):
    found = []
    with open(path, errors="replace") as f:
        for line in f:
            if line.startswith("{"):
                record = json.loads(line)
                if record.get("program") == program:
                    found.append(record)
    return found


def drains(path):
    """The steps of each drain in a log, in order."""
    out = []
    for r in records_of(path):
        if r["event"] == "draining":
            out.append([])
        if out and r["event"] in ("drain_phase", "event_log_closed", "datastore_closed", "stopped", "drain_forced",
                                  "drain_cut", "drain_overran"):
            out[-1].append(r["phase"] if r["event"] == "drain_phase" else r["event"])
    return out


ORDER = ["leave", "accept", "dispatcher", "requests", "workers", "sweep", "event_log_closed", "datastore_closed",
         "stores", "stopped"]
