"""The time of an update against the number of examples: the title of Camoriano et al. (2017).

After n examples one more is learned and one prediction made, which updates the weights: O(d²),
independent of n. For comparison, a batch of n examples is trained from scratch: O(n d²). Both use
the library's least squares with the same λ. Times are processor time of one thread: the median of
the updates, the minimum of the batch runs.
"""

from time import thread_time

import numpy as np

from everlearn.learners.rlsc import RecursiveRLSC
from everlearn_papers.data import packs
from everlearn_papers.repeat import Result

REPEATS, BATCHES = 30, 3
SETTINGS = {"updates": REPEATS, "batches": BATCHES, "λ": 1.0, "α": 0.7}


def update_times(seed: int, *, sizes: list[int]) -> Result:
    """Return milliseconds of an update and of batch training, by number of earlier examples."""
    train = packs.mnist().train
    order = np.random.default_rng(seed).permutation(len(train.y))
    learner = RecursiveRLSC(regularization=1.0, recoding=0.7)
    result: Result = {"update": [], "batch": []}
    taught = 0
    for size in sizes:
        part = train.take(order[taught:size])
        learner.partial_fit(part.X, part.y)
        taught = size
        learner.predict(train.X[:1])
        times = []
        for place in range(size, size + REPEATS):
            x, label = train.X[order[place]], train.y[order[place]].item()
            begin = thread_time()
            learner.learn_one(x, label)
            learner.predict_one(x)
            times.append(thread_time() - begin)
        taught += REPEATS
        result["update"].append(1e3 * float(np.median(times)))
        times = []
        for _ in range(BATCHES):
            X, y = train.X[order[:size]], train.y[order[:size]]
            begin = thread_time()
            RecursiveRLSC(regularization=1.0, recoding=0.7).fit(X, y).predict_one(X[0])
            times.append(thread_time() - begin)
        result["batch"].append(1e3 * min(times))
    return result
