"""Runs every check on an estimator."""

from dataclasses import dataclass
from typing import Any, Literal

from sklearn.base import clone

from everlearn.checks import asking, bad_input, forgetting, learning, life, one_at_a_time
from everlearn.checks.parts import CHECKS, NotApplicable, Stream, two_classes_only
from everlearn.errors import CheckFailed

# Importing a module registers its checks.
SUBJECTS = (learning, one_at_a_time, asking, forgetting, bad_input, life)


@dataclass(frozen=True)
class CheckResult:
    """The result of one check."""

    name: str
    status: Literal["passed", "failed", "skipped"]
    reason: str = ""


def check_learner(
    learner: Any, *, on_fail: Literal["raise", "report"] = "raise", seed: int = 0
) -> list[CheckResult]:
    """Check that an estimator keeps the contract of a streaming learner.

    Parameters
    ----------
    learner : estimator
        Anything with ``partial_fit`` and ``predict``; it is cloned, not changed. Estimators that
        classify two classes only are checked with two.
    on_fail : {"raise", "report"}, default="raise"
        Raise ``CheckFailed`` at the first broken promise, or continue and report all.
    seed : int
        For the examples to check with.

    Returns
    -------
    list of CheckResult
        Name, status ("passed", "failed", "skipped") and reason of each check.

    Notes
    -----
    *Cost*: some seconds; learners with compiled parts compile them first.

    *Promises*: the learner itself is not changed; the same seed checks with the same examples.

    Examples
    --------
    >>> from everlearn import NearestClassMean, check_learner
    >>> {result.status for result in check_learner(NearestClassMean())}
    {'passed'}
    """
    if on_fail not in ("raise", "report"):
        raise ValueError(f"on_fail must be 'raise' or 'report', not {on_fail!r}")
    stream = Stream.generate(seed, n_classes=2 if two_classes_only(learner) else 4)
    results = []
    for check in CHECKS:
        name = check.__name__
        try:
            check(clone(learner), stream)
        except NotApplicable as reason:
            results.append(CheckResult(name, "skipped", str(reason)))
        except Exception as error:
            text = f"{type(learner).__name__} broke {name}: {error}"
            if on_fail == "raise":
                raise CheckFailed(text) from error
            results.append(CheckResult(name, "failed", text))
        else:
            results.append(CheckResult(name, "passed"))
    return results
