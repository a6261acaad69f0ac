"""Finding things in pictures: accuracy, number of examples needed, and speed.

Pack ``scenes``: kangaroos and raccoons (in no class of the proposer's training) and everyday things
of COCO. Boxes of training pictures are taught; test pictures are asked about. Average precision is
the area below the precision of all boxes sorted by score; a box is correct if it overlaps a thing
of its name, not found before, by half. Teaching and scoring were tuned on training pictures only.
"""

import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import process_time

import numpy as np
from everlearn_papers.data.catalogue import find
from PIL import Image
from threadpoolctl import threadpool_limits

from benchmarks.side_by_side import Line
from everlearn import EfficientNetLite0, Memory
from everlearn.images.decode import DEFAULT_LIMITS
from everlearn.memory.finding import Thing
from everlearn.memory.model.head import unit
from everlearn.memory.storage.rows import Example, PictureProposals, TaughtBox
from everlearn.regions.boxes import Box, overlap
from everlearn.regions.region_embedder import RegionEmbedder

RIGHT = 0.5
ANIMALS = ("kangaroo", "raccoon")
DRAWS = {1: 10, 5: 5, 1000: 1}
AT_LEAST = 5
# PicoDet's class names, in the order of COCO.
COCO = (
    "person,bicycle,car,motorcycle,airplane,bus,train,truck,boat,traffic light,fire hydrant,"
    "stop sign,parking meter,bench,bird,cat,dog,horse,sheep,cow,elephant,bear,zebra,giraffe,"
    "backpack,umbrella,handbag,tie,suitcase,frisbee,skis,snowboard,sports ball,kite,"
    "baseball bat,baseball glove,skateboard,surfboard,tennis racket,bottle,wine glass,cup,"
    "fork,knife,spoon,bowl,banana,apple,sandwich,orange,broccoli,carrot,hot dog,pizza,donut,"
    "cake,chair,couch,potted plant,bed,dining table,toilet,tv,laptop,mouse,remote,keyboard,"
    "cell phone,microwave,oven,toaster,sink,refrigerator,book,clock,vase,scissors,teddy bear,"
    "hair drier,toothbrush"
)

COCO_NAMES = COCO.split(",")

Detections = list[tuple[float, bool]]


@dataclass(frozen=True)
class Scene:
    """A picture, its things, and the proposals in it."""

    file: str
    taught: bool
    names: list[str]
    boxes: np.ndarray
    vectors: np.ndarray
    proposed: np.ndarray
    scores: np.ndarray
    classes: np.ndarray
    proposed_vectors: np.ndarray

    @property
    def folder(self) -> str:
        return self.file.split("/")[0]


@cache
def scenes(folder: str) -> list[Scene]:
    root = find("scenes")
    embedder = RegionEmbedder(EfficientNetLite0(), DEFAULT_LIMITS, "things")
    made = []
    for entry in json.loads((root / "boxes.json").read_text()):
        if not entry["file"].startswith(f"{folder}/"):
            continue
        image = Image.open(root / entry["file"]).convert("RGB")
        proposed = embedder.proposer.propose(image)
        boxes = np.array([thing["box"] for thing in entry["boxes"]]).reshape(-1, 4)
        made.append(
            Scene(
                entry["file"],
                entry["part"] == "train",
                [thing["name"] for thing in entry["boxes"]],
                boxes,
                embedder.vectors(image, [Box(*box) for box in boxes]),
                proposed.boxes,
                proposed.scores,
                proposed.classes,
                embedder.vectors(image, [Box(*box) for box in proposed.boxes]),
            )
        )
    return made


def teach(memory: Memory, taught: list[Scene], names: set[str]) -> None:
    """As ``teach_many``, with precomputed vectors."""
    embedder = memory.embedder.name
    pairs = []
    for scene in taught:
        beside = PictureProposals(scene.proposed, scene.proposed_vectors)
        digest = scene.file.encode().ljust(32)[-32:]
        for name, box, vector in zip(scene.names, scene.boxes, scene.vectors, strict=True):
            if name in names:
                region = TaughtBox(Box(*np.clip(box, 0, 1)), found=False)
                pairs.append(
                    (Example(vector, scene.file, digest, b"", embedder, b"", region, beside), name)
                )
    memory.teach_many(pairs, also=True)


