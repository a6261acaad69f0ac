"""Names of things: which are valid, and which are the same.

Names are compared without regard to capitals, spaces and encoding (:func:`folded`): ``Purple
Finch``, ``purple finch`` and the full-width ``Ｐｕｒｐｌｅ Ｆｉｎｃｈ`` are one name. The first
spelling is kept as it was written.

Two names that look equal must not be two classes, so invisible characters are refused. Two kinds
have a use and are accepted, but make no other name: joiners, which shape words of Persian and Indic
scripts and combine emoji, and variation selectors, which choose between forms of one character.
"""

from collections.abc import Iterable
from unicodedata import category, normalize
from unicodedata import name as title

from everlearn.errors import InvalidLabel

LONGEST_NAME = 200
# Reserved words: an answer that is not a name, and the label of background.
RESERVED = frozenset({"unknown", "ignored", "background"})


def _characters(*ranges: tuple[int, int]) -> frozenset[str]:
    return frozenset(chr(code) for first, last in ranges for code in range(first, last + 1))


# Zero width non-joiner and zero width joiner.
JOINERS = _characters((0x200C, 0x200D))
VARIATIONS = _characters((0x180B, 0x180D), (0x180F, 0x180F), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF))
# What Unicode lets a program show as nothing (Default_Ignorable_Code_Point), except for the above;
# and three that are drawn as nothing.
INVISIBLE = _characters(
    (0x00AD, 0x00AD), (0x034F, 0x034F), (0x061C, 0x061C), (0x115F, 0x1160), (0x17B4, 0x17B5),
    (0x180E, 0x180E), (0x200B, 0x200B), (0x200E, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F),
    (0x3164, 0x3164), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A), (0xE0000, 0xE00FF), (0xE01F0, 0xE0FFF),
    (0x2800, 0x2800), (0x16FE4, 0x16FE4), (0x1D159, 0x1D159),
)  # fmt: skip
_NOT_COMPARED = dict.fromkeys(map(ord, JOINERS | VARIATIONS | INVISIBLE))
# A joiner follows a letter of a script without capitals, a mark or a symbol.
_JOINED = ("Lo", "Mc", "Mn", "So", "Sk")


def require_name(name: object) -> None:
    """Require a name that can be printed on one line and has no invisible characters."""
    if not isinstance(name, str) or not name.strip():
        raise InvalidLabel(f"a name must consist of printable characters, not {name!r}")
    fault = fault_of(name)
    if fault is None:
        return
    letter = _unseen(name)
    if letter is None:
        raise InvalidLabel(f"the name {name!r:.100} has {fault}")
    shown = name.replace(letter, f"[{_code(letter)}]")
    raise InvalidLabel(f"the name {shown!r} has {fault}; write it without")


def fault_of(name: str) -> str | None:
    """What a name has that makes it invalid; ``None`` if it is valid."""
    letter = _unseen(name)
    if letter is not None:
        return _described(letter)
    if not folded(name):
        return "no visible character"
    if len(name) > LONGEST_NAME:
        return f"{len(name)} characters; at most {LONGEST_NAME} are allowed"
    return None


def _unseen(name: str) -> str | None:
    """The first character of a name that cannot be seen; ``None`` if there is none."""
    for index, letter in enumerate(name):
        if not is_visible(name, index) and category(letter) != "Zs":
            return letter
    return None


def is_storable(name: str) -> bool:
    """Whether a journal may hold a name; it may have been taught before a rule was added."""
    printable = all(letter.isprintable() or letter in JOINERS for letter in name)
    return printable and bool(name.strip()) and len(name) <= LONGEST_NAME


def is_visible(text: str, index: int) -> bool:
    """Whether a character of a text can be seen, by itself or, if it is a joiner, by its effect."""
    letter = text[index]
    if letter in JOINERS:
        return index > 0 and category(text[index - 1]) in _JOINED
    return letter.isprintable() and letter not in INVISIBLE


def _described(letter: str) -> str:
    called = f"{_code(letter)} {title(letter, '')}".rstrip()
    if letter in INVISIBLE or letter in JOINERS:
        return f"an invisible character, {called}"
    if category(letter) == "Cs":
        return f"a byte that is not text, {called}"
    return f"a character that cannot be printed, {called}"


def _code(letter: str) -> str:
    return f"U+{ord(letter):04X}"


def tidy(name: str) -> str:
    """A name without surrounding or repeated spaces."""
    return " ".join(name.split())


def folded(name: str) -> str:
    """Equal for spellings of one name, which differ in capitals, spaces and encoding only.

    ``é`` is one character or two: macOS writes the names of folders with two, keyboards with one.
    Letters may be full-width (``Ｃａｔ``), joined (``ﬁ``) or raised (``m²``). This is Unicode's
    NFKC_Casefold, with spaces tidied.
    """
    if name.isascii():
        return tidy(name).casefold()
    key, before = name, ""
    while key != before:
        before = key
        visible = normalize("NFKD", key).translate(_NOT_COMPARED)
        key = tidy(normalize("NFKC", visible.casefold()))
    return key


def is_reserved(name: str) -> bool:
    """Whether a name is a word that answers use for something else."""
    return folded(name) in RESERVED


def one_spelling(names: Iterable[str], known: Iterable[str] = ()) -> dict[str, str]:
    """The spelling to use for each name; names that are the same (:func:`folded`) share it.

    It is that of the known name, otherwise that of the first of ``names``, with spaces tidied.
    """
    spelling = {folded(name): name for name in known}
    return {name: spelling.setdefault(folded(name), tidy(name)) for name in names}
