"""HTTP requests of a bridge, only to its own system and to allowed hosts.

Addresses of pictures come from the other system and are not trusted: an address on a third host, or
a redirect to one, is refused unless that host is allowed, and credentials are sent only to the
system they belong to.
"""

import base64
import binascii
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import urljoin, urlsplit

from everlearn.errors import (
    CannotReach,
    ImageTooLarge,
    InvalidInput,
    InvalidParameter,
    ServiceFailed,
)
from everlearn.images.decode import DEFAULT_LIMITS
from everlearn.service.http_address import is_http

SECONDS = 20.0


def origin(address: str) -> str:
    """Scheme, host and port of an address."""
    if not is_http(address):
        raise InvalidParameter(f"an address looks like http://localhost:8080, not {address!r}")
    parts = urlsplit(address)
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    return f"{parts.scheme}://{parts.hostname}:{port}"


class _OwnHosts(urllib.request.HTTPRedirectHandler):
    """Follows redirects to allowed hosts only; credentials stay with their host."""

    def __init__(self, allowed: frozenset[str], credentials: str) -> None:
        self._allowed = allowed
        self._credentials = credentials

    def redirect_request(self, request: Any, file: Any, code: Any, text: Any, headers: Any,
                         address: str) -> urllib.request.Request | None:  # fmt: skip
        _require(address, self._allowed)
        following = super().redirect_request(request, file, code, text, headers, address)
        if following is not None and origin(address) != origin(request.full_url):
            following.remove_header(self._credentials.capitalize())
        return following


class Remote:
    """Another system, reached over HTTP.

    Parameters
    ----------
    address : str
        Where the system is.
    authorization : callable, optional
        Returns the credentials of requests to the system itself.
    hosts : iterable of str
        Other origins from which pictures may be fetched.
    header : str
        The header that carries the credentials.
    """

    def __init__(
        self,
        address: str,
        authorization: Callable[[], str] | None = None,
        hosts: Iterable[str] = (),
        *,
        header: str = "Authorization",
    ) -> None:
        self._address = address.rstrip("/") + "/"
        self._own = origin(address)
        self._authorization = authorization
        self._header = header
        self._allowed = frozenset({self._own, *(origin(host) for host in hosts)})
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), _OwnHosts(self._allowed, header)
        )

    def image(self, address: Any) -> bytes:
        """The bytes of a picture, given by its address or as ``data:`` in base64."""
        if not isinstance(address, str) or not address:
            raise InvalidInput(f"a picture's address must be a string, not {address!r}")
        if address.startswith("data:"):
            return _inline(address)
        try:
            whole = urljoin(self._address, address)
        except ValueError:
            raise InvalidInput(f"{address[:80]!r} is not the address of a picture") from None
        _require(whole, self._allowed)
        return self._read(urllib.request.Request(whole))

    def json(
        self, path: str, said: Any = None, *, method: str | None = None, authorized: bool = True
    ) -> Any:
        """The system's answer to a GET, or to a POST if there is a body, or to ``method``."""
        body = None if said is None else json.dumps(said).encode()
        headers = {} if body is None else {"content-type": "application/json"}
        request = urllib.request.Request(urljoin(self._address, path), body, headers, method=method)
        answer = self._read(request, authorized=authorized)
        try:
            return json.loads(answer) if answer else None
        except ValueError:
            raise ServiceFailed(f"{self._own} did not answer {path} with JSON") from None

    def _read(self, request: urllib.request.Request, *, authorized: bool = True) -> bytes:
        if authorized and self._authorization and origin(request.full_url) == self._own:
            request.add_header(self._header, self._authorization())
        most = DEFAULT_LIMITS.bytes
        try:
            with self._opener.open(request, timeout=SECONDS) as answer:
                data: bytes = answer.read(most + 1)
        except (OSError, http.client.HTTPException) as error:  # URLError is an OSError
            if isinstance(error, urllib.error.HTTPError):
                error.close()  # it holds the unread answer
            where = urlsplit(request.full_url)
            raise CannotReach(f"{where.netloc}{where.path} does not answer: {error}") from None
        if len(data) > most:
            raise ImageTooLarge(f"a picture may have at most {most:,} bytes")
        return data


def _require(address: str, allowed: frozenset[str]) -> None:
    try:
        found = origin(address)
    except InvalidParameter:
        raise InvalidInput(f"a picture is fetched over HTTP only, not {address[:80]!r}") from None
    if found not in allowed:
        raise InvalidInput(
            f"pictures are not fetched from {found}; if you trust it, allow it with --image-host"
        )


def _inline(address: str) -> bytes:
    head, comma, text = address.partition(",")
    if not comma or not head.endswith(";base64"):
        raise InvalidInput("a picture in a data: address must be encoded in base64")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput("a picture in a data: address must be encoded in base64") from None
