"""The main thing against the whole picture; things on foreign backgrounds; one answer per track.

Demo photographs (twelve classes of Caltech-101) show one thing that fills the picture. Pasted
pictures are such photographs at half of the side, somewhere on a photograph of COCO's. The
turntable is fifty objects seen by a robot, 73 frames each.

Photographs of many kinds of one thing with known boxes, such as birds, are not among the packs. Two
substitutes: how well the box fits in photographs of one kangaroo or raccoon; and demo photographs
at 7/12 of the height on a blurred photograph, where nothing else can be found, named by the whole
picture, by the main thing, and by their box.
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from everlearn_papers.data import packs
from everlearn_papers.data.catalogue import find
from PIL import Image, ImageFilter

from benchmarks.side_by_side import Line
from everlearn import EfficientNetLite0, Memory
from everlearn.images.decode import DEFAULT_LIMITS
from everlearn.memory.storage.rows import Example
from everlearn.regions.boxes import overlap
from everlearn.regions.main_thing import MainThing
from everlearn.regions.region_embedder import Region, RegionEmbedder
from everlearn.regions.tracks import Evidence

SEEDS = 10
PASTED = 60
TAUGHT_FRAMES = (4, 8)
BLUR = ImageFilter.GaussianBlur(14)


def demo(mode: str) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of all demo photographs in a mode, and their names."""
    paths = sorted(find("demo_photos").glob("*/*.jpg"))
    region_embedder = RegionEmbedder(EfficientNetLite0(), DEFAULT_LIMITS, mode)
    vectors = [region_embedder.embed(Region(path)).vector for path in paths]
    return np.array(vectors), np.array([path.parent.name for path in paths])


def right(vectors: np.ndarray, names: np.ndarray, each: int) -> float:
    """The share of the others that is named right after so many of each class."""
    shares = []
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        taught = np.concatenate(
            [rng.permutation(np.flatnonzero(names == name))[:each] for name in np.unique(names)]
        )
        asked = np.setdiff1d(np.arange(len(names)), taught)
        with tempfile.TemporaryDirectory() as folder, Memory(folder) as memory:
            memory.teach_many([(vectors[i], str(names[i])) for i in taught], also=True)
            said = [memory.ask(vectors[i], top=1)[0].name for i in asked]
        shares.append(float(np.mean(np.array(said) == names[asked])))
    return float(np.mean(shares))


def fitting() -> Line:
    """Overlap of the main thing with the box, in test pictures of one animal."""
    root, finder = find("scenes"), MainThing()
    common = []
    for entry in json.loads((root / "boxes.json").read_text()):
        animal = entry["file"].split("/")[0] in ("kangaroo", "raccoon")
        if animal and entry["part"] == "test" and len(entry["boxes"]) == 1:
            box = finder.box(Image.open(root / entry["file"]).convert("RGB"))
            true = np.clip([entry["boxes"][0]["box"]], 0.0, 1.0)
            common.append(float(overlap(np.array([box]), true)[0, 0]))
    shares = [float(np.mean(np.array(common) > least)) for least in (0.5, 0.3)]
    return Line(
        f"main thing in {len(common)} photographs of one kangaroo or raccoon (substitute for "
        "photographs of birds): overlap with the box above 0.5; above 0.3",
        f"{shares[0]:.0%}; {shares[1]:.0%}",
        "birds: 67 %; 96 %",
    )


