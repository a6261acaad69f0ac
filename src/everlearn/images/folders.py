"""Folders of images: an image is named after the folder it is in.

The command line, the page, ``watch``, ``evaluate`` and clusters share one rule (:func:`name_of`):
``photos/2024/05/Cardinal/1.jpg`` is a Cardinal, whichever folder above it was given. Hidden folders
are skipped. Images beside folders with images have no name and are left out.

Folders whose names are the same (names.py), such as ``Purple Finch`` and ``purple finch``, are one
name.

Nothing is left out silently: every file is either taken or counted under the reason why it is not.
A file whose suffix is unknown is identified by its content.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath

from everlearn.errors import CannotRead, InvalidInput
from everlearn.images import video
from everlearn.images.containers import kind_of
from everlearn.images.decode import SUFFIXES
from everlearn.images.names import fault_of, is_reserved, one_spelling

LabelledFile = tuple[Path, str]

IMAGES = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "AVIF", "HEIF")
# Images that are not read, by suffix.
UNREAD_SUFFIXES = frozenset(
    {".tif", ".tiff", ".psd", ".svg", ".jp2", ".jxl", ".dng", ".cr2", ".cr3", ".nef", ".arw"}
)
# Maximum nesting of folders.
DEEPEST = 32

HIDDEN = "hidden"
NO_IMAGE = "no image"
NOT_READ = "in a format that is not read; save as JPEG or PNG"
VIDEO = "videos, of which frames are taken with --every SECONDS"
LOOSE = "images beside the class folders, which have no name; move them, or add --as NAME"
# The start of the reason; the rest says what is wrong with the name.
BAD_NAME = "in a folder whose name is not a valid name"
RESERVED_NAME = (
    "in a folder called unknown, ignored or background, words that answers use; rename the folder"
)
BAD_LINK = "links that are broken or circular"
CLOSED = "folders that cannot be opened"
TOO_DEEP = f"folders more than {DEEPEST} deep"
# Folders that archives and network drives add beside the images.
BOOKKEEPING = ("__MACOSX", "@eaDir")
# Reasons that need no confirmation by the user.
ORDINARY = (HIDDEN, NO_IMAGE)


def is_hidden(part: str) -> bool:
    """Whether a file or folder is skipped: dot files, and what archives add."""
    return part.startswith(".") or part in BOOKKEEPING


def name_of(inside: Sequence[str], *, outermost: bool = False) -> str:
    """The name of an image, from the folders it is in.

    Parameters
    ----------
    inside : sequence of str
        The folders from the one that was given (not included) to the image (not included).
    outermost : bool, default=False
        Use the first of them, for classes with subfolders: ``Cardinal/2024/05/1.jpg``.
    """
    return inside[0 if outermost else -1]


def names_in(
    insides: Sequence[Sequence[str]], own: str, *, outermost: bool = False
) -> list[tuple[str | None, str | None]]:
    """The names of the images of one folder, or the reason why one has none.

    Reserved words are accepted here: images of such a folder can be asked about.

    Parameters
    ----------
    insides : sequence of sequences of str
        For each image the folders it is in, as for :func:`name_of`; empty for one that is directly
        in the folder.
    own : str
        The name of the folder, used for its images if no subfolder holds any.
    outermost : bool, default=False
    """
    labels = [name_of(inside, outermost=outermost) if inside else None for inside in insides]
    faults = [LOOSE if label is None else _fault_of_folder(label) for label in labels]
    is_class = all(faults) and not is_hidden(own) and fault_of(own) is None
    found: list[tuple[str | None, str | None]] = []
    for label, fault in zip(labels, faults, strict=True):
        if label is None and is_class:
            found.append((own, None))
        else:
            found.append((label, None) if fault is None else (None, fault))
    return found


def names_of_listed(
    files: Sequence[tuple[str, bytes]],
) -> list[tuple[str | None, str | None]]:
    """The names that :func:`survey` would give to remote files, or the reasons.

    Parameters
    ----------
    files : sequence of (path, start)
        The path from the folder that was given, including its name, with slashes; and the first
        bytes of the file, which decide if the suffix is unknown.
    """
    found: list[tuple[str | None, str | None]] = [(None, LOOSE)] * len(files)
    folders: dict[str, list[int]] = {}
    for index, (path, start) in enumerate(files):
        parts = PurePosixPath(path).parts
        reason = _reason_by_content(PurePosixPath(path).suffix.lower(), partial(bytes, start))
        if any(map(is_hidden, parts[1:])) or (len(parts) == 1 and is_hidden(parts[0])):
            reason = HIDDEN
        if reason is not None:
            found[index] = None, reason
        elif len(parts) > 1:
            folders.setdefault(parts[0], []).append(index)
    for own, indices in folders.items():
        insides = [PurePosixPath(files[index][0]).parts[1:-1] for index in indices]
        for index, named in zip(indices, names_in(insides, own), strict=True):
            found[index] = named
    return [
        (None, RESERVED_NAME) if name is not None and is_reserved(name) else (name, reason)
        for name, reason in found
    ]


@dataclass
class Survey:
    """The files found in some folders.

    Attributes
    ----------
    files : list of (path, name)
        In a fixed order.
    left_out : dict of lists of paths
        By reason.
    nested : dict of counters
        Images by folder, for names whose images are not in a folder of that name directly below
        the given one.
    """

    files: list[LabelledFile] = field(default_factory=list)
    left_out: dict[str, list[Path]] = field(default_factory=dict)
    nested: dict[str, Counter[str]] = field(default_factory=dict)

    @property
    def is_unusual(self) -> bool:
        """Whether the user should confirm before it is taught."""
        return bool(self.nested) or any(reason not in ORDINARY for reason in self.left_out)

    @property
    def names(self) -> list[str]:
        """Every name once, in the order of the files."""
        return list(dict.fromkeys(name for _, name in self.files))

    def leave_out(self, reason: str, path: Path) -> None:
        self.left_out.setdefault(reason, []).append(path)

    def spell(self, known: Iterable[str]) -> dict[str, str]:
        """Use the spelling of known names, and one spelling of each new name.

        Returns the new spelling of every name that changed.
        """
        spelling = one_spelling(self.names, known)
        changed = {name: spelled for name, spelled in spelling.items() if name != spelled}
        self.files = [(path, spelling[name]) for path, name in self.files]
        nested: dict[str, Counter[str]] = {}
        for name, where in self.nested.items():
            nested.setdefault(spelling[name], Counter()).update(where)
        self.nested = nested
        return changed


def survey(
    paths: Iterable[Path],
    name: str | None = None,
    *,
    outermost: bool = False,
    videos: bool = False,
    reserved: bool = False,
) -> Survey:
    """Find the images in folders, or files with a given name.

    Parameters
    ----------
    paths : iterable of paths
        Each image is named after the folder it is in. A folder with images and without folders of
        images is a class itself.
    name : str, optional
        One name for all, at any depth; single files may then be given.
    outermost : bool, default=False
        For nested folders, use the outermost folder below the given one as the name.
    videos : bool, default=False
        Include videos.
    reserved : bool, default=False
        Include folders called by a word that answers use (unknown, ignored, background). Nothing
        can be taught under that name.
    """
    found = Survey()
    for path in paths:
        if not path.exists():
            raise CannotRead(f"{path} does not exist")
        if path.is_dir():
            _survey_folder(found, path, name, outermost, videos, reserved)
        elif name is not None:
            found.files.append((path, name))
        else:
            raise InvalidInput(
                f"{path} is a file, so it needs a name: add --as NAME, or teach a folder of folders"
            )
    return found


def labelled_files(paths: Iterable[Path], name: str | None = None) -> Iterator[LabelledFile]:
    """Image files with their names, in a fixed order, as found by :func:`survey`."""
    return iter(survey(paths, name).files)


def image_files(paths: Iterable[Path], *, videos: bool = False) -> Iterator[Path]:
    """Files as they are given, and for a folder every image below it, in a fixed order.

    Videos in folders are included if ``videos`` is true.
    """
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        found = Survey()
        images = [file for file in _walk(found, path) if _exclusion_reason(file, videos) is None]
        if not images:
            raise InvalidInput(f"{path} holds no images{_left_out_summary(found)}")
        yield from images


def _survey_folder(
    found: Survey, folder: Path, name: str | None, outermost: bool, videos: bool, reserved: bool
) -> None:
    before = len(found.files)
    deeper: dict[str, Counter[str]] = {}
    images: list[Path] = []
    for path in _walk(found, folder):
        reason = _exclusion_reason(path, videos)
        if reason is not None:
            found.leave_out(reason, path)
        elif name is not None:
            found.files.append((path, name))
        else:
            images.append(path)
    insides = [path.relative_to(folder).parts[:-1] for path in images]
    named = names_in(insides, folder.resolve().name, outermost=outermost)
    for path, inside, (label, reason) in zip(images, insides, named, strict=True):
        if label is not None and is_reserved(label) and not reserved:
            label, reason = None, RESERVED_NAME
        if label is None:
            found.leave_out(str(reason), path)
            continue
        found.files.append((path, label))
        deeper.setdefault(label, Counter())["/".join(inside) or str(folder)] += 1
    for label, where in deeper.items():
        if set(where) != {label}:
            found.nested.setdefault(label, Counter()).update(where)
    if len(found.files) == before:
        raise InvalidInput(f"{folder} holds no images{_left_out_summary(found)}")


def _left_out_summary(found: Survey) -> str:
    if not found.left_out:
        return ""
    parts = (f"{len(paths)} {reason}" for reason, paths in found.left_out.items())
    return f" (left out: {'; '.join(parts)})"


def _walk(found: Survey, folder: Path, above: tuple[str, ...] = ()) -> Iterator[Path]:
    """Every file below a folder, links to folders followed, sorted."""
    here = os.path.realpath(folder)
    if here in above or len(above) > DEEPEST:
        found.leave_out(BAD_LINK if here in above else TOO_DEEP, folder)
        return
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        found.leave_out(CLOSED, folder)
        return
    folders = []
    for entry in entries:
        path = Path(entry.path)
        if is_hidden(entry.name):
            found.leave_out(HIDDEN, path)
        elif entry.is_symlink() and not path.exists():
            found.leave_out(BAD_LINK, path)
        elif entry.is_dir():
            folders.append(path)
        else:
            yield path
    for path in folders:
        yield from _walk(found, path, (*above, here))


def _exclusion_reason(path: Path, videos: bool) -> str | None:
    """The reason why a file is left out; ``None`` if it is taken."""
    return _reason_by_content(path.suffix.lower(), lambda: _start(path), videos)


def _reason_by_content(suffix: str, start: Callable[[], bytes], videos: bool = False) -> str | None:
    if suffix in SUFFIXES:
        return None
    if suffix in video.SUFFIXES:
        return None if videos else VIDEO
    kind = kind_of(start())
    if kind in IMAGES:
        return None
    if "video" in kind:
        return VIDEO
    return NOT_READ if kind or suffix in UNREAD_SUFFIXES else NO_IMAGE


def _start(path: Path) -> bytes:
    """The first bytes of a plain file."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            return file.read(64)
    except OSError:
        return b""


