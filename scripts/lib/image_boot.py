"""What boots the root of the image: squashfs with its dm-verity tree, the initrd, and the boot file (UKI) that holds
kernel, initrd and command line. Runs inside the image root; see image_make.py."""
import hashlib
import json
import lzma
import os
import re
import shutil
import subprocess

from image_tree import ImageError, lines, os_release, run

BLOCK = 4096
STUB = "/usr/lib/systemd/boot/efi/linuxx64.efi.stub"
LOADER = "/usr/lib/systemd/boot/efi/systemd-bootx64.efi"


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# ---- the root ----

def root_image(tree, out, level):
    """OUT: squashfs, padded to whole blocks, then the dm-verity superblock and tree. Returns what the command line says."""
    if os.path.exists(out):
        os.unlink(out)
    run("mksquashfs", tree, out, "-noappend", "-all-root", "-no-xattrs", "-no-exports", "-comp", "zstd",
        "-Xcompression-level", str(level), "-b", "256K", "-no-progress", "-mkfs-time", "0", "-all-time", "0")
    blocks = -(-os.stat(out).st_size // BLOCK)
    os.truncate(out, blocks * BLOCK)
    salt = sha256(out)  # the same root has the same tree, another one has another
    said = run("veritysetup", "format", out, out, "--hash=sha256", f"--data-block-size={BLOCK}", f"--hash-block-size={BLOCK}",
               f"--data-blocks={blocks}", f"--hash-offset={blocks * BLOCK}", f"--salt={salt}",
               f"--uuid=00000000-0000-4000-8000-{salt[:12]}").decode()
    found = re.search(r"^Root hash:\s+([0-9a-f]{64})$", said, re.M)
    if not found:
        raise ImageError(f"veritysetup named no root hash: {said}")
    run("veritysetup", "verify", out, out, found[1], f"--hash-offset={blocks * BLOCK}")
    return {"roothash": found[1], "blocks": blocks, "salt": salt}


# ---- the initrd ----

def module_name(path):
    return os.path.basename(path).split(".")[0].replace("-", "_")


def initrd_modules(modules, wanted):
    """(paths in loading order, {name: when}, {name: names that it needs}) from depmod's lists."""
    needs, paths = {}, {}
    for line in lines(f"{modules}/modules.dep"):
        path, _, rest = line.partition(":")
        paths[module_name(path)] = path
        needs[module_name(path)] = [module_name(one) for one in rest.split()]
    when, order = {}, []

    def add(name, how):
        for need in reversed(needs[name]):  # modules.dep names the nearest first
            add(need, "device")
        if name not in order:
            order.append(name)
        if when.get(name) != "always":
            when[name] = how

    for line in wanted:
        name, how = line.split()
        if name in paths:
            add(name, how)
        elif how == "always" and not any(module_name(one) == name for one in lines(f"{modules}/modules.builtin")):
            raise ImageError(f"initrd-modules.txt: this kernel has no module {name}")
    return order, paths, when, needs


def initrd(kernel, binaries, data, work, out):
    modules = f"{kernel}/usr/lib/modules/{os.listdir(f'{kernel}/usr/lib/modules')[0]}"
    shutil.rmtree(work, ignore_errors=True)
    for name in ("dev", "proc", "sys", "root", "modules"):
        os.makedirs(f"{work}/{name}")
    shutil.copyfile(f"{binaries}/svc-initrd", f"{work}/init")
    run("strip", "--strip-all", "--remove-section=.comment", f"{work}/init")
    os.chmod(f"{work}/init", 0o755)
    order, paths, when, needs = initrd_modules(modules, lines(f"{data}/initrd-modules.txt"))
    for name in order:
        with lzma.open(f"{modules}/{paths[name]}") as file, open(f"{work}/modules/{name}.ko", "wb") as copy:
            shutil.copyfileobj(file, copy)
    with open(f"{work}/modules/list", "w", encoding="utf-8") as file:
        file.writelines(f"{' '.join([name, when[name]] + needs[name])}\n" for name in order)
    with open(f"{work}/modules/alias", "w", encoding="utf-8") as file:
        for line in lines(f"{modules}/modules.alias"):
            _, pattern, name = line.split()
            if when.get(name) == "device":
                file.write(f"{pattern} {name}\n")
    archive(work, out)


def archive(folder, out):
    names = []
    for parent, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(parent, name)
            os.utime(path, (0, 0))
            os.chmod(path, 0o755 if os.path.isdir(path) or name == "init" else 0o644)
            names.append(os.path.relpath(path, folder))
    text = "".join(f"{name}\n" for name in sorted(names)).encode()
    packed = run("cpio", "--quiet", "-o", "-H", "newc", "-R", "0:0", "--reproducible", cwd=folder, input=text)
    with open(out, "wb") as file:
        file.write(run("zstd", "-q", "-19", "-c", "--single-thread", input=packed))


# ---- the boot file ----

def sections_end(path):
    """The first address behind the stub's own sections."""
    said = run("objdump", "-h", path).decode()
    found = re.findall(r"^\s*\d+ \.\S+\s+([0-9a-f]{8}) +([0-9a-f]+) ", said, re.M)
    return max(int(size, 16) + int(address, 16) for size, address in found)


def uki(sections, out):
    """systemd's stub with [(name, file)] appended as sections, each at the next free page. Same input, same bytes."""
    command, address = ["objcopy", "-p"], sections_end(STUB)
    for name, path in sections:
        address = -(-address // BLOCK) * BLOCK
        command += ["--add-section", f".{name}={path}", "--set-section-flags", f".{name}=data,readonly",
                    "--change-section-vma", f".{name}={address:#x}"]
        address += os.stat(path).st_size
    run(*command, STUB, out)


def boot_file(cache, work, verity, options):
    """WORK/svc.unsigned.efi, WORK/loader.unsigned.efi, and their parts beside them."""
    kernel = f"{cache}/kernel-{options.profile}"
    initrd(kernel, options.binaries, f"{options.top}/rootfs/image", f"{work}/initrd", f"{work}/initrd.img")
    words = lines(f"{options.top}/rootfs/image/cmdline.txt") + options.cmdline
    words += [f"svc.version={options.version}", f"svc.roothash={verity['roothash']}", f"svc.blocks={verity['blocks']}",
              f"svc.salt={verity['salt']}"]
    with open(f"{work}/cmdline", "w", encoding="utf-8") as file:
        file.write(" ".join(words))
    with open(f"{work}/os-release", "w", encoding="utf-8") as file:
        file.write(os_release(options))
    image, = [name for name in os.listdir(f"{kernel}/boot") if name.startswith("vmlinuz-")]
    with open(f"{work}/uname", "w", encoding="utf-8") as file:
        file.write(image.removeprefix("vmlinuz-"))
    shutil.copyfile(f"{kernel}/boot/{image}", f"{work}/vmlinuz")
    uki([("osrel", f"{work}/os-release"), ("cmdline", f"{work}/cmdline"), ("uname", f"{work}/uname"),
         ("initrd", f"{work}/initrd.img"), ("linux", f"{work}/vmlinuz")], f"{work}/svc.unsigned.efi")
    shutil.copyfile(LOADER, f"{work}/loader.unsigned.efi")


def finish(work, key, certificate):
    """WORK/svc.efi and WORK/loader.efi: signed for Secure Boot when there is a key. Signing is the one step that does not
    give the same bytes twice."""
    for name in ("svc", "loader"):
        if key:
            run("sbsign", "--key", key, "--cert", certificate, "--output", f"{work}/{name}.efi", f"{work}/{name}.unsigned.efi",
                stdin=subprocess.DEVNULL)
        else:
            shutil.copyfile(f"{work}/{name}.unsigned.efi", f"{work}/{name}.efi")


def describe(path, verity, options):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(verity | {"version": options.version, "profile": options.profile}, file, indent=1, sort_keys=True)
        file.write("\n")
