"""What the end-to-end tests of code signing share: requests of every kind, and what a signing leaves behind."""
import base64
import glob
import http.client
import os
import secrets
import shutil

from appliance import SRC, all_records, b64, until

BASE = "/api/v1/code-signing"
PATHS = {"key": ("/preview", "/sign"), "batch": ("/batch/preview", "/batch"), "keyless": ("/keyless/preview", "/keyless")}


def key_body(key_id, digest, **more):
    return {"key_id": key_id, "artifact_type": "file", "digest": b64(digest), **more}


def batch_body(key_id, digests, **more):
    return {"key_id": key_id, "artifact_type": "file", "digests": [b64(d) for d in digests], **more}


def keyless_body(proof, digest, method="github-actions", **more):
    return {"artifact_type": "file", "digest": b64(digest), "identity_method": method,
            "identity_payload": b64(proof.encode()), **more}


def preview(session, kind, body):
    return session.api("POST", BASE + PATHS[kind][0], body)


def previewed(session, kind, body):
    """The body of the execution."""
    answer = preview(session, kind, body)
    assert answer.status == 200, answer
    return {**body, "preview_fingerprint": answer.json["request_fingerprint"]}


def execute(session, kind, body, key=None):
    return session.api("POST", BASE + PATHS[kind][1], body, key=key or secrets.token_hex(16))


def sign(session, kind, body, key=None):
    return execute(session, kind, previewed(session, kind, body), key)


def try_once(session, kind, body, key):
    """The answer, or None when there was none: the server died, or is not back yet."""
    try:
        return execute(session, kind, body, key)
    except (OSError, http.client.HTTPException):
        return None


def repeat_until_answered(session, kind, body, key, limit=180):
    """The same request with the same key until it is answered for good; only "come again" is repeated."""
    def settled():
        answer = try_once(session, kind, body, key)
        if answer is None or answer.status in (429, 502, 503, 504):
            return None
        if answer.status == 409 and answer.json["code"] == "idempotency_in_progress":
            return None
        return answer

    return until("the request is answered", settled, limit)


def operations_of(answer):
    """The operation ids of an executed request, one for each signature."""
    return [s["operation_id"] for s in answer.json.get("signatures", [])] or [answer.json["operation_id"]]


def signatures_of(answer):
    return [base64.b64decode(s["signature"]) for s in answer.json.get("signatures", [answer.json])]


def records_of(a, operation_id, *types):
    """Audit records that speak of the operation, of these types (or of every type)."""
    return [r for r in all_records(a) if r["data"].get("operation_id") == operation_id and (not types or r["type"] in types)]


def journal_entries(a, operation_id):
    """How often the signer's journal holds the operation: its records carry the 16 bytes of the id."""
    count, wanted = 0, bytes.fromhex(operation_id.replace("-", ""))
    for path in glob.glob(f"{a.dir}/data/signer/*.journal"):
        with open(path, "rb") as f:
            count += f.read().count(wanted)
    return count


def operation(a, operation_id, token="OPERATOR"):
    answer = a.api("GET", f"{BASE}/operations/{operation_id}", token=token)
    assert answer.status == 200, answer
    return answer.json


def published(a, operation_id, limit=120):
    """The operation once its entry is in the log and recorded as evidence."""
    def there():
        found = operation(a, operation_id)
        evidence = found.get("transparency") or {}
        assert evidence.get("state") != "failed", found
        return found if evidence.get("state") == "published" else None

    return until("the signature is published", there, limit)


def write_logs(a, *logs, name="logs.yaml"):
    """The file of transparency logs for these Rekor instances; the setting for the appliance that uses it."""
    path = f"{a.dir}/{name}"
    with open(path, "w") as f:
        f.write("logs:\n")
        for number, log in enumerate(logs):
            f.write(f"  - name: rekor-{number}\n    kind: rekor-v1\n    url: {log.url}\n    keys:\n"
                    f"      - file: {log.public_key}\n        valid_from: 2020-01-01T00:00:00Z\n")
    a.settings["code_signing.transparency.logs_file"] = path
    return path


def write_attestors(a, *entries):
    """The file of identity methods, and the settings for the appliance that uses it."""
    path = f"{a.dir}/attestors.yaml"
    with open(path, "w") as f:
        f.write("attestors:\n")
        for entry in entries:
            lead = "  - "
            for key, value in entry.items():
                f.write(f"{lead}{key}: {value}\n")
                lead = "    "
    a.settings["code_signing.keyless.enabled"] = True
    a.settings["code_signing.keyless.attestors_file"] = path
    return path


def write_policy(a, rules):
    """A policy folder with these rules (YAML) and nothing else for code signing, and the settings that use it."""
    folder = f"{a.dir}/policies"
    shutil.copytree(f"{SRC}/policies", folder)
    shutil.rmtree(f"{folder}/codesign")
    os.mkdir(f"{folder}/codesign")
    with open(f"{folder}/codesign/10-test.yaml", "w") as f:
        f.write(rules)
    a.settings["policy_dir"] = folder
    a.settings["ca.policy.enabled"] = True
    return folder
