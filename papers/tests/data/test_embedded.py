"""Fetched data sets are embedded once and replace their substitutes."""

import numpy as np
import pytest
from everlearn_papers.data import embedded
from everlearn_papers.slda import paper as slda
from everlearn_papers.transfer import paper as transfer
from PIL import Image

from everlearn.errors import NotAnImage
from everlearn.images.decode import decode
from everlearn.images.embedders import EfficientNetLite0


def write(path, rng):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(rng.integers(0, 256, (32, 32, 3), np.uint8)).save(path)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("EVERLEARN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "data"


def test_core50_one_frame_a_second(folder, rng):
    for session, number, frame in [(1, 6, 0), (1, 6, 1), (1, 6, 20), (3, 6, 40)]:
        name = f"s{session}/o{number}/C_{session:02}_{number:02}_{frame:03}.png"
        write(folder / "core50_128x128" / name, rng)
    data = embedded.core50()
    assert (len(data.train), len(data.test)) == (2, 1)
    path = folder / "core50_128x128" / "s1/o6/C_01_06_020.png"
    expected = EfficientNetLite0().embed([decode(path)])[0]
    np.testing.assert_allclose(data.train.X[1], expected, rtol=2e-3, atol=2e-3)
    assert slda.video_data() == "core50"


def test_features_are_cached_until_the_files_change(folder, rng, monkeypatch):
    write(folder / "256_ObjectCategories" / "007.bat" / "a.png", rng)
    before = embedded.caltech256()
    assert list(before) == ["bat"]
    assert transfer.source().features == ("caltech256",)
    made = []
    monkeypatch.setattr(embedded, "embed_sources", lambda *_: made.append(1) or iter([]))
    np.testing.assert_array_equal(embedded.caltech256()["bat"], before["bat"])
    assert not made
    monkeypatch.undo()


def test_an_unreadable_image_raises_a_named_error(folder, rng):
    write(folder / "256_ObjectCategories" / "007.bat" / "a.png", rng)
    (folder / "256_ObjectCategories" / "007.bat" / "b.png").write_bytes(b"nothing")
    with pytest.raises(NotAnImage, match=r"b\.png"):
        embedded.caltech256()


def test_without_fetched_files_the_substitutes_are_used(folder):
    assert slda.video_data() == "turntable"
    assert transfer.source().features[0] == "caltech101"
