"""Numbers about the service, in the text format that Prometheus reads."""

import time
from collections import Counter
from collections.abc import Iterable


class Metrics:
    """Counts requests; kept in the event loop's thread alone."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: Counter[str] = Counter()

    def count(self, route: str, status: int, seconds: float) -> None:
        """One request was answered; ``route`` is a pattern of ours, never what a client sent."""
        self._requests[route, status] += 1
        self._seconds[route] += seconds  # type: ignore[assignment]

    def text(self, gauges: Iterable[tuple[str, str, float]]) -> str:
        """Everything, with gauges given as name, labels and value."""
        lines = ["# TYPE everlearn_requests_total counter"]
        lines += [
            f'everlearn_requests_total{{route="{route}",status="{status}"}} {count}'
            for (route, status), count in sorted(self._requests.items())
        ]
        lines.append("# TYPE everlearn_request_seconds_total counter")
        lines += [
            f'everlearn_request_seconds_total{{route="{route}"}} {seconds:.6f}'
            for route, seconds in sorted(self._seconds.items())
        ]
        lines.append("# TYPE everlearn_up_seconds gauge")
        lines.append(f"everlearn_up_seconds {time.monotonic() - self._started:.1f}")
        seen: set[str] = set()
        for name, labels, value in gauges:
            if name not in seen:
                lines.append(f"# TYPE {name} gauge")
                seen.add(name)
            lines.append(f"{name}{{{labels}}} {value:g}" if labels else f"{name} {value:g}")
        return "\n".join(lines) + "\n"
