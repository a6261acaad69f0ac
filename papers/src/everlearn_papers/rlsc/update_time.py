"""The time of an update against the number of examples: the title of Camoriano et al. (2017).

After n examples one more is learned and a question asked, which brings the weights up to date:
O(d²) whatever n is. Beside it, training a batch of n + 1 examples from nothing: O(n d²). Both are
the library's least squares with the same λ, in processor time of one thread; the
median of several updates.
"""

from time import thread_time

import numpy as np

from everlearn.learners.rlsc import RecursiveRLSC
from everlearn_papers.data import packs
from everlearn_papers.repeat import Result

REPEATS, BATCHES = 30, 3


def update_times(seed: int, *, sizes: list[int]) -> Result:
    """Milliseconds of an update and of a training, by how many examples came before."""
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
