"""Validates input and constructor arguments before anything is learned or asked.

Every cause has its own exception. This file does not depend on any learner. ``checked_…`` functions
return arrays that compiled code may trust: finite, contiguous, of the right shape. ``require_…``
functions take a constructor argument's name and value, and raise ``InvalidParameter`` with a
message that says what was expected and what was given.
"""

import math
import operator
import warnings
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, DTypeLike
from scipy.linalg.blas import ddot, sdot
from sklearn.utils.validation import column_or_1d

from everlearn.arrays import AnyArray, Array, as_numpy, lies_on_device
from everlearn.errors import (
    InvalidLabel,
    InvalidParameter,
    InvalidWeight,
    NotFinite,
    WrongKind,
    WrongShape,
    WrongWidth,
)

# BLAS computes a product of vectors of this length on one thread.
PART = 10_000
# Types that every namespace accepts.
DENSE_KINDS = tuple(
    np.dtype(kind) for kind in ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "?"]
)
# Warn if the mean of a batch of at least MIN_ROWS_TO_WARN is more than MAX_OFFSET deviations from
# zero: linear Passive-Aggressive steps and those of ExStream are nearly as accurate at 10, and at
# chance level at 30, or 70 with few features.
MIN_ROWS_TO_WARN, MAX_OFFSET = 10, 10.0
PLAIN_NUMBERS = "features must be plain real numbers in a dense array"


def checked_rows(X: ArrayLike, *, missing: bool = False, single: bool = False) -> Array:
    """Rows of features: two-dimensional, not empty, finite (NaN allowed if ``missing``).

    As float64; with ``single`` float32 is kept, so that no full copy is made.
    """
    if sp.issparse(X):
        raise WrongKind(f"Sparse data was passed, but {PLAIN_NUMBERS}; use X.toarray()")
    table = _as_table(X)
    keep = single and table.dtype == np.float32
    rows = _as_numbers(table, np.float32 if keep else np.float64)
    _require_finite(rows, missing)
    return rows


def checked_vector(x: ArrayLike, method: str, width: int | None = None) -> Array:
    """One vector with this number of features, for a method of the fast path."""
    if not (type(x) is np.ndarray and x.dtype == np.float64 and x.flags.c_contiguous):
        x = _as_numbers_of_one(x, method)
    if x.ndim != 1:
        raise WrongShape(
            f"{method} takes one vector, got an array of shape {tuple(x.shape)}; "
            "use partial_fit or predict for several rows"
        )
    if not squares_are_finite(x):
        raise NotFinite(f"{method} got NaN, infinity or numbers whose squares overflow")
    if width is not None and len(x) != width:
        raise WrongWidth(f"{method} got {len(x)} features, this learner was taught {width}")
    return x


def checked_table(X: Any) -> Any:
    """Rows of real numbers, unchanged, on the host or a device; not checked for NaN or infinity.

    A tensor stays a tensor; other types that numpy reads become numpy arrays.
    """
    if sp.issparse(X):
        raise WrongKind(f"Sparse data was passed, but {PLAIN_NUMBERS}; use X.toarray()")
    if not lies_on_device(X) and not hasattr(X, "detach"):
        table = _as_table(X)
        return table if table.dtype in DENSE_KINDS else _as_numbers(table, np.float64)
    _require_shape(X)
    _require_real(X)
    return X


def checked_labelled(
    y: ArrayLike | None, sample_weight: ArrayLike | None, n_rows: int, learner: str
) -> tuple[AnyArray, Array | None]:
    """A label for every row, and weights if given."""
    if y is None:
        raise InvalidLabel(f"{learner} requires y to be passed, but the target y is None")
    labels = checked_labels(y)
    if len(labels) != n_rows:
        raise WrongShape(f"X has {n_rows} rows but y has {len(labels)} labels")
    return labels, None if sample_weight is None else checked_weights(sample_weight, n_rows)


def checked_labels(y: ArrayLike) -> AnyArray:
    """``y`` as one column, without turning the number 1 into the string "1"."""
    if type(y) is np.ndarray and y.ndim == 1:
        return y
    if not hasattr(y, "__array__") and not hasattr(y, "__len__"):
        raise WrongShape(f"y should be a 1d array of labels, got {y!r}")
    if isinstance(y, (list, tuple)) and not any(isinstance(v, (list, tuple)) for v in y):
        column = np.empty(len(y), dtype=object)
        for index, label in enumerate(y):
            column[index] = label
        return column
    shape = tuple(getattr(y, "shape", ()))
    if len(shape) == 2 and shape[1] > 1:
        raise WrongShape(
            f"y should be a 1d array, got an array of shape {shape} instead; y needs one label per "
            "row of X. For several labels at once (multi-label), wrap the learner in "
            "sklearn.multioutput.MultiOutputClassifier"
        )
    try:
        plain = as_numpy(y) if hasattr(y, "detach") or lies_on_device(y) else y
        return np.asarray(column_or_1d(plain, warn=True))
    except ValueError as error:
        raise WrongShape(f"{error}; y needs one label per row of X") from None


