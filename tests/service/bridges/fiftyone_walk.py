"""A dataset of FiftyOne that is learned from and labelled: run with a Python that has FiftyOne.

python -m tests.service.bridges.fiftyone_walk FOLDER
"""

import sys
from collections.abc import Callable
from pathlib import Path

import fiftyone as fo
import numpy as np
from PIL import Image

from everlearn import Memory, Pixels
from everlearn.errors import InvalidParameter
from everlearn.service.bridges.fiftyone import FiftyOne

EMBEDDER = Pixels(size=8, colour=True)
COLOURS = {
    "red": (255, 0, 0),
    "blue": (0, 0, 255),
    "green": (0, 200, 0),
    "nearly-red": (250, 5, 0),
    "nearly-blue": (0, 10, 250),
}


def paint(folder: Path) -> dict[str, str]:
    """A picture of each colour; its path by its name."""
    paths = {}
    for name, colour in COLOURS.items():
        pixels = np.full((32, 32, 3), colour, dtype=np.uint8)
        pixels[:, :4] = 255
        paths[name] = str(folder / f"{name}.png")
        Image.fromarray(pixels).save(paths[name])
    return paths


def counts(memory: Memory) -> dict[str, int]:
    return {name: record.count for name, record in memory.names().items()}


def predictions(dataset: fo.Dataset) -> dict[str, str | None]:
    """The predicted name by the name of the file."""
    return {
        Path(sample.filepath).stem: sample.everlearn and sample.everlearn.label
        for sample in dataset
    }


def refused(call: Callable[[], object]) -> str:
    """What is said about a wrong argument; nothing if it is accepted."""
    try:
        call()
    except InvalidParameter as error:
        return str(error)
    return ""


def whole_pictures(folder: Path, paths: dict[str, str]) -> None:
    dataset = fo.Dataset("things")
    named = {"red": "cup", "blue": "pen", "green": "cup"}
    dataset.add_samples(
        [
            fo.Sample(
                path,
                ground_truth=fo.Classification(label=named[name]) if name in named else None,
            )
            for name, path in paths.items()
        ]
    )
    by_name = {Path(sample.filepath).stem: sample for sample in dataset}
    with Memory(folder / "memory", embedder=EMBEDDER) as memory:
        bridge = FiftyOne(memory, "things")
        done = bridge.review()
        assert (done.taught, done.forgotten, done.recognised) == (3, 0, 2), done
        assert counts(memory) == {"cup": 2, "pen": 1}
        assert predictions(dataset) == {
            "red": None,
            "blue": None,
            "green": None,
            "nearly-red": "cup",
            "nearly-blue": "pen",
        }
        assert 0 < by_name["nearly-red"].everlearn.confidence <= 1
        again = bridge.review()
        assert not any((again.taught, again.forgotten, again.recognised, again.unknown)), again

        # Withdrawn: as if it had never been labelled.
        sample = by_name["green"]
        sample.ground_truth = None
        sample.save()
        assert bridge.review().forgotten == 1
        with Memory(folder / "never", embedder=EMBEDDER) as never:
            never.teach(paths["red"], "cup")
            never.teach(paths["blue"], "pen")
            for path in paths.values():
                ours, theirs = memory.ask(path), never.ask(path)
                assert [a.name for a in ours] == [a.name for a in theirs]
                np.testing.assert_allclose(
                    [a.probability for a in ours], [a.probability for a in theirs], atol=1e-12
                )

        # Changed: the old name is forgotten, the new one learned.
        sample = by_name["blue"]
        sample.ground_truth.label = "pencil"
        sample.save()
        done = bridge.review()
        assert (done.taught, done.forgotten) == (1, 1), done
        assert counts(memory) == {"cup": 1, "pencil": 1}

        # Confirmed, and no longer.
        sample = by_name["nearly-red"]
        sample.reload()
        sample.tags.append("confirmed")
        sample.save()
        assert bridge.review().taught == 1
        assert counts(memory) == {"cup": 2, "pencil": 1}
        sample.tags.remove("confirmed")
        sample.save()
        assert bridge.review().forgotten == 1
        assert counts(memory) == {"cup": 1, "pencil": 1}

        # A bridge started anew finds what there is to do, and a damaged file stops nobody.
        damaged = folder / "damaged.png"
        damaged.write_bytes(b"not a picture")
        lost = fo.Sample(str(folder / "lost.png"), ground_truth=fo.Classification(label="lost"))
        dataset.add_samples([fo.Sample(str(damaged)), lost])
        dataset.delete_samples([by_name["red"].id])
        done = FiftyOne(memory, dataset).review()
        assert (done.taught, done.forgotten) == (0, 1), done
        assert counts(memory) == {"pencil": 1}
    dataset.delete()


def parts(folder: Path, paths: dict[str, str]) -> None:
    dataset = fo.Dataset("parts")
    boxes = [
        fo.Detection(label="cup", bounding_box=[0.25, 0.25, 0.5, 0.5]),
        fo.Detection(label="pen", bounding_box=[0.5, 0.5, 0.9, 0.9]),
        fo.Detection(label="outside", bounding_box=[1.5, 0.5, 0.5, 0.5]),
    ]
    dataset.add_sample(fo.Sample(paths["red"], ground_truth=fo.Detections(detections=boxes)))
    dataset.add_sample(fo.Sample(paths["blue"]))
    with Memory(folder / "parts", embedder=EMBEDDER) as memory:
        FiftyOne(memory, dataset).review()
        taught = {teaching.name: tuple(teaching.box) for teaching in memory.teachings()}
        assert taught == {"cup": (0.25, 0.25, 0.75, 0.75), "pen": (0.5, 0.5, 1.0, 1.0)}, taught
        field = dataset.get_field("everlearn")
        assert field.document_type is fo.Detections
        sample = dataset.first()
        sample.ground_truth.detections = sample.ground_truth.detections[1:]
        sample.save()
        assert FiftyOne(memory, dataset).review().forgotten == 1
        assert counts(memory) == {"pen": 1}
        for wrong in ({"truth": "filepath"}, {"predictions": "filepath"}, {"truth": "everlearn"}):
            assert refused(lambda wrong=wrong: FiftyOne(memory, dataset, **wrong).review()), wrong
        assert "no such dataset" in refused(lambda: FiftyOne(memory, "no such dataset"))
    dataset.delete()


def main(folder: Path) -> None:
    paths = paint(folder)
    whole_pictures(folder, paths)
    parts(folder, paths)
    print(f"FiftyOne {fo.__version__}: everything held")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
