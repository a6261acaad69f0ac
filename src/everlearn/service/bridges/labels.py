"""Labels of another system: taught while they exist there, forgotten once they are gone.

Each label is one teaching whose source names it, so the Memory itself is the record of what was
taught: a bridge may be stopped and started at any time, and comparing two sets of sources tells
what to do.
"""

import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from everlearn.errors import CannotReach, CannotRead, InvalidInput, UnknownLabel
from everlearn.memory.answers import Answers
from everlearn.memory.finding import Thing

LOG = logging.getLogger("everlearn.service")


class BridgedMemory(Protocol):
    """The methods a bridge needs of a Memory or a client."""

    def teach(
        self, example: Any, name: str, *, box: Any, source: str | None, again: bool, also: bool
    ) -> bool: ...

    def ask(self, example: Any, *, box: Any = None, top: int | None) -> Answers: ...

    def find(self, image: Any, *, top: int | None) -> list[Thing]: ...

    def forget(self, *, source: str | None) -> Any: ...

    def teachings(self) -> Any: ...

    def info(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Label:
    """A name that another system holds for a picture or a part of it.

    Attributes
    ----------
    name : str
    picture : callable
        Returns the picture, as ``Memory.teach`` takes it; called only if it is taught.
    rectangle : tuple of float, optional
        The part of the picture: left, top, width, height, as shares of its sides.
    """

    name: str
    picture: Callable[[], Any]
    rectangle: tuple[float, float, float, float] | None = None

    @property
    def digest(self) -> str:
        """Changes with the name and the rectangle."""
        return hashlib.blake2b(
            repr((self.name, self.rectangle)).encode(), digest_size=8
        ).hexdigest()


@dataclass(frozen=True)
class Review:
    """What a bridge did in one review: labels taught and forgotten, pictures asked about."""

    taught: int
    forgotten: int
    recognised: int
    unknown: int


class FollowedLabels:
    """Keeps a Memory equal to the labels of another system.

    Parameters
    ----------
    memory : Memory or Client
    origin : str
        Beginning of the source of every label, such as ``"immich/USER"``.
    """

    def __init__(self, memory: BridgedMemory, origin: str) -> None:
        self._memory = memory
        self._origin = origin + "/"
        # The sources of the Memory at this length of its log.
        self._read_at: int | None = None
        self._known: frozenset[str] = frozenset()
        # Labels that cannot be taught, such as a damaged picture; each is reported once.
        self._refused: set[str] = set()

    def taught(self) -> frozenset[str]:
        """The keys of all labels that the Memory was taught."""
        length = self._memory.info()["log_entries"]
        if length != self._read_at:
            sources = (teaching.source or "" for teaching in self._memory.teachings())
            self._known = frozenset(
                source.removeprefix(self._origin)
                for source in sources
                if source.startswith(self._origin)
            )
            self._read_at = length
        return self._known

    def follow(self, labels: Mapping[str, Label]) -> tuple[list[str], list[str]]:
        """Teach the labels that are new and forget those that are gone; returns the keys of both.

        A label that changes must change its key as well.
        """
        known = self.taught()
        gone = sorted(known - labels.keys())
        for key in gone:
            forget_source(self._memory, self._origin + key)
        self._refused &= labels.keys()
        new = [key for key in labels if key not in known and key not in self._refused]
        return [key for key in new if self._teach(key, labels[key])], gone

    def _teach(self, key: str, label: Label) -> bool:
        source = self._origin + key
        try:
            box = None if label.rectangle is None else box_within(*label.rectangle)
            self._memory.teach(
                label.picture(), label.name, box=box, source=source, again=True, also=True
            )
        except (CannotReach, CannotRead) as error:
            LOG.warning("%s is tried again later: %s", source, error)
            return False
        except InvalidInput as error:
            LOG.warning("%s cannot be learned: %s", source, error)
            self._refused.add(key)
            return False
        return True


def forget_source(memory: BridgedMemory, source: str) -> int:
    """Forget what was taught from a source; returns how many teachings that were."""
    try:
        return int(memory.forget(source=source).count)
    except UnknownLabel:
        return 0


def box_within(
    left: float, top: float, width: float, height: float
) -> tuple[float, float, float, float]:
    """The part of a rectangle that is inside its picture: left, top, right, bottom, as shares."""
    edges = (left, top, left + width, top + height)
    left, top, right, bottom = (min(max(edge, 0.0), 1.0) for edge in edges)
    if not (right > left and bottom > top):
        raise InvalidInput(f"the rectangle {edges} contains no part of the picture")
    return left, top, right, bottom
