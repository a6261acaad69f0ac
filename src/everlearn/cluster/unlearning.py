"""Unlearning shards of a finished model, without reading any rows."""

from typing import Any

from sklearn.base import clone

from everlearn.cluster.sharded_model import Entry, ShardedModel
from everlearn.cluster.shards import address_of
from everlearn.cluster.store import PARTS, SHARDS, CheckpointStore, name_of_shard
from everlearn.cluster.vectors import remove_vectors
from everlearn.errors import NotKept

NOTHING = Entry(0)


def unlearn(trained: ShardedModel, addresses: Any, checkpoint: str) -> list[str]:
    """Take shards out of what was trained, as if they had never been there.

    Their rows are not read again: what each taught was kept (``keep_shards=True``), and is
    subtracted. What was kept of them is then erased from the checkpoint: what they taught, their
    vectors, and merged parts that they are in.

    Parameters
    ----------
    trained : ShardedModel
    addresses : str or list of str
        Patterns may stand for several: ``"s3://photos/supplier-7/*"``.
    checkpoint : address
        Where the shards were kept.

    Returns
    -------
    list of str
        The addresses taken out.

    Raises
    ------
    NotKept
        If one of them was not kept; nothing is changed then.
    """
    store = CheckpointStore(checkpoint)
    identities = trained.matching(addresses)
    kept: dict[str, ShardedModel] = {}
    for identity in identities:
        part = store.read(name_of_shard(trained.job, identity), SHARDS)
        if part is None and trained.ledger[identity].rows:
            raise NotKept(
                f"what {address_of(identity)} has taught was not kept in {checkpoint}; keep it "
                "with keep_shards=True, or fit again without this shard"
            )
        kept[identity] = part or ShardedModel(
            clone(trained.learner), {identity: NOTHING}, trained.job
        )
    whole = kept.pop(identities[0])
    for part in kept.values():
        whole.merge(part)
    trained.unmerge(whole)
    for identity in identities:
        store.remove(name_of_shard(trained.job, identity), SHARDS)
    _remove_merged(store, set(identities))
    remove_vectors(store, identities)
    return [address_of(identity) for identity in identities]


def _remove_merged(store: CheckpointStore, gone: set[str]) -> None:
    """Remove parts that hold these shards, and those that cannot be read."""
    for name in store.names(PARTS):
        part = store.read(name, PARTS)
        if part is None or gone & part.ledger.keys():
            store.remove(name, PARTS)
