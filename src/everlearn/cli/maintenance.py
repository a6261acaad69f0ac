"""Commands that keep a Memory safe: verify, receipt, backup, restore."""

import sys
from pathlib import Path

import click

from everlearn.cli.context import opened
from everlearn.cli.output import as_json, print_result, say
from everlearn.errors import AlreadyThere
from everlearn.memory.storage.backup import restore as restore_backup
from everlearn.memory.storage.locations import storage_at
from everlearn.memory.words import counted, escaped

FOLDER = click.Path(path_type=Path, file_okay=False)


@click.command()
@click.option(
    "--receipt",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Also search for what this receipt says was erased.",
)
@as_json
@click.pass_context
def verify(ctx: click.Context, receipt: Path | None) -> None:
    """Verify all checksums, and compare the model with a replay."""
    found = opened(ctx, read_only=True).verify(receipt)
    print_result({"ok": found.ok} | vars(found))
    for problem in found.problems:
        say(f"wrong: {problem}", err=True)
    if found.erase_pending:
        say("an erase is not finished; the next command that teaches finishes it")
    if not found.ok:
        sys.exit(1)
    say(str(found))


@click.group()
def receipt() -> None:
    """Receipts of an erase."""


@receipt.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@as_json
@click.pass_context
def check(ctx: click.Context, file: Path) -> None:
    """Complete a receipt that is pending, or say what it waits for."""
    waiting = opened(ctx).complete_receipt(file)
    print_result({"complete": not waiting, "waiting": waiting})
    for reason in waiting:
        say(f"pending: {reason}")
    if waiting:
        sys.exit(1)
    say(
        f"complete: nothing listed in {file} is left; copies and base backups made before the "
        "erase are not checked"
    )


@click.command()
@click.argument("destination", type=FOLDER)
@as_json
@click.pass_context
def backup(ctx: click.Context, destination: Path) -> None:
    """Copy the Memory to a new folder; safe while it is being taught."""
    opened(ctx, read_only=True, computes=False).backup(destination)
    print_result({"backup": str(destination)})
    say(f"backed up to {destination}; everlearn restore {destination} brings it back")


@click.command()
@click.argument("source", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("-y", "--yes", is_flag=True, help="Replace the current Memory without asking.")
@as_json
@click.pass_context
def restore(ctx: click.Context, source: Path, yes: bool) -> None:
    """Replace the Memory by a backup."""
    storage = storage_at(ctx.obj)
    if storage_at(source).identity() == storage.identity():
        raise AlreadyThere(f"{source} is the Memory itself; give the folder of a backup")
    if storage.exists() and not yes:
        question = f"{ctx.obj} holds a Memory, which the backup would replace; continue?"
        click.confirm(escaped(question), abort=True, err=True)
    count = restore_backup(source, ctx.obj)
    print_result({"restored": str(source), "teachings": count})
    say(f"restored {counted(count, 'teaching')} from {source} to {ctx.obj}")
