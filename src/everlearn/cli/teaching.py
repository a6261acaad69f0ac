"""Commands that change a Learner."""

import sys
from pathlib import Path

import click

from everlearn.cli.context import opened
from everlearn.cli.output import as_json, print_json, progress
from everlearn.memory.answers import Outcome
from everlearn.memory.folders import FolderWatch, labelled_files

PATH = click.Path(path_type=Path)
again = click.option(
    "--again", is_flag=True, help="Teach images that are already taught once more."
)


@click.command()
@click.argument("paths", nargs=-1, required=True, type=PATH, metavar="DIR|FILE...")
@click.option("--as", "name", metavar="NAME", help="What it is; by default the folder's name.")
@again
@as_json
@click.pass_context
def teach(
    ctx: click.Context, paths: tuple[Path, ...], name: str | None, again: bool, as_json: bool
) -> None:
    """Teach images: a folder of folders, or anything --as NAME."""
    files = list(labelled_files(paths, name))
    failures: list[Outcome] = []
    with progress("teaching", len(files)) as step:

        def acknowledge(outcome: Outcome) -> None:
            step()
            if outcome.error is not None:
                failures.append(outcome)

        learner = opened(ctx)
        summary = learner.teach_many(files, again=again, acknowledge=acknowledge)
    names = len({name for _, name in files})
    if as_json:
        print_json(
            {
                "taught": summary.taught,
                "repeated": summary.repeated,
                "unreadable": [{"file": f.source, "error": str(f.error)} for f in failures],
            }
        )
    else:
        for failure in failures:
            click.echo(f"not taught: {failure.error}", err=True)
        repeated = f", {summary.repeated} known already" if summary.repeated else ""
        click.echo(f"taught {summary.taught} images of {names} names{repeated}")
    if failures:
        sys.exit(1)


@click.command()
@click.argument("what", required=False)
@click.option("--name", help="Forget everything with this name.")
@click.option("--source", type=PATH, help="Forget what came from this file or folder.")
@click.option("--erase", is_flag=True, help="Remove it from the history too; cannot be undone.")
@as_json
@click.pass_context
def forget(
    ctx: click.Context,
    what: str | None,
    name: str | None,
    source: Path | None,
    erase: bool,
    as_json: bool,
) -> None:
    """Forget a name, an image, or what came from a folder."""
    place = None if source is None else str(source.absolute())
    count = opened(ctx).forget(what, name=name, source=place, erase=erase)
    if as_json:
        print_json({"forgotten": count})
    else:
        click.echo(
            f"forgot {count} teachings" + ("" if erase else "; everlearn undo takes it back")
        )


@click.command()
@as_json
@click.pass_context
def undo(ctx: click.Context, as_json: bool) -> None:
    """Take the last teach, forget, rename or merge back."""
    kind = opened(ctx).undo()
    if as_json:
        print_json({"undone": kind})
    else:
        click.echo(f"undone: {kind}")


@click.command()
@click.argument("old")
@click.argument("new")
@as_json
@click.pass_context
def rename(ctx: click.Context, old: str, new: str, as_json: bool) -> None:
    """Call OLD by the name NEW; if NEW exists, they become one."""
    opened(ctx).rename(old, new)
    if as_json:
        print_json({"old": old, "new": new})
    else:
        click.echo(f"{old} is now called {new}")


@click.command()
@click.argument("other", type=click.Path(path_type=Path, exists=True, file_okay=False))
@as_json
@click.pass_context
def merge(ctx: click.Context, other: Path, as_json: bool) -> None:
    """Learn everything another Learner was taught."""
    count = opened(ctx).merge(other)
    if as_json:
        print_json({"taught": count})
    else:
        click.echo(f"learned {count} teachings from {other}")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--every", default=1.0, show_default=True, help="Seconds between two looks.")
@click.option("--looks", type=int, help="Stop after this many looks; by default never.")
@as_json
@click.pass_context
def watch(ctx: click.Context, folder: Path, every: float, looks: int | None, as_json: bool) -> None:
    """Teach what is dropped into the class folders of FOLDER."""
    learner = opened(ctx)

    def acknowledge(outcome: Outcome) -> None:
        if as_json:
            error = None if outcome.error is None else str(outcome.error)
            print_json(
                {
                    "file": outcome.source,
                    "name": outcome.name,
                    "taught": outcome.taught,
                    "error": error,
                }
            )
        elif outcome.error is not None:
            click.echo(f"not taught: {outcome.error}", err=True)
        elif outcome.taught:
            click.echo(f"{outcome.name}: {outcome.source}")

    if not as_json:
        click.echo(f"watching {folder}; Ctrl-C ends it", err=True)
    for count, files in enumerate(FolderWatch(folder).forever(every), start=1):
        if files:
            learner.teach_many(files, acknowledge=acknowledge)
        if count == looks:
            return
