"""Saves and loads learners: one file, without code.

A model file is a safetensors file. Its tensors are the learner's arrays; its metadata are

    format       "everlearn"
    version      the format's version, an integer; files of older versions can be loaded
    learner      the name of the class
    description  JSON: parameters and notes (labels among them); an array inside is written as
                 {"array": KEY}, a learner inside another as {"learner": …}
    digest       sha256 over all of the above and every tensor's name, dtype, shape and bytes

Nothing in it is ever executed: the class is looked up among everlearn's own, and everything else is
numbers and strings. Writing is atomic: a temporary file in the same folder, flushed to disk,
renamed over the old one, and the folder flushed, so that a crash leaves the old file or the new.
"""

import contextlib
import errno
import hashlib
import json
import math
import mmap as mapping
import os
import secrets
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from everlearn.arrays import OwnedArray
from everlearn.deprecation import DEPRECATED, under_todays_names
from everlearn.errors import (
    CannotRead,
    CannotSave,
    CannotWrite,
    DamagedModel,
    EverlearnError,
    InvalidParameter,
    NewerFormat,
    NotAModel,
)
from everlearn.public_names import public_modules

Learner = TypeVar("Learner")

FORMAT_VERSION = 1
# Of everlearn's own, what does the same as something of scikit-learn's.
STAND_INS = {
    "StandardScaler": "everlearn.StreamingScaler",
    "IncrementalPCA": "everlearn.StreamingPCA",
}
# Smaller arrays are copied out of a mapped file.
LARGE_ARRAY = 1 << 20
_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BOOL": "?",
    "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1",
}  # fmt: skip

_NESTED = {list, dict}

Kind = TypeVar("Kind")
Arrays = dict[str, NDArray[Any]]


def save(learner: Any, path: str | os.PathLike[str]) -> None:
    """Write a learner to one file, atomically.

    Parameters
    ----------
    learner : an everlearn learner, taught or not
    path : path-like

    Raises
    ------
    CannotSave
        If a parameter is not plain data, such as a function.
    CannotWrite
        If the file cannot be written; the previous file is untouched.

    Notes
    -----
    *Cost*: writing the state once, and its digest.

    *Promises*: after a crash there is either the old file or the new one, never a part.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from everlearn import NearestClassMean, load, save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(NearestClassMean().learn_one([0.0], "cup"), Path(folder) / "model")
    ...     load(Path(folder) / "model").classes_.tolist()
    ['cup']
    """
    replace_file(Path(path), dumps(learner))


@overload
def load(path: str | os.PathLike[str], *, mmap: bool = False) -> Any: ...


@overload
def load(path: str | os.PathLike[str], kind: type[Learner], *, mmap: bool = False) -> Learner: ...


def load(path: str | os.PathLike[str], kind: type[Any] = object, *, mmap: bool = False) -> Any:
    """Read a learner that :func:`save` wrote.

    Parameters
    ----------
    path : path-like
    kind : class, optional
        What the file should hold, ``load(path, StreamingLDA)``; another kind is refused. A type
        checker then knows what comes back.
    mmap : bool, default=False
        Map the file into memory instead of reading it, and skip its digest. Large arrays stay in
        the file until they change; changes stay in memory. The file must not be written to in the
        meantime; :func:`save` replaces it, which is safe.

    Raises
    ------
    CannotRead, NotAModel, DamagedModel, NewerFormat
        Each says what is wrong with the file.

    Notes
    -----
    *Cost*: reading the file once, and its digest. Mapped, one pass over the numbers: 0.1 s for
    100,000 classes of 512 features.

    *Promises*: runs no code; files of every released version can be loaded; truncation and any
    flipped bit are detected before anything is built. Mapped, truncation, wrong shapes and numbers
    that are not finite or out of range are detected, but not a flipped bit that leaves a number
    plausible: load an untrusted file once without ``mmap``.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from everlearn import NearestClassMean, load, save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(NearestClassMean().learn_one([0.0], "cup"), Path(folder) / "model")
    ...     load(Path(folder) / "model").predict_one([1.0])
    'cup'
    """
    if not isinstance(kind, type):
        raise InvalidParameter(f"load takes a class, such as StreamingLDA, not {kind!r}")
    if mmap:
        found = loads(memoryview(_mapped(path)), path, is_intact=True)
    else:
        found = loads(_read(path), path)
    if not isinstance(found, kind):
        raise NotAModel(f"{path} holds a {type(found).__name__}, not a {kind.__name__}")
    return found


