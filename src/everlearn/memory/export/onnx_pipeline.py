"""Writes embedder and classifier as one ONNX file: pixels in; names, probabilities, *unknown* out.

    pixels (n, s, s, 3) bytes → (value − mean) / scale, channels first → the embedder's own graph
      → length one → mapped → · Wᵀ + b → softmax → probabilities, name
                   → · Dᵀ → familiarity, nearest class → its rank among leave-one-out scores
                                                              → p_value, unknown

W, b and the temperature are those of the classifier, with the feature map of onnx_classifier.py; D
are the class directions (unknown.py), familiarity is the blend of familiar.py, and ranks are those
of conformal.py. The file's *unknown* equals that of ``ask``.

The embedder's graph is copied unchanged; only the names of its input and output are read.
"""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from everlearn.arrays import Array
from everlearn.errors import NotExportable
from everlearn.images.embedders import Embedder, OnnxEmbedder
from everlearn.images.protobuf import message
from everlearn.memory.export.onnx_classifier import feature_map_nodes
from everlearn.memory.export.onnx_proto import (
    BOOL,
    FLOAT,
    STRING,
    UINT8,
    fields,
    node,
    number,
    tensor,
    text,
    value,
)
from everlearn.memory.model.calibrated import CalibratedModel

# The first operator set in which the operators used here have their present form.
OLDEST_OPSET = 13
# Fields of a model, and of a graph.
VERSION, GRAPH, OPERATORS, FUNCTIONS = 1, 7, 8, 25
NAME, INITIALIZER, INPUT, OUTPUT = 2, 5, 11, 12


@dataclass(frozen=True)
class Network:
    """The parts of an embedder's file that are copied.

    Attributes
    ----------
    version : int
        Of the file format.
    operators : list of bytes
        The operator sets in use.
    body : list of bytes
        The fields of the graph, without its name, inputs and outputs.
    input, output : str
        Names within the graph.
    """

    version: int
    operators: list[bytes]
    body: list[bytes]
    input: str
    output: str


def pipeline_model(
    embedder: Embedder, calibrated: CalibratedModel, names: list[str], accept: float
) -> bytes:
    """The bytes of the file; ``accept`` is the share of familiar things not called unknown."""
    if not isinstance(embedder, OnnxEmbedder) or embedder.mirror:
        raise NotExportable(
            "only an embedder that is an ONNX file, without mirrored images, can be written into "
            "one file with the classifier; export without the embedder, or reembed with such an "
            "embedder"
        )
    if not embedder.plain:
        raise NotExportable(
            "the embedder's file takes bytes, or channels last, or returns feature maps; one "
            "file needs an embedder from float (n, 3, side, side) to vectors; export without the "
            "embedder"
        )
    network = read_network(embedder.model)
    power, weights, bias = calibrated.linear_head()
    graph = [
        *_preprocessing_nodes(embedder, network),
        *network.body,
        *_feature_nodes(network, power),
        *_answer_nodes(weights / calibrated.temperature, bias / calibrated.temperature, names),
        *_unknown_nodes(calibrated, accept),
        text(2, "everlearn"),
        message(INPUT, value("pixels", ("n", embedder.size, embedder.size, 3), UINT8)),
        message(OUTPUT, value("name", ("n",), STRING)),
        message(OUTPUT, value("probabilities", ("n", len(names)))),
        message(OUTPUT, value("unknown", ("n",), BOOL)),
        message(OUTPUT, value("p_value", ("n",))),
    ]
    metadata = {
        "names": json.dumps(names, ensure_ascii=False),
        "embedder": embedder.name,
        "size": str(embedder.size),
        "crop": str(embedder.crop),
    }
    return b"".join(
        (
            number(1, network.version),
            text(2, "everlearn"),
            message(7, b"".join(graph)),
            *(message(8, operators) for operators in network.operators),
            *(message(14, text(1, key) + text(2, word)) for key, word in metadata.items()),
        )
    )


def read_network(model: bytes) -> Network:
    """Read the parts of an ONNX file."""
    parts = _fields(model)
    if any(field == FUNCTIONS for field, _ in parts):
        raise NotExportable("the embedder's file defines functions; export without the embedder")
    operators = [content for field, content in parts if field == OPERATORS]
    opset = max(_opset(one) for one in operators)
    if opset < OLDEST_OPSET:
        raise NotExportable(
            f"the embedder's file uses operator set {opset}, but at least {OLDEST_OPSET} is "
            "needed; convert it, or export without the embedder"
        )
    graph = _fields(_first(parts, GRAPH))
    initializers = {_text(inside, 8) for part, inside in graph if part == INITIALIZER}
    inputs = [_text(inside, 1) for part, inside in graph if part == INPUT]
    return Network(
        version=int(_first(parts, VERSION)),
        operators=operators,
        body=[message(part, body) for part, body in graph if part not in (NAME, INPUT, OUTPUT)],
        input=next(name for name in inputs if name not in initializers),
        output=_text(_first(graph, OUTPUT), 1),
    )


