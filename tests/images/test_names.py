"""Names: invisible characters are refused, and spellings of one name are the same."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlearn.errors import InvalidLabel
from everlearn.images.folders import BAD_NAME, names_of_listed
from everlearn.images.names import fault_of, folded, is_storable, require_name, tidy

# Persian with a non-joiner, Sinhala and old Malayalam with a joiner, emoji with joiners, variation
# selectors of an emoji, a Japanese name and a Mongolian word, and a space of East Asia.
LEGITIMATE = [
    "می\u200cخواهم", "ශ්\u200dරී", "അവന്\u200d", "👩🏽\u200d🚀", "🏴\u200d☠\ufe0f", "❤\ufe0f",
    "葛\U000e0100城", "ᠠ\u180b", "黒い\u3000猫", "a\u00a0cup",
]  # fmt: skip
INVISIBLE = [
    "\u200b", "\u2060", "\ufeff", "\u00ad", "\u034f", "\u061c", "\u200e", "\u202e", "\u2066",
    "\u3164", "\u115f", "\u1160", "\uffa0", "\u17b4", "\u2800", "\U000e0041", "\U0001d173",
]  # fmt: skip


@pytest.mark.parametrize("name", LEGITIMATE)
def test_joiners_and_variation_selectors_are_accepted_where_they_have_an_effect(name):
    require_name(name)
    assert is_storable(tidy(name))
    assert tidy(name) == name.replace("\u3000", " ").replace("\u00a0", " ")


@pytest.mark.parametrize("letter", INVISIBLE)
def test_an_invisible_character_is_refused_by_name(letter):
    """Alone, inside, at the start and at the end; it would look like another name, or like none."""
    for name in (letter, f"ca{letter}t", f"{letter}cat", f"cat{letter}"):
        with pytest.raises(InvalidLabel) as refused:
            require_name(name)
        words = str(refused.value)
        assert f"invisible character, U+{ord(letter):04X} {unicodedata.name(letter, '')}" in words
        assert name.replace(letter, f"[U+{ord(letter):04X}]") in words
        assert letter not in words


@pytest.mark.parametrize("joiner", ["\u200c", "\u200d"])
@pytest.mark.parametrize(
    "around", [("", "cat"), ("ca", "t"), ("cat", ""), ("a cat", ""), ("می ", "خ")]
)
def test_a_joiner_without_effect_is_refused(joiner, around):
    with pytest.raises(InvalidLabel, match=f"invisible character, U\\+{ord(joiner):04X} ZERO"):
        require_name(joiner.join(around))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("a\x07b", r"a\[U\+0007\]b.* cannot be printed, U\+0007"),
        ("caf\udce9", r"a byte that is not text, U\+DCE9"),
        ("a\nb", r"cannot be printed, U\+000A"),
        ("\ufe0f", "visible character"),
        (" \ufe0f ", "visible character"),
    ],
)
def test_what_is_wrong_with_a_name_is_said(name, says):
    with pytest.raises(InvalidLabel, match=says):
        require_name(name)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ｃａｔ", "cat"),
        ("ﾈｺ", "ネコ"),
        ("ﬁsh", "FISH"),
        ("می\u200cخواهم", "میخواهم"),
        ("❤\ufe0f", "❤"),
        ("👩\u200d🚀", "👩🚀"),
        ("黒い\u3000猫", "黒い 猫"),
        ("葛\U000e0100城", "葛城"),
        ("ca\u3164t", "cat"),  # taught before it was refused
    ],
)
def test_spellings_that_look_equal_are_the_same_name(one, other):
    assert folded(one) == folded(other)


@given(st.text())
def test_a_folded_name_is_its_own_folded_form_and_has_no_invisible_characters(name):
    key = folded(name)
    assert folded(key) == key
    assert folded(name.upper()) == folded(name.upper().lower())
    if fault_of(name) is None:
        assert key
        assert key == folded(tidy(name))
        assert is_storable(tidy(name))


def test_the_folder_of_a_page_says_which_character_its_name_must_not_have():
    ((name, reason),) = names_of_listed([("photos/ca\u200bt/1.jpg", b"")])
    assert name is None
    assert reason.startswith(BAD_NAME)
    assert "ZERO WIDTH SPACE" in reason
