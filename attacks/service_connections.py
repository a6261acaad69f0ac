"""Silent connections, unfinished messages, and a stop under load.

The service must answer beside thousands of silent connections, hold a bounded amount of received
data, and lose nothing when it is stopped.
"""

import contextlib
import json
import socket
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.serving import TOKEN, Hasty, Running, quantile, serving, start
from benchmarks.side_by_side import Line
from everlearn import Memory

SILENT = 2_000
UNFINISHED = 200
# Of a message announced as 32 MiB, all but the end is sent.
MESSAGE = 32 * 1024 * 1024
PARTS = 200
WRITERS = 8


def lines() -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as folder:
        yield silent(Path(folder) / "silent")
        yield unfinished(Path(folder) / "unfinished")
        yield stopped(Path(folder) / "stopped")


def silent(folder: Path) -> Line:
    """Answers beside silent connections, and log messages about them."""
    log = folder.with_suffix(".log")
    with log.open("wb") as errors, serving(folder, errors) as running:
        connections = [opened(running.port) for _ in range(SILENT)]
        answered, took = 0, []
        end = time.monotonic() + 12.0  # longer than headers may take
        while time.monotonic() < end:
            began = time.perf_counter()
            with contextlib.suppress(OSError):
                answered += health(running)
            took.append(time.perf_counter() - began)
            time.sleep(0.05)
        for connection in connections:
            connection.close()
        alive = running.alive
    tracebacks = log.read_text("utf-8", "replace").count("Traceback")
    slowest = 1000 * quantile(took, 1.0)
    return Line(
        f"{SILENT} silent connections: requests answered beside them, tracebacks",
        f"{answered} of {len(took)}, the slowest after {slowest:.0f} ms; {tracebacks}; "
        f"{'alive' if alive else 'dead'} after it",
        "all, 0",
    )


def unfinished(folder: Path) -> Line:
    """Memory held for unfinished messages, whole or in parts of one byte."""
    with serving(folder) as running:
        before = running.megabytes
        most, sockets = before, []
        for number in range(UNFINISHED):
            with contextlib.suppress(OSError):
                sockets.append(begun(running.port, in_parts=number % 10 == 0))
            most = max(most, running.megabytes)
        alive = running.alive
        for one in sockets:
            one.close()
    return Line(
        f"{UNFINISHED} unfinished WebSocket messages of 32 MiB: memory grew by at most",
        f"{most - before:.0f} MB; {'alive' if alive else 'dead'} after it",
        "≤ 256 MiB",
    )


def stopped(folder: Path) -> Line:
    """SIGTERM under load: everything acknowledged must be in the folder."""
    running = start(folder)
    acknowledged: list[str] = []
    gate = threading.Lock()

    def write(writer: int) -> None:
        client = Hasty(running.port)
        with contextlib.suppress(Exception):
            for number in range(100_000):
                name = f"{writer}-{number}"
                client.post("/v1/teach", {"vector": [writer, number, 1.0], "name": name})
                with gate:
                    acknowledged.append(name)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(WRITERS)]
    for thread in threads:
        thread.start()
    time.sleep(3.0)
    running.stop()
    for thread in threads:
        thread.join()
    with Memory(folder, read_only=True) as memory:
        kept = set(memory.names())
        problems = memory.verify().problems
    lost = len(set(acknowledged) - kept)
    return Line(
        f"SIGTERM beside {WRITERS} writers: acknowledged teachings lost, problems found",
        f"{lost} of {len(acknowledged)}, {len(problems)}",
        "0, 0",
    )


def opened(port: int) -> socket.socket:
    connection = socket.socket()
    connection.settimeout(10)
    connection.connect(("127.0.0.1", port))
    return connection


def health(running: Running) -> bool:
    request = urllib.request.Request(
        f"{running.address}/v1/names", headers={"authorization": f"Bearer {TOKEN}"}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        found: Any = json.load(answer)
        return answer.status == 200 and isinstance(found, list)


def begun(port: int, *, in_parts: bool) -> socket.socket:
    """A WebSocket with an unfinished message."""
    connection = opened(port)
    head = (
        "GET /v1/ask/stream HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: Bearer {TOKEN}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
    )
    connection.sendall("\r\n".join([*head, "", ""]).encode())
    connection.recv(4096)
    mask = b"\0\0\0\0"
    if in_parts:
        connection.sendall(b"\x02\x81" + mask + b"x")
        part = (b"\x00\x81" + mask + b"x") * 10_000
        for _ in range(PARTS):
            connection.sendall(part)
    else:
        connection.sendall(b"\x82\xff" + MESSAGE.to_bytes(8, "big") + mask)
        for _ in range(31):
            connection.sendall(bytes(1024 * 1024))
    return connection
