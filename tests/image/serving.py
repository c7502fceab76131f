"""Boots the image, provisions it, and keeps it running for others: a client.env with all that the end-to-end tests want of
an appliance (tests/e2e/appliance.py, Running). Runs inside scripts/enter --image.

    serving.py OUT [--disk FILE]      OUT/target.env is there once the appliance is ready; ends when OUT/stop is there
    serving.py OUT --figures          boots it twice, writes OUT/figures.json, and ends

The second is what scripts/bench image shows: seconds from power on until /readyz says 200, and what of the guest's memory
is in use a minute later, with nobody asking it anything, as its kernel tells the balloon (MemTotal - MemAvailable)."""
import argparse
import json
import os
import ssl
import subprocess
import sys
import time
import urllib.request

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import qemu  # noqa: E402

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HTTPS, PLAIN, PROBE, HOST = 8443, 8080, 8444, "10.0.2.15"
TOKEN = r"ADMIN TOKEN of (\S+) in tenant (\S+), until \S+ It is shown once\.\s+(\S+)\s"
# Settings of svc.yaml beyond the defaults, that tests may ask for: kept in SVC_TEST_SETTINGS as well.
SETTINGS = {"protocols.tsa.policies": ["1.2.3.99.6"], "protocols.tsa.clock.trust_host": True,
            "rate_limit.requests": 1000000}
# On a busy machine the emulated kernel may miss its first ticks, which it takes for broken hardware, or take too few for
# measuring its TSC, and then its clock runs several times too fast and every deadline inside passes early.
EXTRA = "io.systemd.stub.kernel-cmdline-extra=no_timer_check clocksource=acpi_pm"
ROLES = ("operator", "approver", "ci", "auditor")


def provisioning(machine):
    return f"""hostname: image-test
tenant: default
network: {{ address: {HOST}/24, gateway: 10.0.2.2 }}
time: {{ trust_host: true }}
admin: {{ subject: admin@image-test, ttl: 24h }}
tls: {{ names: [localhost, 127.0.0.1] }}
tsa: {{ policies: [1.2.3.99.6] }}
settings:
  http:
    plain_listen: "{HOST}:{PLAIN}"
    probe_listen: "{HOST}:{PROBE}"
    base_url: "{machine.url(HTTPS)}"
  rate_limit:
    requests: 1000000
  signer:
    operation_timeout: 60s
"""


def ready(machine):
    try:
        with urllib.request.urlopen(machine.url(PROBE, "http") + "/readyz", timeout=30) as answer:
            return answer.status == 200
    except OSError:
        return False


def boot(machine):
    """Switches it on; seconds until it was ready."""
    begun = time.monotonic()
    machine.start()
    machine.until(lambda: ready(machine), "the appliance is ready")
    return time.monotonic() - begun


def post(machine, token, path, body, ca):
    request = urllib.request.Request(machine.url(HTTPS) + path, json.dumps(body).encode(), {
        "Authorization": f"Bearer {token}", "Content-Type": "application/json", "Idempotency-Key": os.urandom(16).hex()})
    with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=ca), timeout=qemu.LIMIT) as answer:
        return json.load(answer)


def take_token(machine):
    """The first admin token, as the console shows it once; the recovery key has to be written down for that."""
    machine.expect(r"type: written")
    machine.send("written\n")
    machine.at = 0
    return machine.expect(TOKEN)


