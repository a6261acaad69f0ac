"""The main thing against the whole picture; things on foreign backgrounds; one answer per track.

Demo photographs (twelve classes of Caltech-101) show one thing that fills the picture. Pasted
pictures are such photographs at half of the side, somewhere on a photograph of COCO's. The
turntable is fifty objects seen by a robot, 73 frames each.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from everlearn_papers.data import packs
from everlearn_papers.data.catalogue import find
from PIL import Image

from benchmarks.side_by_side import Line
from everlearn import EfficientNetLite0, Memory
from everlearn.images.decode import DEFAULT_LIMITS
from everlearn.memory.storage.rows import Example
from everlearn.regions.looking import Looker, Region
from everlearn.regions.tracks import Evidence

SEEDS = 10
PASTED = 60
TAUGHT_FRAMES = (4, 8)


def demo(mode: str) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of all demo photographs in a mode, and their names."""
    paths = sorted(find("demo_photos").glob("*/*.jpg"))
    looker = Looker(EfficientNetLite0(), DEFAULT_LIMITS, mode)
    vectors = [looker.look(Region(path)).vector for path in paths]
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
    with tempfile.TemporaryDirectory() as folder:
        memories = {
            "whole": Memory(Path(folder) / "whole"),
            "things": Memory(Path(folder) / "things", regions="things"),
        }
        for memory in memories.values():
            memory.teach_many(taught)
        for i in rng.permutation(len(others))[:PASTED]:
            path, name = others[i]
            ground = Image.open(grounds[int(rng.integers(len(grounds)))]).convert("RGB")
            ground = ground.resize((480, 360))
            thing = Image.open(path).convert("RGB")
            scale = 180 / max(thing.size)
            thing = thing.resize((round(thing.width * scale), round(thing.height * scale)))
            left = int(rng.integers(480 - thing.width))
            top = int(rng.integers(360 - thing.height))
            ground.paste(thing, (left, top))
            picture = np.asarray(ground)
            box = (left, top, left + thing.width, top + thing.height)
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
