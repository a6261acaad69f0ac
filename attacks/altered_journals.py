"""Alters bytes of a journal; every alteration is harmless or detected, never a wrong answer.

    python -m attacks.altered_journals [ALTERATIONS] [SEED]

A journal with names, thumbnails, a rename, something forgotten and something undone is copied with
one to four bytes altered, opened, and asked everything a reader can ask; then it is opened to
teach, taught one more example, and asked again.
"""

import json
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from everlearn import Memory, NearestClassMean
from everlearn.errors import EverlearnError
from everlearn.memory.edits.writing import TeachingWriter
from everlearn.memory.storage.rows import Example, PictureProposals, TaughtBox
from everlearn.memory.storage.sqlite.database import FILE
from everlearn.regions.boxes import Box

N_TEACHINGS = 300
WIDTH = 8


def build(folder: Path) -> None:
    """A journal that uses every table."""
    rng = np.random.default_rng(0)
    with Memory(folder, classifier=NearestClassMean()) as memory:
        X = rng.normal(size=(N_TEACHINGS, WIDTH)).astype(np.float32)
        pairs = [
            (
                f"name {i % 7}",
                Example(
                    x,
                    f"/photos/{i}.png",
                    rng.bytes(32),
                    rng.bytes(200),
                    region=_box(i),
                    proposals=_beside(i, x),
                ),
            )
            for i, x in enumerate(X)
        ]
        TeachingWriter(memory._opened.journal, "teach", again=False, also=True).write(pairs)
        memory.rename("name 0", "zero")
        memory.forget(name="name 1")
        memory.teach(-X[0], "mistake")
        memory.undo()


def _box(number: int) -> TaughtBox | None:
    return None if number % 5 else TaughtBox(Box(0.25, 0.25, 0.75, 0.75), found=number % 2 == 0)


def _beside(number: int, x: np.ndarray) -> PictureProposals | None:
    return None if number % 5 else PictureProposals(np.array([[0.0, 0.0, 0.25, 0.25]]), -x[None])


def everything(folder: Path) -> dict[str, Any]:
    """All answers a reader can get."""
    questions = np.random.default_rng(1).normal(size=(5, WIDTH)).astype(np.float32)
    with Memory(folder, read_only=True) as memory:
        teachings = memory.teachings()
        return {
            "names": memory.names(),
            "teachings": teachings,
            "thumbnails": [memory.thumbnail(teaching.id) for teaching in teachings],
            "history": memory.history(),
            "answers": [[vars(a) for a in memory.ask(x, top=None)] for x in questions],
        }


def after_teaching(folder: Path) -> dict[str, Any]:
    """The state after one more teaching."""
    with Memory(folder) as memory:
        memory.teach(np.ones(WIDTH), "another")
    found = everything(folder)
    found["names"] = {name: record.count for name, record in found["names"].items()}
    return {key: found[key] for key in ("names", "thumbnails", "answers")}


def altered(data: bytes, rng: np.random.Generator) -> bytes:
    copy = bytearray(data)
    for at in rng.integers(0, len(copy), int(rng.integers(1, 5))):
        copy[at] ^= int(rng.integers(1, 256))
    return bytes(copy)


def attack(alterations: int, seed: int = 0) -> Counter[str]:
    """Counts of outcomes: "harmless", the name of an error, or what went wrong."""
    rng = np.random.default_rng(seed)
    verdicts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place:
        original = Path(place, "original")
        build(original)
        data = (original / FILE).read_bytes()
        expected = everything(original)
        taught = Path(place, "taught")
        shutil.copytree(original, taught)
        expected_after = after_teaching(taught)
        for _ in range(alterations):
            folder = Path(place, "altered")
            shutil.copytree(original, folder)
            (folder / FILE).write_bytes(altered(data, rng))
            verdicts[_verdict(folder, expected, expected_after)] += 1
            shutil.rmtree(folder)
    return verdicts


def _verdict(folder: Path, expected: dict[str, Any], expected_after: dict[str, Any]) -> str:
    try:
        if everything(folder) != expected:
            return "SILENT: another answer"
        if after_teaching(folder) != expected_after:
            return "SILENT: another answer after teaching"
    except EverlearnError as error:
        return type(error).__name__
    except Exception as error:
        return f"RAW: {type(error).__name__}: {error}"
    return "harmless"


if __name__ == "__main__":
    arguments = [int(word) for word in sys.argv[1:]]
    print(json.dumps(attack(*(arguments or [10_000])), indent=2))
