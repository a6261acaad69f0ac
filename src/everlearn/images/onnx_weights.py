"""Loads weights that an ONNX file keeps in separate files.

Exporters of large networks write ``model.onnx`` and the weights beside it, ``model.onnx.data``: a
tensor then holds file name, offset and length of its numbers. onnxruntime, given the bytes of a
model, looks for that file in the working directory. This file looks for it only beside the model
and puts the numbers into the tensors, so that a model has one digest, is complete when it is
exported again, and never gets the weights of another file of that name.

Only the messages that contain tensors are parsed (the fields of ModelProto, GraphProto, NodeProto,
AttributeProto and TensorProto in onnx.proto); everything else is kept, byte by byte.
"""

from collections.abc import Iterator
from pathlib import Path

from everlearn.errors import CannotRead, NotAModel
from everlearn.images.protobuf import (
    BYTES,
    FIXED32,
    FIXED64,
    VARINT,
    NotProtobuf,
    message,
    read_varint,
)

# Size limit of a protobuf file, and of onnxruntime's input.
MOST_BYTES = (1 << 31) - 1
DEEPEST = 32

# Which fields of which message contain which message.
CHILDREN = {
    "model": {7: "graph", 25: "function"},
    "function": {7: "node"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
RAW_DATA, EXTERNAL_DATA, DATA_LOCATION, EXTERNAL = 9, 13, 14, 1


def with_weights(model: bytes, path: Path) -> bytes:
    """A model with all its weights; the same bytes if it already has them.

    Parameters
    ----------
    model : bytes
        The contents of ``path``.
    path : Path
        Weights are searched in its folder.
    """
    try:
        reader = _Weights(path.resolve().parent, path)
        return reader.message("model", model, 0)
    except (NotProtobuf, IndexError, UnicodeDecodeError):
        # Not a model, or a damaged one: onnxruntime reports it.
        return model


class _Weights:
    """Fills in the tensors of one model; each file of weights is read once."""

    def __init__(self, folder: Path, model: Path) -> None:
        self._folder = folder
        self._model = model
        self._files: dict[str, bytes] = {}
        self._added = 0

    def message(self, kind: str, body: bytes, depth: int) -> bytes:
        """A message with complete tensors; the same object if nothing changes."""
        if depth > DEEPEST:
            raise NotAModel(f"{self._model} nests graphs more than {DEEPEST} deep")
        if kind == "tensor":
            return self._tensor(body)
        children, parts, changed = CHILDREN[kind], [], False
        for field, wire, start, end, content in _fields(body):
            inside = children.get(field) if wire == BYTES else None
            whole = body[content:end]
            made = whole if inside is None else self.message(inside, whole, depth + 1)
            if made is whole:
                parts.append(body[start:end])
            else:
                changed = True
                parts.append(message(field, made))
        return b"".join(parts) if changed else body

    def _tensor(self, body: bytes) -> bytes:
        external, entries, kept = False, dict[str, str](), []
        for field, wire, start, end, content in _fields(body):
            if field == DATA_LOCATION and wire == VARINT:
                external = read_varint(body, content)[0] == EXTERNAL
            elif field == EXTERNAL_DATA and wire == BYTES:
                key, value = _entry(body[content:end])
                entries[key] = value
            else:
                kept.append(body[start:end])
        if not external:
            return body
        data = self._data(entries)
        return b"".join(kept) + message(RAW_DATA, data)

    def _data(self, entries: dict[str, str]) -> bytes:
        name = entries.get("location", "")
        whole = self._file(name)
        try:
            offset = int(entries.get("offset", "0"))
            length = int(entries.get("length", str(len(whole) - offset)))
        except ValueError:
            raise NotAModel(
                f"{self._model} gives an invalid offset or length of weights in {name!r}"
            ) from None
        if offset < 0 or length < 0 or offset + length > len(whole):
            raise NotAModel(
                f"{self._model} refers to weights at {offset} to {offset + length} of {name!r}, "
                f"which has {len(whole)} bytes; it is truncated, or belongs to another model"
            )
        self._added += length
        if self._added > MOST_BYTES:
            raise NotAModel(f"{self._model} has more than {MOST_BYTES:,} bytes of weights")
        return whole[offset : offset + length]

    def _file(self, name: str) -> bytes:
        if name in self._files:
            return self._files[name]
        path = self._folder / name
        inside = bool(name) and "\0" not in name and path.resolve().parent == self._folder
        if not inside or path.is_symlink():
            raise NotAModel(
                f"{self._model} keeps weights in {name!r}, which is not a file beside it; only "
                "files in the same folder are read"
            )
        try:
            if path.stat().st_size > MOST_BYTES:
                raise NotAModel(f"{path} has more than {MOST_BYTES:,} bytes")
            data = path.read_bytes()
        except OSError as error:
            raise CannotRead(
                f"{path}, which has the weights of {self._model.name}, cannot be read: "
                f"{error.strerror}; keep the two in one folder"
            ) from None
        self._files[name] = data
        return data


def _entry(body: bytes) -> tuple[str, str]:
    """Key and value of a StringStringEntryProto."""
    words = {1: "", 2: ""}
    for field, wire, _, end, content in _fields(body):
        if wire == BYTES and field in words:
            words[field] = body[content:end].decode()
    return words[1], words[2]


def _fields(body: bytes) -> Iterator[tuple[int, int, int, int, int]]:
    """Number and wire type of each field, where it starts and ends, and its content starts."""
    at = 0
    while at < len(body):
        start = at
        tag, at = read_varint(body, at)
        wire, content = tag & 7, at
        if wire == VARINT:
            _, at = read_varint(body, at)
        elif wire == BYTES:
            length, content = read_varint(body, at)
            at = content + length
        elif wire in (FIXED64, FIXED32):
            at += 8 if wire == FIXED64 else 4
        else:
            raise NotProtobuf
        if at > len(body):
            raise NotProtobuf
        yield tag >> 3, wire, start, at, content
