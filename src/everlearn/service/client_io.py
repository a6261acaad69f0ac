"""Parses large answers and splits large uploads, for the client."""

import base64
import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any, Self
from urllib.parse import quote

import numpy as np

from everlearn.errors import CannotReach, EverlearnError, MissingPackage, ServiceFailed
from everlearn.images.decode import DEFAULT_LIMITS, read_bytes
from everlearn.memory.answers import Answer, Answers
from everlearn.memory.edits.merging import Conflict, Merged
from everlearn.memory.finding import Thing
from everlearn.memory.insight.evaluate import Evaluation
from everlearn.memory.insight.report import Accuracy, Report, Suspect
from everlearn.memory.insight.why import Effect, Why
from everlearn.memory.storage.rows import Teaching
from everlearn.regions.boxes import Box


def box_field(box: Any) -> dict[str, str]:
    """A box for a form or JSON; empty if there is none."""
    if box is None:
        return {}
    return {"box": box if isinstance(box, str) else ",".join(repr(float(n)) for n in box)}


# Approximate size limit of a request to evaluate, and its maximum number of examples.
REQUEST_BYTES = 8 * 1024 * 1024
REQUEST_EXAMPLES = 500


def read_why(said: dict[str, Any]) -> Why:
    """Values JSON cannot represent, for a name with one teaching, arrive as null."""
    effects = tuple(
        Effect(
            **row
            | {
                "score_without": _value_or(row["score_without"], -np.inf),
                "effect": _value_or(row["effect"], np.inf),
                "box": None if row.get("box") is None else Box(*row["box"]),
            }
        )
        for row in said["effects"]
    )
    without = {int(count): name for count, name in said["answer_without"].items()}
    known = said["score"], effects, said["decisive"], without, said["probability"]
    return Why(said["name"], *known)


def read_merged(said: dict[str, Any]) -> Merged:
    conflicts = [
        Conflict(
            row["source"],
            tuple(row["here"]),
            row["there"],
            bytes.fromhex(row["digest"]),
            None if row.get("box") is None else Box(*row["box"]),
        )
        for row in said["conflicts"]
    ]
    counts = {key: said[key] for key in ("forgotten", "erased", "kept_out")}
    return Merged(said["taught"], **counts, conflicts=conflicts)


def sum_of(done: list[Merged]) -> Merged:
    """The sum of several merge results."""
    return Merged(
        sum(done),
        forgotten=sum(one.forgotten for one in done),
        erased=sum(one.erased for one in done),
        kept_out=sum(one.kept_out for one in done),
        conflicts=[conflict for one in done for conflict in one.conflicts],
    )


def read_teaching(said: dict[str, Any]) -> Teaching:
    return Teaching(**said | {"box": None if said.get("box") is None else Box(*said["box"])})


def read_thing(said: dict[str, Any]) -> Thing:
    """A thing that was found; its vector is not sent."""
    box = Box(*said["box"])
    answers = Answers(
        [Answer(**answer) for answer in said["answers"]],
        unknown=said["unknown"],
        familiarity=float("nan"),
        threshold=float("nan"),
        ignored=said["ignored"],
        box=box,
    )
    return Thing(box, answers, said["score"], np.empty(0, dtype=np.float32))


def read_report(said: dict[str, Any], thumbnails: dict[int, bytes | None]) -> Report:
    def accuracy(row: dict[str, Any]) -> Accuracy:
        return Accuracy(row["right"], row["of"])

    return Report(
        accuracy(said["accuracy"]),
        {name: accuracy(row) for name, row in said["per_name"].items()},
        [tuple(pair) for pair in said["confused_pairs"]],
        [Suspect(**row) for row in said["mislabelled"]],
        [tuple(pair) for pair in said["near_duplicates"]],
        said["blurred"],
        said["dark"],
        said["too_few"],
        said["advice"],
        said["ranking"],
        {number: jpeg for number, jpeg in thumbnails.items() if jpeg is not None},
        said.get("strangers_noticed"),
    )


def in_requests(files: Iterable[tuple[Any, str]]) -> Iterator[list[dict[str, Any]]]:
    """Labelled files in request-sized parts; the files are read here."""
    part: list[dict[str, Any]] = []
    size = 0
    for file, name in files:
        one = {"name": name} | _labelled(file)
        length = len(one.get("image", "")) + 20 * len(one.get("vector", ()))
        if part and (size + length > REQUEST_BYTES or len(part) == REQUEST_EXAMPLES):
            yield part
            part, size = [], 0
        part.append(one)
        size += length
    if part:
        yield part


def add_evaluated(found: Evaluation, said: dict[str, Any]) -> None:
    """Add the result of one request to the total."""
    for row in said["answers"]:
        found.answers.setdefault((row["name"], row["answered"]), []).extend(row["files"])
    found.flagged_unknown += said["flagged_unknown"]
    found.n_unknown += said["n_unknown"]
    found.taken_for += [tuple(row) for row in said["taken_for"]]
    found.taught += said["taught"]
    found.unreadable += [tuple(row) for row in said["unreadable"]]


class FrameSocket:
    """A WebSocket on which frames are answered one after the other; raises everlearn's errors only.

    Parameters
    ----------
    address, token : str
    memory : str or None
    timeout : float
        Seconds to wait for the connection, and for an answer.
    """

    def __init__(self, address: str, token: str, memory: str | None, timeout: float) -> None:
        try:
            from websockets.exceptions import WebSocketException
            from websockets.sync.client import connect
        except ModuleNotFoundError:
            raise MissingPackage(
                "ask_stream needs websockets; install it with: pip install websockets"
            ) from None
        self._address = address
        self._timeout = timeout
        self._broken = (OSError, EOFError, WebSocketException)
        place = address.replace("http", "ws", 1) + "/v1/ask/stream"
        query = "" if memory is None else f"?memory={quote(memory, safe='')}"
        headers = {"authorization": f"Bearer {token}"}
        try:
            self._connection = connect(
                place + query,
                additional_headers=headers,
                compression=None,
                proxy=None,
                open_timeout=timeout,
                close_timeout=timeout,
            )
            self._socket = self._connection.__enter__()
        except self._broken as error:
            raise CannotReach(
                f"{address} accepts no frames ({error}); is everlearn serve running, and is the "
                "token correct?"
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(*self._broken):
            self._connection.__exit__(None, None, None)

    def answer(self, frame: bytes | str) -> dict[str, Any]:
        """Send a frame and wait for its answer."""
        try:
            self._socket.send(frame)
            said = json.loads(self._socket.recv(timeout=self._timeout))
        except self._broken as error:
            raise CannotReach(
                f"{self._address} ended the stream of frames ({error}); ask again with a new one"
            ) from None
        except (ValueError, RecursionError):
            raise ServiceFailed(f"{self._address} did not answer a frame with JSON") from None
        if not isinstance(said, dict):
            raise ServiceFailed(f"{self._address} did not answer a frame with a JSON object")
        return said


def _labelled(file: Any) -> dict[str, Any]:
    if isinstance(file, (str, bytes, os.PathLike)):
        label = {} if isinstance(file, bytes) else {"file": os.fspath(file)[-1000:]}
        try:
            image = read_bytes(file, DEFAULT_LIMITS)
        except EverlearnError:
            # An empty image is reported as unreadable by the service, too.
            image = b""
        return {"image": base64.b64encode(image).decode()} | label
    return {"vector": np.asarray(file, dtype=np.float64).tolist()}


def _value_or(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value
