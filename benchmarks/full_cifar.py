"""All of CIFAR-100, one pass, class by class: 50,000 pictures to learn, 10,000 to ask.

Features of EfficientNet-Lite0, signed root and length one, ReLU features ``WIDTH`` wide, ridge
regression with an intercept. λ is chosen from the training pictures alone; test pictures are asked
once, at the end. ``WIDTH``² numbers of memory, three times for a while.

On the host λ is chosen after the pass, from the statistics: ten training pictures of each class are
answered without themselves, for one λ after the other, as long as they are answered better. With
``EVERLEARN_DEVICE=cuda`` everything is computed on that device, λ is chosen by ``"auto"`` (held-out
training pictures), and the mean of ``SEEDS`` draws of the features is given.
"""

import os
import time
from collections.abc import Iterator

import numpy as np
from everlearn_papers.data.embedded import cifar100

from benchmarks.side_by_side import Line
from everlearn import PowerNormalizer, RandomFeatures, RecursiveRLSC, StreamPipeline
from everlearn.learners.leave_one_out import LeastSquaresPath, Rows
from everlearn.streams.examples import Examples

WIDTH = 16_000
SEEDS = 5
OF_EACH = 10
CHUNK = 5_000
# λ for each class, example and unit of variance where the search begins, and the step of the grid.
USUAL, STEP = 8.0, 3.0


def chosen_regularization(pipeline: StreamPipeline, X: np.ndarray, y: np.ndarray) -> float:
    """λ by leaving one out, from the statistics of the last step."""
    learner = pipeline.named_steps["learn"]
    few = np.concatenate([np.flatnonzero(y == label)[:OF_EACH] for label in np.unique(y)])
    seen = pipeline.named_steps["wide"].transform(pipeline.named_steps["root"].transform(X[few]))
    slots = learner.registry_.slots(y[few])
    path = LeastSquaresPath(learner.moments_, Rows(seen, slots, np.ones(len(few))))
    variance = path.mean_variance * len(seen[0]) / X.shape[1]
    tried: dict[int, float] = {}

    def right(power: int) -> float:
        if power not in tried:
            lam = USUAL * len(np.unique(y)) / len(y) * variance * STEP**power
            tried[power] = float(np.mean(path.scores(lam).argmax(axis=1) == slots))
            print(f"  λ {lam:.3g}: {tried[power]:.1%} without themselves", flush=True)
        return tried[power]

    best = 0
    for way in (1, -1):
        while right(best + way) > right(best):
            best += way
    return USUAL * len(np.unique(y)) / len(y) * variance * STEP**best


def lines() -> Iterator[Line]:
    width = int(os.environ.get("EVERLEARN_WIDTH", WIDTH))
    data = cifar100()
    order = np.argsort(data.train.y, kind="stable")
    X, y = data.train.X[order], np.asarray(data.train.y)[order]
    device = os.environ.get("EVERLEARN_DEVICE")
    yield from elsewhere(device, width, X, y, data.test) if device else here(width, X, y, data.test)


def wide(width: int, seed: int, **how: object) -> StreamPipeline:
    return StreamPipeline(
        [
            ("root", PowerNormalizer()),
            ("wide", RandomFeatures(n_components=width, random_state=seed)),
            ("learn", RecursiveRLSC(recoding=0.0, fit_intercept=True, **how)),
        ]
    )


def here(width: int, X: np.ndarray, y: np.ndarray, test: Examples) -> Iterator[Line]:
    pipeline = wide(width, 0)
    start = time.perf_counter()
    for first in range(0, len(y), CHUNK):
        pipeline.partial_fit(X[first : first + CHUNK], y[first : first + CHUNK])
        print(f"  {first + CHUNK} learned, {time.perf_counter() - start:.0f} s", flush=True)
    lam = chosen_regularization(pipeline, X, y)
    pipeline.named_steps["learn"].set_params(regularization=lam)
    share = float(np.mean(pipeline.predict(test.X) == test.y))
    yield Line(
        f"all of CIFAR-100, class by class, one pass, root and {width:,} ReLU features",
        f"{share:.2%} (λ {lam:.3g} by leaving one out), {time.perf_counter() - start:.0f} s",
        "≥ 69.5 %",
    )


def elsewhere(
    device: str, width: int, X: np.ndarray, y: np.ndarray, test: Examples
) -> Iterator[Line]:
    shares, seconds = [], []
    for seed in range(SEEDS):
        pipeline = wide(width, seed, regularization="auto").to(device)
        start = time.perf_counter()
        for first in range(0, len(y), CHUNK):
            pipeline.partial_fit(X[first : first + CHUNK], y[first : first + CHUNK])
        shares.append(float(np.mean(pipeline.predict(test.X) == test.y)))
        seconds.append(time.perf_counter() - start)
        print(f"  draw {seed}: {shares[-1]:.2%}, {seconds[-1]:.1f} s", flush=True)
    yield Line(
        f"the same on {device}, {width:,} wide",
        f"{np.mean(shares):.2%} ± {np.std(shares):.2%}, {SEEDS} draws, {np.median(seconds):.1f} s",
        "≥ 69.5 %",
    )
