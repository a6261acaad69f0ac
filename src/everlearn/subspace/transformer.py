"""Base class of the two eigenspace learners: an eigenspace as a scikit-learn transformer."""

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError

from everlearn.arrays import Array, State, padded
from everlearn.deprecation import warn_of_old_parameters
from everlearn.errors import InvalidParameter, NotMergeable, WrongWidth
from everlearn.estimator import BOUNDED, Promise, StreamingEstimator
from everlearn.subspace.eigenspace import Eigenspace
from everlearn.validation import checked_rows, require_flag, require_number, require_whole


class EigenspaceTransformer(
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    StreamingEstimator,
):
    """Exposes an :class:`Eigenspace`: components, projections, reconstructions."""

    n_components: int | float | None
    guard: int
    half_life: float | None
    forgetting: float | str
    _renamed_parameters: ClassVar[dict[str, str | None]] = {"forgetting": "half_life"}
    keep_coefficients: bool
    axes: str
    _takes_missing = False
    eigenspace_: Eigenspace

    @property
    def promises(self) -> frozenset[Promise]:
        return frozenset() if self.keep_coefficients else BOUNDED

    def learn_one(self, x: ArrayLike, y: Any = None) -> Self:
        """Learn one image; ``y`` is ignored."""
        raise NotImplementedError

    def merge(self, other: "EigenspaceTransformer") -> Self:
        """Add what another eigenspace has learned (Hall, Marshall and Martin, 2000).

        Exact as long as neither has discarded a direction; otherwise approximate, because a
        direction discarded on one side may have mattered for both together.
        """
        if type(other) is not type(self):
            raise NotMergeable(
                f"a {type(self).__name__} can only be merged with its own kind, "
                f"not with a {type(other).__name__}"
            )
        self._require_same_parameters(other)
        if other is self:
            raise NotMergeable("an eigenspace cannot be merged with itself; merge a copy")
        if not other.__sklearn_is_fitted__():
            return self
        if self.__sklearn_is_fitted__() and self.n_features_in_ != other.n_features_in_:
            raise NotMergeable(
                f"this eigenspace was taught {self.n_features_in_} features, "
                f"the other {other.n_features_in_}"
            )
        self._merge(other)
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Coefficients of images: their projection on the components.

        A direction that was not seen yet has coefficient zero, so that the number of columns does
        not change if ``n_components`` is a number.
        """
        return self._project(self._rows(X))

    def transform_one(self, x: ArrayLike) -> Array:
        """Coefficients of one image; the fast path."""
        self._require_fitted()
        return self._project(self._vector(x, "transform_one")[None])[0]

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Images from coefficients."""
        self._require_fitted()
        coefficients = _coefficient_rows(X, self.n_components_)
        axes, at_mean = self._axes()
        images: Array = (coefficients - at_mean) @ axes + self.mean_
        return images

    def reconstruction_error(self, X: ArrayLike) -> Array:
        """The mean squared difference per visible pixel between images and reconstructions."""
        rows = self._rows(X, missing=self._takes_missing)
        difference = rows - self.inverse_transform(self._project(rows))
        errors: Array = np.nanmean(difference**2, axis=1)
        return errors

    @property
    def mean_(self) -> Array:
        return self._model().mean

    @property
    def components_(self) -> Array:
        """Orthonormal rows, strongest first; rows of zeros for directions not seen yet."""
        components, _ = self._model().principal()
        return _exactly(components, self.n_components_)

    @property
    def explained_variance_(self) -> Array:
        """The variance along each component."""
        eigenspace = self._model()
        _, scatter = eigenspace.principal()
        freedom = eigenspace.freedom
        variance = scatter / freedom if freedom > 0 else np.zeros_like(scatter)
        return _exactly(variance[:, None], self.n_components_)[:, 0]

    @property
    def explained_variance_ratio_(self) -> Array:
        """The share of the total variance, including discarded directions, along each component."""
        eigenspace = self._model()
        _, scatter = eigenspace.principal()
        ratio = scatter / eigenspace.energy if eigenspace.energy > 0 else np.zeros_like(scatter)
        return _exactly(ratio[:, None], self.n_components_)[:, 0]

    @property
    def noise_variance_(self) -> float:
        """The mean variance of the directions outside the components."""
        eigenspace = self._model()
        components, scatter = eigenspace.principal()
        outside = self.n_features_in_ - len(components)
        if outside == 0 or eigenspace.freedom == 0:
            return 0.0
        rest = max(eigenspace.energy - float(scatter.sum()), 0.0)
        return rest / eigenspace.freedom / outside

    @property
    def rank_(self) -> int:
        """Number of components seen so far."""
        return len(self._model().principal()[0])

    @property
    def n_components_(self) -> int:
        """The number of columns of ``transform``."""
        self._require_attributes("n_components_")
        if isinstance(self.n_components, (int, np.integer)):
            return min(int(self.n_components), self.n_features_in_)
        return max(1, self.rank_)

    @property
    def n_samples_seen_(self) -> int:
        """Number of images learned."""
        return self._model().n_images

    @property
    def coefficients_(self) -> Array:
        """The coefficients of every image, one row each, in the order taught."""
        eigenspace = self._model()
        if eigenspace.coefficients is None:
            raise AttributeError(
                "coefficients_ were not kept; create it with keep_coefficients=True"
            )
        return _exactly(eigenspace.read_coefficients(self.axes).T, self.n_components_).T

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_is_fitted__(self) -> bool:
        return self._is_begun()

    def _require_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet: it was taught nothing. "
                "Call partial_fit or learn_one first."
            )

    def _require_attributes(self, name: str) -> None:
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"{type(self).__name__} has no {name} before it is taught")

    def _model(self) -> Eigenspace:
        """The current eigenspace."""
        self._require_attributes("eigenspace")
        return self.eigenspace_

    def _project(self, rows: Array) -> Array:
        axes, at_mean = self._axes()
        coefficients: Array = (rows - self.mean_) @ axes.T + at_mean
        return coefficients

    def _axes(self) -> tuple[Array, Array]:
        """Rows to project on, and the coordinates of the mean."""
        frame = self._model().frame(self.axes)
        width = self.n_components_
        return _exactly(frame.axes, width), _exactly(frame.at_mean[:, None], width)[:, 0]

    def _merge(self, other: Any) -> None:
        raise NotImplementedError

    def _empty_eigenspace(self, n_features: int) -> Eigenspace:
        raise NotImplementedError

    @staticmethod
    def _converted_parameter(name: str, value: Any) -> Any:
        """The half-life that corresponds to a forgetting factor per image."""
        return None if value == 1.0 else float(np.log(0.5) / np.log(value))

    def _forgetting(self) -> float:
        """The factor applied to the weight of all earlier images before each new one."""
        if not isinstance(self.forgetting, str):
            return self.forgetting
        return 1.0 if self.half_life is None else float(0.5 ** (1.0 / self.half_life))

    def _check_eigenspace_parameters(self) -> None:
        n = self.n_components
        if isinstance(n, (bool, np.bool_)) or not (
            n is None
            or (isinstance(n, (int, np.integer)) and n >= 1)
            or (isinstance(n, (float, np.floating)) and 0.0 < n < 1.0)
        ):
            raise InvalidParameter(
                f"n_components must be an integer of at least 1, a share of the energy between "
                f"0 and 1, or None for all directions, not {n!r}"
            )
        require_whole("guard", self.guard, least=0)
        warn_of_old_parameters(self)
        require_number("half_life", self.half_life, above=0.0, or_none=True)
        if not isinstance(self.forgetting, str):
            require_number("forgetting", self.forgetting, above=0.0, most=1.0)
        require_flag("keep_coefficients", self.keep_coefficients)

    def _is_begun(self) -> bool:
        return "eigenspace_" in self.__dict__

    def _begin(self, n_features: int) -> None:
        self.eigenspace_ = self._empty_eigenspace(n_features)

    def _own_state(self) -> State:
        return self.eigenspace_.state()

    def _own_restore(self, arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> None:
        self.eigenspace_.restore(arrays, notes)


def _exactly(rows: Array, n_rows: int) -> Array:
    """Exactly ``n_rows`` rows: the first ones, or all followed by rows of zeros."""
    return rows[:n_rows] if len(rows) >= n_rows else padded(rows, n_rows)


def _coefficient_rows(X: ArrayLike, width: int) -> Array:
    rows = checked_rows(X)
    if rows.shape[1] != width:
        raise WrongWidth(
            f"inverse_transform got {rows.shape[1]} coefficients, this eigenspace has {width}"
        )
    return rows
