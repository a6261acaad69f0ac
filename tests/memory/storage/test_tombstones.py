"""Forgotten and erased boxes stay away after a merge, in every storage."""

import hashlib
import hmac
import struct

import numpy as np
import pytest

from everlearn import Memory, Pixels
from everlearn.memory.storage.log import counting_examples
from everlearn.memory.storage.tombstones import PREFIX, SALT, Tombstones, counting, leave_tombstones
from everlearn.regions.boxes import Box

LEFT, RIGHT = Box(0.0, 0.0, 0.5, 0.5), Box(0.25, 0.5, 1.0, 0.123456 + 0.5)
PICTURE = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)


@pytest.fixture
def taught(where):
    """A picture with two boxes and as a whole, all of one name."""
    with Memory(where, embedder=Pixels(size=4)) as memory:
        for box in (LEFT, RIGHT, None):
            memory.teach(PICTURE, "cup", box=box)
        memory.teach(255 - PICTURE, "pen")
        yield memory


def boxes(memory):
    return {one.box for one in memory.teachings("cup")}


def forget(memory, box, *, erase):
    (number,) = [one.id for one in memory.teachings("cup") if one.box == box]
    memory.forget(id=number, erase=erase)


@pytest.mark.parametrize("erase", [False, True])
@pytest.mark.parametrize("gone", [LEFT, RIGHT, None])
def test_a_merge_with_a_copy_passes_it_on_in_both_directions(taught, tmp_path, gone, erase):
    for name in ("one", "other"):
        with Memory(tmp_path / name, embedder=Pixels(size=4)) as copy:
            copy.merge(taught)
    rest = {LEFT, RIGHT, None} - {gone}
    forget(taught, gone, erase=erase)
    with Memory(tmp_path / "one") as copy:
        assert taught.merge(copy).kept_out == 1
        assert copy.merge(taught).forgotten == 1
        assert boxes(taught) == boxes(copy) == rest
    # The other way round: the copy forgets, and this storage takes it over.
    with Memory(tmp_path / "other") as copy:
        assert copy.sync(taught).equal
        again = (rest - {None}).pop()
        forget(copy, again, erase=erase)
        assert taught.merge(copy).forgotten == 1
        assert boxes(taught) == boxes(copy) == rest - {again}
    assert taught.verify().ok


def test_what_counts_and_since_when_it_does_not(taught):
    journal = taught._opened.journal
    digest = next(counting_examples(journal))[1].digest
    before = counting(journal, [digest])
    assert before.keys() == {((digest, box), "cup") for box in (LEFT, RIGHT, None)}
    assert before.items() < counting(journal).items()
    forget(taught, LEFT, erase=False)
    forget(taught, RIGHT, erase=False)
    taught.undo()
    buried = Tombstones(journal)
    (pair,) = buried.forgotten
    assert pair == ((digest, LEFT), "cup")
    assert buried.since(pair) == taught.history()[1].time
    assert not buried.was_erased(pair)
    forget(taught, None, erase=True)
    buried = Tombstones(journal)
    assert not buried.forgotten
    for box, erased in ((LEFT, True), (None, True), (RIGHT, False)):
        assert buried.was_erased(((digest, box), "cup")) is erased
        assert (buried.since(((digest, box), "cup")) is None) is not erased


def test_tombstones_of_earlier_journals_stay_valid(taught):
    """Without a box the digest is of picture and name alone, as it was before there were boxes."""
    journal = taught._opened.journal
    digest = next(counting_examples(journal))[1].digest
    with taught._opened.one_change() as changed:
        pairs = [((digest, box), "mug") for box in (None, LEFT, RIGHT)]
        leave_tombstones(changed, pairs, 12.5)
    salt = journal.fact(SALT)
    messages = [digest + b"mug"]
    messages += [digest + b"mug\0" + struct.pack("<dddd", *box) for box in (LEFT, RIGHT)]
    for message in messages:
        keyed = hmac.new(bytes.fromhex(salt), message, hashlib.sha256).hexdigest()
        assert journal.fact(f"{PREFIX} {salt} {keyed}") == "12.5"
    assert len(Tombstones(journal).erased) == 3
