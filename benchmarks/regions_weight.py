"""How much the proposer's score weighs: chosen by cross-validation on training pictures alone.

Pack ``scenes``, kangaroos and raccoons: a fifth of the training pictures is asked about after 1, 5
and all pictures of the others were taught, each fifth in turn, for several ways to split. Test
pictures are not looked at.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks.regions_find import ANIMALS, Scene, drawn, measured, scenes, teach
from benchmarks.side_by_side import Line
from everlearn import EfficientNetLite0, Memory

WEIGHTS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5)
# Taught pictures of each animal: draws.
DRAWS = {1: 3, 5: 2, 1000: 1}
PARTS = 5
SPLITS = 2


def lines() -> Iterator[Line]:
    pictures = [scene for animal in ANIMALS for scene in scenes(animal) if scene.taught]
    found: dict[int, list[list[float]]] = {count: [] for count in DRAWS}
    for split in range(SPLITS):
        part = np.random.default_rng(split).integers(0, PARTS, len(pictures))
        for number in range(PARTS):
            others = [scene for scene, own in zip(pictures, part, strict=True) if own != number]
            asked = [scene for scene, own in zip(pictures, part, strict=True) if own == number]
            for count, draws in DRAWS.items():
                for draw in range(draws):
                    with (
                        tempfile.TemporaryDirectory() as folder,
                        Memory(
                            Path(folder) / "memory", embedder=EfficientNetLite0(), regions="things"
                        ) as memory,
                    ):
                        seed = PARTS * PARTS * split + PARTS * number + draw
                        teach(memory, drawn(others, count, seed), set(ANIMALS))
                        found[count].append([precision(memory, asked, w) for w in WEIGHTS])
    means = {count: np.mean(rows, axis=0) for count, rows in found.items()}
    overall = np.mean(list(means.values()), axis=0)
    for place, weight in enumerate(WEIGHTS):
        each = ", ".join(f"{mean[place]:.3f}" for mean in means.values())
        yield Line(
            f"AP50 in training pictures not taught, weight {weight}, mean (after 1, 5, all)",
            f"{overall[place]:.3f} ({each})",
            "chosen" if place == overall.argmax() else "",
        )


def precision(memory: Memory, asked: list[Scene], weight: float) -> float:
    with patch("everlearn.memory.model.finder.PROPOSER_WEIGHT", weight):
        return float(np.mean(measured(memory, asked)[0]))
