"""Our own suite over every learner, and the suite over broken learners."""

import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB

from everlearn import NearestClassMean, StreamingLDA, check_learner
from everlearn.checks.parts import CHECKS
from everlearn.errors import CheckFailed
from tests.contract.learners import LEARNERS, OTHER_LEARNERS


@pytest.mark.parametrize("learner", LEARNERS + OTHER_LEARNERS, ids=repr)
def test_every_learner_keeps_the_contract(learner):
    results = check_learner(learner)
    assert len(results) == len(CHECKS) >= 30
    for result in results:
        assert result.status in ("passed", "skipped")
        reasons = ("promise", "keeps its examples", "no sample_weight")
        said = any(reason in result.reason for reason in reasons)
        assert result.status == "passed" or said


@pytest.mark.parametrize(
    "learner", [NearestClassMean(), StreamingLDA(class_scatter=True)], ids=repr
)
def test_exact_learners_skip_nothing(learner):
    assert {result.status for result in check_learner(learner)} == {"passed"}


def broken(check, results):
    return next(result for result in results if result.name == check).status == "failed"


class Forgetful(NearestClassMean):
    def _learn(self, X, slots, weights):
        known = self.moments_.n_slots
        self._begin(X.shape[1])
        self.moments_.reserve(known)
        super()._learn(X, slots, weights)


class Sharing(NearestClassMean):
    def _learn(self, X, slots, weights):
        super()._learn(X, slots, weights)
        self._kept = X

    def _scores(self, X):
        return super()._scores(X) + self._kept[0, 0]


class Hoarding(NearestClassMean):
    def _learn(self, X, slots, weights):
        super()._learn(X, slots, weights)
        self._hoard = [*getattr(self, "_hoard", []), X.copy()]


class Sloppy(NearestClassMean):
    def _rows(self, X, *, reset=None):
        rows = np.nan_to_num(np.atleast_2d(np.asarray(X, dtype=float)))
        self.n_features_in_ = rows.shape[1]
        return rows


class Drifting(NearestClassMean):
    def _scores(self, X):
        self.moments_.add_one(np.array(X[0]), 0)
        return super()._scores(X)


class OrderDependent(NearestClassMean):
    def _learn_one(self, x, slot):
        super()._learn_one(x, slot)
        self.moments_._means[slot] = 0.5 * self.moments_._means[slot] + 0.5 * x


class RememberingForgetter(NearestClassMean):
    def _forget(self, X, slots, weights):
        return []


@pytest.mark.parametrize(
    ("learner", "check"),
    [
        (Forgetful(), "forgets_nothing_old_when_it_learns_something_new"),
        (Sharing(), "does_not_share_the_callers_arrays"),
        (Hoarding(), "memory_is_bounded_on_a_ten_times_longer_stream"),
        (Sloppy(), "a_bad_batch_leaves_the_state_unchanged"),
        (Drifting(), "prediction_is_pure"),
        (Drifting(), "asking_in_between_changes_nothing"),
        (OrderDependent(), "batch_equals_loop"),
        (RememberingForgetter(), "learn_then_forget_equals_never_learned"),
        (RememberingForgetter(), "what_was_not_learned_cannot_be_forgotten"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_broken_promise_is_detected(learner, check):
    assert broken(check, check_learner(learner, on_fail="report"))


def test_the_first_broken_promise_is_raised_with_its_name():
    with pytest.raises(CheckFailed, match="Sloppy broke"):
        check_learner(Sloppy())


def test_estimators_of_other_libraries_can_be_checked():
    results = check_learner(GaussianNB(), on_fail="report")
    assert broken("needs_no_list_of_classes", results)
    results = check_learner(SGDClassifier(random_state=0), on_fail="report")
    assert broken("learns_a_new_class_at_any_time", results)
    assert any(result.status == "passed" for result in results)


def test_the_learner_given_is_not_changed():
    learner = NearestClassMean()
    check_learner(learner)
    assert not hasattr(learner, "registry_")
