"""Peak memory of learning a large table, beside scikit-learn's, each in a separate process.

100,000 rows of 512 float32 features, 100 classes, 205 MB on disk. Estimators that learn
incrementally read 1,024 rows at a time from the file; the others get the whole table. Peak is the
highest resident memory of the process minus that of the same process after a first fit of 200 rows.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.side_by_side import Line

ROWS, WIDTH, CLASSES, PART = 100_000, 512, 100, 1024
TESTED = 5_000


def lines() -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.f4"
        write(path)
        for name in SUBJECTS:
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.large_data", name, path],
                capture_output=True,
                text=True,
                check=True,
            )
            found = json.loads(done.stdout.splitlines()[-1])
            yield Line(
                f"peak memory to learn 205 MB of rows: {name}",
                f"{found['MB']:.0f} MB, {found['seconds']:.0f} s, "
                f"{found['accuracy']:.1%} of {TESTED} others right",
                "",
            )


def write(path: Path) -> None:
    """Overlapping Gaussian classes, in a fixed order."""
    with path.open("wb") as file:
        for start in range(0, ROWS + TESTED, PART):
            file.write(_part(start).tobytes())


def _part(start: int) -> np.ndarray:
    noise = np.random.default_rng(start).normal(size=(PART, WIDTH))
    centres = np.random.default_rng(0).normal(scale=1 / 6, size=(CLASSES, WIDTH))
    return (noise + centres[_labels(start, PART)]).astype(np.float32)


def _labels(start: int, count: int) -> np.ndarray:
    return np.arange(start, start + count) * 7919 % CLASSES


def rows(path: Path, start: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    table = np.fromfile(path, np.float32, count * WIDTH, offset=4 * WIDTH * start)
    return table.reshape(-1, WIDTH), _labels(start, count)


def by_parts(path: Path, estimator: Any, **how: Any) -> Any:
    for start in range(0, ROWS, PART):
        estimator.partial_fit(*rows(path, start, min(PART, ROWS - start)), **how)
    return estimator


def at_once(path: Path, estimator: Any) -> Any:
    return estimator.fit(*rows(path, 0, ROWS))


def _streaming_lda() -> Any:
    from everlearn import StreamingLDA

    return StreamingLDA(shrinkage=0.1)


def _sgd() -> Any:
    from sklearn.linear_model import SGDClassifier

    return SGDClassifier(random_state=0)


def _lda(**how: Any) -> Any:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    return LinearDiscriminantAnalysis(**how)


SUBJECTS: dict[str, tuple[Callable[[], Any], Callable[[Path, Any], Any]]] = {
    "StreamingLDA, 1,024 rows at a time": (_streaming_lda, by_parts),
    "StreamingLDA, all at once": (_streaming_lda, at_once),
    "SGDClassifier, 1,024 rows at a time, classes told": (
        _sgd,
        lambda path, estimator: by_parts(path, estimator, classes=np.arange(CLASSES)),
    ),
    "LinearDiscriminantAnalysis(solver='lsqr', shrinkage=0.1), all at once": (
        lambda: _lda(solver="lsqr", shrinkage=0.1),
        at_once,
    ),
    "LinearDiscriminantAnalysis(), all at once": (_lda, at_once),
}


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(name: str, path: Path) -> None:
    make, learn = SUBJECTS[name]
    estimator = make()
    # Compiled and warmed up, on a few rows with the same number of features.
    warm = make()
    X, y = rows(path, 0, 2 * CLASSES)
    warm.fit(X, y).predict(X)
    before, start = _peak_mb(), time.perf_counter()
    learn(path, estimator)
    seconds, peak = time.perf_counter() - start, _peak_mb() - before
    X, y = rows(path, ROWS, TESTED)
    right = float(np.mean(estimator.predict(X) == y))
    print(json.dumps({"MB": peak, "seconds": seconds, "accuracy": right}))


if __name__ == "__main__":
    measure(sys.argv[1], Path(sys.argv[2]))
