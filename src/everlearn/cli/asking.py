"""Commands that only read a Memory: ask, names, info, evaluate, export."""

import csv
import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from everlearn.cli.context import BOX, POSITIVE, image_limits, network, opened, with_image_limits
from everlearn.cli.output import as_json, notify, print_result, print_table, progress, say, when
from everlearn.errors import CannotWrite, EverlearnError
from everlearn.images.decode import Limits
from everlearn.images.folders import ORDINARY, image_files, survey
from everlearn.images.video import frames, is_video
from everlearn.memory.answers import Answers
from everlearn.memory.export.annotations import annotations_of
from everlearn.memory.insight.evaluate import Evaluation, plot_confusion
from everlearn.memory.insight.evaluate import evaluate as evaluate_files
from everlearn.memory.insight.sorting import sort_into_folders
from everlearn.memory.model.serving import prepared_answers
from everlearn.memory.words import counted
from everlearn.persistence import replace_file
from everlearn.regions.annotations import FORMATS, write_annotations
from everlearn.regions.region_embedder import Region

PATH = click.Path(path_type=Path)
# Default number of seconds between two frames of a video.
EVERY = 1.0
# At most this many mistakes are listed.
MOST_MISTAKES = 10
MOST_FILES = 3
# With these, a spreadsheet takes a cell for a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


@click.command()
@click.argument("files", nargs=-1, required=True, type=PATH, metavar="FILE|DIR...")
@click.option("--csv", "table", type=PATH, help="Write the answers to this file as CSV.")
@click.option(
    "--sort-into", type=PATH, metavar="DIR", help="Copy each file to a folder of its name in DIR."
)
@click.option(
    "--top",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="Number of answers per image.",
)
@click.option(
    "--every",
    type=POSITIVE,
    metavar="SECONDS",
    help="One frame of a video every so many seconds (default 1); in a folder, include videos.",
)
@click.option("--remember", is_flag=True, help="Keep unknown pictures; see everlearn strangers.")
@click.option(
    "--where", is_flag=True, help="Name the most certain thing in the picture, and say where it is."
)
@click.option(
    "--box", type=BOX, metavar="L,T,R,B", help="Ask about a part: pixels, shares, or auto."
)
@with_image_limits
@as_json
@click.pass_context
def ask(
    ctx: click.Context,
    files: tuple[Path, ...],
    table: Path | None,
    sort_into: Path | None,
    top: int,
    every: float | None,
    remember: bool,
    where: bool,
    box: tuple[float, ...] | str | None,
) -> None:
    """Name what is on these images, on those in a folder, or on the frames of a video."""
    given = list(image_files(files, videos=every is not None))
    if any(map(is_video, given)) and (sort_into is not None or where or box is not None):
        raise click.UsageError(
            "frames of a video are asked about as whole pictures and cannot be sorted into "
            "folders; everlearn find looks for things in a video"
        )
    shown, asked = _with_frames(given, every or EVERY, image_limits(ctx))
    prepared = None if remember or where else prepared_answers(ctx.obj, network(ctx))
    regions = (one if box is None else Region(one, box) for one in asked)
    results: list[Answers | Exception]
    if prepared is not None:
        results = list(prepared.ask_many(regions, top=top, limits=image_limits(ctx)))
    else:
        memory = opened(ctx, read_only=not remember)
        if where:
            results = [_ask_where(memory, file, top, remember) for file in asked]
        else:
            results = list(memory.ask_many(regions, top=top, remember=remember))
    not_written = _written(shown, results, table, sort_into)
    print_result([_described(file, found) for file, found in zip(shown, results, strict=True)])
    rows = [
        [str(file), _verdict(found), _alternatives(found)]
        for file, found in zip(shown, results, strict=True)
    ]
    print_table(["file", "answer", "also possible"], rows)
    if not_written is not None:
        raise not_written
    if any(isinstance(found, Exception) for found in results):
        sys.exit(1)


