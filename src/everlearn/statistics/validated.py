"""Validation of deserialized arrays and notes, before compiled code uses them.

A file may be intact and yet not describe a valid state. Everything read from one is checked here:
its type, its shape, that it is finite, and the range a learner needs. An error names the field that
is wrong.
"""

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from everlearn.arrays import OwnedArray
from everlearn.errors import DamagedModel


def validated_array(
    arrays: dict[str, NDArray[Any]],
    name: str,
    *shape: int | None,
    dtype: DTypeLike = np.float64,
    least: float | None = None,
    most: float | None = None,
    missing: bool = False,
) -> NDArray[Any]:
    """A validated array: a copy, or the array itself if nobody else holds it.

    Raises ``DamagedModel`` if it is missing, has another type or shape (None: any length), has a
    value below ``least`` or above ``most``, or one that is not finite (NaN is allowed if
    ``missing``).
    """
    array = _found(arrays, name)
    wanted = np.dtype(dtype)
    if not isinstance(array, np.ndarray) or array.dtype.kind not in _KINDS[wanted.kind]:
        kind = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        raise DamagedModel(f"{name} holds {kind} values, expected {wanted}")
    fits = array.ndim == len(shape) and all(
        length in (None, found) for length, found in zip(shape, array.shape, strict=True)
    )
    if not fits:
        raise DamagedModel(f"{name} has shape {array.shape}, expected {shape}")
    if array.size:
        # Two passes without temporary arrays, which might not fit in memory.
        lowest, highest = (np.nanmin, np.nanmax) if missing else (np.min, np.max)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # all missing
            low, high = lowest(array), highest(array)
        if wanted.kind == "f" and (np.isinf([low, high]).any() or (low != low and not missing)):
            raise DamagedModel(f"{name} holds values that are not finite")
        if least is not None and low < least:
            raise DamagedModel(f"{name} holds a value below {least:g}")
        if most is not None and high > most:
            raise DamagedModel(f"{name} holds a value above {most:g}")
    if isinstance(array, OwnedArray) and array.dtype == wanted:
        return array.view(np.ndarray)
    return np.array(array, dtype=wanted, order="C")


def validated_integer(
    notes: dict[str, Any], name: str, *, least: int = 0, most: int | None = None
) -> int:
    """An integer among the notes, within limits."""
    value = _found(notes, name)
    if type(value) is not int or value < least or (most is not None and value > most):
        limits = f"from {least}" + ("" if most is None else f" to {most}")
        raise DamagedModel(f"{name} is {_shown(value)}, expected an integer {limits}")
    return value


def validated_number(
    notes: dict[str, Any],
    name: str,
    *,
    least: float = -math.inf,
    above: float = -math.inf,
    most: float = math.inf,
) -> float:
    """A finite number among the notes, within limits."""
    value = _found(notes, name)
    number = type(value) in (int, float) and abs(value) <= np.finfo(np.float64).max
    if not number or not (least <= value <= most and value > above):
        raise DamagedModel(f"{name} is {_shown(value)}, which is not a number in its range")
    return float(value)


def validated_flag(notes: dict[str, Any], name: str) -> bool:
    """True or false, among the notes."""
    value = _found(notes, name)
    if type(value) is not bool:
        raise DamagedModel(f"{name} is {_shown(value)}, expected true or false")
    return value


def validated_strings(notes: dict[str, Any], name: str, length: int) -> list[str]:
    """A list of ``length`` strings among the notes."""
    value = _found(notes, name)
    words = isinstance(value, list) and all(isinstance(word, str) for word in value)
    if not words or len(value) != length:
        raise DamagedModel(f"{name} is {_shown(value)}, expected {length} strings")
    return list(value)


# Which array types are accepted for which: integers for floats, but never the reverse.
_KINDS = {"f": "fiu", "i": "iu", "u": "iu", "b": "b"}


def _found(fields: dict[str, Any], name: str) -> Any:
    if name not in fields:
        raise DamagedModel(f"{name} is missing")
    return fields[name]


def _shown(value: object, most: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= most else text[: most - 1] + "…"
