"""Throw-away machines for the tests of what scripts/image ships beside the disk: a Debian 13 root that packages are
installed into and that systemd then runs as its first process, and a container's tree that is run without an engine.
Both have their own mounts, processes and network; runs inside scripts/enter --image, and what is left ends with it.

    with scratch.Debian() as machine:
        machine.install(debs)              # dpkg, with the dependencies judged by what the root has
        machine.boot()                     # systemd
        machine.run("systemctl", "start", "svc-appliance")

    with scratch.Container(tree, ["/usr/bin/svc-appliance", "run"], {"SVC_...": "..."}) as box:
        box.get("http://127.0.0.1:8444/readyz")
"""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

LIMIT = 180  # of every wait; nothing here counts on any speed
CLEAN = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/postgresql/17/bin", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "HOME": "/root"}
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")

# Own mounts, processes, network; $M is the tree. The last word of each is what becomes the first process.
COMMON = """set -eu
python3 -c 'import fcntl, socket, struct  # SIOCSIFFLAGS: lo up and running
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh14x", b"lo", 0x41))'
mount --rbind "$M" "$M"
mount -t proc proc "$M/proc"
mount -t tmpfs -o mode=755 tmpfs "$M/run"
mount -t tmpfs -o mode=1777 tmpfs "$M/tmp"
mount -t tmpfs -o mode=755 tmpfs "$M/dev"
for name in %s; do : >"$M/dev/$name"; mount --bind "/dev/$name" "$M/dev/$name"; done
mkdir "$M/dev/shm" "$M/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$M/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts "$M/dev/pts"
ln -s pts/ptmx "$M/dev/ptmx"
""" % " ".join(DEVICES)
SYSTEMD = COMMON + """mount -t sysfs -o ro sysfs "$M/sys"
mount -t cgroup2 cgroup2 "$M/sys/fs/cgroup"
exec chroot "$M" /usr/lib/systemd/systemd --system --unit=basic.target --show-status=no
"""
CONTAINER = COMMON + """mount -t tmpfs -o mode=755 tmpfs "$M/var/lib/svc"
mount -o remount,bind,ro "$M"
exec setpriv --no-new-privs --bounding-set=-all,+sys_chroot,$CAPABILITIES chroot "$M" "$@"
"""
# Services of Debian's packages that a site would not run either, or that make no sense without hardware.
OFF = ["systemd-networkd.service", "systemd-resolved.service", "systemd-udevd.service", "systemd-journal-flush.service",
       "getty.target", "console-getty.service", "dev-hugepages.mount"]
FOR_DPKG = {"dev": ["--rbind", "/dev"], "proc": ["-t", "proc", "proc"], "run": ["-t", "tmpfs", "tmpfs"],
            "tmp": ["-t", "tmpfs", "tmpfs"]}


