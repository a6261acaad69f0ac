"""Output: text for people, JSON for programs, and progress.

A command gives its result twice: as data by :func:`print_result`, and as text by :func:`say` and
:func:`print_table`. With ``--json`` the data is printed, otherwise the text. Warnings, errors and
progress are printed either way, by :func:`notify`.

Printed text may contain untrusted strings: names, paths, messages about files. Printed unchanged
they could move the cursor, set a title, or be taken for markup; so every unprintable character is
escaped, and no string is ever interpreted as markup.
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

from everlearn.acceleration import COMPILED
from everlearn.memory.words import escaped

# Without a terminal, seconds between lines of progress.
PLAIN_SECONDS = 5.0
CANNOT_WRITE = (errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EBADF, errno.EFBIG)

# Address space that teaching with the default network needs, with two threads of BLAS; and the
# largest with which it always fails. Both were measured. With too little, BLAS may ask for memory
# forever, without a message.
NEEDED_KB = 1_200_000 if COMPILED else 1_000_000
TOO_FEW_KB = 1_000_000 if COMPILED else 890_000

# Columns whose cells are shortened in the middle if they are too long for the terminal.
PATH_COLUMNS = ("file", "source")

_JSON = "everlearn.json"


def _store_choice(ctx: click.Context, _: click.Parameter, chosen: bool) -> None:
    ctx.meta[_JSON] = chosen


as_json = click.option(
    "--json",
    is_flag=True,
    expose_value=False,
    callback=_store_choice,
    help="Print JSON for programs to read.",
)


def wants_json() -> bool:
    """Whether the command that is running was called with ``--json``."""
    ctx = click.get_current_context(silent=True)
    return ctx is not None and bool(ctx.meta.get(_JSON))


class Stopped(KeyboardInterrupt):
    """Ctrl-C in a command that reports its progress; the message is printed."""


def say(words: str, *, err: bool = False) -> None:
    """Print one line for a person; nothing with ``--json``."""
    if not wants_json():
        click.echo(escaped(words), err=err)


def notify(words: str) -> None:
    """Print one line on standard error, also with ``--json``."""
    click.echo(escaped(words), err=True)


def print_result(value: Any) -> None:
    """Print the result as a JSON document with ``--json``; nothing without."""
    if wants_json():
        print_json(value)


def print_json(value: Any) -> None:
    """Print one JSON document; in ASCII, which every terminal and encoding can display."""
    click.echo(json.dumps(value, indent=2))


def print_table(columns: list[str], rows: list[list[str]], title: str | None = None) -> None:
    """Print a table on a terminal, tab-separated lines otherwise; nothing with ``--json``."""
    if wants_json():
        return
    safe = [[escaped(cell) for cell in row] for row in rows]
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
    """Whether the stream is a terminal; Rich's own test takes long to import."""
    return bool(stream.isatty() or os.environ.get("FORCE_COLOR"))


@contextmanager
def output_errors_reported() -> Iterator[None]:
    """If standard output cannot be written, print one line and end with exit code 1.

    Otherwise Python would fail when it exits, with a traceback.
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
        # Discard the rest of the buffer, or the interpreter would try to write it again.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != errno.EPIPE:  # a closed pipe is not an error
            with suppress(OSError):
                notify(f"everlearn: the output cannot be written: {error.strerror}")
        sys.exit(1)


def out_of_memory_advice(error: Exception) -> str | None:
    """The message for an error that means too little memory; None for any other error.

    Libraries that cannot be mapped into memory raise errors of their own, without an errno.
    """
    words = str(error)
    unmapped = "failed to map" in words or "Could not find/load shared object" in words
    if not (isinstance(error, MemoryError) or unmapped):
        return None
    most = address_limit()
    if most is None:
        return "there is not enough memory" if isinstance(error, MemoryError) else None
    return _too_few(most)


def address_limit() -> int | None:
    """The limit on the address space of this process in KB; None if there is none."""
    try:
        import resource
    except ModuleNotFoundError:  # not available on Windows
        return None
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if most == resource.RLIM_INFINITY else most // 1024


def low_address_limit() -> str:
    """The message if the limit on address space is too low for a network; otherwise empty."""
    most = address_limit()
    return _too_few(most) if most is not None and most <= TOO_FEW_KB else ""


def _too_few(most: int) -> str:
    return (
        f"there is not enough memory: this process may use {most:,} KB of address space "
        f"(ulimit -v) and needs about {NEEDED_KB:,}; raise the limit, or limit resident memory "
        "instead, for instance with MemoryMax of systemd"
    )


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[..., None]]:
    """Shows progress on standard error; yields a function to call after every step.

    It may be called with the number of steps that are done and their total.
    """
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
            steps = 0

            def step(done: int | None = None, total: int | None = None) -> None:
                nonlocal steps
                steps += 1
                rate = steps / max(time.monotonic() - start, 1e-9)
                advance = 1 if done is None else None
                bar.update(task, advance=advance, completed=done, total=total, rate=f"{rate:.0f}/s")

            yield step
        return
    yield _plain_progress(what, total)


def _plain_progress(what: str, total: int) -> Callable[..., None]:
    start = said = time.monotonic()
    steps = 0

    def step(done: int | None = None, of: int | None = None) -> None:
        nonlocal said, steps
        steps += 1
        now = time.monotonic()
        if now - said >= PLAIN_SECONDS:
            said = now
            reached, last = steps if done is None else done, total if of is None else of
            rate = steps / (now - start)
            left = (last - reached) / rate
            notify(f"{what}: {reached} of {last}, {rate:.0f}/s, {left:.0f} s left")

    return step


def when(seconds: float) -> str:
    """A time in the local time zone."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