def _written(
    files: Sequence[Path],
    results: Sequence[Answers | Exception],
    table: Path | None,
    sort_into: Path | None,
) -> CannotWrite | None:
    """Write what was asked for, before printing, which a closed pipe may end; returns the error."""
    try:
        if table is not None:
            _write_csv(table, files, results)
        if sort_into is not None:
            copied = sort_into_folders(sort_into, zip(files, results, strict=True))
            notify(f"copied {counted(copied, 'file')} into {sort_into}")
    except CannotWrite as error:
        return error
    return None


def _with_frames(
    given: Sequence[Path], every: float, limits: Limits
) -> tuple[list[Path], Iterator[Any]]:
    """What to ask about: images, and the frames of videos; and the file of each.

    The list of files is complete once everything was read: only then it is known how many frames a
    video has.
    """
    files: list[Path] = []

    def each() -> Iterator[Any]:
        for path in given:
            for one in frames(path, every, limits=limits) if is_video(path) else [path]:
                files.append(Path(one))
                yield one

    return files, each()


def _write_csv(path: Path, files: Sequence[Path], results: Sequence[Answers | Exception]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["file", "answer", "probability", "most like", "error"])
    for file, found in zip(files, results, strict=True):
        if isinstance(found, Exception):
            cells = "", "", "", str(found)
        elif found.unknown:
            like = found[0].name if found else ""
            cells = "ignored" if found.ignored else "unknown", "", like, ""
        else:
            cells = found[0].name, f"{found[0].probability:.4f}", "", ""
        # A path stays one that can be opened: only relative ones can begin like a formula.
        place = f"./{file}" if str(file).startswith(FORMULA) else str(file)
        writer.writerow([place, *map(_no_formula, cells)])
    replace_file(path, text.getvalue().encode("utf-8", "backslashreplace"))


def _no_formula(cell: str) -> str:
    """A cell that spreadsheets show as it is, instead of computing it."""
    return f"'{cell}" if cell.startswith(FORMULA) else cell


def _ask_where(memory: Any, file: Path, top: int, remember: bool) -> Answers | Exception:
    try:
        answers: Answers = memory.ask(file, where=True, top=top, remember=remember)
    except EverlearnError as error:
        return error
    return answers


@click.command()
@as_json
@click.pass_context
def names(ctx: click.Context) -> None:
    """List the names that were taught."""
    known = opened(ctx, read_only=True, computes=False).names()
    print_result({name: vars(record) for name, record in known.items()})
    print_table(
        ["name", "teachings", "last taught"],
        [[name, str(r.count), when(r.last_taught)] for name, r in known.items()],
    )


@click.command()
@as_json
@click.pass_context
def info(ctx: click.Context) -> None:
    """Describe the Memory: size, classifier, embedder."""
    facts = opened(ctx, read_only=True, computes=False).info()
    print_result(facts)
    print_table(["what", "value"], [[key, str(value)] for key, value in facts.items()])


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--plot", type=click.Path(path_type=Path), help="Draw the confusion matrix to this file."
)
@with_image_limits
@as_json
@click.pass_context
def evaluate(ctx: click.Context, folder: Path, plot: Path | None) -> None:
    """Ask about the images in class folders and count right answers."""
    found = survey([folder], reserved=True)
    with progress("asking", len(found.files)) as step:
        result = evaluate_files(opened(ctx, read_only=True), found.files, progress=step)
    not_drawn = None if plot is None else _drawn(result, plot)
    print_result(_as_facts(result) | ({"plot_error": not_drawn} if not_drawn else {}))
    _say_evaluation(result)
    for reason, left in found.left_out.items():
        if reason not in ORDINARY:
            say(f"not asked: {len(left)} {reason}", err=True)
    if not_drawn:
        notify(f"everlearn: {not_drawn}")
        sys.exit(1)


def _drawn(result: Evaluation, plot: Path) -> str | None:
    """Draw the plot; returns the error if that fails, so that the figures are still printed."""
    try:
        plot_confusion(result, plot)
    except EverlearnError as error:
        return str(error)
    return None


