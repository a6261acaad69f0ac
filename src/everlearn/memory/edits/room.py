"""Whether this machine has the memory for vectors of a length, before the first one is written.

Most classifiers keep a matrix of the length squared: with 200,000 features it takes 300 GB, and a
Memory that was taught one such vector could never be asked.
"""

import math
import os
from typing import Any

import numpy as np
from sklearn.base import clone

from everlearn.errors import InvalidInput
from everlearn.size import size_in_bytes

# Vectors up to this length always fit: a matrix of the length squared takes 134 MB.
ALWAYS_FITS = 4096
# Lengths of the vectors on which the size of a classifier is measured.
MEASURED = (256, 512)


def require_room(classifier: Any, width: int) -> None:
    """Require that the classifier, taught vectors of this length, fits into memory."""
    most = physical_bytes()
    if width <= ALWAYS_FITS or most is None:
        return
    needed = estimated_bytes(classifier, width)
    if needed > most:
        raise InvalidInput(
            f"a classifier of vectors of {width:,} features takes about {needed / 1e9:,.0f} GB, "
            f"and this machine has {most / 1e9:,.0f} GB of memory; give shorter vectors, or first "
            "switch to a classifier without a matrix: everlearn use mean, in Python "
            "use(classifier='mean')"
        )


def estimated_bytes(classifier: Any, width: int) -> float:
    """The size of a classifier of long vectors, from its growth between two short lengths."""
    sizes = [_size(classifier, short) for short in MEASURED]
    growth = max(0.0, math.log2(sizes[1] / sizes[0]))
    return float(sizes[1] * (width / MEASURED[1]) ** growth)


def physical_bytes() -> int | None:
    """The memory of this machine; ``None`` where it is not known."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _size(classifier: Any, width: int) -> int:
    made = clone(classifier)
    made.partial_fit(np.eye(2, width), np.array([1, 2]))
    return size_in_bytes(made)
