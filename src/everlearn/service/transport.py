"""The client's connection to a service: requests and answers over HTTP, and errors by their names.

A request whose connection broke is sent again. An answer that says what went wrong is raised as the
exception of that name. Frames of a stream are sent over a WebSocket. Standard library only, but for
the WebSocket.
"""

import contextlib
import http.client
import json
import os
import ssl
import uuid
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

from everlearn import errors
from everlearn.errors import (
    CannotReach,
    EverlearnError,
    InvalidParameter,
    MissingPackage,
    NotAllowed,
    ServiceFailed,
)
from everlearn.service.http_address import is_http

# A request is sent again if its connection broke: the service closes idle connections.
TRIES = 2


class ServiceConnection:
    """One connection to a service, as one user of one Memory.

    Parameters
    ----------
    address : str
        Such as ``http://127.0.0.1:8737``.
    token : str or None
        ``None`` for the environment variable ``EVERLEARN_TOKEN``.
    memory : str or None
        Which Memory, if several are served.
    timeout : float
        Seconds to wait for an answer.
    """

    def __init__(self, address: str, token: str | None, memory: str | None, timeout: float) -> None:
        if not is_http(address):
            raise InvalidParameter(f"an address looks like http://127.0.0.1:8737, not {address!r}")
        parts = urlsplit(address)
        assert parts.hostname
        token = token or os.environ.get("EVERLEARN_TOKEN")
        if not token:
            raise InvalidParameter("give token=, or set EVERLEARN_TOKEN to the token serve printed")
        self.address = f"{parts.scheme}://{parts.netloc}"
        self.memory = memory
        self._token = token
        self._timeout = timeout
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

    def close(self) -> None:
        self._connection.close()

    def get(self, path: str, **query: Any) -> Any:
        """What a path answers, from JSON."""
        return _read_json(self.content(path, **query))

    def post(self, path: str, said: dict[str, Any], **query: Any) -> Any:
        """The answer to a question that changes nothing."""
        return self._post(path, said, {}, **query)

    def change(self, path: str, said: dict[str, Any], **query: Any) -> Any:
        """The answer to a change, which is made once even if it is sent twice."""
        return self._post(path, said, _idempotent(), **query)

    def change_by_file(self, path: str, file: bytes, content_type: str, **query: Any) -> Any:
        """As :meth:`change`, by a file instead of values."""
        headers = _idempotent() | {"content-type": content_type}
        return _read_json(_checked_body(*self._send("POST", path, file, headers, **query)))

    def content(self, path: str, **query: Any) -> bytes:
        """The bytes at a path."""
        return _checked_body(*self._send("GET", path, b"", {}, **query))

    def content_if_any(self, path: str) -> bytes | None:
        """The bytes at a path; ``None`` if there are none."""
        status, data = self._send("GET", path, b"", {})
        return None if status == 404 else _checked_body(status, data)

    def frames(self) -> "FrameSocket":
        """A WebSocket for a stream of frames."""
        return FrameSocket(self.address, self._token, self.memory, self._timeout)

    def _post(self, path: str, said: dict[str, Any], headers: dict[str, str], **query: Any) -> Any:
        body, content_type = _encode_body(said)
        headers = headers | {"content-type": content_type}
        return _read_json(_checked_body(*self._send("POST", path, body, headers, **query)))

    def _send(
        self, method: str, path: str, body: bytes, headers: dict[str, str], **query: Any
    ) -> tuple[int, bytes]:
        given = {name: value for name, value in query.items() if value is not None}
        given |= {"memory": self.memory} if self.memory else {}
        target = f"/v1/{path}" + (f"?{urlencode(given)}" if given else "")
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
        failed = said.get("error")
        if isinstance(failed, dict):
            raise _named_error(str(failed.get("kind")), str(failed.get("message")), ServiceFailed)
        return said


def _idempotent() -> dict[str, str]:
    """The header by which the service recognises a change that is sent twice."""
    return {"idempotency-key": uuid.uuid4().hex}


def _encode_body(said: dict[str, Any]) -> tuple[bytes, str]:
    """JSON, or a form if there is an image, whose bytes are then sent unchanged."""
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
    raise _named_error(kind, message, NotAllowed if status in (401, 403) else ServiceFailed)


def _read_json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise ServiceFailed(
            "the service did not answer with JSON; check that the address is that of everlearn "
            "serve, and what a proxy in between answers"
        ) from None


def _named_error(kind: str, message: str, otherwise: type[EverlearnError]) -> EverlearnError:
    """The error of this name, if it is one of ours."""
    found = getattr(errors, kind, None)
    ours = isinstance(found, type) and issubclass(found, EverlearnError)
    return found(message) if ours and found is not None else otherwise(message)
