#!/usr/bin/env python3
"""docs/hardening.md, from a running appliance: scripts/enter python3 scripts/lib/hardening_page.py writes it anew.
tests/e2e/test_hardening.py renders it again and compares."""
import json
import os
import re
import sys

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
PAGE = os.path.join(TOP, "docs/hardening.md")
# What it takes to start the others; a machine may have fewer to give.
KEPT = ["cap_chown", "cap_dac_override", "cap_fowner", "cap_ipc_lock", "cap_kill", "cap_net_bind_service", "cap_setgid",
        "cap_setpcap", "cap_setuid", "cap_sys_admin", "cap_sys_resource"]
PARTS = ["svc-appliance", "postgres", "nats-server", "svc-signer", "svc-api"]

INTRO = """# What each process may do

Printed from a running appliance of the embedded profile by `scripts/lib/hardening_page.py`; `tests/e2e/test_hardening.py` compares this page with what runs, so it does not describe a wish. `svc-appliance hardening [--json]` prints the same of yours: each process with user, groups, the five sets of capabilities, filters, namespaces, what it can write, limits and listening sockets, and every file that lends rights (set-user-ID, set-group-ID, capabilities) where the appliance lives. The image has more processes, svc-machine (PID 1), its console and chronyd, which are not on this page.

"""

LAYERS = """
## How it is put on
All of it stands before the program's first instruction, between fork and exec (`appliance/stores/confine.h`), and a child whose confinement fails is not started.

| part | what it takes away | where a machine does not allow it |
|---|---|---|
| rights | the user is the part's own, without further groups; every set of capabilities is empty, the bounding set too; securebits are locked; no new privileges | user, empty capabilities and no new privileges need nothing; the bounding set and securebits need CAP_SETPCAP |
| calls | the calls below are refused (EPERM), with new namespaces by `clone`, sockets other than unix, IPv4, IPv6 and netlink, keystrokes into a terminal, and files that lend rights by `chmod` | always there |
| code | no memory is writable and code at once, and none becomes code; `svc-api`, once it serves, executes no program and makes no process | always there |
| view | a mount namespace in which all is read-only but the folders in the table, without set-user-ID; what it writes holds no programs and no devices; the data folders of other parts are empty; `/proc` shows its own processes | needs CAP_SYS_ADMIN |
| files | Landlock: the same folders by the kernel's other way; PostgreSQL and nats-server read system folders and their own and execute themselves alone; TCP ports other than their own cannot be listened at; no signals and no abstract sockets to processes outside | needs Landlock; ports from its version 4 on, signals from 6 on |
| network | PostgreSQL and, with an embedded token, `svc-signer` have no network at all | needs CAP_SYS_ADMIN |
| memory | no core dump, also not into a program; `svc-api` and `svc-signer` cannot be dumped or traced; when memory ends `svc-api` goes first, which loses nothing by it | always there |

What is missing is said once at the start (`hardening_reduced` in the log, `established` in `svc-appliance hardening`). With `hardening.required: true` the start is refused instead.

`svc-signer` adds an allow-list of calls and Landlock rules of its own, narrower than these, when its token is open (docs/security-model.md). With another maker's PKCS#11 module it has those, the rights and the calls, but not view, files and network: nobody but its maker knows what it needs.

`svc-appliance` stays root, because it starts the others as their users, makes their folders and namespaces, and stops them. Of its capabilities it keeps %s, can get no others back, and the calls below but for the mounts are refused to it, too. It listens at nothing but the signer's socket, which it made and hands over.

## Refused calls
"""


def own_folder(path, settings):
    """A path of the running one as this page names it."""
    for key in ("data_dir", "run_dir"):
        path = re.sub(f"^{re.escape(settings[key])}(?=/|$)", key, path)
    return path


def listener(text, settings):
    kind, _, address = text.partition(" ")
    port = address.rsplit(":", 1)[-1]
    for key in ("http.listen", "http.plain_listen", "http.probe_listen"):
        if kind == "tcp" and settings[key].rsplit(":", 1)[-1] == port:
            return f"`{key}`"
    if kind == "tcp" and str(settings["nats.embedded_port"]) == port:
        return "`nats.embedded_port` on 127.0.0.1"
    return f"`{own_folder(address, settings)}`"


def names(values):
    return ", ".join(values) if values else "none"


def code(values):
    return ", ".join(f"`{v}`" for v in values) if values else "nothing"


def row(process, settings, usual):
    caps = process["capabilities"]
    kept = names(caps["effective"])
    same = all(caps[name] == caps["effective"] for name in ("permitted", "bounding"))
    assert same and not caps["inheritable"] and not caps["ambient"], caps
    root = process["user"] == "root"
    assert not root or set(caps["effective"]) <= set(KEPT), caps
    return [
        process["name"],
        process["user"] + ("" if process["groups"] == [process["user"]] else " " + names(process["groups"])),
        "those named below" if root else kept,
        "yes" if process["no_new_privileges"] else "NO",
        process["seccomp"],
        names(sorted(set(process["namespaces"]) - usual)),
        "as root" if root else code(sorted(own_folder(p, settings) for p in process["writable_mounts"])),
        "as root" if root else code(sorted(own_folder(p, settings) for p in process["writable_folders"])),
        names(sorted(listener(t, settings) for t in process["listens"])),
    ]


def render(report, settings):
    processes = [p for p in report["processes"] if p["name"] in PARTS]
    usual = set(next(p for p in processes if p["name"] == "svc-appliance")["namespaces"])
    head = ["process", "user", "capabilities, each set", "no new privileges", "system calls", "namespaces of its own",
            "writable mounts", "folders it can write", "listens at"]
    rows = {tuple(row(p, settings, usual)): None for p in processes}
    out = INTRO + "| " + " | ".join(head) + " |\n" + "|" + "---|" * len(head) + "\n"
    for cells in sorted(rows, key=lambda cells: (PARTS.index(cells[0]), cells)):
        out += "| " + " | ".join(cells) + " |\n"
    out += LAYERS % ", ".join(KEPT) + "| who wants them | calls |\n|---|---|\n"
    for group in report["refused_calls"]:
        out += f"| whoever {group['who']} | {', '.join(group['calls'])} |\n"
    return out


def main():
    sys.path.insert(0, os.path.join(TOP, "tests/e2e"))
    from appliance import Appliance
    a = Appliance("page").start()
    try:
        page = render(json.loads(a.appliance("hardening", "--json").stdout), a.settings)
    finally:
        a.clean()
    with open(PAGE, "w") as f:
        f.write(page)


if __name__ == "__main__":
    main()
