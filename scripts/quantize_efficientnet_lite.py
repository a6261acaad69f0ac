"""Turn a float32 EfficientNet-Lite into the int8 one of everlearn-networks.

    pip install onnx onnxruntime
    cd networks/src/everlearn_networks
    python ../../../scripts/quantize_efficientnet_lite.py 0 PHOTOGRAPHS weights

PHOTOGRAPHS is a folder of folders of JPEG; every sixth is used, as it is and blurred as a small
picture that was enlarged.
Activations become unsigned bytes, weights signed bytes with one scale per output channel, in
onnxruntime's QDQ form.

Two things are done that onnxruntime's own quantiser does not do.

*The answer does not depend on the processor.* Without VNNI, x86 processors multiply unsigned by
signed bytes in pairs and add the two products with saturation at 16 bits (vpmaddubsw). Activations
reach 255, so a pair of weights may sum to 32767 / 255 = 128 at most, its positive and its negative
part each. The scale of a channel is the smallest with which no pair of neighbours does more, which
is finer than halving all weights (seven bits) and as safe. Depthwise convolutions are computed in
32 bits without pairs and keep all eight bits.

*Weights are rounded together, not each to its nearest.* What matters is the error of the sum of
products, e = Δw·x, and inputs are alike: in a smooth picture all pixels of a window are nearly the
same. So weights are rounded one after the other, and what rounding one adds to E[e²] = Δw H Δw,
with H = E[x x'] over the photographs, is made up for by those still to be rounded (Frantar et al.,
GPTQ, ICLR 2023, equations 2 and 3). What is left of the mean, Δw·E[x], is taken off the bias (Nagel
et al., Data-Free Quantization through Weight Equalization and Bias Correction, ICCV 2019, 4.2).

Before anything is written, the file is run with both of onnxruntime's kernels, that which
saturates and that which does not, and must give the same bits.
"""

import argparse
import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantFormat,
    QuantType,
    quantize_static,
)

from everlearn.images.decode import open_picture
from everlearn.images.embedders import EfficientNetLite0, OnnxEmbedder, network_file
from everlearn.images.shipped import EfficientNetLite2

NETWORKS: dict[int, Callable[[], OnnxEmbedder]] = {0: EfficientNetLite0, 2: EfficientNetLite2}
EVERY = 6
SMALL = (64, 48)
# Windows of a layer that are looked at in one picture: this many along each side.
PLACES = 14
DAMPING = 0.01
# Moments need fewer pictures than ranges.
MOMENTS_EVERY = 3
MOST_WEIGHT = 127
# What two neighbours may sum to before 255 times it leaves 16 bits.
MOST_PAIR = 128
MOST_BIAS = 2**30
LEAST_COSINE = 0.95

Array = NDArray[np.float64]


class Photographs(CalibrationDataReader):  # type: ignore[misc]  # it has no types
    def __init__(self, images: NDArray[np.float32]) -> None:
        self._remaining = iter(images)

    def get_next(self) -> dict[str, NDArray[np.float32]] | None:
        image = next(self._remaining, None)
        return None if image is None else {"image": image[None]}


def constants(model: onnx.ModelProto) -> dict[str, onnx.TensorProto]:
    return {tensor.name: tensor for tensor in model.graph.initializer}


