"""Sparse rows, learned and scored without making them dense.

A learner accepts sparse matrices by listing ``sparse_backend``. By default one block of rows at a
time becomes dense, so that memory stays bounded whatever the matrix holds; the nearest class mean
needs only sums and products, and touches no zero at all:

    μ_k = Σ_i w_i x_i / n_k                                   one product with a K × n matrix
    −½ ‖x − μ_k‖² = x·μ_k − ½ ‖x‖² − ½ ‖μ_k‖²                 one product with the means

Either way costs O(nnz K); learning costs O(nnz + K d), K the classes of the batch.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from everlearn.arrays import Array, Slots
from everlearn.backend import Backend, Host
from everlearn.errors import NotFinite, WrongKind, WrongShape
from everlearn.statistics.class_means import ClassMeans
from everlearn.validation import squares_are_finite

# A block that becomes dense has at most this many rows, and this many numbers (32 MB).
BLOCK_ROWS, BLOCK_NUMBERS = 1024, 4_000_000


class SparseRows:
    """Validated rows of a sparse matrix in float64, without duplicate entries."""

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix
        self.shape: tuple[int, int] = matrix.shape

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, chosen: Any) -> "SparseRows":
        return SparseRows(self.matrix[chosen])

    def dense(self) -> Array:
        """The rows as a dense array."""
        rows: Array = self.matrix.toarray(order="C")
        return rows

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Dense parts one after the other, each with its position."""
        size = max(1, min(BLOCK_ROWS, BLOCK_NUMBERS // self.shape[1]))
        for start in range(0, len(self), size):
            part = slice(start, start + size)
            yield part, self[part].dense()

    def squares(self) -> Array:
        """‖x‖² of each row."""
        squares: Array = np.asarray(self.matrix.multiply(self.matrix).sum(axis=1)).ravel()
        return squares

    def products(self, means: Array) -> Array:
        """x·μ_k, one column for each row of ``means``."""
        scores: Array = np.asarray(self.matrix @ means.T)
        return scores


class OnSparseRows(Host):
    """The backend for sparse matrices."""

    def learn(
        self, learner: Any, X: Any, y: Any, sample_weight: ArrayLike | None, *, fresh: bool
    ) -> None:
        examples = learner._labelled(sparse_rows(learner, X, reset=fresh), y, sample_weight)
        learner._learn_rows(*examples, fresh=fresh, learn=learner._learn_sparse)

    def ask(self, learner: Any, X: Any, answer: Callable[[Any], Any]) -> Any:
        learner._require_fitted()
        scores = learner._scores_sparse(sparse_rows(learner, X, reset=False))
        return answer(scores[:, learner.registry_.order])


SPARSE = OnSparseRows()


def sparse_backend(learner: Any, X: Any) -> Backend | None:
    """The backend for sparse rows, if the learner's parameters allow them."""
    return SPARSE if sp.issparse(X) and learner._takes_sparse else None


def sparse_rows(learner: Any, X: Any, *, reset: bool) -> SparseRows:
    """Validated rows with the number of features of the learner, or setting it."""
    rows = checked_sparse(X)
    # Number and names of features, as of one dense row.
    learner._rows(np.zeros((1, rows.shape[1])), reset=reset)
    return rows


def checked_sparse(X: Any) -> SparseRows:
    """The rows of a sparse matrix or array of any format; the input is not modified."""
    if X.ndim != 2:
        raise WrongShape(f"Expected 2D array, got a sparse array of {X.ndim} dimensions instead")
    for size, word in zip(X.shape, ("sample", "feature"), strict=True):
        if size == 0:
            raise WrongShape(
                f"Found array with 0 {word}(s) (shape={X.shape}) while a minimum of 1 is required."
            )
    if X.dtype.kind == "c":
        raise WrongKind("Complex data not supported; features must be plain real numbers")
    if X.dtype.kind not in "iubf":
        raise WrongKind(f"X holds {X.dtype} values; features must be plain real numbers")
    matrix = sp.csr_array(X, dtype=np.float64)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    if not squares_are_finite(matrix.data):
        if np.isnan(matrix.data).any():
            raise NotFinite("Input X contains NaN; remove such rows, or impute the missing values")
        if np.isinf(matrix.data).any():
            raise NotFinite("Input X contains infinity; features must be finite")
        raise NotFinite("Input X is too large: its squares overflow; scale the features")
    return SparseRows(matrix)


def sparse_means(rows: SparseRows, slots: Slots, weights: Array | None) -> tuple[ClassMeans, Slots]:
    """The class means of sparse rows, and the slots of their classes."""
    known, member_of = np.unique(slots, return_inverse=True)
    w = np.ones(len(rows)) if weights is None else weights
    counts = np.bincount(member_of, w, len(known)).astype(np.float64)
    membership = sp.csr_array(
        (w / counts[member_of], (member_of, np.arange(len(rows)))), shape=(len(known), len(rows))
    )
    means = (membership @ rows.matrix).toarray()
    part = ClassMeans(rows.shape[1])
    part.restore({"counts": counts, "means": means, "mean": counts @ means / counts.sum()})
    return part, known
