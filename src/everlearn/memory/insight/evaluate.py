"""Evaluates a Memory on a folder of labelled folders."""

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from everlearn.errors import EverlearnError, NeverLearned
from everlearn.images.decode import read_bytes
from everlearn.images.names import one_spelling
from everlearn.memory.answers import Answers

if TYPE_CHECKING:
    from everlearn.memory.memory import Memory

# How a plot labels the answer "unknown".
UNKNOWN = "(unknown)"


class Mistake(NamedTuple):
    """Images of one name with the same wrong answer.

    ``answered`` is ``None`` if they were called unknown.
    """

    name: str
    answered: str | None
    times: int
    files: tuple[str, ...]


@dataclass
class Evaluation:
    """Counts of questions and answers.

    An image counts as right if its name is the first answer *and* it was not called unknown.

    Attributes
    ----------
    answers : dict
        Files by (true name, answered name), for names the Memory knows; the answered name is
        ``None`` if the answer was "unknown".
    flagged_unknown : int
        Number of images of unknown names that were called unknown.
    n_unknown : int
        Images of names that were never taught.
    taken_for : list of (file, true name, answered name)
        Images of unknown names that got a known name.
    taught : list of files
        Images that the Memory was taught, whose answers say nothing about new images.
    unreadable : list of (path, error)
    """

    answers: dict[tuple[str, str | None], list[str]] = field(default_factory=dict)
    flagged_unknown: int = 0
    n_unknown: int = 0
    taken_for: list[tuple[str, str, str]] = field(default_factory=list)
    taught: list[str] = field(default_factory=list)
    unreadable: list[tuple[str, str]] = field(default_factory=list)

    def count(
        self, file: str, name: str, said: Answers | Exception, *, known: bool, taught: bool
    ) -> None:
        """Count one answer; ``known`` is whether the Memory knows the true name."""
        if isinstance(said, Exception):
            self.unreadable.append((file, str(said)))
            return
        if taught:
            self.taught.append(file)
        if known:
            answered = None if said.unknown else said[0].name
            self.answers.setdefault((name, answered), []).append(file)
        else:
            self.n_unknown += 1
            self.flagged_unknown += said.unknown
            if not said.unknown:
                self.taken_for.append((file, name, said[0].name))

    @property
    def n_known(self) -> int:
        return sum(map(len, self.answers.values()))

    @property
    def flagged_known(self) -> int:
        """Number of images of known names that were called unknown."""
        return sum(len(files) for (_, said), files in self.answers.items() if said is None)

    @property
    def accuracy(self) -> float:
        """Share of images of known names that were answered correctly."""
        right = sum(len(files) for (true, said), files in self.answers.items() if true == said)
        return right / self.n_known if self.n_known else float("nan")

    def per_name(self) -> dict[str, tuple[int, int]]:
        """Correct answers and images of every known name."""
        right: Counter[str] = Counter()
        images: Counter[str] = Counter()
        for (true, said), files in self.answers.items():
            images[true] += len(files)
            right[true] += len(files) * (true == said)
        return {name: (right[name], images[name]) for name in sorted(images)}

    def mistakes(self) -> list[Mistake]:
        """Wrong answers, most frequent first."""
        wrong = [
            Mistake(true, said, len(files), tuple(files))
            for (true, said), files in self.answers.items()
            if true != said
        ]
        return sorted(wrong, key=lambda mistake: (-mistake.times, mistake.name))


def evaluate(
    memory: "Memory",
    files: Iterable[tuple[Any, str]],
    *,
    progress: Callable[[], None] | None = None,
) -> Evaluation:
    """Ask about every file and compare the answer with its name.

    Parameters
    ----------
    memory : Memory
    files : iterable of (path, name)
    progress : callable, optional
        Called once for every file.
    """
    result = Evaluation()
    known = memory.names()
    if not known:
        raise NeverLearned("nothing was taught yet, so there is nothing to evaluate")
    pairs = list(files)
    spelling = one_spelling([name for _, name in pairs], known)
    for (path, name), answers in zip(
        pairs, memory.ask_many([path for path, _ in pairs], top=1), strict=True
    ):
        if progress is not None:
            progress()
        taught = isinstance(answers, Answers) and was_taught(memory, path)
        name = spelling[name]
        result.count(os.fspath(path), name, answers, known=name in known, taught=taught)
    return result


def plot_confusion(evaluation: Evaluation, path: str | os.PathLike[str]) -> None:
    """Draw the confusion matrix, with the count in every cell."""
    from everlearn.evaluation.plots import confusion_matrix, save_figure

    if not evaluation.answers:
        raise NeverLearned("no image has a name that was taught, so there is nothing to draw")
    shown, said, counts = _matrix(evaluation)
    title = f"{evaluation.accuracy:.1%} of {evaluation.n_known} right"
    save_figure(confusion_matrix(counts, shown, answers=said, title=title), path)


def _matrix(evaluation: Evaluation) -> tuple[list[str], list[str], np.ndarray[Any, Any]]:
    """True names, answered names, and the count of each pair."""
    shown = sorted({true for true, _ in evaluation.answers})
    named = sorted({said for _, said in evaluation.answers if said is not None} | set(shown))
    said = [*named, UNKNOWN] if evaluation.flagged_known else named
    counts = np.zeros((len(shown), len(said)))
    for (true, answer), files in evaluation.answers.items():
        column = len(named) if answer is None else named.index(answer)
        counts[shown.index(true), column] = len(files)
    return shown, said, counts


def was_taught(memory: "Memory", source: Any) -> bool:
    """Whether the Memory was taught this file."""
    if not isinstance(source, (bytes, str, os.PathLike)):
        return False
    try:
        digest = hashlib.sha256(read_bytes(source)).digest()
    except EverlearnError:
        return False
    store = memory._opened
    return bool(store.read(lambda: store.journal.find(digest=digest)))