def dumps(learner: Any) -> bytes:
    """The content of :func:`save`'s file as bytes."""
    arrays: Arrays = {}
    description = _describe(learner, arrays, "")
    return _packed(type(learner).__name__, description, arrays)


def loads(
    data: bytes | memoryview,
    path: str | os.PathLike[str] = "the model",
    *,
    is_intact: bool = False,
) -> Any:
    """A learner from the bytes of :func:`dumps`; errors refer to them as ``path``.

    ``is_intact`` skips the digest. Large arrays in writable memory are not copied.
    """
    _, description, arrays = _unpacked(data, path, is_intact=is_intact)
    try:
        return _rebuild(description, arrays)
    except Exception as error:
        # Any exception: a file may claim anything, including sizes that no memory holds.
        raise DamagedModel(
            f"{path} is intact but does not describe a learner of this version: {_cause(error)}"
        ) from None


def save_arrays(
    path: str | os.PathLike[str], kind: str, description: dict[str, Any], arrays: Arrays
) -> None:
    """Write arrays and a description to one file, in the format of :func:`save`, atomically.

    Parameters
    ----------
    path : path-like
    kind : str
        The kind of content, for the reader to compare.
    description : dict of plain values
    arrays : dict of ndarrays
    """
    replace_file(Path(path), _packed(kind, description, arrays))


def load_arrays(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any], Arrays]:
    """Inverse of :func:`save_arrays`: kind, description and arrays, with the digest checked."""
    return _unpacked(_read(path), path)


def _packed(kind: str, description: dict[str, Any], arrays: Arrays) -> bytes:
    arrays = {key: np.ascontiguousarray(value) for key, value in arrays.items()}
    metadata = {
        "format": "everlearn",
        "version": str(FORMAT_VERSION),
        "learner": kind,
        "description": json.dumps(description, sort_keys=True),
    }
    metadata["digest"] = _digest(metadata, arrays)
    return _with_sorted_header(safetensors.numpy.save(arrays, metadata))


def _unpacked(
    data: bytes | memoryview, path: str | os.PathLike[str], *, is_intact: bool = False
) -> tuple[str, dict[str, Any], Arrays]:
    metadata = _metadata(data, path)
    version = _version(metadata, path)
    if version > FORMAT_VERSION:
        raise NewerFormat(
            f"{path} has format version {version}, this everlearn reads up to {FORMAT_VERSION}; "
            "upgrade everlearn to load it"
        )
    try:
        arrays = safetensors.numpy.load(data) if isinstance(data, bytes) else _views(data)
        intact = is_intact or metadata["digest"] == _digest(metadata, arrays)
        description = json.loads(metadata["description"])
        kind = metadata["learner"]
    except Exception:
        intact = False
    if not intact:
        raise DamagedModel(f"{path} is damaged: its contents do not match its digest; use a backup")
    return kind, description, arrays


def _views(data: memoryview) -> Arrays:
    """The arrays of a safetensors file as views, or copies of small ones."""
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(bytes(data[8:start]))
    header.pop("__metadata__", None)
    arrays: Arrays = {}
    end = start
    for key, about in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        first, last = about["data_offsets"]
        dtype, shape = np.dtype(_DTYPES[about["dtype"]]), [int(n) for n in about["shape"]]
        if first + start != end or last - first != math.prod(shape) * dtype.itemsize:
            raise ValueError("tensors overlap, or do not have the size they claim")
        end = start + last
        array = np.frombuffer(data[start + first : end], dtype).reshape(shape)
        owned = array.flags.writeable and array.flags.aligned and array.nbytes >= LARGE_ARRAY
        arrays[key] = array.view(OwnedArray) if owned else array.copy()
    if end != len(data):
        raise ValueError("there is data behind the last tensor, or less than it claims")
    return arrays


def _mapped(path: str | os.PathLike[str]) -> mapping.mmap:
    """A private, writable mapping of a file: changes are not written to it."""
    try:
        with Path(path).open("rb") as file:
            return mapping.mmap(file.fileno(), 0, access=mapping.ACCESS_COPY)
    except ValueError:
        raise NotAModel(f"{path} is empty, so it was not written by everlearn.save") from None
    except OSError as error:
        raise CannotRead(f"{path} cannot be read: {error.strerror}") from None


