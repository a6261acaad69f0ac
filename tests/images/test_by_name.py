"""Embedders are found by the name stored with their vectors."""

import shutil

import numpy as np
import pytest

from attacks.hostile_images import photograph, saved
from everlearn import EfficientNetLite0, Memory, OnnxEmbedder
from everlearn.errors import InvalidParameter, WrongEmbedder
from everlearn.images.by_name import bundled_embedder, embedder_for, matching_embedder
from everlearn.images.embedders import SHIPPED, WEIGHTS, Pixels
from everlearn.images.shipped import LITE2, EfficientNetLite2, PPLCNetV2

FILE = str(WEIGHTS / "efficientnet_lite0.onnx")
PIXELS = np.asarray(photograph(120))


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        *((EfficientNetLite0, {"precision": precision}) for precision in SHIPPED),
        (EfficientNetLite0, {"mirror": True}),
        (EfficientNetLite0, {"crop": 1.0}),
        *((EfficientNetLite2, {"precision": precision}) for precision in LITE2),
        (EfficientNetLite2, {"crop": 1.0, "mirror": True}),
        (PPLCNetV2, {}),
        (Pixels, {"size": 5}),
        (Pixels, {"size": 3, "colour": True}),
    ],
)
def test_included_embedders_are_found_by_name(kind, parameters):
    embedder = kind(**parameters)
    found = bundled_embedder(embedder.name)
    assert (type(found), found.name) == (kind, embedder.name)
    assert np.array_equal(found.embed([PIXELS]), embedder.embed([PIXELS]))


@pytest.mark.parametrize(
    "preparation",
    [
        {"mean": 127.0, "scale": 128.0},
        {"mean": 127, "scale": 128},
        {"mean": (123.7, 116.3, 103.5), "scale": [58.4, 57.1, 57.4]},
        {"mean": -1e-3, "scale": 128.0, "crop": 1.0, "mirror": True},
    ],
)
def test_the_name_of_an_onnx_embedder_restores_its_preprocessing(tmp_path, preparation):
    path = tmp_path / "a network of mine.onnx"
    shutil.copy(FILE, path)
    embedder = OnnxEmbedder(path, **preparation)
    assert bundled_embedder(embedder.name) is None
    found = matching_embedder(embedder.name, path)
    assert found.name == embedder.name
    assert np.array_equal(found.embed([PIXELS]), embedder.embed([PIXELS]))


def test_without_a_name_the_file_must_state_its_preprocessing():
    with pytest.raises(InvalidParameter, match="mean="):
        matching_embedder(None, FILE)


@pytest.mark.parametrize("name", [None, "", "mean colours", "pixels 0x grey", "efficientnet_lite0"])
def test_unknown_names_have_no_embedder(name):
    assert bundled_embedder(name) is None


@pytest.mark.parametrize("crop", ["1.0.0", "0", "7.5", "0.8750", "."])
def test_names_with_an_invalid_crop_have_no_embedder(crop):
    assert bundled_embedder(EfficientNetLite0().name.replace(" 0.875 ", f" {crop} ")) is None


@pytest.mark.parametrize(
    ("word", "same"),
    [
        ("pixels", lambda: Pixels(size=16)),
        ("pixels-4", lambda: Pixels(size=4)),
        ("efficientnet-lite0", lambda: EfficientNetLite0(precision="float32")),
        ("efficientnet-lite0-int8", lambda: EfficientNetLite0(precision="int8")),
    ],
)
def test_names_accepted_on_the_command_line(word, same, tmp_path):
    name = same().name
    assert embedder_for(word).name == name
    with Memory(tmp_path, embedder=word) as memory:
        assert memory.embedder.name == name


def test_an_unknown_word_lists_the_known_ones():
    with pytest.raises(InvalidParameter, match="efficientnet-lite0-int8"):
        embedder_for("efficientnet-lite1")


@pytest.mark.parametrize("name", ["pixels 000016000 grey", "pixels 513 grey", "pixels 0 colour"])
def test_stored_names_of_pixels_are_limited_in_size(name):
    assert bundled_embedder(name) is None


@pytest.mark.parametrize(
    "numbers", ["224 1.2.3 0 1", "224 0.875 e 1", "224 0.875 (1, -) 1", "9" * 5000 + " 0.875 0 1"]
)
def test_a_stored_name_with_invalid_numbers_is_ignored(numbers):
    name = f"efficientnet_lite0 0123456789abcdef {numbers}"
    with pytest.raises(InvalidParameter, match="mean="):
        matching_embedder(name, FILE)


def test_a_memory_is_opened_with_the_network_it_was_taught_with(tmp_path):
    picture = saved(photograph(80), "PNG")
    with Memory(tmp_path / "memory", embedder=Pixels(size=6)) as memory:
        memory.teach(picture, "cup")
    with Memory(tmp_path / "memory") as memory:
        assert memory.embedder.name == "pixels 6 grey"
        assert memory.ask(picture)[0].name == "cup"


def test_a_memory_of_a_file_is_opened_with_the_file(tmp_path):
    shutil.copy(FILE, tmp_path / "mine.onnx")
    picture = saved(photograph(80), "PNG")
    mine = OnnxEmbedder(tmp_path / "mine.onnx", mean=120.0, scale=64.0)
    with Memory(tmp_path / "memory", embedder=mine) as memory:
        memory.teach(picture, "cup")
    with Memory(tmp_path / "memory", embedder=tmp_path / "mine.onnx") as memory:
        assert memory.embedder.name == mine.name
        assert memory.ask(picture)[0].name == "cup"
    with Memory(tmp_path / "memory") as memory, pytest.raises(WrongEmbedder, match="--network"):
        memory.ask(picture)
