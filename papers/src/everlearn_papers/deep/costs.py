"""Sec. 4.5: seconds that streaming LDA and its rivals take for the five tasks of CIFAR-100.

Every method is measured in a process of its own with nothing beside it, from pictures in memory to
a model that has answered one question: for the closed-form learners and ExStream this includes the
pass of the network over a task's pictures, for the rivals all of their training. The base task is
learned before the clock starts. The rivals have the settings that their search chose, ExStream the
rate that it took.
"""

from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from everlearn.size import size_in_bytes
from everlearn_papers.deep.cifar import Scale, base_embedder, pictures, race
from everlearn_papers.deep.incremental import tasks_of
from everlearn_papers.deep.race import epochs_of
from everlearn_papers.deep.streams import LEARNERS
from everlearn_papers.deep.tables import ONE_BY_ONE

# Rate and distillation weight of the rivals, rate of ExStream.
RIVALS = {"iCaRL": (0.01, 0.5), "End-to-End": (0.01, 1.0)}
EXSTREAM_RATE = 0.1


def cost(scale: Scale, folder: Path, name: str) -> dict[str, Any]:
    """Return seconds task by task, without the base, and the bytes kept beside the network."""
    return _rival(scale, folder, name) if name in RIVALS else _streamed(scale, folder, name)


def _rival(scale: Scale, folder: Path, name: str) -> dict[str, Any]:
    contest = race(scale, folder, name)
    rate, regularization = RIVALS[name]
    course = contest.course(rate, regularization)
    return {
        "seconds": course.seconds[1:],
        "bytes_kept": course.bytes_kept,
        "accuracy": course.accuracies[-1],
        "rate": rate,
        "regularization": regularization,
        **epochs_of(contest.contender, contest.recipe.epochs),
    }


def _streamed(scale: Scale, folder: Path, name: str) -> dict[str, Any]:
    train, test = pictures(scale)
    embedder = base_embedder(scale, folder)
    method = name.removesuffix(ONE_BY_ONE)
    learner = LEARNERS[method](EXSTREAM_RATE) if method == "ExStream" else LEARNERS[method]()
    rng = np.random.default_rng(scale.seed)
    seconds: list[float] = []
    embedding: list[float] = []
    for classes in tasks_of(scale.n_classes, scale.base, scale.step):
        task = train.of(classes)
        order = rng.permutation(len(task.slots))
        begin = perf_counter()
        vectors = embedder.embed(task.pixels)[order].astype(np.float64)
        embedded = perf_counter()
        if name.endswith(ONE_BY_ONE) and seconds:
            for x, slot in zip(vectors, task.slots[order].tolist(), strict=True):
                learner.learn_one(x, slot)
        else:
            learner.partial_fit(vectors, task.slots[order])
        learner.predict(vectors[:1])
        seconds.append(perf_counter() - begin)
        embedding.append(embedded - begin)
    answers = learner.predict(embedder.embed(test.pixels).astype(np.float64))
    settings = {"rate": EXSTREAM_RATE} if method == "ExStream" else {}
    return {
        **settings,
        "seconds": seconds[1:],
        "embedding seconds": sum(embedding[1:]),
        "bytes_kept": size_in_bytes(learner),
        "accuracy": float(np.mean(answers == test.slots)),
    }
