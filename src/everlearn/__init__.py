"""everlearn: open-ended visual learning. Show it an example and a name, and it knows it at once."""

from typing import TYPE_CHECKING, Any

from everlearn.checks import check_learner
from everlearn.learners.ncm import NearestClassMean
from everlearn.learners.rlsc import RecursiveRLSC
from everlearn.learners.slda import StreamingLDA
from everlearn.persistence import load, save

if TYPE_CHECKING:
    from everlearn.memory.learner import Learner

__all__ = [
    "Learner",
    "NearestClassMean",
    "RecursiveRLSC",
    "StreamingLDA",
    "check_learner",
    "load",
    "save",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # Reading and keeping images is a room of its own; who only classifies does not wait for it.
    if name == "Learner":
        from everlearn.memory.learner import Learner

        return Learner
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
