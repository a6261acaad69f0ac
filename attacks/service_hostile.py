"""Hostile requests: fuzzed bodies, headers, paths and tokens, slow, huge and truncated ones.

``EVERLEARN_REQUESTS`` is their number (100,000). Clients use many loopback addresses, so that the
limits per address do not hide what is behind them.
"""

import base64
import contextlib
import json
import os
import random
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.serving import TOKEN, Running, serving, together
from benchmarks.side_by_side import Line
from everlearn.service.api.failures import MEANINGS

REQUESTS = int(os.environ.get("EVERLEARN_REQUESTS", "100000"))
CLIENTS = 8
SLOW = 0.01
PARTS = 10
DOCUMENTED = {200, 303, *MEANINGS}
PATHS = (
    "/", "/api", "/page/app.js", "/page/../app.py", "/healthz", "/metrics", "/v1/openapi.json",
    "/v1/teach", "/v1/ask", "/v1/why", "/v1/correct", "/v1/forget", "/v1/would-forget",
    "/v1/rename", "/v1/undo", "/v1/redo", "/v1/history", "/v1/names", "/v1/teachings",
    "/v1/thumbnails/1", "/v1/thumbnails/-1", "/v1/strangers", "/v1/strangers/name",
    "/v1/strangers/ignore", "/v1/strangers/1/thumbnail", "/v1/evaluate", "/v1/memories",
    "/v1/info", "/v1/ask/stream", "/%2e%2e/%2e%2e/etc/passwd", "/v1/" + "a" * 4000,
)  # fmt: skip
# Most have a valid host, token and method, so that they pass the gate.
HOSTS = ("127.0.0.1",) * 20 + ("localhost",) * 4 + ("evil.example", "")
METHODS = ("POST",) * 16 + ("GET",) * 8 + ("PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "\x00")
WORDS = ("", "cup", "<script>alert(1)</script>", "../../etc/passwd", "\ud800", "a" * 300, "é", "\0")
PNG = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108020000009077"
        "53de0000000c4944415408d763f8cfc000000301010018dd8db00000000049454e44ae426082"
    )
).decode()


