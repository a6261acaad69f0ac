"""Settings and limits of a service."""

import ipaddress
import secrets
from dataclasses import dataclass, field

from everlearn.errors import InvalidParameter

SHORTEST_TOKEN = 16


def new_token() -> str:
    """A random token."""
    return secrets.token_urlsafe(24)


@dataclass(frozen=True)
class Settings:
    """Limits and secrets of one service.

    Parameters
    ----------
    token : str
        The token clients must send; at least 16 printable ASCII characters. Defaults to a new one.
    hosts : frozenset of str
        Names under which the service may be reached, besides ``localhost`` and plain addresses. A
        request for any other host is refused, so that no web site can direct a browser here.
    ingress : str, optional
        The address of Home Assistant's supervisor. Requests it forwards (ingress) need no token,
        because Home Assistant has authenticated the user. Its header is accepted only from this
        address.
    body_bytes : int
        Maximum size of a request.
    held_bytes : int
        Maximum memory of all requests being read.
    waiting : int
        Number of changes, and of questions, that may wait per Memory before one is refused.
    kept_keys : int
        Number of idempotency keys remembered per Memory.
    rate : int
        Requests per second for each address, sustained; bursts of twice as many.
    failures : int
        Requests per second with a wrong token.
    listeners : int
        Number of event listeners, and of streams of frames.
    connections : int
        Number of open connections.
    stream_seconds : float
        How long a stream of frames may stay silent.
    header_seconds, body_seconds, send_seconds : float
        Time a client may take to send its headers, to send its body, and to read a part of the
        answer.
    """

    token: str = field(default_factory=new_token)
    hosts: frozenset[str] = frozenset()
    ingress: str | None = None
    body_bytes: int = 32 * 1024 * 1024
    held_bytes: int = 256 * 1024 * 1024
    waiting: int = 256
    kept_keys: int = 10_000
    rate: int = 2_000
    failures: int = 10
    listeners: int = 32
    connections: int = 256
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    send_seconds: float = 30.0
    stream_seconds: float = 60.0

    def __post_init__(self) -> None:
        plain = self.token.isascii() and self.token.isprintable() and " " not in self.token
        if len(self.token) < SHORTEST_TOKEN or not plain:
            raise InvalidParameter(
                f"a token needs at least {SHORTEST_TOKEN} printable ASCII characters and no space; "
                "omit it to have one generated"
            )
        if self.ingress is not None:
            try:
                ipaddress.ip_address(self.ingress)
            except ValueError:
                raise InvalidParameter(
                    "ingress is the address of Home Assistant's supervisor, such as 172.30.32.2, "
                    f"not {self.ingress!r}"
                ) from None
