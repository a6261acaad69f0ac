"""Fig. 2 of Skočaj and Leonardis (2002): how far the incremental eigenspace is from the batch one.

COIL-20, every second view: 720 images, the paper's own data. The experiment is that of
``everlearn reproduce subspace --only fig2``; here for one random order.
"""

from collections.abc import Iterator

from everlearn_papers.report import published
from everlearn_papers.subspace.coil import COMPONENTS, above_batch, reconstruction_errors

from benchmarks.side_by_side import Line

ORDERINGS = {"seq": "in order", "rnd": "random"}
WANTED = {(0, "seq"): (3.6, 9.0), (0, "rnd"): (1.8, 4.3)}
WANTED |= {(8, "seq"): (1.5, 5.0), (8, "rnd"): (0.8, 2.2)}


def lines() -> Iterator[Line]:
    theirs = published("subspace")["fig2"]
    results = {
        kind: reconstruction_errors(0, ordering=kind, components=list(COMPONENTS))
        for kind in ORDERINGS
    }
    for (guard, kind), wanted in WANTED.items():
        inc_x, inc_a = (
            above_batch(results[kind], f"{method}, guard={guard}").mean()
            for method in ("incX", "incA")
        )
        name = "as published" if guard == 0 else f"default, guard={guard}"
        yield Line(
            f"COIL-20, images {ORDERINGS[kind]}, {name}: error above batch PCA, incX / incA",
            f"{inc_x:.2f} % / {inc_a:.2f} %",
            f"≤ {wanted[0]} / {wanted[1]}; "
            f"the paper: {theirs[f'incX{kind}']} / {theirs[f'incA{kind}']}",
        )
