"""Ristin et al. (2015), Fig. 15: the paths of test images through a tree.

At every node of a path: the nearest centroid, and the training images nearest to it. Drawn for one
correctly and one wrongly classified image; for all images, the table has the share of the image's
own class among the examples of a node.
"""

from typing import Any

import numpy as np

from everlearn.evaluation.table import Table
from everlearn.forest.inside import Step, draw, path
from everlearn.forest.ncm_forest import NCMForest
from everlearn_papers.forests.protocol import ClassStream, data_set
from everlearn_papers.report import Section, Setting, published

SIDE = 28
# Each node of the path is a row of the picture; only the first and last ones are shown.
SHOWN_FIRST, SHOWN_LAST = 2, 3


def fig15(setting: Setting) -> Section:
    """Fig. 15: the paths of two images through a tree."""
    n_classes = 10 if setting.quick else 50
    setting.watch.runs("fig15", 1, {"data": "omniglot", "n_classes": n_classes, "n_trees": 1})
    stream = ClassStream.of(data_set("omniglot"), n_classes, 0)
    learned = stream.between(0, n_classes)
    forest = NCMForest(n_estimators=1, random_state=0).fit(learned.X, learned.y)
    ways = [path(forest, x) for x in stream.test.X]
    right = forest.predict(stream.test.X) == stream.test.y
    figures = {}
    for name, places in {"right": np.flatnonzero(right), "wrong": np.flatnonzero(~right)}.items():
        longest = max(places, key=lambda place: len(ways[place]))
        figures[name] = _picture(ways[longest], learned.X, stream.test.X[longest])
    table = Table()
    for depth in range(0, max(len(way) for way in ways), 2):
        # A shorter path stays at its leaf.
        there = [way[min(depth, len(way) - 1)] for way in ways]
        own = np.array(
            [s.distribution.get(y, 0.0) for s, y in zip(there, stream.test.y, strict=True)]
        )
        table.add(
            **{
                "depth": depth,
                "examples at a node": f"{np.mean([step.n_examples for step in there]):.1f}",
                "classes at a node": f"{np.mean([len(step.distribution) for step in there]):.1f}",
                "share of the right class, rightly answered": f"{own[right].mean():.3f}",
                "share of the right class, wrongly answered": f"{own[~right].mean():.3f}",
            }
        )
    return Section(
        "Fig. 15: inside a tree",
        f"Omniglot, pixels of {n_classes} characters, 15 images each: a **substitute** for "
        "photographs.",
        f"*Published*: {published('forests')['fig15']['claim']} *Measured*: one tree, "
        f"{len(ways)} test images. In the pictures, the first image is the one asked about; each "
        "row is a node of its way (the first and the last of them), each group of three the "
        "training images nearest to a centroid, nearest centroid first. Dashed frames go left, "
        "dotted ones right; numbers are classes.",
        table,
        figures,
    )


def _picture(steps: list[Step], images: Any, asked: Any) -> Any:
    decisions = steps[:-1]
    if len(decisions) > SHOWN_FIRST + SHOWN_LAST:
        decisions = decisions[:SHOWN_FIRST] + decisions[-SHOWN_LAST:]
    return draw(
        [*decisions, steps[-1]],
        image_of=lambda number: 1.0 - images[number].reshape(SIDE, SIDE),
        image=1.0 - asked.reshape(SIDE, SIDE),
        most_members=4,
    )
