"""pandas and polars frames are accepted like arrays, and column names are compared."""

import numpy as np
import pytest
from sklearn.base import clone

from everlearn import (
    InitialWhitening,
    NearestClassMean,
    PowerNormalizer,
    RandomFeatures,
    RecursiveRLSC,
    RobustStreamingPCA,
    StreamingLDA,
    StreamingPCA,
)
from everlearn.errors import OtherFeatures

NAMES = ["width", "height", "weight"]


@pytest.mark.parametrize("package", ["pandas", "polars"])
@pytest.mark.parametrize("learner", [NearestClassMean, StreamingLDA, RecursiveRLSC])
def test_a_data_frame_teaches_the_same_as_its_values(rng, package, learner):
    frames = pytest.importorskip(package)
    X, y = rng.normal(size=(30, 3)), np.arange(30) % 3
    frame = frames.DataFrame(dict(zip(NAMES, X.T, strict=True)))
    labels = frames.Series(y)
    taught = learner().fit(frame, labels)
    expected = learner().fit(X, y).decision_function(X)
    assert np.allclose(taught.decision_function(frame), expected)
    assert taught.feature_names_in_.tolist() == NAMES
    with pytest.raises(OtherFeatures):
        taught.predict(frame[["height", "width", "weight"]])


TRANSFORMERS = [
    InitialWhitening(),
    PowerNormalizer(),
    RandomFeatures(n_components=5),
    RobustStreamingPCA(n_components=2),
    StreamingLDA(),
    StreamingPCA(n_components=2),
]


@pytest.mark.parametrize("package", ["pandas", "polars"])
@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=lambda t: type(t).__name__)
def test_outputs_can_be_data_frames(rng, package, transformer):
    frames = pytest.importorskip(package)
    X, y = rng.normal(size=(30, 3)), np.arange(30) % 3
    frame = frames.DataFrame(dict(zip(NAMES, X.T, strict=True)))
    plain = clone(transformer).fit(X, y).transform(X)
    out = clone(transformer).set_output(transform=package).fit(frame, y)
    seen = out.transform(frame)
    assert isinstance(seen, frames.DataFrame)
    assert list(seen.columns) == out.get_feature_names_out().tolist()
    assert np.allclose(seen.to_numpy(), plain)
