"""The files match their provenance, and run."""

import hashlib
import re
from pathlib import Path

import everlearn_networks
import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=everlearn_networks.names())
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_digest(name: str) -> None:
    data = everlearn_networks.file(name).read_bytes()
    assert hashlib.sha256(data).hexdigest() == everlearn_networks.about(name)["sha256"]


def test_provenance_names_a_script_and_a_licence(name: str) -> None:
    about = everlearn_networks.about(name)
    assert (ROOT / about["written_by"]).is_file()
    assert about["licence"].startswith("Apache-2.0")
    licence = everlearn_networks.file(name).with_name("LICENSE").read_text()
    assert "Apache License" in licence


def test_weights_are_stored_small(name: str) -> None:
    onnx = pytest.importorskip("onnx", reason="reads the file with the package onnx")
    stored = onnx.load(everlearn_networks.file(name)).graph.initializer
    small = onnx.TensorProto.INT8 if name.endswith("int8") else onnx.TensorProto.FLOAT16
    sizes = {t.name: np.prod(t.dims) for t in stored}
    of_them = sum(sizes[t.name] for t in stored if t.data_type == small)
    assert of_them > 0.95 * sum(sizes.values())


def test_a_batch_equals_single_pictures(name: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="runs networks")
    session = onnxruntime.InferenceSession(
        everlearn_networks.file(name), providers=["CPUExecutionProvider"]
    )
    (wanted,) = session.get_inputs()
    images = np.random.default_rng(0).normal(size=(2, *wanted.shape[1:])).astype(np.float32)
    together = session.run(None, {wanted.name: images})
    for i in range(2):
        alone = session.run(None, {wanted.name: images[i : i + 1]})
        for whole, part in zip(together, alone, strict=True):
            np.testing.assert_allclose(whole[i], part[0], rtol=1e-4, atol=1e-5)


def test_boxes_and_scores_of_the_proposer_are_shares() -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="runs networks")
    path = everlearn_networks.file("picodet_s_416")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    # A bright square on black, from a quarter to three quarters of each side.
    picture = np.zeros((3, 416, 416))
    picture[:, 104:312, 104:312] = 1.0
    mean, deviation = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    image = (picture - mean[:, None, None]) / deviation[:, None, None]
    boxes, scores = session.run(["boxes", "scores"], {"image": image[None].astype(np.float32)})
    assert boxes.shape == (1, 3598, 4)
    assert scores.shape == (1, 80, 3598)
    assert 0.0 <= scores.min() <= scores.max() <= 1.0
    best = boxes[0, scores[0].max(axis=0).argmax()]
    np.testing.assert_allclose(best, [0.25, 0.25, 0.75, 0.75], atol=0.05)


def test_an_unknown_network_name_is_refused() -> None:
    with pytest.raises(KeyError, match="picodet_s_416, pp_lcnetv2_base"):
        everlearn_networks.file("resnet")


def test_readme_lists_all_files_with_their_size() -> None:
    rows = re.findall(
        r"\| `(\w+)\.onnx` \|.*\| ([\d.]+) \|", (ROOT / "networks/README.md").read_text()
    )
    sizes = {n: everlearn_networks.file(n).stat().st_size for n in everlearn_networks.names()}
    assert {n: f"{size / 1e6:.1f}" for n, size in sizes.items()} == dict(rows)
