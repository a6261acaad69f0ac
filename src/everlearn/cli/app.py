"""The commands, and what they have in common."""

import sys
from pathlib import Path
from typing import Any

import click

from everlearn import __version__
from everlearn.cli import asking, papers, showing, teaching
from everlearn.errors import EverlearnError

EPILOG = """\b
Begin with a folder of folders, one per class:
  everlearn teach photos/       everlearn ask new.jpg
Shell completion:
  eval "$(_EVERLEARN_COMPLETE=bash_source everlearn)"      (or zsh_source, fish_source)
Exit codes: 0 done, 1 something could not be done, 2 wrong usage, 130 interrupted."""


class App(click.Group):
    """Errors that everlearn raises on purpose become one line and exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except EverlearnError as error:
            click.echo(f"everlearn: {error}", err=True)
            sys.exit(1)
        except KeyboardInterrupt:
            click.echo("everlearn: interrupted; everything acknowledged is kept", err=True)
            sys.exit(130)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(cls=App, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-l",
    "--learner",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("learner"),
    show_default=True,
    envvar="EVERLEARN_LEARNER",
    show_envvar=True,
    help="Folder of the Learner.",
)
@click.version_option(__version__, "-V", "--version")
@click.pass_context
def app(ctx: click.Context, folder: Path) -> None:
    """Show it an example and a name, and it knows it at once."""
    ctx.obj = folder


for command in (
    teaching.teach,
    asking.ask,
    asking.names,
    teaching.forget,
    teaching.undo,
    teaching.rename,
    teaching.merge,
    asking.evaluate,
    teaching.watch,
    asking.export,
    asking.info,
    showing.bench,
    showing.demo,
    papers.reproduce,
    papers.data,
):
    app.add_command(command)
