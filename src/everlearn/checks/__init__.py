"""The contract of a streaming learner, as a suite anyone can run on their own estimator.

    >>> from everlearn import NearestClassMean, check_learner
    >>> results = check_learner(NearestClassMean())

Every check is a function named after the promise it tests. Some promises are made by every
learner; others only by those that say so in ``promises`` (see :class:`everlearn.base.Promise`), or
that have the method in question. What does not apply is reported as skipped, with the reason.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
