"""everlearn: open-ended visual learning. Show it an example and a name, and it knows it at once."""

from typing import TYPE_CHECKING, Any

from everlearn.names import HOME, find

if TYPE_CHECKING:
    from everlearn.checks import check_learner
    from everlearn.learners.exstream import ExStream
    from everlearn.learners.ncm import NearestClassMean
    from everlearn.learners.rlsc import RecursiveRLSC
    from everlearn.learners.slda import StreamingLDA
    from everlearn.memory.learner import Learner
    from everlearn.persistence import load, save

__all__ = [
    "ExStream",
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
    if name not in HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = find(name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
