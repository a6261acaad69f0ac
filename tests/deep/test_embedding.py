"""One network used in four ways: arrays, single pictures, a file, ONNX."""

import pytest

pytest.importorskip("torch", reason="everlearn.deep needs torch: pip install 'everlearn[torch]'")

import numpy as np

from everlearn import Memory, OnnxEmbedder, StreamingLDA
from everlearn.deep.adapt import LowRank, _part, adapt
from everlearn.deep.embedding import DeepEmbedder, export_onnx, load_embedder, save_embedder
from everlearn.deep.networks import MobileNetV2, ResNet18
from everlearn.deep.streaming import StreamingNetwork
from everlearn.deep.trainer import train_base
from everlearn.errors import EverlearnError, InvalidParameter, NotAModel, OtherNetwork
from everlearn.persistence import load_arrays, save_arrays
from tests.deep.small import SIZE, quick, striped, tiny


@pytest.fixture(scope="module")
def embedder():
    return train_base(
        *striped(20),
        network=tiny(),
        size=SIZE,
        recipe=quick(epochs=12),
        device="cpu",
        held_out=0.0,
    )


def test_many_at_once_equals_one_by_one(embedder, stripes):
    pictures = stripes[0]
    together = embedder.embed(pictures)
    separate = np.concatenate([embedder.embed([picture]) for picture in pictures])
    assert np.allclose(together, separate, rtol=1e-4, atol=1e-5)


def test_file_gives_the_same_embedder(embedder, stripes, tmp_path):
    file = tmp_path / "network.safetensors"
    save_embedder(embedder, file)
    again = load_embedder(file, tiny(seed=5))
    assert again.name == embedder.name
    assert np.array_equal(again.embed(stripes[0]), embedder.embed(stripes[0]))
    with pytest.raises(OtherNetwork):
        load_embedder(file, ResNet18(width=8))
    with pytest.raises(InvalidParameter, match="network="):
        load_embedder(file)
    other = tmp_path / "other"
    other.write_bytes(b"something else")
    with pytest.raises(NotAModel):
        load_embedder(other)


def test_memory_taught_with_the_network_opens_with_its_onnx_file(embedder, stripes, tmp_path):
    pytest.importorskip("onnxscript")
    pictures, labels = stripes
    with Memory(tmp_path / "memory", embedder=embedder) as memory:
        memory.teach_many([(p, f"kind {k}") for p, k in zip(pictures, labels, strict=True)])
    export_onnx(embedder, tmp_path / "network.onnx")
    exported = OnnxEmbedder(tmp_path / "network.onnx")
    assert exported.name == embedder.name
    assert np.allclose(exported.embed(pictures), embedder.embed(pictures), rtol=1e-3, atol=1e-4)
    asked, truth = striped(10, seed=1)
    answers = []
    for each in (embedder, exported):
        with Memory(tmp_path / "memory", embedder=each, read_only=True) as memory:
            answers.append([memory.ask(picture)[0].name for picture in asked])
    assert answers[0] == answers[1]
    assert np.mean([said == f"kind {k}" for said, k in zip(answers[0], truth, strict=True)]) > 0.8
    assert OnnxEmbedder(tmp_path / "network.onnx", crop=0.5).name != embedder.name


def test_streaming_network_teaches_the_learner_the_networks_vectors(embedder, stripes):
    pictures, labels = stripes
    deep = StreamingNetwork(embedder, StreamingLDA())
    for start in range(0, len(pictures), 7):
        deep.partial_fit(pictures[start : start + 7], labels[start : start + 7])
    separate = StreamingLDA().fit(embedder.embed(pictures).astype(float), labels)
    asked = striped(10, seed=1)[0]
    assert np.array_equal(
        deep.predict(asked), separate.predict(embedder.embed(asked).astype(float))
    )


@pytest.mark.parametrize("how", ["last block", "low rank"])
def test_adapting_changes_the_vectors_and_not_the_given_network(embedder, how):
    """Without held-out pictures the result is always used."""
    pictures, labels = striped(12, n_classes=4, seed=3)
    before = {key: value.clone() for key, value in embedder.network.state_dict().items()}
    recipe = quick(epochs=2, learning_rate=0.01)
    adapted = adapt(embedder, pictures, labels, how=how, recipe=recipe, held_out=0.0, rank=2)
    after = adapted.network.state_dict()
    assert all((before[key] == value).all() for key, value in embedder.network.state_dict().items())
    changed = {key for key in before if not (before[key] == after[key]).all()}
    assert set(after) == set(before), "low-rank parts are still there"
    if how == "last block":
        assert changed
        assert all(key.startswith("layer4.1.") for key in changed)
    else:
        assert changed
        assert all("bn" not in key and "downsample.1" not in key for key in changed)
        W = after["layer4.1.conv2.weight"] - before["layer4.1.conv2.weight"]
        assert np.linalg.matrix_rank(W.flatten(1).numpy(), tol=1e-6) <= 2
    assert adapted.name != embedder.name


def test_adapting_without_gain_returns_the_original_network(embedder, stripes):
    noise = np.random.default_rng(0).integers(0, 256, (40, SIZE, SIZE, 3), dtype=np.uint8)
    recipe = quick(epochs=1, learning_rate=1e-12)
    assert adapt(embedder, noise, [0, 1] * 20, recipe=recipe) is embedder


def test_low_rank_parts_start_at_zero_and_find_the_last_block():
    weight = tiny().layer1[0].conv1.weight.detach()
    assert (LowRank(weight, 3)(weight) == weight).all()
    network = ResNet18(width=4)
    assert _part(network, None) is network.layer4[1]
    mobile = MobileNetV2(width=0.25)
    assert _part(mobile, None) is mobile.features[-1]
    with pytest.raises(InvalidParameter, match="layer4"):
        _part(network, "layer5")
    with pytest.raises(InvalidParameter, match="low rank"):
        adapt(DeepEmbedder(tiny(), size=SIZE), *striped(4), how="all of it")


@pytest.mark.parametrize(
    "forge",
    [
        lambda d, a: d.pop("size"),
        lambda d, a: d.update(size="large"),
        lambda d, a: d.update(mean=[1.0]),
        lambda d, a: d.update(crop=None),
        lambda d, a: a.pop("conv1.weight"),
        lambda d, a: a.pop("bn1.num_batches_tracked"),
        lambda d, a: a.update({"conv1.weight": np.zeros(3, np.float32)}),
        lambda d, a: a.update({key: v * np.nan for key, v in a.items() if v.dtype.kind == "f"}),
        lambda d, a: a.update(extra=np.zeros(2)),
    ],
)
def test_other_contents_with_a_valid_digest_raise_a_named_error(embedder, tmp_path, forge):
    file = tmp_path / "network.safetensors"
    save_embedder(embedder, file)
    kind, description, arrays = load_arrays(file)
    forge(description, arrays)
    save_arrays(file, kind, description, arrays)
    with pytest.raises(EverlearnError):
        load_embedder(file, tiny(seed=5))
    description["architecture"] = ["a", "list"]
    save_arrays(file, kind, description, arrays)
    with pytest.raises(EverlearnError):
        load_embedder(file)
