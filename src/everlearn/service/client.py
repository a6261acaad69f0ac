"""The HTTP client: the methods of a Memory, from another process.

    with Memory("memory") as memory:                                 in this process
    with Client("http://127.0.0.1:8737", token=…) as memory:         in another one

Errors are the same exceptions. Every change is sent with an idempotency key, so that one whose
answer was lost can be sent again without being made twice. Standard library only.
"""

import http.client
import json
import os
import ssl
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import urlencode, urlsplit

import numpy as np

from everlearn import errors
from everlearn.deprecation import renamed_attribute
from everlearn.errors import (
    CannotReach,
    EverlearnError,
    InvalidParameter,
    NotAllowed,
    NothingToUndo,
    ServiceFailed,
)
from everlearn.images.decode import DEFAULT_LIMITS, read_bytes
from everlearn.memory.answers import Answer, Answers, Steady
from everlearn.memory.edits.correcting import Correction
from everlearn.memory.edits.forgetting import Forgotten
from everlearn.memory.edits.merging import Merged, Synced, are_equal
from everlearn.memory.edits.operations import Change
from everlearn.memory.edits.unknowns import Group
from everlearn.memory.finding import Thing
from everlearn.memory.insight.evaluate import Evaluation
from everlearn.memory.insight.report import Report
from everlearn.memory.insight.verify import Verification
from everlearn.memory.insight.why import Why
from everlearn.memory.memory import Memory
from everlearn.memory.storage.receipts import Receipt
from everlearn.memory.storage.rows import NameRecord, Teaching
from everlearn.memory.storage.sqlite.database import FILE
from everlearn.memory.storage.tombstones import Pair
from everlearn.persistence import replace_file
from everlearn.regions.boxes import Box
from everlearn.regions.proposals import MOST
from everlearn.service.client_io import (
    FrameSocket,
    add_evaluated,
    box_field,
    in_requests,
    read_merged,
    read_report,
    read_teaching,
    read_thing,
    read_why,
    sum_of,
)
from everlearn.service.http_address import is_http

# A request is sent again if its connection broke: the service closes idle connections.
TRIES = 2
PAGE_ROWS = 1_000
# A Memory is sent in parts of about this size.
PART_BYTES = 8 * 1024 * 1024
# The most answers to one question that the service gives.
MOST_ANSWERS = 10_000

# Old names of methods, before 0.2, as of everlearn.Memory.
RENAMED = {
    "strangers": "unknowns",
    "stranger_thumbnail": "unknown_thumbnail",
    "name_strangers": "name_unknowns",
    "ignore_strangers": "ignore_unknowns",
    "drop_strangers": "drop_unknowns",
}


