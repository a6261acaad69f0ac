"""Commands that re-run papers and fetch their data."""

from pathlib import Path

import click

from everlearn.cli.output import as_json, print_json, print_table, progress
from everlearn.errors import MissingData
from everlearn.papers.reproduce import PAPERS, parts
from everlearn.papers.reproduce import reproduce as run_paper
from everlearn.streams.catalogue import SOURCES, get
from everlearn.streams.catalogue import find as find_data


@click.command()
@click.argument("name", type=click.Choice(list(PAPERS)))
@click.option("--only", metavar="PART", help="One table or figure, for instance table1.")
@click.option("--quick", is_flag=True, help="One seed and less data, to see that it runs.")
@click.option("--seeds", type=click.IntRange(1), help="Repetitions; by default as in the paper.")
@click.option("--jobs", type=click.IntRange(1), default=2, show_default=True, help="Processes.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the report; finished seeds found there are kept.  [default: out/NAME]",
)
@as_json
def reproduce(
    name: str,
    only: str | None,
    quick: bool,
    seeds: int | None,
    jobs: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Re-run a paper; report its numbers beside the published ones."""
    total = 1 if only else len(parts(name))
    with progress(f"{name}, tables and figures", total) as step:
        report = run_paper(
            name, only=only, quick=quick, seeds=seeds, out=out, jobs=jobs, progress=step
        )
    if as_json:
        print_json({"report": str(report), "results": str(report.with_name("results.json"))})
    else:
        click.echo(f"report: {report}")


@click.command()
@click.argument("action", type=click.Choice(["list", "get"]))
@click.argument("name", type=click.Choice(list(SOURCES)), required=False)
@as_json
def data(action: str, name: str | None, as_json: bool) -> None:
    """List the papers' data sets, or get one: fetched and verified."""
    if action == "get":
        if name is None:
            raise click.UsageError(f"data get NAME; NAME is one of {', '.join(SOURCES)}")
        with progress(name, len(SOURCES[name].files)) as step:
            places = {name: str(get(name, progress=step))}
    else:
        places = {known: _where(known) for known in SOURCES}
    if as_json:
        print_json(places)
    else:
        print_table(["data set", "where"], [list(row) for row in places.items()])


def _where(name: str) -> str:
    try:
        return str(find_data(name))
    except MissingData:
        source = SOURCES[name]
        return f"everlearn data get {name}" if source.files else source.home
