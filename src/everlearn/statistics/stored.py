"""Arrays out of a file: right in shape before compiled code, which checks nothing, sees them."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


def stored(
    arrays: dict[str, NDArray[Any]],
    name: str,
    *shape: int | None,
    dtype: DTypeLike = np.float64,
) -> NDArray[Any]:
    """A copy of one array; ``ValueError`` if it has another shape (None: any length)."""
    array = np.array(arrays[name], dtype=dtype, order="C")
    fits = array.ndim == len(shape) and all(
        wanted in (None, length) for wanted, length in zip(shape, array.shape, strict=True)
    )
    if not fits:
        raise ValueError(f"{name} has shape {array.shape}, expected {shape}")
    return array
