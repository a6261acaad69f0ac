"""Array types, and conversion of a caller's values to arrays."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Single = NDArray[np.float32]
Whole = NDArray[np.int64]
Mask = NDArray[np.bool_]
Slots = NDArray[np.intp]
AnyArray = NDArray[Any]


# Arrays of so many bytes are copied by two threads: where a virtual machine has to get the memory
# from its host, which takes ten times as long as the copy, that halves the time.
LARGE_COPY = 2**26


class OwnedArray(np.ndarray[Any, np.dtype[Any]]):
    """An array in a private mapping of a file: not shared, so it need not be copied."""


# The state of a learner: named arrays, and notes made of plain values.
State = tuple[dict[str, AnyArray], dict[str, Any]]


def as_numpy(values: ArrayLike) -> AnyArray:
    """Values of any kind as a numpy array; tensors are detached and copied from their device.

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


def padded(array: AnyArray, length: int, fill: float = 0) -> AnyArray:
    """A copy with capacity for ``length`` rows; the additional ones hold ``fill``."""
    shape = (length, *array.shape[1:])
    # Memory for zeros is only touched where it is written: capacity costs nothing until used.
    grown = np.full(shape, fill, array.dtype) if fill else np.zeros(shape, array.dtype)
    if array.nbytes < LARGE_COPY:
        grown[: len(array)] = array
        return grown
    middle = len(array) // 2
    halves = slice(0, middle), slice(middle, len(array))
    with ThreadPoolExecutor(len(halves)) as pool:
        list(pool.map(lambda half: np.copyto(grown[half], array[half]), halves))
    return grown


def lies_on_device(values: object) -> bool:
    """Whether an array is on a device that numpy cannot read."""
    if isinstance(values, (np.ndarray, list, tuple, float, int)):
        return False
    array: Any = values
    if hasattr(array, "detach"):
        return bool(array.device.type != "cpu")
    if hasattr(array, "__cuda_array_interface__"):
        return True
    if hasattr(array, "__array_namespace__") and hasattr(array, "to_device"):
        return bool(array.device != array.__array_namespace__().asarray(0).device)
    return False


def like(result: Any, given: object) -> Any:
    """A result as the same kind of array as ``given``, on its device."""
    if not lies_on_device(given):
        result = as_numpy(result)
    if isinstance(given, np.ndarray) or type(result) is not np.ndarray:
        return result
    array: Any = given
    if hasattr(array, "detach"):
        import torch

        return torch.as_tensor(result, device=array.device)
    if hasattr(array, "__cuda_array_interface__"):
        import cupy

        with array.device:
            return cupy.asarray(result)
    if hasattr(array, "__array_namespace__"):
        return array.__array_namespace__().asarray(result, device=array.device)
    return result


def softmax(scores: Any, xp: Any = np) -> Any:
    """exp(s_k) / Σ exp(s_j) along the last axis; −∞ gives zero."""
    shares = scores - xp.max(scores, axis=-1, keepdims=True)
    # In place: with many classes, new memory takes longer than exp.
    shares = xp.exp(shares, out=shares) if _is_of_floats(shares) else xp.exp(shares)
    shares /= xp.sum(shares, axis=-1, keepdims=True)
    return shares


def _is_of_floats(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.kind == "f"


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
