"""Ends a process of the appliance at a named place, as kill -9 would (appliance/base/failpoint.h; preset debug only)."""
import mmap
import os
import subprocess

from appliance import SRC, until

# The programs with failpoints; nothing that is shipped has them.
DEBUG_BIN = os.environ.get("SVC_TEST_DEBUG_BIN", os.path.join(SRC, "build/debug/bin"))
SIZE = 65
# For whatever of them is started from here: looking for leaks wants ptrace, which no part of the appliance may.
os.environ["ASAN_OPTIONS"] = "abort_on_error=1:detect_leaks=0"


class Failpoints:
    def __init__(self, appliance):
        self.path = f"{appliance.dir}/failpoints"
        with open(self.path, "wb") as f:
            f.write(bytes(SIZE))
        os.chmod(self.path, 0o666)
        with open(self.path, "r+b") as f:
            self.area = mmap.mmap(f.fileno(), SIZE)
        appliance.environment["SVC_FAILPOINT_FILE"] = self.path

    def arm(self, name):
        """Whoever comes to this place next dies there, once."""
        text = name.encode()
        assert len(text) < SIZE - 1
        self.area[1:SIZE] = text.ljust(SIZE - 1, b"\0")
        self.area[0:1] = b"x"

    def struck(self):
        return self.area[0:1] == b"-"

    def wait(self, limit=120):
        until(f"somebody dies at {self.area[1:SIZE].rstrip(bytes(1)).decode()}", self.struck, limit)

    def disarm(self):
        self.area[0:1] = b"\0"


def names_in(program):
    """The failpoints that a program has, so that no test waits for a place that is not there."""
    found = subprocess.run(["strings", "-a", f"{DEBUG_BIN}/{program}"], capture_output=True, text=True, check=True)
    return set(found.stdout.split("\n"))
