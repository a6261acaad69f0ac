"""Corrects the name of an example that was taught under a wrong name, or answered wrongly."""

from dataclasses import dataclass

from everlearn.memory.edits.writing import begin, ensure_kind
from everlearn.memory.storage.appending import add_teaching, move, stop_counting
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.rows import Example


@dataclass(frozen=True)
class Correction:
    """The result of a correction.

    Attributes
    ----------
    name : str
        The name the example has now.
    moved_from : tuple of str
        The names it had before and no longer has.
    taught : bool
        Whether it was taught as new, because it was not known before.
    """

    name: str
    moved_from: tuple[str, ...]
    taught: bool

    def __str__(self) -> str:
        if self.moved_from:
            return f"moved from {', '.join(self.moved_from)} to {self.name}"
        return f"taught as {self.name}" if self.taught else f"it is called {self.name} already"


def correct(journal: Journal, example: Example, name: str, *, also: bool) -> Correction:
    """Teach or move an example to its right name, as one operation; call inside a transaction.

    With ``also`` it keeps its other names. Does nothing if the name is already right.
    """
    ensure_kind(journal, example)
    known = journal.find_same(example.same_as)
    right = journal.find_same(example.same_as, name)
    wrong = [] if also else [teaching for teaching in known if teaching not in right]
    moved_from = tuple(journal.tally(wrong))
    if right and not wrong:
        return Correction(name, (), taught=False)
    operation = begin(journal, "correct")
    if right:
        stop_counting(journal, operation, wrong)
    elif wrong:
        # One teaching stays, under the right name: the same image counts once.
        stop_counting(journal, operation, wrong[1:])
        move(journal, operation, wrong[:1], name)
    else:
        add_teaching(journal, operation, name, example)
    journal.db.record_event("corrected", name=name, moved_from=list(moved_from))
    return Correction(name, moved_from, taught=not right and not wrong)
