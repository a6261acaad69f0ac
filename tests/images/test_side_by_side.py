"""Combined networks against each single network."""

import json
import threading

import numpy as np
import pytest

from everlearn import Memory
from everlearn.errors import InvalidParameter, MissingPackage
from everlearn.images import (
    EfficientNetLite0,
    EfficientNetLite2,
    Pixels,
    PPLCNetV2,
    SideBySide,
)
from everlearn.images.batches import Embedded, embed_sources
from everlearn.images.by_name import WORDS, bundled_embedder, embedder_for, matching_embedder
from everlearn.images.embedders import Embedder, NetworkEmbedder, as_picture
from everlearn.images.side_by_side import ConcatenatedEmbedder, join_parts, parts_in, split_parts


@pytest.fixture
def images(rng):
    return [rng.integers(0, 256, (40, 50, 3), dtype=np.uint8) for _ in range(5)]


@pytest.fixture
def parts():
    return [Pixels(size=4), Pixels(size=3, colour=True), Pixels(size=2)]


def test_each_part_is_the_unit_vector_of_its_network(images, parts):
    vectors = SideBySide(parts).embed(images)
    assert vectors.shape == (5, 16 + 27 + 4)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0)
    start = 0
    for part in parts:
        separate = part.embed(images)
        expected = separate / np.linalg.norm(separate, axis=1, keepdims=True) / np.sqrt(3)
        assert np.allclose(vectors[:, start : start + part.n_features], expected, atol=1e-6)
        start += part.n_features


def test_a_combined_name_lists_its_networks(parts):
    both = SideBySide(parts[:2])
    assert parts_in(both.name) == [("pixels 4 grey", 16), ("pixels 3 colour", 27)]
    assert SideBySide(parts[1::-1]).name != both.name
    assert SideBySide([both, parts[2]]).name == SideBySide(parts).name
    found = bundled_embedder(both.name)
    assert isinstance(found, SideBySide)
    assert found.name == both.name


def test_splitting_undoes_joining(images, parts):
    separate = {part.name: part.embed(images) for part in parts}
    both = SideBySide(parts)
    for name, rows in split_parts(both.name, both.embed(images)).items():
        lengths = np.linalg.norm(separate[name], axis=1, keepdims=True)
        assert np.allclose(rows, separate[name] / lengths, atol=1e-6)
    assert np.array_equal(join_parts(list(separate.values())), both.embed(images))
    assert list(split_parts("pixels 4 grey", separate["pixels 4 grey"])) == ["pixels 4 grey"]


@pytest.mark.parametrize(
    "name",
    [
        "side by side",
        'side by side ["a", "b"]',
        'side by side [["a", 3]]',
        'side by side [["a", -3], ["b", 2]]',
        'side by side [["a", true], ["b", 2]]',
        "side by side {",
        "side by side " + json.dumps([["a", 1]] * 9),
        "side by side " + "[" * 100_000,
    ],
)
def test_names_that_are_not_lists_of_networks(name):
    assert parts_in(name) == []
    assert bundled_embedder(name) is None


def test_a_zero_vector_stays_zero():
    assert np.array_equal(join_parts([np.zeros((1, 2), np.float32), np.ones((1, 1), np.float32)]),
                          np.array([[0.0, 0.0, np.sqrt(0.5)]], np.float32))  # fmt: skip


def test_wrong_parts_are_refused(parts):
    with pytest.raises(InvalidParameter, match="2 to 8"):
        SideBySide(parts[:1])
    with pytest.raises(InvalidParameter, match="twice"):
        SideBySide([Pixels(size=4), Pixels(size=4)])


class Meeting(Embedder):
    """Waits until another instance runs at the same time; sequential runs never meet."""

    def __init__(self, name, barrier):
        self.name, self.n_features, self._barrier = name, 1, barrier

    def prepare(self, picture):
        return np.ones(1, np.float32)

    def run(self, batch):
        self._barrier.wait(timeout=20)
        return np.ones((len(batch), 1), np.float32)


class Network(NetworkEmbedder):
    """Returns its input."""

    def __init__(self, name, size, mean):
        super().__init__(size, 1.0, mean, (1.0, 2.0, 4.0))
        self.name, self.n_features = name, 3 * size * size

    def run(self, batch):
        return batch.reshape(len(batch), -1)


