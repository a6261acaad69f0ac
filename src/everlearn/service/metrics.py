"""Metrics of the service, in Prometheus's text format."""

import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable

# Upper bucket bounds in seconds: from a cached answer to one that waits for a disk.
EDGES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Histogram:
    """A histogram of durations; thread-safe.

    Parameters
    ----------
    name : str
        Its name in Prometheus.
    label : str
        The label that distinguishes its series.
    """

    def __init__(self, name: str, label: str) -> None:
        self._name = name
        self._label = label
        self._lock = threading.Lock()
        self._counts: dict[str, list[int]] = {}
        self._sums: Counter[str] = Counter()

    def observe(self, value: str, seconds: float) -> None:
        """Add one duration, with this value of the label."""
        with self._lock:
            counts = self._counts.setdefault(value, [0] * (len(EDGES) + 1))
            counts[bisect_left(EDGES, seconds)] += 1
            self._sums[value] += seconds  # type: ignore[assignment]

    def lines(self) -> list[str]:
        """Prometheus lines: cumulative buckets, sum and count."""
        with self._lock:
            counts = {value: list(found) for value, found in sorted(self._counts.items())}
            sums = dict(self._sums)
        lines = [f"# TYPE {self._name} histogram"]
        for value, found in counts.items():
            label, total = f'{self._label}="{value}"', 0
            for edge, count in zip((*(f"{e:g}" for e in EDGES), "+Inf"), found, strict=True):
                total += count
                lines.append(f'{self._name}_bucket{{{label},le="{edge}"}} {total}')
            lines.append(f"{self._name}_sum{{{label}}} {sums[value]:.6f}")
            lines.append(f"{self._name}_count{{{label}}} {total}")
        return lines


class Metrics:
    """Counts requests (event loop only) and waiting times in the queue (any thread)."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds = Histogram("everlearn_request_seconds", "route")
        self.queue_seconds = Histogram("everlearn_queue_seconds", "memory")

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count one answered request; ``route`` is a pattern, never a client's text."""
        self._requests[route, status] += 1
        self._seconds.observe(route, seconds)

    def text(self, gauges: Iterable[tuple[str, str, float]]) -> str:
        """All metrics, with gauges given as name, labels and value."""
        lines = ["# TYPE everlearn_requests_total counter"]
        lines += [
            f'everlearn_requests_total{{route="{route}",status="{status}"}} {count}'
            for (route, status), count in sorted(self._requests.items())
        ]
        lines += [*self._seconds.lines(), *self.queue_seconds.lines()]
        lines.append("# TYPE everlearn_up_seconds gauge")
        lines.append(f"everlearn_up_seconds {time.monotonic() - self._started:.1f}")
        seen: set[str] = set()
        for name, labels, value in gauges:
            if name not in seen:
                lines.append(f"# TYPE {name} gauge")
                seen.add(name)
            lines.append(f"{name}{{{labels}}} {value:g}" if labels else f"{name} {value:g}")
        return "\n".join(lines) + "\n"
