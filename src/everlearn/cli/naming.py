"""A name typed by hand: is it new, or a misspelling of one that is known?"""

import sys
from typing import Any

import click

from everlearn.memory.edits.naming import misspelled

new_name = click.option("--new", is_flag=True, help="NAME is new, even if it resembles another.")


def confirmed_name(memory: Any, name: str, *, new: bool) -> str:
    """The name that is meant; asks where it looks like a misspelling of a known one."""
    similar = None if new else misspelled(name, memory.names())
    if similar is None:
        return name
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError(
            f"{name!r} is not known; did you mean {similar!r}? Add --new if it is a new name."
        )
    question = f"{name!r} is not known. Teach it as {similar!r} (n: as a new name)?"
    return similar if click.confirm(question, default=True, err=True) else name
