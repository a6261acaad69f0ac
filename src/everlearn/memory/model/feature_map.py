"""The feature map before a Memory's classifier: identity, or a signed power at length one.

A linear classifier behind a :class:`~everlearn.PowerNormalizer` is linear in what it sees. So all
that is known of linear classifiers (the effect of one teaching, leaving one out, one matrix for a
question, an ONNX file) holds for the two together, with the vector that is seen in place of the one
that was shown. Here the two are taken apart.
"""

from typing import Any

from everlearn.pipeline import StreamPipeline
from everlearn.preprocessing.normalization import PowerNormalizer

# Of a classifier that sees vectors as they are.
IDENTITY = 1.0


def power_and_learner(classifier: Any) -> tuple[float, Any]:
    """The power through which a classifier sees vectors of length one, and what sees them."""
    if isinstance(classifier, StreamPipeline) and len(classifier.steps) == 2:
        (_, first), (_, learner) = getattr(classifier, "steps_", classifier.steps)
        if type(first) is PowerNormalizer and first.unit_length:
            return float(first.power), learner
    return IDENTITY, classifier
