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
    """The bytes of the file.

    Parameters
    ----------
    power : float
        Exponent of the feature map.
    weights : ndarray of shape (n_classes, n_features)
    bias : ndarray of shape (n_classes,)
    temperature : float
        Divides the scores before the softmax.
    names : sequence of str
    facts : dict of str to str
        Further metadata.
    """
    n_classes, n_features = weights.shape
    graph = b"".join(
        (
            node("LpNormalization", ["features"], "unit", axis=AXIS_LAST, p=2),
            *feature_map_nodes(power, "unit", "seen"),
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


def feature_map_nodes(power: float, unit: str, mapped: str) -> list[bytes]:
    """Nodes from vectors of length one to mapped ones: their signed power, at length one."""
    if power == 1.0:
        return [node("Identity", [unit], mapped)]
    size, sign, raised, signed = (
        f"{mapped}:{step}" for step in ("size", "sign", "raised", "signed")
    )
    return [
        tensor(f"{mapped}:power", np.array(power)),
        node("Abs", [unit], size),
        node("Sign", [unit], sign),
        node("Pow", [size, f"{mapped}:power"], raised),
        node("Mul", [raised, sign], signed),
        node("LpNormalization", [signed], mapped, axis=AXIS_LAST, p=2),
    ]
