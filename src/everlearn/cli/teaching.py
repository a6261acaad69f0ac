"""Commands that teach: teach, rename, merge, sync, watch."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from everlearn.cli.context import (
    BOX,
    POSITIVE,
    confirmed_name,
    image_limits,
    keep_images,
    new_name,
    opened,
    with_image_limits,
)
from everlearn.cli.output import (
    Stopped,
    as_json,
    print_result,
    print_table,
    progress,
    say,
    wants_json,
)
from everlearn.errors import NotAMemory
from everlearn.images import video
from everlearn.images.decode import Limits
from everlearn.images.folders import (
    ORDINARY,
    FolderWatch,
    LabelledFile,
    Survey,
    survey,
)
from everlearn.images.names import folded, require_name
from everlearn.memory.answers import Outcome, Summary
from everlearn.memory.edits.merging import Merged, Synced
from everlearn.memory.edits.writing import misspelled_among
from everlearn.memory.storage.locations import storage_at
from everlearn.memory.words import counted, teachings
from everlearn.regions.annotations import read_annotations
from everlearn.regions.region_embedder import MODES, Mode, Region

# At most this many folders or files are listed.
MOST_SHOWN = 5

PATH = click.Path(path_type=Path)
again = click.option(
    "--again", is_flag=True, help="Teach images that are already taught once more."
)
also = click.option(
    "--also", is_flag=True, help="Teach images under a second name, and keep the first."
)


@click.command()
@click.argument("paths", nargs=-1, required=True, type=PATH, metavar="DIR|FILE...")
@click.option("--as", "name", metavar="NAME", help="The name; by default that of the folder.")
@click.option(
    "--outermost/--innermost",
    help="In nested folders, use the outermost folder below DIR as the name.  [default: innermost]",
)
@click.option(
    "--every",
    type=POSITIVE,
    metavar="SECONDS",
    help="Also teach videos: one frame every so many seconds.",
)
@click.option(
    "--box", type=BOX, metavar="L,T,R,B", help="Teach a part of the image: pixels, shares, or auto."
)
@click.option(
    "--boxes", is_flag=True, help="Teach annotations: a COCO file, or folders of YOLO or VOC files."
)
@click.option(
    "--images",
    type=PATH,
    metavar="DIR",
    help="With --boxes: folder of the images, if they are elsewhere.",
)
@click.option(
    "--regions",
    type=click.Choice(MODES),
    help="For a new Memory: embed whole images, their main thing, or all things.",
)
@click.option("--plan", is_flag=True, help="Print what would be taught, and teach nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@new_name
@again
@also
@keep_images
@with_image_limits
@as_json
@click.pass_context
def teach(
    ctx: click.Context,
    paths: tuple[Path, ...],
    name: str | None,
    outermost: bool,
    every: float | None,
    box: tuple[float, ...] | str | None,
    boxes: bool,
    images: Path | None,
    regions: Mode | None,
    plan: bool,
    yes: bool,
    new: bool,
    again: bool,
    also: bool,
) -> None:
    """Teach images: a folder of folders, or anything --as NAME."""
    if boxes:
        if name is not None or every is not None or box is not None or outermost:
            raise click.UsageError(
                "--boxes takes names and boxes from the annotations; omit --as, --box, --every and "
                "--outermost"
            )
        _teach_boxes(ctx, paths, images, regions, plan=plan, again=again, also=also)
        return
    found = survey(paths, name, outermost=outermost, videos=every is not None)
    there = storage_at(ctx.obj).exists()
    memory = opened(ctx, read_only=plan, regions=None if plan else regions) if there else None
    known = {} if memory is None or name is not None else memory.names()
    spelled = {} if name is not None else found.spell(known)
    doubtful = {} if new else misspelled_among(found.names, known)
    if plan:
        _print_plan(found, spelled, doubtful)
        return
    if (found.is_unusual or spelled or doubtful) and not wants_json():
        _say_plan(found, spelled, doubtful)
        if not yes and sys.stdin.isatty() and sys.stderr.isatty():
            click.confirm("continue?", default=True, abort=True, err=True)
    with progress("teaching", len(found.files)) as step:
        memory = memory or opened(ctx, regions=regions)
        if name is not None:
            confirmed = confirmed_name(memory, name, new=new)
            found.files = [(path, confirmed) for path, _ in found.files]
        examples = _examples(found.files, every, image_limits(ctx), box)
        summary, failures = _teach_examples(
            memory, examples, len(found.files), step, again=again, also=also
        )
    names = len({name for _, name in found.files})
    done = f"taught {counted(summary.taught, 'image')} of {counted(names, 'name')}"
    _report_taught(done, summary, failures, left_out=_left_out(found))
    if not found.is_unusual and found.left_out:
        say(f"left out: {_counts(found)}", err=True)
    if failures:
        sys.exit(1)


def _teach_boxes(
    ctx: click.Context,
    paths: tuple[Path, ...],
    images: Path | None,
    regions: Mode | None,
    *,
    plan: bool,
    again: bool,
    also: bool,
) -> None:
    """Teach annotated boxes; what is outside of them is background."""
    found = [picture for path in paths for picture in read_annotations(path, images)]
    names = Counter(name for picture in found for name, _ in picture.things)
    for name in names:
        require_name(name)
    if plan:
        print_result({"names": dict(names), "images": len(found)})
        print_table(["name", "boxes"], [[name, str(count)] for name, count in names.items()])
        return
    is_new = not storage_at(ctx.obj).exists()
    total = sum(names.values())
    with progress("teaching", total) as step:
        memory = opened(ctx, regions=regions or ("things" if is_new else None))
        pairs = (
            (Region(Path(picture.file), box), name)
            for picture in found
            for name, box in picture.things
        )
        summary, failures = _teach_examples(memory, pairs, total, step, again=again, also=also)
    boxes = "1 box" if summary.taught == 1 else f"{summary.taught} boxes"
    kinds, pictures = counted(len(names), "name"), counted(len(found), "image")
    done = f"taught {boxes} of {kinds} in {pictures}"
    _report_taught(done, summary, failures)
    if failures:
        sys.exit(1)


def _teach_examples(
    memory: Any,
    examples: Iterable[tuple[Any, str]],
    total: int,
    step: Callable[[], None],
    *,
    again: bool,
    also: bool,
) -> tuple[Summary, list[Outcome]]:
    """Teach examples; returns the summary, and the outcomes of those that failed.

    Interrupted, it says how many of the ``total`` are saved.
    """
    failures: list[Outcome] = []
    saved = 0

    def acknowledge(outcome: Outcome) -> None:
        nonlocal saved
        saved += outcome.error is None
        step()
        if outcome.error is not None:
            failures.append(outcome)

    try:
        summary: Summary = memory.teach_many(
            examples, again=again, also=also, acknowledge=acknowledge
        )
    except KeyboardInterrupt:
        raise Stopped(
            f"Stopped. {saved} of {counted(total, 'picture')} are saved; run the same command to "
            "continue."
        ) from None
    return summary, failures


def _report_taught(
    done: str, summary: Summary, failures: Sequence[Outcome], **facts: object
) -> None:
    """Print what was taught, and why the rest was not."""
    print_result(
        {
            "taught": summary.taught,
            "repeated": summary.repeated,
            "unreadable": [{"file": f.source, "error": str(f.error)} for f in failures],
        }
        | facts
    )
    for failure in failures:
        say(f"not taught: {failure.error}", err=True)
    say(done + (f", {summary.repeated} known already" if summary.repeated else ""))


def _examples(
    files: list[LabelledFile], every: float | None, limits: Limits, box: Any
) -> Iterable[tuple[Any, str]]:
    if box is not None:
        return ((Region(path, box), name) for path, name in files)
    return files if every is None else video.with_frames(files, every, limits=limits)


def _say_plan(found: Survey, spelled: dict[str, str], doubtful: dict[str, str]) -> None:
    """Print what will be taught and what will be left out.

    ``spelled`` are folders whose names are known in another spelling, ``doubtful`` new names that
    resemble a known one.
    """
    names = Counter(name for _, name in found.files)
    images, kinds = counted(len(found.files), "image"), counted(len(names), "name")
    say(f"will teach {images} of {kinds}", err=True)
    for name, folders in list(found.nested.items())[:MOST_SHOWN]:
        inside = ", ".join(f"{folder} {count}" for folder, count in folders.most_common(MOST_SHOWN))
        more = len(folders) - MOST_SHOWN
        others = f" and {counted(more, 'more folder')}" if more > 0 else ""
        say(f"  {name}: {counted(names[name], 'image')} from {inside}{others}", err=True)
    if len(found.nested) > MOST_SHOWN:
        say(f"  and {counted(len(found.nested) - MOST_SHOWN, 'more name')}; see --plan", err=True)
    if found.nested:
        say(
            "  an image is named after the folder it is in; with --outermost after the first "
            "folder below the one given; --as NAME gives one name to all",
            err=True,
        )
    for folder, known in list(spelled.items())[:MOST_SHOWN]:
        say(f"  {folder!r} is taught as {known!r}", err=True)
    for folder, known in list(doubtful.items())[:MOST_SHOWN]:
        say(
            f"  {folder!r} is new; did you mean {known!r}? Then rename the folder first, or run "
            "everlearn rename afterwards; --new skips this question",
            err=True,
        )
    for reason, left in found.left_out.items():
        example = f", for instance {left[0]}" if reason not in ORDINARY else ""
        say(f"  left out: {len(left)} {reason}{example}", err=True)


def _print_plan(found: Survey, spelled: dict[str, str], doubtful: dict[str, str]) -> None:
    names = Counter(name for _, name in found.files)
    plan = {"names": dict(names), "left_out": _left_out(found)}
    print_result(plan | {"taught_as": spelled, "did_you_mean": doubtful})
    print_table(["name", "images"], [[name, str(count)] for name, count in names.items()])
    _say_plan(found, spelled, doubtful)


def _left_out(found: Survey) -> list[dict[str, object]]:
    return [
        {"reason": reason, "count": len(left), "files": [str(path) for path in left[:MOST_SHOWN]]}
        for reason, left in found.left_out.items()
    ]


def _counts(found: Survey) -> str:
    return ", ".join(f"{len(left)} {reason}" for reason, left in found.left_out.items())


@click.command()
@click.argument("old")
@click.argument("new", metavar="NEW")
@click.option("--new", "is_new", is_flag=True, help="NEW is right, even if it resembles another.")
@as_json
@click.pass_context
def rename(ctx: click.Context, old: str, new: str, is_new: bool) -> None:
    """Rename OLD to NEW; if NEW exists, the two are merged."""
    memory = opened(ctx)
    wanted = confirmed_name(memory, new, new=is_new, instead_of=old)
    counts = {known: record.count for known, record in memory.names().items()}
    name = memory.rename(old, wanted)
    print_result({"old": old, "new": name})
    merged = ""
    if name in counts and folded(name) != folded(old):
        merged = f" and merged with its {teachings(counts[name])}; everlearn undo takes it back"
    say(f"{old} is now called {name}{merged}")


@click.command()
@click.argument("other", type=click.Path(path_type=Path, exists=True, file_okay=False))
@as_json
@click.pass_context
def merge(ctx: click.Context, other: Path) -> None:
    """Learn everything another Memory was taught."""
    done = opened(ctx).merge(other)
    print_result({"taught": int(done)} | _as_facts(done))
    say(f"{done} from {other}")
    _say_conflicts(done)


@click.command()
@click.argument("other")
@click.option(
    "--conflicts",
    type=click.Choice(["list", "here", "there"]),
    default="list",
    show_default=True,
    help="Which name to keep where a picture has a different one in each.",
)
@as_json
@click.pass_context
def sync(ctx: click.Context, other: str, conflicts: str) -> None:
    """Exchange with another Memory until both are equal.

    OTHER is a folder, or the address of a service (everlearn serve) whose token is in
    EVERLEARN_TOKEN.
    """
    done = _synced(opened(ctx), other, conflicts)
    sides = {"here": done.here, "there": done.there}
    print_result(
        {side: {"taught": int(m)} | _as_facts(m) for side, m in sides.items()}
        | {"equal": done.equal}
    )
    say(f"here: {done.here}")
    say(f"{other}: {done.there}")
    if conflicts == "list":
        _say_conflicts(done.here)
    if done.equal:
        say("both are equal")
    elif done.here.conflicts:
        say("both are equal, except for the pictures with different names")
    else:
        say("they are not equal: one was changed in the meantime; run the command again")


def _synced(memory: Any, other: str, conflicts: str) -> Synced:
    if not other.startswith(("http://", "https://")):
        if not Path(other).is_dir():
            raise NotAMemory(f"there is no Memory in {other}; name a folder, or http://…")
        done: Synced = memory.sync(other, conflicts=conflicts)
        return done
    from everlearn.service.client import Client

    # For the service, *here* is the service and *there* is this Memory.
    swapped = {"here": "there", "there": "here"}.get(conflicts, conflicts)
    with Client(other) as service:
        exchanged = service.sync(memory, conflicts=swapped)  # type: ignore[arg-type]
    return Synced(exchanged.there, exchanged.here, exchanged.equal)


def _as_facts(done: Merged) -> dict[str, object]:
    listed = [
        {"source": one.source, "here": list(one.here), "there": one.there} for one in done.conflicts
    ]
    return {
        "forgotten": done.forgotten,
        "erased": done.erased,
        "kept_out": done.kept_out,
        "conflicts": listed,
    }


def _say_conflicts(done: Merged) -> None:
    for one in done.conflicts:
        here = ", ".join(one.here)
        say(f"{one.source or 'a picture'} is {here} here and {one.there} there", err=True)
    if done.conflicts:
        say("to give them one name: everlearn sync --conflicts here, or there", err=True)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--pause",
    type=POSITIVE,
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds between two scans of the folder.",
)
@click.option("--every", type=POSITIVE, hidden=True, help="Now called --pause.")
@click.option(
    "--looks", type=click.IntRange(1), help="Stop after this many scans; by default never."
)
@keep_images
@with_image_limits
@as_json
@click.pass_context
def watch(
    ctx: click.Context,
    folder: Path,
    pause: float,
    every: float | None,
    looks: int | None,
) -> None:
    """Teach what is dropped into the class folders of FOLDER."""
    if every is not None:
        raise click.UsageError(
            "--every is for frames of videos; use --pause SECONDS for the time between two scans"
        )
    memory = opened(ctx)

    def acknowledge(outcome: Outcome) -> None:
        error = None if outcome.error is None else str(outcome.error)
        print_result(
            {
                "file": outcome.source,
                "name": outcome.name,
                "taught": outcome.taught,
                "error": error,
            }
        )
        if outcome.error is not None:
            say(f"not taught: {outcome.error}", err=True)
        elif outcome.taught:
            say(f"{outcome.name}: {outcome.source}")

    say(f"watching {folder}; Ctrl-C ends it", err=True)
    watched = FolderWatch(folder)
    said: set[tuple[str, int]] = set()
    for count, files in enumerate(watched.scan_forever(pause), start=1):
        for reason, left in watched.left_out.items():
            if reason not in ORDINARY and (reason, len(left)) not in said:
                said.add((reason, len(left)))
                say(f"left out: {len(left)} {reason}, for instance {left[-1]}", err=True)
        if files:
            memory.teach_many(files, acknowledge=acknowledge)
        if count == looks:
            return