def on_blurred_grounds() -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Vectors of demo photographs on blurred ones, in four ways, and their names."""
    rng = np.random.default_rng(1)
    grounds = sorted(find("scenes").glob("coco/*.jpg"))
    embedder = EfficientNetLite0()
    embedders = {mode: RegionEmbedder(embedder, DEFAULT_LIMITS, mode) for mode in ("whole", "main")}
    vectors: dict[str, list[np.ndarray]] = {"whole": [], "alone": [], "main": [], "box": []}
    names = []
    for path in sorted(find("demo_photos").glob("*/*.jpg")):
        ground = Image.open(grounds[int(rng.integers(len(grounds)))]).convert("RGB")
        picture, box = pasted_onto(ground.resize((480, 360)).filter(BLUR), path, 210, rng)
        regions = {"whole": Region(picture), "alone": Region(picture, "auto")}
        for way, region in (regions | {"box": Region(picture, box)}).items():
            vectors[way].append(embedders["whole"].embed(region).vector)
        vectors["main"].append(embedders["main"].embed(Region(picture)).vector)
        names.append(path.parent.name)
    return {way: np.array(rows) for way, rows in vectors.items()}, np.array(names)


def pasted_onto(
    ground: Image.Image, path: Path, longest: int, rng: np.random.Generator
) -> tuple[np.ndarray, tuple[int, int, int, int]]:
    """A photograph somewhere on another one, and its box in pixels."""
    thing = Image.open(path).convert("RGB")
    scale = longest / max(thing.size)
    thing = thing.resize((round(thing.width * scale), round(thing.height * scale)))
    left = int(rng.integers(ground.width - thing.width))
    top = int(rng.integers(ground.height - thing.height))
    ground.paste(thing, (left, top))
    return np.asarray(ground), (left, top, left + thing.width, top + thing.height)


def pasted() -> Line:
    """Photographs at half the side on a foreign background, after five taught of each class."""
    paths = sorted(find("demo_photos").glob("*/*.jpg"))
    rng = np.random.default_rng(0)
    by_class: dict[str, list[Path]] = {}
    for path in paths:
        by_class.setdefault(path.parent.name, []).append(path)
    taught = [(path, name) for name, own in by_class.items() for path in own[:5]]
    others = [(path, name) for name, own in by_class.items() for path in own[5:]]
    grounds = sorted(find("scenes").glob("coco/*.jpg"))
    ways = {"whole": 0, "main": 0, "where": 0, "box": 0}
    embedder = EfficientNetLite0()
    with tempfile.TemporaryDirectory() as folder:
        memories = {
            "whole": Memory(Path(folder) / "whole", embedder=embedder),
            "things": Memory(Path(folder) / "things", embedder=embedder, regions="things"),
        }
        for memory in memories.values():
            memory.teach_many(taught)
        for i in rng.permutation(len(others))[:PASTED]:
            path, name = others[i]
            ground = Image.open(grounds[int(rng.integers(len(grounds)))]).convert("RGB")
            picture, box = pasted_onto(ground.resize((480, 360)), path, 180, rng)
            things = memories["things"]
            ways["whole"] += memories["whole"].ask(picture)[0].name == name
            ways["main"] += things.ask(picture)[0].name == name
            ways["where"] += things.ask(picture, where=True)[0].name == name
            ways["box"] += things.ask(picture, box=box)[0].name == name
        for memory in memories.values():
            memory.close()
    shares = {way: count / PASTED for way, count in ways.items()}
    return Line(
        f"photographs pasted onto foreign backgrounds at half the side, named right of {PASTED}",
        f"whole {shares['whole']:.0%}; main thing {shares['main']:.0%}; the surest thing found "
        f"{shares['where']:.0%}; with its box {shares['box']:.0%}",
        "at least 70 %",
    )


def turntable(taught_frames: int) -> Line:
    """Errors of single frames, and of tracks: the rest of each object's video."""
    features, labels, frames = packs.arrays(packs.TURNTABLE, "features", "labels", "frame")
    features = np.asarray(features, dtype=np.float32)
    wrong_frames = asked = wrong_tracks = tracks = 0
    with tempfile.TemporaryDirectory() as folder, Memory(folder) as memory:
        taught = np.flatnonzero(frames < taught_frames)
        memory.teach_many(
            [
                (Example(features[i], "", bytes(28) + int(i).to_bytes(4, "big")), str(labels[i]))
                for i in taught
            ],
            also=True,
        )
        for label in np.unique(labels):
            own = np.flatnonzero((labels == label) & (frames >= taught_frames))
            own = own[np.argsort(frames[own])]
            evidence = Evidence()
            for i in own:
                answers = memory.ask(features[i], top=None)
                evidence.add({a.name: a.probability for a in answers}, unknown=False)
                wrong_frames += answers[0].name != str(label)
                asked += 1
            wrong_tracks += evidence.name != str(label)
            tracks += 1
    return Line(
        f"turntable, the first {taught_frames} frames of each object taught: wrong answers by "
        "frame of the rest of its video, and by track, one answer a video",
        f"{wrong_frames / asked:.1%}; {wrong_tracks / tracks:.1%}",
        "errors at least halved",
    )


def lines() -> Iterator[Line]:
    for taught_frames in TAUGHT_FRAMES:
        yield turntable(taught_frames)
    yield pasted()
    modes = {mode: demo(mode) for mode in ("whole", "main")}
    for each in (1, 5):
        shares = {mode: right(*found, each) for mode, found in modes.items()}
        yield Line(
            f"demo photographs, {each} taught of each class, main thing against whole picture",
            f"{shares['main']:.1%} against {shares['whole']:.1%}",
            "not worse",
        )
    yield fitting()
    ways, names = on_blurred_grounds()
    for each in (1, 5, 10):
        shares = {way: right(vectors, names, each) for way, vectors in ways.items()}
        gain = shares["main"] - shares["whole"], shares["box"] - shares["whole"]
        yield Line(
            f"demo photographs on blurred ones (substitute for photographs of birds), {each} "
            "taught of each class: whole picture; main thing alone; mode main; with their box",
            f"{shares['whole']:.1%}; {shares['alone']:.1%}; {shares['main']:.1%}; "
            f"{shares['box']:.1%}: {gain[0] / gain[1]:.0%} of the gain of the box",
            "at least 90 %",
        )