def found_in(memory: Memory, scene: Scene) -> list[Thing]:
    """As ``find`` with ``everything``, with precomputed vectors."""
    return memory._finding.named(
        scene.proposed, scene.scores, scene.proposed_vectors, top=None, everything=True
    )


def matched(things: list[tuple[float, Box]], true: np.ndarray) -> Detections:
    """Which boxes are correct, most confident first; each thing is found once."""
    free = np.ones(len(true), dtype=bool)
    detections = []
    for score, box in sorted(things, key=lambda pair: -pair[0]):
        common = overlap(np.array([box]), true)[0] * free if len(true) else np.zeros(1)
        right = bool(common.max(initial=0.0) >= RIGHT)
        if right:
            free[common.argmax()] = False
        detections.append((score, right))
    return detections


def average_precision(detections: Detections, n_things: int) -> float:
    ranked = sorted(detections, key=lambda pair: -pair[0])
    right = np.cumsum([hit for _, hit in ranked])
    precision = right / np.arange(1, len(ranked) + 1)
    best = np.maximum.accumulate(precision[::-1])[::-1]
    return float(np.sum(np.diff(right, prepend=0) * best) / n_things)


def area_under_roc(scores: np.ndarray, positive: np.ndarray) -> float:
    wins = scores[positive][:, None] - scores[~positive][None, :]
    return float(np.mean((wins > 0) + 0.5 * (wins == 0)))


def animals(count: int, seed: int) -> tuple[list[float], list[float]]:
    """AP50 and AUROC of both animals after so many taught pictures of each."""
    everything = [scene for animal in ANIMALS for scene in scenes(animal)]
    taught = drawn([scene for scene in everything if scene.taught], count, seed)
    asked = [scene for scene in everything if not scene.taught]
    with (
        tempfile.TemporaryDirectory() as folder,
        Memory(Path(folder) / "memory", embedder=EfficientNetLite0(), regions="things") as memory,
    ):
        teach(memory, taught, set(ANIMALS))
        return measured(memory, asked)


def drawn(pool: list[Scene], count: int, seed: int) -> list[Scene]:
    """So many pictures of each animal, by chance."""
    rng = np.random.default_rng(seed)
    chosen = []
    for animal in ANIMALS:
        own = [scene for scene in pool if scene.folder == animal]
        chosen += [own[i] for i in rng.permutation(len(own))[:count]]
    return chosen


def measured(memory: Memory, asked: list[Scene]) -> tuple[list[float], list[float]]:
    """AP50 and AUROC of both animals in pictures that were not taught."""
    found = [found_in(memory, scene) for scene in asked]
    precisions, areas = [], []
    for animal in ANIMALS:
        detections: Detections = []
        best, there = [], []
        for scene, things in zip(asked, found, strict=True):
            seen = [(t.score, t.box) for t in things if t.answers[0].name == animal]
            true = scene.boxes[np.array([name == animal for name in scene.names], dtype=bool)]
            detections += matched(seen, true)
            best.append(max((score for score, _ in seen), default=-10.0))
            there.append(scene.folder == animal)
        n_things = sum(len(s.boxes) for s in asked if s.folder == animal)
        precisions.append(average_precision(detections, n_things))
        areas.append(area_under_roc(np.array(best), np.array(there)))
    return precisions, areas


