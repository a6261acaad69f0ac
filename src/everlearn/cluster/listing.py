"""Lists shards from the sources a user gives: files, folders, patterns, arrays.

A folder may hold shards (npz, parquet, tar), or images, labelled by the folders they are in
(:mod:`everlearn.images.folders`); the images of one folder are divided into shards of a few hundred
in the order of their names. Arrays in memory are divided into blocks of rows. The list is sorted
and has no duplicates, so that it does not depend on the order of the sources.
"""

import hashlib
import logging
import os
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from everlearn.cluster.shards import (
    Kind,
    LabelledFile,
    Shard,
    address_in,
    file_system,
    identity_of,
    stamp_of,
)
from everlearn.errors import (
    BadShard,
    CannotRead,
    EverlearnError,
    InvalidInput,
    WrongKind,
    WrongShape,
)
from everlearn.images.decode import SUFFIXES
from everlearn.images.folders import is_hidden, name_of

KINDS = {
    ".npz": Kind.NPZ,
    ".parquet": Kind.PARQUET,
    ".pq": Kind.PARQUET,
    ".tar": Kind.TAR,
    ".tgz": Kind.TAR,
    ".tar.gz": Kind.TAR,
}
PICTURES_PER_SHARD = 512
ROWS_PER_SHARD = 1 << 16

logger = logging.getLogger("everlearn")


def listed(sources: Any) -> list[Shard]:
    """The shards of some sources, each once, ordered by identity.

    Parameters
    ----------
    sources : str, path-like, (X, y), or an iterable of these
        Addresses may be patterns (``"s3://bucket/*.npz"``).
    """
    found = {shard.identity: shard for source in _sources(sources) for shard in _shards_of(source)}
    if not found:
        raise InvalidInput("there are no shards to learn from; give at least one")
    shards = [found[identity] for identity in sorted(found)]
    for before, after in pairwise(shards):
        if before.address == after.address:
            raise InvalidInput(
                f"{after.address} changed while it was listed; list it again when it is complete"
            )
    return shards


def picture_shard(system: Any, address: str, pictures: tuple[LabelledFile, ...]) -> Shard:
    """Image files as one shard, identified by their names, sizes and timestamps."""
    digest, size = hashlib.sha256(), 0
    for picture in pictures:
        info = system.info(picture.path)
        size += int(info.get("size") or 0)
        line = f"{picture.path} {picture.label} {info.get('size')} {stamp_of(info)}\n"
        digest.update(line.encode())
    return Shard(address, size, digest.hexdigest(), Kind.PICTURES, pictures)


def require_unchanged(shard: Shard) -> None:
    """Raise ``BadShard`` if a file has changed since it was listed."""
    if shard.kind is Kind.ROWS:
        return
    system, path = file_system(shard.address.split("#", 1)[0])
    if shard.kind is Kind.PICTURES:
        now = picture_shard(system, shard.address, shard.pictures).identity
    else:
        info = system.info(path)
        now = identity_of(shard.address, int(info.get("size") or 0), stamp_of(info))
    if now != shard.identity:
        raise BadShard("it changed after it was listed; call fit again to use the current version")


def _sources(sources: Any) -> Iterable[Any]:
    is_single = isinstance(sources, (str, os.PathLike)) or _is_pair_of_arrays(sources)
    return [sources] if is_single else sources


def _is_pair_of_arrays(source: Any) -> bool:
    return (
        isinstance(source, tuple)
        and len(source) == 2
        and not any(isinstance(part, (str, os.PathLike, tuple, Shard)) for part in source)
    )


def _shards_of(source: Any) -> Iterator[Shard]:
    if isinstance(source, Shard):
        yield source
    elif isinstance(source, (str, os.PathLike)):
        yield from _from_address(os.fspath(source))
    elif _is_pair_of_arrays(source):
        yield from _from_arrays(*source)
    else:
        raise WrongKind(
            f"a {type(source).__name__} is not a shard; shards are addresses of npz, parquet, tar "
            "files or folders, pairs (X, y) of arrays, or collections of the engine in use"
        )