def lines() -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "memory") as running:
        statuses: Counter[int] = Counter()
        traces, megabytes = 0, []
        for part in range(PARTS):
            found, more = attack(running, REQUESTS // PARTS, seed=part)
            statuses, traces = statuses + found, traces + more
            megabytes.append(running.megabytes)
        alive = running.alive
    other = {status: n for status, n in statuses.items() if status not in DOCUMENTED and status}
    shown = ", ".join(f"{status or 'cut off'}: {n}" for status, n in sorted(statuses.items()))
    yield Line(
        f"{sum(statuses.values())} hostile requests: undocumented statuses, tracebacks",
        f"{sum(other.values())}, {traces} ({shown})",
        "0, 0",
    )
    yield Line("after them the service is", "alive" if alive else "dead", "alive")
    shown = ", ".join(f"{size:.0f}" for size in megabytes)
    yield Line("and its memory was, in megabytes, after each tenth", shown, "flat")


def attack(running: Running, count: int, seed: int) -> tuple[Counter[int], int]:
    statuses: Counter[int] = Counter()
    traces, gate = [0], threading.Lock()

    def one_client(number: int) -> None:
        chance = random.Random((seed, number).__repr__())
        for _ in range(count // CLIENTS):
            answer = sent(running.port, chance)
            status = answer.split(b" ", 2)[1][:3] if answer.startswith(b"HTTP/1.1 ") else b"0"
            with gate:
                statuses[int(status)] += 1
                traces[0] += b"Traceback" in answer or b'File "' in answer

    together([partial(one_client, n) for n in range(CLIENTS)])
    return statuses, traces[0]


def sent(port: int, chance: random.Random) -> bytes:
    """One request from a loopback address; returns the response, empty if disconnected."""
    request = hostile(chance)
    with socket.socket() as connection:
        connection.settimeout(60)
        connection.bind((f"127.{chance.randrange(1, 250)}.{chance.randrange(250)}.7", 0))
        with contextlib.suppress(OSError):
            connection.connect(("127.0.0.1", port))
            if chance.random() < SLOW:
                half = len(request) // 2
                connection.sendall(request[:half])
                time.sleep(0.2)
                request = request[half:]
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            parts = iter(lambda: connection.recv(65_536), b"")
            return b"".join(parts)
    return b""


def hostile(chance: random.Random) -> bytes:
    if chance.random() < 0.05:
        return chance.randbytes(chance.randrange(1, 300))
    body, kind = hostile_body(chance)
    token = chance.choice((TOKEN,) * 30 + ("", "x", TOKEN[:-1], "a" * 5000))
    path = chance.choice(PATHS)
    if chance.random() < 0.3:
        path += "?" + chance.choice(
            ("memory=x", "limit=-1", "top=1e9", "offset=" + "9" * 30, "%00=%ff")
        )
    headers = [
        f"Host: {chance.choice(HOSTS)}",
        f"Authorization: Bearer {token}",
        f"Content-Type: {kind}",
        "Connection: close",
    ]
    length: object = len(body)
    if chance.random() < 0.1:
        length = chance.choice((-1, len(body) + 10, max(0, len(body) - 3), 10**12, "x"))
    headers.append(f"Content-Length: {length}")
    if chance.random() < 0.2:
        headers.append(
            chance.choice(
                (
                    "Origin: https://evil.example",
                    "Origin: null",
                    "Idempotency-Key: " + "k" * chance.choice((1, 500)),
                    "Transfer-Encoding: chunked",
                    "Upgrade: websocket\r\nConnection: upgrade",
                    "Cookie: everlearn-8737=x",
                    "X: " + "y" * 70_000,
                    "Range: bytes=0-",
                )
            )
        )
    head = "\r\n".join([f"{chance.choice(METHODS)} {path} HTTP/1.1", *headers, "", ""])
    request = head.encode("utf-8", "surrogatepass") + body
    if chance.random() < 0.1:
        request = request[: chance.randrange(len(request))]
    return request


def hostile_body(chance: random.Random) -> tuple[bytes, str]:
    kind = chance.randrange(6)
    if kind == 0:
        return chance.randbytes(chance.randrange(200)), "application/json"
    if kind == 1:
        deep = "[" * chance.choice((5, 5_000)) + "1"
        return deep.encode(), "application/json"
    if kind == 2:
        part = b'--b\r\ncontent-disposition: form-data; name="image"; filename="x"\r\n\r\n'
        return part * chance.choice((1, 40)) + chance.randbytes(50) + b"\r\n--b--", (
            "multipart/form-data; boundary=b"
        )
    if kind == 3:
        return chance.randbytes(chance.choice((0, 10, 3_000))), "image/jpeg"
    if kind == 4:
        size = 33 * 1024 * 1024 if chance.random() < 0.002 else chance.randrange(2_000)
        return b" " * size, chance.choice(("application/json", "text/plain", "x/y"))
    said: dict[str, Any] = {
        name: value
        for name, value in (
            ("vector", [chance.choice((0, 1.5, -1, 1e300, True, None, "x")) for _ in range(3)]),
            ("image", chance.choice((PNG, PNG[:20], "no base64", 5))),
            ("name", chance.choice(WORDS)),
            ("source", chance.choice(WORDS)),
            ("top", chance.choice((0, 1, -1, 10**30, "1"))),
            ("id", chance.choice((1, -1, 10**20))),
            ("group", chance.choice((1, 0, 10**20))),
            ("old", chance.choice(WORDS)),
            ("new", chance.choice(WORDS)),
            ("examples", chance.choice(([], [{}], [{"vector": [1, 2, 3], "name": "cup"}]))),
            ("remember", chance.choice((True, "yes"))),
        )
        if chance.random() < 0.4
    }
    return json.dumps(said).encode(), "application/json"
