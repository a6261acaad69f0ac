"""Searches files for what was erased: every byte, also inside archives.

What is searched for is a name, a path, a vector, an image or a thumbnail, in every form in which a
file may hold it: text in the encodings of SQLite, JSON and numpy; vectors in three precisions;
digests as bytes and as text. Long contents are searched for in slices as well, because SQLite
divides a long value among pages, and a file may keep a part of it.
"""

import contextlib
import hashlib
import io
import json
import zipfile
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

# Contents up to this size are searched for as a whole, longer ones in slices.
WHOLE = 128
SLICE, SLICES = 32, 64
# A slice with fewer different bytes than this is no evidence.
DISTINCT = 12


@dataclass(frozen=True)
class Trace:
    """Bytes that must not be found, and what they are."""

    what: str
    data: bytes


def of_text(what: str, text: str) -> list[Trace]:
    """A name or a path."""
    encoded = [text.encode(encoding) for encoding in ("utf-8", "utf-16-le", "utf-32-le")]
    forms = dict.fromkeys([*encoded, json.dumps(text)[1:-1].encode()])
    return [Trace(what, form) for form in forms]


def of_vector(what: str, vector: ArrayLike) -> list[Trace]:
    """A vector as it is, and at length one."""
    values = np.asarray(vector, dtype=np.float64)
    found = []
    for row in (values, values / max(float(np.linalg.norm(values)), 1e-300)):
        for kind in ("<f4", "<f8", "<f2"):
            found += of_bytes(f"{what} ({kind})", row.astype(kind).tobytes())
    return found


def of_image(what: str, image: bytes, *, unlike: Iterable[bytes] = ()) -> list[Trace]:
    """An image file and its digest; files have headers in common with others (``unlike``)."""
    digest = hashlib.sha256(image)
    return [
        *of_bytes(what, image, unlike=unlike),
        Trace(f"{what}'s digest", digest.digest()),
        *of_text(f"{what}'s digest", digest.hexdigest()),
    ]


def of_bytes(what: str, data: bytes, *, unlike: Iterable[bytes] = ()) -> list[Trace]:
    """Any content, in slices if it is long, without slices that others have as well."""
    if len(data) <= WHOLE:
        return [Trace(what, data)]
    starts = np.linspace(0, len(data) - SLICE, SLICES).astype(int)
    slices = {data[start : start + SLICE] for start in starts}
    others = list(unlike)
    return [
        Trace(what, part)
        for part in slices
        if len(set(part)) >= DISTINCT and not any(part in other for other in others)
    ]


def found(places: Iterable[Path], traces: Collection[Trace]) -> list[str]:
    """Which traces are in which files at or below some places; each pair once."""
    wanted = list(traces)
    return list(
        dict.fromkeys(
            f"{trace.what} in {where}"
            for place in places
            for where, data in _contents(place)
            for trace in _possible(wanted, data)
            if trace.data in data
        )
    )


def _possible(traces: list[Trace], data: bytes) -> list[Trace]:
    """The traces whose first eight bytes are somewhere in the data, and those that are shorter."""
    windows = [
        np.frombuffer(data, "<u8", (len(data) - start) // 8, start)
        for start in range(min(8, len(data)))
    ]
    keys = np.array([int.from_bytes(trace.data[:8], "little") for trace in traces], dtype="<u8")
    present = np.isin(keys, np.concatenate(windows or [np.empty(0, "<u8")]))
    return [
        trace for trace, there in zip(traces, present, strict=True) if there or len(trace.data) < 8
    ]


def _contents(place: Path) -> Iterator[tuple[str, bytes]]:
    """Every file with its name, and every member of an archive.

    A running server may remove a file meanwhile; it is then left out.
    """
    for path in [place] if place.is_file() else sorted(place.rglob("*")):
        yield f"the name of {path}", bytes(path.relative_to(place.parent))
        with contextlib.suppress(FileNotFoundError):
            if path.is_file():
                yield from _unpacked(str(path), path.read_bytes())


def _unpacked(where: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    yield where, data
    if zipfile.is_zipfile(io.BytesIO(data)):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for member in archive.namelist():
                yield from _unpacked(f"{where}/{member}", archive.read(member))