def _from_address(address: str) -> Iterator[Shard]:
    if not address.strip():
        raise InvalidInput("the address of a shard is empty; is a variable unset?")
    system, path = file_system(address)
    try:
        if "*" in address or "?" in address:
            matches = system.glob(path, detail=True)
            if not matches:
                raise CannotRead(f"{address} matches no file")
            for match in matches.values():
                yield from _from_entry(system, match)
        else:
            yield from _from_entry(system, system.info(path))
    except FileNotFoundError:
        raise CannotRead(f"{address} does not exist") from None
    except EverlearnError:
        raise
    except OSError as error:
        raise CannotRead(f"{address} cannot be read: {error}") from None


def _from_entry(system: Any, info: dict[str, Any]) -> Iterator[Shard]:
    if info["type"] == "directory":
        yield from _from_folder(system, info["name"])
        return
    shard = _from_file(system, info)
    if shard is None:
        raise InvalidInput(
            f"{info['name']} is not a shard; shards end in {', '.join(KINDS)}, or are folders"
        )
    yield shard


def _from_file(system: Any, info: dict[str, Any]) -> Shard | None:
    name = str(info["name"]).lower()
    for suffix, kind in KINDS.items():
        if name.endswith(suffix):
            address = address_in(system, info["name"])
            return Shard(address, int(info.get("size") or 0), stamp_of(info), kind)
    return None


def _from_folder(system: Any, folder: str) -> Iterator[Shard]:
    pictures: dict[str, list[LabelledFile]] = {}
    loose: list[LabelledFile] = []
    own = folder.rstrip("/").rpartition("/")[2]
    empty = True
    for path, info in sorted(system.find(folder, detail=True).items()):
        below = path[len(folder) :].strip("/").split("/")
        if any(is_hidden(part) for part in below):
            continue
        shard = _from_file(system, info)
        if shard is not None:
            empty = False
            yield shard
        elif os.path.splitext(path)[1].lower() in SUFFIXES:
            inside = below[:-1]
            if inside:
                picture = LabelledFile(path, name_of(inside))
                pictures.setdefault("/".join(inside), []).append(picture)
            else:
                loose.append(LabelledFile(path, own))
    if empty and not pictures and loose and not is_hidden(own):
        # As in images.folders: without folders of images, the folder is a class itself.
        pictures[""] = loose
    elif loose:
        logger.warning(
            "%d images directly in %s are left out, the first of them %s: an image is named after "
            "the folder it is in; move them into one",
            len(loose),
            folder,
            os.path.basename(loose[0].path),
        )
    for inner, files in pictures.items():
        empty = False
        base = address_in(system, f"{folder.rstrip('/')}/{inner}".rstrip("/"))
        for start in range(0, len(files), PICTURES_PER_SHARD):
            part = tuple(files[start : start + PICTURES_PER_SHARD])
            yield picture_shard(system, f"{base}#{start:08d}", part)
    if empty:
        raise InvalidInput(f"{folder} holds neither shards ({', '.join(KINDS)}) nor images")


def _from_arrays(X: Any, y: Any) -> Iterator[Shard]:
    rows, labels = np.asarray(X), np.asarray(y)
    if rows.ndim != 2 or labels.ndim != 1 or len(rows) != len(labels):
        raise WrongShape(
            f"X has shape {rows.shape} and y {labels.shape}; a pair of arrays needs one label per "
            "row"
        )
    digest = hashlib.sha256(f"{rows.dtype.str} {rows.shape} {labels.dtype.str}".encode())
    digest.update(np.ascontiguousarray(rows).data)
    digest.update(
        np.ascontiguousarray(labels).tobytes() if labels.dtype != object else _label_bytes(y)
    )
    whole = digest.hexdigest()
    for start in range(0, len(rows), ROWS_PER_SHARD):
        part = slice(start, start + ROWS_PER_SHARD)
        block = rows[part], labels[part]
        yield Shard(f"array:{whole}#{start:012d}", block[0].nbytes, whole, Kind.ROWS, rows=block)


def _label_bytes(y: Any) -> bytes:
    return "\n".join(map(repr, y)).encode()
