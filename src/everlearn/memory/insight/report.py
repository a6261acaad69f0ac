"""Reports whether enough was taught, by exact leave-one-out.

Every teaching is answered by the model without it (influence.py), so the accuracy is that on new
pictures of the same kind; no picture is set aside, and nothing is retrained.
"""

import os
from collections import Counter
from collections.abc import Callable
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
# Two examples at least this similar (cosine) count as near-duplicates.
ALIKE = 0.985
# Confusions are mentioned from this share of a name's teachings on.
OFTEN = 0.1
# 97.5 % quantile of the normal distribution, for 95 % intervals.
Z = 1.959964
MOST_COMPARED = 4000
# A name taught less than this share of the median name is rare.
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
    """A teaching that the rest of the Memory would give another name."""

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
        Teachings that look mislabelled, the least likely name first.
    near_duplicates : list of (id, id, cosine)
        Teachings of one name that show the same thing twice.
    blurred, dark : list of int
        Teachings whose thumbnails are blurred or dark.
    too_few : list of str
        Names with fewer than five teachings.
    advice : dict of str to str
        For each name, one sentence on what to show next.
    ranking : list of int
        All teachings, those least likely to have the right name first.
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
        said = [*self.about_strangers(), *self.about_rare_names()]
        return "\n".join([str(self.accuracy), *said, *advice])

    def about_strangers(self) -> list[str]:
        """One sentence about things never taught, if there is an estimate."""
        if self.strangers_noticed is None:
            return []
        return [
            f"about {self.strangers_noticed:.0%} of things never taught would be called unknown, "
            "if they differ from your names as these do from each other"
        ]

    @property
    def rare(self) -> list[str]:
        """Names that were taught far less often than most."""
        counts = {name: found.of for name, found in self.per_name.items()}
        usual = median(counts.values()) if counts else 0
        return [name for name, count in counts.items() if count < RARE * usual]

    def about_rare_names(self) -> list[str]:
        """One sentence on rare names, if they are recognised less often than the others."""
        rare = set(self.rare)
        few, many = (
            Accuracy(sum(a.right for a in some), sum(a.of for a in some))
            for some in (
                [a for name, a in self.per_name.items() if name in rare],
                [a for name, a in self.per_name.items() if name not in rare],
            )
        )
        if not rare or few.interval[1] >= many.interval[0]:
            return []
        return [
            f"rare names are recognised less often: {few.share:.0%} of the pictures of "
            f"{counted(len(rare), 'name')} taught far less than the others ({listed(sorted(rare))})"
            f", against {many.share:.0%}; show more of them, and see whether another classifier "
            "knows them better (everlearn compare-classifiers)"
        ]

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
    influence, names = taught.influence, taught.names
    answers, own, surest = _loo_answers(influence, temperature)
    right = answers == influence.y
    taught_each = np.bincount(influence.y, minlength=len(names))
    right_each = np.bincount(influence.y[right], minlength=len(names))
    per_name = {
        name: Accuracy(int(known), int(of))
        for name, known, of in zip(names, right_each, taught_each, strict=True)
    }
    confused = Counter(
        (names[k], names[a]) for k, a in zip(influence.y[~right], answers[~right], strict=True)
    )
    order = np.argsort(own, kind="stable")
    suspects = [
        Suspect(
            taught.ids[i],
            names[influence.y[i]],
            taught.sources[i],
            names[answers[i]],
            float(surest[i]),
        )
        # The only example of a name is always taken for another.
        for i in order
        if not right[i] and influence.counts[influence.y[i]] > 1
    ]
    pictures = _pictures(taught, journal, progress)
    report = Report(
        Accuracy(int(right.sum()), len(right)),
        per_name,
        [(true, said, count) for (true, said), count in confused.most_common()],
        suspects,
        _duplicates(taught),
        [number for number, picture in pictures.items() if picture.blurred],
        [number for number, picture in pictures.items() if picture.dark],
        [name for name, found in per_name.items() if found.of < FEW],
        ranking=[taught.ids[i] for i in order],
    )
    mistaken: dict[str, tuple[str, int]] = {}
    for true, said, count in report.confused_pairs:
        mistaken.setdefault(true, (said, count))  # the most frequent comes first
    report.advice = {name: _advice(per_name[name], mistaken.get(name)) for name in names}
    shown = {s.id for s in suspects[:60]} | {*report.blurred[:30], *report.dark[:30]}
    shown |= {number for pair in report.near_duplicates[:30] for number in pair[:2]}
    report.thumbnails = {n: jpeg for n in shown if (jpeg := journal.thumbnail(n)) is not None}
    return report


def _pictures(
    taught: TaughtMatrix, journal: Journal, progress: Callable[[int, int], None] | None
) -> dict[int, ImageQuality]:
    found: dict[int, ImageQuality] = {}
    for done, number in enumerate(taught.ids, start=1):
        picture = measure_quality(journal.thumbnail(number))
        if picture is not None:
            found[number] = picture
        if progress is not None:
            progress(done, len(taught.ids))
    return found


def _loo_answers(influence: Influence, temperature: float) -> tuple[NDArray[np.intp], Array, Array]:
    """Answers by the model without each teaching; p of its own name, and of the answer."""
    n = len(influence.y)
    answers, own, surest = np.empty(n, dtype=np.intp), np.empty(n), np.empty(n)
    for part, scores in influence.leave_one_out_blocks():
        rows = np.arange(len(scores))
        answers[part] = scores.argmax(axis=1)
        likely = softmax(np.where(np.isfinite(scores), scores, -1e300) / temperature)
        own[part], surest[part] = likely[rows, influence.y[part]], likely[rows, answers[part]]
    return answers, own, surest


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


def _advice(found: Accuracy, mistaken: tuple[str, int] | None) -> str:
    """What to show next for a name; ``mistaken`` are its most frequent wrong answers."""
    if found.of < FEW:
        more = FEW - found.of
        return f"show {more} more picture{'s' if more > 1 else ''}, from other sides"
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
