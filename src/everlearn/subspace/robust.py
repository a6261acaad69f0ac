"""Learns an eigenspace from occluded images, and repairs them.

Skočaj and Leonardis (2002), Sec. 4. Each image is first projected robustly into the eigenspace
learned so far (:mod:`everlearn.subspace.projection`); pixels that do not fit are replaced by the
reconstruction; the restored image updates the eigenspace (:mod:`everlearn.subspace.eigenspace`).
The first images are collected until there are enough for a robust start
(:mod:`everlearn.subspace.seeding`).

One image costs O(H m k² + d k² + H d k) for H hypotheses of m = O(k) pixels. Memory is that of the
eigenspace plus, until the start, that of the collected images. Nothing is exact: whether a pixel is
an outlier depends on the images seen before.
"""

from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from everlearn.arrays import Array, Mask, State
from everlearn.deprecation import DEPRECATED
from everlearn.errors import DamagedModel, InvalidParameter, NothingVisible, WrongShape
from everlearn.statistics.validated import (
    validated_array,
    validated_flag,
    validated_integer,
    validated_number,
)
from everlearn.subspace.eigenspace import LARGEST, Eigenspace
from everlearn.subspace.projection import Explanation, RobustProjector, random_subsets
from everlearn.subspace.seeding import robust_start, typical_size
from everlearn.subspace.transformer import EigenspaceTransformer
from everlearn.validation import (
    checked_weights,
    require_number,
    require_positive,
    require_whole,
)

# Weight of the previous estimate of the scale when an image is learned.
SCALE_DECAY = 0.9
# Upper bound of n_hypotheses, which every image costs time for.
MOST_HYPOTHESES = 10_000


