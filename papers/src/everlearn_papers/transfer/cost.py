"""Sec. 2 of Tommasi et al. (2012): the cost of learning T samples, online and by Multi-KT.

Multi-KT solves a system of T samples with k priors, O(T³ + k T²), again for every new sample; TROL
makes one step per sample over the current support vectors, O(T²) for all T. Processor time is
measured on samples with random labels, so that nearly all become support vectors.
"""

from time import process_time
from typing import Any

import numpy as np

from everlearn.transfer.multi_kt import MultiKT
from everlearn.transfer.passive_aggressive import PassiveAggressive
from everlearn.transfer.trol import TROL
from everlearn_papers.repeat import Result

N_FEATURES, N_PRIORS, REPEATS = 32, 3, 3
SETTINGS = {"features": N_FEATURES, "priors": N_PRIORS, "best of": REPEATS}


def learning_times(seed: int, *, sizes: list[int]) -> Result:
    """Processor seconds to learn each number of samples: TROL online, Multi-KT in one batch."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(max(sizes), N_FEATURES))
    y = rng.permutation(np.arange(len(X)) % 2)
    priors = [_prior(j) for j in range(N_PRIORS)]
    online = PassiveAggressive(kernel="rbf", gamma=0.1)
    made: dict[str, Any] = {
        "TROL": lambda: TROL(prior_models=priors, online=online),
        "Multi-KT": lambda: MultiKT(prior_models=priors, kernel="rbf", gamma=0.1),
    }
    result: Result = {name: [] for name in made}
    for name, make in made.items():
        make().partial_fit(X[:20], y[:20]).predict(X[:1])  # warm-up: compiles
        for size in sizes:
            times = []
            for _ in range(REPEATS):
                begin = process_time()
                make().partial_fit(X[:size], y[:size]).predict(X[:1])
                times.append(process_time() - begin)
            result[name].append(min(times))
    return result


def growth(sizes: list[int], seconds: list[float]) -> float:
    """Exponent p of T^p between the last two sizes."""
    return float(np.log(seconds[-1] / seconds[-2]) / np.log(sizes[-1] / sizes[-2]))


def _prior(column: int) -> Any:
    return lambda X: np.asarray(X)[:, column]