def test_networks_run_at_the_same_time(images, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    barrier = threading.Barrier(2)
    SideBySide([Meeting("a", barrier), Meeting("b", barrier)]).embed(images[:1])


def test_pictures_are_decoded_once_for_all_networks(tmp_path, images, parts, monkeypatch):
    from PIL import Image

    from everlearn.images import batches

    files = []
    for i, image in enumerate(images):
        files.append(tmp_path / f"{i}.png")
        Image.fromarray(image).save(files[-1])
    opened, decode = [], batches.open_picture

    def counted(*given, **named):
        opened.append(1)
        return decode(*given, **named)

    monkeypatch.setattr(batches, "open_picture", counted)
    found = list(embed_sources(SideBySide(parts), files))
    assert len(opened) == len(files)
    assert all(isinstance(one, Embedded) for one in found)
    assert np.array_equal([one.vector for one in found], SideBySide(parts).embed(images))


def test_networks_with_the_same_crop_share_it(images, monkeypatch):
    from everlearn.images import side_by_side

    made, cut = [], side_by_side.centre_crop
    monkeypatch.setattr(
        side_by_side, "centre_crop", lambda *given: made.append(given[1:]) or cut(*given)
    )
    networks = [Network("a", 8, 127.0), Network("b", 8, 0.0), Network("c", 12, 0.0)]
    both = ConcatenatedEmbedder(networks)
    made.clear()
    found = both.prepare(as_picture(images[0]))
    assert made == [(8, 1.0), (12, 1.0)]
    separate = [network.prepare(as_picture(images[0])).ravel() for network in networks]
    assert np.array_equal(found, np.concatenate(separate))


def test_combining_does_not_change_the_vectors(images, parts):
    expected = np.concatenate([part.embed(images) for part in parts], axis=1)
    assert np.array_equal(ConcatenatedEmbedder(parts).embed(images), expected)


def test_names_of_the_command_line():
    assert {"basic", "fast", "balanced", "best"} <= set(WORDS)
    assert embedder_for("basic").name == EfficientNetLite0().name
    assert embedder_for("fast").name == EfficientNetLite0(precision="int8").name
    balanced = EfficientNetLite2(precision="int8", crop=1.0)
    assert embedder_for("balanced").name == balanced.name
    joined_words = embedder_for("pixels-4+pixels-2")
    assert parts_in(joined_words.name) == [("pixels 4 grey", 16), ("pixels 2 grey", 4)]
    assert matching_embedder(joined_words.name, "pixels-4 + pixels-2").name == joined_words.name
    with pytest.raises(InvalidParameter, match="2 networks"):
        embedder_for("pixels-4+pixels-2", size=7)
    with pytest.raises(InvalidParameter, match="'best'"):
        embedder_for("beast")


@pytest.mark.parametrize(("word", "mirror"), [("best", False), ("best-mirror", True)])
def test_best_is_both_networks_on_the_whole_shorter_side(images, word, mirror):
    pytest.importorskip("everlearn_networks", reason="needs the distribution everlearn-networks")
    best = embedder_for(word)
    assert [part.name.split(" ")[0] for part in best.parts] == [
        "efficientnet_lite2_int8",
        "pp_lcnetv2_base",
    ]
    assert bundled_embedder(best.name).name == best.name
    first = best.embed(images[:1])[0, :1280]
    separate = EfficientNetLite2(precision="int8", crop=1.0, mirror=mirror).embed(images[:1])[0]
    assert np.allclose(first, separate / np.linalg.norm(separate) / np.sqrt(2), atol=1e-6)


@pytest.mark.parametrize("word", ["best", "best-mirror", "best+pixels-4"])
def test_a_memory_keeps_the_earlier_meaning_of_a_word(tmp_path, word, images):
    """``best`` used to be EfficientNet-Lite0 beside PP-LCNetV2."""
    pytest.importorskip("everlearn_networks", reason="needs the distribution everlearn-networks")
    mirror = word == "best-mirror"
    parts = [EfficientNetLite0(crop=1.0, mirror=mirror), PPLCNetV2(crop=1.0, mirror=mirror)]
    former = SideBySide([*parts, Pixels(size=4)] if "pixels" in word else parts)
    with Memory(tmp_path / "old", embedder=former) as memory:
        memory.teach(images[0], "noise")
    with Memory(tmp_path / "old", network=word) as memory:
        assert memory.embedder.name == former.name
        assert memory.ask(images[0])[0].name == "noise"
    with Memory(tmp_path / "new", network=word) as memory:
        assert memory.embedder.name == embedder_for(word).name != former.name


def test_the_earlier_balanced_network_needs_no_other_package(tmp_path, images, monkeypatch):
    with Memory(tmp_path, embedder=EfficientNetLite0()) as memory:
        memory.teach(images[0], "noise")
    monkeypatch.setitem(__import__("sys").modules, "everlearn_networks", None)
    for network in ("balanced", None):
        with Memory(tmp_path, network=network) as memory:
            assert memory.embedder.name == EfficientNetLite0().name


def test_the_default_network_of_a_new_memory(tmp_path, monkeypatch):
    pytest.importorskip("everlearn_networks", reason="needs the distribution everlearn-networks")
    with Memory(tmp_path / "with") as memory:
        assert memory.embedder.name == embedder_for("balanced").name
    monkeypatch.setitem(__import__("sys").modules, "everlearn_networks", None)
    with Memory(tmp_path / "without") as memory:
        assert memory.embedder.name == embedder_for("basic").name


def test_without_everlearn_networks_best_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "everlearn_networks", None)
    with pytest.raises(MissingPackage, match=r"everlearn\[networks\]"):
        embedder_for("best")
