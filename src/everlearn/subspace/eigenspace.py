"""An eigenspace that is updated image by image, or block by block.

Skočaj and Leonardis (2002), *Incremental approach to robust learning of eigenspaces*, Sec. 3. Their
symbols and ours, with images as rows:

    x, n, μ            X, weight, mean
    U (steps 4, 9)     ``_basis``: orthonormal rows that span what was seen
    A' (step 5)        coordinates in the basis, relative to ``_origin``, the mean at the last cut
    l (step 11)        eigenvalues of ``_scatter``, the scatter about the mean in the basis

Steps 1-3 project an image and take the residual, step 4 appends its direction, step 6 is the
eigendecomposition of the coordinates' scatter, and steps 7-11 cut the basis back. Only the scatter
of A' enters step 6, and it follows each image by a rank-one term,

    S ← S + n w / (n + w) (c − m)(c − m)ᵀ,     m ← m + w / (n + w) (c − m),

so the coefficients A themselves are computed only when they are read.

The published algorithm truncates after every image. Here the basis may grow by ``guard`` directions
beyond those kept, and ``guard`` more than requested are kept; results use the leading ones.
So directions that are weak when they first appear can grow before they are dropped, and the
truncation, an O(k² d) rotation, happens once per ``guard`` images. ``guard=0`` is the published
algorithm.

A truncation determines which subspace stays, but not the orientation of its basis. Here the new
basis is rotated as little as possible relative to the previous one, so that earlier coordinates
stay (nearly) valid: ``steady`` axes. The eigenvectors themselves are computed when they are read.

Cost per image O(k d), plus O(k² d) at a truncation. Memory is (k + 2 guard) d numbers. Sums are
exact until the first truncation; from then on discarded directions are lost, so the result depends
(a little) on the order of the images, and merging is approximate.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import Array
from everlearn.errors import DamagedModel
from everlearn.statistics.validated import validated_array, validated_integer, validated_number
from everlearn.subspace.coefficients import Coefficients

# Limits on numbers in a file: fourth powers must be finite, and the basis nearly orthonormal.
LARGEST = 1e77
ORTHONORMAL_TOLERANCE = 1e-6

# A residual below this share of the image's distance from the origin, or of the image itself, is
# rounding error, not a direction.
NEGLIGIBLE_OF_DISTANCE = 1e-10
NEGLIGIBLE_OF_IMAGE = 1e-13
# Truncations between two re-orthonormalisations; each adds an error of about 1e-15.
ORTHONORMALIZE_EVERY = 64
# Rows processed at once if no truncation limits it.
BLOCK_ROWS = 64


@dataclass(frozen=True)
class Frame:
    """Orthonormal axes of the requested subspace: x has coordinates axes (x − mean) + at_mean.

    Attributes
    ----------
    E : the axes in terms of the basis
    axes : the axes as rows
    at_mean : the coordinates of the mean
    scatter : along the eigenvectors, strongest first
    """

    E: Array
    axes: Array
    at_mean: Array
    scatter: Array


class Eigenspace:
    """Mean, leading eigenvectors and eigenvalues of a stream of images.

    Parameters
    ----------
    n_features : int
    n_components : int, float or None
        Requested number of directions: a number, a share of the energy, or all.
    guard : int
        Additional directions carried along while learning.
    residual_threshold : float
        Smallest residual (root mean square over the pixels) that adds a direction.
    forgetting : float
        Factor applied to the weight of all earlier images at every new one.
    keep_coefficients : bool
    """

    def __init__(
        self,
        n_features: int,
        *,
        n_components: int | float | None,
        guard: int,
        residual_threshold: float = 0.0,
        forgetting: float = 1.0,
        keep_coefficients: bool = False,
    ) -> None:
        self.n_components = n_components
        self.guard = guard
        self.forgetting = forgetting
        self.residual_threshold = residual_threshold * np.sqrt(n_features)
        self.weight = 0.0
        self.squared_weight = 0.0
        self.n_images = 0
        self.energy = 0.0
        self.mean = np.zeros(n_features)
        self.coefficients = Coefficients() if keep_coefficients else None
        self._origin = np.zeros(n_features)
        self._basis = np.empty((0, n_features))
        self._scatter = np.zeros((0, 0))
        self._centre = np.zeros(0)
        # Coordinates of the origin along the steady axes.
        self._offset = np.zeros(0)
        self._limit = self._largest_width(0)
        self._cuts = 0
        self._read: dict[str, Frame] = {}

    # Learning.

    def add(self, X: Array, weights: Array | None = None) -> None:
        """Add images; the result is that of adding them one by one, in this order."""
        start = 0
        if self.n_images == 0:
            self._origin = X[0].copy()
            self.mean = X[0].copy()
        while start < len(X):
            stop = min(len(X), start + max(1, min(BLOCK_ROWS, self._limit - self.width)))
            part = None if weights is None else weights[start:stop]
            self._add_block(X[start:stop], part)
            start = stop
        self._read = {}

    def merge(self, other: "Eigenspace") -> None:
        """Add another eigenspace (Hall, Marshall and Martin, 2000); exact before truncation."""
        if other.n_images == 0:
            return
        if self.n_images == 0:
            self._origin = other._origin.copy()
            self.mean = other.mean.copy()
        basis = self._coordinates(other._basis, residual_threshold=0.0)
        ends = np.stack([other.mean - self._origin, other._origin - self._origin])
        centre, origin = self._coordinates(ends, residual_threshold=0.0)
        basis = _widened(basis, self.width)
        total = self.weight + other.weight
        share = other.weight / total
        shift = centre - self._centre
        self._scatter += basis.T @ other._scatter @ basis
        self._scatter += np.outer((self.weight * share) * shift, shift)
        self._centre += share * shift
        distance = other.mean - self.mean
        self.energy += other.energy + self.weight * share * float(distance.dot(distance))
        self.mean += share * distance
        self.weight = total
        self.squared_weight += other.squared_weight
        self.n_images += other.n_images
        if self.coefficients is not None and other.coefficients is not None:
            self.coefficients.append(other.coefficients.read(other.width) @ basis + origin)
        if self.width >= self._limit:
            self._cut()
        self._read = {}

    def _add_block(self, X: Array, weights: Array | None) -> None:
        coordinates = self._coordinates(
            X - self._origin, residual_threshold=self.residual_threshold, images=X
        )
        for i in range(len(X)):
            weight = 1.0 if weights is None else float(weights[i])
            if self.forgetting < 1.0:
                self.weight *= self.forgetting
                self.squared_weight *= self.forgetting**2
                self.energy *= self.forgetting
                self._scatter *= self.forgetting
            total = self.weight + weight
            step = weight / total
            shift = coordinates[i] - self._centre
            distance = X[i] - self.mean
            self._scatter += np.outer((self.weight * step) * shift, shift)
            self._centre += step * shift
            self.energy += self.weight * step * float(distance.dot(distance))
            self.mean += step * distance
            self.weight = total
            self.squared_weight += weight * weight
        self.n_images += len(X)
        if self.coefficients is not None:
            self.coefficients.append(coordinates)
        if self.width >= self._limit:
            self._cut()

    def _coordinates(
        self, D: Array, *, residual_threshold: float, images: Array | None = None
    ) -> Array:
        """Coordinates in the basis, which is extended by missing directions (steps 1-5)."""
        known = self._basis
        inside = D @ known.T
        outside = D - inside @ known
        # Projected again, to remove the rounding error of the first time (Kahan: twice is enough).
        correction = outside @ known.T
        outside -= correction @ known
        inside += correction
        least = NEGLIGIBLE_OF_DISTANCE * np.linalg.norm(D, axis=1)
        if images is not None:
            least = np.maximum(least, NEGLIGIBLE_OF_IMAGE * np.linalg.norm(images, axis=1))
        least = np.maximum(least, residual_threshold)
        fresh = np.empty((0, D.shape[1]))
        along_fresh = np.zeros((len(D), len(D)))
        for i in range(len(D)):
            rest = outside[i]
            if len(fresh):
                along = fresh @ rest
                rest -= along @ fresh
                correction = fresh @ rest
                rest -= correction @ fresh
                along_fresh[i, : len(fresh)] = along + correction
            length = np.sqrt(rest.dot(rest))
            if length > least[i]:
                along_fresh[i, len(fresh)] = length
                fresh = np.vstack([fresh, rest / length])
        if len(fresh):
            self._widen(fresh)
        return np.hstack([inside, along_fresh[:, : len(fresh)]])

    def _widen(self, fresh: Array) -> None:
        width = self.width + len(fresh)
        self._basis = np.vstack([self._basis, fresh])
        self._centre = _widened(self._centre[None], width)[0]
        self._offset = _widened(self._offset[None], width)[0]
        scatter = np.zeros((width, width))
        scatter[: len(self._scatter), : len(self._scatter)] = self._scatter
        self._scatter = scatter

    def _cut(self) -> None:
        """Truncate to the span of the leading eigenvectors (steps 6-11)."""
        values, vectors = _eigen(self._scatter)
        wanted = self._wanted(values)
        keep = min(self.width, wanted + self.guard)
        leading = _least_rotated(vectors[:, :wanted].T, 0)
        guards = _least_rotated(vectors[:, wanted:keep].T, wanted)
        E = np.vstack([leading, guards])
        self._basis = E @ self._basis
        scatter = E @ self._scatter @ E.T
        self._scatter = 0.5 * (scatter + scatter.T)
        if self.coefficients is not None:
            self.coefficients.change_basis(E, self._centre)
        self._offset = E @ (self._offset + self._centre)
        self._centre = np.zeros(keep)
        self._origin = self.mean.copy()
        self._limit = self._largest_width(keep)
        self._cuts += 1
        if self._cuts % ORTHONORMALIZE_EVERY == 0:
            self._basis = _orthonormalized(self._basis)

    def _largest_width(self, kept: int) -> int:
        """The width at which the basis is truncated, after a truncation to ``kept``."""
        if self.n_components is None:
            return np.iinfo(np.int64).max
        if isinstance(self.n_components, int):
            kept = self.n_components + self.guard
        return kept + max(1, self.guard)

    def _wanted(self, values: Array) -> int:
        """The number of requested eigenvalues, given in descending order."""
        if isinstance(self.n_components, int):
            return min(self.n_components, len(values))
        if self.n_components is None:
            return len(values)
        reached = np.cumsum(values) >= self.n_components * self.energy * (1.0 - 1e-12)
        return int(reached.argmax()) + 1 if reached.any() else len(values)

    # Reading.

    @property
    def width(self) -> int:
        """Number of directions held, including guards."""
        return len(self._basis)

    @property
    def freedom(self) -> float:
        """Divisor of a sum of squares for an unbiased variance: n − 1 for unit weights."""
        return max(self.weight - self.squared_weight / self.weight, 0.0)

    def principal(self) -> tuple[Array, Array]:
        """The requested eigenvectors as rows, and the scatter along each, strongest first."""
        frame = self.frame("principal")
        return frame.axes, frame.scatter

    def frame(self, kind: str) -> "Frame":
        """Axes of the requested subspace: "principal" or "steady"."""
        if kind not in self._read:
            values, vectors = _eigen(self._scatter)
            wanted = self._wanted(values)
            if kind == "principal":
                E = np.ascontiguousarray(vectors[:, :wanted].T)
                signs = _signs(E @ self._basis)
                E *= signs
                at_mean = np.zeros(wanted)
            else:
                E = _least_rotated(vectors[:, :wanted].T, 0)
                at_mean = E @ (self._offset + self._centre)
            self._read[kind] = Frame(E, E @ self._basis, at_mean, values[:wanted])
        return self._read[kind]

    def read_coefficients(self, kind: str) -> Array:
        """The coefficients of every image, in the order taught, along these axes."""
        assert self.coefficients is not None
        frame = self.frame(kind)
        rows: Array = (self.coefficients.read(self.width) - self._centre) @ frame.E.T
        return rows + frame.at_mean

    # State in and out.

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays = {
            "mean": self.mean,
            "origin": self._origin,
            "basis": self._basis,
            "scatter": self._scatter,
            "centre": self._centre,
            "offset": self._offset,
        }
        if self.coefficients is not None:
            arrays["coefficients"] = self.coefficients.read(self.width)
        notes = {
            "weight": self.weight,
            "squared_weight": self.squared_weight,
            "n_images": self.n_images,
            "energy": self.energy,
            "limit": self._limit,
            "cuts": self._cuts,
        }
        return arrays, notes

    def restore(self, arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> None:
        d = len(self.mean)

        def bounded(name: str, *shape: int | None) -> Array:
            return validated_array(arrays, name, *shape, least=-LARGEST, most=LARGEST)

        self.mean = bounded("mean", d)
        self._origin = bounded("origin", d)
        self._basis = validated_array(arrays, "basis", None, d, least=-2.0, most=2.0)
        width = len(self._basis)
        if (
            np.abs(self._basis @ self._basis.T - np.eye(width)).max(initial=0.0)
            > ORTHONORMAL_TOLERANCE
        ):
            raise DamagedModel("basis is not orthonormal")
        self._scatter = validated_array(
            arrays, "scatter", width, width, least=-(LARGEST**2), most=LARGEST**2
        )
        self._centre = bounded("centre", width)
        self._offset = bounded("offset", width)
        if self.coefficients is not None:
            coefficients = bounded("coefficients", None, width)
            self.coefficients = Coefficients(coefficients)
        self.weight = validated_number(notes, "weight", least=0.0)
        self.squared_weight = validated_number(notes, "squared_weight", least=0.0)
        self.n_images = validated_integer(notes, "n_images", most=2**53)
        self.energy = validated_number(notes, "energy", least=0.0)
        self._limit = validated_integer(notes, "limit", most=2**31)
        self._cuts = validated_integer(notes, "cuts", most=2**53)
        self._read = {}


def _eigen(scatter: Array) -> tuple[Array, Array]:
    """Descending, non-negative eigenvalues, and eigenvectors as columns."""
    values, vectors = np.linalg.eigh(scatter)
    return np.maximum(values[::-1], 0.0), vectors[:, ::-1]


def _least_rotated(E: Array, first: int) -> Array:
    """Q E with the orthogonal Q that brings each row i nearest to the unit vector ``first + i``."""
    if not len(E):
        return np.ascontiguousarray(E)
    left, _, right = np.linalg.svd(E[:, first : first + len(E)])
    rotated: Array = (right.T @ left.T) @ E
    return rotated


def _orthonormalized(basis: Array) -> Array:
    """One Newton-Schulz step towards BBᵀ = I: an error e becomes about e²."""
    improved: Array = 1.5 * basis - 0.5 * (basis @ basis.T) @ basis
    return improved


def _signs(components: Array) -> Array:
    """±1 per row, such that the entry of largest magnitude becomes positive."""
    if not components.size:
        return np.ones((len(components), 1))
    largest = np.abs(components).argmax(axis=1)
    signs: Array = np.where(components[np.arange(len(components)), largest] < 0, -1.0, 1.0)[:, None]
    return signs


def _widened(rows: Array, width: int) -> Array:
    widened = np.zeros((len(rows), width))
    widened[:, : rows.shape[1]] = rows
    return widened
