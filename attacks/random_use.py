"""Random use of a Memory against an oracle: any operation, in any order, reopened at random.

    python -m attacks.random_use [FOLDERS] [CHANGES] [SEED]

Each folder gets a number of changes of every kind, applied to the Memory and to plain lists. After
every change the two are compared; at random moments the Memory is closed, verified and reopened.
Nothing is injected: any difference or error is a defect.
"""

import json
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from attacks.attacked_folder import (
    ABOUT_GROUPS,
    ACCEPT,
    KINDS,
    Folder,
    apply_plain,
    carried_out,
    held_by,
)
from everlearn import Memory
from everlearn.errors import EverlearnError

REOPENED = 0.1


@dataclass
class Found:
    """Totals over all folders."""

    folders: int = 0
    changes: int = 0
    reopened: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)
    unnamed: list[str] = field(default_factory=list)


def use(place: Path, changes: int, rng: np.random.Generator, found: Found) -> None:
    """Use one folder for this many changes."""
    folder = Folder(place, rng)
    memory = Memory(folder.path, accept=ACCEPT)
    done = 0
    try:
        while done < changes:
            for change, _ in folder.plan(str(rng.choice(KINDS))):
                quiet: list[str] = []
                memory = carried_out(change, memory, folder, quiet.append)
                if "quiet" not in quiet:
                    apply_plain(change, folder.plain, folder.backup)
                if change.kind == "backup":
                    folder.backup = change.values[0], folder.plain.copy()
                done += 1
                found.kinds[change.kind] += 1
                held = held_by(memory)
                if not held.is_what(folder.plain):
                    found.differences.append(
                        f"after {change.kind}, change {done}: {held.differs_from(folder.plain)}"
                    )
                    return
                folder.plain.accept_unknowns(held.unknowns)
                if change.kind in ABOUT_GROUPS or rng.random() >= REOPENED:
                    continue
                memory.close()
                memory = Memory(folder.path, accept=ACCEPT)
                found.reopened += 1
                problems = memory.verify().problems
                found.differences += [f"after {change.kind}: {problem}" for problem in problems]
    except EverlearnError as error:
        found.differences.append(f"{type(error).__name__}: {error}")
    except Exception as error:
        found.unnamed.append(f"{type(error).__name__}: {error}")
    finally:
        memory.close()
        found.changes += done


def random_use(folders: int = 20, changes: int = 50, seed: int = 0) -> Found:
    """Use this many folders."""
    rng, found = np.random.default_rng(seed), Found()
    for _ in range(folders):
        with tempfile.TemporaryDirectory() as place:
            use(Path(place), changes, rng, found)
        found.folders += 1
    return found


if __name__ == "__main__":
    arguments = [int(word) for word in sys.argv[1:]]
    found = random_use(*arguments)
    print(json.dumps(vars(found), indent=2))
    print(
        f"{found.folders} folders, {found.changes:,} changes of {len(found.kinds)} kinds, reopened "
        f"{found.reopened} times: {len(found.differences)} differences, {len(found.unnamed)} "
        "errors without a name",
        file=sys.stderr,
    )
