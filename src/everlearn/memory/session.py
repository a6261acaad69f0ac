"""A steady answer for a stream of frames: it changes when the frames since some moment say so.

The frames of a camera differ slightly, and near the limit of *unknown* or between two names the
answer to each alone flickers. The answer begins as that of the first frame, and is settled when it
leads clearly (:class:`everlearn.regions.tracks.Evidence`). Each other name k has a sum

    C_k ← max(0, C_k + v_k − v_told)        v: what the frame says (everlearn.regions.tracks.votes)

and the answer changes to k when C_k exceeds a threshold. This is Page's test for a change (CUSUM;
Page, *Continuous inspection schemes*, Biometrika 41, 1954): frames for the current answer do not
add up, so a new thing is told equally soon however long the old one was seen.
"""

from everlearn.memory.answers import Answers, Steady
from everlearn.memory.words import require_count
from everlearn.regions.tracks import CAP, Evidence, votes

FRAMES = 6
# The threshold of a change per frame of the window. At six frames it is more than two can say.
PER_FRAME = 0.375 * CAP


class Session:
    """Steadies the answers to successive frames of one camera.

    Parameters
    ----------
    frames : int, default=6
        Window of the votes. A new thing is told after about half as many frames that are sure of
        it.

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
        self._told: tuple[str | None, ...] = ()
        self._settled = False
        self._against: dict[str | None, float] = {}

    def add(self, answers: Answers) -> Steady:
        """Add one frame; returns the combined answer."""
        shares = {answer.name: answer.probability for answer in answers}
        self._evidence.add(shares, unknown=answers.unknown)
        moved = self._moves(votes(shares, unknown=answers.unknown))
        if moved:
            self._evidence = Evidence(self._fade)
            self._evidence.add(shares, unknown=answers.unknown)
        first = not self._settled and (moved or self._evidence.settled)
        if first and not moved:
            self._told = (self._evidence.name,)
        self._settled = self._settled or first
        (name,) = self._told
        chance = self._evidence.probability(name, best=False)
        return Steady(name, chance, self._settled, first or moved)

    def _moves(self, frame: dict[str | None, float]) -> bool:
        """Count one frame; whether the answer is another one from now on."""
        if not self._told:
            self._told = (self._evidence.name,)
            return False
        (told,) = self._told
        own = frame.get(told, 0.0)
        self._against = {
            name: max(0.0, self._against.get(name, 0.0) + frame.get(name, 0.0) - own)
            for name in self._against.keys() | frame.keys()
        }
        best = max(self._against, key=lambda name: (self._against[name], name or ""))
        if self._against[best] <= self._threshold:
            return False
        self._told, self._against = (best,), {}
        return True
