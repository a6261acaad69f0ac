"""Commands that forget and undo: forget, undo, redo, history."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from everlearn.cli.context import opened
from everlearn.cli.output import as_json, notify, print_result, print_table, say, when
from everlearn.errors import CannotWrite, InvalidInput, UnknownLabel
from everlearn.memory.edits.forgetting import Forgotten
from everlearn.memory.edits.operations import Change
from everlearn.memory.storage.receipts import Receipt
from everlearn.memory.words import counted, escaped, listed
from everlearn.persistence import require_writable

yes = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")


@click.command()
@click.argument("what", required=False)
@click.option("--name", help="Forget everything with this name.")
@click.option(
    "--source", metavar="PATH", help="Forget what came from this file, folder or other source."
)
@click.option("--id", type=int, help="Forget one teaching by its id; see everlearn show.")
@click.option("--erase", is_flag=True, help="Remove it from the history too; cannot be undone.")
@click.option(
    "--receipt", type=click.Path(path_type=Path), help="Write the receipt of an erase to this file."
)
@yes
@as_json
@click.pass_context
def forget(
    ctx: click.Context,
    what: str | None,
    name: str | None,
    source: str | None,
    id: int | None,
    erase: bool,
    receipt: Path | None,
    yes: bool,
) -> None:
    """Forget a name, an image, or everything from a folder."""
    _require_not_empty({"WHAT": what, "--name": name, "--source": source})
    if sum(given is not None for given in (what, name or source, id)) != 1:
        raise click.UsageError("give one thing to forget: WHAT, --id, or --name and --source")
    if receipt is not None and not erase:
        raise click.UsageError("--receipt is for --erase")
    if receipt is not None:
        require_writable(receipt)
    memory = opened(ctx)
    place = None if source is None else str(Path(source).absolute())
    try:
        planned = memory.would_forget(what, id=id, name=name, source=place, erase=erase)
    except UnknownLabel:
        # A source need not be a path: a service is sent words such as "camera".
        if source in (None, place):
            raise
        place = source
        planned = memory.would_forget(what, id=id, name=name, source=place, erase=erase)
    if not yes and _needs_confirmation(planned, erase=erase, by_source=source is not None):
        lost = " for good, without undo" if erase else ""
        click.confirm(escaped(f"forget {planned}{lost}?"), abort=True, err=True)
    done = memory.forget(what, id=id, name=name, source=place, erase=erase)
    not_saved = None
    if receipt is not None and done.receipt is not None:
        try:
            done.receipt.save(receipt)
        except CannotWrite as error:
            not_saved = error
    print_result(_as_facts(done))
    say(f"forgot {done}" + ("" if erase else "; everlearn undo takes it back"))
    if done.receipt is not None:
        _say_how_complete(done.receipt)
    if not_saved is not None and done.receipt is not None:
        state = "pending" if done.receipt.pending else "done"
        notify(f"everlearn: {not_saved}. The erase is {state}; this is its receipt:")
        say(json.dumps(json.loads(done.receipt.as_json())))
        sys.exit(1)


@click.command()
@as_json
@click.pass_context
def undo(ctx: click.Context) -> None:
    """Undo the last operation: everything that one command or action did."""
    memory = opened(ctx)
    last = memory.would_undo()
    say(f"undoing: {last.about}", err=True)
    _report("undone", memory.undo(last.id))


@click.command()
@as_json
@click.pass_context
def redo(ctx: click.Context) -> None:
    """Redo what was undone last."""
    memory = opened(ctx)
    last = memory.would_redo()
    say(f"redoing: {last.about}", err=True)
    _report("redone", memory.redo(last.id))


@click.command()
@click.option("--limit", default=20, show_default=True, help="Maximum number of operations.")
@as_json
@click.pass_context
def history(ctx: click.Context, limit: int) -> None:
    """List all operations, the latest first."""
    changes = opened(ctx, read_only=True, computes=False).history(limit)
    print_result([vars(change) for change in changes])
    rows = [
        [when(change.time), change.kind, str(change.count), listed(change.names), _state(change)]
        for change in changes
    ]
    print_table(["when", "what", "count", "names", ""], rows)


def _require_not_empty(arguments: Mapping[str, str | None]) -> None:
    for argument, value in arguments.items():
        if value is not None and not value.strip():
            raise InvalidInput(f"{argument} is empty and selects nothing; is a variable unset?")


def _needs_confirmation(planned: Forgotten, *, erase: bool, by_source: bool) -> bool:
    return erase or by_source or len(planned.names) > 1


def _say_how_complete(receipt: Receipt) -> None:
    if receipt.also_removed:
        say(f"also removed: {counted(receipt.also_removed, 'teaching')} forgotten before")
    if receipt.unknowns_removed:
        unknown = counted(receipt.unknowns_removed, "unknown image")
        say(f"also removed: {unknown} that resembled it or were dropped before")
    if receipt.pending:
        say(
            "the erase is pending: a reader still holds the old state of the journal, the disk is "
            "full, or a file could not be removed. The next change, or the next command that "
            "teaches, finishes it; everlearn verify says whether it is complete",
            err=True,
        )
    if receipt.remaining:
        say(
            f"not erased, though computed from the pictures: {', '.join(receipt.remaining)}; "
            "change to another network (everlearn reembed), then remove these files",
            err=True,
        )
    elif not receipt.pending:
        say("the erase is complete: no byte of it is left in the folder")


def _as_facts(done: Forgotten) -> dict[str, object]:
    facts: dict[str, object] = {"forgotten": done.count, "names": done.names}
    if done.receipt is not None:
        facts["receipt"] = vars(done.receipt)
    return facts


def _report(done: str, change: Change) -> None:
    print_result({done: vars(change)})
    say(f"{done}: {change.about}")


def _state(change: Change) -> str:
    return "undone" if change.undone else ""
