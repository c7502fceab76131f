"""Makes the appliance image from the packages of the image root and the release build: scripts/image calls it inside
scripts/enter --image.

    OUT/root/           the root as a folder         OUT/svc.efi     kernel, initrd and command line (UKI)
    OUT/contents.json   every file and its package   OUT/loader.efi  systemd-boot
    OUT/root.img        squashfs with its hash tree  OUT/*.unsigned.efi   both before Secure Boot signing
    OUT/root.json       root hash, blocks, salt      OUT/svc.img     the whole disk (sparse), OUT/esp.img its ESP

Nothing but the options, the checkout's data, the programs and the packages goes in, and none of the machine's clock,
user or folder names: the same inputs give the same bytes, until something is signed for Secure Boot."""
import argparse
import hashlib
import json
import os
import shutil
import sys
import time

sys.dont_write_bytecode = True
import image_boot
import image_disk
import image_tree

PACKAGES = "/var/cache/svc-image"


def parse(arguments):
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    parser = argparse.ArgumentParser(prog="scripts/image")
    parser.add_argument("--profile", choices=("small", "generic"), default="small")
    parser.add_argument("--version", default=image_disk.version_of(f"{top}/CMakeLists.txt"))
    parser.add_argument("--out")
    parser.add_argument("--binaries", default=f"{top}/build/release/bin")
    parser.add_argument("--release-key", action="append", default=[], metavar="PEM")
    parser.add_argument("--secure-boot-key", metavar="PEM")
    parser.add_argument("--secure-boot-cert", metavar="PEM")
    parser.add_argument("--cmdline", action="append", default=[], metavar="WORD")
    parser.add_argument("--level", type=int, default=15)
    parser.add_argument("--cache", help="where the packages are unpacked")
    parser.add_argument("--partial", action="store_true")
    options = parser.parse_args(arguments)
    options.top = top
    options.out = options.out or f"{top}/build/image/{options.profile}"
    if bool(options.secure_boot_key) != bool(options.secure_boot_cert):
        parser.error("--secure-boot-key and --secure-boot-cert go together")
    return options


def say(started, text):
    print(f"image: {text} ({time.monotonic() - started:.0f} s)", flush=True)


def main(arguments):
    os.umask(0o022)
    options = parse(arguments)
    started = time.monotonic()
    os.makedirs(options.out, exist_ok=True)
    shutil.rmtree(f"{options.out}/release", ignore_errors=True)  # that of another build
    with open(f"{PACKAGES}/packages.sha256", "rb") as file:
        lock = file.read()
    cache = options.cache or f"{options.top}/build/image/packages-{hashlib.sha256(lock).hexdigest()[:16]}"
    image_tree.unpack(cache, PACKAGES)
    rows, kernel = image_tree.make(f"{options.out}/root", cache, options)
    with open(f"{options.out}/contents.json", "w", encoding="utf-8") as file:
        json.dump(rows, file, indent=1)
    with open(f"{options.out}/packages.sha256", "wb") as file:
        file.write(lock)
    say(started, f"{len(rows)} files, kernel {kernel}")
    verity = image_boot.root_image(f"{options.out}/root", f"{options.out}/root.img", options.level)
    image_boot.describe(f"{options.out}/root.json", verity, options)
    say(started, f"root.img: {os.stat(f'{options.out}/root.img').st_size >> 20} MiB, root hash {verity['roothash']}")
    image_boot.boot_file(cache, options.out, verity, options)
    image_boot.finish(options.out, options.secure_boot_key, options.secure_boot_cert)
    say(started, f"svc.efi: {os.stat(f'{options.out}/svc.efi').st_size >> 20} MiB")
    image_disk.make(f"{options.out}/svc.img", options.out, verity, options)
    say(started, f"{options.out}/svc.img: the disk")
    if not options.partial:
        built_by = f"{options.top}/build/image/build-root.txt"
        image_tree.run(f"{options.top}/scripts/lib/release-sbom", f"{options.out}/root", options.out, options.version,
                       options.profile, *[built_by] * os.path.exists(built_by), cwd=options.top)
        say(started, f"{options.out}/sbom.spdx.json: what it is made of")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except image_tree.ImageError as error:
        sys.exit(f"image: {error}")
