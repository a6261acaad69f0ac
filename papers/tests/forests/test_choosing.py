"""Settings chosen on examples held out, and rivals that do not come to an end."""

import numpy as np
from everlearn_papers.forests.choosing import best_setting, fit, held_out_accuracies
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


def test_every_setting_has_its_accuracy_and_the_best_is_chosen():
    def make(share):
        return LogisticRegression(C=share, max_iter=2 if share == 1.0 else 500)

    found = held_out_accuracies(make, (1e-6, 1.0, 100.0), stream(), 4)
    assert list(found) == [1e-6, 1.0, 100.0]
    assert [converged for _, converged in found.values()] == [True, False, True]
    best = best_setting(make, (1e-6, 1.0, 100.0), stream(), 4)
    assert found[best][0] == max(accuracy for accuracy, _ in found.values())
