"""One stable answer for a stream of frames: a vote over the latest frames with hysteresis.

A camera pointed at one scene gives slightly different pictures, and near the threshold of *unknown*
or between two names the answers to single frames flicker. A session sums the evidence of its frames
(:class:`everlearn.regions.tracks.Evidence`: log-probabilities, capped per frame) with decay: after
n frames without it, a vote counts (1 − 1/frames)ⁿ. The answer changes when another name, or
*unknown*, leads by more than a single frame can contribute.
"""

from everlearn.memory.answers import Answers, Steady
from everlearn.memory.words import require_count
from everlearn.regions.tracks import Evidence

FRAMES = 6


class Session:
    """Stabilises the answers to successive frames of one camera.

    Parameters
    ----------
    frames : int, default=6
        Approximate number of frames in the vote. A new thing is reported after about as many.

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
        self._evidence = Evidence(fade=1.0 - 1.0 / frames)
        self._told: tuple[str | None, ...] = ()

    def add(self, answers: Answers) -> Steady:
        """Add one frame; returns the combined answer."""
        shares = {answer.name: answer.probability for answer in answers}
        self._evidence.add(shares, unknown=answers.unknown)
        name = self._evidence.name
        changed = self._evidence.settled and (name,) != self._told
        if changed:
            self._told = (name,)
        elif self._told:
            name = self._told[0]
        return Steady(name, self._evidence.probability(name, best=False), bool(self._told), changed)
