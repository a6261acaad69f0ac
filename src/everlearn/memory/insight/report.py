"""Reports whether enough was taught, by exact leave-one-out.

Every teaching is answered by the model without it (influence.py), which estimates the accuracy on
new pictures of the same kind without setting pictures aside and without retraining.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import sqrt
from statistics import median

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import Array, softmax
from everlearn.memory.insight.image_quality import ImageQuality, measure_quality
from everlearn.memory.insight.influence import Influence
from everlearn.memory.insight.taught import TaughtMatrix
from everlearn.memory.storage.journal import Journal
from everlearn.memory.words import counted, listed, teachings

# Names with fewer teachings are listed as having too few.
FEW = 5
# Two examples of a name with at least this cosine similarity are near-duplicates.
ALIKE = 0.985
# Advice mentions a confusion from this share of a name's teachings on.
OFTEN = 0.1
# The report has thumbnails of this many suspects, and of this many entries of other lists.
MOST_SUSPECTS_SHOWN = 60
MOST_SHOWN = 30
# 97.5 % quantile of the normal distribution, for 95 % intervals.
Z = 1.959964
# At most this many examples of a name are compared with each other.
MOST_COMPARED = 4000
# A name with fewer teachings than this share of the median is rare.
RARE = 0.2


@dataclass(frozen=True)
class Accuracy:
    """Number of correct answers out of a total, with a 95 % Wilson interval."""

    right: int
    of: int

    @property
    def share(self) -> float:
        return self.right / self.of if self.of else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        if not self.of:
            return 0.0, 1.0
        n, p = self.of, self.right / self.of
        centre = (p + Z**2 / (2 * n)) / (1 + Z**2 / n)
        half = Z / (1 + Z**2 / n) * sqrt(p * (1 - p) / n + Z**2 / (4 * n**2))
        return max(0.0, centre - half), min(1.0, centre + half)

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"{self.share:.1%} right, each of {teachings(self.of)} left out in turn; expect "
            f"between {low:.1%} and {high:.1%} on new pictures like these"
        )


@dataclass(frozen=True)
class Suspect:
    """A teaching to which the model without it gives another name.

    Attributes
    ----------
    id : int
    name, source : str
    looks_like : str
        The other name.
    probability : float
        Of the other name.
    """

    id: int
    name: str
    source: str
    looks_like: str
    probability: float


@dataclass
class Report:
    """The result of :meth:`Memory.report`.

    Attributes
    ----------
    accuracy : Accuracy
        By leave-one-out over all teachings.
    per_name : dict of str to Accuracy
    confused_pairs : list of (name, answered instead, count)
    mislabelled : list of Suspect
        Teachings that look mislabelled, the least probable name first.
    near_duplicates : list of (id, id, cosine)
        Teachings of one name that show the same thing twice.
    blurred, dark : list of int
        Teachings whose thumbnails are blurred or dark.
    too_few : list of str
        Names with fewer than five teachings.
    advice : dict of str to str
        For each name, one sentence on what to show next.
    ranking : list of int
        All teachings, the least probable name first.
    strangers_noticed : float or None
        Share of things with names never taught that would be called unknown, estimated by
        treating each name as unknown. ``None`` if too little was taught for an estimate.
    """

    accuracy: Accuracy
    per_name: dict[str, Accuracy]
    confused_pairs: list[tuple[str, str, int]]
    mislabelled: list[Suspect]
    near_duplicates: list[tuple[int, int, float]]
    blurred: list[int]
    dark: list[int]
    too_few: list[str]
    advice: dict[str, str] = field(default_factory=dict)
    ranking: list[int] = field(default_factory=list)
    thumbnails: dict[int, bytes] = field(default_factory=dict, repr=False)
    strangers_noticed: float | None = None

    def __str__(self) -> str:
        advice = [f"{name}: {sentence}" for name, sentence in self.advice.items()]
        remarks = [*self.about_strangers(), *self.about_rare_names()]
        return "\n".join([str(self.accuracy), *remarks, *advice])

    def about_strangers(self) -> list[str]:
        """A sentence about things never taught; empty without an estimate."""
        if self.strangers_noticed is None:
            return []
        return [
            f"about {self.strangers_noticed:.0%} of things never taught would be called unknown, "
            "if they differ from your names as these do from each other"
        ]

    @property
    def rare(self) -> list[str]:
        """Names with far fewer teachings than the median name."""
        counts = {name: found.of for name, found in self.per_name.items()}
        least = RARE * median(counts.values()) if counts else 0
        return [name for name, count in counts.items() if count < least]

    def about_rare_names(self) -> list[str]:
        """A sentence about rare names; empty if they are recognised as often as the others."""
        rare = self.rare
        of_rare = self._accuracy_of(rare)
        of_others = self._accuracy_of(self.per_name.keys() - set(rare))
        if not rare or of_rare.interval[1] >= of_others.interval[0]:
            return []
        return [
            f"rare names are recognised less often: {of_rare.share:.0%} of the pictures of "
            f"{counted(len(rare), 'name')} taught far less than the others ({listed(sorted(rare))})"
            f", against {of_others.share:.0%}; show more of them, and see whether another "
            "classifier recognises them better (everlearn compare-classifiers)"
        ]

    def _accuracy_of(self, names: Iterable[str]) -> Accuracy:
        found = [self.per_name[name] for name in names]
        return Accuracy(sum(one.right for one in found), sum(one.of for one in found))

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the report as one self-contained HTML page with pictures."""
        from everlearn.memory.insight.report_page import write_page

        write_page(self, path)

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw which names are taken for which."""
        from everlearn.memory.insight.report_page import plot_confusions

        plot_confusions(self, path)


def report_on(
    taught: TaughtMatrix,
    journal: Journal,
    temperature: float,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Examine all teachings that count.

    Parameters
    ----------
    progress : callable, optional
        Called with the number of teachings examined and the total.
    """
    names, y = taught.names, taught.influence.y
    answered = _leave_one_out_answers(taught.influence, temperature)
    right = answered.classes == y
    per_name = {
        name: Accuracy(int(n_right), int(n))
        for name, n_right, n in zip(
            names,
            np.bincount(y[right], minlength=len(names)),
            np.bincount(y, minlength=len(names)),
            strict=True,
        )
    }
    confused = Counter(
        (names[k], names[a]) for k, a in zip(y[~right], answered.classes[~right], strict=True)
    )
    least_probable_first = np.argsort(answered.p_of_name, kind="stable")
    qualities = _qualities(taught, journal, progress)
    report = Report(
        Accuracy(int(right.sum()), len(right)),
        per_name,
        [(true, said, count) for (true, said), count in confused.most_common()],
        _suspects(taught, answered, least_probable_first),
        _duplicates(taught),
        [number for number, quality in qualities.items() if quality.blurred],
        [number for number, quality in qualities.items() if quality.dark],
        [name for name, found in per_name.items() if found.of < FEW],
        ranking=[taught.ids[i] for i in least_probable_first],
    )
    report.advice = _advice_per_name(report)
    report.thumbnails = _thumbnails(report, journal)
    return report


