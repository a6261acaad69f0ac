from .suite import CheckResult as CheckResult
from .suite import check_learner as check_learner

__all__: list[str]
