"""The arrays that are spoken of here, and how a caller's values become one of them."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Single = NDArray[np.float32]
Whole = NDArray[np.int64]
Mask = NDArray[np.bool_]
Slots = NDArray[np.intp]
AnyArray = NDArray[Any]

# What a learner writes down: named arrays, and notes made of plain values.
State = tuple[dict[str, AnyArray], dict[str, Any]]


def as_numpy(values: ArrayLike) -> AnyArray:
    """Values of any kind as a numpy array; a tensor without its gradient, wherever it lies.

    numpy has no bfloat16, so such a tensor becomes float32, which holds all of its values.
    """
    if type(values) is np.ndarray:
        return values
    if hasattr(values, "detach"):
        tensor: Any = values.detach().cpu()
        values = tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor
        return np.asarray(values)
    there: Any = values
    if hasattr(there, "__cuda_array_interface__"):
        return np.asarray(there.get())
    if hasattr(there, "__array_namespace__") and hasattr(there, "to_device"):
        there = there.to_device(there.__array_namespace__().asarray(0).device)
    return np.asarray(there)


def softmax(scores: Array) -> Array:
    """exp(s_k) / Σ exp(s_j) along the last axis; −∞ is a share of zero."""
    shares: Array = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    return shares


def unit_rows(rows: Array) -> Array:
    """Rows at length one; a row of zeros stays zero."""
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)


def signed_power(rows: Array, power: float) -> Array:
    """sign(x) |x|^p, element by element."""
    if power == 1.0:
        return rows
    size = np.abs(rows)
    raised = np.sqrt(size) if power == 0.5 else size**power
    return np.copysign(raised, rows)
