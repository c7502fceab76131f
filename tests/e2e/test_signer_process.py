"""What the running svc-signer has given up, and what of svc-api is like it: read from the kernel, process by process."""
import json
import os
import re
import stat
import unittest

from appliance import Appliance, digest_of, make_key, run, sign_body

SIGNER, API = ("svc-signer", 642), ("svc-api", 643)
CAPABILITIES = ("CapInh", "CapPrm", "CapEff", "CapAmb")
SECRET_WORDS = ("PIN", "SECRET", "PASSWORD", "TOKEN=", "TOKEN_", "KEY=")


class SignerProcess(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = Appliance("process")
        # Neither may reach a child: the clean environment is of named settings only.
        cls.a.environment = {"SVC_TOKEN": "svc_default_not-a-real-token", "TOKEN_PIN": "not-a-real-pin"}
        cls.a.start()
        session = cls.a.session("OPERATOR")
        key = make_key(cls.a)
        signed = session.api("POST", "/api/v1/code-signing/sign", sign_body(session, key, digest_of(b"x")), key=True)
        assert signed.status == 200, signed
        session.close()

    @classmethod
    def tearDownClass(cls):
        cls.a.clean()

    def tasks(self, program):
        """(pid, status of each thread as a dict)"""
        pid, found = self.a.child(program), []
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/status") as f:
                found.append(dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line))
        return pid, found

    def descriptors(self, pid):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with open(f"/proc/{pid}/fdinfo/{fd}") as f:
                flags = int(re.search(r"^flags:\s*([0-7]+)", f.read(), re.M).group(1), 8)
            yield int(fd), os.readlink(f"/proc/{pid}/fd/{fd}"), flags

    def limits(self, pid, name):
        """soft and hard"""
        with open(f"/proc/{pid}/limits") as f:
            line = next(line for line in f if line.startswith(name))
        return line[len(name):].split()[:2]

    def test_every_thread_of_the_signer_is_filtered_and_without_privilege(self):
        _, tasks = self.tasks(SIGNER[0])
        self.assertGreater(len(tasks), 100)  # its connections' threads are all made before the filter
        for task in tasks:
            self.assertEqual((task["Seccomp"], task["NoNewPrivs"]), ("2", "1"), task["Name"])

    def test_both_run_as_users_of_their_own_without_capabilities_or_groups(self):
        for program, uid in (SIGNER, API):
            _, tasks = self.tasks(program)
            for task in tasks:
                self.assertEqual(task["Uid"].split(), [str(uid)] * 4)
                self.assertEqual(task["Gid"].split(), [str(uid)] * 4)
                self.assertEqual(task["Groups"].split(), [])
                self.assertEqual(task["NoNewPrivs"], "1")
                for name in CAPABILITIES:
                    self.assertEqual(int(task[name], 16), 0, (program, name))

    def test_neither_leaves_a_core_or_shows_its_memory(self):
        for program, uid in (SIGNER, API):
            pid = self.a.child(program)
            # One byte where it may be set: no core fits, and none goes to a program either.
            self.assertIn(self.limits(pid, "Max core file size"), (["0", "0"], ["1", "1"]))
            # What is not dumpable belongs to root under /proc, whatever user it runs as.
            for name in ("mem", "environ", "maps", "auxv", "io"):
                self.assertEqual(os.stat(f"/proc/{pid}/{name}").st_uid, 0, (program, name))
            for name in ("mem", "environ"):
                done = run("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "head", "-c1",
                           f"/proc/{pid}/{name}", check=False)
                self.assertIn("Permission denied", done.stderr, program)

    def test_svc_api_can_neither_trace_nor_signal_the_signer(self):
        pid = self.a.child(SIGNER[0])
        drop = ("setpriv", f"--reuid={API[1]}", f"--regid={API[1]}", "--clear-groups")
        done = run(*drop, "gdb", "-batch", "-p", pid, check=False)
        self.assertRegex(done.stdout + done.stderr, "ptrace: Operation not permitted|Could not attach")
        self.assertNotEqual(run(*drop, "kill", "-0", pid, check=False).returncode, 0)
        self.assertNotEqual(run(*drop, "strace", "-p", pid, check=False).returncode, 0)

    def test_memory_of_the_signer_is_locked(self):
        """All of it where root may grant that; the arena of the secrets in any case."""
        pid, tasks = self.tasks(SIGNER[0])
        locked, size = (int(tasks[0][name].split()[0]) for name in ("VmLck", "VmSize"))
        self.assertGreaterEqual(locked, 1024)
        with open(self.a.log_path) as f:
            listening = next(json.loads(line) for line in f if '"event":"listening"' in line and '"svc-signer"' in line)
        self.assertEqual(listening["locked_memory"], 1)
        granted = self.limits(pid, "Max locked memory")[0] == "unlimited"
        self.assertEqual(listening["all_memory_locked"], int(granted))
        if granted:
            self.assertGreater(locked, size // 2)  # all but a few of the kernel's own mappings
        self.assertEqual(tasks[0].get("VmSwap", "0 kB").split()[0], "0")

    def test_the_signer_listens_where_it_shall_and_is_connected_to_nobody_else(self):
        pid = self.a.child(SIGNER[0])
        inodes = {int(m.group(1)) for _, target, _ in self.descriptors(pid)
                  if (m := re.fullmatch(r"socket:\[(\d+)\]", target))}
        own = {}  # inode: (path, listens)
        with open("/proc/net/unix") as f:
            for line in f.readlines()[1:]:
                part = line.split()
                if int(part[6]) in inodes:
                    own[int(part[6])] = (part[7] if len(part) > 7 else "", part[3] == "00010000")
        self.assertEqual(set(own), inodes, "a socket that is no unix socket")
        listening = [path for path, listens in own.values() if listens]
        self.assertEqual(listening, [f"{self.a.dir}/run/signer/signer.sock"])
        # Its connections were accepted there; none was made by itself.
        self.assertEqual({path for path, _ in own.values()}, set(listening))

    def test_the_signer_has_nothing_open_for_writing_but_journal_and_token(self):
        pid = self.a.child(SIGNER[0])
        # Its mounts are its own, so its paths begin at the root of their namespace.
        data = os.readlink(f"/proc/{pid}/root").rstrip("/") + f"{self.a.dir}/data"
        for fd, target, flags in self.descriptors(pid):
            if flags & os.O_ACCMODE == os.O_RDONLY or target.startswith(("socket:", "anon_inode:", "pipe:")):
                continue
            if fd in (1, 2):
                continue  # the log, which is the supervisor's
            self.assertTrue(target.startswith((f"{data}/signer/", f"{data}/softhsm/")), target)

    def test_files_of_the_signer_are_its_own_and_nobody_elses(self):
        data = f"{self.a.dir}/data"
        for top in (f"{data}/signer", f"{data}/softhsm"):
            for folder, _, files in os.walk(top):
                for path in [folder, *(os.path.join(folder, name) for name in files)]:
                    found = os.stat(path)
                    self.assertEqual(found.st_uid, SIGNER[1], path)
                    self.assertEqual(stat.S_IMODE(found.st_mode) & 0o077, 0, path)

    def test_the_environment_has_no_secret(self):
        for program, _ in (SIGNER, API):
            with open(f"/proc/{self.a.child(program)}/environ", "rb") as f:
                entries = [entry.decode() for entry in f.read().split(b"\0") if entry]
            for entry in entries:
                name, _, value = entry.partition("=")
                self.assertNotIn("not-a-real", value, (program, name))
                self.assertFalse(any(word in f"{name}=" for word in SECRET_WORDS), (program, name))
            with open(f"/proc/{self.a.child(program)}/cmdline", "rb") as f:
                self.assertNotIn(b"pin", f.read().lower().replace(b"/pin", b""))


if __name__ == "__main__":
    unittest.main(verbosity=2)
