"""Where each public name of everlearn is defined, read from the list of public names."""

import re
from pathlib import Path

LIST = Path(__file__).with_name("__init__.pyi")


def public_modules() -> dict[str, str]:
    """The module in which each public name of everlearn is defined."""
    listed = LIST.read_text(encoding="utf-8")
    return {
        name: f"everlearn.{module}"
        for module, name in re.findall(r"^from \.([\w.]+) import (\w+) as", listed, re.M)
    }
