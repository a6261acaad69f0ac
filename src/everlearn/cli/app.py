"""The top-level command group."""

import itertools
import sys
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import click

from everlearn import __version__
from everlearn.cli.context import Place
from everlearn.cli.output import notify, out_of_memory_advice, output_errors_reported, print_json
from everlearn.errors import EverlearnError, MissingPackage
from everlearn.memory.storage.postgres.address import PostgresAddress
from everlearn.memory.words import escaped

EPILOG = """\b
Begin with a folder per class: everlearn teach photos/, then everlearn ask new.jpg
Shell completion: eval "$(_EVERLEARN_COMPLETE=bash_source everlearn)", or zsh_, fish_
Exit codes: 0 done, 1 something could not be done, 2 wrong usage, 130 interrupted."""


# The module of each command; a command's packages are imported when it is called. Other
# distributions add commands through the entry point group "everlearn.commands".
COMMANDS = {
    "init": "everlearn.cli.configuring",
    "teach": "everlearn.cli.teaching",
    "ingest": "everlearn.cli.ingesting",
    "ask": "everlearn.cli.asking",
    "find": "everlearn.cli.finding",
    "follow": "everlearn.cli.finding",
    "why": "everlearn.cli.explaining",
    "correct": "everlearn.cli.explaining",
    "check": "everlearn.cli.explaining",
    "names": "everlearn.cli.asking",
    "show": "everlearn.cli.explaining",
    "strangers": "everlearn.cli.unknowns",
    "name": "everlearn.cli.unknowns",
    "forget": "everlearn.cli.forgetting",
    "undo": "everlearn.cli.forgetting",
    "redo": "everlearn.cli.forgetting",
    "history": "everlearn.cli.forgetting",
    "rename": "everlearn.cli.teaching",
    "merge": "everlearn.cli.teaching",
    "sync": "everlearn.cli.teaching",
    "evaluate": "everlearn.cli.asking",
    "watch": "everlearn.cli.teaching",
    "export": "everlearn.cli.asking",
    "info": "everlearn.cli.asking",
    "reembed": "everlearn.cli.embedding",
    "relocate": "everlearn.cli.embedding",
    "compare-networks": "everlearn.cli.embedding",
    "compare-regions": "everlearn.cli.finding",
    "strictness": "everlearn.cli.configuring",
    "use": "everlearn.cli.configuring",
    "compare-classifiers": "everlearn.cli.configuring",
    "verify": "everlearn.cli.maintenance",
    "backup": "everlearn.cli.maintenance",
    "restore": "everlearn.cli.maintenance",
    "receipt": "everlearn.cli.maintenance",
    "postgres": "everlearn.cli.postgres",
    "serve": "everlearn.cli.serving",
    "label-studio": "everlearn.cli.bridging",
    "frigate": "everlearn.cli.bridging",
    "fiftyone": "everlearn.cli.bridging",
    "immich": "everlearn.cli.bridging",
    "bench": "everlearn.cli.showing",
    "demo": "everlearn.cli.showing",
}

# Commands of the package everlearn-papers, available if it is installed.
OF_PAPERS = ("data", "reproduce")


class App(click.Group):
    """Imports commands when called; everlearn's errors are printed as one line, exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        as_json = "--json" in _words(ctx)
        with output_errors_reported():
            try:
                return super().invoke(ctx)
            except EverlearnError as error:
                notify(f"everlearn: {error}")
                if as_json:
                    print_json({"error": str(error), "kind": type(error).__name__})
                sys.exit(1)
            except click.UsageError as error:
                if as_json:
                    print_json({"error": error.format_message(), "kind": "WrongUsage"})
                if type(error) is click.UsageError:  # others escape what they quote
                    raise click.UsageError(escaped(error.message), error.ctx) from None
                raise
            except (MemoryError, ImportError, OSError) as error:
                advice = out_of_memory_advice(error)
                if advice is None:
                    raise
                notify(f"everlearn: {advice}")
                sys.exit(1)
            except KeyboardInterrupt as stopped:
                notify(str(stopped) or "Stopped. Everything that was taught is saved.")
                sys.exit(130)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Global options are also accepted after the command."""
        return super().parse_args(ctx, _hoisted(args))

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *sorted(entry_points(group="everlearn.commands").names)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            command: click.Command = getattr(
                import_module(COMMANDS[cmd_name]), cmd_name.replace("-", "_")
            )
            return command
        joined = entry_points(group="everlearn.commands", name=cmd_name)
        if not joined and cmd_name in OF_PAPERS:
            raise MissingPackage(
                f"everlearn {cmd_name} comes with everlearn-papers; install it with: pip install "
                "everlearn-papers"
            )
        return next(iter(joined)).load() if joined else None


def _hoisted(args: list[str]) -> list[str]:
    """Move ``-m FOLDER`` to the front, wherever it is given."""
    own: list[str] = []
    rest: list[str] = []
    remaining = iter(args)
    for word in remaining:
        if word == "--":
            rest += [word, *remaining]
        elif word in ("-m", "--memory"):
            own += [word, *itertools.islice(remaining, 1)]
        elif word.startswith("--memory="):
            own.append(word)
        else:
            rest.append(word)
    return own + rest


def _words(ctx: click.Context) -> list[str]:
    """The arguments after the global options."""
    return [*getattr(ctx, "_protected_args", []), *ctx.args]


@click.group(cls=App, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-m",
    "--memory",
    "place",
    type=Place(),
    metavar="PLACE",
    default=Path("memory"),
    show_default=True,
    envvar="EVERLEARN_MEMORY",
    show_envvar=True,
    help="Folder of the Memory, or postgresql://…#name.",
)
@click.option(
    "--network",
    envvar="EVERLEARN_NETWORK",
    show_envvar=True,
    metavar="WORD|FILE",
    help="Network that embeds images.",
)
@click.version_option(__version__, "-V", "--version")
@click.pass_context
def app(ctx: click.Context, place: Path | PostgresAddress, network: str | None) -> None:
    """Show it an example and a name, and it knows it at once."""
    ctx.obj = place
    ctx.meta["network"] = network
