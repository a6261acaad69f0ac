"""Write docs/command-line.md from the help texts: python scripts/command_line_docs.py."""

from pathlib import Path

import click

from everlearn.cli.app import app

PAGE = Path(__file__).parents[1] / "docs" / "command-line.md"

INTRODUCTION = """# The command line

    pip install '.[cli]'
    everlearn teach photos/        # a folder of folders: the folder's name is the class
    everlearn ask new.jpg

- `--json`: every command then prints one JSON document on standard output (`watch`: one per image).
- Progress, warnings and errors go to standard error.
- Exit codes: 0 done, 1 something could not be done (the message says what), 2 wrong usage, 130
  interrupted. Whatever was acknowledged before an interruption is kept.

Everything below is what `everlearn COMMAND --help` prints; this page is written by
`python scripts/command_line_docs.py`, and a test fails when it is out of date.
"""


def page() -> str:
    """The page as it should be."""
    root = click.Context(app, info_name="everlearn", terminal_width=80, **app.context_settings)
    parts = [INTRODUCTION, f"```\n{app.get_help(root)}\n```\n"]
    for name in app.list_commands(root):
        command = app.get_command(root, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=root, terminal_width=80)
        parts.append(f"## {name}\n\n```\n{command.get_help(context)}\n```\n")
        for part, inner in getattr(command, "commands", {}).items():
            below = click.Context(inner, info_name=part, parent=context, terminal_width=80)
            parts.append(f"## {name} {part}\n\n```\n{inner.get_help(below)}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
