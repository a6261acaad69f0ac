"""How well does a Learner know a folder of folders?"""

import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from everlearn.errors import MissingPackage, NeverLearned
from everlearn.memory.answers import Answers
from everlearn.memory.learner import Learner


@dataclass
class Evaluation:
    """Counts of what was asked and answered.

    Attributes
    ----------
    confusion : Counter of (true name, answered name)
        Images of names the Learner knows.
    flagged_known, flagged_unknown : int
        How many images were called unknown: of names the Learner knows, and of those it does not.
    n_unknown : int
        Images of names that were never taught.
    unreadable : list of (path, error)
    """

    confusion: Counter[tuple[str, str]] = field(default_factory=Counter)
    flagged_known: int = 0
    flagged_unknown: int = 0
    n_unknown: int = 0
    unreadable: list[tuple[str, str]] = field(default_factory=list)

    @property
    def n_known(self) -> int:
        return self.confusion.total()

    @property
    def accuracy(self) -> float:
        """The share of images of known names whose first answer is right."""
        right = sum(count for (true, said), count in self.confusion.items() if true == said)
        return right / self.n_known if self.n_known else float("nan")

    def per_name(self) -> dict[str, tuple[int, int]]:
        """Right answers and images of every known name."""
        table: dict[str, tuple[int, int]] = {}
        for (true, said), count in sorted(self.confusion.items()):
            right, of = table.get(true, (0, 0))
            table[true] = right + count * (true == said), of + count
        return table

    def mistakes(self) -> list[tuple[str, str, int]]:
        """True name, answered name, how often; the most frequent first."""
        return [
            (true, said, count)
            for (true, said), count in self.confusion.most_common()
            if true != said
        ]


def evaluate(
    learner: Learner,
    files: Iterable[tuple[Any, str]],
    *,
    progress: Callable[[], None] | None = None,
) -> Evaluation:
    """Ask about every file and compare with its name."""
    result = Evaluation()
    known = learner.names()
    if not known:
        raise NeverLearned("nothing was taught yet, so there is nothing to evaluate")
    pairs = list(files)
    for (path, name), answers in zip(
        pairs, learner.ask_many([path for path, _ in pairs], top=1), strict=True
    ):
        if progress is not None:
            progress()
        if not isinstance(answers, Answers):
            result.unreadable.append((os.fspath(path), str(answers)))
        elif name in known:
            result.confusion[name, answers[0].name] += 1
            result.flagged_known += answers.unknown
        else:
            result.n_unknown += 1
            result.flagged_unknown += answers.unknown
    return result


def plot_confusion(evaluation: Evaluation, path: str | os.PathLike[str]) -> None:
    """The confusion matrix as a picture."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingPackage(
            "plots need matplotlib; install it with: pip install 'everlearn[plots]'"
        ) from None
    names = sorted({name for pair in evaluation.confusion for name in pair})
    shares = np.zeros((len(names), len(names)))
    for (true, said), count in evaluation.confusion.items():
        shares[names.index(true), names.index(said)] = count
    shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1.0)
    side = min(max(3.0, 0.35 * len(names) + 1.5), 40.0)
    figure = Figure(figsize=(side, side), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0)
    axes.set_xticks(range(len(names)), names, rotation=90)
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("answered")
    axes.set_ylabel("shown")
    axes.set_title(f"{evaluation.accuracy:.1%} of {evaluation.n_known} right")
    figure.savefig(Path(path), dpi=120)
