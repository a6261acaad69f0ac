"""Errors as an HTTP status and one form of JSON.

    {"error": {"kind": "NotAnImage", "message": "…what was wrong, and what to do"}}

The kind is the name of the exception that the same call raises in Python.
"""

import json
import logging
from collections.abc import Sequence
from typing import Any, Protocol

from everlearn.errors import (
    AnswerErased,
    CannotReach,
    ChangedMeanwhile,
    EverlearnError,
    ImageTooLarge,
    InvalidInput,
    KeyReused,
    MemoryBusy,
    MissingPackage,
    NeverLearned,
    NotExplainable,
    NotExportable,
    NotForgettable,
    NothingToUndo,
    NotOrderedYet,
    NotSeenYet,
    OtherName,
    OutOfMemory,
    TooBusy,
    UnknownLabel,
    UnknownMemory,
)

LOG = logging.getLogger("everlearn.service")

# The first match counts, so specific ones come first.
STATUSES: tuple[tuple[type[EverlearnError], int], ...] = (
    (UnknownMemory, 404),
    (UnknownLabel, 404),
    (NeverLearned, 404),
    (OtherName, 409),
    (NothingToUndo, 409),
    (ChangedMeanwhile, 409),
    (KeyReused, 409),
    (AnswerErased, 409),
    (ImageTooLarge, 413),
    (InvalidInput, 422),
    (NotForgettable, 501),
    (NotExplainable, 501),
    (NotExportable, 501),
    (MissingPackage, 501),
    (TooBusy, 503),
    (NotSeenYet, 503),
    (NotOrderedYet, 503),
    (CannotReach, 503),
    (MemoryBusy, 503),
    (OutOfMemory, 503),
)

# Every possible status, for the documentation of the API.
MEANINGS = {
    400: "The request is not well formed.",
    401: "No token, or a wrong one.",
    403: "The Host or Origin is not allowed.",
    404: "No such address, name, teaching or Memory.",
    405: "The method is not allowed here.",
    408: "The client took too long to send its request.",
    409: "It contradicts the current state: taught under another name, or nothing to undo.",
    413: "The request or the image is too large.",
    415: "The content type is not supported.",
    422: "A value cannot be used; the message says which and why.",
    429: "Too many requests from this address; wait a second.",
    500: "The service failed; its log says why.",
    501: "This Memory or this installation cannot do that; the message says what is missing.",
    503: "Too much is waiting; send it again in a second.",
}

AGAIN = {429, 503}


class Refused(Exception):
    """A request refused before it reaches a Memory."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


def status_of(error: EverlearnError) -> int:
    """The status for one of everlearn's exceptions."""
    for kind, status in STATUSES:
        if isinstance(error, kind):
            return status
    LOG.error("%s: %s", type(error).__name__, error)
    return 500


class Invalid(Protocol):
    """The validation errors of pydantic and of FastAPI."""

    def errors(self) -> Sequence[Any]: ...


def validation_message(invalid: Invalid) -> str:
    """The first error of a request, with the field it is about."""
    error = invalid.errors()[0]
    where = ".".join(str(part) for part in error["loc"] if part not in ("body", "query", "header"))
    return f"{where}: {error['msg']}" if where else str(error["msg"])


def body_of(kind: str, message: str) -> bytes:
    """The JSON of an error."""
    # A client's text may contain lone surrogates, which UTF-8 cannot encode but JSON can.
    return json.dumps({"error": {"kind": kind, "message": message}}).encode("ascii")


def headers_of(status: int) -> dict[str, str]:
    """Additional headers of an error."""
    headers = {"content-type": "application/json"}
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    if status in (400, 408):
        # The rest of the body could be taken for the next request.
        headers["connection"] = "close"
    if status in AGAIN:
        headers["retry-after"] = "1"
    return headers
