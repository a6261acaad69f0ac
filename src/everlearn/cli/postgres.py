"""Commands for a Memory in a database."""

import click

from everlearn.cli.output import as_json, print_result, say
from everlearn.errors import InvalidParameter
from everlearn.memory.storage.postgres.address import PostgresAddress

KINDS = ("asker", "teacher", "writer")


@click.group()
def postgres() -> None:
    """Manage a Memory in PostgreSQL."""


@postgres.command()
@click.argument("role")
@click.option(
    "--as",
    "kind",
    type=click.Choice(KINDS),
    default="asker",
    show_default=True,
    help="What the role may do.",
)
@as_json
@click.pass_context
def grant(ctx: click.Context, role: str, kind: str) -> None:
    """Let a role of the server ask, teach or change the Memory."""
    from everlearn.memory.storage.postgres.rights import grant as granted

    made = granted(_address(ctx), role, kind)
    print_result({"role": role, "kind": kind, "made": made})
    say(f"{role} may now use {ctx.obj} as {kind}")
    if made:
        say(f"the role is new and has no password; set one in psql: \\password {role}")


@postgres.command()
@as_json
@click.pass_context
def migrate(ctx: click.Context) -> None:
    """Make the tables, or bring those of an older version up to date."""
    from everlearn.memory.storage.locations import storage_at
    from everlearn.memory.storage.schema import FORMAT_VERSION

    storage_at(_address(ctx)).open(write=True).close()
    print_result({"format": FORMAT_VERSION})
    say(f"{ctx.obj} has format {FORMAT_VERSION}")


def _address(ctx: click.Context) -> PostgresAddress:
    if not isinstance(ctx.obj, PostgresAddress):
        raise InvalidParameter(
            f"{ctx.obj} is a folder; name a database: everlearn -m postgresql://user@host/database"
        )
    return ctx.obj
