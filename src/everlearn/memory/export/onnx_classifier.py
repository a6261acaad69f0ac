"""Writes a linear head as one ONNX file, without the onnx package. The graph is

    features (n, d) → length one → mapped → · Wᵀ + b → / T → softmax → probabilities (n, K)

where *mapped* is the vector itself or, with a feature map (feature_map.py), its signed power at
length one. The names are in the metadata under ``names``, as a JSON list in the order of the
columns.
"""

import json
from collections.abc import Sequence

import numpy as np

from everlearn.arrays import Array
from everlearn.images.protobuf import message
from everlearn.memory.export.onnx_proto import node, number, tensor, text, value

IR_VERSION = 8
OPSET = 13
AXIS_LAST = -1


def linear_head_model(
    power: float,
    weights: Array,
    bias: Array,
    temperature: float,
    names: Sequence[str],
    facts: dict[str, str],
) -> bytes:
    """The file's bytes."""
    n_classes, n_features = weights.shape
    graph = b"".join(
        (
            node("LpNormalization", ["features"], "unit", axis=AXIS_LAST, p=2),
            *mapped_features(power, "unit", "seen"),
            node("MatMul", ["seen", "weights"], "products"),
            node("Add", ["products", "bias"], "scores"),
            node("Softmax", ["scores"], "probabilities", axis=AXIS_LAST),
            text(2, "everlearn"),
            tensor("weights", weights.T / temperature),
            tensor("bias", bias / temperature),
            message(11, value("features", ("n", n_features))),
            message(12, value("probabilities", ("n", n_classes))),
        )
    )
    metadata = facts | {"names": json.dumps(list(names), ensure_ascii=False)}
    return b"".join(
        (
            number(1, IR_VERSION),
            text(2, "everlearn"),
            message(7, graph),
            message(8, number(2, OPSET)),
            *(message(14, text(1, key) + text(2, value)) for key, value in metadata.items()),
        )
    )


def mapped_features(power: float, unit: str, seen: str) -> list[bytes]:
    """The feature map for vectors of length one: their signed power, normalised again."""
    if power == 1.0:
        return [node("Identity", [unit], seen)]
    size, sign, raised, signed = (f"{seen}:{step}" for step in ("size", "sign", "raised", "signed"))
    return [
        tensor(f"{seen}:power", np.array(power)),
        node("Abs", [unit], size),
        node("Sign", [unit], sign),
        node("Pow", [size, f"{seen}:power"], raised),
        node("Mul", [raised, sign], signed),
        node("LpNormalization", [signed], seen, axis=AXIS_LAST, p=2),
    ]
