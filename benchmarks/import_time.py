"""How long ``import everlearn`` takes in a fresh interpreter."""

import subprocess
import sys
from collections.abc import Iterator

from benchmarks.side_by_side import Line

PROGRAM = (
    "import time; start = time.perf_counter(); import everlearn; "
    "print(time.perf_counter() - start); import sys; "
    "print(*{m.split('.')[0] for m in sys.modules} & {'numba', 'matplotlib', 'torch'})"
)


def lines() -> Iterator[Line]:
    times = []
    for _ in range(7):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
        )
        seconds, heavy = done.stdout.split("\n")[:2]
        times.append(float(seconds))
    yield Line(
        "import everlearn in a fresh interpreter",
        f"{min(times):.2f} s, pulling {heavy or 'no heavy package'}",
        "< 0.5 s, neither numba nor matplotlib",
    )
