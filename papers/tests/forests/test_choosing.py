"""Settings chosen on held-out examples, and rivals that do not converge."""

import numpy as np
import pytest
from everlearn_papers.forests.choosing import choice, fit, in_words
from everlearn_papers.forests.protocol import ClassStream
from sklearn.linear_model import LogisticRegression

from everlearn.streams.examples import Examples


def stream(n_classes=4, n=40):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(n_classes), n)
    parts = [Examples(3.0 * np.eye(n_classes, 6)[y] + rng.normal(size=(len(y), 6)), y)] * 2
    return ClassStream(*parts, np.arange(n_classes))


def test_a_rival_that_does_not_converge_is_reported():
    examples = stream().train
    assert not fit(LogisticRegression(max_iter=1), examples)
    assert fit(LogisticRegression(max_iter=1000), examples)


def test_every_setting_has_its_accuracy_and_the_best_is_taken():
    def make(share):
        return LogisticRegression(C=share, max_iter=2 if share == 1.0 else 500)

    found = choice(make, (1e-6, 1.0, 100.0), stream(), 4)
    assert set(found.accuracies) >= {1e-6, 1.0, 100.0}
    assert found.late == {1.0}
    assert found.accuracies[found.setting] == max(found.accuracies.values())
    result = found.as_result()
    assert next(iter(result["tried"])) == "1e-06"
    assert result["late"] == ["1"]
    assert in_words(result).startswith(f"{found.setting:g} of 1e-06 to ")


def test_a_single_setting_needs_no_search():
    found = choice(lambda _: pytest.fail("nothing is to be made"), ("any",), stream(), 4)
    assert (found.setting, found.accuracies) == ("any", {})


def test_a_setting_without_a_search_is_reported_alone():
    found = choice(lambda _: pytest.fail("nothing is to be made"), (32,), stream(), 4)
    assert in_words(found.as_result()) == "32"
