"""The main thing, and the added network output that it is found by."""

from importlib import resources

import numpy as np
import pytest
from scipy import ndimage

pytest.importorskip("onnxruntime", reason="finding things runs a network")
from PIL import Image, ImageDraw

from everlearn.errors import NotAModel
from everlearn.images.embedders import WEIGHTS, EfficientNetLite0
from everlearn.images.onnx_files import onnx_session
from everlearn.regions.boxes import WHOLE, Box
from everlearn.regions.main_thing import FEATURE_MAP, FILE, MainThing, box_of
from everlearn.regions.onnx_outputs import with_free_sides, with_output


def model() -> bytes:
    return (WEIGHTS / FILE).read_bytes()


def test_the_map_averages_to_the_embedding() -> None:
    """The embedder's vector is the spatial average of the added output."""
    embedder = EfficientNetLite0()
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (224, 224, 3), np.uint8))
    planes = embedder.prepare(picture)[None]
    with resources.as_file(WEIGHTS / FILE) as path:
        session = onnx_session(with_output(model(), FEATURE_MAP), path, threads=1)
        freed = onnx_session(with_free_sides(model(), 224), path, threads=1)
    (features,) = session.run([FEATURE_MAP], {"image": planes})
    expected = embedder.run(planes)
    assert np.allclose(features.mean(axis=(2, 3)), expected, atol=1e-4)
    (same,) = freed.run(["features"], {"image": planes})
    assert np.allclose(same, expected, atol=1e-5)


def test_a_network_without_that_input_is_refused() -> None:
    with pytest.raises(NotAModel):
        with_free_sides(model(), 225)


def test_the_box_is_that_of_the_strongest_part() -> None:
    activation = np.ones((10, 20), dtype=np.float32)
    activation[2:5, 3:9] = 9.0
    activation[7:9, 12:14] = 5.0
    assert box_of(activation) == Box(3 / 20, 2 / 10, 9 / 20, 5 / 10)
    assert box_of(np.ones((4, 4), dtype=np.float32)) == WHOLE
    # Independent of where the parts lie in memory: the mirror image has the mirrored box.
    assert box_of(activation[:, ::-1]) == Box(1 - 9 / 20, 2 / 10, 1 - 3 / 20, 5 / 10)
    assert ndimage.label(activation > activation.mean())[1] == 2


@pytest.mark.parametrize("left", [40, 300])
def test_a_drawn_thing_is_found_where_it_is(left) -> None:
    picture = Image.new("RGB", (480, 320), (120, 150, 110))
    draw = ImageDraw.Draw(picture)
    draw.ellipse((left, 90, left + 130, 220), fill=(250, 240, 60), outline=(0, 0, 0), width=6)
    draw.rectangle((left + 40, 130, left + 60, 150), fill=(0, 0, 0))
    draw.rectangle((left + 80, 130, left + 100, 150), fill=(0, 0, 0))
    finder = MainThing()
    box = finder.box(picture)
    centre = (box.left + box.right) / 2 * 480
    assert left - 60 < centre < left + 190
    assert finder.box(picture) == box


@pytest.mark.parametrize("size", [(1, 1), (1, 900), (640, 3)])
def test_pictures_of_any_shape(size) -> None:
    box = MainThing().box(Image.new("RGB", size))
    assert 0.0 <= box.left < box.right <= 1.0
