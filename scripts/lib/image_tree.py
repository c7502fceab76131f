"""The root of the appliance image as a folder: what rootfs/image/files.txt allows of the Debian packages, the libraries
that it needs, the kernel's modules, our own programs and policies. Runs inside the image root; see image_make.py."""
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess

LIBRARIES = "usr/lib/x86_64-linux-gnu"
PROGRAMS = ("svc-appliance", "svc-signer", "svc-api", "svc-machine")
SHELL = "svc-initdb-sh"  # initdb runs its programs through /bin/sh; this one runs nothing else


class ImageError(Exception):
    pass


def run(*command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, **more)
    if done.returncode != 0:
        raise ImageError(f"{' '.join(map(str, command))}: exit {done.returncode}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def lines(path):
    """The lines of a data file, without comments."""
    with open(path, encoding="utf-8") as file:
        return [line.strip() for line in file if line.strip() and not line.startswith("#")]


# ---- patterns ----

def braces(pattern):
    """'a{b,c/d}e' -> 'abe', 'ac/de'; braces may stand in braces."""
    open_at = pattern.find("{")
    if open_at < 0:
        return [pattern]
    depth, start, parts = 0, open_at + 1, []
    for at in range(open_at, len(pattern)):
        if pattern[at] == "{":
            depth += 1
        elif pattern[at] == "," and depth == 1:
            parts.append(pattern[start:at])
            start = at + 1
        elif pattern[at] == "}":
            depth -= 1
            if depth == 0:
                parts.append(pattern[start:at])
                return [out for part in parts for out in braces(pattern[:open_at] + part + pattern[at + 1:])]
    raise ImageError(f"{pattern}: a brace is not closed")


def expression(pattern):
    out = ""
    for part in re.split(r"(\*\*|\*)", pattern):
        out += {"**": ".*", "*": "[^/]*"}.get(part, re.escape(part))
    return re.compile(out)


def select(patterns, names):
    """Names that the patterns of a data file allow, sorted."""
    chosen = set()
    for line in patterns:
        away, optional = line.startswith("!"), line.startswith("?")
        wanted = [expression(part) for part in braces(line.lstrip("!?"))]
        for one in wanted:
            found = {name for name in names if one.fullmatch(name)}
            if not found and not away and not optional:
                raise ImageError(f"{line}: no file of the packages is named like this")
            chosen = chosen - found if away else chosen | found
    return sorted(chosen)


# ---- packages ----

def unpack(cache, packages):
    """Every package's files below cache/packages, the kernels' below cache/kernel-PROFILE; cache/owners.json says which
    package a file is of. Done once for a set of packages: the folder's name is their hashes' hash."""
    if os.path.exists(f"{cache}/owners.json"):
        return
    shutil.rmtree(cache, ignore_errors=True)
    owners = {}
    for kind in ("debs", "kernel-small", "kernel-generic"):
        top = f"{cache}/{'packages' if kind == 'debs' else kind}"
        for name in ("bin", "sbin", "lib", "lib64"):
            os.makedirs(f"{top}/usr/{name}")
            os.symlink(f"usr/{name}", f"{top}/{name}")
        for package in sorted(glob.glob(f"{packages}/{kind}/*.deb")):
            named = extract(package, top)
            owners[os.path.basename(package)] = named
    with open(f"{cache}/owners.json", "w", encoding="utf-8") as file:
        json.dump(owners, file)


def extract(package, top):
    """Unpacks without running anything of the package; the names of what was in it."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as source:
        said = run("tar", "-C", top, "-xv", "--keep-directory-symlink", "--no-same-owner", "--exclude=./usr/share/doc",
                   "--exclude=./usr/share/man", "--exclude=./usr/share/locale", stdin=source.stdout)
    if source.returncode != 0:
        raise ImageError(f"{package}: dpkg-deb: exit {source.returncode}")
    names = [name.removeprefix("./") for name in said.decode().splitlines()]
    return [re.sub(r"^(s?bin|lib|lib64)/", r"usr/\1/", name) for name in names if not name.endswith("/")]


def names_below(top):
    out = []
    for folder, folders, files in os.walk(top):
        for name in files + [one for one in folders if os.path.islink(os.path.join(folder, one))]:
            out.append(os.path.relpath(os.path.join(folder, name), top))
    return out


# ---- the tree ----

def copy(source, target):
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.lexists(target):
        return
    if os.path.islink(source):
        os.symlink(os.readlink(source), target)
        return
    shutil.copyfile(source, target)
    # Nothing in the image is setuid, and nobody may write it anyway.
    os.chmod(target, 0o755 if os.stat(source).st_mode & 0o111 else 0o644)


def is_elf(path):
    if os.path.islink(path) or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def needed(paths):
    """Names of the shared libraries that these ELF files ask for."""
    if not paths:
        return set()
    said = run("readelf", "-d", "-W", *paths).decode()
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", said))


def add_libraries(root, packages):
    seen = set()
    while True:
        fresh = [f"{root}/{name}" for name in names_below(root) if name not in seen and is_elf(f"{root}/{name}")]
        seen.update(os.path.relpath(path, root) for path in fresh)
        missing = [name for name in sorted(needed(fresh))
                   if not os.path.lexists(f"{root}/{LIBRARIES}/{name}") and not os.path.lexists(f"{root}/usr/lib64/{name}")]
        if not missing:
            return
        for name in missing:
            source = f"{packages}/{LIBRARIES}/{name}"
            while True:
                if not os.path.lexists(source):
                    raise ImageError(f"{name}: no package of the image has this library")
                copy(source, f"{root}/{os.path.relpath(source, packages)}")
                if not os.path.islink(source):
                    break
                source = os.path.join(os.path.dirname(source), os.readlink(source))


def add_accounts(root, users):
    """passwd and group from rootfs/users.txt: no password, no shell to start."""
    rows = [("root", 0)] + [(line.split()[0], int(line.split()[1])) for line in users]
    rows.append(("_chrony", 645))  # of the image alone; appliance/machine/clock.c
    with open(f"{root}/etc/passwd", "w", encoding="utf-8") as file:
        file.writelines(f"{name}:x:{number}:{number}::/:/bin/false\n" for name, number in rows)
    with open(f"{root}/etc/group", "w", encoding="utf-8") as file:
        file.writelines(f"{name}:x:{number}:\n" for name, number in rows)
        file.write("nogroup:x:65534:\n")
    with open(f"{root}/etc/passwd", "a", encoding="utf-8") as file:
        file.write("nobody:x:65534:65534::/:/bin/false\n")


def add_authorities(root, packages):
    """The public certificate authorities, in one file."""
    found = sorted(glob.glob(f"{packages}/usr/share/ca-certificates/**/*.crt", recursive=True))
    if not found:
        raise ImageError("ca-certificates has no certificates")
    os.makedirs(f"{root}/etc/ssl/certs")
    with open(f"{root}/etc/ssl/certs/ca-certificates.crt", "wb") as out:
        for path in found:
            with open(path, "rb") as file:
                out.write(file.read().rstrip(b"\n") + b"\n")


def add_modules(root, kernel, patterns):
    """Those of modules.txt and all that they need, with depmod's lists for them alone. Compressed and signed as they
    came: under lockdown the kernel takes no module that was touched. Returns the kernel's version."""
    version, = os.listdir(f"{kernel}/usr/lib/modules")
    source, target = f"{kernel}/usr/lib/modules/{version}", f"{root}/usr/lib/modules/{version}"
    if not os.path.exists(f"{source}/modules.dep"):
        run("depmod", "-b", f"{kernel}/usr", "-m", "/lib/modules", version)
    needs = {}
    for line in lines(f"{source}/modules.dep"):
        name, _, rest = line.partition(":")
        needs[name] = rest.split()
    chosen = set()
    for name in select(patterns, [name.removeprefix("kernel/") for name in names_below(source) if name.startswith("kernel/")]):
        chosen.update([f"kernel/{name}"] + needs[f"kernel/{name}"])
    for name in sorted(chosen):
        copy(f"{source}/{name}", f"{target}/{name}")
    for name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
        copy(f"{source}/{name}", f"{target}/{name}")
    run("depmod", "-b", f"{root}/usr", "-m", "/lib/modules", version)
    return version


def add_programs(root, binaries, missing_is_fine):
    os.makedirs(f"{root}/usr/libexec")
    os.symlink("../bin", f"{root}/usr/libexec/svc")  # bin_dir's default
    for name in PROGRAMS + (SHELL,):
        source, target = f"{binaries}/{name}", f"{root}/usr/bin/{name}"
        if not os.path.exists(source):
            if missing_is_fine:
                print(f"image: {name} is not built: the image goes without", flush=True)
                continue
            raise ImageError(f"{source} is missing")
        copy(source, target)
        run("strip", "--strip-all", "--remove-section=.comment", target)
    if os.path.exists(f"{root}/usr/bin/{SHELL}"):
        os.symlink(SHELL, f"{root}/usr/bin/sh")


def add_data(root, options):
    data = f"{options.top}/rootfs/image"
    for name in ("hosts", "nsswitch.conf"):
        copy(f"{data}/{name}", f"{root}/etc/{name}")
    os.symlink("/run/svc-machine/resolv.conf", f"{root}/etc/resolv.conf")
    os.symlink("../usr/share/zoneinfo/Etc/UTC", f"{root}/etc/localtime")
    os.symlink("../usr/lib/os-release", f"{root}/etc/os-release")
    with open(f"{root}/usr/lib/os-release", "w", encoding="utf-8") as file:
        file.write(os_release(options))
    shutil.copytree(f"{options.top}/policies", f"{root}/usr/share/svc/policies")
    os.makedirs(f"{root}/usr/share/svc/release-keys")
    for key in options.release_key:
        with open(key, "rb") as file:
            text = file.read()
        name = hashlib.sha256(text).hexdigest()[:16]
        with open(f"{root}/usr/share/svc/release-keys/{name}.pem", "wb") as file:
            file.write(text)


def os_release(options):
    with open(f"{options.top}/rootfs/image/os-release", encoding="utf-8") as file:
        return file.read().replace("@VERSION@", options.version).replace("@PROFILE@", options.profile)


def settle(root):
    """Modes and times are the build's own, not those of whoever unpacked."""
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                os.chmod(path, 0o755 if os.path.isdir(path) or os.stat(path).st_mode & 0o100 else 0o644)
            os.utime(path, (0, 0), follow_symlinks=False)
    os.utime(root, (0, 0))


def contents(root, owners):
    """Every file: path, what it is, SHA-256, and the package that it is of (none: ours, or made by this build)."""
    package_of = {name: package for package, names in owners.items() for name in names}
    out = []
    for name in sorted(names_below(root)):
        path = f"{root}/{name}"
        row = {"path": name, "package": package_of.get(name)}
        if os.path.islink(path):
            row["link"] = os.readlink(path)
        else:
            with open(path, "rb") as file:
                text = file.read()
            row |= {"size": len(text), "sha256": hashlib.sha256(text).hexdigest(), "mode": f"{os.stat(path).st_mode & 0o7777:04o}"}
        out.append(row)
    return out


def make(root, cache, options):
    """The tree at `root`; the list of what is in it, and the kernel's version."""
    shutil.rmtree(root, ignore_errors=True)
    packages, data = f"{cache}/packages", f"{options.top}/rootfs/image"
    for name in ("bin", "sbin", "lib", "lib64"):
        os.makedirs(f"{root}/usr/{name}")
        os.symlink(f"usr/{name}", f"{root}/{name}")
    for name in ("proc", "sys", "dev", "run", "tmp", "etc", "var/lib/svc", "usr/share/svc"):
        os.makedirs(f"{root}/{name}", exist_ok=True)
    os.symlink("/run", f"{root}/var/run")
    os.symlink("/tmp", f"{root}/var/tmp")
    add_programs(root, options.binaries, options.partial)
    for name in select(lines(f"{data}/files.txt"), names_below(packages)):
        copy(f"{packages}/{name}", f"{root}/{name}")
    add_libraries(root, packages)
    add_accounts(root, lines(f"{options.top}/rootfs/users.txt"))
    add_authorities(root, packages)
    version = add_modules(root, f"{cache}/kernel-{options.profile}", lines(f"{data}/modules.txt"))
    add_data(root, options)
    with open(f"{cache}/owners.json", encoding="utf-8") as file:
        owners = json.load(file)
    rows = contents(root, owners)
    used = sorted({row["package"] for row in rows if row["package"]})
    with open(f"{root}/usr/share/svc/image.json", "w", encoding="utf-8") as file:
        json.dump({"version": options.version, "profile": options.profile, "kernel": version, "packages": used}, file,
                  indent=1, sort_keys=True)
        file.write("\n")
    settle(root)
    return contents(root, owners), version
