"""Tracks: things that move keep their number, and all frames together decide a name."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlearn.errors import InvalidParameter
from everlearn.regions.boxes import Box
from everlearn.regions.tracks import CAP, DOUBT, Evidence, Tracker


def look(kind: int) -> np.ndarray:
    return np.eye(4)[kind]


def square(x: float, y: float, side: float = 0.2) -> Box:
    return Box(x, y, x + side, y + side)


def test_two_things_that_cross_keep_their_numbers() -> None:
    tracker = Tracker()
    for step in range(20):
        x = step * 0.04
        boxes = [square(x, 0.4), square(0.76 - x, 0.4)]
        kinds = [0, 1]
        if step % 2:  # the order of the boxes has no meaning
            boxes, kinds = boxes[::-1], kinds[::-1]
        tracks = tracker.update(boxes, [look(kind) for kind in kinds])
        assert [track.id for track in tracks] == [1 + kind for kind in kinds]


def test_a_briefly_hidden_thing_keeps_its_track() -> None:
    tracker = Tracker(patience=3)
    for x in (0.1, 0.14, 0.18):
        (track,) = tracker.update([square(x, 0.1)], [look(0)])
    for _ in range(3):
        assert tracker.update([], []) == []
    (again,) = tracker.update([square(0.34, 0.1)], [look(0)])
    assert again.id == track.id
    assert again.missed == 0


def test_a_track_ends_after_its_patience() -> None:
    tracker = Tracker(patience=1)
    tracker.update([square(0.1, 0.1)], [look(0)])
    tracker.update([], [])
    assert len(tracker.tracks) == 1
    tracker.update([], [])
    assert [track.id for track in tracker.ended] == [1]
    assert tracker.tracks == []
    (new,) = tracker.update([square(0.1, 0.1)], [look(0)])
    assert new.id == 2
    with pytest.raises(InvalidParameter):
        Tracker(patience=-1)


def test_a_distant_box_starts_another_track() -> None:
    tracker = Tracker()
    tracker.update([square(0.0, 0.0)], [look(0)])
    (other,) = tracker.update([square(0.7, 0.7)], [look(0)])
    assert other.id == 2


frames = st.lists(st.tuples(st.floats(0.001, 0.999), st.booleans()), min_size=1, max_size=30)


@given(frames)
def test_evidence_is_a_capped_sum_weighted_by_confidence(pairs) -> None:
    evidence = Evidence()
    totals = np.zeros(3)
    for p, unknown in pairs:
        evidence.add({"a": p, "b": 1 - p}, unknown=unknown)
        known = DOUBT if unknown else 1 - DOUBT
        logs = np.log([known * p, known * (1 - p), 1 - known])
        totals += np.exp(logs.max()) * (np.maximum(logs, logs.max() - CAP) - logs.max())
    ranked = np.sort(totals)[::-1]
    assert evidence.lead == pytest.approx(ranked[0] - ranked[1], abs=1e-6)
    if evidence.lead > 1e-6:
        assert evidence.name == ("a", "b", None)[int(totals.argmax())]
    shares = np.exp(totals - totals.max())
    assert evidence.probability() == pytest.approx(shares.max() / shares.sum(), rel=1e-5)


def test_one_frame_never_settles_a_name() -> None:
    evidence = Evidence()
    evidence.add({"cup": 1.0, "pen": 0.0}, unknown=False)
    assert evidence.name == "cup"
    assert not evidence.settled
    evidence.add({"cup": 1.0, "pen": 0.0}, unknown=False)
    assert evidence.settled


def test_many_uncertain_frames_do_not_outvote_a_few_confident_ones() -> None:
    evidence = Evidence()
    for _ in range(6):
        evidence.add({"cup": 0.12, "pen": 0.30, "pot": 0.29, "jug": 0.29}, unknown=False)
    for _ in range(2):
        evidence.add({"cup": 0.97, "pen": 0.01, "pot": 0.01, "jug": 0.01}, unknown=False)
    assert evidence.name == "cup"


def test_evidence_is_empty_before_the_first_frame() -> None:
    evidence = Evidence()
    assert evidence.name is None
    assert evidence.lead == 0.0
    assert evidence.probability() == 0.0
    evidence.add({}, unknown=True)
    assert evidence.name is None
    assert math.isclose(evidence.probability(), 1.0)


def test_a_name_taught_later_can_still_win() -> None:
    evidence = Evidence()
    for _ in range(3):
        evidence.add({"cup": 1.0}, unknown=True)
    assert evidence.name is None
    for _ in range(8):
        evidence.add({"cup": 0.0, "pen": 1.0}, unknown=False)
    assert evidence.name == "pen"
    assert evidence.settled
