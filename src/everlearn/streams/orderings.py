"""Orderings of a stream.

Every function takes labels (and instances) and returns positions; nothing is copied, and the same
seed gives the same order.

    iid, class_iid, instance, class_instance     Hayes and Kanan 2020, Sec. 4.2
    class_batches                                Ristin et al. 2015: k classes, then s at a time
    balanced_then_rare                           Camoriano et al. 2017, Sec. VI-A
    alternating                                  Tommasi et al. 2012: positive, negative, …
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from everlearn.errors import InvalidParameter, NoInstances, TooFewExamples
from everlearn.streams.examples import Indices

Seed = int | np.random.Generator


def iid(y: ArrayLike, seed: Seed = 0) -> Indices:
    """All examples shuffled."""
    return np.random.default_rng(seed).permutation(len(np.asarray(y)))


def class_iid(y: ArrayLike, seed: Seed = 0) -> Indices:
    """One class after another, in random order; shuffled within each class."""
    rng = np.random.default_rng(seed)
    labels = np.asarray(y)
    classes = rng.permutation(np.unique(labels))
    return _joined([rng.permutation(np.flatnonzero(labels == label)) for label in classes])


def instance(y: ArrayLike, instances: ArrayLike | None, seed: Seed = 0) -> Indices:
    """One video after another, in random order, each in its recorded order; classes recur."""
    rng = np.random.default_rng(seed)
    videos = _videos(y, instances)
    return _joined([videos[index] for index in rng.permutation(len(videos))])


def class_instance(y: ArrayLike, instances: ArrayLike | None, seed: Seed = 0) -> Indices:
    """One class after another; its videos one after another, each in its recorded order."""
    rng = np.random.default_rng(seed)
    labels = np.asarray(y)
    videos = _videos(labels, instances)
    order: list[Indices] = []
    for label in rng.permutation(np.unique(labels)):
        own = [video for video in videos if labels[video[0]] == label]
        order.extend(own[index] for index in rng.permutation(len(own)))
    return _joined(order)


def class_batches(
    y: ArrayLike,
    *,
    initial: int,
    step: int,
    seed: Seed = 0,
    classes: ArrayLike | None = None,
) -> list[Indices]:
    """First the examples of ``initial`` classes, then those of ``step`` more at a time.

    The last batch holds the rest. Classes come in random order, or in that of ``classes``; examples
    of a batch are shuffled.
    """
    labels = np.asarray(y)
    rng = np.random.default_rng(seed)
    classes = rng.permutation(np.unique(labels)) if classes is None else np.asarray(classes)
    if not 1 <= initial <= len(classes) or step < 1:
        raise InvalidParameter(
            f"initial must be between 1 and the number of classes, {len(classes)}, and step at "
            f"least 1, not {initial} and {step}"
        )
    starts = [0, *range(initial, len(classes), step), len(classes)]
    return [
        rng.permutation(np.flatnonzero(np.isin(labels, classes[start:stop])))
        for start, stop in pairwise(starts)
        if stop > start
    ]


@dataclass(frozen=True)
class RareClassSplit:
    """Positions of the balanced part, the rare class one by one, and the validation part."""

    balanced: Indices
    rare: Indices
    validation: Indices


def balanced_then_rare(
    y: ArrayLike,
    rare: Any,
    *,
    n_balanced: int,
    n_rare: int,
    n_validation: int = 0,
    seed: Seed = 0,
) -> RareClassSplit:
    """``n_balanced`` examples of every class but one, then up to ``n_rare`` of that one.

    Validation examples are of the balanced classes only, as in Sec. VI-A, step 3.
    """
    rng = np.random.default_rng(seed)
    labels = np.asarray(y)
    classes = np.unique(labels)
    if rare not in classes:
        raise InvalidParameter(f"no example is labelled {rare!r}, so it cannot be the rare class")
    shuffled = {label: rng.permutation(np.flatnonzero(labels == label)) for label in classes}
    for label, found in shuffled.items():
        needed = n_rare if label == rare else n_balanced + n_validation
        if len(found) < needed:
            raise TooFewExamples(
                f"class {label!r} has {len(found)} examples, the protocol takes {needed}"
            )
    others = [label for label in classes if label != rare]
    return RareClassSplit(
        balanced=rng.permutation(_joined([shuffled[label][:n_balanced] for label in others])),
        rare=shuffled[rare][:n_rare],
        validation=_joined(
            [shuffled[label][n_balanced : n_balanced + n_validation] for label in others]
        ),
    )


def alternating(y: ArrayLike, positive: Any, seed: Seed = 0) -> Indices:
    """Alternate examples of ``positive`` and of other classes until either runs out."""
    rng = np.random.default_rng(seed)
    labels = np.asarray(y)
    ours = rng.permutation(np.flatnonzero(labels == positive))
    theirs = rng.permutation(np.flatnonzero(labels != positive))
    if not len(ours) or not len(theirs):
        raise TooFewExamples(
            f"there are {len(ours)} examples of {positive!r} and {len(theirs)} of other classes; "
            "alternating needs both"
        )
    length = min(len(ours), len(theirs))
    return np.column_stack([ours[:length], theirs[:length]]).ravel()


def _videos(y: ArrayLike, instances: ArrayLike | None) -> list[Indices]:
    """The positions of each instance of each class, in the order recorded."""
    if instances is None:
        raise NoInstances(
            "this ordering shows one instance (an object, a video) after another, but the data "
            "have none; give instances, or use iid or class_iid"
        )
    labels = np.asarray(y)
    _, video = np.unique(np.asarray(instances), return_inverse=True)
    _, label = np.unique(labels, return_inverse=True)
    key = video * (label.max() + 1) + label
    return [np.flatnonzero(key == value) for value in np.unique(key)]


def _joined(parts: list[NDArray[np.intp]]) -> Indices:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.intp)
