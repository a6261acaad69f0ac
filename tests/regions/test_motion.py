"""Motion: with a fixed camera, only moving things have a box."""

import numpy as np
import pytest
from PIL import Image

from everlearn.errors import InvalidParameter
from everlearn.regions.boxes import overlap
from everlearn.regions.motion import MotionProposer


def frame(left: int | None, brightness: int = 120) -> Image.Image:
    noise = np.random.default_rng(left or 0).integers(-4, 5, (120, 160, 3))
    pixels = np.clip(brightness + noise, 0, 255).astype(np.uint8)
    pixels[60:100, 20:60] = 30
    if left is not None:
        pixels[20:50, left : left + 30] = 230
    return Image.fromarray(pixels)


def test_moving_things_are_found_and_still_ones_are_not() -> None:
    proposer = MotionProposer()
    assert len(proposer.propose(frame(None)).boxes) == 0
    for left in (10, 40, 70, 100):
        found = proposer.propose(frame(left))
        true = np.array([[left / 160, 20 / 120, (left + 30) / 160, 50 / 120]])
        assert overlap(true, found.boxes).max() > 0.5
        still = np.array([[20 / 160, 60 / 120, 60 / 160, 100 / 120]])
        assert overlap(still, found.boxes).max() < 0.1


def test_still_frames_have_no_boxes() -> None:
    proposer = MotionProposer()
    for _ in range(3):
        assert len(proposer.propose(frame(None)).boxes) == 0


def test_switching_on_a_light_is_not_motion() -> None:
    proposer = MotionProposer()
    proposer.propose(frame(None))
    assert len(proposer.propose(frame(None, brightness=220)).boxes) == 0
    assert len(proposer.propose(frame(None, brightness=220)).boxes) == 0
    assert len(proposer.propose(frame(60, brightness=120)).boxes) == 0


def test_frames_of_another_size_restart_the_background() -> None:
    proposer = MotionProposer()
    proposer.propose(frame(10))
    assert len(proposer.propose(frame(10).resize((80, 60))).boxes) == 0
    with pytest.raises(InvalidParameter):
        MotionProposer(rate=0.0)
