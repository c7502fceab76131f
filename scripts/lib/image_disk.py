"""The disk of the image: GPT with the ESP, two slots for roots, and room for the state. Plain files all the way: no loop
device, no mount. Runs inside the image root; see image_make.py."""
import hashlib
import os
import re
import shutil
import tempfile
import uuid

from image_tree import ImageError, lines, run

FOOTER = 4096
MIB = 1 << 20
EPOCH = 315532800  # 1980: where the time of FAT begins
TYPES = {
    "svc-esp": "C12A7328-F81F-11D2-BA4B-00A0C93EC93B",
    "svc-root-a": "0FC63DAF-8483-4772-8E79-3D69D8477DE4",
    "svc-root-b": "0FC63DAF-8483-4772-8E79-3D69D8477DE4",
    "svc-state": "CA7D7CCB-63ED-4C53-861C-1742536059CC",  # LUKS
}


def layout(path):
    return [(line.split()[0], int(line.split()[1])) for line in lines(path)]


def footer(verity, version):
    """The last bytes of a slot: a hint which slot to boot. dm-verity proves what is in it."""
    text = f"SVCROOT1\nversion={version}\nroothash={verity['roothash']}\nblocks={verity['blocks']}\nsalt={verity['salt']}\n"
    return text.encode().ljust(FOOTER, b"\0")


def esp(path, size, files, seed):
    """A FAT file system of `size` bytes with {name: source}. Times and serial number are fixed."""
    if os.path.exists(path):
        os.unlink(path)
    with open(path, "wb") as file:
        file.truncate(size)
    environment = os.environ | {"MTOOLS_SKIP_CHECK": "1", "SOURCE_DATE_EPOCH": str(EPOCH), "TZ": "UTC"}
    run("mformat", "-i", path, "-F", "-N", seed[:8], "-v", "SVC-ESP", "::", env=environment)
    folders = sorted({parent for name in files for parent in parents(name)})
    for folder in folders:
        run("mmd", "-i", path, f"::{folder}", env=environment)
    with tempfile.TemporaryDirectory() as work:
        for name, source in sorted(files.items()):
            shutil.copyfile(source, f"{work}/file")
            os.utime(f"{work}/file", (EPOCH, EPOCH))
            run("mcopy", "-m", "-i", path, f"{work}/file", f"::{name}", env=environment)


def parents(name):
    out = []
    while name := os.path.dirname(name):
        out.append(name)
    return out


def guid(seed, label):
    return str(uuid.UUID(bytes=hashlib.sha256(f"{seed} {label}".encode()).digest()[:16], version=4))


def table(path, rows, seed):
    """Writes the partition table; {label: (offset, size)} in bytes."""
    total = 2 * MIB + sum(size for _, size in rows) * MIB
    with open(path, "wb") as file:
        file.truncate(total)
    text = f"label: gpt\nlabel-id: {guid(seed, 'disk')}\nunit: sectors\n"
    at, places = MIB, {}
    for label, size in rows:
        text += (f"start={at // 512}, size={size * MIB // 512}, type={TYPES[label]}, name={label}, "
                 f"uuid={guid(seed, label)}\n")
        places[label] = (at, size * MIB)
        at += size * MIB
    run("sfdisk", "-q", path, input=text.encode())
    return places


def put(disk, offset, limit, source):
    """Copies a file into the disk, leaving out what is zero."""
    if os.stat(source).st_size > limit:
        raise ImageError(f"{source} has {os.stat(source).st_size} bytes, its place on the disk {limit} (rootfs/image/disk.txt)")
    with open(source, "rb") as file, open(disk, "r+b") as out:
        out.seek(offset)
        while piece := file.read(MIB):
            if piece.count(0) == len(piece):
                out.seek(len(piece), os.SEEK_CUR)
            else:
                out.write(piece)


def make(out, work, verity, options):
    rows = layout(f"{options.top}/rootfs/image/disk.txt")
    seed = f"{options.profile} {options.version} {verity['roothash']}"
    places = table(out, rows, seed)
    esp(f"{work}/esp.img", places["svc-esp"][1], {
        "EFI/BOOT/BOOTX64.EFI": f"{work}/loader.efi",
        "EFI/systemd/systemd-bootx64.efi": f"{work}/loader.efi",
        f"EFI/Linux/svc-{options.version}.efi": f"{work}/svc.efi",
        "loader/loader.conf": f"{options.top}/rootfs/image/loader.conf",
    }, hashlib.sha256(seed.encode()).hexdigest())
    put(out, *places["svc-esp"], f"{work}/esp.img")
    offset, size = places["svc-root-a"]
    put(out, offset, size - FOOTER, f"{work}/root.img")
    with open(out, "r+b") as file:
        file.seek(offset + size - FOOTER)
        file.write(footer(verity, options.version))
    return places


def version_of(cmake):
    with open(cmake, encoding="utf-8") as file:
        return re.search(r"^project\(svc VERSION ([0-9.]+)", file.read(), re.M)[1]