class Client:
    """A Memory served by ``everlearn serve``.

    Parameters
    ----------
    address : str
        Such as ``http://127.0.0.1:8737``.
    token : str, optional
        Defaults to the environment variable ``EVERLEARN_TOKEN``.
    memory : str, optional
        Which Memory, if several are served; defaults to the first.
    timeout : float, default=60
        Seconds to wait for an answer.
    frames : "png" or "jpeg", default="png"
        How pictures given as pixels are sent. PNG keeps every pixel, so that the answer equals that
        of a ``Memory``. JPEG (quality 90), for camera frames, is encoded twenty times as fast: 0.8
        instead of 17 ms for 640 × 427 pixels. Files are sent unchanged.

    Notes
    -----
    Not thread-safe; create one per thread. Image files are read here and sent; the service opens no
    path.

    *Cost*: one HTTP request, and the work of the ``Memory`` behind it.

    *Promises*: the methods, answers and exceptions of a ``Memory``; a change is on disk when its
    method returns.

    Examples
    --------
    >>> from everlearn import Client
    >>> with Client("http://127.0.0.1:8737", token="…") as memory:  # doctest: +SKIP
    ...     memory.teach("cup.jpg", "cup")
    """

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        memory: str | None = None,
        timeout: float = 60.0,
        frames: Literal["png", "jpeg"] = "png",
    ) -> None:
        self._timeout = timeout
        if not is_http(address):
            raise InvalidParameter(f"an address looks like http://127.0.0.1:8737, not {address!r}")
        parts = urlsplit(address)
        assert parts.hostname
        token = token or os.environ.get("EVERLEARN_TOKEN")
        if not token:
            raise InvalidParameter("give token=, or set EVERLEARN_TOKEN to the token serve printed")
        if frames not in ("png", "jpeg"):
            raise InvalidParameter(f"frames must be 'png' or 'jpeg', not {frames!r}")
        self._frames = frames
        self.address = f"{parts.scheme}://{parts.netloc}"
        self._token = token
        self._memory = memory
        self._connection: http.client.HTTPConnection
        if parts.scheme == "https":
            context = ssl.create_default_context()
            self._connection = http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=timeout, context=context
            )
        else:
            self._connection = http.client.HTTPConnection(
                parts.hostname, parts.port, timeout=timeout
            )

    def __getattr__(self, name: str) -> Any:
        return renamed_attribute(self, name, RENAMED)

    def __repr__(self) -> str:
        which = "" if self._memory is None else f", {self._memory}"
        return f"<{type(self).__name__} of {self.address}{which}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the service keeps running."""
        self._connection.close()

    def teach(
        self,
        example: Any,
        name: str,
        *,
        box: Any = None,
        source: str | None = None,
        again: bool = False,
        also: bool = False,
        group: str | None = None,
    ) -> bool:
        """As :meth:`everlearn.Memory.teach`."""
        said = {"name": name, "again": again, "also": also} | box_field(box)
        said |= _source_field(example, source)
        said |= {"group": group} if group else {}
        return bool(self._change("teach", said | self._fields_of(example))["new"])

    def correct(
        self,
        example: Any,
        name: str,
        *,
        box: Any = None,
        source: str | None = None,
        also: bool = False,
    ) -> Correction:
        """As :meth:`everlearn.Memory.correct`."""
        said = {"name": name, "also": also} | box_field(box) | _source_field(example, source)
        done = self._change("correct", said | self._fields_of(example))
        return Correction(done["name"], tuple(done["moved_from"]), done["taught"])

    def ask(
        self,
        example: Any,
        *,
        box: Any = None,
        where: bool = False,
        top: int | None = 5,
        remember: bool = False,
    ) -> Answers:
        """As :meth:`everlearn.Memory.ask`."""
        said = {"top": MOST_ANSWERS if top is None else top, "remember": remember, "where": where}
        fields = said | box_field(box) | self._fields_of(example)
        return _read_answers(self._json("POST", "ask", fields))

    def find(
        self,
        image: Any,
        *,
        top: int | None = 5,
        most: int = MOST,
        everything: bool = False,
        remember: bool = False,
    ) -> list[Thing]:
        """As :meth:`everlearn.Memory.find`; vectors are not sent."""
        said = {
            "top": MOST_ANSWERS if top is None else top,
            "most": most,
            "everything": everything,
            "remember": remember,
        }
        things = self._json("POST", "find", said | self._fields_of(image))["things"]
        return [read_thing(row) for row in things]

    def ask_many(
        self, examples: Iterable[Any], *, top: int | None = 5, remember: bool = False
    ) -> Iterator[Answers | Exception]:
        """As :meth:`everlearn.Memory.ask_many`, one after the other."""
        for example in examples:
            try:
                yield self.ask(example, top=top, remember=remember)
            except (CannotReach, NotAllowed):
                raise
            except EverlearnError as error:
                yield error

    def ask_stream(self, frames: Iterable[Any]) -> Iterator[Answers]:
        """As :meth:`everlearn.Memory.ask_stream`, over one WebSocket.

        Needs the package websockets. A frame that cannot be read raises its error and ends the
        stream; so does ``CannotReach`` if the service is gone.
        """
        with FrameSocket(self.address, self._token, self._memory, self._timeout) as socket:
            for frame in frames:
                sent = self._fields_of(frame)
                said = socket.answer(sent["image"] if "image" in sent else json.dumps(sent))
                if "error" in said:
                    raise _error_from(
                        said["error"]["kind"], said["error"]["message"], ServiceFailed
                    )
                try:
                    answers = _read_answers(said)
                except (TypeError, KeyError, ValueError):
                    raise ServiceFailed(
                        f"{self.address} did not answer a frame as everlearn does"
                    ) from None
                yield answers

    def why(self, example: Any, name: str | None = None, *, box: Any = None, top: int = 5) -> Why:
        """As :meth:`everlearn.Memory.why`."""
        said = {"top": top} | ({} if name is None else {"name": name}) | box_field(box)
        return read_why(self._json("POST", "why", said | self._fields_of(example)))

    def report(self) -> Report:
        """As :meth:`everlearn.Memory.report`."""
        said = self._json("GET", "check")
        return read_report(said, {number: self.thumbnail(number) for number in said["pictured"]})

    def evaluate(self, files: Iterable[tuple[Any, str]]) -> Evaluation:
        """Accuracy on these files, as by ``everlearn evaluate``."""
        found = Evaluation()
        for part in in_requests(files):
            add_evaluated(found, self._json("POST", "evaluate", {"examples": part}))
        return found

    def unknowns(self) -> list[Group]:
        """As :meth:`everlearn.Memory.unknowns`."""
        rows = self._json("GET", "strangers")
        lists = ("examples", "sources")
        return [Group(**(row | {key: tuple(row.get(key, ())) for key in lists})) for row in rows]

    def unknown_thumbnail(self, id: int) -> bytes | None:
        """As :meth:`everlearn.Memory.unknown_thumbnail`."""
        return self._picture(f"strangers/{int(id)}/thumbnail")

    def name_unknowns(self, group: int, name: str) -> int:
        """As :meth:`everlearn.Memory.name_unknowns`."""
        return int(self._change("strangers/name", {"group": group, "name": name})["count"])

    def ignore_unknowns(self, group: int) -> int:
        """As :meth:`everlearn.Memory.ignore_unknowns`."""
        return int(self._change("strangers/ignore", {"group": group})["count"])

    def drop_unknowns(self, group: int) -> int:
        """As :meth:`everlearn.Memory.drop_unknowns`."""
        return int(self._change("strangers/drop", {"group": group})["count"])

    def forget(
        self,
        what: Any = None,
        *,
        id: int | None = None,
        name: str | None = None,
        source: str | None = None,
        erase: bool = False,
    ) -> Forgotten:
        """As :meth:`everlearn.Memory.forget`; give a word as ``name=`` or ``source=``."""
        return _read_forgotten(
            self._change("forget", _selection(what, id, name, source, erase, self._frames))
        )

    def would_forget(
        self,
        what: Any = None,
        *,
        id: int | None = None,
        name: str | None = None,
        source: str | None = None,
        erase: bool = False,
    ) -> Forgotten:
        """As :meth:`everlearn.Memory.would_forget`."""
        choice = _selection(what, id, name, source, erase, self._frames)
        return _read_forgotten(self._json("POST", "would-forget", choice))

    def rename(self, old: str, new: str) -> str:
        """As :meth:`everlearn.Memory.rename`."""
        return str(self._change("rename", {"old": old, "new": new})["name"])

    def similar_name(self, name: str) -> str | None:
        """As :meth:`everlearn.Memory.similar_name`."""
        similar: str | None = self._json("GET", "similar-name", name=name)["similar"]
        return similar

    def undo(self, id: int | None = None) -> Change:
        """As :meth:`everlearn.Memory.undo`."""
        return _read_change(self._change("undo", {}, id=id))

    def redo(self, id: int | None = None) -> Change:
        """As :meth:`everlearn.Memory.redo`."""
        return _read_change(self._change("redo", {}, id=id))

    def would_undo(self) -> Change:
        """As :meth:`everlearn.Memory.would_undo`."""
        return self._undoable("undo")

    def would_redo(self) -> Change:
        """As :meth:`everlearn.Memory.would_redo`."""
        return self._undoable("redo")

    def history(self, limit: int | None = None) -> list[Change]:
        """As :meth:`everlearn.Memory.history`; at most 1,000."""
        if limit == 0:
            return []
        return [_read_change(row) for row in self._json("GET", "history", limit=limit or PAGE_ROWS)]

    def merge(
        self,
        other: Memory | str | os.PathLike[str],
        *,
        conflicts: Literal["list", "there"] = "list",
    ) -> Merged:
        """As :meth:`everlearn.Memory.merge`; the other is here and sent in parts."""
        if not isinstance(other, Memory):
            with Memory(other, read_only=True) as opened:
                return self.merge(opened, conflicts=conflicts)
        group = uuid.uuid4().hex
        done: list[Merged] = []
        with tempfile.TemporaryDirectory(prefix="everlearn-") as place:
            for path in other.parts(place, PART_BYTES):
                said = self._sent_part(path.read_bytes(), conflicts=conflicts, group=group)
                done.append(read_merged(said))
                path.unlink()
        return sum_of(done)

    def sync(
        self,
        other: Memory | str | os.PathLike[str],
        *,
        conflicts: Literal["list", "here", "there"] = "list",
    ) -> Synced:
        """As :meth:`everlearn.Memory.sync`; *here* is the service, *there* the other."""
        if conflicts not in ("list", "here", "there"):
            raise InvalidParameter(f"conflicts is 'list', 'here' or 'there', not {conflicts!r}")
        if not isinstance(other, Memory):
            with Memory(other) as opened:
                return self.sync(opened, conflicts=conflicts)
        here = self.merge(other, conflicts="there" if conflicts == "there" else "list")
        there, _ = self._merged_into(other, "there" if conflicts == "here" else "list")
        if conflicts != "list":
            self.merge(other)
        _, counting = self._merged_into(other, "list")
        return Synced(here, there, are_equal(counting, other.counting()))

    def _merged_into(
        self, other: Memory, conflicts: Literal["list", "there"]
    ) -> tuple[Merged, set[Pair]]:
        """Merge the served Memory into another; also returns what counts in the service."""
        with tempfile.TemporaryDirectory(prefix="everlearn-") as place:
            Path(place, FILE).write_bytes(_checked_body(*self._send("GET", "journal", b"", {})))
            with Memory(place, read_only=True) as fetched:
                return other.merge(fetched, conflicts=conflicts), fetched.counting()

    def _sent_part(self, part: bytes, **query: Any) -> Any:
        headers = {"idempotency-key": uuid.uuid4().hex, "content-type": "application/vnd.sqlite3"}
        return json.loads(_checked_body(*self._send("POST", "merge", part, headers, **query)))

    def names(
        self,
        containing: str | None = None,
        *,
        limit: int | None = None,
        offset: int = 0,
        latest_first: bool = False,
    ) -> Mapping[str, NameRecord]:
        """As :meth:`everlearn.Memory.names`."""
        if limit == 0:
            return {}
        rows = self._json(
            "GET",
            "names",
            containing=containing,
            limit=limit,
            offset=offset or None,
            latest_first="true" if latest_first else None,
        )
        return {row["name"]: NameRecord(row["count"], row["last_taught"]) for row in rows}

    def teachings(
        self, name: str | None = None, *, limit: int | None = None, offset: int = 0
    ) -> list[Teaching]:
        """As :meth:`everlearn.Memory.teachings`."""
        found: list[Teaching] = []
        while limit is None or len(found) < limit:
            most = PAGE_ROWS if limit is None else min(PAGE_ROWS, limit - len(found))
            start = offset + len(found)
            rows = self._json("GET", "teachings", name=name, limit=most, offset=start)
            found += [read_teaching(row) for row in rows]
            if len(rows) < most:
                break
        return found

    def thumbnail(self, id: int) -> bytes | None:
        """As :meth:`everlearn.Memory.thumbnail`."""
        return self._picture(f"thumbnails/{int(id)}")

    def info(self) -> dict[str, Any]:
        """As :meth:`everlearn.Memory.info`; the path is on the service's machine."""
        found: dict[str, Any] = self._json("GET", "info")
        return found

    def verify(self) -> Verification:
        """As :meth:`everlearn.Memory.verify`."""
        found = self._json("POST", "verify", {})
        return Verification(**(found | {"problems": tuple(found["problems"])}))

    def export(self, path: str | os.PathLike[str]) -> None:
        """As :meth:`everlearn.Memory.export`; the file is written here."""
        replace_file(Path(path), _checked_body(*self._send("GET", "export", b"", {})))

    # Helpers.

    def _fields_of(self, example: Any) -> dict[str, Any]:
        return _example_fields(example, self._frames)

    def _undoable(self, which: str) -> Change:
        found = self._json("GET", "undoable")[which]
        if found is None:
            raise NothingToUndo(f"there is nothing to {which}")
        return _read_change(found)

    def _picture(self, address: str) -> bytes | None:
        status, data = self._send("GET", address, b"", {})
        return None if status == 404 else _checked_body(status, data)

    def _change(self, address: str, said: dict[str, Any], **query: Any) -> Any:
        return self._json("POST", address, said, key=uuid.uuid4().hex, **query)

    def _json(
        self, method: str, address: str, said: Any = None, key: str | None = None, **query: Any
    ) -> Any:
        headers = {"idempotency-key": key} if key else {}
        body, kind = _encode_body(said)
        headers |= {"content-type": kind} if kind else {}
        return json.loads(_checked_body(*self._send(method, address, body, headers, **query)))

    def _send(
        self, method: str, address: str, body: bytes, headers: dict[str, str], **query: Any
    ) -> tuple[int, bytes]:
        given = {name: value for name, value in query.items() if value is not None}
        given |= {"memory": self._memory} if self._memory else {}
        target = f"/v1/{address}" + (f"?{urlencode(given)}" if given else "")
        headers = headers | {"authorization": f"Bearer {self._token}"}
        # Any request may be sent twice: a question changes nothing, and a change has its key.
        for left in reversed(range(TRIES)):
            try:
                self._connection.request(method, target, body, headers)
                answer = self._connection.getresponse()
                return answer.status, answer.read()
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                if not left:
                    raise CannotReach(
                        f"{self.address} does not answer ({error}); is everlearn serve running?"
                    ) from None
        raise AssertionError("unreachable")


