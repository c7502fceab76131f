"""The target file of svc_load for a running appliance of tests/e2e/appliance.py: tenants with tokens and keys.

    python3: target.write(appliance, "/tmp/target", tenants=("default", "acme"), keys=2)
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from appliance import make_key  # noqa: E402

ROLES = ("operator", "auditor", "admin", "approver")


def tokens(appliance, tenant):
    """Token texts by role; the first tenant has those of the bootstrap, of others an administrator makes them."""
    if tenant == "default":
        return {role: appliance.token(role.upper()) for role in ROLES}
    made = appliance.appliance("token", "create", "--tenant", tenant, "--subject", f"{tenant}-admin", "--role", "admin",
                               "--ttl", "24h", "--json")
    found = {"admin": json.loads(made.stdout)["token"]}
    for role in ROLES:
        if role not in found:
            answer = appliance.api("POST", "/api/v1/tokens", {"subject": f"{tenant}-{role}", "roles": [role], "ttl_seconds": 86400},
                                   token=found["admin"], key=True)
            assert answer.status == 201, answer
            found[role] = answer.json["token"]
    return found


def write(appliance, path, tenants=("default",), keys=2, algorithm="ec-p256", urls=None, stamps=True):
    """Makes what is missing, writes the file, and returns tokens by tenant and role, and key ids by tenant."""
    lines = [f"url {u}" for u in urls or [f"https://127.0.0.1:{appliance.port}"]]
    lines += [f"stamp_url http://127.0.0.1:{appliance.plain}", f"ca {appliance.dir}/data/ca.pem"]
    by_tenant, key_ids = {}, {}
    for tenant in tenants:
        if tenant != "default":
            appliance.appliance("tenant", "create", tenant)
        by_tenant[tenant] = tokens(appliance, tenant)
        key_ids[tenant] = [make_key(appliance, algorithm, token=by_tenant[tenant]["operator"]) for _ in range(keys)]
        lines.append(f"tenant {tenant} 1")
        lines += [f"token {tenant} {role} {text}" for role, text in by_tenant[tenant].items()]
        lines += [f"key {tenant} {key}" for key in key_ids[tenant]]
        if stamps and tenant == "default":
            lines.append(f"stamps {tenant} /tsa")
    with open(path, "w", opener=lambda p, flags: os.open(p, flags, 0o600)) as f:
        f.write("\n".join(lines) + "\n")
    return by_tenant, key_ids
