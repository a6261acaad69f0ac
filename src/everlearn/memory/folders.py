"""Folders of images: the name of a folder is the name of what is in it."""

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from everlearn.errors import CannotRead, InvalidInput
from everlearn.features.decode import SUFFIXES

LabelledFile = tuple[Path, str]


def labelled_files(paths: Iterable[Path], name: str | None = None) -> Iterator[LabelledFile]:
    """Image files with their names, in a fixed order.

    A folder of folders gives each image the name of the folder it lies in. With ``name``, whatever
    lies in a folder, however deep, has that name, and files may be given on their own.
    """
    for path in paths:
        if not path.exists():
            raise CannotRead(f"{path} does not exist")
        if path.is_dir():
            yield from _in_folder(path, name)
        elif name is not None:
            yield path, name
        else:
            raise InvalidInput(
                f"{path} is a file, so it needs a name: add --as NAME, or teach a folder of folders"
            )


def _in_folder(folder: Path, name: str | None) -> Iterator[LabelledFile]:
    found = False
    for path in image_files(folder):
        if name is None and path.parent == folder:
            continue
        found = True
        yield path, name or path.relative_to(folder).parts[0]
    if not found:
        where = f"{folder} holds no images" if name else f"{folder} holds no folders with images"
        hint = "" if name else "; put the images of each class into a folder, or add --as NAME"
        raise InvalidInput(where + hint)


def image_files(folder: Path) -> Iterator[Path]:
    """Every file that looks like an image, hidden ones left out, sorted."""
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = Path(parent, name)
            if not name.startswith(".") and path.suffix.lower() in SUFFIXES:
                yield path


class FolderWatch:
    """Notices files that were dropped into the class folders of a folder.

    A file is reported once, when it has not changed between two looks, so that nothing is read
    while it is still being copied; when it changes later, it is reported again.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise CannotRead(f"{folder} is not a folder")
        self.folder = folder
        self._seen: dict[Path, tuple[int, int]] = {}
        self._reported: dict[Path, tuple[int, int]] = {}

    def look(self) -> list[LabelledFile]:
        """The files that are new and complete since the last look."""
        ready: list[LabelledFile] = []
        seen: dict[Path, tuple[int, int]] = {}
        for path in image_files(self.folder):
            if path.parent == self.folder:
                continue
            try:
                about = path.stat()
            except OSError:
                continue
            mark = about.st_size, about.st_mtime_ns
            seen[path] = mark
            if self._seen.get(path) == mark and self._reported.get(path) != mark:
                self._reported[path] = mark
                ready.append((path, path.relative_to(self.folder).parts[0]))
        self._seen = seen
        self._reported = {path: mark for path, mark in self._reported.items() if path in seen}
        return ready

    def forever(self, seconds: float) -> Iterator[list[LabelledFile]]:
        """Looks, one after the other, with a pause between."""
        while True:
            yield self.look()
            time.sleep(seconds)
