"""A path in a table on a terminal, shortened in the middle where it is too long.

What tells files apart is mostly at the end of their paths, which a table would cut off.
"""

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

ELLIPSIS = "…"
# A column of paths is not made narrower than this while there is room.
NARROWEST = 16


def shortened(words: str, width: int) -> str:
    """At most so many characters: a third of them from the beginning, the others from the end."""
    if len(words) <= width:
        return words
    head = max(0, width - 1) // 3
    tail = max(0, width - 1 - head)
    return words[:head] + ELLIPSIS + words[len(words) - tail :]


class PathCell:
    """The path as Rich draws it."""

    def __init__(self, words: str) -> None:
        self.words = words

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(NARROWEST, len(self.words)), len(self.words))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(shortened(self.words, options.max_width), no_wrap=True)
