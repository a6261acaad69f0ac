"""pandas and polars frames go in as arrays do, and the names of columns are compared."""

import numpy as np
import pytest

from everlearn import NearestClassMean, RecursiveRLSC, StreamingLDA
from everlearn.errors import OtherFeatures

NAMES = ["width", "height", "weight"]


@pytest.mark.parametrize("package", ["pandas", "polars"])
@pytest.mark.parametrize("learner", [NearestClassMean, StreamingLDA, RecursiveRLSC])
def test_a_frame_teaches_what_its_numbers_teach(rng, package, learner):
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
