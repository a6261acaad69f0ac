"""Checks of constructor arguments: one way to refuse each kind of mistake.

Every function takes the argument's name and value, and raises ``InvalidParameter`` with a sentence
that says what the argument is and what was given.
"""

import math
import operator
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np

from everlearn.errors import InvalidParameter


def require_one_of(name: str, value: Any, allowed: Iterable[object]) -> None:
    """One of a few words."""
    words = tuple(allowed)
    if not any(value is word or (type(value) is type(word) and value == word) for word in words):
        raise InvalidParameter(f"{name} is {_listed(words)}, not {_shown(value)}")


def require_flag(name: str, value: Any) -> None:
    """True or false."""
    if not _is_flag(value):
        raise InvalidParameter(f"{name} is True or False, not {_shown(value)}")


def require_whole(
    name: str,
    value: Any,
    *,
    least: int = 1,
    most: int | None = None,
    or_none: bool = False,
) -> None:
    """A whole number within limits; ``None`` too, where that means something."""
    if or_none and value is None:
        return
    whole = isinstance(value, Integral) and not _is_flag(value)
    if not whole or int(value) < least or (most is not None and int(value) > most):
        limits = f"from {least} on" if most is None else f"from {least} to {most}"
        none = " or None" if or_none else ""
        raise InvalidParameter(f"{name} is a whole number {limits}{none}, not {_shown(value)}")


def require_number(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
    or_word: str | None = None,
    or_none: bool = False,
) -> None:
    """A finite number within limits; or one word, or ``None``, where that means something."""
    if (or_none and value is None) or (or_word is not None and value == or_word):
        return
    given = [
        (word, limit, holds)
        for word, limit, holds in (
            ("above", above, operator.gt),
            ("at least", least, operator.ge),
            ("below", below, operator.lt),
            ("at most", most, operator.le),
        )
        if limit is not None
    ]
    if _is_finite_number(value) and all(holds(value, limit) for _, limit, holds in given):
        return
    limits = " and ".join(f"{word} {limit:g}" for word, limit, _ in given)
    other = f" or {or_word!r}" if or_word is not None else " or None" if or_none else ""
    raise InvalidParameter(f"{name} is a number {limits}{other}, not {_shown(value)}")


def require_positive(
    name: str, value: Any, *, or_word: str | None = None, or_none: bool = False
) -> None:
    """A finite number above zero."""
    require_number(name, value, above=0.0, or_word=or_word, or_none=or_none)


def require_share(name: str, value: Any, *, or_word: str | None = None) -> None:
    """A number between zero and one, neither of them included."""
    require_number(name, value, above=0.0, below=1.0, or_word=or_word)


def _is_flag(value: Any) -> bool:
    return isinstance(value, (bool, np.bool_))


def _is_finite_number(value: Any) -> bool:
    return isinstance(value, Real) and not _is_flag(value) and math.isfinite(value)


def _listed(words: tuple[object, ...]) -> str:
    *others, last = [repr(word) for word in words]
    return f"{', '.join(others)} or {last}" if others else last


def _shown(value: Any, most: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= most else text[: most - 1] + "…"