def _read(path: str | os.PathLike[str]) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise CannotRead(f"{path} cannot be read: {error.strerror}") from None


def _cause(error: Exception) -> str:
    """The message of an error, or its name."""
    return str(error) if isinstance(error, EverlearnError) else repr(error)[:200]


def _describe(learner: Any, arrays: Arrays, prefix: str) -> dict[str, Any]:
    """A learner as plain values; its arrays go to ``arrays`` under ``prefix``."""
    name = type(learner).__name__
    known = name in _own_learners() or name in _REGISTERED
    if not known or _class_named(name) is not type(learner):
        raise CannotSave(
            f"{name} is not one of everlearn's learners, so its file could not be loaded "
            "without running code; call everlearn.register on your own class first"
        )
    own, notes = learner._state()
    for key, value in own.items():
        arrays[f"{prefix}{key}"] = value
    return {
        "learner": name,
        "parameters": {
            key: _plain(value, arrays, f"{prefix}parameter.{key}.")
            for key, value in learner.get_params(deep=False).items()
            if not (isinstance(value, str) and value == DEPRECATED)
        },
        "notes": {key: _plain(value, arrays, f"{prefix}{key}.") for key, value in notes.items()},
        "arrays": {key: f"{prefix}{key}" for key in own},
    }


def _rebuild(description: dict[str, Any], arrays: Arrays) -> Any:
    cls = _class_named(description["learner"])
    given = {key: _revived(value, arrays) for key, value in description["parameters"].items()}
    learner = cls(**under_todays_names(cls, given))
    own = {key: arrays[stored] for key, stored in description["arrays"].items()}
    notes = {key: _revived(value, arrays) for key, value in description["notes"].items()}
    learner._restore(own, notes)
    return learner


def register(kind: type[Kind]) -> type[Kind]:
    """Make a learner class of your own loadable from files; use it as a decorator.

    A file contains class names and never code or an import path, so only classes that a program has
    registered itself, and everlearn's own learners, can be built from one. It costs one entry in a
    dictionary.

    Parameters
    ----------
    kind : class
        A learner that extends one of everlearn's and whose constructor arguments are plain values.

    Raises
    ------
    InvalidParameter
        If it is not such a class, or its name is already taken.

    Notes
    -----
    *Promises*: a file of a registered learner answers as the learner did; whoever has not
    registered the class cannot load it.

    Examples
    --------
    >>> import everlearn
    >>> @everlearn.register
    ... class ShapeLDA(everlearn.StreamingLDA):
    ...     pass
    >>> from everlearn.persistence import dumps, loads
    >>> loads(dumps(ShapeLDA().learn_one([1.0, 0.0], "cup"))).predict_one([1.0, 0.0])
    'cup'
    """
    if not (isinstance(kind, type) and hasattr(kind, "_state")):
        raise InvalidParameter(f"register needs a class that extends a learner, not {kind!r:.80}")
    name = kind.__name__
    taken = _REGISTERED.get(name)
    known = (taken.__module__, taken.__qualname__) if taken is not None else None
    if name in _own_learners() or known not in (None, (kind.__module__, kind.__qualname__)):
        raise InvalidParameter(
            f"there already is a {name}, and files identify learners by class name; rename one"
        )
    _REGISTERED[name] = kind
    return kind


_REGISTERED: dict[str, type[Any]] = {}


@cache
def _own_learners() -> dict[str, str]:
    """The module of each public name."""
    return public_modules()


def _class_named(name: str) -> type[Any]:
    """One of everlearn's own learners, or a registered one; nothing else is built from a file."""
    module = _own_learners().get(name)
    cls = _REGISTERED.get(name) if module is None else getattr(import_module(module), name)
    if not isinstance(cls, type) or not hasattr(cls, "_state"):
        raise ValueError(
            f"{name} is no learner of everlearn; call everlearn.register on your own class first"
        )
    return cls