def checked_weights(sample_weight: ArrayLike, n_rows: int) -> Array:
    """One weight per row, none of them negative and not all of them zero."""
    weights = as_numpy(sample_weight).astype(np.float64)
    if weights.ndim == 0:
        weights = np.full(n_rows, float(weights))
    if weights.ndim != 1 or len(weights) != n_rows:
        raise WrongShape(
            f"sample_weight has shape {weights.shape}, expected ({n_rows},): one weight per row"
        )
    if not np.all(np.isfinite(weights)):
        raise NotFinite("sample_weight contains NaN or infinity")
    if np.any(weights < 0):
        raise InvalidWeight(
            f"sample_weight holds {weights.min()}; weights cannot be negative, "
            "use forget to unlearn examples"
        )
    if not np.any(weights > 0):
        raise InvalidWeight("all sample weights are zero, so there is nothing to learn")
    return weights


def squares_are_finite(x: AnyArray) -> bool:
    """Whether the sum of squares is finite in float64."""
    # BLAS rather than numpy: an overflow is expected here and needs no warning. In parts that stay
    # on one thread, unless there is enough work for several.
    dot = sdot if x.dtype == np.float32 else ddot
    if len(x) <= PART and math.isfinite(dot(x, x)):
        return True
    part = PART if len(x) <= 100 * PART else len(x)
    if all(math.isfinite(dot(x[i : i + part], x[i : i + part])) for i in range(0, len(x), part)):
        return True
    return x.dtype == np.float32 and squares_are_finite(x.astype(np.float64))


def require_one_of(name: str, value: Any, allowed: Iterable[object]) -> None:
    """Require one of a few values."""
    words = tuple(allowed)
    if not any(value is word or (type(value) is type(word) and value == word) for word in words):
        raise InvalidParameter(f"{name} must be {_listed(words)}, not {_shortened(value)}")


def require_flag(name: str, value: Any) -> None:
    """Require true or false."""
    if not _is_flag(value):
        raise InvalidParameter(f"{name} must be True or False, not {_shortened(value)}")


def require_whole(
    name: str,
    value: Any,
    *,
    least: int = 1,
    most: int | None = None,
    or_none: bool = False,
) -> None:
    """Require an integer within limits, or ``None`` where allowed."""
    if or_none and value is None:
        return
    whole = isinstance(value, Integral) and not _is_flag(value)
    if not whole or int(value) < least or (most is not None and int(value) > most):
        limits = f"from {least} on" if most is None else f"from {least} to {most}"
        none = " or None" if or_none else ""
        raise InvalidParameter(f"{name} must be an integer {limits}{none}, not {_shortened(value)}")


def require_number(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
    or_word: str | None = None,
    or_none: bool = False,
) -> None:
    """Require a finite number within limits, or one word, or ``None``, where allowed."""
    if (or_none and value is None) or (or_word is not None and value == or_word):
        return
    given = [
        (word, limit, holds)
        for word, limit, holds in (
            ("above", above, operator.gt),
            ("at least", least, operator.ge),
            ("below", below, operator.lt),
            ("at most", most, operator.le),
        )
        if limit is not None
    ]
    if _is_finite_number(value) and all(holds(value, limit) for _, limit, holds in given):
        return
    limits = " and ".join(f"{word} {limit:g}" for word, limit, _ in given)
    other = f" or {or_word!r}" if or_word is not None else " or None" if or_none else ""
    raise InvalidParameter(f"{name} must be a number {limits}{other}, not {_shortened(value)}")


def require_positive(
    name: str, value: Any, *, or_word: str | None = None, or_none: bool = False
) -> None:
    """Require a finite number above zero."""
    require_number(name, value, above=0.0, or_word=or_word, or_none=or_none)


def require_share(name: str, value: Any, *, or_word: str | None = None) -> None:
    """Require a number strictly between zero and one."""
    require_number(name, value, above=0.0, below=1.0, or_word=or_word)


def require_class_weight(value: Any, *, balances: bool) -> None:
    """Require None, positive weights by label, or "balanced" for a learner that ``balances``."""
    if isinstance(value, Mapping):
        for label, weight in value.items():
            require_positive(f"class_weight[{label!r}]", weight)
    elif value == "balanced" and isinstance(value, str):
        if not balances:
            raise InvalidParameter(
                "class_weight='balanced' depends on how many examples of each class will have been "
                "learned in the end, which is not known while learning; give a mapping from labels "
                "to weights, such as scikit-learn's compute_class_weight computes, or use "
                "RecursiveRLSC, which balances when asked"
            )
    elif value is not None:
        raise InvalidParameter(
            "class_weight must be None, 'balanced' or a mapping from labels to weights, not "
            f"{_shortened(value)}"
        )


