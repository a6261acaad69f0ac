"""One prior, related or not (Fig. 1), and priors of another domain with and without the same class.

Related pairs of CIFAR-100 are boy/man and maple/oak, unrelated ones boy/bus and bottle/dolphin,
each in both directions. Office-Caltech10 (SURF) has the same ten classes in four domains: a class
of one domain is learned from detectors of another domain.
"""

from collections.abc import Iterator

import numpy as np

from benchmarks.accuracy import pack
from benchmarks.side_by_side import Line
from benchmarks.transfer_many_priors import cifar
from everlearn.papers.transfer.tasks import (
    N_SOURCE,
    Task,
    at,
    compare,
    learn_sources,
    make_task,
    mistakes,
    split_background,
    table,
    unit_rows,
)

PACKS = (
    "cifar100_small_effnetlite0.npz",
    "office_caltech10.npz",
)
RELATED = (("boy", "man"), ("maple_tree", "oak_tree"))
UNRELATED = (("boy", "bus"), ("bottle", "dolphin"))
N_BACKGROUND = 5
N_ORDERINGS = 10
DRAWS = range(100, 103)
OFFICE_BACKGROUND = 3
CHECKED = (6, 20, 60)


def pair_tasks(pairs: tuple[tuple[str, str], ...]) -> Iterator[Task]:
    X, labels = cifar()
    names = pack("cifar100_small_effnetlite0.npz")["class_names"].tolist()
    used = {name for pair in RELATED + UNRELATED for name in pair}
    for draw in DRAWS:
        rng = np.random.default_rng(draw)
        drawn = rng.choice([n for n in names if n not in used], N_BACKGROUND, replace=False)
        ours, theirs = split_background(X[np.isin(labels, [names.index(n) for n in drawn])], rng)
        for one, other in pairs:
            for target, source in ((one, other), (other, one)):
                known = learn_sources([X[labels == names.index(source)][:N_SOURCE]], ours)
                for _ in range(N_ORDERINGS):
                    yield make_task(X[labels == names.index(target)], theirs, known, [0], rng)


def office_tasks(*, same_class: bool, target_domain: str, source_domain: str) -> Iterator[Task]:
    data = pack("office_caltech10.npz")
    domains = data["domains"].tolist()
    X, labels = unit_rows(np.sqrt(data["surf"].astype(float))), data["surf_labels"]
    here = data["surf_domain"] == domains.index(target_domain)
    there = data["surf_domain"] == domains.index(source_domain)
    rng = np.random.default_rng(100)
    order = rng.permutation(10)
    background, known = order[:OFFICE_BACKGROUND], order[OFFICE_BACKGROUND:]
    sources = learn_sources(
        [X[there & (labels == c)][:N_SOURCE] for c in known],
        X[there & np.isin(labels, background)],
    )
    for index, target in enumerate(known):
        chosen = [j for j in range(len(known)) if same_class or j != index]
        for _ in range(N_ORDERINGS):
            yield make_task(
                X[here & (labels == target)],
                X[here & np.isin(labels, background)],
                sources,
                chosen,
                rng,
            )


def lines() -> Iterator[Line]:
    if any(pack(name) is None for name in PACKS):
        return
    for kind, pairs in (("related", RELATED), ("unrelated", UNRELATED)):
        found = list(pair_tasks(pairs))
        for penalty in ("ridge", "ball"):
            results = compare(found, penalty)
            print(f"\n{kind} prior, {penalty}\n{table(results)}\n")
            if kind == "related":
                yield Line(
                    f"related prior, {penalty}: mistakes of TROL / TROL+ / TR-OTL against PA",
                    f"{mistakes(results, 'TROL', 'TROL+', 'TR-OTL')} against "
                    f"{mistakes(results, 'PA')}",
                    "about half or fewer",
                )
                continue
            for name in ("TROL", "TROL+"):
                gaps = [at(results, name, t)[0] - at(results, "PA", t)[0] for t in CHECKED]
                errors = [at(results, "PA", t)[1] for t in CHECKED]
                yield Line(
                    f"unrelated prior, {penalty}: {name} less PA at 6 / 20 / 60 samples",
                    " / ".join(f"{g:+.1f} ± {e:.1f}" for g, e in zip(gaps, errors, strict=True)),
                    "not below by more than the standard error" if penalty == "ridge" else "shown",
                )
            yield Line(
                f"unrelated prior, {penalty}: Multi-KT against no transfer at 6 samples",
                f"{at(results, 'Multi-KT', 6)[0]:.1f} % against {at(results, 'NOTR', 6)[0]:.1f} %",
                "shown",
            )
    for same_class in (True, False):
        found = list(
            office_tasks(same_class=same_class, target_domain="amazon", source_domain="caltech10")
        )
        results = compare(found, "ridge")
        words = "with" if same_class else "without"
        print(f"\nSURF, amazon from caltech10, {words} the same class\n{table(results)}\n")
        yield Line(
            f"SURF, priors of another domain {words} the same class: mistakes of TROL / TROL+ / "
            "TR-OTL against PA; recognition at 60, TROL / PA",
            f"{mistakes(results, 'TROL', 'TROL+', 'TR-OTL')} against {mistakes(results, 'PA')}; "
            f"{at(results, 'TROL', 60)[0]:.1f} % / {at(results, 'PA', 60)[0]:.1f} %",
            "fewer" if same_class else "TROL not below PA",
        )