def _preprocessing_nodes(embedder: OnnxEmbedder, network: Network) -> list[bytes]:
    """Preprocessing of pixels, connected to the network's input."""
    return [
        tensor("our:mean", embedder.mean),
        tensor("our:scale", embedder.scale),
        node("Cast", ["pixels"], "our:float", to=FLOAT),
        node("Sub", ["our:float", "our:mean"], "our:centred"),
        node("Div", ["our:centred", "our:scale"], "our:scaled"),
        node("Transpose", ["our:scaled"], network.input, perm=(0, 3, 1, 2)),
    ]


def _feature_nodes(network: Network, power: float) -> list[bytes]:
    """The network's output at length one, and after the feature map."""
    unit = node("LpNormalization", [network.output], "our:unit", axis=-1, p=2)
    return [unit, *feature_map_nodes(power, "our:unit", "our:seen")]


def _answer_nodes(weights: Array, bias: Array, names: list[str]) -> list[bytes]:
    """Scores, probabilities and the best name."""
    return [
        tensor("our:weights", weights.T),
        tensor("our:bias", bias),
        tensor("our:names", np.array(names, dtype=object)),
        node("MatMul", ["our:seen", "our:weights"], "our:products"),
        node("Add", ["our:products", "our:bias"], "our:scores"),
        node("Softmax", ["our:scores"], "probabilities", axis=-1),
        node("ArgMax", ["probabilities"], "our:best", axis=1, keepdims=0),
        node("Gather", ["our:names", "our:best"], "name", axis=0),
    ]


def _unknown_nodes(calibrated: CalibratedModel, accept: float) -> list[bytes]:
    """Familiarity, p = (1 + #{s_i ≤ s}) / (m + 1), and whether it is below the threshold."""
    acceptance = calibrated.judgement.acceptance
    group, ranks, counts = acceptance.table(calibrated.familiar_names)
    likeness, average, score, offset = calibrated.judgement.blend.coefficients
    directions = calibrated.familiarity.directions
    return [
        tensor("our:directions", directions.T),
        tensor("our:average_direction", average * directions.mean(axis=0)[:, None]),
        tensor("our:likeness_weight", np.array(likeness)),
        # Scores were divided by the temperature.
        tensor("our:score_weight", np.array(score * calibrated.temperature)),
        tensor("our:offset", np.array(offset)),
        tensor("our:group", group),
        tensor("our:ranks", ranks),
        tensor("our:places", counts[:, None] + 1.0),
        tensor("our:thresholds", acceptance.thresholds(accept)[:, None]),
        tensor("our:one", np.array([1])),
        tensor("our:unity", np.array(1.0)),
        node("MatMul", ["our:unit", "our:directions"], "our:near"),
        node("TopK", ["our:near", "our:one"], "our:likeness", "our:nearest", axis=1),
        node("TopK", ["our:scores", "our:one"], "our:best_score", "our:best_class", axis=1),
        node("MatMul", ["our:unit", "our:average_direction"], "our:averaged"),
        node("Mul", ["our:likeness", "our:likeness_weight"], "our:weighted_likeness"),
        node("Mul", ["our:best_score", "our:score_weight"], "our:weighted_score"),
        node("Sum", ["our:weighted_likeness", "our:averaged", "our:weighted_score", "our:offset"],
             "our:familiarity"),
        node("Squeeze", ["our:nearest", "our:one"], "our:class"),
        node("Gather", ["our:group", "our:class"], "our:among", axis=0),
        node("Gather", ["our:ranks", "our:among"], "our:others", axis=0),
        node("LessOrEqual", ["our:others", "our:familiarity"], "our:lower"),
        node("Cast", ["our:lower"], "our:counted", to=FLOAT),
        node("ReduceSum", ["our:counted", "our:one"], "our:below", keepdims=1),
        node("Add", ["our:below", "our:unity"], "our:rank"),
        node("Gather", ["our:places", "our:among"], "our:of", axis=0),
        node("Div", ["our:rank", "our:of"], "our:p"),
        node("Squeeze", ["our:p", "our:one"], "p_value"),
        node("Gather", ["our:thresholds", "our:among"], "our:threshold", axis=0),
        node("Less", ["our:familiarity", "our:threshold"], "our:strange"),
        node("Squeeze", ["our:strange", "our:one"], "unknown"),
    ]  # fmt: skip


def _first(parts: list[tuple[int, Any]], wanted: int) -> Any:
    """The first part with this field number."""
    return next(content for field, content in parts if field == wanted)


def _text(description: bytes, wanted: int) -> str:
    """The first text field with this number; empty if there is none."""
    return next(
        (str(word, "utf-8") for number, word in _fields(description) if number == wanted), ""
    )


def _opset(operators: bytes) -> int:
    """The version of ONNX's own operators; zero for those of another domain."""
    parts = dict(_fields(operators))
    return 0 if parts.get(1) else int(parts.get(2, 0))


def _fields(body: bytes) -> list[tuple[int, Any]]:
    return list(fields(body))
