"""One update of an eigenspace, beside scikit-learn's IncrementalPCA; and what many updates cost.

Both keep 64 components of 4096 pixels and are fed one row at a time. IncrementalPCA gets its first
64 rows as one batch, as it must; only rows after that are timed.
"""

from collections.abc import Iterator

import numpy as np
from sklearn.decomposition import IncrementalPCA

from benchmarks.side_by_side import Line, best_seconds
from everlearn import StreamingPCA

WIDTH, COMPONENTS, ROWS = 4096, 64, 64
LONG_STREAM = 100_000


def _rows(n_rows: int, width: int, seed: int = 0) -> np.ndarray:
    """Rows whose spectrum falls off as that of images does."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_rows, width)) / np.sqrt(1.0 + np.arange(width))


def _one_by_one(X: np.ndarray, learn: object) -> None:
    for x in X:
        learn(x)  # type: ignore[operator]


def lines() -> Iterator[Line]:
    X = _rows(COMPONENTS + ROWS, WIDTH)
    first, timed = X[:COMPONENTS], X[COMPONENTS:]
    ours = StreamingPCA(n_components=COMPONENTS).fit(first)
    published = StreamingPCA(n_components=COMPONENTS, guard=0).fit(first)
    keeping = StreamingPCA(n_components=COMPONENTS, keep_coefficients=True).fit(first)
    theirs = IncrementalPCA(COMPONENTS).partial_fit(first)
    seconds = best_seconds(
        {
            "ours": lambda: _one_by_one(timed, ours.learn_one),
            "published": lambda: _one_by_one(timed, published.learn_one),
            "keeping": lambda: _one_by_one(timed, keeping.learn_one),
            "theirs": lambda: _one_by_one(timed, lambda x: theirs.partial_fit(x[None])),
        }
    )
    per_row = {name: 1e3 * total / ROWS for name, total in seconds.items()}
    yield Line(
        "one update, d=4096, k=64, against IncrementalPCA fed one row at a time",
        f"{per_row['theirs'] / per_row['ours']:.1f}x faster "
        f"({per_row['ours']:.2f} ms to {per_row['theirs']:.2f} ms)",
        "≥ 5x",
    )
    yield Line(
        "the same as published (guard=0); and with coefficients kept",
        f"{per_row['theirs'] / per_row['published']:.1f}x; "
        f"{per_row['theirs'] / per_row['keeping']:.1f}x",
        "≥ 5x",
    )
    early = StreamingPCA(n_components=COMPONENTS).fit(_rows(200, WIDTH))
    late = StreamingPCA(n_components=COMPONENTS).fit(_rows(200, WIDTH))
    for part in range(10):
        late.partial_fit(_rows(1000, WIDTH, seed=part))
    seconds = best_seconds(
        {
            "early": lambda: _one_by_one(timed, early.learn_one),
            "late": lambda: _one_by_one(timed, late.learn_one),
        }
    )
    yield Line(
        "one update after 10,200 images against one after 200",
        f"{seconds['late'] / seconds['early']:.2f}x the time",
        "flat: about 1",
    )
    for guard in (8, 0):
        pca = StreamingPCA(n_components=16, guard=guard)
        rng = np.random.default_rng(0)
        for _ in range(100):
            pca.partial_fit(100.0 + rng.normal(size=(LONG_STREAM // 100, 256)))
        off = np.linalg.norm(pca.components_ @ pca.components_.T - np.eye(16))
        yield Line(
            f"orthonormality after 100,000 updates, guard={guard}: ‖UUᵀ − I‖",
            f"{off:.1e}",
            "≤ 1e-10",
        )