def everyday() -> Line:
    """Names of COCO's things, beside PicoDet's own."""
    taught = [scene for scene in scenes("coco") if scene.taught]
    asked = [scene for scene in scenes("coco") if not scene.taught]
    counts = Counter(name for scene in taught for name in scene.names)
    names = {name for name, count in counts.items() if count >= AT_LEAST}
    right = theirs = proposed = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        Memory(Path(folder) / "memory", embedder=EfficientNetLite0(), regions="things") as memory,
    ):
        teach(memory, taught, names)
        found = [found_in(memory, scene) for scene in asked]
        calibrated = memory._answering.up_to_date()
        assert calibrated is not None
        head = memory._finding._current_head(calibrated)
        words = [memory._answering.names[int(n)] for n in head.classes]
        for scene in asked:
            common = overlap(scene.boxes, scene.proposed)
            scores, _ = head.scores(unit(scene.proposed_vectors))
            for name, row in zip(scene.names, common, strict=True):
                if name in names and row.max(initial=0.0) >= RIGHT:
                    best = int(row.argmax())
                    proposed += 1
                    right += words[int(scores[best].argmax())] == name
                    theirs += COCO_NAMES[scene.classes[best]] == name
    ours, reference = [], []
    for name in sorted(names):
        n_things = sum(scene.names.count(name) for scene in asked)
        if not n_things:
            continue
        hits: Detections = []
        reference_hits: Detections = []
        for scene, things in zip(asked, found, strict=True):
            true = scene.boxes[np.array([n == name for n in scene.names], dtype=bool)]
            own = [(t.score, t.box) for t in things if t.answers[0].name == name]
            hits += matched(own, true)
            kind = [i for i, c in enumerate(scene.classes) if COCO_NAMES[c] == name]
            reference_hits += matched(
                [(float(scene.scores[i]), Box(*scene.proposed[i])) for i in kind], true
            )
        ours.append(average_precision(hits, n_things) if hits else 0.0)
        reference.append(average_precision(reference_hits, n_things) if reference_hits else 0.0)
    return Line(
        f"COCO, {len(names)} names with at least {AT_LEAST} boxes in 128 pictures: named right "
        f"where a box was proposed ({proposed} things); AP50 over names",
        f"{right / proposed:.0%}; {np.mean(ours):.2f} (PicoDet's own names, from its training on "
        f"118,000 pictures: {theirs / proposed:.0%}; {np.mean(reference):.2f})",
        "reported",
    )


def speed() -> Line:
    """``find`` on one core, 640 × 480 pixels, five boxes examined."""
    root = find("scenes")
    file = next(root.glob("coco/*.jpg"))
    image = np.asarray(Image.open(file).convert("RGB").resize((640, 480)))
    taught = [scene for scene in scenes("kangaroo") if scene.taught][:5]
    with (
        tempfile.TemporaryDirectory() as folder,
        threadpool_limits(limits=1),
        Memory(Path(folder) / "memory", embedder=EfficientNetLite0(), regions="things") as memory,
    ):
        teach(memory, taught, {"kangaroo"})
        memory.find(image, most=5)
        times: dict[int, list[float]] = {5: [], 15: []}
        for _ in range(7):
            for most, took in times.items():
                start = process_time()
                memory.find(image, most=most)
                took.append(process_time() - start)
    return Line(
        "find in 640 × 480 pixels, processor time of one core, five boxes (fifteen)",
        f"{1000 * min(times[5]):.0f} ms ({1000 * min(times[15]):.0f} ms)",
        "at most 100 ms",
    )


def lines() -> Iterator[Line]:
    yield speed()
    wanted = {1: ("0.65", "0.93"), 5: ("0.72", "0.97"), 1000: ("0.80", "-")}
    for count, seeds in DRAWS.items():
        runs = [animals(count, seed) for seed in range(seeds)]
        precision = np.mean([run[0] for run in runs], axis=0)
        area = np.mean([run[1] for run in runs], axis=0)
        after = "all" if count == 1000 else str(count)
        yield Line(
            f"kangaroo and raccoon, AP50 after {after} taught picture(s) of each",
            f"{precision.mean():.2f} ({precision[0]:.2f}, {precision[1]:.2f})",
            f"at least {wanted[count][0]}",
        )
        yield Line(
            f"the same, is there one in the picture (AUROC), after {after}",
            f"{area.mean():.3f} ({area[0]:.3f}, {area[1]:.3f})",
            f"at least {wanted[count][1]}",
        )
    yield everyday()
