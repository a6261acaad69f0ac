"""A folder as the pages assume it: photographs of three things, and others to ask about.

Where the demo photographs are, it is these; elsewhere pictures are drawn, so that every command
runs on every machine.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from everlearn_papers.data.catalogue import find
from PIL import Image

from everlearn.errors import MissingData

THINGS = ("butterfly", "cup", "pizza")
STRANGER = "watch"
TAUGHT, ASKED = 5, 3


def fill(folder: Path) -> None:
    """``photos/NAME/1.jpg`` …, ``test/NAME/…``, and single files named as in the pages."""
    for thing in (*THINGS, STRANGER):
        pictures = _pictures_of(thing)
        for index in range(TAUGHT + ASKED):
            part = "photos" if index < TAUGHT else "test"
            if thing == STRANGER and part == "photos":
                continue
            place = folder / part / thing / f"{index + 1}.jpg"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(next(pictures))
    single = {
        "cup.jpg": "test/cup/6.jpg",
        "new.jpg": "test/cup/7.jpg",
        "photo.jpg": "test/cup/8.jpg",
        "watch.jpg": "test/watch/6.jpg",
        "strange.jpg": "test/watch/7.jpg",
        "pizza.jpg": "test/pizza/6.jpg",
    }
    for name, source in single.items():
        shutil.copy(folder / source, folder / name)


def _pictures_of(thing: str) -> Iterator[bytes]:
    try:
        photographs = sorted((find("demo_photos") / thing).glob("*.jpg"))
    except MissingData:
        photographs = []
    if photographs:
        yield from (path.read_bytes() for path in photographs)
    yield from _drawn(thing)


def _drawn(thing: str) -> Iterator[bytes]:
    """Stripes whose colour and direction are the thing's, and noise."""
    import io

    kind = (*THINGS, STRANGER).index(thing)
    rng = np.random.default_rng(kind)
    rows, columns = np.mgrid[:160, :160]
    while True:
        angle = kind * np.pi / 4 + rng.normal(scale=0.05)
        wave = np.sin((rows * np.cos(angle) + columns * np.sin(angle)) / (4 + 2 * kind))
        colour = np.roll([200, 90, 30], kind)
        noise = rng.normal(scale=12, size=(160, 160, 3))
        pixels = np.clip(colour * (0.6 + 0.4 * wave[..., None]) + noise, 0, 255).astype(np.uint8)
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "JPEG")
        yield file.getvalue()
