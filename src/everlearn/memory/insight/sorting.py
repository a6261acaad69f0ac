"""Copies files into folders named after their answers."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from everlearn.errors import CannotWrite
from everlearn.memory.answers import Answers

UNKNOWN = "unknown"


def sort_into_folders(folder: Path, answered: Iterable[tuple[Path, Answers | Exception]]) -> int:
    """Copy each file into a folder named after its answer; returns how many were copied.

    Unknown images go into the folder ``unknown``; unreadable files are not copied. Nothing is
    overwritten: a file whose name exists gets a number.
    """
    copied = 0
    for file, found in answered:
        if isinstance(found, Exception):
            continue
        name = UNKNOWN if found.unknown else found[0].name
        target = folder / name.replace("/", "_").replace("\\", "_").strip(".")
        try:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, _free(target / file.name))
        except OSError as error:
            raise CannotWrite(
                f"{file} cannot be copied to {target}: {error.strerror or error}; {copied} were "
                "copied"
            ) from None
        copied += 1
    return copied


def _free(path: Path) -> Path:
    """The path, with a number appended if the file exists."""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.stem} {number}{path.suffix}")
    return free