def _as_table(X: ArrayLike) -> AnyArray:
    """``X`` as a non-empty two-dimensional array."""
    try:
        table = as_numpy(X)
    except ValueError as error:
        raise WrongShape(f"X is not a table of numbers: {error}") from None
    _require_shape(table)
    return table


def _require_shape(table: Any) -> None:
    """Require two dimensions and at least one number."""
    n_dim = len(table.shape)
    if n_dim < 2:
        got = "1D array" if n_dim else "scalar array"
        raise WrongShape(
            f"Expected 2D array, got {got} instead: {_shortened(table)}. Reshape your data: "
            "X.reshape(-1, 1) if it has a single feature, X.reshape(1, -1) if it is a single row"
        )
    if n_dim > 2:
        raise WrongShape(
            f"Found array with dim {n_dim}, while dim <= 2 is required: one row per example"
        )
    for size, word in zip(table.shape, ("sample", "feature"), strict=True):
        if size == 0:
            raise WrongShape(
                f"Found array with 0 {word}(s) (shape={tuple(table.shape)}) while a minimum of 1 "
                "is required."
            )


def _require_real(values: Any) -> None:
    """Require real numbers in a dense array on a device, or in a tensor."""
    # The type first: the dtypes of two libraries need not be comparable.
    kind = (type(values), values.dtype, getattr(values, "layout", None))
    if kind in _FOUND_REAL:
        return
    layout = str(getattr(values, "layout", "torch.strided"))
    if layout != "torch.strided":
        raise WrongKind(f"{layout} data was passed, but {PLAIN_NUMBERS}; use X.to_dense()")
    if any(word in str(values.dtype) for word in ("complex", "quint", "qint")):
        raise WrongKind(f"X holds {values.dtype} values; {PLAIN_NUMBERS}")
    _FOUND_REAL.add(kind)


_FOUND_REAL: set[tuple[type, Any, Any]] = set()


def _as_numbers(table: AnyArray, dtype: DTypeLike) -> Array:
    if table.dtype.kind == "c":
        raise WrongKind(f"Complex data not supported; {PLAIN_NUMBERS}")
    if table.dtype.kind not in "iubfO":
        raise WrongKind(f"X holds {table.dtype} values; {PLAIN_NUMBERS}")
    try:
        return np.ascontiguousarray(table, dtype=dtype)
    except (ValueError, TypeError) as error:
        raise WrongKind(f"{error}; {PLAIN_NUMBERS}") from None


def _as_numbers_of_one(x: ArrayLike, method: str) -> Array:
    values = as_numpy(x)
    if values.dtype.kind not in "iubf":
        raise WrongKind(f"{method} got {values.dtype} values; features must be plain real numbers")
    return np.ascontiguousarray(values, dtype=np.float64)


def warn_of_offset(X: Array, steps: str) -> None:
    """Warn if examples lie so far from zero that ``steps`` learn little but their offset."""
    if len(X) < MIN_ROWS_TO_WARN:
        return
    mean = X.mean(axis=0)
    deviation = math.sqrt(float(np.mean(np.sum((X - mean) ** 2, axis=1))))
    offset = math.sqrt(float(mean @ mean))
    if offset > MAX_OFFSET * deviation > 0.0:
        warnings.warn(
            f"the features lie {offset / deviation:.3g} deviations from zero, so that {steps} "
            "hardly tell the labels apart; put StreamingScaler before this learner in a "
            "StreamPipeline",
            stacklevel=2,
        )


def _require_finite(rows: Array, missing: bool) -> None:
    if squares_are_finite(rows.ravel()):
        return
    if not missing and np.isnan(rows).any():
        raise NotFinite("Input X contains NaN; remove such rows, or impute the missing values")
    if np.isinf(rows).any():
        raise NotFinite("Input X contains infinity; features must be finite")
    if not (missing and squares_are_finite(np.nan_to_num(rows).ravel())):
        raise NotFinite("Input X is too large: its squares overflow; scale the features")


def _is_flag(value: Any) -> bool:
    return isinstance(value, (bool, np.bool_))


def _is_finite_number(value: Any) -> bool:
    return isinstance(value, Real) and not _is_flag(value) and math.isfinite(value)


def _listed(words: tuple[object, ...]) -> str:
    *others, last = [repr(word) for word in words]
    return f"{', '.join(others)} or {last}" if others else last


def _shortened(values: Any, most: int = 80) -> str:
    text = " ".join(repr(values).split())
    return text if len(text) <= most else text[: most - 1] + "…"
