"""λ of least squares by leave-one-out on the statistics, against λ by held-out examples.

``RecursiveRLSC(regularization="auto")`` uses the first. Version 0.1 used the second, which is still
used for models saved by it: every sixth example is held out, at most 2,000, and λ is the middle of
the plateau of their accuracy. Here they are spread over all classes. Packs, shots, normalisation
and seeds are those of ``quality``. Nothing is chosen on test examples.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.quality import DRAWS, PACKS, SEEDS, _is_here, drawn, prepared
from benchmarks.side_by_side import Line
from everlearn import RecursiveRLSC
from everlearn.errors import MissingData
from everlearn.learners.closed_form.held_out import held_out_choice
from everlearn.learners.closed_form.leave_one_out import LearnedRows
from everlearn.learners.closed_form.model_selection import Question

EVERY, MOST = 6, 2000


def lines() -> Iterator[Line]:
    here = [name for name in PACKS if _is_here(name)]
    if not here:
        raise MissingData(f"none of the packs {', '.join(PACKS)} is here; set EVERLEARN_DATA")
    found: dict[str, float] = {}
    for name in here:
        for draw in DRAWS:
            gaps = [_gap(name, draw, seed) for seed in range(SEEDS[draw])]
            row = f"{name}, {draw if isinstance(draw, str) else f'{draw} of each class'}"
            found[row] = 100.0 * float(np.mean(gaps))
            print(f"  {row}: {found[row]:+.2f}", flush=True)
    worst, best = min(found, key=found.__getitem__), max(found, key=found.__getitem__)
    yield Line(
        "λ by leave-one-out instead of held-out examples, points of accuracy",
        f"worst {found[worst]:+.2f} ({worst}), best {found[best]:+.2f} ({best}), "
        f"mean {np.mean(list(found.values())):+.2f}",
        "≥ −0.3 everywhere",
    )


def _gap(name: str, draw: Any, seed: int) -> float:
    """Accuracy with the one λ minus accuracy with the other."""
    X, y, X_test, y_test = prepared(name)
    taught = drawn(y, draw, seed)
    learner = RecursiveRLSC(regularization="auto", recoding=0.0, fit_intercept=True)
    learner.partial_fit(X[taught], y[taught])
    by_leave_one_out = np.mean(learner.predict(X_test) == y_test)
    held = taught[EVERY - 1 :: EVERY]
    held = held[:: -(-len(held) // MOST)]
    slots = learner.registry_.slots(y[held].tolist())
    asked = Question(None, 0.0, None, rebalance=False, intercept=True)
    rows = LearnedRows(np.asarray(X[held], dtype=np.float64), slots, np.ones(len(held)))
    chosen = held_out_choice(learner.moments_, rows, asked)
    learner.set_params(regularization=chosen.regularization)
    return float(by_leave_one_out - np.mean(learner.predict(X_test) == y_test))