def describe(machine, medium, out):
    """What the console and the medium handed over, as a client.env."""
    found = take_token(machine)
    admin, tenant = found.group(3), found.group(2)
    machine.at = 0
    machine.expect(r"written to the medium")
    ca, tsa_root = f"{out}/ca.pem", f"{out}/tsa-root.pem"
    for path in (ca, tsa_root):
        with open(path, "wb") as file:
            file.write(qemu.medium_read(medium, "out/" + os.path.basename(path)))
    env = {"SVC_BASE_URL": machine.url(HTTPS), "SVC_CA_FILE": ca, "SVC_TENANT": tenant, "SVC_TOKEN_ADMIN": admin,
           "SVC_TSA_URL": machine.url(PLAIN, "http") + "/tsa", "SVC_TSA_ROOT": tsa_root,
           "SVC_PROBE_URL": machine.url(PROBE, "http"), "SVC_TEST_SETTINGS": json.dumps(SETTINGS)}
    for role in ROLES:
        made = post(machine, admin, "/api/v1/tokens",
                    {"subject": f"{role}@image-test", "roles": [role], "ttl_seconds": 86400}, ca)
        env["SVC_TOKEN_" + role.upper()] = made["token"]
    env["SVC_TOKEN"] = env["SVC_TOKEN_OPERATOR"]
    with open(f"{out}/target.env.new", "w") as file:
        file.writelines(f"{name}='{value}'\n" for name, value in env.items())
    os.rename(f"{out}/target.env.new", f"{out}/target.env")


def memory(machine):
    """MiB that the guest has in use, when two looks a while apart agree."""
    balloon = {"path": "/machine/peripheral/balloon"}
    machine.qmp("qom-set", **balloon, property="guest-stats-polling-interval", value=2)
    seen = []

    def settled():
        stats = machine.qmp("qom-get", **balloon, property="guest-stats")
        if stats["last-update"] and (not seen or seen[-1][0] != stats["last-update"]):
            told = stats["stats"]
            seen.append((stats["last-update"], (told["stat-total-memory"] - told["stat-available-memory"]) / (1 << 20)))
        return len(seen) >= 30 and max(used for _, used in seen[-10:]) - min(used for _, used in seen[-10:]) < 4

    machine.until(settled, "the guest's memory is told and steady")
    return seen[-1][1]


def size(disk):
    """MiB of what a site gets: the disk, compressed."""
    done = subprocess.run(["sh", "-c", 'zstd -q -T0 -3 -c "$1" | wc -c', "sh", disk], check=True, stdout=subprocess.PIPE)
    return int(done.stdout) / (1 << 20)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--disk", default=os.environ.get("SVC_IMAGE_DISK", f"{TOP}/build/image/small/svc.img"))
    parser.add_argument("--figures", action="store_true")
    options = parser.parse_args()
    out = os.path.abspath(options.out)
    os.makedirs(out, exist_ok=True)
    for name in ("target.env", "stop", "figures.json"):
        if os.path.exists(f"{out}/{name}"):
            os.unlink(f"{out}/{name}")
    medium = f"{out}/provision.img"
    machine = qemu.Machine(options.disk, disks=[medium], forward=[HTTPS, PLAIN, PROBE], cpus=1,
                           extra=["-device", "virtio-balloon-pci,id=balloon", "-smbios", f"type=11,value={EXTRA}"])
    qemu.medium(medium, {"provision.yaml": provisioning(machine)})
    try:
        first = boot(machine)
        print(f"image: ready after {first:.0f} s", flush=True)
        if options.figures:
            take_token(machine)
            machine.power_button()
            machine.wait_off()
            figures = {"second_boot_s": boot(machine), "first_boot_s": first, "memory_mib": memory(machine),
                       "compressed_mib": size(options.disk)}
            with open(f"{out}/figures.json", "w") as file:
                json.dump(figures, file, indent=1)
        else:
            describe(machine, medium, out)
            machine.until(lambda: os.path.exists(f"{out}/stop") or machine.process.poll() is not None, "the tests are done",
                          86400)
            if machine.process.poll() is not None:
                raise qemu.MachineError(f"the machine went off. The console's end:\n{machine.said[-4000:]}")
    finally:
        with open(f"{out}/console.log", "w") as file:
            file.write(machine.said)
        machine.__exit__()
    return 0


if __name__ == "__main__":
    sys.exit(main())
