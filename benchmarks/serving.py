"""A service in a separate process, and fast clients, shared by the service benchmarks."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOKEN = "a-token-of-the-benchmarks"
START_SECONDS = 120.0


@dataclass
class Running:
    """A service that answers."""

    process: subprocess.Popen[bytes]
    port: int
    seconds: float

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def megabytes(self) -> float:
        """Resident memory of the process."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024

    @property
    def alive(self) -> bool:
        if self.process.poll() is not None:
            return False
        with urllib.request.urlopen(f"{self.address}/healthz", timeout=30) as answer:
            return bool(answer.status == 200)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def start(folder: Path, port: int | None = None, errors: Any = subprocess.DEVNULL) -> Running:
    """``everlearn serve`` on a folder; ``seconds`` is the time to the first page."""
    port = port or free_port()
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "everlearn", "--memory", str(folder), "serve", "--port", str(port)],
        env=os.environ | {"EVERLEARN_TOKEN": TOKEN},
        stdout=subprocess.DEVNULL,
        stderr=errors,
    )
    while time.perf_counter() - began < START_SECONDS:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/", headers={"authorization": f"Bearer {TOKEN}"}
        )
        with contextlib.suppress(OSError), urllib.request.urlopen(request, timeout=30) as answer:
            answer.read()
            return Running(process, port, time.perf_counter() - began)
        if process.poll() is not None:
            raise RuntimeError(f"the service ended with {process.returncode}")
        time.sleep(0.02)
    process.kill()
    raise RuntimeError("the service did not start")


@contextlib.contextmanager
def serving(folder: Path, errors: Any = subprocess.DEVNULL) -> Iterator[Running]:
    running = start(folder, errors=errors)
    try:
        yield running
    finally:
        running.stop()


class Hasty:
    """One connection that sends as fast as it is answered, and retries when refused."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection = self._connect()

    def post(self, path: str, said: dict[str, Any], *, key: str | None = None) -> dict[str, Any]:
        """Send until it is answered; a change carries its key each time."""
        body = json.dumps(said)
        headers = {
            "authorization": f"Bearer {TOKEN}",
            "content-type": "application/json",
            "idempotency-key": key or uuid.uuid4().hex,
        }
        while True:
            self._connection.request("POST", path, body, headers)
            answer = self._connection.getresponse()
            data = answer.read()
            if answer.status == 200:
                return dict(json.loads(data))
            if answer.status not in (429, 503):
                raise RuntimeError(f"{answer.status}: {data[:200]!r}")
            time.sleep(0.05)

    def again(self) -> None:
        """Reconnect after the service was gone."""
        self._connection.close()
        self._connection = self._connect()

    def close(self) -> None:
        self._connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)


def together(works: list[Any]) -> None:
    """Run functions at once, each in a thread; the first error counts."""
    errors: list[BaseException] = []

    def guarded(work: Any) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def quantile(seconds: list[float], share: float) -> float:
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
