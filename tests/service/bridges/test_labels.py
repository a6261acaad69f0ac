"""Labels of another system against the state of a Memory."""

import pytest

from everlearn.errors import CannotReach, CannotRead, InvalidInput
from everlearn.service.bridges.labels import FollowedLabels, Label, box_within, forget_source
from tests.service.bridges.conftest import BLUE, RED, counts


def label(name, picture=RED, **more):
    return Label(name, lambda: picture, **more)


class TestFollowedLabels:
    def test_the_memory_holds_exactly_the_labels(self, memory):
        labels = FollowedLabels(memory, "site/ann")
        assert labels.follow({"1/a": label("cup"), "2/b": label("pen", BLUE)}) == (
            ["1/a", "2/b"],
            [],
        )
        assert labels.follow({"1/a": label("cup"), "2/b": label("pen", BLUE)}) == ([], [])
        assert labels.follow({"2/b": label("pen", BLUE)}) == ([], ["1/a"])
        assert counts(memory) == {"pen": 1}

    def test_teachings_of_others_are_not_changed(self, memory):
        memory.teach(RED, "cup", source="by hand")
        memory.teach(BLUE, "pen", source="site/annabel/1/a")
        FollowedLabels(memory, "site/ann").follow({})
        assert counts(memory) == {"cup": 1, "pen": 1}

    def test_it_continues_where_another_process_stopped(self, memory):
        FollowedLabels(memory, "site/ann").follow({"1/a": label("cup"), "2/b": label("pen", BLUE)})
        started_again = FollowedLabels(memory, "site/ann")
        assert started_again.follow({"2/b": label("pen", BLUE)}) == ([], ["1/a"])

    def test_what_was_undone_in_the_memory_is_taught_again(self, memory):
        labels = FollowedLabels(memory, "site/ann")
        labels.follow({"1/a": label("cup")})
        memory.undo()
        assert labels.follow({"1/a": label("cup")}) == (["1/a"], [])

    def test_an_unreadable_picture_is_tried_once_and_an_unreachable_one_again(self, memory):
        tried = []

        def failing(error):
            def read():
                tried.append(error)
                raise error

            return Label("cup", read)

        labels = FollowedLabels(memory, "site/ann")
        wanted = {
            "1/a": failing(InvalidInput("damaged")),
            "2/b": failing(CannotReach("away")),
            "3/c": failing(CannotRead("not mounted")),
            "4/d": label("pen", rectangle=(2.0, 2.0, 0.5, 0.5)),
            "5/e": label("pen", BLUE),
        }
        assert labels.follow(wanted) == (["5/e"], [])
        assert len(tried) == 3
        labels.follow(wanted)
        assert [str(error) for error in tried[3:]] == ["away", "not mounted"]
        assert counts(memory) == {"pen": 1}

    def test_the_part_in_the_rectangle_is_taught(self, memory):
        FollowedLabels(memory, "s/a").follow({"1/a": label("cup", rectangle=(0.25, 0.5, 0.5, 9.0))})
        assert memory.teachings()[0].box == (0.25, 0.5, 0.75, 1.0)


def test_a_digest_follows_name_and_rectangle():
    first = label("cup", rectangle=(0.0, 0.0, 0.5, 0.5))
    assert first.digest == label("cup", BLUE, rectangle=(0.0, 0.0, 0.5, 0.5)).digest
    others = (label("cup"), label("pen", rectangle=(0.0, 0.0, 0.5, 0.5)))
    assert first.digest not in {other.digest for other in others}


def test_a_rectangle_is_cut_to_its_picture():
    assert box_within(-0.1, 0.5, 0.5, 0.8) == pytest.approx((0.0, 0.5, 0.4, 1.0))
    for outside in ((1.0, 0.0, 0.5, 0.5), (0.2, 0.2, 0.0, 0.5), (float("nan"), 0.0, 0.5, 0.5)):
        with pytest.raises(InvalidInput, match="contains no part"):
            box_within(*outside)


def test_forgetting_a_source_says_how_many(memory):
    memory.teach(RED, "cup", source="site/1")
    assert forget_source(memory, "site/1") == 1
    assert forget_source(memory, "site/1") == 0
