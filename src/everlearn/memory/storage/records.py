"""What is written down of teachings and read back, as plain values."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from everlearn.memory.storage.regions import PictureProposals, TaughtBox, given_box
from everlearn.regions.boxes import Box

Vectors = NDArray[np.float32]
NameIds = NDArray[np.int64]
Sameness = tuple[bytes, Box | None]


@dataclass(frozen=True)
class Example:
    """What is written down of one teaching; ``embedder`` is empty for a vector from outside.

    ``region`` is the part of the picture it is about, ``None`` for all of it; ``proposals`` are
    what else was seen in the picture. ``taught_at`` is when it was taught first, if not now.
    """

    vector: Vectors
    source: str
    digest: bytes
    thumbnail: bytes = b""
    embedder: str = ""
    image: bytes = b""
    region: TaughtBox | None = None
    proposals: PictureProposals | None = None
    taught_at: float | None = None

    @property
    def same_as(self) -> Sameness:
        """Equal for two examples of the same image and the same given box."""
        return self.digest, given_box(self.region)


@dataclass(frozen=True)
class NameRecord:
    """What is known of a name: how many teachings count, and when the last one came."""

    count: int
    last_taught: float


@dataclass(frozen=True)
class Teaching:
    """One labelled example as it is kept; ``box`` is the part of the picture it is about."""

    id: int
    name: str
    source: str
    taught_at: float
    has_thumbnail: bool
    box: Box | None = None


@dataclass(frozen=True)
class LogRun:
    """Consecutive log entries of one sign within one window."""

    sign: int
    vectors: Vectors
    names: NameIds
