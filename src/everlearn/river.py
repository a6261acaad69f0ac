"""Learners with River's interface: a dictionary per example, ``None`` before the first.

River uses dictionaries, and may ask before anything was learned; our learners use arrays, and raise
an error then. ``OneByOne`` adapts between the two, so that a learner works in River's pipelines,
metrics and evaluation. Needs ``pip install river``.
"""

from typing import Any

import numpy as np
from sklearn.base import clone

from everlearn.arrays import Array
from everlearn.base import StreamingClassifier
from everlearn.errors import MissingPackage, OtherFeatures, WrongShape
from everlearn.statistics.labels import Label

try:
    from river.base import MiniBatchClassifier
except ImportError:
    raise MissingPackage("everlearn.river needs River: pip install river") from None


class OneByOne(MiniBatchClassifier):  # type: ignore[misc]
    """A learner as a River classifier.

    A step costs as much as the learner's own, plus O(d) for the dictionary.

    Parameters
    ----------
    learner : StreamingClassifier
        Any learner; it is cloned, not changed.

    Attributes
    ----------
    taught : StreamingClassifier
        The fitted learner; save it, merge it, ask it with arrays.
    names : tuple of str, or None
        The features, in the order of the learner's columns: those of the first example, sorted.

    Notes
    -----
    *Promises*: those of the learner. Before the first example ``predict_one`` is None and
    ``predict_proba_one`` empty. An example with other features than the first is refused with
    ``OtherFeatures``, and nothing changes.

    Examples
    --------
    >>> from everlearn import NearestClassMean
    >>> from everlearn.river import OneByOne
    >>> model = OneByOne(NearestClassMean())
    >>> model.predict_one({"width": 3.0, "height": 4.0}) is None
    True
    >>> model.learn_one({"width": 3.0, "height": 4.0}, "cup")
    >>> model.predict_one({"height": 4.1, "width": 2.9})
    'cup'
    """

    def __init__(self, learner: StreamingClassifier) -> None:
        self.learner = learner
        self.taught: StreamingClassifier = clone(learner)
        self.names: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.learner!r})"

    @property
    def _multiclass(self) -> bool:
        return True

    @classmethod
    def _unit_test_params(cls) -> Any:
        from everlearn.learners.ncm import NearestClassMean

        yield {"learner": NearestClassMean()}

    def learn_one(self, x: dict[str, Any], y: Label) -> None:
        names = self.names or tuple(sorted(x))
        self.taught.learn_one(self._vector(x, names), y)
        self.names = names

    def predict_one(self, x: dict[str, Any], **_: Any) -> Label | None:
        if not self._knows_something():
            return None
        return self.taught.predict_one(self._vector(x, self.names or ()))

    def predict_proba_one(self, x: dict[str, Any], **_: Any) -> dict[Any, float]:
        if not self._knows_something():
            return {}
        shares = self.taught.predict_proba(self._vector(x, self.names or ())[None])[0]
        return dict(zip(self.taught.classes_.tolist(), shares.tolist(), strict=True))

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn a ``pandas.DataFrame`` and a series of labels."""
        names = self.names or tuple(sorted(X.columns))
        self.taught.partial_fit(self._rows(X, names), np.asarray(y))
        self.names = names

    def predict_many(self, X: Any) -> Any:
        """The most likely class of each row, as a series; empty before the first example."""
        import pandas as pd

        if not self._knows_something():
            return pd.Series(dtype=object)
        return pd.Series(self.taught.predict(self._rows(X, self.names or ())), index=X.index)

    def predict_proba_many(self, X: Any) -> Any:
        """Probabilities, a column per class; empty before the first example."""
        import pandas as pd

        if not self._knows_something():
            return pd.DataFrame(index=X.index)
        shares = self.taught.predict_proba(self._rows(X, self.names or ()))
        return pd.DataFrame(shares, columns=self.taught.classes_, index=X.index)

    def _knows_something(self) -> bool:
        return self.taught.__sklearn_is_fitted__()

    def _vector(self, x: dict[str, Any], names: tuple[str, ...]) -> Array:
        if not x:
            raise WrongShape("an example has no features; give a dictionary of at least one number")
        if len(x) != len(names):
            self._complain(set(x), set(names))
        try:
            return np.array([x[name] for name in names], dtype=np.float64)
        except KeyError:
            self._complain(set(x), set(names))
            raise

    def _rows(self, X: Any, names: tuple[str, ...]) -> Array:
        if set(X.columns) != set(names):
            self._complain(set(X.columns), set(names))
        return np.asarray(X[list(names)], dtype=np.float64)

    @staticmethod
    def _complain(got: set[str], wanted: set[str]) -> None:
        missing, surplus = sorted(wanted - got), sorted(got - wanted)
        raise OtherFeatures(
            f"the first example had other features: missing: {missing}, new: {surplus}; "
            "give every example the same ones"
        ) from None
