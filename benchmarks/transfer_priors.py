"""What prior knowledge saves: the experiments of ``everlearn reproduce transfer``, as lines.

One prior, related or not (Fig. 1); four unrelated classes (Fig. 2); all classes (Fig. 3); priors of
another domain; and the hard case, without a background that all tasks share. With both penalties
on β: the published ball, and the ridge that is the learners' default.
"""

from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
from everlearn_papers.transfer.experiments import (
    from_another_domain,
    from_the_others,
    one_prior,
    without_background,
)
from everlearn_papers.transfer.paper import SUBSTITUTE
from everlearn_papers.transfer.tasks import CHECKPOINTS

from benchmarks.side_by_side import Line
from everlearn.transfer.prior_weights import Penalty

PENALTIES: tuple[Penalty, ...] = get_args(Penalty)
DRAWS = range(3)
N_ORDERINGS = 4
CIFAR_TARGETS = 24
COMPARED = ("PA", "OTL", "M-OTL", "TR-OTL", "TROL", "TROL+", "Multi-KT")


def lines() -> Iterator[Line]:
    for penalty in PENALTIES:
        yield from single(penalty)
        four = [
            from_the_others(
                draw,
                features="caltech101",
                names=list(SUBSTITUTE.four),
                orderings=N_ORDERINGS,
                penalty=penalty,
            )
            for draw in DRAWS
        ]
        yield mistakes_line(f"four unrelated classes, {penalty}", four)
        many = [
            from_the_others(draw, features="cifar100", limit=CIFAR_TARGETS, penalty=penalty)
            for draw in DRAWS
        ]
        yield mistakes_line(f"CIFAR-100, {CIFAR_TARGETS} targets, 89 priors, {penalty}", many)
        for t in (6, 20, 60):
            yield Line(
                f"CIFAR-100, {penalty}: recognition at {t} samples, {' / '.join(COMPARED)}",
                rates(many, t, *COMPARED),
                "TROL not below PA, at 60 within 2 points of Multi-KT",
            )
    for same_class in (True, False):
        words = "with" if same_class else "without"
        runs = [
            from_another_domain(draw, same_class=same_class, orderings=2, penalty="ridge")
            for draw in DRAWS
        ]
        yield mistakes_line(f"SURF, priors of another domain {words} the same class, ridge", runs)
    hard = [without_background(0, features="cifar100", penalty="ball")]
    yield Line(
        "CIFAR-100 without a shared background, ball: recognition at 6 samples, Multi-KT / NOTR",
        rates(hard, 6, "Multi-KT", "NOTR"),
        "shown as the hard case",
    )


def single(penalty: Penalty) -> Iterator[Line]:
    for kind, pair in SUBSTITUTE.pairs.items():
        runs = [
            one_prior(
                draw,
                features="caltech101",
                pair=list(pair),
                orderings=N_ORDERINGS,
                penalty=penalty,
            )
            for draw in DRAWS
        ]
        yield mistakes_line(f"one prior, {kind} ({', '.join(pair)}), {penalty}", runs)
        yield Line(
            f"one prior, {kind}, {penalty}: recognition at 6 samples, TROL / PA / Multi-KT / NOTR",
            rates(runs, 6, "TROL", "PA", "Multi-KT", "NOTR"),
            "shown",
        )


def mistakes_line(what: str, runs: list[dict[str, Any]]) -> Line:
    def mean(name: str) -> str:
        return f"{np.mean([run['mistakes'][name][-1] for run in runs]):.2f}"

    return Line(
        f"{what}: mistakes of TROL / TROL+ / TR-OTL against PA / OTL / M-OTL / TROL+ (priors)",
        f"{' / '.join(map(mean, ('TROL', 'TROL+', 'TR-OTL')))} against "
        f"{' / '.join(map(mean, ('PA', 'OTL', 'M-OTL', 'TROL+ (priors)')))}",
        "fewer",
    )


def rates(runs: list[dict[str, Any]], t: int, *names: str) -> str:
    place = CHECKPOINTS.index(t)
    return " / ".join(
        f"{100 * np.mean([run['recognition'][name][place] for run in runs]):.1f} %"
        for name in names
    )