@dataclass(frozen=True)
class LeaveOneOutAnswers:
    """For every teaching the answer of the model without it, and two probabilities.

    Attributes
    ----------
    classes : ndarray
        The answered classes.
    p_of_name, p_of_answer : ndarray
        Of the name under which it was taught, and of the answer.
    """

    classes: NDArray[np.intp]
    p_of_name: Array
    p_of_answer: Array


def _leave_one_out_answers(influence: Influence, temperature: float) -> LeaveOneOutAnswers:
    n = len(influence.y)
    found = LeaveOneOutAnswers(np.empty(n, dtype=np.intp), np.empty(n), np.empty(n))
    for part, scores in influence.leave_one_out_blocks():
        rows, answers = np.arange(len(scores)), scores.argmax(axis=1)
        p = softmax(np.where(np.isfinite(scores), scores, -1e300) / temperature)
        found.classes[part] = answers
        found.p_of_name[part] = p[rows, influence.y[part]]
        found.p_of_answer[part] = p[rows, answers]
    return found


def _suspects(
    taught: TaughtMatrix, answered: LeaveOneOutAnswers, order: NDArray[np.intp]
) -> list[Suspect]:
    """Teachings with a wrong answer, in this order.

    The only example of a name always gets a wrong answer and is left out.
    """
    influence, names = taught.influence, taught.names
    return [
        Suspect(
            taught.ids[i],
            names[influence.y[i]],
            taught.sources[i],
            names[answered.classes[i]],
            float(answered.p_of_answer[i]),
        )
        for i in order
        if answered.classes[i] != influence.y[i] and influence.counts[influence.y[i]] > 1
    ]


def _qualities(
    taught: TaughtMatrix, journal: Journal, progress: Callable[[int, int], None] | None
) -> dict[int, ImageQuality]:
    """The quality of every teaching with a readable thumbnail, by id."""
    found: dict[int, ImageQuality] = {}
    for done, number in enumerate(taught.ids, start=1):
        quality = measure_quality(journal.thumbnail(number))
        if quality is not None:
            found[number] = quality
        if progress is not None:
            progress(done, len(taught.ids))
    return found


def _duplicates(taught: TaughtMatrix) -> list[tuple[int, int, float]]:
    """Pairs of one name that are almost identical, most similar first."""
    X, y = taught.influence.X, taught.influence.y
    found: list[tuple[int, int, float]] = []
    by_name = np.argsort(y, kind="stable")
    for members in np.split(by_name, np.flatnonzero(np.diff(y[by_name])) + 1):
        rows = members[:MOST_COMPARED]
        alike = np.triu(X[rows] @ X[rows].T, 1)
        for i, j in zip(*np.nonzero(alike >= ALIKE), strict=True):
            found.append((taught.ids[rows[i]], taught.ids[rows[j]], float(alike[i, j])))
    return sorted(found, key=lambda pair: -pair[2])


def _advice_per_name(report: Report) -> dict[str, str]:
    mistaken: dict[str, tuple[str, int]] = {}
    for true, said, count in report.confused_pairs:
        mistaken.setdefault(true, (said, count))  # the most frequent comes first
    return {name: _advice(found, mistaken.get(name)) for name, found in report.per_name.items()}


def _thumbnails(report: Report, journal: Journal) -> dict[int, bytes]:
    """Thumbnails of the first teachings of each list, by id."""
    shown = {suspect.id for suspect in report.mislabelled[:MOST_SUSPECTS_SHOWN]}
    shown |= {*report.blurred[:MOST_SHOWN], *report.dark[:MOST_SHOWN]}
    shown |= {number for pair in report.near_duplicates[:MOST_SHOWN] for number in pair[:2]}
    return {n: jpeg for n in shown if (jpeg := journal.thumbnail(n)) is not None}


def _advice(found: Accuracy, mistaken: tuple[str, int] | None) -> str:
    """What to show next for a name; ``mistaken`` is its most frequent wrong answer, with count."""
    if found.of < FEW:
        return f"show {counted(FEW - found.of, 'more picture')}, from other sides"
    if mistaken is not None and mistaken[1] >= max(2, OFTEN * found.of):
        said, times = mistaken
        return (
            f"{times} of {found.of} look like {said}: show more of both, above all where they "
            "differ, and look through the ones listed as mislabelled"
        )
    low, _ = found.interval
    if low < 0.8:
        return "show more, in other light and before other backgrounds"
    return "enough for now"
