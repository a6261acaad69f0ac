"""The command line: parse, call the library, print."""

import sys


def main() -> None:
    """The ``everlearn`` command."""
    try:
        from everlearn.cli.app import app
    except ModuleNotFoundError as error:
        sys.exit(
            f"the command line needs {error.name}; install it with: pip install 'everlearn[cli]'"
        )
    app(prog_name="everlearn")
