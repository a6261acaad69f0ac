"""Categories of objects of the turntable, and splits that hold out one object of each.

A substitute for RGB-D Washington in Camoriano et al. (2017), Sec. VI-B: categories of several
objects on a turntable, one random object of each left out for testing. The data set names neither
objects nor categories. These were named by eye, from its pictures: all kinds of which there are at
least three objects. Objects of other kinds are not used.
"""

import numpy as np

from everlearn.streams.examples import DataSet, Examples
from everlearn_papers.data import packs

# Numbers of the objects in the pack. Blocks: cuboids and prisms. Cups: mugs, beakers and a bowl.
# Pens: highlighters, a pencil and a pen. Figures: an astronaut, a warrior and a robot.
CATEGORIES: dict[str, tuple[int, ...]] = {
    "balls": (13, 15, 29, 49),
    "blocks": (8, 12, 28, 30, 31, 48),
    "books": (5, 20, 33, 41),
    "bottles": (0, 2, 34),
    "boxes": (35, 37, 38),
    "cups": (1, 3, 11, 23, 47),
    "figures": (10, 17, 39),
    "pens": (21, 36, 40, 42, 45, 46),
}


def held_out_objects(rng: np.random.Generator) -> DataSet:
    """Frames labelled by category; the test frames are those of one random object of each."""
    frames, _ = packs.turntable_frames()
    names = {number: name for name, numbers in CATEGORIES.items() for number in numbers}
    frames = frames.take(np.isin(frames.y, list(names)))
    held_out = [rng.choice(numbers) for numbers in CATEGORIES.values()]
    is_test = np.isin(frames.y, held_out)
    labels = np.array([names[number] for number in frames.y])
    every = Examples(frames.X, labels, frames.y)
    return DataSet("categories", every.take(~is_test), every.take(is_test))