class RobustStreamingPCA(EigenspaceTransformer):
    """Principal components of images that are partly occluded, and repair of such images.

    Parameters
    ----------
    n_components : int, default=10
    image_shape : (height, width), optional
        Shape of the image in a row. With it, hypotheses come from windows of the image instead of
        scattered pixels, which large occluders require.
    threshold : float, optional
        Residual above which a pixel is an outlier. Defaults to ``threshold_factor`` times the
        typical residual of unseen images, which is estimated continuously.
    threshold_factor : float, default=8.0
    smoothing : int, default=1
        Side of the square over which residuals are averaged before they are compared with the
        threshold; above 1 for large occluders in front of scenes that are not well explained,
        such as faces. Needs ``image_shape``.
    n_hypotheses : int, default=24
    window : float, default=0.4
        Side of the windows, as a share of the image's.
    seed_images : int, default=50
        Number of images collected for a robust start. Until then the eigenspace is computed from
        those collected, whenever it is needed.
    most_outliers : float, default=0.6
        An image with a larger share of outliers is rejected: it is not learned.
    guard : int, default=8
        As in :class:`StreamingPCA`.
    half_life : float, optional
        As in :class:`StreamingPCA`.
    random_state : int, optional
        Seed for the pixels of the hypotheses, the same for all images; None uses a fixed seed.
    keep_coefficients : bool, default=False
        Maintain the coefficients of every image that was accepted, k numbers each.
    forgetting : float
        As in :class:`StreamingPCA`.

        .. deprecated:: 0.2

    Attributes
    ----------
    components_, mean_, explained_variance_, explained_variance_ratio_, noise_variance_, rank_
        As in :class:`StreamingPCA`.
    threshold_ : float
        The threshold in use.
    accepted_ : ndarray of bool
        Which images of the latest call were learned (or wait for the start).
    n_rejected_ : int
        Number of images rejected so far.
    coefficients_ : ndarray of shape (n_accepted, n_components_)
        With ``keep_coefficients=True``: those of the restored images along the present components.
        ``accepted_`` tells which images of a call have a row.

    See Also
    --------
    StreamingPCA : Without outliers.

    Notes
    -----
    After a start from images of one part of the sequence, everything later looks like an outlier.
    Use an order in which the first ``seed_images`` cover the full variation, or begin with
    ``start`` from images that are known to be good.

    ``weights`` express the reliability of an image, as in :class:`StreamingPCA`: they count in the
    eigenspace. Outliers and the threshold are determined per pixel without them, so a weight of two
    is not the same as showing an image twice; hence they are not scikit-learn's ``sample_weight``.
    An image of weight zero is not learned.

    Missing pixels are NaN; the other pixels are still examined. Pixels known to be outliers are
    given by ``mask``; then the others are trusted without examination.

    Deviations from the papers: windows instead of scattered pixels; a prior on the coefficients; an
    estimated threshold; the first images repair each other instead of being chosen
    (``everlearn_papers.subspace.seeding.choose_seed`` chooses as the paper does, for ``start``).

    *Cost*: O(h w k²) per image for h hypotheses from windows of w pixels, plus O(k d).

    *Promises*: memory is bounded. The order matters: the first images decide what is normal.

    References
    ----------
    D. Skočaj, A. Leonardis, "Incremental approach to robust learning of eigenspaces", 2002.
    A. Leonardis, H. Bischof, "Robust recognition using eigenimages", CVIU 78, 2000.
    D. Skočaj, H. Bischof, A. Leonardis, "A robust PCA algorithm for building representations from
    panoramic images", ECCV 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from everlearn import RobustStreamingPCA
    >>> t = np.linspace(0, 1, 40)[:, None]
    >>> images = t * np.arange(9.0) + np.sin(5 * t)
    >>> pca = RobustStreamingPCA(n_components=2).fit(images)
    >>> broken = images[20].copy()
    >>> broken[3] = 99.0
    >>> bool(np.allclose(pca.restore([broken]), images[20], atol=0.1))
    True
    """

    axes = "principal"
    _takes_missing = True

    def __init__(
        self,
        *,
        n_components: int = 10,
        image_shape: tuple[int, int] | None = None,
        threshold: float | None = None,
        threshold_factor: float = 8.0,
        smoothing: int = 1,
        n_hypotheses: int = 24,
        window: float = 0.4,
        seed_images: int = 50,
        most_outliers: float = 0.6,
        guard: int = 8,
        half_life: float | None = None,
        random_state: int | None = None,
        keep_coefficients: bool = False,
        forgetting: float | str = DEPRECATED,
    ) -> None:
        self.n_components = n_components
        self.image_shape = image_shape
        self.threshold = threshold
        self.threshold_factor = threshold_factor
        self.smoothing = smoothing
        self.n_hypotheses = n_hypotheses
        self.window = window
        self.seed_images = seed_images
        self.most_outliers = most_outliers
        self.guard = guard
        self.half_life = half_life
        self.forgetting = forgetting
        self.random_state = random_state
        self.keep_coefficients = keep_coefficients

    # Learning.

    def fit(
        self,
        X: ArrayLike,
        y: Any = None,
        mask: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> Self:
        """Forget everything, then learn these images.

        Parameters
        ----------
        X : array-like of shape (n_images, n_features)
            Missing pixels are NaN.
        y : ignored
        mask : array-like of bool, shape (n_images, n_features), optional
            Where pixels are known to be outliers; all others are trusted.
        weights : array-like of shape (n_images,), optional
            Weight of each image; 1 by default.
        """
        return self._copy_on_write(lambda changed: changed._learn(X, mask, weights, fresh=True))

    def partial_fit(
        self,
        X: ArrayLike,
        y: Any = None,
        mask: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> Self:
        """Learn more images, in this order; parameters as in ``fit``."""
        fresh = not self.__sklearn_is_fitted__()
        return self._copy_on_write(lambda changed: changed._learn(X, mask, weights, fresh=fresh))

    def learn_one(self, x: ArrayLike, y: Any = None, mask: ArrayLike | None = None) -> Self:
        """Learn one image; ``accepted_`` says whether it was."""
        return self.partial_fit(
            _one_row(x, "learn_one"), mask=None if mask is None else np.asarray(mask)[None]
        )

    def start(self, X: ArrayLike) -> Self:
        """Forget everything, then begin with images that are known to have no outliers.

        They should show the full variation of later images.
        """
        return self._copy_on_write(lambda changed: changed._start_from(X))

    def _start_from(self, X: ArrayLike) -> None:
        self._check_parameters()
        rows = self._rows(X, reset=True, missing=True)
        missing = _missing(rows, None)
        self._begin(rows.shape[1])
        self.accepted_ = np.ones(len(rows), dtype=bool)
        self._start_eigenspace(rows, missing, np.ones(len(rows), dtype=bool), np.ones(len(rows)))

    def _learn(
        self,
        X: ArrayLike,
        mask: ArrayLike | None,
        weights: ArrayLike | None,
        *,
        fresh: bool,
    ) -> None:
        self._check_parameters()
        rows = self._rows(X, reset=fresh, missing=True)
        missing = _missing(rows, mask)
        given = np.ones(len(rows)) if weights is None else checked_weights(weights, len(rows))
        if fresh:
            self._begin(rows.shape[1])
        counted = given > 0
        trusted = np.full(int(counted.sum()), mask is not None)
        accepted = np.zeros(len(rows), dtype=bool)
        accepted[counted] = self._learn_rows(
            rows[counted], missing[counted], trusted, given[counted]
        )
        self.accepted_ = accepted

    def _begin(self, n_features: int) -> None:
        if self.image_shape is not None and np.prod(self.image_shape) != n_features:
            raise WrongShape(
                f"image_shape {self.image_shape} does not have the {n_features} pixels of the rows"
            )
        self.eigenspace_ = self._empty_eigenspace(n_features)
        self.scale_ = 0.0
        self.started_ = False
        self.n_rejected_ = 0
        self.waiting_ = np.empty((0, n_features))
        self.waiting_trusted_ = np.empty(0, dtype=bool)
        self.waiting_weights_ = np.empty(0)
        # Derived on demand, and discarded when the rest changes.
        self._derived: dict[str, Any] = {}

    def _learn_rows(self, rows: Array, missing: Mask, trusted: Mask, weights: Array) -> Mask:
        """Learn images, or collect them for the start; false for rejected ones."""
        accepted = np.ones(len(rows), dtype=bool)
        room = 0 if self.started_ else max(0, self.seed_images - len(self.waiting_))
        self._collect(rows[:room], missing[:room], trusted[:room], weights[:room])
        for i in range(room, len(rows)):
            accepted[i] = self._learn_image(rows[i], missing[i], bool(trusted[i]), weights[i])
        return accepted

    def _collect(self, rows: Array, missing: Mask, trusted: Mask, weights: Array) -> None:
        """Collect images; start when there are enough."""
        if not len(rows):
            return
        self.waiting_ = np.vstack([self.waiting_, np.where(missing, np.nan, rows)])
        self.waiting_trusted_ = np.append(self.waiting_trusted_, trusted)
        self.waiting_weights_ = np.append(self.waiting_weights_, weights)
        self._derived = {}
        if len(self.waiting_) >= self.seed_images:
            self._start_eigenspace(*self._collected())

    def _collected(self) -> tuple[Array, Mask, Mask, Array]:
        """Collected images: rows, missing pixels, trusted pixels, and weights."""
        waiting = self.waiting_
        return waiting, np.isnan(waiting), self.waiting_trusted_, self.waiting_weights_

    def _start_eigenspace(self, rows: Array, missing: Mask, trusted: Mask, weights: Array) -> None:
        """Start the eigenspace from images, each repaired by means of the others."""
        rows = np.where(missing, 0.0, rows)
        seed = robust_start(rows, missing, trusted, self._wanted(), self._projector_for)
        accepted = ~self._mostly_outliers(seed.outliers & ~missing, missing)
        if not accepted.any():
            accepted[:] = True  # then none is an exception
        self.eigenspace_.add(seed.completed[accepted], weights[accepted])
        self.n_rejected_ += int((~accepted).sum())
        self.scale_ = seed.scale
        self.started_ = True
        self.waiting_ = self.waiting_[:0]
        self.waiting_trusted_ = self.waiting_trusted_[:0]
        self.waiting_weights_ = self.waiting_weights_[:0]
        self._derived = {}

    def _learn_image(self, image: Array, missing: Mask, trusted: bool, weight: float) -> bool:
        projector = self._projector()
        found = (projector.complete if trusted else projector.explain)(image, missing)
        if self._mostly_outliers(found.outliers & ~missing, missing):
            self.n_rejected_ += 1
            return False
        residual = (image - found.reconstruction)[~found.outliers]
        typical = typical_size(residual, projector.mean)
        self.scale_ = SCALE_DECAY * self.scale_ + (1.0 - SCALE_DECAY) * typical
        restored = np.where(found.outliers, found.reconstruction, image)
        self.eigenspace_.add(restored[None], np.array([weight]))
        self._derived = {}
        return True

    def _mostly_outliers(self, unexplained: Mask, missing: Mask) -> Mask:
        rejected: Mask = unexplained.sum(axis=-1) > self.most_outliers * (~missing).sum(axis=-1)
        return rejected

    def _merge(self, other: "RobustStreamingPCA") -> None:
        if not self.__sklearn_is_fitted__():
            self.n_features_in_ = other.n_features_in_
            self._begin(other.n_features_in_)
            self.accepted_ = np.ones(0, dtype=bool)
        if not other.started_:
            self._learn_rows(*other._collected())
            return
        waiting = self._collected()
        share = other.eigenspace_.weight / (self.eigenspace_.weight + other.eigenspace_.weight)
        self.eigenspace_.merge(other.eigenspace_)
        self.scale_ += share * (other.scale_ - self.scale_)
        self.n_rejected_ += other.n_rejected_
        self.started_ = True
        self.waiting_, self.waiting_trusted_ = self.waiting_[:0], self.waiting_trusted_[:0]
        self.waiting_weights_ = self.waiting_weights_[:0]
        self._derived = {}
        self._learn_rows(*waiting)

    # Asking.

    def transform(self, X: ArrayLike, mask: ArrayLike | None = None) -> Array:
        """Coefficients of images, from the pixels that are not outliers."""
        width = self.n_components_ if self.__sklearn_is_fitted__() else 0
        coefficients = [found.coefficients for found in self._explanations(X, mask)]
        padded = np.zeros((len(coefficients), width))
        for row, found in zip(padded, coefficients, strict=True):
            row[: len(found)] = found
        return padded

    def transform_one(self, x: ArrayLike, mask: ArrayLike | None = None) -> Array:
        """Coefficients of one image."""
        row = _one_row(x, "transform_one")
        return self.transform(row, mask=None if mask is None else np.asarray(mask)[None])[0]

    def restore(self, X: ArrayLike, mask: ArrayLike | None = None) -> Array:
        """Images with outliers and missing pixels replaced by the eigenspace's prediction.

        Parameters
        ----------
        X : array-like of shape (n_images, n_features)
        mask : array-like of bool, shape (n_images, n_features), optional
            Where pixels are known to be outliers; all others are trusted.
        """
        found = self._explanations(X, mask)
        rows = self._rows(X, missing=True)
        return np.array(
            [
                np.where(f.outliers, f.reconstruction, row)
                for f, row in zip(found, rows, strict=True)
            ]
        )

    def outliers(self, X: ArrayLike) -> tuple[Mask, Array]:
        """Which pixels are outliers, and by how much.

        Returns
        -------
        mask : ndarray of bool, shape (n_images, n_features)
        scores : ndarray of shape (n_images, n_features)
            The residual in units of the threshold; NaN where the pixel is missing.
        """
        found = self._explanations(X, None)
        return np.array([f.outliers for f in found]), np.array([f.scores for f in found])

    @property
    def threshold_(self) -> float:
        """The residual above which a pixel is an outlier."""
        return self._projector().threshold

    def _explanations(self, X: ArrayLike, mask: ArrayLike | None) -> list[Explanation]:
        rows = self._rows(X, missing=True)
        missing = _missing(rows, mask)
        projector = self._projector()
        project = projector.explain if mask is None else projector.complete
        return [project(row, hole) for row, hole in zip(np.nan_to_num(rows), missing, strict=True)]

    def _project(self, rows: Array) -> Array:
        return self.transform(rows)

    def _model(self) -> Eigenspace:
        self._require_attributes("eigenspace")
        return self._started().eigenspace_

    def _started(self) -> "RobustStreamingPCA":
        """This learner or, before the start, one started from the collected images."""
        if self.started_:
            return self
        if "started" not in self._derived:
            early = RobustStreamingPCA(**self.get_params(deep=False))
            early.n_features_in_ = self.n_features_in_
            early._begin(self.n_features_in_)
            early._start_eigenspace(*self._collected())
            self._derived["started"] = early
        return cast(RobustStreamingPCA, self._derived["started"])

    def _projector(self) -> RobustProjector:
        now = self._started()
        if "projector" not in now._derived:
            components, scatter = now.eigenspace_.principal()
            freedom = max(now.eigenspace_.freedom, 1e-300)
            now._derived["projector"] = now._projector_for(
                now.eigenspace_.mean, components, scatter / freedom, now.scale_
            )
        return cast(RobustProjector, now._derived["projector"])

    def _projector_for(
        self, mean: Array, components: Array, variances: Array, scale: float
    ) -> RobustProjector:
        return RobustProjector(
            mean,
            components,
            variances,
            scale=scale,
            threshold=float(
                self.threshold_factor * scale if self.threshold is None else self.threshold
            ),
            subsets=random_subsets(
                len(mean),
                len(components),
                self.n_hypotheses,
                self.image_shape,
                self.window,
                self.random_state or 0,
            ),
            image_shape=self.image_shape,
            smoothing=self.smoothing,
        )

    def _wanted(self) -> int:
        assert self.n_components is not None  # _check_parameters comes first
        return int(self.n_components)

    def _empty_eigenspace(self, n_features: int) -> Eigenspace:
        return Eigenspace(
            n_features,
            n_components=self._wanted(),
            guard=int(self.guard),
            forgetting=self._forgetting(),
            keep_coefficients=self.keep_coefficients,
        )

    def _check_parameters(self) -> None:
        self._check_eigenspace_parameters()
        require_whole("n_components", self.n_components, most=2**31 - 1)
        require_whole("n_hypotheses", self.n_hypotheses, most=MOST_HYPOTHESES)
        require_whole("seed_images", self.seed_images)
        require_whole("smoothing", self.smoothing)
        require_whole("random_state", self.random_state, least=0, or_none=True)
        require_number("window", self.window, above=0.0, most=1.0)
        require_number("most_outliers", self.most_outliers, above=0.0, most=1.0)
        require_positive("threshold", self.threshold, or_none=True)
        require_positive("threshold_factor", self.threshold_factor)
        if self.image_shape is not None:
            if np.shape(self.image_shape) != (2,):
                raise InvalidParameter(
                    f"image_shape is (height, width) or None, not {self.image_shape!r}"
                )
            for side in self.image_shape:
                require_whole("each side of image_shape", side)
        if self.smoothing > 1 and self.image_shape is None:
            raise InvalidParameter("smoothing above 1 needs image_shape")

    # State in and out, tags.

    def _own_state(self) -> State:
        arrays, notes = super()._own_state()
        arrays |= {
            "waiting": self.waiting_,
            "waiting_trusted": self.waiting_trusted_,
            "waiting_weights": self.waiting_weights_,
        }
        notes |= {
            "scale": self.scale_,
            "started": self.started_,
            "n_rejected": self.n_rejected_,
            "accepted": self.accepted_,
        }
        return arrays, notes

    def _own_restore(self, arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> None:
        super()._own_restore(arrays, notes)
        self.waiting_ = validated_array(
            arrays, "waiting", None, self.n_features_in_, least=-LARGEST, most=LARGEST, missing=True
        )
        n_waiting = len(self.waiting_)
        self.waiting_trusted_ = validated_array(
            arrays, "waiting_trusted", n_waiting, dtype=np.bool_
        )
        self.waiting_weights_ = np.ones(n_waiting)
        if "waiting_weights" in arrays:  # older files have no weights
            self.waiting_weights_ = validated_array(arrays, "waiting_weights", n_waiting, least=0.0)
        self.scale_ = validated_number(notes, "scale", least=0.0)
        self.started_ = validated_flag(notes, "started")
        if self.started_ and not self.eigenspace_.weight:
            raise DamagedModel("started is true, and nothing was learned")
        self.n_rejected_ = validated_integer(notes, "n_rejected", most=2**53)
        self.accepted_ = validated_array(notes, "accepted", None, dtype=np.bool_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _missing(rows: Array, mask: ArrayLike | None) -> Mask:
    """Which pixels cannot be used; at least one of each image must be usable."""
    missing = np.isnan(rows)
    if mask is not None:
        known = np.asarray(mask)
        if known.shape != rows.shape or known.dtype != np.bool_:
            raise WrongShape(
                f"mask is {known.dtype} of shape {known.shape}; it should be true or false for "
                f"each pixel, shape {rows.shape}"
            )
        missing = missing | known
    blind = np.flatnonzero(missing.all(axis=1))
    if len(blind):
        raise NothingVisible(
            f"row {blind[0]} has no visible pixel: all are missing or masked; leave it out"
        )
    return missing


def _one_row(x: ArrayLike, method: str) -> NDArray[Any]:
    row = np.asarray(x)
    if row.ndim != 1:
        raise WrongShape(f"{method} takes one vector, got an array of shape {row.shape}")
    return row[None]
