"""The feature map before a Memory's classifier: identity, or a signed power at length one.

A linear classifier behind a :class:`~everlearn.PowerNormalizer` is linear in the mapped features.
Everything that holds for linear classifiers (the influence of one teaching, leave-one-out, scoring
by one matrix, ONNX export) therefore holds for the pair, with the mapped vector in place of the
original. This file separates the two.
"""

from typing import Any

from everlearn.pipeline import StreamPipeline
from everlearn.preprocessing.normalization import PowerNormalizer

# The exponent that changes nothing.
IDENTITY = 1.0


def power_and_learner(classifier: Any) -> tuple[float, Any]:
    """The exponent applied to vectors of length one, and the learner behind it."""
    if isinstance(classifier, StreamPipeline) and len(classifier.steps) == 2:
        (_, first), (_, learner) = getattr(classifier, "steps_", classifier.steps)
        if type(first) is PowerNormalizer and first.unit_length:
            return float(first.power), learner
    return IDENTITY, classifier
