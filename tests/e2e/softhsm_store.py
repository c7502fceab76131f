"""Every private value of a SoftHSM token, read from its files with the user's PIN: what must be found nowhere else.

The files: 8 bytes of generation, then attributes of type, kind (1 bool, 2 number, 3 bytes, ...) and value. Private values
are AES-256-CBC under a key that lies in the token's own object, wrapped by a key made from the PIN.
"""
import hashlib
import os
import subprocess

MAGIC = b"RJR"
ITERATIONS = 1500
PRIVATE = {0x11: "value", 0x123: "private exponent", 0x124: "prime", 0x125: "other prime"}
CLASS, IS_PRIVATE, LABEL = 0x0, 0x2, 0x3
SECRET_CLASSES = (0x3, 0x4)  # private keys, secret keys


def aes(key, iv, data):
    done = subprocess.run(["openssl", "enc", "-d", "-aes-256-cbc", "-K", key.hex(), "-iv", iv.hex()],
                          input=data, capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else None


def attributes(path):
    with open(path, "rb") as f:
        data = f.read()
    at, found = 8, {}

    def number():
        nonlocal at
        at += 8
        return int.from_bytes(data[at - 8:at], "big")

    while at + 16 <= len(data):
        kind_of, kind = number(), number()
        if kind == 1:
            found[kind_of] = data[at] != 0
            at += 1
        elif kind == 2:
            found[kind_of] = number()
        elif kind in (3, 4, 5):
            size = number()
            if kind == 3:
                found[kind_of] = data[at:at + size]
                at += size
            elif kind == 5:
                at += 8 * size
            else:
                at += size
        else:
            raise AssertionError(f"{path}: an attribute of kind {kind} at {at}")
    return found


def unwrap(pin, blob):
    """The token's data key, from its wrapping under the PIN."""
    salt, iv, wrapped = blob[:8], blob[8:24], blob[24:]
    key = hashlib.sha256(salt + pin.encode()).digest()
    for _ in range(ITERATIONS + salt[-1] - 1):
        key = hashlib.sha256(key).digest()
    plain = aes(key, iv, wrapped)
    assert plain is not None and plain.startswith(MAGIC), "the PIN does not open the token's files"
    return plain[len(MAGIC):]


def private_values(tokens, pin):
    """(label, what, bytes) of every private value in the one token below this folder, and its data key."""
    folder, = (os.path.join(tokens, name) for name in os.listdir(tokens))
    token = attributes(f"{folder}/token.object")
    blobs = [value for value in token.values() if isinstance(value, bytes) and len(value) >= 24 + 48]
    key = next(k for k in (try_unwrap(pin, blob) for blob in blobs) if k)
    found = [("token", "data key", key)]
    for name in sorted(os.listdir(folder)):
        if name.endswith(".object") and name != "token.object":
            entries = attributes(f"{folder}/{name}")
            label = opened(key, entries, LABEL).decode(errors="replace")
            found += [(label, what, opened(key, entries, number)) for number, what in PRIVATE.items()
                      if entries.get(CLASS) in SECRET_CLASSES and entries.get(number)]
    return found


def opened(key, entries, number):
    """Objects with CKA_PRIVATE have each of their values under the data key."""
    value = entries.get(number, b"")
    if entries.get(IS_PRIVATE) and len(value) >= 32:
        value = aes(key, value[:16], value[16:])
        assert value is not None, "a private value does not open"
    return value


def try_unwrap(pin, blob):
    try:
        return unwrap(pin, blob)
    except AssertionError:
        return None