def convolutions(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    return (node for node in model.graph.node if node.op_type == "Conv")


def plain(path: Path, target: Path) -> None:
    """The float32 network with its weights in float32, as quantisers want it."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(target)
    options.log_severity_level = 3
    onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


@dataclass
class Inputs:
    """Moments of the windows of a convolution, of each channel where it is depthwise."""

    mean: Array
    second: Array


def input_moments(path: Path, images: NDArray[np.float32]) -> dict[str, Inputs]:
    """The mean and second moment of the windows of every convolution, by its name."""
    model = onnx.load(path)
    nodes, weights = list(convolutions(model)), constants(model)
    inside = sorted({node.input[0] for node in nodes if node.input[0] != "image"})
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in inside)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    moments: dict[str, Inputs] = {}
    for image in images:
        values = session.run(inside, {"image": image[None]})
        known = dict(zip(inside, values, strict=True)) | {"image": image[None]}
        for node in nodes:
            rows = windows(known[node.input[0]][0], node, weights[node.input[1]].dims)
            mean = rows.mean(-2, dtype=np.float64) / len(images)
            second = (rows.swapaxes(-1, -2) @ rows) / (rows.shape[-2] * len(images))
            if node.name in moments:
                moments[node.name].mean += mean
                moments[node.name].second += second
            else:
                moments[node.name] = Inputs(mean, second.astype(np.float64))
    return moments


def windows(
    value: NDArray[np.float32], node: onnx.NodeProto, kernel: Sequence[int]
) -> NDArray[np.float32]:
    """The windows of a convolution's input at some positions.

    Shape (places, weights); for a depthwise one (channels, places, weights).
    """
    about = {attribute.name: list(attribute.ints) for attribute in node.attribute}
    top, left, bottom, right = about["pads"]
    size, stride = kernel[2], about["strides"][0]
    padded = np.pad(value, ((0, 0), (top, bottom), (left, right)))
    seen = np.lib.stride_tricks.sliding_window_view(padded, (size, size), axis=(1, 2))
    seen = seen[:, ::stride, ::stride]
    thin = max(1, seen.shape[1] // PLACES)
    seen = seen[:, ::thin, ::thin]
    if kernel[1] == 1:
        return np.ascontiguousarray(seen.reshape(len(value), -1, size * size))
    places = seen.transpose(1, 2, 0, 3, 4)
    return np.ascontiguousarray(places.reshape(-1, len(value) * size * size))


def rounded(rows: Array, second: Array, scale: NDArray[np.float32]) -> Array:
    """Rows of weights as integers, each compensating the rounding of those before it."""
    n = len(second)
    damped = second + (DAMPING * np.trace(second) / n + 1e-12) * np.eye(n)
    upper = np.linalg.cholesky(np.linalg.inv(damped)).T
    left, stored = rows.copy(), np.zeros_like(rows)
    for k in range(n):
        stored[:, k] = np.rint(left[:, k] / scale).clip(-MOST_WEIGHT, MOST_WEIGHT)
        error = (left[:, k] - stored[:, k] * scale) / upper[k, k]
        left[:, k:] -= error[:, None] * upper[k, k:]
    return stored


def saturates(stored: Array) -> NDArray[np.bool_]:
    """Output channels in which a pair of neighbours is too large."""
    return safe_scales(stored) > (MOST_PAIR + 1e-6) / (MOST_PAIR - 1)


def stored_weights(
    kernel: Array, inputs: Inputs, scale: NDArray[np.float32]
) -> tuple[Array, NDArray[np.float32]]:
    """Integer weights of a kernel, and scales, coarser where a pair would saturate."""
    n = len(kernel)
    rows = kernel.reshape(n, -1)
    if kernel.shape[1] == 1:
        each = [rounded(rows[c : c + 1], inputs.second[c], scale[c : c + 1]) for c in range(n)]
        return np.concatenate(each).reshape(kernel.shape), scale
    scale = scale.copy()
    stored = rounded(rows, inputs.second, scale).reshape(kernel.shape)
    while (wrong := saturates(stored)).any():
        scale[wrong] *= 1.02
        stored[wrong] = rounded(rows[wrong], inputs.second, scale[wrong]).reshape(
            -1, *kernel.shape[1:]
        )
    return stored, scale


def safe_scales(kernel: Array) -> Array:
    """The smallest scale of every output channel with which no product saturates.

    Neighbours are those of the matrix that the kernel becomes: pixels of the window, channels
    innermost, or channels outermost; the stem is the only one where that makes a difference.
    """
    largest = np.abs(kernel).max((1, 2, 3)) / MOST_WEIGHT
    if kernel.shape[1] == 1:
        return largest
    n = len(kernel)
    pairs = np.zeros(n)
    for rows in (kernel.reshape(n, -1), kernel.transpose(0, 2, 3, 1).reshape(n, -1)):
        for shift in (0, 1):
            even = rows[:, shift : shift + (rows.shape[1] - shift) // 2 * 2].reshape(n, -1, 2)
            for side in (even.clip(0.0), (-even).clip(0.0)):
                pairs = np.maximum(pairs, side.sum(2).max(1))
    # Each of the two may be rounded up by a half.
    return np.maximum(largest, pairs / (MOST_PAIR - 1))


def usable(scales: Array, bias: Array, input_scale: float) -> NDArray[np.float32]:
    """Scales that are not zero and with which the bias fits into 32 bits.

    Some channels have no weights, or next to none, and are their bias alone.
    """
    scales = np.maximum(scales, np.abs(bias) / (input_scale * MOST_BIAS))
    return np.where(scales > 0.0, scales, 1.0).astype(np.float32)


def requantised(
    model: onnx.ModelProto, float_model: onnx.ModelProto, moments: dict[str, Inputs]
) -> None:
    """Replace onnxruntime's weights and biases by ours."""
    tensors, floats = constants(model), constants(float_model)
    for node in convolutions(float_model):
        kernel = numpy_helper.to_array(floats[node.input[1]]).astype(np.float64)
        bias = numpy_helper.to_array(floats[node.input[2]]).astype(np.float64)
        input_scale = float(numpy_helper.to_array(tensors[f"{node.input[0]}_scale"]))
        inputs = moments[node.name]
        scale = usable(safe_scales(kernel), bias, input_scale)
        stored, scale = stored_weights(kernel, inputs, scale)
        error = (stored * scale[:, None, None, None] - kernel).reshape(len(kernel), -1)
        shift = (error * inputs.mean).sum(1) if kernel.shape[1] == 1 else error @ inputs.mean
        step = np.float32(input_scale) * scale
        put(tensors, f"{node.input[1]}_quantized", stored.astype(np.int8))
        put(tensors, f"{node.input[1]}_scale", scale)
        put(tensors, f"{node.input[2]}_quantized", np.rint((bias - shift) / step).astype(np.int32))
        put(tensors, f"{node.input[2]}_quantized_scale", step.astype(np.float32))


def put(tensors: dict[str, onnx.TensorProto], name: str, value: NDArray[np.generic]) -> None:
    tensors[name].CopyFrom(numpy_helper.from_array(value, name))


def features(
    model: bytes, images: NDArray[np.float32], *, without_saturation: bool = False
) -> NDArray[np.float32]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    if without_saturation:
        options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, {"image": image[None]})[0] for image in images])


