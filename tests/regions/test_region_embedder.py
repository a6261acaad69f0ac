"""Which part of a picture is embedded, and how parts are averaged."""

import numpy as np
import pytest
from PIL import Image

from everlearn.images.decode import DEFAULT_LIMITS
from everlearn.images.embedders import Pixels
from everlearn.regions import region_embedder as module
from everlearn.regions.region_embedder import Region, RegionEmbedder, crop_edges, mean_of_units
from tests.memory.test_finding import SquareFinder, SquareProposer, scene, square


@pytest.fixture
def picture(monkeypatch) -> np.ndarray:
    monkeypatch.setattr(module, "MainThing", SquareFinder)
    return scene(1, ("red", 20, 60))


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


def test_main_mode_averages_the_main_thing_and_the_whole_picture(picture) -> None:
    embedder = Pixels(size=6, colour=True)
    image = Image.fromarray(picture)
    seen = RegionEmbedder(embedder, DEFAULT_LIMITS, "main").embed(Region(picture))
    part = image.resize((46, 46), Image.Resampling.BICUBIC, box=crop_edges(image, seen.box))
    thing, whole = (embedder.run(embedder.prepare(one)[None])[0] for one in (part, image))
    assert seen.found
    assert np.allclose(seen.vector, (unit(thing) + unit(whole)) / 2, atol=1e-3)


@pytest.mark.parametrize(
    ("mode", "box"), [("main", square(20, 60)), ("main", "auto"), ("things", None)]
)
def test_given_boxes_and_things_are_not_averaged_with_the_whole_picture(picture, mode, box) -> None:
    region_embedder = RegionEmbedder(Pixels(size=6, colour=True), DEFAULT_LIMITS, mode)
    seen = (
        region_embedder.embed(Region(picture, box))
        if mode == "main"
        else embedded_with_proposals(region_embedder, picture)
    )
    part_vector = region_embedder.vectors(Image.fromarray(picture), [seen.box])[0]
    assert np.array_equal(seen.vector, part_vector)


def embedded_with_proposals(region_embedder: RegionEmbedder, picture: np.ndarray):
    """The embedded picture, with proposals from a fake instead of the network."""
    region_embedder.proposer = SquareProposer()
    return region_embedder.embed(Region(picture))


def test_the_mean_with_a_zero_vector_is_finite() -> None:
    one = np.array([3.0, 4.0], dtype=np.float32)
    assert np.allclose(mean_of_units(one, np.zeros(2, dtype=np.float32)), [0.3, 0.4])
