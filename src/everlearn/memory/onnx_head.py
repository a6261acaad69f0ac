"""A linear head as one ONNX file, written without any package.

An ONNX file is a protocol-buffer message, and this graph needs little of that format: whole numbers
as variable-length integers, everything else as bytes with their length in front. The graph is

    features (n, d) → length one → · Wᵀ + b → / T → softmax → probabilities (n, K)

and the names are in the metadata under ``names``, as a JSON list in the order of the columns.
Field numbers are those of onnx.proto3.
"""

import json
from collections.abc import Sequence

import numpy as np

from everlearn.arrays import Array

IR_VERSION = 8
OPSET = 13
FLOAT = 1
AXIS_LAST = -1


def linear_head_model(
    weights: Array, bias: Array, temperature: float, names: Sequence[str], facts: dict[str, str]
) -> bytes:
    """The file's bytes."""
    n_classes, n_features = weights.shape
    graph = b"".join(
        (
            _node("LpNormalization", ["features"], "unit", axis=AXIS_LAST, p=2),
            _node("MatMul", ["unit", "weights"], "products"),
            _node("Add", ["products", "bias"], "scores"),
            _node("Softmax", ["scores"], "probabilities", axis=AXIS_LAST),
            _text(2, "everlearn"),
            _tensor("weights", weights.T / temperature),
            _tensor("bias", bias / temperature),
            _message(11, _value("features", ("n", n_features))),
            _message(12, _value("probabilities", ("n", n_classes))),
        )
    )
    metadata = facts | {"names": json.dumps(list(names), ensure_ascii=False)}
    return b"".join(
        (
            _number(1, IR_VERSION),
            _text(2, "everlearn"),
            _message(7, graph),
            _message(8, _number(2, OPSET)),
            *(_message(14, _text(1, key) + _text(2, value)) for key, value in metadata.items()),
        )
    )


def _node(kind: str, inputs: Sequence[str], output: str, **attributes: int) -> bytes:
    body = b"".join(_text(1, name) for name in inputs) + _text(2, output) + _text(4, kind)
    for name, value in attributes.items():
        # A whole number: type INT (2), value in field 3.
        body += _message(5, _text(1, name) + _number(3, value) + _number(20, 2))
    return _message(1, body)


def _tensor(name: str, values: Array) -> bytes:
    dims = b"".join(_number(1, size) for size in values.shape)
    raw = np.ascontiguousarray(values, dtype="<f4").tobytes()
    return _message(5, dims + _number(2, FLOAT) + _text(8, name) + _message(9, raw))


def _value(name: str, shape: Sequence[str | int]) -> bytes:
    dims = b"".join(
        _message(1, _text(2, size) if isinstance(size, str) else _number(1, size)) for size in shape
    )
    tensor_type = _number(1, FLOAT) + _message(2, dims)
    return _text(1, name) + _message(2, _message(1, tensor_type))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value & 0xFFFFFFFFFFFFFFFF)


def _text(field: int, value: str) -> bytes:
    return _message(field, value.encode())


def _message(field: int, body: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(body)) + body


def _varint(value: int) -> bytes:
    """Seven bits a byte, lowest first; the highest bit says that more follow."""
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)
