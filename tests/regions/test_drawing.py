"""Videos with drawn boxes: frames come back, and a full disk is a named error."""

from pathlib import Path

import numpy as np
import pytest

from everlearn.errors import CannotWrite
from everlearn.images.video import frames
from everlearn.regions.drawing import VideoFile

pytest.importorskip("av", reason="PyAV writes videos")


def test_written_frames_are_read_back(tmp_path) -> None:
    path = tmp_path / "film.mp4"
    with VideoFile(path, rate=5) as film:
        for brightness in (40, 120, 200):
            film.write(np.full((65, 97, 3), brightness, dtype=np.uint8))
    shown = [frame.opened() for frame in frames(path, 0.2)]
    assert [pixels.shape for pixels in shown] == [(64, 96, 3)] * 3
    assert [abs(pixels.mean() - b) < 6 for pixels, b in zip(shown, (40, 120, 200), strict=True)]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device /dev/full")
def test_a_full_disk_raises_a_named_error(tmp_path, rng) -> None:
    (tmp_path / "film.mp4").symlink_to("/dev/full")
    with (
        pytest.raises(CannotWrite, match=r"film\.mp4 cannot be written"),
        VideoFile(tmp_path / "film.mp4", rate=10) as film,
    ):
        film.write(rng.integers(0, 256, (64, 64, 3), dtype=np.uint8))
