"""Spellings that differ in case or spaces are one name, and reserved words are refused."""

import pytest

from everlearn import Memory
from everlearn.errors import InvalidLabel
from everlearn.memory.edits.writing import misspelled
from everlearn.memory.storage.journal import Journal


@pytest.fixture
def memory(tmp_path):
    with Memory(tmp_path / "memory") as opened:
        opened.teach([1.0, 0.0], "Purple Finch")
        yield opened


@pytest.mark.parametrize("spelled", ["purple finch", "  Purple Finch ", "PURPLE  FINCH"])
def test_a_name_keeps_its_first_spelling(memory, spelled):
    memory.teach([0.9, 0.1], spelled)
    memory.teach_many([([0.8, 0.2], spelled)])
    memory.correct([0.7, 0.3], spelled)
    assert {name: record.count for name, record in memory.names().items()} == {"Purple Finch": 4}


@pytest.mark.parametrize("word", ["unknown", " Unknown", "ignored", "background"])
def test_reserved_words_are_refused_as_names(memory, word):
    before = memory.info()["log_entries"]
    for teach in (memory.teach, memory.correct):
        with pytest.raises(InvalidLabel, match="choose another"):
            teach([0.5, 0.5], word)
    assert memory.info()["log_entries"] == before


def test_spellings_of_a_new_name_in_one_batch_are_one_name(memory):
    memory.teach_many([([0.0, 1.0], "Wren"), ([0.1, 1.0], "wren")])
    assert memory.names()["Wren"].count == 2


def test_misspellings_are_detected_and_other_names_are_not():
    known = ["Purple Finch", "House Sparrow", "Cardinal"]
    assert misspelled("Purpel Finch", known) == "Purple Finch"
    assert misspelled("cardinl", known) == "Cardinal"
    assert misspelled("purple finch", known) is None, "the same name"
    assert misspelled("Blue Jay", known) is None


@pytest.mark.parametrize(
    ("first", "again"),
    [("Élan", "élan"), ("Straße", "STRASSE"), ("STRASSE", "straße"), ("\N{KELVIN SIGN}", "k")],
)
def test_capitals_beyond_ascii_are_the_same_name(memory, first, again):
    memory.teach([0.0, 1.0], first)
    memory.teach([0.1, 1.0], again)
    assert memory.names()[first].count == 2


def test_a_forgotten_name_does_not_determine_the_spelling(memory):
    memory.forget(name="Purple Finch")
    memory.teach([0.9, 0.1], "PURPLE finch")
    assert list(memory.names()) == ["PURPLE finch"]


def test_a_new_name_is_compared_inside_the_database(memory, monkeypatch):
    def reads_all_names(*_):
        raise AssertionError("with many names this takes longer than teaching")

    monkeypatch.setattr(Journal, "names", reads_all_names)
    monkeypatch.setattr(Journal, "name_ids", reads_all_names)
    assert memory.teach([0.0, 1.0], "Wren")
