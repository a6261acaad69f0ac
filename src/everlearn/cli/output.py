"""Words for people, JSON for programs, progress for those who wait.

What is printed may hold words from outside: names, paths, messages about files. Printed as they
are, they could move the cursor, set a title, or be taken for markup; so every character that is
not printable is spelled out, and no word is ever read as markup.
"""

import errno
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click

# Without a terminal, one line of progress per this many seconds.
PLAIN_SECONDS = 5.0
CANNOT_WRITE = (errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EBADF, errno.EFBIG)

# Columns whose cells are shortened in the middle where they are too long for the terminal.
PATH_COLUMNS = ("file", "source")

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs to read.")


class Stopped(KeyboardInterrupt):
    """Ctrl-C in a command that knows how far it came; its words are what is printed."""


def spelled_out(words: str) -> str:
    """Words on one line, in which what is not printable is written as its escape sequence."""
    if words.isprintable():
        return words
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in words
    )


def say(words: str, *, err: bool = False) -> None:
    """One line for a person."""
    click.echo(spelled_out(words), err=err)


def print_json(value: Any) -> None:
    """One document for a program; in ASCII, which every terminal and encoding can take."""
    click.echo(json.dumps(value, indent=2))


def print_table(columns: list[str], rows: list[list[str]], title: str | None = None) -> None:
    """A table on a terminal, lines with tabs elsewhere."""
    safe = [[spelled_out(cell) for cell in row] for row in rows]
    if not _on_a_terminal(sys.stdout):
        for row in [columns, *safe]:
            click.echo("\t".join(row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from everlearn.cli.path_cell import PathCell

    console = Console(markup=False, highlight=False, emoji=False)
    table = Table(*columns, title=title)
    kinds = [PathCell if column in PATH_COLUMNS else Text for column in columns]
    for row in safe:
        table.add_row(*(kind(cell) for kind, cell in zip(kinds, row, strict=True)))
    console.print(table)


def _on_a_terminal(stream: Any) -> bool:
    """As Rich sees it, which takes a while to import."""
    return bool(stream.isatty() or os.environ.get("FORCE_COLOR"))


@contextmanager
def ends_well() -> Iterator[None]:
    """Say in one line that standard output cannot be written, and end with exit code 1.

    Python would find out when it ends, and print a traceback.
    """
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.errno not in CANNOT_WRITE:
            raise
        # What is left in the buffer goes nowhere, or the interpreter would try once more.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != errno.EPIPE:  # a reader that has seen enough is nothing to speak of
            with suppress(OSError):
                say(f"everlearn: the output cannot be written: {error.strerror}", err=True)
        sys.exit(1)


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[], None]]:
    """A function to call once for every step done; shown on standard error."""
    if _on_a_terminal(sys.stderr):
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeRemainingColumn,
        )

        console = Console(stderr=True, markup=False, highlight=False, emoji=False)
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
            say(f"{what}: {done} of {total}, {rate:.0f}/s, {left:.0f} s left", err=True)

    return step


def when(seconds: float) -> str:
    """A moment in local time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