def _source_field(example: Any, source: str | None) -> dict[str, str]:
    """Where an example came from: as given, or the path of its file."""
    if source is None and isinstance(example, (str, os.PathLike)):
        source = os.path.abspath(example)
    return {"source": source} if source else {}


def _example_fields(example: Any, kind: str = "png") -> dict[str, Any]:
    if isinstance(example, (str, bytes, os.PathLike)):
        return {"image": read_bytes(example, DEFAULT_LIMITS)}
    if getattr(example, "ndim", None) == 3 or hasattr(example, "getexif"):
        return {"image": _encode_picture(example, kind)}
    return {"vector": np.asarray(example, dtype=np.float64).tolist()}


def _encode_picture(picture: Any, kind: str) -> bytes:
    """Encode pixels as a file; PNG is lossless."""
    import io

    from everlearn.images.embedders import as_picture

    image = picture if hasattr(picture, "getexif") else as_picture(np.asarray(picture))
    stream = io.BytesIO()
    options = {"compress_level": 1} if kind == "png" else {"quality": 90}
    image.convert("RGB").save(stream, kind.upper(), **options)
    return stream.getvalue()


def _encode_body(said: Any) -> tuple[bytes, str]:
    """JSON, or a form if there is an image, whose bytes are then sent unchanged."""
    if said is None:
        return b"", ""
    if "image" not in said:
        return json.dumps(said).encode(), "application/json"
    boundary = uuid.uuid4().hex
    parts = []
    for name, value in said.items():
        if value is None:
            continue
        file = '; filename="image"' if name == "image" else ""
        head = f'--{boundary}\r\ncontent-disposition: form-data; name="{name}"{file}\r\n\r\n'
        text = value if isinstance(value, bytes) else _form_value(value).encode()
        parts.append(head.encode() + text + b"\r\n")
    parts.append(f"--{boundary}--\r\n".encode())
    return b"".join(parts), f"multipart/form-data; boundary={boundary}"


