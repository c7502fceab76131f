"""What is broken, and how: processes, disks, the clock, the way to the stores, and the power."""
import contextlib
import ctypes
import glob
import os
import pwd
import signal
import socket
import struct
import subprocess
import threading

from appliance import run, until

LIBC = ctypes.CDLL(None, use_errno=True)
MS_REMOUNT = 32


def user(name):
    return pwd.getpwnam(name)


def chown(path, name):
    os.chown(path, user(name).pw_uid, user(name).pw_gid)


# ---- disks ----

def mount(path, options, flags=0):
    if LIBC.mount(b"none", path.encode(), b"tmpfs", flags, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), f"mount {path} {options}")


def mount_small(path, owner, size, mode):
    mount(path, f"size={size},mode={mode},uid={user(owner).pw_uid},gid={user(owner).pw_gid}")


def unmount(path):
    LIBC.umount2(path.encode(), 2)


@contextlib.contextmanager
def full(path, size):
    """No room at all, and then room again: the file system shrinks to what is on it, and grows."""
    for spare in (4096, 1 << 16, 1 << 20, 1 << 22):  # it may grow while we look
        about = os.statvfs(path)
        used = (about.f_blocks - about.f_bfree) * about.f_frsize
        try:
            mount(path, f"size={used + spare}", MS_REMOUNT)
            break
        except OSError:
            continue
    else:
        raise AssertionError(f"{path} cannot be made full")
    try:
        yield
    finally:
        mount(path, f"size={size}", MS_REMOUNT)


@contextlib.contextmanager
def injected(pids, what, *, calls="fsync,fdatasync,sync_file_range"):
    """strace between these processes and the disk: what=delay_enter=MICROSECONDS or error=EIO:when=1 and the like."""
    attach = [word for pid in pids for word in ("-p", str(pid))]
    process = subprocess.Popen(["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={calls}", "-e", f"inject={calls}:{what}", *attach],
                               stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def attached():
        if process.poll() is not None:
            raise AssertionError(f"strace: {process.stderr.read()}")
        return all(traced(pid, process.pid) for pid in pids)

    try:
        until("strace is attached", attached)
        yield
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stderr.close()


def traced(pid, by):
    try:
        with open(f"/proc/{pid}/status") as f:
            return f"TracerPid:\t{by}\n" in f.read()
    except OSError:
        return True  # gone meanwhile


# ---- processes ----

def kill(pid, number=signal.SIGKILL):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


@contextlib.contextmanager
def stopped(pids):
    for pid in pids:
        kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            kill(pid, signal.SIGCONT)


# ---- the clock of svc-api ----

class Clock:
    """svc-api is started through a script that gives it wallclock.c: its wall clock is off by what a file says. Nobody
    else's is."""

    def __init__(self, appliance):
        self.file, self.offset = f"{appliance.dir}/clock", 0
        with open(self.file, "wb") as f:
            f.write(struct.pack("=q", 0))
        os.chmod(self.file, 0o644)
        folder = f"{appliance.dir}/bin"
        os.mkdir(folder)
        for path in glob.glob(f"{appliance.bin}/svc-*"):
            if os.path.basename(path) != "svc-api":
                os.symlink(path, f"{folder}/{os.path.basename(path)}")
        with open(f"{folder}/svc-api", "w") as f:
            f.write(f"#!/bin/sh\nexport LD_PRELOAD={appliance.bin}/../lib/libwallclock.so WALLCLOCK_FILE={self.file}\n"
                    f"exec {appliance.bin}/svc-api \"$@\"\n")
        os.chmod(f"{folder}/svc-api", 0o755)
        appliance.settings["bin_dir"] = folder

    def set(self, seconds):
        """In one write of eight bytes, into the very file that is mapped."""
        self.offset = seconds
        with open(self.file, "r+b", buffering=0) as f:
            f.write(struct.pack("=q", seconds))


# ---- the way to a store ----

def tcp_listener():
    listener = socket.create_server(("127.0.0.1", 0))
    return listener


def unix_listener(path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    os.chmod(path, 0o777)
    listener.listen(64)
    return listener


class Proxy:
    """Passes bytes on, until it is told to cut, refuse, stall or delay."""

    def __init__(self, listener, to):
        self.listener, self.to = listener, to
        self.port = listener.getsockname()[1] if listener.family == socket.AF_INET else None
        self.refusing, self.delay, self.gate, self.going = False, 0.0, threading.Event(), True
        self.gate.set()
        self.pairs, self.lock = set(), threading.Lock()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while self.going:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            if self.refusing:
                near.close()
                continue
            family = socket.AF_UNIX if isinstance(self.to, str) else socket.AF_INET
            far = socket.socket(family)
            try:
                far.connect(self.to)
            except OSError:
                near.close()
                far.close()
                continue
            if family == socket.AF_INET:
                far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.pairs.add((near, far))
            for a, b in ((near, far), (far, near)):
                threading.Thread(target=self.pump, args=(a, b, (near, far)), daemon=True).start()

    def pump(self, a, b, pair):
        try:
            while True:
                data = a.recv(65536)
                if not data:
                    break
                self.gate.wait()
                if self.delay:
                    threading.Event().wait(self.delay)
                b.sendall(data)
        except OSError:
            pass
        self.drop(pair)

    def drop(self, pair):
        with self.lock:
            mine = pair in self.pairs
            self.pairs.discard(pair)
        if mine:
            for end in pair:
                with contextlib.suppress(OSError):
                    if end.family == socket.AF_INET:
                        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # RST, not FIN
                    end.shutdown(socket.SHUT_RDWR)
            for end in pair:
                end.close()

    def cut(self):
        """Every connection is reset in the middle of what it does."""
        for pair in list(self.pairs):
            self.drop(pair)

    @contextlib.contextmanager
    def refused(self):
        self.refusing = True
        self.cut()
        try:
            yield
        finally:
            self.refusing = False

    @contextlib.contextmanager
    def stalled(self):
        self.gate.clear()
        try:
            yield
        finally:
            self.gate.set()

    @contextlib.contextmanager
    def delayed(self, seconds):
        self.delay = seconds
        try:
            yield
        finally:
            self.delay = 0.0

    def end(self):
        self.going = False
        self.gate.set()
        self.listener.close()
        self.cut()


# ---- the database of a stopped appliance ----

class Cluster:
    def __init__(self, data, folder):
        self.data, self.sockets = data, f"{folder}/dump"

    def as_pg(self, *words, check=True):
        return run("setpriv", "--reuid=svc-pg", "--regid=svc-pg", "--clear-groups", *words, check=check, cwd="/")

    def __enter__(self):
        os.makedirs(self.sockets, exist_ok=True)
        chown(self.sockets, "svc-pg")
        self.as_pg("pg_ctl", "-D", self.data, "-w", "-t", "120", "-s", "-l", f"{self.sockets}/log", "-o",
                   f"-c unix_socket_directories={self.sockets} -c autovacuum=off", "start")
        return self

    def sql(self, statement):
        return self.as_pg("psql", "-XAt", "-h", self.sockets, "-U", "postgres", "-d", "svc", "-v", "ON_ERROR_STOP=1",
                          "-c", statement).stdout.strip()

    def __exit__(self, *_):
        self.as_pg("pg_ctl", "-D", self.data, "-m", "fast", "-w", "-t", "120", "-s", "stop", check=False)