def _fault_of_folder(label: str) -> str | None:
    """Why images of a folder cannot get its name; ``None`` if they can."""
    fault = fault_of(label)
    return None if fault is None else f"{BAD_NAME}: it has {fault}"


class FolderWatch:
    """Reports files that are added to the class folders of a folder.

    A file is reported once it has not changed between two scans, so that nothing is read while it
    is being copied; if it changes later, it is reported again. Files left out are in ``left_out``,
    by reason.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise CannotRead(f"{folder} is not a folder")
        self.folder = folder
        self.left_out: dict[str, list[Path]] = {}
        self._seen: dict[Path, tuple[int, int]] = {}
        self._reported: dict[Path, tuple[int, int]] = {}

    def scan(self) -> list[LabelledFile]:
        """The files that are new and complete since the last scan."""
        ready: list[LabelledFile] = []
        seen: dict[Path, tuple[int, int]] = {}
        found = Survey()
        for path in _walk(found, self.folder):
            inside = path.relative_to(self.folder).parts[:-1]
            reason = _exclusion_reason(path, False)
            if reason is None and not inside:
                reason = LOOSE
            if reason is None:
                reason = _fault_of_folder(name_of(inside))
            if reason is None and is_reserved(name_of(inside)):
                reason = RESERVED_NAME
            if reason is not None:
                found.leave_out(reason, path)
                continue
            try:
                about = path.stat()
            except OSError:
                continue
            mark = about.st_size, about.st_mtime_ns
            seen[path] = mark
            if self._seen.get(path) == mark and self._reported.get(path) != mark:
                self._reported[path] = mark
                ready.append((path, name_of(inside)))
        self._seen, self.left_out = seen, found.left_out
        self._reported = {path: mark for path, mark in self._reported.items() if path in seen}
        return ready

    def scan_forever(self, seconds: float) -> Iterator[list[LabelledFile]]:
        """Scan repeatedly, with a pause between scans."""
        while True:
            yield self.scan()
            time.sleep(seconds)
