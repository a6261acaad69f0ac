"""The wire format of protocol buffers, as far as ONNX files need it.

An integer has seven bits per byte, lowest first; the highest bit says that more follow. A field is
its number and wire type, then an integer, or a length and so many bytes.
"""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class NotProtobuf(ValueError):
    """The bytes are not a message."""


def varint(value: int) -> bytes:
    """An integer as bytes."""
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def read_varint(body: bytes, at: int) -> tuple[int, int]:
    """The integer at a position, and the position after it."""
    value = 0
    for shift in range(0, 64, 7):
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise NotProtobuf


def message(field: int, body: bytes) -> bytes:
    """A field that holds bytes: text, or another message."""
    return varint(field << 3 | BYTES) + varint(len(body)) + body
