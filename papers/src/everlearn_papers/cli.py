"""Commands that re-run papers and fetch their data."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar

from everlearn.cli.output import PLAIN_SECONDS, as_json, notify, print_result, print_table, say
from everlearn.errors import EverlearnError, MissingData
from everlearn_papers.data.catalogue import PACKS, SOURCES, get
from everlearn_papers.data.catalogue import find as find_data
from everlearn_papers.repeat import processor_seconds
from everlearn_papers.report import SKIPPED, Progress
from everlearn_papers.reproduce import PAPERS, long_parts
from everlearn_papers.reproduce import reproduce as run_paper

ALL = "all"


@click.command()
@click.argument("name", type=click.Choice([*PAPERS, ALL]))
@click.option("--only", metavar="PART", help="One table or figure, for instance table1.")
@click.option("--quick", is_flag=True, help="One seed and less data, to see that it runs.")
@click.option("--long", is_flag=True, help="Also the parts left out because they take long.")
@click.option(
    "--seeds", type=click.IntRange(1), help="Repetitions; by default those of the reports."
)
@click.option("--jobs", type=click.IntRange(1), default=2, show_default=True, help="Processes.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the report, one for each paper of all; finished parts and seeds found there "
    "are kept.  [default: out/NAME]",
)
@as_json
def reproduce(
    name: str,
    only: str | None,
    quick: bool,
    long: bool,
    seeds: int | None,
    jobs: int,
    out: Path | None,
) -> None:
    """Re-run a paper (or all); put its numbers beside the published.

    A report keeps the parts that earlier runs left in its folder. Quick and full runs do not mix: a
    full one puts quick parts aside, a quick one refuses a folder of full ones.
    """
    how: dict[str, Any] = {"quick": quick, "long": long, "seeds": seeds, "jobs": jobs}
    if not (only or quick or long):
        _report_skipped_parts(list(PAPERS) if name == ALL else [name])
    if name != ALL:
        with _shown(name) as tell:
            report = run_paper(name, only=only, out=out, progress=tell, **how)
        print_result(_paths(report))
        say(f"report: {report}")
        return
    if only:
        raise click.UsageError("--only is a part of one paper; name the paper instead of all")
    outcomes: dict[str, dict[str, Any]] = {}
    for paper in PAPERS:
        folder = None if out is None else out / paper
        outcomes[paper] = _one_of_all(paper, out=folder, **how)
        _print_outcome(paper, outcomes[paper])
    print_result(outcomes)
    if any("error" in outcome for outcome in outcomes.values()):
        sys.exit(1)


@click.command()
@click.argument("action", type=click.Choice(["list", "get"]))
@click.argument("name", type=click.Choice(list(SOURCES)), required=False)
@as_json
def data(action: str, name: str | None) -> None:
    """List the papers' data sets, or get one: fetched and verified."""
    if action == "get":
        if name is None:
            raise click.UsageError(f"data get NAME; NAME is one of {', '.join(SOURCES)}")
        with _fetching() as tell:
            places = {name: str(get(name, progress=tell))}
    else:
        places = {known: _where(known) for known in (*SOURCES, *PACKS)}
    print_result(places)
    print_table(["data set", "where"], [list(row) for row in places.items()])


def _one_of_all(name: str, **how: Any) -> dict[str, Any]:
    """Run one paper of several; errors are returned, so that the other papers still run."""
    start, used = time.monotonic(), processor_seconds()
    try:
        with _shown(name) as tell:
            outcome = _paths(run_paper(name, progress=tell, **how))
    except EverlearnError as error:
        outcome = {"error": str(error)}
    outcome["seconds"] = round(time.monotonic() - start, 1)
    outcome["processor_seconds"] = round(processor_seconds() - used, 1)
    return outcome


def _paths(report: Path) -> dict[str, Any]:
    return {"report": str(report), "results": str(report.with_name("results.json"))}


def _report_skipped_parts(papers: list[str]) -> None:
    named = [f"{paper} {part}" for paper in papers for part in long_parts(paper)]
    if named:
        notify(f"{SKIPPED}: {', '.join(named)}; --long makes them")


def _print_outcome(paper: str, outcome: dict[str, Any]) -> None:
    spent = f"{outcome['seconds']:.0f} s, {outcome['processor_seconds']:.0f} s of processor time"
    if "error" in outcome:
        say(f"{paper}: {spent}, not done: {outcome['error']}", err=True)
    else:
        say(f"{paper}: {spent}, report: {outcome['report']}")


@contextmanager
def _shown(paper: str) -> Iterator[Callable[[Progress], None]]:
    """Show the current part and its finished experiments on standard error."""
    console = Console(stderr=True, markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        yield _plain(paper)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("experiments"),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task(paper, total=None)

        def tell(now: Progress) -> None:
            bar.update(
                task, description=_title(paper, now), completed=now.done, total=now.known or None
            )

        yield tell


def _plain(paper: str) -> Callable[[Progress], None]:
    """Progress without a terminal: a line per part, and one every ``PLAIN_SECONDS``."""
    said = time.monotonic()
    part = ""

    def tell(now: Progress) -> None:
        nonlocal said, part
        moment = time.monotonic()
        if now.part == part and moment - said < PLAIN_SECONDS:
            return
        said, part = moment, now.part
        count = f": {now.done} of {now.known} experiments" if now.known else ""
        notify(_title(paper, now) + count)

    return tell


def _title(paper: str, now: Progress) -> str:
    return f"{paper}, {now.part} ({now.number} of {now.n_parts})"


@contextmanager
def _fetching() -> Iterator[Callable[[str, int, int | None], None]]:
    """Show download progress on standard error."""
    console = Console(stderr=True, markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        yield _plain_fetching()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)

        def tell(file: str, done: int, total: int | None) -> None:
            bar.update(task, description=file, completed=done, total=total)

        yield tell


def _plain_fetching() -> Callable[[str, int, int | None], None]:
    said = time.monotonic()

    def tell(file: str, done: int, total: int | None) -> None:
        nonlocal said
        if time.monotonic() - said >= PLAIN_SECONDS:
            said = time.monotonic()
            whole = f" of {total / 1e6:.0f}" if total else ""
            notify(f"{file}: {done / 1e6:.0f}{whole} MB")

    return tell


def _where(name: str) -> str:
    source = SOURCES.get(name)
    for place in (name, source.pack if source else None):
        with suppress(MissingData):
            if place:
                return str(find_data(place))
    if source is None:
        return f"missing: {PACKS[name]}"
    return f"everlearn data get {name}" if source.files else source.home
