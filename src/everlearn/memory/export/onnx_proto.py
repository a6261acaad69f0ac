"""Reads and writes the parts of an ONNX file, without the onnx package.

An ONNX file is a protocol-buffer message: integers have variable length, everything else is bytes
preceded by their length, each with its field number. Field numbers are those of onnx.proto3.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from everlearn.arrays import AnyArray
from everlearn.images.protobuf import message, read_varint, varint

# Element types of a tensor.
FLOAT, UINT8, INT64, STRING, BOOL = 1, 2, 7, 8, 9


def node(
    kind: str, inputs: Sequence[str], *outputs: str, **attributes: int | Sequence[int]
) -> bytes:
    """A node of a graph: an operator with names of inputs and outputs."""
    body = b"".join(text(1, name) for name in inputs)
    body += b"".join(text(2, name) for name in outputs) + text(4, kind)
    for name, given in attributes.items():
        # An integer is of type INT (2), in field 3; several are of type INTS (7), in field 8.
        if isinstance(given, int):
            body += message(5, text(1, name) + number(3, given) + number(20, 2))
        else:
            several = b"".join(number(8, one) for one in given)
            body += message(5, text(1, name) + several + number(20, 7))
    return message(1, body)


def tensor(name: str, values: AnyArray) -> bytes:
    """An initializer: float32, int64 or strings."""
    dims = b"".join(number(1, size) for size in values.shape)
    if values.dtype.kind in "UO":
        words = b"".join(text(6, str(word)) for word in values.ravel().tolist())
        return message(5, dims + number(2, STRING) + text(8, name) + words)
    kind, stored = (INT64, "<i8") if values.dtype.kind in "iu" else (FLOAT, "<f4")
    raw = np.ascontiguousarray(values, dtype=stored).tobytes()
    return message(5, dims + number(2, kind) + text(8, name) + message(9, raw))


def value(name: str, shape: Sequence[str | int], kind: int = FLOAT) -> bytes:
    """The description of an input or output; a dimension given by name can be of any size."""
    dims = b"".join(
        message(1, text(2, size) if isinstance(size, str) else number(1, size)) for size in shape
    )
    return text(1, name) + message(2, message(1, number(1, kind) + message(2, dims)))


def number(field: int, value: int) -> bytes:
    """An integer field."""
    return varint(field << 3) + varint(value & 0xFFFFFFFFFFFFFFFF)


def text(field: int, value: str) -> bytes:
    """A text field."""
    return message(field, value.encode())


def fields(body: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The number and the content of every field of a message."""
    at = 0
    while at < len(body):
        key, at = read_varint(body, at)
        kind = key & 7
        if kind == 0:
            whole, at = read_varint(body, at)
            yield key >> 3, whole
            continue
        size, at = read_varint(body, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
        yield key >> 3, body[at : at + size]
        at += size
