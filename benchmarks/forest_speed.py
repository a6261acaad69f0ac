"""One tree on 65,000 × 1,000 float32 in 50 classes, one core, as in Sec. 5.1.1 of the paper.

The rows are random numbers about 50 random centres (a substitute for 50 classes of ILSVRC10 as a
bag of 1,000 words). Seconds are CPU seconds of one thread, the best of several rounds.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
from everlearn_papers.forests.protocol import cpu_seconds

from benchmarks.side_by_side import Line
from everlearn import NCMForest, SVMForest
from everlearn.forest.grove import ASK_ROWS
from everlearn.preprocessing.whitening import blocks

N_ROWS, N_FEATURES, N_CLASSES, N_ASKED = 65_000, 1_000, 50, 7_500
# Centres so near each other that the nearest is the right one about half the time.
SPREAD = 0.06


def lines() -> Iterator[Line]:
    rng = np.random.default_rng(0)
    centres = SPREAD * rng.standard_normal((N_CLASSES, N_FEATURES))
    y = np.arange(N_ROWS) % N_CLASSES
    X = centres[y] + rng.standard_normal((N_ROWS, N_FEATURES))
    asked = centres[y[:N_ASKED]] + rng.standard_normal((N_ASKED, N_FEATURES))
    wanted = {NCMForest: ("≤ 1.0 s", "≤ 8 µs"), SVMForest: ("–", "≤ 2 µs")}
    for learner, (training, asking) in wanted.items():
        forest = learner(n_estimators=1, random_state=0, whiten=False).fit(X, y)
        grove = forest.groves_[0]
        seconds = min(tree_seconds(forest) for _ in range(3))
        size = f"{forest.n_nodes_[0]} nodes"
        yield Line(
            f"{learner.__name__}: one tree, 65,000 × 1,000", f"{seconds:.2f} s, {size}", training
        )
        whitened = grove.whitening(asked)
        answers = np.zeros((N_ASKED, N_CLASSES))
        ask = partial(_ask, grove, whitened, answers)
        micro = min(cpu_seconds(ask) for _ in range(10)) / N_ASKED * 1e6
        yield Line(f"{learner.__name__}: that tree asked, per image", f"{micro:.1f} µs", asking)


def tree_seconds(forest: NCMForest | SVMForest) -> float:
    """Growing the tree again from the examples it has stored."""
    from everlearn.forest.grow import grow_first_tree
    from everlearn.forest.tree import empty_tree, own_copy

    examples = forest.groves_[0].examples
    tree = own_copy(empty_tree(N_FEATURES, np.uint64(0)), len(examples.slot))
    settings = forest._settings(N_CLASSES, examples.seen)
    rows, index = examples.rows(), examples.stored
    return cpu_seconds(grow_first_tree, tree, rows, index, settings)


def _ask(grove, whitened, answers):  # type: ignore[no-untyped-def]
    from everlearn.forest.answer import add_answers

    rows = grove.examples.rows()
    for part in blocks(len(whitened), ASK_ROWS):
        add_answers(grove.trees[0], grove.split, rows, whitened[part], answers[part])
