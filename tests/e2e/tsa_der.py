"""Just enough DER to make time-stamp queries of every kind, and to read what comes back: apart from all product code."""
HASHES = {"sha256": ("608648016503040201", 32), "sha384": ("608648016503040202", 48),
          "sha512": ("608648016503040203", 64)}
NULL = b"\x05\x00"


def length(size):
    if size < 128:
        return bytes([size])
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([0x80 | len(digits)]) + digits


def element(tag, *parts):
    body = b"".join(parts)
    return bytes([tag]) + length(len(body)) + body


def oid(dotted):
    first, second, *rest = (int(arc) for arc in dotted.split("."))
    body = b""
    for arc in [first * 40 + second, *rest]:
        groups = [arc & 0x7F]
        while arc := arc >> 7:
            groups.append(0x80 | arc & 0x7F)
        body += bytes(reversed(groups))
    return element(6, body)


def integer(value):
    return element(2, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))


def imprint(hash_name, digest, parameters=NULL):
    return element(0x30, element(0x30, element(6, bytes.fromhex(HASHES[hash_name][0])), parameters), element(4, digest))


def request(imprint_der, *options, version=b"\x02\x01\x01"):
    """options: policy, nonce, certReq, extensions, as they are."""
    return element(0x30, version, imprint_der, *options)


def read(data, at=0):
    """(tag, body, end) of the element there."""
    tag, size, at = data[at], data[at + 1], at + 2
    if size & 0x80:
        count = size & 0x7F
        size, at = int.from_bytes(data[at:at + count], "big"), at + count
    assert at + size <= len(data), "cut"
    return tag, data[at:at + size], at + size


def members(body):
    found, at = [], 0
    while at < len(body):
        tag, inner, end = read(body, at)
        found.append((tag, inner, body[at:end]))
        at = end
    return found


class Reply:
    """A TimeStampResp, member by member; anything that is not where RFC 3161 has it raises."""

    def __init__(self, data):
        tag, body, end = read(data)
        assert tag == 0x30 and end == len(data)
        parts = members(body)
        status = members(parts[0][1])
        self.status = int.from_bytes(status[0][1], "big")
        self.text = members(status[1][1])[0][1].decode() if len(status) > 1 and status[1][0] == 0x30 else None
        self.failure = None
        if status[-1][0] == 3:
            bits = status[-1][1]
            self.failure = (len(bits) - 1) * 8 - bits[0] - 1
        self.token = parts[1][2] if len(parts) > 1 else None
        if self.token:
            self.read_token(parts[1][1])

    def read_token(self, body):
        content_type, content = members(body)
        assert content_type[2] == oid("1.2.840.113549.1.7.2")
        signed = members(members(content[1])[0][1])
        assert [m[0] for m in signed] in ([2, 0x31, 0x30, 0x31], [2, 0x31, 0x30, 0xA0, 0x31])
        self.certificates = members(signed[3][1]) if signed[3][0] == 0xA0 else []
        signers = members(signed[-1][1])
        assert len(signers) == 1
        kind, wrapped = members(signed[2][1])
        assert kind[2] == oid("1.2.840.113549.1.9.16.1.4")
        info = members(members(members(wrapped[1])[0][1])[0][1])
        assert info[0][2] == b"\x02\x01\x01"
        self.policy, self.imprint, self.serial = info[1][2], info[2][2], int.from_bytes(info[3][1], "big")
        assert info[4][0] == 0x18 and info[5][0] == 0x30
        self.time = info[4][1].decode()
        self.nonce = info[6][2] if len(info) > 6 and info[6][0] == 2 else None
        self.rest = info[7 if self.nonce else 6:]
