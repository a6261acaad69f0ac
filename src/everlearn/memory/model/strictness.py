"""How strict *unknown* is: the share ``accept``, stored in the journal."""

from numbers import Real

from everlearn.errors import InvalidParameter
from everlearn.memory.storage.journal import Journal

ACCEPT = "accept"
USUAL_ACCEPT = 0.95


def accept_of(journal: Journal) -> float:
    """The stored share of familiar things that should not be called unknown, or the default."""
    written = journal.fact(ACCEPT)
    if written is None:
        return USUAL_ACCEPT
    try:
        accept = float(written)
    except ValueError:
        return USUAL_ACCEPT
    return accept if 0.0 < accept < 1.0 else USUAL_ACCEPT


def require_accept(accept: object) -> None:
    """Require a number strictly between 0 and 1.

    :func:`everlearn.validation.require_share` does the same, but imports scikit-learn, which
    answering from a serving head does without.
    """
    if not isinstance(accept, Real) or not 0.0 < float(accept) < 1.0:
        raise InvalidParameter(f"accept must be a share between 0 and 1, not {accept!r}")
