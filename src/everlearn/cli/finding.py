"""Commands for things within pictures and videos: find, follow, compare-regions."""

import os
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from everlearn.cli.context import POSITIVE, image_limits, opened, with_image_limits
from everlearn.cli.output import as_json, print_result, print_table, progress, say
from everlearn.errors import CannotWrite, EverlearnError
from everlearn.images.decode import open_picture
from everlearn.memory.answers import Answers
from everlearn.memory.finding import Thing
from everlearn.memory.following import FollowedFrame, TrackedThing
from everlearn.regions.boxes import Box
from everlearn.regions.drawing import VideoFile, drawn
from everlearn.regions.proposals import FEW, MOST
from everlearn.regions.region_embedder import MODES, Mode

PATH = click.Path(path_type=Path)
most_boxes = click.IntRange(1, 1000)


@click.command()
@click.argument("files", nargs=-1, required=True, type=PATH)
@click.option("--out", type=PATH, metavar="FOLDER", help="Write the images with boxes here.")
@click.option(
    "--most",
    type=most_boxes,
    default=MOST,
    show_default=True,
    help="Maximum number of boxes per image.",
)
@click.option("--everything", is_flag=True, help="Also list what looks like background.")
@click.option("--remember", is_flag=True, help="Keep unknown things; see everlearn strangers.")
@with_image_limits
@as_json
@click.pass_context
def find(
    ctx: click.Context,
    files: tuple[Path, ...],
    out: Path | None,
    most: int,
    everything: bool,
    remember: bool,
) -> None:
    """Find the things in these images, and where they are."""
    places = {} if out is None else _places(files, out)
    memory = opened(ctx, read_only=not remember)
    results: list[dict[str, Any]] = []
    rows: list[list[str]] = []
    for file in files:
        try:
            things = memory.find(file, top=3, most=most, everything=everything, remember=remember)
            if file in places:
                picture = open_picture(file, limits=image_limits(ctx))
                _save(
                    drawn(picture, [(t.box, _words(t), t.name is not None) for t in things]),
                    places[file],
                )
        except EverlearnError as error:
            results.append({"file": str(file), "error": str(error)})
            rows.append([str(file), f"error: {error}", ""])
            continue
        results.append({"file": str(file), "things": [_thing(thing) for thing in things]})
        rows += [[str(file), _words(thing), _place(thing.box)] for thing in things]
        if not things:
            rows.append([str(file), "nothing", ""])
    print_result(results)
    print_table(["file", "thing", "left, top, right, bottom"], rows)
    if any("error" in result for result in results):
        sys.exit(1)


@click.command()
@click.argument("source")
@click.option(
    "--every",
    type=POSITIVE,
    default=0.2,
    show_default=True,
    metavar="SECONDS",
    help="Analyse one frame every so many seconds.",
)
@click.option("--out", type=PATH, metavar="FILE", help="Write the video with boxes to this file.")
@click.option("--motion", is_flag=True, help="For a fixed camera: find what moves.")
@click.option(
    "--most",
    type=most_boxes,
    default=FEW,
    show_default=True,
    help="Maximum number of boxes per frame.",
)
@click.option("--frames", type=click.IntRange(1), help="Stop after this many frames.")
@click.option("--remember", is_flag=True, help="Keep unknown things; see everlearn strangers.")
@with_image_limits
@as_json
@click.pass_context
def follow(
    ctx: click.Context,
    source: str,
    every: float,
    out: Path | None,
    motion: bool,
    most: int,
    frames: int | None,
    remember: bool,
) -> None:
    """Find and follow things in SOURCE: a video, /dev/video0 or rtsp://…

    Prints one line when the name of a thing is settled or changes; with --json one document a
    frame.
    """
    if out is not None and os.path.realpath(out) == os.path.realpath(source):
        raise CannotWrite(f"{out} is the video to be read; give --out another file")
    memory = opened(ctx, read_only=not remember)
    followed = memory.follow(source, every=every, most=most, motion=motion, remember=remember)
    written = None
    try:
        for number, frame in enumerate(followed, start=1):
            _tell(frame)
            if out is not None:
                written = written or VideoFile(out, 1.0 / every)
                written.write(_with_boxes(frame))
            if number == frames:
                break
    finally:
        if written is not None:
            written.close()


@click.command("compare-regions")
@click.argument("modes", nargs=-1, type=click.Choice(MODES))
@as_json
@click.pass_context
def compare_regions(ctx: click.Context, modes: tuple[Mode, ...]) -> None:
    """Test whether the main thing is recognised better than the whole image."""
    memory = opened(ctx)
    chosen = modes or ("whole", "main")
    with progress("embedding", memory.info()["teachings"]) as step:
        found = memory.compare_regions(chosen, progress=step)
    print_result([asdict(comparison) for comparison in found])
    rows = [[c.regions, f"{c.accuracy:.1%}", str(c.teachings), str(c.left_out)] for c in found]
    print_table(["regions", "right, leave-one-out", "teachings", "unreadable"], rows)


def _tell(frame: FollowedFrame) -> None:
    print_result(
        {
            "seconds": frame.seconds,
            "things": [_tracked(thing) for thing in frame.things],
            "events": [vars(event) | {"box": list(event.box)} for event in frame.events],
        }
    )
    for event in frame.events:
        name = event.name or "unknown"
        changed = "" if event.first else f", no longer {event.before or 'unknown'}"
        say(f"{event.seconds:.1f} s: thing {event.track} is {name}{changed}, {_place(event.box)}")


def _with_boxes(frame: FollowedFrame) -> Any:
    import numpy as np

    from everlearn.images.embedders import as_picture

    things = [
        (thing.box, f"{thing.id} {thing.name or 'unknown'}", thing.name is not None)
        for thing in frame.things
    ]
    return np.asarray(drawn(as_picture(frame.pixels), things))


def _tracked(thing: TrackedThing) -> dict[str, Any]:
    return {
        "track": thing.id,
        "box": list(thing.box),
        "name": thing.name,
        "probability": thing.probability,
        "settled": thing.settled,
    }


def _thing(thing: Thing) -> dict[str, Any]:
    return {
        "box": list(thing.box),
        "name": thing.name,
        "score": thing.score,
        "unknown": thing.answers.unknown,
        "answers": [vars(answer) for answer in thing.answers],
    }


def _words(thing: Thing) -> str:
    answers: Answers = thing.answers
    return "unknown" if thing.name is None else f"{thing.name} {answers[0].probability:.0%}"


def _place(box: Box) -> str:
    return ", ".join(f"{100 * share:.0f}%" for share in box)


def _places(files: tuple[Path, ...], out: Path) -> dict[Path, Path]:
    """Where the drawn copy of each file goes: never over a file, nor two to one place."""
    places = {file: out / file.name for file in files}
    taken = Counter(place.resolve() for place in places.values())
    for file, place in places.items():
        if place.resolve() == file.resolve():
            raise CannotWrite(f"{place} is the image itself; give --out another folder")
        if taken[place.resolve()] > 1:
            raise CannotWrite(
                f"two images would be written to {place}; run the command once for each folder"
            )
    return places


def _save(picture: Any, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        picture.save(path)
    except (OSError, ValueError) as error:
        raise CannotWrite(f"{path} cannot be written: {error}") from None