def _as_facts(result: Evaluation) -> dict[str, Any]:
    return {
        "accuracy": result.accuracy if result.n_known else None,
        "images": result.n_known,
        "called_unknown": result.flagged_known,
        "unknown_images": result.n_unknown,
        "unknown_called_unknown": result.flagged_unknown,
        "taught_before": result.taught,
        "per_name": {
            name: {"right": right, "images": of} for name, (right, of) in result.per_name().items()
        },
        "mistakes": [mistake._asdict() for mistake in result.mistakes()],
        "taken_for": [
            {"file": file, "name": name, "answered": said} for file, name, said in result.taken_for
        ],
        "unreadable": [{"file": f, "error": e} for f, e in result.unreadable],
    }


def _say_evaluation(result: Evaluation) -> None:
    if result.n_known:
        say(f"{result.accuracy:.1%} of {result.n_known} images right")
        say(f"{result.flagged_known / result.n_known:.1%} of them called unknown")
    if result.n_unknown:
        share = result.flagged_unknown / result.n_unknown
        say(f"{share:.1%} of {result.n_unknown} images of unknown names called unknown")
    if result.taught:
        say(
            f"careful: {len(result.taught)} of these images were taught, so this accuracy says "
            "little about new ones; evaluate on images that were not taught",
            err=True,
        )
    for file, error in result.unreadable:
        say(f"not asked: {file}: {error}", err=True)
    rows = [
        [mistake.name, mistake.answered or "(unknown)", str(mistake.times), _some(mistake.files)]
        for mistake in result.mistakes()[:MOST_MISTAKES]
    ]
    if rows:
        print_table(["shown", "answered", "times", "files"], rows, title="most frequent mistakes")


def _some(files: tuple[str, ...]) -> str:
    more = len(files) - MOST_FILES
    return ", ".join(files[:MOST_FILES]) + (f" and {more} more" if more > 0 else "")


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--with-embedder", is_flag=True, help="Include the network: pixels in, names out.")
@click.option(
    "--boxes",
    type=click.Choice(FORMATS),
    help="Write what was taught instead: files, names and boxes as COCO, VOC or YOLO have them.",
)
@as_json
@click.pass_context
def export(ctx: click.Context, file: Path, with_embedder: bool, boxes: str | None) -> None:
    """Write the classifier to one ONNX file, or the teachings as annotations."""
    memory = opened(ctx, read_only=True)
    if boxes is not None:
        found = annotations_of(memory)
        write_annotations(file, boxes, found)
        print_result({"file": str(file), "images": len(found)})
        say(f"wrote {file}: {sum(len(p.things) for p in found)} boxes in {len(found)} images")
        return
    memory.export(file, with_embedder=with_embedder)
    print_result({"file": str(file), "names": list(memory.names())})
    taken = "pixels" if with_embedder else "features"
    say(f"wrote {file}: {taken} in, probabilities of {len(memory.names())} names out")


def _described(file: Path, found: Answers | Exception) -> dict[str, Any]:
    if isinstance(found, Exception):
        return {"file": str(file), "error": str(found)}
    return {
        "file": str(file),
        "unknown": found.unknown,
        "ignored": found.ignored,
        "probably": found.probably,
        "familiarity": found.familiarity if found else None,
        "answers": [vars(answer) for answer in found],
        **({} if found.box is None else {"box": list(found.box)}),
    }


def _verdict(found: Answers | Exception) -> str:
    if isinstance(found, Exception):
        return f"error: {found}"
    if found.unknown:
        return "ignored" if found.ignored else "unknown"
    return f"{'probably ' if found.probably else ''}{found[0].name} {found[0].probability:.0%}"


def _alternatives(found: Answers | Exception) -> str:
    if isinstance(found, Exception):
        return ""
    if found.unknown:  # probabilities are conditional on being known
        return f"most like {', '.join(answer.name for answer in found)}" if found else ""
    return ", ".join(f"{answer.name} {answer.probability:.0%}" for answer in found[1:])
