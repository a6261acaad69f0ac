"""A linear head as one ONNX file, written without any package. The graph is

    features (n, d) → length one → · Wᵀ + b → / T → softmax → probabilities (n, K)

and the names are in the metadata under ``names``, as a JSON list in the order of the columns.
"""

import json
from collections.abc import Sequence

from everlearn.arrays import Array
from everlearn.memory.onnx_file import message, node, number, tensor, text, value

IR_VERSION = 8
OPSET = 13
AXIS_LAST = -1


def linear_head_model(
    weights: Array, bias: Array, temperature: float, names: Sequence[str], facts: dict[str, str]
) -> bytes:
    """The file's bytes."""
    n_classes, n_features = weights.shape
    graph = b"".join(
        (
            node("LpNormalization", ["features"], "unit", axis=AXIS_LAST, p=2),
            node("MatMul", ["unit", "weights"], "products"),
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