def _plain(value: Any, arrays: Arrays, key: str) -> Any:
    """A value in JSON; types that JSON cannot distinguish are tagged."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind in "iubf":
        arrays[key] = value
        return {"array": key}
    if isinstance(value, (list, tuple)):
        items = [_plain(item, arrays, f"{key}{index}.") for index, item in enumerate(value)]
        return items if isinstance(value, list) else {"tuple": items}
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return {"mapping": {k: _plain(v, arrays, f"{key}{k}.") for k, v in value.items()}}
    if isinstance(value, dict) and all(isinstance(name, (int, np.integer)) for name in value):
        pairs = [(int(name), _plain(value[name], arrays, f"{key}{name}.")) for name in value]
        return {"numbered": [list(pair) for pair in pairs]}
    if hasattr(value, "_state"):
        return {"nested": _describe(value, arrays, key)}
    kind = type(value).__name__
    instead = f"; {STAND_INS[kind]} does the same and can be saved" if kind in STAND_INS else ""
    raise CannotSave(
        f"{key.rstrip('.')} is a {kind}, which is not plain data; save learners whose parameters "
        f"are numbers, strings, arrays or everlearn's own learners{instead}"
    )


def _revived(value: Any, arrays: Arrays) -> Any:
    if isinstance(value, list):
        if _NESTED.isdisjoint(map(type, value)):
            return value  # such as the labels of many classes
        return [_revived(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    (tag, content), *others = value.items()
    if others:
        raise ValueError("unknown tag")
    if tag == "array":
        return arrays[content]
    if tag == "tuple":
        return tuple(_revived(item, arrays) for item in content)
    if tag == "mapping":
        return {name: _revived(item, arrays) for name, item in content.items()}
    if tag == "numbered":
        return {int(name): _revived(item, arrays) for name, item in content}
    if tag == "nested":
        return _rebuild(content, arrays)
    raise ValueError(f"unknown tag {tag!r}")


def _digest(metadata: dict[str, str], arrays: Arrays) -> str:
    digest = hashlib.sha256()
    for key in sorted(metadata.keys() - {"digest"}):
        digest.update(f"{key} {metadata[key]}\n".encode())
    for key in sorted(arrays):
        array = arrays[key]
        digest.update(f"\n{key} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).data)
    return f"sha256:{digest.hexdigest()}"


def _with_sorted_header(data: bytes) -> bytes:
    """The same file with a sorted header, whose order safetensors does not fix.

    So equal learners have equal files, byte for byte.
    """
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.dumps(json.loads(data[8:start]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return b"".join([len(header).to_bytes(8, "little"), header, memoryview(data)[start:]])


def _metadata(data: bytes | memoryview, path: Any) -> dict[str, str]:
    """The metadata in a safetensors header: eight bytes of length, then JSON."""
    length = int.from_bytes(data[:8], "little")
    header = bytes(data[8 : 8 + length])
    try:
        metadata = json.loads(header)["__metadata__"]
        if metadata["format"] == "everlearn":
            return dict(metadata)
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    if b'"everlearn"' in bytes(data[:4096]):
        raise DamagedModel(f"{path} is damaged: its header cannot be read; use a backup")
    raise NotAModel(f"{path} was not written by everlearn.save")


def _version(metadata: dict[str, str], path: Any) -> int:
    version = metadata.get("version", "")
    if not (isinstance(version, str) and version.isascii() and version.isdigit()):
        raise DamagedModel(f"{path} is damaged: it has no format version; use a backup")
    return int(version[:9])


def digest_of(learner: Any) -> str:
    """The digest of a learner's file: learners with the same digest are equal in every bit."""
    return _metadata(dumps(learner), "the model")["digest"]


def replace_file(path: Path, data: bytes) -> None:
    """Write a file in one step: a crash leaves the old one or the new."""
    try:
        with _temporary_beside(path) as (handle, name):
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
            os.replace(name, path)
        flush_folder(path.parent)
    except (OSError, ValueError) as error:
        raise _cannot_write(path, error) from error


def require_writable(path: Path) -> None:
    """Raise ``CannotWrite`` if :func:`replace_file` could not create a file in this place."""
    try:
        with _temporary_beside(path) as (_, name):
            name.unlink()
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    except (OSError, ValueError) as error:
        raise _cannot_write(path, error) from error


def _cannot_write(path: Path, error: OSError | ValueError) -> CannotWrite:
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return CannotWrite(
        f"{path} cannot be written: {reason}; check the folder, its permissions and the space left"
    )


@contextlib.contextmanager
def _temporary_beside(path: Path) -> Iterator[Any]:
    # Created with the permissions any new file would get, which tempfile would narrow.
    name = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            yield handle, name
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


def flush_folder(folder: Path) -> None:
    """Flush a folder, so that files renamed in it survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
