"""Proposals: selection from the network's outputs, and the network itself if installed."""

import sys

import numpy as np
import pytest
from PIL import Image, ImageDraw

from everlearn.errors import MissingPackage
from everlearn.regions.boxes import overlap
from everlearn.regions.proposals import LEAST_SCORE, MOST, Proposer, select_boxes


def test_chosen_boxes_are_likely_few_and_not_overlapping() -> None:
    random = np.random.default_rng(3)
    corners = random.uniform(-0.2, 0.9, (500, 2))
    boxes = np.hstack([corners, corners + random.uniform(0.0, 0.6, (500, 2))]).astype(np.float32)
    scores = random.uniform(0.0, 0.2, (80, 500)).astype(np.float32) ** 2
    found = select_boxes(boxes, scores, LEAST_SCORE, MOST)
    assert 0 < len(found.boxes) <= MOST
    assert (found.scores >= LEAST_SCORE).all()
    assert (np.diff(found.scores) <= 0).all()
    assert found.boxes.min() >= 0.0
    assert found.boxes.max() <= 1.0
    common = overlap(found.boxes, found.boxes) - np.eye(len(found.boxes))
    assert common.max() <= 0.6
    best = scores.max(axis=0)
    for box, score, kind in zip(found.boxes, found.scores, found.classes, strict=True):
        (index,) = np.flatnonzero(best.astype(np.float64) == score)
        assert kind == scores[:, index].argmax()
        assert np.allclose(np.clip(boxes[index], 0, 1), box)


def test_a_picture_without_things_has_no_boxes() -> None:
    nothing = select_boxes(np.zeros((5, 4), np.float32), np.zeros((80, 5), np.float32), 0.03, 15)
    assert nothing.boxes.shape == (0, 4)
    assert nothing.scores.shape == (0,)


def test_a_missing_network_says_how_to_install_it(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "everlearn_networks", None)
    with pytest.raises(MissingPackage, match=r"everlearn\[networks\]"):
        Proposer().propose(Image.new("RGB", (64, 64)))


def test_drawn_things_are_proposed() -> None:
    pytest.importorskip("everlearn_networks", reason="PicoDet is in everlearn-networks")
    pytest.importorskip("onnxruntime", reason="PicoDet runs in onnxruntime")
    picture = Image.new("RGB", (640, 480), (90, 120, 90))
    draw = ImageDraw.Draw(picture)
    for left in (60, 400):
        draw.ellipse((left, 140, left + 160, 300), fill=(230, 60, 40), outline=(60, 0, 0), width=8)
    found = Proposer().propose(picture)
    for left in (60, 400):
        true = np.array([[left / 640, 140 / 480, (left + 160) / 640, 300 / 480]])
        assert overlap(true, found.boxes).max() > 0.5
    again = Proposer().propose(picture)
    assert np.array_equal(again.boxes, found.boxes)
    assert np.array_equal(again.scores, found.scores)
