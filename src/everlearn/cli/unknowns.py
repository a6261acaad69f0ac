"""Commands for unknown pictures that were kept: strangers, name."""

import click

from everlearn.cli.context import confirmed_name, new_name, opened
from everlearn.cli.output import as_json, print_result, print_table, say
from everlearn.memory.words import counted, listed


@click.command()
@click.option(
    "--ignore",
    type=int,
    metavar="GROUP",
    help='Answer similar pictures with "ignored" from now on.',
)
@click.option(
    "--drop", type=int, metavar="GROUP", help="Drop this group; everlearn undo brings it back."
)
@as_json
@click.pass_context
def strangers(ctx: click.Context, ignore: int | None, drop: int | None) -> None:
    """List unknown pictures that were kept (ask --remember), grouped by similarity.

    everlearn undo takes back what --ignore, --drop and everlearn name did.
    """
    memory = opened(ctx, read_only=ignore is None and drop is None)
    if ignore is not None:
        memory.ignore_unknowns(ignore)
    if drop is not None:
        memory.drop_unknowns(drop)
    groups = memory.unknowns()
    print_result([vars(group) for group in groups])
    rows = [
        [
            str(g.id),
            str(g.count),
            g.likely or "",
            "ignored" if g.ignored else "",
            listed(g.sources),
        ]
        for g in groups
    ]
    print_table(["group", "pictures", "most like", "", "files"], rows)


@click.command()
@click.argument("group", type=int)
@click.argument("name")
@new_name
@as_json
@click.pass_context
def name(ctx: click.Context, group: int, name: str, new: bool) -> None:
    """Teach a GROUP of unknown pictures as NAME."""
    memory = opened(ctx)
    name = confirmed_name(memory, name, new=new)
    count = memory.name_unknowns(group, name)
    print_result({"taught": count, "name": name})
    say(f"taught {counted(count, 'picture')} as {name}; everlearn undo takes it back")
