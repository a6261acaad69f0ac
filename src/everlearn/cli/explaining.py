"""Commands that explain: why, correct, check, show."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from everlearn.cli.context import confirmed_name, new_name, opened
from everlearn.cli.output import as_json, notify, print_result, print_table, progress, say, when
from everlearn.errors import EverlearnError
from everlearn.memory.insight.report import Report
from everlearn.memory.words import counted

FILE = click.Path(path_type=Path, dir_okay=False)
# At most this many suspects and pairs are listed.
MOST = 10


@click.command()
@click.argument("file", type=FILE)
@click.option("--name", help="Explain this name instead of the answer.")
@click.option("--top", default=5, show_default=True, help="Number of teachings to list.")
@as_json
@click.pass_context
def why(ctx: click.Context, file: Path, name: str | None, top: int) -> None:
    """Which pictures led to this answer, and what would it be without them?"""
    found = opened(ctx, read_only=True).why(file, name, top=top)
    without = {str(count): found.answer_without(count) for count in (1, 2, 5)}
    effects = [vars(effect) for effect in found.effects]
    print_result(
        {
            "name": found.name,
            "probability": found.probability,
            "score": found.score,
            "effects": effects,
            "answer_without": without,
            "decisive": found.decisive,
        }
    )
    rows = [[str(e.id), e.name, _share(e.probability_without), e.source] for e in found.effects]
    columns = ["teaching", "name", f"{found.name} without it", "source"]
    print_table(columns, rows)
    say(f"{found.name}: {_share(found.probability)}")
    for count, answer in without.items():
        which = "the first picture" if count == "1" else f"the first {count} pictures"
        say(f"without {which}: {answer or 'no name is left'}")
    if found.decisive:
        say("a single picture decides this answer")


def _share(probability: float) -> str:
    return f"{probability:.1%}"


@click.command()
@click.argument("file", type=FILE)
@click.argument("name")
@click.option("--also", is_flag=True, help="Keep the names it has as well.")
@new_name
@as_json
@click.pass_context
def correct(ctx: click.Context, file: Path, name: str, also: bool, new: bool) -> None:
    """Say what FILE really is: teaches it, or moves it to NAME."""
    memory = opened(ctx)
    done = memory.correct(file, confirmed_name(memory, name, new=new), also=also)
    print_result(vars(done))
    say(str(done))


@click.command()
@click.option("--html", type=FILE, help="Write a page with pictures to this file.")
@click.option("--plot", type=FILE, help="Draw the confusion matrix to this file.")
@as_json
@click.pass_context
def check(ctx: click.Context, html: Path | None, plot: Path | None) -> None:
    """Report accuracy, pictures that look mislabelled, and what to show next."""
    memory = opened(ctx, read_only=True)
    total = sum(record.count for record in memory.names().values())
    with progress("checking", total) as step:
        found = memory.report(progress=step)
    not_written = []
    for path, write in ((html, found.to_html), (plot, found.plot)):
        if path is not None:  # before printing, which a closed pipe may end
            try:
                write(path)
            except EverlearnError as error:
                not_written.append(error)
    print_result(_as_facts(found))
    _say_report(found, {t.id: t.source or f"teaching {t.id}" for t in memory.teachings()})
    for reason in not_written:
        notify(f"everlearn: {reason}")
    if not_written:
        sys.exit(1)


def _as_facts(report: Report) -> dict[str, Any]:
    return {
        "accuracy": report.accuracy.share,
        "interval": report.accuracy.interval,
        "teachings": report.accuracy.of,
        "strangers_noticed": report.strangers_noticed,
        "per_name": {
            name: {"right": a.right, "of": a.of, "interval": a.interval}
            for name, a in report.per_name.items()
        },
        "confused_pairs": report.confused_pairs,
        "mislabelled": [vars(suspect) for suspect in report.mislabelled],
        "near_duplicates": report.near_duplicates,
        "blurred": report.blurred,
        "dark": report.dark,
        "too_few": report.too_few,
        "rare": report.rare,
        "advice": report.advice,
    }


def _say_report(report: Report, sources: Mapping[int, str]) -> None:
    """Print a report; ``sources`` are the files of the teachings, by id."""
    say(str(report.accuracy))
    for sentence in (*report.about_strangers(), *report.about_rare_names()):
        say(sentence)
    print_table(
        ["name", "teachings", "right", "what to show next"],
        [
            [name, str(a.of), f"{a.share:.0%}", report.advice[name]]
            for name, a in report.per_name.items()
        ],
    )
    suspects = report.mislabelled[:MOST]
    if suspects:
        rows = [[str(s.id), s.name, s.looks_like, s.source] for s in suspects]
        print_table(["teaching", "name", "looks like", "source"], rows, "perhaps mislabelled")
    for what, ids in (("blurred", report.blurred), ("dark", report.dark)):
        if ids:
            say(f"{counted(len(ids), 'picture')} may be too {what} to learn from:")
            for id in ids[:MOST]:
                say(f"  {id}  {sources.get(id, '')}")
            if len(ids) > MOST:
                say(f"  and {len(ids) - MOST} more")
    if report.near_duplicates:
        say(f"{counted(len(report.near_duplicates), 'pair')} of pictures look the same")


@click.command()
@click.argument("name", required=False)
@click.option("--limit", default=50, show_default=True, help="Maximum number of teachings.")
@click.option("--offset", default=0, show_default=True, help="Number of teachings to skip.")
@as_json
@click.pass_context
def show(ctx: click.Context, name: str | None, limit: int, offset: int) -> None:
    """List teachings with their ids, times and sources."""
    memory = opened(ctx, read_only=True, computes=False)
    found = memory.teachings(name, limit=limit, offset=offset)
    print_result([vars(teaching) for teaching in found])
    rows = [[str(t.id), t.name, when(t.taught_at), t.source] for t in found]
    print_table(["teaching", "name", "taught", "source"], rows)
