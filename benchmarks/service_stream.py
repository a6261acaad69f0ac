"""Camera frames: how often the answer changes, per frame and in a session; PNG against JPEG.

The clip moves between five scenes, parts of scikit-learn's two photographs, one of them never
taught. Each frame is shifted by a few pixels, slightly lighter or darker and has noise of two grey
levels, like those of a hand-held camera.
"""

import io
import itertools
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_sample_image

from benchmarks.serving import TOKEN, serving
from benchmarks.side_by_side import Line
from everlearn import Client, Memory

SIDE = 200
# Photograph, left, top, and the name; the last is never taught.
SCENES = (
    ("china.jpg", 0, 60, "roof"),
    ("china.jpg", 200, 40, "tower"),
    ("china.jpg", 400, 180, "court"),
    ("flower.jpg", 220, 120, "flower"),
    ("flower.jpg", 0, 0, None),
)
ORDER = (0, 3, 4, 1, 2)
TAUGHT = 5
# Ten frames a second, three seconds of each scene.
FRAMES = 30
SEEDS = 5
TIMED = 60


def lines() -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as folder:
        with Memory(Path(folder) / "memory") as memory:
            yield from flicker(memory)
        yield from encodings(Path(folder) / "served")


def flicker(memory: Memory) -> Iterator[Line]:
    alone, together, wrong_alone, wrong_together, total = 0, 0, 0, 0, 0
    chance = np.random.default_rng(0)
    for scene in SCENES[:-1]:
        for _ in range(TAUGHT):
            memory.teach(shaken(scene, chance, 30), str(scene[3]))
    for seed in range(SEEDS):
        clip = list(wandering(seed))
        answers = list(memory.ask_stream(frame for frame, _ in clip))
        single = [None if one.unknown else one[0].name for one in answers]
        steady = [one.steady.name for one in answers if one.steady is not None]
        alone, together = alone + changes(single), together + changes(steady)
        right = [name for _, name in clip]
        wrong_alone += differing(single, right)
        wrong_together += differing(steady, right)
        total += len(clip)
    yield Line(
        f"answer changes in a clip of {FRAMES * len(ORDER)} frames with 4 real changes",
        f"{alone / SEEDS:.1f} frame by frame, {together / SEEDS:.1f} in a session",
        "about 4",
    )
    yield Line(
        "frames named wrongly in it, those included on which a change is not told yet",
        f"{wrong_alone / total:.1%} frame by frame, {wrong_together / total:.1%} in a session",
        "report",
    )


def encodings(folder: Path) -> Iterator[Line]:
    frames = [np.asarray(load_sample_image("china.jpg"))] * TIMED
    took = {}
    with serving(folder) as running:
        for kind in ("png", "jpeg"):
            with Client(running.address, token=TOKEN, frames=kind) as client:
                if kind == "png":
                    client.teach(frames[0], "china")
                list(client.ask_stream(frames[:5]))
                began = time.perf_counter()
                list(client.ask_stream(frames))
                took[kind] = 1000 * (time.perf_counter() - began) / TIMED
    made = {kind: made_in(frames[0], kind) for kind in ("png", "jpeg")}
    yield Line(
        "a frame of 640 x 427 pixels to a service and its answer back, as PNG and as JPEG",
        f"{took['png']:.0f} and {took['jpeg']:.0f} ms "
        f"(of which made into a file: {made['png']:.1f} and {made['jpeg']:.1f} ms)",
        "JPEG faster",
    )


def made_in(frame: NDArray[np.uint8], kind: str) -> float:
    options: dict[str, Any] = {"compress_level": 1} if kind == "png" else {"quality": 90}
    began = time.process_time()
    for _ in range(20):
        Image.fromarray(frame).save(io.BytesIO(), kind.upper(), **options)
    return 1000 * (time.process_time() - began) / 20


def wandering(seed: int) -> Iterator[tuple[NDArray[np.uint8], str | None]]:
    chance = np.random.default_rng(seed + 1)
    for index in ORDER:
        for _ in range(FRAMES):
            yield shaken(SCENES[index], chance, 40), SCENES[index][3]


def shaken(scene: tuple[Any, ...], chance: np.random.Generator, far: int) -> NDArray[np.uint8]:
    """A scene, slightly shifted."""
    photograph, left, top, _ = scene
    pixels = load_sample_image(photograph)
    x, y = (int(v) for v in chance.integers(0, far, 2))
    left, top = min(left + x, 640 - SIDE), min(top + y, 427 - SIDE)
    cut = pixels[top : top + SIDE, left : left + SIDE].astype(np.float64)
    cut = cut * chance.uniform(0.85, 1.15) + chance.integers(-2, 3, cut.shape)
    return np.asarray(np.clip(cut, 0, 255), dtype=np.uint8)


def changes(names: list[str | None]) -> int:
    return sum(a != b for a, b in itertools.pairwise(names))


def differing(names: list[str | None], right: list[str | None]) -> int:
    return sum(a != b for a, b in zip(names, right, strict=True))
