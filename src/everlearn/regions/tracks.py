"""Tracks things over frames by assigning the boxes of each frame to tracks.

A track predicts its thing's position from its last box and its velocity. Boxes and tracks are
paired by the assignment with the least cost (Kuhn and Munkres) over

    cost = 1 − ½ overlap − ½ likeness,     likeness = cosine of the appearances, at least 0

where a pair is allowed if the boxes overlap by 0.2, or overlap at all or are close and look alike
(0.6). Appearance is any vector; a track keeps a running mean of it at length one.

The name of a track is decided by all of its frames (:class:`Evidence`). Cost per frame: O(n m d)
for n boxes, m tracks and vectors of length d.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from everlearn.errors import InvalidParameter
from everlearn.regions.boxes import Box, Boxes, overlap, rounded

Appearance = NDArray[np.float64]

# Smallest overlap of a pair, or smallest likeness of one that is close.
LEAST_OVERLAP = 0.2
LEAST_LIKENESS = 0.6
# Largest distance of the centres of a pair, in sides of the box.
MAX_JUMP = 1.0
# Weight of a new appearance, and of a new velocity, in the running means.
APPEARANCE_RATE = 0.2
VELOCITY_RATE = 0.5

# Largest difference between two names, in nats, that a single frame may contribute.
CAP = 2.0
# Lead over the second best that settles a name: more than one frame can contribute.
SETTLED = 3.0
# Probability left to all names together by an unknown frame, and to unknown by a known one.
DOUBT = 0.1


def votes(shares: Mapping[str, float], *, unknown: bool) -> dict[str | None, float]:
    """The evidence of one frame for each name and for unknown (``None``), from 0 to ``CAP`` nats.

    Log-probabilities, counted from ``CAP`` below the best, times the probability of the best.
    """
    known = DOUBT if unknown or not shares else 1.0 - DOUBT
    frame: dict[str | None, float] = {n: math.log(known * p + 1e-12) for n, p in shares.items()}
    frame[None] = math.log(1.0 - known)
    best = max(frame.values())
    least, weight = best - CAP, math.exp(best)
    return {name: weight * max(value - least, 0.0) for name, value in frame.items()}


class Evidence:
    """The name of a track, from all of its frames: a sum of log-probabilities per name.

    Frames of one thing are similar, so a single frame must not decide: its log-probabilities are
    limited to ``CAP`` below its best. An uncertain frame counts less: its contribution is
    multiplied by the probability of its best answer. *Unknown* (``None``) is one of the names.

    Parameters
    ----------
    fade : float, default=1.0
        Decay of earlier frames with each later one. Use less than 1 for a camera that may see one
        thing after another.

    Examples
    --------
    >>> from everlearn.regions.tracks import Evidence
    >>> evidence = Evidence()
    >>> for p in (0.9, 0.8, 0.2, 0.9):
    ...     evidence.add({"cup": p, "pen": 1 - p}, unknown=False)
    >>> evidence.name, evidence.settled
    ('cup', True)
    """

    def __init__(self, fade: float = 1.0) -> None:
        self._fade = fade
        self._sums: dict[str | None, float] = {}
        self.frames = 0

    def add(self, shares: Mapping[str, float], *, unknown: bool) -> None:
        """Add one frame: probabilities of the names, and whether it was called unknown."""
        frame = votes(shares, unknown=unknown)
        fewest = min(self._sums.values(), default=0.0)
        # A name that was added later, or removed, counts like the least likely one.
        self._sums = {
            name: self._fade * self._sums.get(name, fewest) + frame.get(name, 0.0)
            for name in self._sums.keys() | frame.keys()
        }
        self.frames += 1

    @property
    def name(self) -> str | None:
        """The best name; ``None`` for unknown."""
        return self._ranked()[0][0] if self._sums else None

    @property
    def lead(self) -> float:
        """The lead of the best name, in nats."""
        ranked = self._ranked()
        return ranked[0][1] - ranked[1][1] if len(ranked) > 1 else 0.0

    @property
    def settled(self) -> bool:
        """Whether the lead is large enough to tell the name."""
        return self.lead >= SETTLED

    def probability(self, name: str | None = None, *, best: bool = True) -> float:
        """Probability of the best name, or of another one, among all names and unknown."""
        if not self._sums:
            return 0.0
        highest = max(self._sums.values())
        own = highest if best else self._sums.get(name, -math.inf)
        return math.exp(own - highest) / sum(math.exp(v - highest) for v in self._sums.values())

    def _ranked(self) -> list[tuple[str | None, float]]:
        return sorted(self._sums.items(), key=lambda pair: (-pair[1], pair[0] or ""))


@dataclass
class Track:
    """One thing over several frames.

    Attributes
    ----------
    id : int
        1, 2, 3 … in the order in which things appeared.
    box : Box
        Its current or last position.
    seen : int
        Number of frames in which it was found.
    missed : int
        Number of frames since then.
    evidence : Evidence
    """

    id: int
    box: Box
    appearance: Appearance
    seen: int = 1
    missed: int = 0
    evidence: Evidence = field(default_factory=Evidence)
    velocity: tuple[float, float] = (0.0, 0.0)

    def expected(self) -> tuple[float, float, float, float]:
        """Predicted position in the next frame."""
        across, down = (speed * (self.missed + 1) for speed in self.velocity)
        left, top, right, bottom = self.box
        return left + across, top + down, right + across, bottom + down

    def update(self, box: Box, appearance: Appearance) -> None:
        """Update after the thing was found in a frame."""
        steps = self.missed + 1
        moved = [
            (box[i] + box[i + 2] - self.box[i] - self.box[i + 2]) / 2.0 / steps for i in (0, 1)
        ]
        across, down = (
            (1.0 - VELOCITY_RATE) * old + VELOCITY_RATE * new
            for old, new in zip(self.velocity, moved, strict=True)
        )
        self.velocity = (across, down)
        self.appearance = _unit(
            (1.0 - APPEARANCE_RATE) * self.appearance + APPEARANCE_RATE * appearance
        )
        self.box, self.seen, self.missed = box, self.seen + 1, 0


class Tracker:
    """Assigns the boxes of successive frames to tracks.

    Parameters
    ----------
    patience : int, default=15
        A track ends when its thing has been missed in more frames than this.
    """

    def __init__(self, *, patience: int = 15) -> None:
        if patience < 0:
            raise InvalidParameter(f"patience must be at least 0 frames, not {patience}")
        self.patience = patience
        self.tracks: list[Track] = []
        self.ended: list[Track] = []
        self._count = 0

    def update(self, boxes: Sequence[Box], appearances: Sequence[Appearance]) -> list[Track]:
        """The track of every box of a new frame; ``ended`` holds tracks that were dropped."""
        units = [_unit(np.asarray(a, dtype=np.float64)) for a in appearances]
        pairs = dict(self._assign(boxes, units))
        found: list[Track] = []
        for index, (box, unit) in enumerate(zip(boxes, units, strict=True)):
            if index in pairs:
                track = self.tracks[pairs[index]]
                track.update(box, unit)
            else:
                self._count += 1
                track = Track(self._count, rounded(box), unit)
            found.append(track)
        seen = {track.id for track in found}
        for track in self.tracks:
            track.missed += track.id not in seen
        all_tracks = {track.id: track for track in (*self.tracks, *found)}.values()
        self.ended = [track for track in all_tracks if track.missed > self.patience]
        self.tracks = [track for track in all_tracks if track.missed <= self.patience]
        return found

    def _assign(self, boxes: Sequence[Box], units: list[Appearance]) -> list[tuple[int, int]]:
        """Pairs of the indices of a box and its track."""
        if not boxes or not self.tracks:
            return []
        from scipy.optimize import linear_sum_assignment

        found = np.array(boxes, dtype=np.float64)
        expected = np.array([track.expected() for track in self.tracks])
        common = overlap(found, expected)
        likeness = np.clip(
            np.stack(units) @ np.stack([t.appearance for t in self.tracks]).T, 0.0, 1.0
        )
        possible = (common >= LEAST_OVERLAP) | (
            _close(found, expected) & (likeness >= LEAST_LIKENESS)
        )
        cost = np.where(possible, 1.0 - 0.5 * common - 0.5 * likeness, 10.0)
        rows, columns = linear_sum_assignment(cost)
        return [(int(r), int(c)) for r, c in zip(rows, columns, strict=True) if possible[r, c]]


def _close(a: Boxes, b: Boxes) -> NDArray[np.bool_]:
    """Whether the centres are within a box's side of each other."""
    gaps = np.abs((a[:, None, :2] + a[:, None, 2:]) - (b[None, :, :2] + b[None, :, 2:])) / 2.0
    sides = np.maximum(a[:, None, 2:] - a[:, None, :2], b[None, :, 2:] - b[None, :, :2])
    return np.asarray((gaps <= MAX_JUMP * sides).all(axis=2))


def _unit(vector: Appearance) -> Appearance:
    length = float(np.linalg.norm(vector))
    return vector / length if length > 0.0 else vector
