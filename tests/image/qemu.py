"""Boots a disk of the appliance image in QEMU, with the firmware of a real machine (OVMF): the harness of every test of
the image. Runs inside scripts/enter --image. Software emulation: a boot takes 15 to 90 seconds, so nothing here counts
on any speed; a wait ends when what it waits for is there, when QEMU has ended, or at a generous limit.

    with qemu.Machine("/src/build/image/small/svc.img", forward=[8443]) as machine:
        machine.expect(r"svc-initrd: release (\\S+), slot a")
        machine.send("status\\n")
        machine.url(8443)                # https://127.0.0.1:PORT
        machine.kill()                   # the plug is pulled
        machine.start()                  # the same disks, and TPM, again

The disk that is given stays as it is: the machine writes into an overlay in its own folder, which goes with it. Options:

    secure_boot=True     Secure Boot on, with the test key of Debian's ovmf (SB_KEY, SB_CERT) enrolled
    tpm=True             a TPM 2.0 (swtpm), its state kept over start()
    disks=[path, ...]    further disks, written in place (a provisioning medium: medium())
    forward=[port, ...]  ports of the guest, each on a free port of 127.0.0.1; the guest reaches nothing else
    size="4G"            the disk is bigger than its image
    memory=MIB, cpus=N, kernel=(vmlinuz, initrd, cmdline): boots without firmware and boot loader
"""
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time

SB_KEY, SB_CERT, SB_PASSWORD = "/usr/share/ovmf/PkKek-1-snakeoil.key", "/usr/share/ovmf/PkKek-1-snakeoil.pem", "snakeoil"
CODE, CODE_SECURE = "/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_CODE_4M.secboot.fd"
VARS, VARS_SECURE = "/usr/share/OVMF/OVMF_VARS_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.snakeoil.fd"
LIMIT = float(os.environ.get("SVC_QEMU_LIMIT", "600"))  # seconds for one expectation, on the slowest machine


class MachineError(AssertionError):
    pass


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def medium(path, files, label="SVC-PROVISION", size=16 << 20, kind="vfat"):
    """A small disk with {name: bytes or text} on it, as a file system of its own (no partition table)."""
    if os.path.exists(path):
        os.unlink(path)
    with open(path, "wb") as file:
        file.truncate(size)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            os.makedirs(os.path.dirname(f"{folder}/{name}"), exist_ok=True)
            with open(f"{folder}/{name}", "wb") as file:
                file.write(text.encode() if isinstance(text, str) else text)
        if kind == "ext4":
            subprocess.run(["mke2fs", "-q", "-t", "ext4", "-L", label, "-d", folder, path], check=True)
            return path
        subprocess.run(["mkfs.vfat", "-n", label[:11], path], check=True, stdout=subprocess.DEVNULL)
        for name in sorted(os.listdir(folder)):
            subprocess.run(["mcopy", "-s", "-i", path, f"{folder}/{name}", "::"], check=True)
    return path


def medium_read(path, name):
    """A file of a vfat medium, after the machine has let go of it."""
    return subprocess.run(["mcopy", "-i", path, f"::{name}", "-"], check=True, stdout=subprocess.PIPE).stdout


