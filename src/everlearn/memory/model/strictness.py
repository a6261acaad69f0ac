"""How strict *unknown* is: a share stored in the folder."""

from everlearn.errors import InvalidParameter
from everlearn.memory.storage.journal import Journal

ACCEPT = "accept"
USUAL_ACCEPT = 0.95


def accept_of(journal: Journal) -> float:
    """The share of familiar things that should not be called unknown, as stored."""
    written = journal.fact(ACCEPT)
    if written is None:
        return USUAL_ACCEPT
    try:
        accept = float(written)
    except ValueError:
        return USUAL_ACCEPT
    return accept if 0.0 < accept < 1.0 else USUAL_ACCEPT


def require_share(accept: float) -> None:
    """Require a share between 0 and 1."""
    if not 0.0 < accept < 1.0:
        raise InvalidParameter(f"accept must be a share between 0 and 1, not {accept!r}")
