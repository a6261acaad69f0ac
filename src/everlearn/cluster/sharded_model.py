"""A learner with a ledger of its shards: the result of a fit, and every part of it.

A part made by one worker, a partial merge in a checkpoint and the finished model are all a
``ShardedModel``. They can be merged, and are saved and loaded like a learner.

The ledger lists the shards that were learned. A shard that is in it is never added again, so the
sum stays exact whatever fails.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Self

from everlearn.base import State, StreamingClassifier
from everlearn.cluster.shards import address_of
from everlearn.errors import AlreadyLearned, NeverLearned, NotMergeable


@dataclass(frozen=True)
class Entry:
    """The number of rows learned from a shard, and its problems."""

    rows: int
    problems: tuple[str, ...] = ()


class ShardedModel:
    """What was learned from some shards.

    Attributes
    ----------
    learner : the fitted learner
        None if images were embedded without learning.
    ledger : dict of str to Entry
        By the identity of each shard.
    job : str
        A digest of everything that determines the contribution of a shard: the learner's
        parameters, the names of the columns, the embedder.

    Notes
    -----
    ``everlearn.save(model, path)`` writes both to one file; ``everlearn.load`` reads it.

    *Cost*: that of the learner, and about 150 bytes per shard.

    *Promises*: a shard counts once; merging two that share one raises ``AlreadyLearned`` and
    changes nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from everlearn import NearestClassMean
    >>> from everlearn.cluster import fit
    >>> shard = np.array([[0.0], [1.0]]), np.array(["cup", "pen"])
    >>> model = fit(NearestClassMean(), [shard], engine="local")  # doctest: +SKIP
    >>> len(model.ledger), model.learner.predict([[0.2]]).tolist()  # doctest: +SKIP
    (1, ['cup'])
    """

    def __init__(
        self,
        learner: Any = None,
        ledger: dict[str, Entry] | None = None,
        job: str = "",
    ) -> None:
        self.learner = learner
        self.ledger = {} if ledger is None else ledger
        self.job = job

    def __repr__(self) -> str:
        return f"ShardedModel({self.learner!r}, {len(self.ledger)} shards, {self.rows} rows)"

    @property
    def rows(self) -> int:
        """Number of examples learned."""
        return sum(entry.rows for entry in self.ledger.values())

    @property
    def addresses(self) -> list[str]:
        """The addresses of the shards, sorted."""
        return sorted(map(address_of, self.ledger))

    @property
    def bad(self) -> dict[str, tuple[str, ...]]:
        """What could not be learned, by the address of its shard."""
        return {
            address_of(identity): entry.problems
            for identity, entry in sorted(self.ledger.items())
            if entry.problems
        }

    def merge(self, other: "ShardedModel") -> Self:
        """Add what was learned from other shards.

        Raises ``AlreadyLearned``, and changes nothing, if a shard is in both, in any version.
        """
        if self.job != other.job:
            raise NotMergeable(
                "these were made with different learners, columns or embedders; merge results of "
                "the same kind of fit"
            )
        known = set(map(address_of, self.ledger))
        both = sorted(known & set(map(address_of, other.ledger)))
        if both:
            raise AlreadyLearned(
                f"{both[0]} and {len(both) - 1} more are part of both; unlearn them in one first"
                if len(both) > 1
                else f"{both[0]} is part of both; unlearn it in one first"
            )
        self._require_learner_of(other)
        if self.learner is not None:
            self.learner.merge(other.learner)
        self.ledger.update(other.ledger)
        return self

    def unmerge(self, other: "ShardedModel") -> Self:
        """Remove the contribution of some of the shards; the inverse of :meth:`merge`."""
        unknown = sorted(other.ledger.keys() - self.ledger.keys())
        if unknown:
            raise NeverLearned(
                f"{address_of(unknown[0])}, in this version, is not part of this model"
            )
        if self.job != other.job:
            raise NotMergeable("this was made with another learner, other columns or embedder")
        self._require_learner_of(other)
        if self.learner is not None:
            self.learner.unmerge(other.learner)
        for identity in other.ledger:
            del self.ledger[identity]
        return self

    def matching(self, addresses: str | Iterable[str]) -> list[str]:
        """The identities of the shards at some addresses, which may be patterns."""
        wanted = [addresses] if isinstance(addresses, str) else list(addresses)
        found: list[str] = []
        for pattern in wanted:
            patterns = (pattern, os.path.realpath(pattern))
            matches = [
                identity
                for identity in sorted(self.ledger)
                if address_of(identity) in patterns
                or any(fnmatchcase(address_of(identity), each) for each in patterns)
            ]
            if not matches:
                raise NeverLearned(f"{pattern} is not a shard of this model; see .addresses")
            found += matches
        return list(dict.fromkeys(found))

    def _require_learner_of(self, other: "ShardedModel") -> None:
        if (self.learner is None) != (other.learner is None):
            raise NotMergeable("one of these has no learner: its images were embedded only")

    # The interface persistence needs.

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        return {}

    def _state(self) -> State:
        return {}, {
            "model": self.learner,
            "job": self.job,
            "shards": list(self.ledger),
            "rows": [entry.rows for entry in self.ledger.values()],
            "problems": [list(entry.problems) for entry in self.ledger.values()],
        }

    def _restore(self, arrays: dict[str, Any], notes: dict[str, Any]) -> None:
        if not isinstance(notes["model"], StreamingClassifier | None):
            raise ValueError("it contains no learner")
        self.learner = notes["model"]
        self.job = str(notes["job"])
        entries = zip(notes["shards"], notes["rows"], notes["problems"], strict=True)
        self.ledger = {
            str(shard): Entry(int(rows), tuple(map(str, problems)))
            for shard, rows, problems in entries
        }


# The name before 0.2; files and imports that use it still work.
Trained = ShardedModel