def until(what, wanted, alive):
    """Polls until `wanted()` is true; what it returned."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        got = wanted()
        if got:
            return got
        if not alive():
            raise AssertionError(f"ended while waiting for {what}")
        time.sleep(0.1)
    raise AssertionError(f"{what}: not within {LIMIT} s")


class Machine:
    """A first process with everything of its own. `tree` is seen as its root."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="scratch-"))
        self.process, self.init = None, None

    def start(self, script, arguments=(), environment=None, before=""):
        words = ["unshare", "--cgroup", "--pid", "--mount", "--uts", "--ipc", "--net", "--fork", "--kill-child",
                 "bash", "-c", script, "bash", *arguments]
        self.log = open(self.folder / "log", "wb")
        self.process = subprocess.Popen(["bash", "-c", before + 'exec "$@"', "bash", *words], stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=self.log, env={**CLEAN, "M": str(self.tree), **(environment or {})})
        children = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        self.init = until("the first process", lambda: pathlib.Path(children).read_text().split(), self.alive)[0]

    def alive(self):
        return self.process.poll() is None

    def said(self):
        return (self.folder / "log").read_text(errors="replace")

    def inside(self, *words, chroot=True):
        enter = ["nsenter", "-t", self.init, "-m", "-p", "-n", "-i", "-u"]
        return enter + (["-r", "-w"] if chroot else []) + ["--", *words]

    def run(self, *words, check=True, text=True, **more):
        """A program inside, with its own root."""
        more.setdefault("env", CLEAN)
        done = subprocess.run(self.inside(*words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=text, timeout=LIMIT, **more)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(words)}: exit {done.returncode}: {done.stdout}\n{self.trouble()[-4000:]}")
        return done

    def get(self, url):
        """What a GET answers, or "" when it fails; curl of the outer root, in this network."""
        done = subprocess.run(["nsenter", "-t", self.init, "-n", "--", "curl", "-sfk", "-m", "10", url], stdout=subprocess.PIPE, check=False)
        return done.stdout.decode() if done.returncode == 0 else ""

    def wait_ready(self):
        try:
            return until("/readyz", lambda: self.get("http://127.0.0.1:8444/readyz"), self.alive)
        except AssertionError as failed:
            raise AssertionError(f"{failed}; the end of its log:\n{self.trouble()[-4000:]}") from failed

    def trouble(self):
        return self.said()

    def stop(self, number=signal.SIGTERM):
        """Sends it to the first process; its exit code."""
        os.kill(int(self.init), number)
        return self.process.wait(LIMIT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process is not None and self.alive():
            os.kill(int(self.init), signal.SIGKILL)
            self.process.wait(LIMIT)
        if self.process is not None:
            self.log.close()


class Container(Machine):
    """`argv` in `tree`, which it sees read-only but for /run, /tmp, /dev and its volume /var/lib/svc; root in it has these
    capabilities (and sys_chroot, to come in)."""

    def __init__(self, tree, argv, environment, capabilities):
        super().__init__()
        self.tree = tree
        self.start(CONTAINER, argv, environment | {"CAPABILITIES": ",".join(f"+{name}" for name in capabilities)})

    def __exit__(self, *_):
        super().__exit__()
        shutil.rmtree(self.folder, ignore_errors=True)


class Debian(Machine):
    """The root of scripts/enter --image with a layer of its own above it: Debian 13 with systemd and what svc needs."""

    def __init__(self):
        super().__init__()
        self.tree = self.folder / "root"
        self.group = pathlib.Path("/tmp/scratch-cgroup")
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", self.folder], check=True)
        for name in ("root", "upper", "work"):
            (self.folder / name).mkdir()
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o",
                        f"lowerdir=/,upperdir={self.folder}/upper,workdir={self.folder}/work", self.tree], check=True)
        # What dpkg's scripts want; systemd gets its own later.
        for name, words in FOR_DPKG.items():
            subprocess.run(["mount", *words, self.tree / name], check=True)
        (self.tree / "etc/machine-id").write_text("")
        subprocess.run(["systemctl", f"--root={self.tree}", "--quiet", "mask", *OFF], check=True, stderr=subprocess.DEVNULL)

    def dpkg(self, *words, check=True):
        done = subprocess.run(["dpkg", f"--root={self.tree}", f"--log={self.folder}/dpkg.log", *map(str, words)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False, env=CLEAN | {"DEBIAN_FRONTEND": "noninteractive"})
        if check and done.returncode != 0:
            raise AssertionError(f"dpkg {words}: {done.stdout}")
        return done.stdout

    def install(self, debs):
        return self.dpkg("--install", *sorted(debs))

    def boot(self):
        """systemd as the first process, in a control group of its own."""
        if not os.path.ismount(self.group):
            self.group.mkdir(exist_ok=True)
            subprocess.run(["mount", "-t", "cgroup2", "cgroup2", self.group], check=True)
        self.own_group = self.group / f"svc-scratch-{os.getpid()}-{self.folder.name[-8:]}"
        self.own_group.mkdir()
        for name in FOR_DPKG:
            subprocess.run(["umount", "--recursive", self.tree / name], check=True)
        self.start(SYSTEMD, environment={"container": "scratch"}, before=f"echo $$ >{self.own_group}/cgroup.procs; ")
        until("systemd", lambda: self.run("systemctl", "is-system-running", check=False).stdout.strip() in ("running", "degraded"),
              self.alive)

    def trouble(self):
        return self.said() + self.run("journalctl", "--no-pager", "-o", "cat", "-n", "60", check=False).stdout

    def __exit__(self, *_):
        super().__exit__()
        if hasattr(self, "own_group"):
            for folder in sorted(self.own_group.rglob("*"), reverse=True):
                if folder.is_dir():
                    folder.rmdir()
            self.own_group.rmdir()
        subprocess.run(["umount", "--recursive", "--lazy", self.folder], check=False)
