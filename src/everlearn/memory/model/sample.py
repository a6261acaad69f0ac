"""A sample of what was taught, spread over all of it and the same for the same journal.

Teachings are taken in the order of id · 2654435761 mod 2³² (Knuth's multiplicative hash), in which
the first ids are spread over all of them.
"""

from collections.abc import Iterator
from itertools import islice

import numpy as np

from everlearn.memory.storage.journal import VALUES_AT_A_TIME, Journal
from everlearn.memory.storage.log import counting_among, highest_id
from everlearn.memory.storage.rows import NameIds, Vectors
from everlearn.statistics.slices import Work

# What takes the time of so many products: reading a vector and checking its digest.
PER_VECTOR = 3e5


def sampling(
    journal: Journal, size: int, through: int, piece: float
) -> Work[tuple[Vectors, NameIds]]:
    """At most ``size`` teachings that count up to a position, with ids of names, in pieces.

    Ordered by id. Nothing may be forgotten meanwhile.
    """
    at_a_time = int(min(VALUES_AT_A_TIME, max(1.0, piece / PER_VECTOR)))
    candidates = _spread(highest_id(journal), size)
    ids: list[int] = []
    names: list[NameIds] = [np.empty(0, dtype=np.int64)]
    vectors: list[Vectors] = [np.empty((0, journal.n_features), dtype=np.float32)]
    while len(ids) < size and (some := list(islice(candidates, at_a_time))):
        found, called, rows = counting_among(journal, some, through)
        place = {number: index for index, number in enumerate(found)}
        chosen = [place[number] for number in some if number in place][: size - len(ids)]
        ids += [found[index] for index in chosen]
        names.append(called[chosen])
        vectors.append(rows[chosen])
        yield len(some) * PER_VECTOR
    order = np.argsort(np.array(ids, dtype=np.int64))
    return np.concatenate(vectors)[order], np.concatenate(names)[order]


def _spread(highest: int, size: int) -> Iterator[int]:
    """The ids from 1 on, in the order of their hash."""
    ids = np.arange(1, highest + 1, dtype=np.uint64)
    keys = ids * np.uint64(2654435761) % np.uint64(1 << 32)
    most = 2 * size if 2 * size < highest else 0
    if most:  # to sort all ids takes much longer and is seldom necessary
        first = np.argpartition(keys, most)[:most]
        yield from ids[first[np.argsort(keys[first])]].tolist()
    yield from ids[np.argsort(keys)[most:]].tolist()
