"""Words for people, JSON for programs, progress for those who wait."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

# Without a terminal, one line of progress per this many seconds.
PLAIN_SECONDS = 5.0

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs to read.")


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def print_table(columns: list[str], rows: list[list[str]], title: str | None = None) -> None:
    console = Console()
    if not console.is_terminal:
        click.echo("\t".join(columns))
        for row in rows:
            click.echo("\t".join(row))
        return
    table = Table(*columns, title=title)
    for row in rows:
        table.add_row(*row)
    console.print(table)


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[], None]]:
    """A function to call once for every step done; shown on standard error."""
    console = Console(stderr=True)
    if console.is_terminal:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(what, total=total, rate="")
            start = time.monotonic()
            done = 0

            def step() -> None:
                nonlocal done
                done += 1
                rate = done / max(time.monotonic() - start, 1e-9)
                bar.update(task, advance=1, rate=f"{rate:.0f}/s")

            yield step
        return
    yield _plain_progress(what, total)


def _plain_progress(what: str, total: int) -> Callable[[], None]:
    start = said = time.monotonic()
    done = 0

    def step() -> None:
        nonlocal said, done
        done += 1
        now = time.monotonic()
        if now - said >= PLAIN_SECONDS:
            said = now
            rate = done / (now - start)
            left = (total - done) / rate
            print(f"{what}: {done} of {total}, {rate:.0f}/s, {left:.0f} s left", file=sys.stderr)

    return step


def when(seconds: float) -> str:
    """A moment in local time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
