"""The HTTP client: the methods of a Memory, from another process.

    with Memory("memory") as memory:                                 in this process
    with Client("http://127.0.0.1:8737", token=…) as memory:         in another one

Errors are the same exceptions. One method per path of the service; how requests are sent, and sent
again, is in transport.py, what they hold and answer in client_io.py. Standard library only.
"""

import json
import os
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self

from everlearn.deprecation import renamed_attribute
from everlearn.errors import (
    CannotReach,
    EverlearnError,
    InvalidParameter,
    NotAllowed,
    NothingToUndo,
    ServiceFailed,
)
from everlearn.memory.answers import Answers
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
from everlearn.memory.storage.rows import NameRecord, Teaching
from everlearn.memory.storage.sqlite.database import FILE
from everlearn.memory.storage.tombstones import Pair
from everlearn.persistence import replace_file
from everlearn.regions.proposals import MOST
from everlearn.service.client_io import (
    add_evaluated,
    box_field,
    example_fields,
    in_requests,
    read_answers,
    read_change,
    read_forgotten,
    read_merged,
    read_report,
    read_teaching,
    read_thing,
    read_why,
    selection_fields,
    source_field,
    sum_of,
)
from everlearn.service.transport import ServiceConnection

PAGE_ROWS = 1_000
# A Memory is sent in parts of about this size.
PART_BYTES = 8 * 1024 * 1024
JOURNAL_TYPE = "application/vnd.sqlite3"
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
        self._service = ServiceConnection(address, token, memory, timeout)
        if frames not in ("png", "jpeg"):
            raise InvalidParameter(f"frames must be 'png' or 'jpeg', not {frames!r}")
        self._frames = frames
        self.address = self._service.address

    def __getattr__(self, name: str) -> Any:
        return renamed_attribute(self, name, RENAMED)

    def __repr__(self) -> str:
        which = "" if self._service.memory is None else f", {self._service.memory}"
        return f"<{type(self).__name__} of {self.address}{which}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the service keeps running."""
        self._service.close()

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
        said |= source_field(example, source)
        said |= {"group": group} if group else {}
        return bool(self._service.change("teach", said | self._fields_of(example))["new"])

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
        said = {"name": name, "also": also} | box_field(box) | source_field(example, source)
        done = self._service.change("correct", said | self._fields_of(example))
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
        return read_answers(self._service.post("ask", fields))

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
        things = self._service.post("find", said | self._fields_of(image))["things"]
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
        with self._service.frames() as socket:
            for frame in frames:
                fields = self._fields_of(frame)
                said = socket.answer(fields["image"] if "image" in fields else json.dumps(fields))
                try:
                    answers = read_answers(said)
                except (TypeError, KeyError, ValueError):
                    raise ServiceFailed(
                        f"{self.address} did not answer a frame as everlearn does"
                    ) from None
                yield answers

    def why(self, example: Any, name: str | None = None, *, box: Any = None, top: int = 5) -> Why:
        """As :meth:`everlearn.Memory.why`."""
        said = {"top": top} | ({} if name is None else {"name": name}) | box_field(box)
        return read_why(self._service.post("why", said | self._fields_of(example)))

    def report(self) -> Report:
        """As :meth:`everlearn.Memory.report`."""
        said = self._service.get("check")
        return read_report(said, {number: self.thumbnail(number) for number in said["pictured"]})

    def evaluate(self, files: Iterable[tuple[Any, str]]) -> Evaluation:
        """Accuracy on these files, as by ``everlearn evaluate``."""
        found = Evaluation()
        for part in in_requests(files):
            add_evaluated(found, self._service.post("evaluate", {"examples": part}))
        return found

    def unknowns(self) -> list[Group]:
        """As :meth:`everlearn.Memory.unknowns`."""
        rows = self._service.get("strangers")
        lists = ("examples", "sources")
        return [Group(**(row | {key: tuple(row.get(key, ())) for key in lists})) for row in rows]

    def unknown_thumbnail(self, id: int) -> bytes | None:
        """As :meth:`everlearn.Memory.unknown_thumbnail`."""
        return self._service.content_if_any(f"strangers/{int(id)}/thumbnail")

    def name_unknowns(self, group: int, name: str) -> int:
        """As :meth:`everlearn.Memory.name_unknowns`."""
        return int(self._service.change("strangers/name", {"group": group, "name": name})["count"])

    def ignore_unknowns(self, group: int) -> int:
        """As :meth:`everlearn.Memory.ignore_unknowns`."""
        return int(self._service.change("strangers/ignore", {"group": group})["count"])

    def drop_unknowns(self, group: int) -> int:
        """As :meth:`everlearn.Memory.drop_unknowns`."""
        return int(self._service.change("strangers/drop", {"group": group})["count"])

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
        choice = selection_fields(what, id, name, source, erase, self._frames)
        return read_forgotten(self._service.change("forget", choice))

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
        choice = selection_fields(what, id, name, source, erase, self._frames)
        return read_forgotten(self._service.post("would-forget", choice))

    def rename(self, old: str, new: str) -> str:
        """As :meth:`everlearn.Memory.rename`."""
        return str(self._service.change("rename", {"old": old, "new": new})["name"])

    def similar_name(self, name: str) -> str | None:
        """As :meth:`everlearn.Memory.similar_name`."""
        similar: str | None = self._service.get("similar-name", name=name)["similar"]
        return similar

    def undo(self, id: int | None = None) -> Change:
        """As :meth:`everlearn.Memory.undo`."""
        return read_change(self._service.change("undo", {}, id=id))

    def redo(self, id: int | None = None) -> Change:
        """As :meth:`everlearn.Memory.redo`."""
        return read_change(self._service.change("redo", {}, id=id))

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
        return [read_change(row) for row in self._service.get("history", limit=limit or PAGE_ROWS)]

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
                said = self._service.change_by_file(
                    "merge", path.read_bytes(), JOURNAL_TYPE, conflicts=conflicts, group=group
                )
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
            Path(place, FILE).write_bytes(self._service.content("journal"))
            with Memory(place, read_only=True) as fetched:
                return other.merge(fetched, conflicts=conflicts), fetched.counting()

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
        rows = self._service.get(
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
            rows = self._service.get("teachings", name=name, limit=most, offset=start)
            found += [read_teaching(row) for row in rows]
            if len(rows) < most:
                break
        return found

    def thumbnail(self, id: int) -> bytes | None:
        """As :meth:`everlearn.Memory.thumbnail`."""
        return self._service.content_if_any(f"thumbnails/{int(id)}")

    def info(self) -> dict[str, Any]:
        """As :meth:`everlearn.Memory.info`; the path is on the service's machine."""
        found: dict[str, Any] = self._service.get("info")
        return found

    def verify(self) -> Verification:
        """As :meth:`everlearn.Memory.verify`."""
        found = self._service.post("verify", {})
        return Verification(**(found | {"problems": tuple(found["problems"])}))

    def export(self, path: str | os.PathLike[str]) -> None:
        """As :meth:`everlearn.Memory.export`; the file is written here."""
        replace_file(Path(path), self._service.content("export"))

    # Helpers.

    def _fields_of(self, example: Any) -> dict[str, Any]:
        return example_fields(example, self._frames)

    def _undoable(self, which: str) -> Change:
        found = self._service.get("undoable")[which]
        if found is None:
            raise NothingToUndo(f"there is nothing to {which}")
        return read_change(found)
