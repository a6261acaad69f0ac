"""Unlearns shards of a finished model, without reading their rows."""

from typing import Any

from sklearn.base import clone

from everlearn.cluster.sharded_model import Entry, ShardedModel
from everlearn.cluster.shards import address_of
from everlearn.cluster.store import PARTS, SHARDS, CheckpointStore, name_of_shard
from everlearn.cluster.vectors import remove_vectors
from everlearn.errors import NotKept

NOTHING = Entry(0)


def unlearn(trained: ShardedModel, addresses: Any, checkpoint: str) -> list[str]:
    """Remove shards from a model, as if they had never been learned.

    Their rows are not read again: the contribution of each was stored (``keep_shards=True``) and is
    subtracted. Then it is erased from the checkpoint, together with the shards' vectors and merged
    parts that include them.

    Parameters
    ----------
    trained : ShardedModel
    addresses : str or list of str
        May be patterns: ``"s3://photos/supplier-7/*"``.
    checkpoint : address
        Where the contributions were stored.

    Returns
    -------
    list of str
        The addresses removed.

    Raises
    ------
    NotKept
        If one of them was not stored; nothing is changed then.
    """
    store = CheckpointStore(checkpoint)
    identities = trained.matching(addresses)
    if not identities:
        return []
    contributions: dict[str, ShardedModel] = {}
    for identity in identities:
        part = store.read(name_of_shard(trained.job, identity), SHARDS)
        if part is None and trained.ledger[identity].rows:
            raise NotKept(
                f"the contribution of {address_of(identity)} was not stored in {checkpoint}; fit "
                "with keep_shards=True, or fit again without this shard"
            )
        contributions[identity] = part or ShardedModel(
            clone(trained.learner), {identity: NOTHING}, trained.job
        )
    total = contributions.pop(identities[0])
    for part in contributions.values():
        total.merge(part)
    trained.unmerge(total)
    for identity in identities:
        store.remove(name_of_shard(trained.job, identity), SHARDS)
    _remove_merged_parts(store, set(identities))
    remove_vectors(store, identities)
    return [address_of(identity) for identity in identities]


def _remove_merged_parts(store: CheckpointStore, gone: set[str]) -> None:
    """Remove merged parts that include these shards, and those that cannot be read."""
    for name in store.names(PARTS):
        part = store.read(name, PARTS)
        if part is None or gone & part.ledger.keys():
            store.remove(name, PARTS)
