"""Splits a Memory into small journals that can be sent, for a merge on another machine.

The receiver merges each part as it would a Memory, with the same checks of every row. All names of
a picture, or of a box in it, are in one part, because a second name in another part would look like
a conflict. What was forgotten (without its vector), the tombstones of what was erased, and what was
taught again after an erase are in the last part, where the merge can see which event is the latest.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from everlearn.errors import AlreadyThere, CannotWrite
from everlearn.memory.edits.writing import begin, keep_operation
from everlearn.memory.storage.appending import add_teachings, stop_counting
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.log import counting_examples
from everlearn.memory.storage.rows import Example, TaughtBox
from everlearn.memory.storage.sqlite.database import FILE
from everlearn.memory.storage.sqlite.folder import FolderStorage
from everlearn.memory.storage.tombstones import Pair, Tombstones, copy_tombstones, counting

# Size of a row without its vector and pictures.
ROW_BYTES = 2_000
FACTS = ("classifier", "embedder", "n_features", "regions")

Examples = list[tuple[str, Example]]


def parts(journal: Journal, place: Path, most_bytes: int) -> Iterator[Path]:
    """Write journals of at most about ``most_bytes`` each below a folder; yields their files.

    Call inside one view of the journal. All pictures and boxes with several names are in the last
    part, whatever its size.
    """
    counted, tombstones = counting(journal), Tombstones(journal)
    names = Counter(same for same, _ in counted)
    together = {same for same, n in names.items() if n > 1}
    together |= {pair[0] for pair in counted if tombstones.since(pair) is not None}
    part: Examples = []
    last: Examples = []
    size = 0
    for number, (name, example) in enumerate(counting_examples(journal)):
        dated = replace(example, taught_at=counted[example.same_as, name])
        if example.same_as in together:
            last.append((name, dated))
            continue
        part.append((name, dated))
        size += ROW_BYTES + example.vector.nbytes + len(example.thumbnail) + len(example.image)
        if size > most_bytes:
            yield _written(journal, place / str(number), part)
            part, size = [], 0
    forgotten = {pair: when for pair, when in tombstones.forgotten.items() if pair not in counted}
    path = place / "last"
    yield _written(journal, path, part + last, forgotten, tombstones)


def _written(
    source: Journal,
    folder: Path,
    examples: Examples,
    forgotten: dict[Pair, float] | None = None,
    tombstones: Tombstones | None = None,
) -> Path:
    """Write one part into a new folder; returns its file."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise AlreadyThere(f"{folder} already exists; write the parts to a new folder") from None
    except OSError as error:
        raise CannotWrite(f"{folder} cannot be created: {error.strerror}") from None
    with contextlib.closing(FolderStorage(folder).open(write=True)) as db:
        journal = Journal(db)
        with journal.transaction():
            for key, value in source.facts(*FACTS).items():
                if value:
                    journal.set_fact(key, value)
            add_teachings(journal, begin(journal, "teach"), examples)
            for ((digest, box), name), when in (forgotten or {}).items():
                region = None if box is None else TaughtBox(box, found=False)
                no_vector = Example(
                    np.zeros(1, np.float32), "", digest, region=region, taught_at=when
                )
                (gone,) = add_teachings(journal, begin(journal, "teach"), [(name, no_vector)])
                operation = begin(journal, "forget")
                keep_operation(journal, (operation, "forget", when, 0, 0, None, None))
                stop_counting(journal, operation, [gone])
            if tombstones is not None:
                copy_tombstones(journal, tombstones.erased)
        db.tidy()
    return folder / FILE
