"""How everything here is measured: rivals interleaved in one run, BLAS at one thread.

The machine may be shared and noisy, so what is counted is processor time, and ratios say more
than seconds: each contender runs in turn, several rounds over, and its best round counts.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from threadpoolctl import threadpool_limits


@dataclass(frozen=True)
class Line:
    """One row of the results table, and one sentence a person can quote."""

    claim: str
    measured: str
    wanted: str

    def __str__(self) -> str:
        return f"{self.claim}: {self.measured} (wanted: {self.wanted})"


def best_seconds(
    contenders: Mapping[str, Callable[[], object]], *, rounds: int = 5
) -> dict[str, float]:
    """Processor seconds of each contender's best round; rounds are interleaved."""
    best = dict.fromkeys(contenders, float("inf"))
    with threadpool_limits(limits=1):
        for _ in range(rounds):
            for name, run in contenders.items():
                start = time.process_time()
                run()
                best[name] = min(best[name], time.process_time() - start)
    return best
