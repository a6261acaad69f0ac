"""The public names of a package, read from the list of public names.

``everlearn/__init__.pyi`` says where each public name is defined. A package that uses this module
offers those of its own files, each looked up when it is first used, so a new file needs only one
line in that list.
"""

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

LIST = Path(__file__).with_name("__init__.pyi")


def public_homes() -> dict[str, str]:
    """The module in which each public name of everlearn is defined."""
    listed = LIST.read_text(encoding="utf-8")
    return {
        name: f"everlearn.{module}"
        for module, name in re.findall(r"^from \.([\w.]+) import (\w+) as", listed, re.M)
    }


def public_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package such as ``everlearn.learners``."""
    inside = re.escape(package.partition(".")[2])
    listed = LIST.read_text(encoding="utf-8")
    homes = {
        name: f"{package}.{file}"
        for file, name in re.findall(rf"^from \.{inside}\.([\w.]+) import (\w+) as", listed, re.M)
    }

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"{package} has no {name}")
        return getattr(importlib.import_module(homes[name]), name)

    return find, lambda: sorted(homes), sorted(homes)
