"""Spellings that differ in case or spaces are one name, and reserved words are refused."""

from unicodedata import normalize

import pytest

from everlearn import Memory
from everlearn.errors import InvalidLabel, UnknownLabel
from everlearn.memory.edits.writing import misspelled
from everlearn.memory.storage.appending import set_name
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


@pytest.mark.parametrize("forms", [("NFC", "NFD"), ("NFD", "NFC")])
def test_the_encoding_of_an_accent_makes_no_other_name(memory, forms):
    """As macOS writes the names of folders, and as they are typed."""
    first, other = (normalize(form, "Café Épée") for form in forms)
    assert first != other
    memory.teach([0.0, 1.0], first)
    memory.teach([0.1, 1.0], other.lower())
    memory.teach_many([([0.2, 1.0], other)])
    assert memory.names()[first].count == 3
    assert misspelled(other, [first]) is None
    assert memory.rename(other, "Wren") == "Wren"
    assert list(memory.names()) == ["Purple Finch", "Wren"]


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


@pytest.mark.parametrize("old", ["Wren", "wren", " WREN "])
@pytest.mark.parametrize("new", ["Purple Finch", "purple finch", "  Purple   finch "])
def test_a_rename_follows_the_rule_for_spelling(memory, old, new):
    memory.teach([0.0, 1.0], "Wren")
    assert memory.rename(old, new) == "Purple Finch"
    assert {name: record.count for name, record in memory.names().items()} == {"Purple Finch": 2}
    memory.undo()
    assert list(memory.names()) == ["Purple Finch", "Wren"]


def test_a_rename_may_change_the_spelling_of_a_name_itself(memory):
    assert memory.rename("Purple Finch", " purple  finch ") == "purple finch"
    assert list(memory.names()) == ["purple finch"]
    memory.teach([0.9, 0.1], "PURPLE FINCH")
    assert memory.names()["purple finch"].count == 2


@pytest.mark.parametrize("word", ["unknown", " Ignored ", "background"])
def test_nothing_is_renamed_to_a_reserved_word(memory, word):
    before = memory.info()["log_entries"]
    with pytest.raises(InvalidLabel, match="choose another"):
        memory.rename("Purple Finch", word)
    assert list(memory.names()) == ["Purple Finch"]
    assert memory.info()["log_entries"] == before


def test_a_reserved_name_of_an_older_version_can_be_renamed_and_forgotten(memory):
    with memory._opened.one_change() as journal:
        set_name(journal, journal.id_of_name("Purple Finch"), "unknown")
    assert memory.rename("unknown", "Wren") == "Wren"
    assert list(memory.names()) == ["Wren"]


@pytest.mark.parametrize("spelled", ["purple finch", "  PURPLE  Finch "])
def test_a_name_is_forgotten_in_any_spelling(memory, spelled):
    assert memory.would_forget(name=spelled).names == {"Purple Finch": 1}
    assert memory.forget(name=spelled).count == 1
    memory.undo()
    assert memory.forget(spelled).count == 1
    memory.undo()
    assert memory.forget(name=spelled, erase=True).count == 1
    assert memory.names() == {}


def test_names_that_differ_in_digits_are_no_misspellings():
    assert misspelled("shelf 2", ["shelf 1"]) is None
    assert misspelled("shlef 1", ["shelf 1", "shelf 2"]) == "shelf 1"


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


@pytest.mark.parametrize("again", ["Ｐｕｒｐｌｅ　Ｆｉｎｃｈ", "purple\u00a0ﬁnch"])
def test_another_encoding_of_a_name_makes_no_second_class(memory, again):
    memory.teach([0.1, 1.0], again)
    memory.teach_many([([0.2, 1.0], again)])
    assert {name: record.count for name, record in memory.names().items()} == {"Purple Finch": 3}
    assert misspelled(again[:-1], ["Purple Finch"]) == "Purple Finch"
    assert misspelled("shelf １", ["shelf 2"]) is None


def test_a_name_with_an_invisible_character_is_refused(memory):
    before = memory.info()["log_entries"]
    for name in ("Purple\u3164Finch", "Purple\u200bFinch", "\u3164"):
        for change in (
            lambda name=name: memory.teach([0.5, 0.5], name),
            lambda name=name: memory.correct([0.5, 0.5], name),
            lambda name=name: memory.rename("Purple Finch", name),
        ):
            with pytest.raises(InvalidLabel, match=r"invisible.* U\+"):
                change()
    assert memory.info()["log_entries"] == before
    assert list(memory.names()) == ["Purple Finch"]


def test_an_invisible_character_in_a_name_of_an_older_version(memory, tmp_path):
    """The Memory opens, the name is no second class, and it can be renamed and forgotten."""
    old = "Purple\u3164 Finch"
    with memory._opened.one_change() as journal:
        set_name(journal, journal.id_of_name("Purple Finch"), old)
    memory.close()
    with Memory(tmp_path / "memory") as again:
        again.teach([0.9, 0.1], "purple finch")
        assert again.names()[old].count == 2
        assert again.would_forget(name=old).count == 2
        assert again.rename(old, "Purple Finch") == "Purple Finch"
        assert list(again.names()) == ["Purple Finch"]


@pytest.mark.parametrize("text", ["purp", "ｐｕｒｐ", "PURPLE  FIN", "ﬁn"])
def test_names_are_searched_in_any_spelling(memory, text):
    memory.teach([0.0, 1.0], "Ｐｕｒｐｌｅ ﬁngers")
    memory.teach([0.1, 1.0], "100% _wool")
    both = ["Purple Finch", "Ｐｕｒｐｌｅ ﬁngers"]
    assert sorted(memory.names(text)) == both
    assert list(memory.names(text, limit=1, offset=1)) == both[1:]
    assert list(memory.names("0% _")) == ["100% _wool"]


def test_a_forgotten_name_does_not_determine_the_spelling(memory):
    memory.forget(name="Purple Finch")
    memory.teach([0.9, 0.1], "PURPLE finch")
    assert list(memory.names()) == ["PURPLE finch"]


def test_a_new_name_is_compared_inside_the_database(memory, monkeypatch):
    def reads_all_names(*_):
        raise AssertionError("with many names this takes longer than teaching")

    monkeypatch.setattr(Journal, "names", reads_all_names)
    monkeypatch.setattr(Journal, "names_by_id", reads_all_names)
    assert memory.teach([0.0, 1.0], "Wren")


@pytest.mark.parametrize("spelled", ["purple finch", " PURPLE  Finch"])
@pytest.mark.parametrize("read_only", [True, False])
def test_a_name_is_listed_and_explained_in_any_spelling(tmp_path, memory, spelled, read_only):
    memory.teach([0.0, 1.0], "Wren")
    memory.teach([0.1, 1.0], "Wren")
    memory.close()
    with Memory(tmp_path / "memory", read_only=read_only) as again:
        assert [one.name for one in again.teachings(spelled)] == ["Purple Finch"]
        assert again.teachings("Robin") == []
        assert again.why([1.0, 0.1], spelled).name == "Purple Finch"
        with pytest.raises(UnknownLabel):
            again.why([1.0, 0.1], "Robin")