class Machine:
    def __init__(self, disk, secure_boot=False, tpm=False, disks=(), forward=(), memory=2048, cpus=2, kernel=None,
                 folder=None, extra=(), size=None):
        self.disk, self.secure_boot, self.tpm, self.disks = disk, secure_boot, tpm, list(disks)
        self.memory, self.cpus, self.kernel, self.extra = memory, cpus, kernel, list(extra)
        self.ports = {port: free_port() for port in forward}
        self.size = size
        self.own_folder = folder is None
        self.folder = folder or tempfile.mkdtemp(prefix="svc-qemu-", dir=os.environ.get("SVC_QEMU_DIR", "/tmp"))
        self.process = self.swtpm = self.serial = None
        self.said = ""  # all that the serial console said since start()
        self.at = 0     # up to where expect() has read it

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
        if self.own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    # ---- life ----

    def start(self):
        """Switches it on. Disks, firmware variables and TPM are those of the start before."""
        os.makedirs(self.folder, exist_ok=True)
        if self.disk and not os.path.exists(self.overlay):
            subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", os.path.abspath(self.disk),
                            self.overlay] + ([self.size] if self.size else []), check=True)
        if not os.path.exists(f"{self.folder}/vars.fd"):
            shutil.copyfile(VARS_SECURE if self.secure_boot else VARS, f"{self.folder}/vars.fd")
        for name in ("serial", "qmp", "tpm.sock"):
            if os.path.exists(f"{self.folder}/{name}"):
                os.unlink(f"{self.folder}/{name}")
        self.said, self.at = "", 0
        if self.tpm:
            self.start_tpm()
        self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=open(f"{self.folder}/qemu.log", "wb"))
        self.serial = self.connect("serial")

    @property
    def overlay(self):
        return f"{self.folder}/disk.qcow2"

    def start_tpm(self):
        os.makedirs(f"{self.folder}/tpm", exist_ok=True)
        self.swtpm = subprocess.Popen(
            ["swtpm", "socket", "--tpm2", "--tpmstate", f"dir={self.folder}/tpm", "--ctrl",
             f"type=unixio,path={self.folder}/tpm.sock", "--flags", "startup-clear", "--terminate"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(f"{self.folder}/swtpm.log", "wb"))
        self.until(lambda: os.path.exists(f"{self.folder}/tpm.sock"), "swtpm listens", 60)

    def command(self):
        machine = "q35,smm=on" if self.secure_boot else "q35"
        out = ["qemu-system-x86_64", "-M", machine, "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", str(self.cpus),
               "-m", str(self.memory), "-nodefaults", "-no-user-config", "-display", "none",
               "-chardev", f"socket,id=serial,path={self.folder}/serial,server=on,wait=off,logfile={self.folder}/serial.log",
               "-serial", "chardev:serial", "-qmp", f"unix:{self.folder}/qmp,server=on,wait=off",
               "-device", "virtio-rng-pci"]
        if self.kernel:
            vmlinuz, initrd, cmdline = self.kernel
            out += ["-kernel", vmlinuz, "-initrd", initrd, "-append", cmdline]
        else:
            if self.secure_boot:
                out += ["-global", "driver=cfi.pflash01,property=secure,value=on"]
            code = CODE_SECURE if self.secure_boot else CODE
            out += ["-drive", f"if=pflash,format=raw,unit=0,readonly=on,file={code}",
                    "-drive", f"if=pflash,format=raw,unit=1,file={self.folder}/vars.fd"]
        drives = [(self.overlay, "qcow2")] if self.disk else []
        for number, (path, kind) in enumerate(drives + [(path, "raw") for path in self.disks]):
            out += ["-drive", f"file={path},if=none,format={kind},id=d{number}",
                    "-device", f"virtio-blk-pci,drive=d{number}" + (",bootindex=1" if number == 0 else "")]
        net = "user,id=n,restrict=on" + "".join(f",hostfwd=tcp:127.0.0.1:{host}-:{guest}" for guest, host in self.ports.items())
        out += ["-netdev", net, "-device", "virtio-net-pci,netdev=n,romfile="]
        if self.tpm:
            out += ["-chardev", f"socket,id=tpm,path={self.folder}/tpm.sock", "-tpmdev", "emulator,id=tpm0,chardev=tpm",
                    "-device", "tpm-crb,tpmdev=tpm0"]
        return out + self.extra

    def kill(self):
        """The plug is pulled: no guest sees it coming."""
        self.end(signal.SIGKILL)

    def end(self, how):
        if self.process is not None:
            if self.process.poll() is None:
                self.process.send_signal(how)
            self.process.wait()
            self.process = None
        if self.serial is not None:
            self.serial.close()
            self.serial = None
        if self.swtpm is not None:
            try:
                self.swtpm.wait(20)  # --terminate: ends with QEMU's connection
            except subprocess.TimeoutExpired:
                self.swtpm.kill()
                self.swtpm.wait()
            self.swtpm = None

    stop = kill

    def power_button(self):
        self.qmp("system_powerdown")

    def wait_off(self, limit=None):
        """Until the machine has switched itself off."""
        self.until(lambda: self.process.poll() is not None, "the machine is off", limit)
        self.end(signal.SIGKILL)

    # ---- console ----

    def connect(self, name):
        path = f"{self.folder}/{name}"
        sock = socket.socket(socket.AF_UNIX)
        end = time.monotonic() + 60
        while True:
            try:
                sock.connect(path)
                return sock
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    raise MachineError("QEMU did not start: " + self.tail("qemu.log")) from None
                select.select([], [], [], 0.05)

    def read(self, seconds):
        """What the console says within so many seconds; False at its end."""
        ready, _, _ = select.select([self.serial], [], [], max(seconds, 0))
        if not ready:
            return True
        text = self.serial.recv(65536)
        self.said += text.decode(errors="replace")
        return bool(text)

    def expect(self, pattern, limit=None):
        """Waits until the console says `pattern` (a regular expression over what was not matched before); the match."""
        end = time.monotonic() + (limit or LIMIT)
        while True:
            found = re.compile(pattern).search(self.said, self.at)
            if found:
                self.at = found.end()
                return found
            left = end - time.monotonic()
            alive = self.read(min(left, 1)) if left > 0 else False
            if not alive:
                found = re.compile(pattern).search(self.said, self.at)
                if found:
                    continue
                why = "the time is over" if left <= 0 else "the machine is off"
                raise MachineError(f"{why}; the console never said {pattern!r}. Its end:\n{self.said[-4000:]}")

    def never(self, pattern):
        """The console did not say this since start()."""
        if re.search(pattern, self.said):
            raise MachineError(f"the console said {pattern!r}:\n{self.said[-4000:]}")

    def send(self, text):
        self.serial.sendall(text.encode())

    # ---- around it ----

    def url(self, port, scheme="https"):
        return f"{scheme}://127.0.0.1:{self.ports[port]}"

    def until(self, condition, what, limit=None):
        """Waits for a condition, reading the console meanwhile so that the guest never waits for us."""
        end = time.monotonic() + (limit or LIMIT)
        while not condition():
            if time.monotonic() > end:
                raise MachineError(f"{what}: not within the limit. The console's end:\n{self.said[-4000:]}")
            if self.serial is None or not self.read(0.1):
                select.select([], [], [], 0.1)

    def qmp(self, command, **arguments):
        with self.connect("qmp") as sock, sock.makefile("rwb") as stream:
            stream.readline()
            for text in ({"execute": "qmp_capabilities"}, {"execute": command, "arguments": arguments}):
                stream.write(json.dumps(text).encode() + b"\n")
                stream.flush()
                while "return" not in (answer := json.loads(stream.readline())):
                    if "error" in answer:
                        raise MachineError(f"{command}: {answer['error']}")
            return answer["return"]

    def tail(self, name, size=2000):
        path = f"{self.folder}/{name}"
        if not os.path.exists(path):
            return ""
        with open(path, "rb") as file:
            return file.read()[-size:].decode(errors="replace")
