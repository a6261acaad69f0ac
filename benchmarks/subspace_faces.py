"""Faces under occlusion: how much of the lost recognition does repair win back?

Olivetti faces (40 people, 64 × 64 pixels), five images a person to learn from, five to ask about.
A square of 30 % of the area covers each test image at a random place. The recogniser (an eigenspace
and streaming LDA behind it) is never told about occlusion; the repair knows the training faces
only. The settings of the repair were chosen on the training images (four to learn, one to ask).
"""

from collections.abc import Iterator

import numpy as np
from everlearn_papers.data import packs
from everlearn_papers.subspace.sequences import occluder_patch, resized
from numpy.typing import NDArray

from benchmarks.side_by_side import Line
from everlearn import RobustStreamingPCA, StreamingLDA, StreamingPCA, StreamPipeline

Array = NDArray[np.float64]

SHAPE = (64, 64)
SIDE = round(64 * np.sqrt(0.3))
KINDS = ("black", "grey", "texture", "noise", "another face")


def occluded(images: Array, kind: str, rng: np.random.Generator) -> Array:
    """The images with a square in front of each; for a face, that of someone else, made smaller."""
    covered = images.copy()
    for i, image in enumerate(covered):
        top, left = rng.integers(0, SHAPE[0] - SIDE + 1, 2)
        if kind == "another face":
            other = images[(i + rng.integers(10, len(images) - 10)) % len(images)]
            patch = resized(other, (SIDE, SIDE))
        else:
            patch = occluder_patch(kind, SIDE, rng)
        image[top : top + SIDE, left : left + SIDE] = patch
    return covered


def repairer(train: Array) -> RobustStreamingPCA:
    return RobustStreamingPCA(
        n_components=80, image_shape=SHAPE, smoothing=5, threshold_factor=3.0, guard=20
    ).start(train)


def lines() -> Iterator[Line]:
    data = packs.faces()
    train, known = data.train.X, data.test.y
    test = data.test.X.reshape(-1, *SHAPE)
    steps = [("eigenspace", StreamingPCA(n_components=60)), ("learner", StreamingLDA())]
    recogniser = StreamPipeline(steps).fit(train, data.train.y)
    repair = repairer(train)

    def accuracy(faces: Array) -> float:
        return float((recogniser.predict(faces.reshape(len(faces), -1)) == known).mean())

    clean = accuracy(test)
    repaired = accuracy(repair.restore(test.reshape(len(test), -1)))
    yield Line(
        "unoccluded faces: accuracy, and after repair",
        f"{clean:.3f}, {repaired:.3f}",
        "a loss below 0.01",
    )
    for kind in KINDS:
        covered = occluded(test, kind, np.random.default_rng(0))
        lost = accuracy(covered)
        won = accuracy(repair.restore(covered.reshape(len(test), -1)))
        yield Line(
            f"faces behind a square ({kind}): accuracy without and with repair, share won back",
            f"{lost:.3f}, {won:.3f}, {(won - lost) / (clean - lost):.2f}",
            "≥ 0.5 won back",
        )
