"""A steady answer for a stream of frames, which does not flicker with single frames.

Successive frames of a camera differ slightly, so near the threshold of *unknown*, or between two
names, the answers to single frames alternate. The combined answer begins as that of the first
frame, and is settled when it leads clearly (:class:`everlearn.regions.tracks.Evidence`). Each other
name k has a sum

    C_k ← max(0, C_k + v_k − v_current)     v: votes of the frame (everlearn.regions.tracks.votes)

and the answer changes to k when C_k exceeds a threshold. This is Page's test for a change (CUSUM;
Page, *Continuous inspection schemes*, Biometrika 41, 1954). Frames that confirm the current answer
do not accumulate, so a new thing is recognised equally soon however long the old one was seen.
"""

from everlearn.memory.answers import Answers, Steady
from everlearn.memory.words import require_count
from everlearn.regions.tracks import CAP, Evidence, votes

FRAMES = 6
# Threshold of a change, per frame of the window: for a window of six, more than two frames can add.
PER_FRAME = 0.375 * CAP


class Session:
    """Steadies the answers to successive frames of one camera.

    Parameters
    ----------
    frames : int, default=6
        Window of the votes. The answer changes after about half as many confident frames of a new
        thing.

    Examples
    --------
    >>> from everlearn.memory.answers import Answer, Answers
    >>> from everlearn.memory.session import Session
    >>> session = Session()
    >>> for unknown in (False, False, True, False):
    ...     seen = Answers([Answer("cup", 0.9)], unknown=unknown, familiarity=0.5, threshold=0.5)
    ...     print(session.add(seen).name)
    cup
    cup
    cup
    cup
    """

    def __init__(self, frames: int = FRAMES) -> None:
        require_count("frames", frames, least=1)
        self._fade = 1.0 - 1.0 / frames
        self._threshold = PER_FRAME * frames
        self._evidence = Evidence(self._fade)
        # Empty before the first frame, then one name; ``None`` for unknown.
        self._current: tuple[str | None, ...] = ()
        self._settled = False
        self._against: dict[str | None, float] = {}

    def add(self, answers: Answers) -> Steady:
        """Add one frame; returns the combined answer."""
        shares = {answer.name: answer.probability for answer in answers}
        self._evidence.add(shares, unknown=answers.unknown)
        changed = self._changes(votes(shares, unknown=answers.unknown))
        if changed:
            self._evidence = Evidence(self._fade)
            self._evidence.add(shares, unknown=answers.unknown)
        first = not self._settled and (changed or self._evidence.settled)
        if first and not changed:
            self._current = (self._evidence.name,)
        self._settled = self._settled or first
        (name,) = self._current
        chance = self._evidence.probability(name, best=False)
        return Steady(name, chance, self._settled, first or changed)

    def _changes(self, frame: dict[str | None, float]) -> bool:
        """Add the votes of one frame; returns whether the answer has changed."""
        if not self._current:
            self._current = (self._evidence.name,)
            return False
        (current,) = self._current
        own = frame.get(current, 0.0)
        self._against = {
            name: max(0.0, self._against.get(name, 0.0) + frame.get(name, 0.0) - own)
            for name in self._against.keys() | frame.keys()
        }
        best = max(self._against, key=lambda name: (self._against[name], name or ""))
        if self._against[best] <= self._threshold:
            return False
        self._current, self._against = (best,), {}
        return True
