"""Constructor arguments under old names: one more version with a warning, and in files for ever."""

import json

import numpy as np
import pytest
from sklearn.base import clone

from everlearn import (
    AutoClassifier,
    ExStream,
    NCMForest,
    RobustStreamingPCA,
    StreamingPCA,
    TransferClassifier,
    load,
)
from everlearn.persistence import dumps, load_arrays, save_arrays

RENAMED = [
    (ExStream, {"prototypes": 3}, {"n_prototypes": 3}),
    (AutoClassifier, {"memory": 0}, {"memory_mb": 0}),
    (TransferClassifier, {"memory": 2, "opening": 4}, {"n_exemplars": 2, "warm_up": 4}),
    (
        NCMForest,
        {"memory": 4, "n_estimators": 2, "random_state": 0},
        {"n_exemplars": 4, "n_estimators": 2, "random_state": 0},
    ),
    (StreamingPCA, {"forgetting": 0.9}, {"half_life": np.log(0.5) / np.log(0.9)}),
    (
        RobustStreamingPCA,
        {"forgetting": 0.9, "n_components": 2},
        {"half_life": np.log(0.5) / np.log(0.9), "n_components": 2},
    ),
]


def answers(learner, X):
    for method in ("decision_function", "predict_proba", "transform"):
        if hasattr(learner, method):
            return getattr(learner, method)(X)
    raise TypeError(f"{learner!r} answers nothing")


@pytest.fixture
def examples(rng):
    y = np.arange(40) % 3
    return rng.normal(size=(40, 6)) + y[:, None], y


@pytest.mark.parametrize(("kind", "old", "new"), RENAMED)
def test_an_old_name_warns_and_means_the_new_one(kind, old, new, examples):
    X, y = examples
    learner = clone(kind(**old))
    assert old.items() <= learner.get_params().items()
    with pytest.warns(FutureWarning, match=f"of {kind.__name__} is now called"):
        learner.fit(X, y)
    np.testing.assert_allclose(answers(learner, X), answers(kind(**new).fit(X, y), X), rtol=1e-9)


@pytest.mark.parametrize(("kind", "old", "new"), RENAMED)
@pytest.mark.filterwarnings("error")
def test_a_file_with_old_names_loads_without_a_warning(kind, old, new, examples, tmp_path):
    X, y = examples
    learner = kind(**new).fit(X, y)
    path = tmp_path / "new"
    path.write_bytes(dumps(learner))
    name, description, arrays = load_arrays(path)
    assert not (set(old) - set(new)) & description["parameters"].keys()
    description["parameters"] = {
        key: value for key, value in description["parameters"].items() if key not in new
    } | json.loads(json.dumps(old))
    save_arrays(tmp_path / "old", name, description, arrays)
    again = load(tmp_path / "old")
    assert again.get_params() == pytest.approx(learner.get_params())
    np.testing.assert_allclose(answers(again, X), answers(learner, X), rtol=1e-9)
