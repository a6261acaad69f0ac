import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everlearn.errors import InvalidLabel, UnknownLabel
from everlearn.statistics.labels import Labels


def taught(*batches):
    labels = Labels()
    for batch in batches:
        _, new = labels.encode(batch)
        labels.extend(new)
    return labels


def test_slots_are_given_in_order_of_arrival_and_never_move():
    labels = taught(["pear", "fig", "pear"], ["apple", "fig"])
    assert list(labels.by_slot) == ["pear", "fig", "apple"]
    slots, new = labels.encode(["fig", "apple", "kiwi", "pear"])
    assert slots.tolist() == [1, 2, 3, 0]
    assert new == ["kiwi"]


def test_classes_are_sorted_whatever_the_order_of_arrival():
    labels = taught([30, 4, 100])
    assert labels.classes.tolist() == [4, 30, 100]
    assert [labels.by_slot[slot] for slot in labels.order] == [4, 30, 100]
    assert labels.rank.tolist() == [1, 0, 2]


def test_encoding_registers_nothing():
    labels = taught(["a"])
    labels.encode(["b", "c"])
    assert labels.classes.tolist() == ["a"]
    assert labels.n_slots == 1


@pytest.mark.parametrize(
    "labels",
    [
        [1, "a"],
        ["a", None],
        [float("nan"), 1.0],
        [0.5],
        [1, True],
        [(1, 2)],
        [1 + 2j],
        [b"raw"],
        ["a\0"],
    ],
)
def test_invalid_labels_are_refused(labels):
    with pytest.raises(InvalidLabel):
        Labels().encode(labels)


@pytest.mark.parametrize(("first", "second"), [(["a"], [1]), ([1], ["1"]), ([1], [True])])
def test_kinds_do_not_mix_between_batches(first, second):
    with pytest.raises(InvalidLabel, match="one type of label"):
        taught(first).encode(second)


def test_numbers_are_the_same_label_however_they_are_written():
    labels = taught(np.array([7, 8], dtype=np.uint8))
    for same in (7, 7.0, np.int64(7), np.float32(7)):
        assert labels.slot(same) == 0
    assert taught(np.array([7.0, 8.0])).classes.tolist() == [7, 8]


def test_numpy_strings_equal_python_strings():
    labels = taught(np.array(["cup", "chair"]))
    assert labels.slot(np.str_("cup")) == labels.slot("cup")
    assert all(type(label) is str for label in labels.by_slot)


def test_a_released_slot_is_used_again_so_memory_stays_bounded():
    labels = taught(["keep"])
    for round_number in range(1000):
        name = f"passing {round_number}"
        labels.extend(labels.encode([name])[1])
        labels.release([labels.slot(name)])
    assert labels.n_slots == 2
    assert labels.classes.tolist() == ["keep"]


def test_new_labels_fill_the_released_slots_that_encode_announced():
    labels = taught(["a", "b", "c"])
    labels.release([0, 2])
    slots, new = labels.encode(["x", "y", "z"])
    labels.extend(new)
    assert slots.tolist() == [0, 2, 3]
    assert [labels.slot(name) for name in "xyz"] == [0, 2, 3]


def test_the_error_for_an_unknown_label_lists_known_ones():
    with pytest.raises(UnknownLabel, match="'cat' was never taught; known labels: 'dog'"):
        taught(["dog"]).slot("cat")


@pytest.mark.parametrize(
    "labels", [[2**63 - 1, 2**63], [-1, 2**63, 2**63 + 1], [2**64, 2**64 + 1], [-(2**70), 0]]
)
def test_whole_numbers_around_two_to_the_63_stay_apart(labels):
    registry = Labels()
    slots, new = registry.encode(labels)
    registry.extend(new)
    assert registry.classes.tolist() == sorted(labels)
    assert [registry.slot(label) for label in labels] == slots.tolist()


@given(
    st.lists(
        st.tuples(st.sampled_from(["new", "new", "forget", "look"]), st.integers(0, 40)),
        max_size=60,
    ),
    st.sampled_from([int, lambda n: f"{'x' * (n % 7)}{n}"]),
)
@settings(max_examples=100, deadline=None)
def test_labels_stay_sorted_between_reads(steps, make):
    labels, known = Labels(), set()
    for step, number in steps:
        label = make(number)
        if step == "new" and label not in known:
            slots, new = labels.encode([label])
            labels.extend(new)
            known.add(label)
            assert labels.by_slot[slots[0]] == label
        elif step == "forget" and label in known:
            labels.release([labels.slot(label)])
            known.discard(label)
        elif step == "look":
            assert labels.classes.tolist() == sorted(known)
    assert labels.classes.tolist() == sorted(known)
    assert [labels.by_slot[slot] for slot in labels.order] == sorted(known)
    assert [labels.rank[slot] for slot in labels.order] == list(range(len(known)))


@given(
    known=st.lists(st.integers(0, 12), max_size=12),
    released=st.sets(st.integers(0, 12), max_size=4),
    batch=st.lists(st.integers(0, 20), min_size=1, max_size=40),
    kind=st.sampled_from(
        [
            lambda batch: [str(n) for n in batch],
            lambda batch: np.array([str(n) for n in batch]),
            lambda batch: np.array([str(n) for n in batch], dtype=object),
            lambda batch: np.array([np.str_(n) for n in batch], dtype=object),
            lambda batch: np.array(batch),
            lambda batch: batch,
            lambda batch: np.array(batch, dtype=float),
        ]
    ),
)
@settings(max_examples=150, deadline=None)
def test_a_batch_gets_the_slots_that_its_labels_get_one_by_one(known, released, batch, kind):
    together, one_by_one = Labels(), Labels()
    for labels in (together, one_by_one):
        if known:
            labels.extend(labels.encode(kind(known))[1])
        labels.release([labels.slot(kind([n])[0]) for n in released & set(known)])
    slots, new = together.encode(kind(batch))
    together.extend(new)
    for label in kind(batch):
        one_by_one.extend(one_by_one.encode([label])[1])
    assert slots.tolist() == [one_by_one.slot(label) for label in kind(batch)]
    assert list(together.by_slot) == list(one_by_one.by_slot)
