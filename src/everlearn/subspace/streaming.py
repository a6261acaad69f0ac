"""Streaming PCA of images, from the first image on.

The algorithm is in :mod:`everlearn.subspace.eigenspace` (Skočaj and Leonardis 2002, Sec. 3); this
is its scikit-learn interface.

One image costs O(k d), plus O(k² d / guard) on average for the rotations; memory is
(k + 2 guard) d numbers, independent of the number seen; ``keep_coefficients`` adds k per image.
"""

from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike

from everlearn.arrays import Array, like
from everlearn.deprecation import DEPRECATED
from everlearn.device.device import Device, device_of, mapped
from everlearn.errors import NotFinite, WrongWidth
from everlearn.subspace.eigenspace import Eigenspace
from everlearn.subspace.transformer import EigenspaceTransformer
from everlearn.validation import checked_table, checked_weights, require_number, require_one_of

Axes = Literal["principal", "steady"]


class StreamingPCA(EigenspaceTransformer):
    """Principal component analysis of images that arrive one by one.

    Learning one image costs O(k d), independent of the number learned, and starts with the first.

    Parameters
    ----------
    n_components : int, float or None, default=16
        Number of directions to keep; or a share of the energy between 0 and 1, for which directions
        are added as needed; or None for all of them, which is exact.
    guard : int, default=8
        Additional directions carried along while learning and dropped from results: brings the
        eigenspace closer to that of batch PCA. 0 is the published algorithm.
    residual_threshold : float, default=0.0
        An image adds a new direction only if its residual (root mean square over the pixels) is
        larger than this.
    half_life : float, optional
        The weight of an image halves after this many further images. By default all count equally.
    axes : {"principal", "steady"}, default="principal"
        Axes of ``transform``: the components, or axes of the same subspace that rotate as little
        as possible during learning. Components change order and signs, and their origin is the
        moving mean; steady axes keep earlier coordinates (nearly) valid, which a learner behind
        them needs. Their orientation depends on the order of the images.
    keep_coefficients : bool, default=False
        Maintain the coefficients of every image learned, so that the images can be discarded.
        Costs k numbers per image.
    forgetting : float
        Replaced by ``half_life``: f corresponds to a half-life of 1 / log₂(1/f).

        .. deprecated:: 0.2

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features)
        Orthonormal rows, strongest first; a row of zeros for a direction not seen yet.
    mean_ : ndarray of shape (n_features,)
    explained_variance_, explained_variance_ratio_ : ndarray of shape (n_components_,)
    noise_variance_ : float
    n_components_ : int
        Columns of ``transform``: ``n_components``, at most the number of features.
    rank_ : int
        Number of components seen so far.
    n_samples_seen_ : int
    coefficients_ : ndarray of shape (n_samples_seen_, n_components_)
        With ``keep_coefficients=True``.

    See Also
    --------
    RobustStreamingPCA : Learns from occluded images, and repairs them.

    Notes
    -----
    Images on a device are projected and reconstructed there. The eigenspace itself is updated on
    the host, image by image: its rotations and truncations are too small to be worth a device.

    Without truncation (``n_components=None``) the result equals batch PCA. With it, the result
    depends slightly on the order of the images: on COIL-20 (720 images, 10 to 100 components) the
    squared reconstruction error is 0.9 % above that of batch PCA when objects come one after the
    other, 0.6 % in random order; ``guard=0`` gives 3.3 % and 1.5 % (published: 3.1 % and 1.3 %).

    Deviations from the paper: additional directions (``guard``); coefficients are transformed to a
    new basis only when read; weights and forgetting, which the paper leaves to future work. Weights
    express the reliability of an image: variances are divided by Σw − Σw² / Σw, which is n − 1 for
    unit weights.

    While the eigenspace learns, its axes rotate; coefficients computed earlier by ``transform``
    refer to earlier axes. ``coefficients_`` always refer to the current ones, and
    ``axes="steady"`` rotates as little as possible (not at all before a truncation).

    *Promises*: memory is bounded (without ``keep_coefficients``). Until a direction is dropped, the
    order does not matter and ``merge`` is exact; afterwards the result depends a little on the
    order, and ``merge`` is approximate.

    References
    ----------
    D. Skočaj, A. Leonardis, "Incremental approach to robust learning of eigenspaces", 2002.
    P. Hall, D. Marshall, R. Martin, "Merging and splitting eigenspace models", PAMI 22(9), 2000.

    Examples
    --------
    >>> import numpy as np
    >>> from everlearn import StreamingPCA
    >>> pca = StreamingPCA(n_components=1)
    >>> for t in range(5):
    ...     _ = pca.learn_one([t, 2.0 * t, 0.0])
    >>> np.round(pca.components_ * np.sqrt(5), 6) + 0.0
    array([[1., 2., 0.]])
    """

    def __init__(
        self,
        *,
        n_components: int | float | None = 16,
        guard: int = 8,
        residual_threshold: float = 0.0,
        half_life: float | None = None,
        axes: Axes = "principal",
        keep_coefficients: bool = False,
        forgetting: float | str = DEPRECATED,
    ) -> None:
        self.n_components = n_components
        self.guard = guard
        self.residual_threshold = residual_threshold
        self.half_life = half_life
        self.forgetting = forgetting
        self.axes = axes
        self.keep_coefficients = keep_coefficients

    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Forget everything, then learn these images.

        Parameters
        ----------
        X : array-like of shape (n_images, n_features)
        y : ignored
        sample_weight : array-like of shape (n_images,), optional
        """
        return self._copy_on_write(lambda changed: changed._learn(X, sample_weight, fresh=True))

    def partial_fit(
        self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn more images; equivalent to one by one, in this order."""
        fresh = not self.__sklearn_is_fitted__()
        return self._copy_on_write(lambda changed: changed._learn(X, sample_weight, fresh=fresh))

    def learn_one(self, x: ArrayLike, y: Any = None) -> Self:
        """Learn one image; the fast path, without scikit-learn's validation."""
        vector = self._vector(x, "learn_one")
        if not self.__sklearn_is_fitted__():
            return self.partial_fit(vector[None])
        self.eigenspace_.add(vector[None])
        return self

    def transform(self, X: ArrayLike) -> Any:
        """Coefficients of images, on the device of the images."""
        device = device_of(X)
        if device is None:
            return like(super().transform(X), X)
        self._require_fitted()
        axes, at_mean = self._axes()
        return self._linear_at(device, X, self.mean_, axes.T, at_mean)

    def inverse_transform(self, X: ArrayLike) -> Any:
        """Images from coefficients, on the device of the coefficients."""
        device = device_of(X)
        if device is None:
            return like(super().inverse_transform(X), X)
        self._require_fitted()
        axes, at_mean = self._axes()
        return self._linear_at(device, X, at_mean, axes, self.mean_)

    def reconstruction_error(self, X: ArrayLike) -> Any:
        """The mean squared difference per pixel between images and their reconstructions."""
        device = device_of(X)
        if device is None:
            return like(super().reconstruction_error(X), X)
        again = self.inverse_transform(self.transform(X))
        with device.computing():
            difference = device.doubles(X) - again
            return device.xp.mean(difference * difference, axis=1)

    def _linear_at(
        self, device: Device, X: Any, origin: Array, weights: Array, offset: Array
    ) -> Any:
        """(X − origin) weights + offset, on the device of X."""
        table = checked_table(X)
        if int(table.shape[1]) != len(origin):
            raise WrongWidth(f"got rows of {table.shape[1]} numbers, expected {len(origin)}")
        with device.computing():
            o, W, b = (device.array(array) for array in (origin, weights, offset))
            return mapped(device, table, lambda rows: (rows - o) @ W + b, width=max(W.shape))

    def _learn(self, X: ArrayLike, sample_weight: ArrayLike | None, *, fresh: bool) -> None:
        self._check_parameters()
        rows = self._rows(X, reset=fresh)
        weights = None
        if sample_weight is not None:
            weights = checked_weights(sample_weight, len(rows))
            counted = weights > 0
            rows, weights = rows[counted], weights[counted]
        eigenspace = self._empty_eigenspace(rows.shape[1]) if fresh else self.eigenspace_
        eigenspace.add(rows, weights)
        self.eigenspace_ = eigenspace

    def _rows(
        self,
        X: ArrayLike,
        *,
        reset: bool | None = None,
        missing: bool = False,
        single: bool = False,
    ) -> Array:
        try:
            return super()._rows(X, reset=reset, missing=missing, single=single)
        except NotFinite as error:
            raise _suggesting_robust(error) from None

    def _vector(self, x: ArrayLike, method: str) -> Array:
        try:
            return super()._vector(x, method)
        except NotFinite as error:
            raise _suggesting_robust(error) from None

    def _merge(self, other: "StreamingPCA") -> None:
        if not self.__sklearn_is_fitted__():
            self.n_features_in_ = other.n_features_in_
            self.eigenspace_ = self._empty_eigenspace(other.n_features_in_)
        self.eigenspace_.merge(other.eigenspace_)

    def _check_parameters(self) -> None:
        self._check_eigenspace_parameters()
        require_number("residual_threshold", self.residual_threshold, least=0.0)
        require_one_of("axes", self.axes, get_args(Axes))

    def _empty_eigenspace(self, n_features: int) -> Eigenspace:
        n = self.n_components
        return Eigenspace(
            n_features,
            n_components=int(n) if isinstance(n, np.integer) else n,
            guard=int(self.guard),
            residual_threshold=self.residual_threshold,
            forgetting=self._forgetting(),
            keep_coefficients=self.keep_coefficients,
        )


def _suggesting_robust(error: NotFinite) -> NotFinite:
    """The same error, with the class that accepts missing pixels."""
    return NotFinite(
        f"{error}\nStreamingPCA needs every pixel; RobustStreamingPCA accepts missing ones "
        "(NaN, or mask=) and repairs them"
    )
