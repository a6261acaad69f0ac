"""Settings chosen on held-out examples, and rivals that do not converge."""

import numpy as np
import pytest
import sklearn
from everlearn_papers.forests.choosing import choice, fit, in_words
from everlearn_papers.forests.grids import at_the_end, not_converged
from everlearn_papers.forests.protocol import ClassStream
from everlearn_papers.forests.rivals import CLASSIFIERS, SVM, SVM_PASSES, MetricOfFirst, ending
from sklearn.linear_model import LogisticRegression
from sklearn.utils.fixes import parse_version

from everlearn import NearestClassMean
from everlearn.learners.learned_metric import STEPS
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


def test_a_metric_stopped_too_early_is_reported():
    examples = stream().train
    late = MetricOfFirst(4, np.arange(4))
    assert fit(late, examples)
    found = ending(late, converged=True)
    assert found["converged"]
    assert found["steps"] < STEPS
    cut = MetricOfFirst(4, np.arange(4), most_steps=2)
    assert not fit(cut, examples)
    found = [ending(cut, converged=False), found]
    assert found[0]["steps"] == 2
    assert found[0]["loss"] > found[1]["loss"]
    assert not_converged([found, found]) == "2 of 4"
    assert at_the_end([found]).startswith(f"loss at most {found[0]['loss']:.1g}, ")


@pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.9.1"),
    reason="the number of passes may be read out of bounds",
)
def test_the_svm_runs_to_its_tolerance_and_a_warning_is_reported():
    """Not to ``max_iter``: scikit-learn's solver has a limit of its own."""
    examples = stream().train
    made = CLASSIFIERS[SVM][0](1.0, seed=0, trees=1)
    cut = CLASSIFIERS[SVM][0](1.0, seed=0, trees=1).set_params(max_iter=1)
    found = [ending(each, converged=fit(each, examples)) for each in (made, cut)]
    assert [each["converged"] for each in found] == [True, False]
    assert 1 < found[0]["steps"] == found[1]["steps"] < SVM_PASSES
    np.testing.assert_array_equal(made.coef_, cut.coef_)
    assert not_converged([found]) == "1 of 2"
    assert not_converged([[{}]]) == ""


def test_a_metric_of_the_first_classes_is_that_of_the_library():
    """Projecting first, for its convergence, gives the same means and answers."""
    every, asked = stream().train, np.random.default_rng(1).normal(size=(200, 6))
    made = MetricOfFirst(3, np.arange(2)).fit(every.X, every.y)
    first = every.y < 2
    learner = NearestClassMean(metric="learned", rank=3).fit(every.X[first], every.y[first])
    learner.partial_fit(every.X[~first], every.y[~first])
    np.testing.assert_array_equal(made.predict(asked), learner.predict(asked))


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
