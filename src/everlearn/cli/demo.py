"""A demonstration on images that need no download.

The pictures are the handwritten digits and the two photographs included in scikit-learn. They are
written to image files, taught folder by folder, asked about, forgotten and restored by undo.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits, load_sample_image

from everlearn.images.decode import pillow_image
from everlearn.images.folders import labelled_files
from everlearn.memory.answers import Answers
from everlearn.memory.insight.evaluate import evaluate
from everlearn.memory.memory import Memory

Pixels = NDArray[np.uint8]

TAUGHT_EACH = 20
ASKED_EACH = 10
DIGIT_SIDE = 128
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
# Corners (top, left) of squares cut out of a photograph, each showing the same thing.
CORNERS = ((60, 150), (80, 190), (100, 220), (70, 230))
CROP_SIDE = 300


def run(say: Callable[[str], None]) -> None:
    """Run the demonstration; ``say`` prints one line."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        _write_digits(place)
        flowers = write_crops(place, "flower.jpg")
        temple = write_crops(place, "china.jpg")[0]
        with Memory(place / "memory") as memory:
            _tell(memory, place, flowers, temple, say)
    say("")
    say("Now yours: put photographs into one folder per thing and type")
    say("  everlearn teach photos/    and then    everlearn ask something.jpg")
    say("or show things to a camera: everlearn serve (in a clone: make serve), then open the")
    say("  address it prints")


def _tell(
    memory: Memory, place: Path, flowers: list[Path], temple: Path, say: Callable[[str], None]
) -> None:
    summary = memory.teach_many(labelled_files([place / "taught"]))
    say(f"taught {summary.taught} pictures of handwritten digits, {TAUGHT_EACH} of each")
    result = evaluate(memory, labelled_files([place / "asked"]))
    say(f"asked {result.n_known} others: {result.accuracy:.1%} right")
    say("  (the network was trained on photographs, never on digits)")
    say(f"a photograph of a temple, never taught: {_spoken(memory.ask(temple))}")
    for crop in flowers[:-1]:
        memory.teach(crop, "flower")
    say("three pieces of a photograph taught as flower")
    say(f"a fourth: {_spoken(memory.ask(flowers[-1]))}")
    memory.forget(name="flower")
    say(f"flower forgotten: {_spoken(memory.ask(flowers[-1]))}")
    memory.undo()
    say(f"and undone: {_spoken(memory.ask(flowers[-1]))}")
    megabytes = memory.info()["bytes"] / 1e6
    say(f"all of it is in one folder of {megabytes:.0f} MB, safe against a crash")


def _spoken(answers: Answers) -> str:
    best = answers[0]
    return "unknown" if answers.unknown else f"{best.name} ({best.probability:.0%})"


def _write_digits(place: Path) -> None:
    digits = load_digits()
    for digit, word in enumerate(WORDS):
        images = digits.images[digits.target == digit]
        for index, image in enumerate(images[: TAUGHT_EACH + ASKED_EACH]):
            part = "taught" if index < TAUGHT_EACH else "asked"
            # Black ink on white paper.
            ink = (255.0 * (1.0 - image / image.max())).astype(np.uint8)
            _write(place / part / word / f"{index}.png", ink, DIGIT_SIDE)


def write_crops(place: Path, photograph: str) -> list[Path]:
    """Squares cut out of one of scikit-learn's photographs, as files."""
    pixels: Pixels = load_sample_image(photograph)
    paths = []
    for index, (top, left) in enumerate(CORNERS):
        paths.append(place / photograph / f"{index}.png")
        crop = pixels[top : top + CROP_SIDE, left : left + CROP_SIDE]
        _write(paths[-1], crop, CROP_SIDE)
    return paths


def _write(path: Path, pixels: Pixels, side: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pillow = pillow_image()
    pillow.fromarray(pixels).resize((side, side), pillow.Resampling.BICUBIC).save(path)