def _form_value(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _checked_body(status: int, data: bytes) -> bytes:
    if status == 200:
        return data
    try:
        error = json.loads(data)["error"]
        kind, message = str(error["kind"]), str(error["message"])
    except (ValueError, KeyError, TypeError):
        raise ServiceFailed(f"the service answered {status} without a valid message") from None
    raise _error_from(kind, message, NotAllowed if status in (401, 403) else ServiceFailed)


def _error_from(kind: str, message: str, otherwise: type[EverlearnError]) -> EverlearnError:
    found = getattr(errors, kind, None)
    ours = isinstance(found, type) and issubclass(found, EverlearnError)
    return found(message) if ours and found is not None else otherwise(message)


def _read_answers(said: dict[str, Any]) -> Answers:
    nothing = not said["answers"]
    return Answers(
        [Answer(**answer) for answer in said["answers"]],
        unknown=said["unknown"],
        familiarity=-np.inf if nothing else said["familiarity"],
        threshold=np.inf if nothing else said["threshold"],
        p_value=said["p_value"],
        ignored=said["ignored"],
        box=None if said.get("box") is None else Box(*said["box"]),
        probably=said.get("probably", False),
        steady=None if said.get("steady") is None else Steady(**said["steady"]),
    )


def _selection(
    what: Any,
    id: int | None,
    name: str | None,
    source: str | None,
    erase: bool,
    kind: str,
) -> dict[str, Any]:
    if isinstance(what, str):
        raise InvalidParameter("give a word as name= or source=, a file as bytes or a Path")
    said = {"id": id, "name": name, "source": source}
    given = {key: value for key, value in said.items() if value is not None}
    return given | {"erase": erase} | ({} if what is None else _example_fields(what, kind))


def _read_forgotten(row: dict[str, Any]) -> Forgotten:
    receipt = None if row["receipt"] is None else Receipt(**row["receipt"])
    return Forgotten(row["count"], row["names"], receipt)


def _read_change(row: dict[str, Any]) -> Change:
    return Change(**(row | {"names": tuple(row["names"])}))