def quantised(weights: Path, title: str, images: NDArray[np.float32]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        base, target = Path(folder, "float.onnx"), Path(folder, "int8.onnx")
        plain(weights, base)
        quantize_static(
            base,
            target,
            Photographs(images),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=CalibrationMethod.MinMax,
        )
        model = onnx.load(target)
        requantised(model, onnx.load(base), input_moments(base, images[::MOMENTS_EVERY]))
    model.doc_string = f"{title} without its classifier. Copyright Google; Apache-2.0."
    model.producer_name = "everlearn"
    return bytes(model.SerializeToString(deterministic=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("number", type=int, choices=NETWORKS, help="0 for EfficientNet-Lite0")
    parser.add_argument("photographs", type=Path, help="folder of folders of JPEG")
    parser.add_argument("folder", type=Path, help="where the file and its provenance go")
    arguments = parser.parse_args()
    number: int = arguments.number
    folder: Path = arguments.folder
    name, embedder = f"efficientnet_lite{number}", NETWORKS[number]()
    paths = sorted(arguments.photographs.glob("*/*.jpg"))
    images = np.stack([embedder.prepare(open_picture(path)) for path in paths])
    source, about = network_file(name)
    blurred = [embedder.prepare(open_picture(path).resize(SMALL)) for path in paths[::EVERY]]
    shown = np.concatenate([images[::EVERY], np.stack(blurred)])
    model = quantised(source, f"EfficientNet-Lite{number}", shown)
    images = images[1::EVERY]  # others than it was made from
    ours = features(model, images)
    if not np.array_equal(ours, features(model, images, without_saturation=True)):
        raise SystemExit("the two kernels of onnxruntime do not agree; not written")
    theirs = features(source.read_bytes(), images)
    lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    cosine = (ours * theirs).sum(1) / lengths
    if cosine.mean() < LEAST_COSINE:
        raise SystemExit(f"mean cosine {cosine.mean():.4f} with float32; not written")
    (folder / f"{name}_int8.onnx").write_bytes(model)
    provenance = {
        "file": f"{name}_int8.onnx",
        "sha256": hashlib.sha256(model).hexdigest(),
        "licence": "Apache-2.0; the text is in LICENSE beside this file",
        "made_from": {
            "file": source.name,
            "sha256": about["sha256"],
        },
        "changes": "weights and activations quantised to 8 bits; see the script",
        "calibrated_on": f"{len(blurred)} photographs of Caltech-101 (CC BY 4.0), also blurred",
        "quantiser": f"onnxruntime {version('onnxruntime')}, onnx {version('onnx')}",
        "input": about["input"],
        "output": about["output"],
        "cosine_with_float32": f"mean {cosine.mean():.4f}, least {cosine.min():.4f}",
        "kernels": "the same bits with and without saturating 16-bit products",
        "written_by": "scripts/quantize_efficientnet_lite.py",
    }
    (folder / f"{name}_int8.json").write_text(json.dumps(provenance, indent=2) + "\n")
    print(json.dumps(provenance, indent=2))


if __name__ == "__main__":
    main()
