"""Settings and limits of a service."""

import ipaddress
import secrets
from dataclasses import dataclass, field

from everlearn.errors import InvalidParameter

SHORTEST_TOKEN = 16


def new_token() -> str:
    """A token nobody can guess."""
    return secrets.token_urlsafe(24)


@dataclass(frozen=True)
class Settings:
    """Limits and secrets of one service.

    Parameters
    ----------
    token : str
        What a client has to show; at least 16 printable ASCII characters. By default a new one.
    hosts : frozenset of str
        Names under which the service may be called, besides ``localhost`` and plain addresses. A
        request for any other host is refused, so that no web site can lead a browser here.
    ingress : str, optional
        The address of Home Assistant's supervisor. What it forwards (ingress) needs no token: Home
        Assistant has authenticated the user. The header that it sends counts from this address
        alone.
    body_bytes : int
        The largest request.
    held_bytes : int
        What all requests being read may hold in memory together.
    waiting : int
        How many changes, and how many questions, may wait per Memory before one is refused.
    kept_keys : int
        How many idempotency keys are remembered per Memory.
    rate : int
        Requests a second for each address, sustained; twice as many at once.
    failures : int
        Of them, requests a second with a wrong token.
    listeners : int
        How many may listen to events at a time, and how many may send streams of frames.
    connections : int
        Open connections.
    stream_seconds : float
        How long a stream of frames may stay silent.
    header_seconds, body_seconds, send_seconds : float
        How long a client may take to send its headers, to send its body, and to read a part of the
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
                f"a token has at least {SHORTEST_TOKEN} printable ASCII characters and no space; "
                "leave it out to have one made"
            )
        if self.ingress is not None:
            try:
                ipaddress.ip_address(self.ingress)
            except ValueError:
                raise InvalidParameter(
                    "ingress is the address of Home Assistant's supervisor, such as 172.30.32.2, "
                    f"not {self.ingress!r}"
                ) from None
