"""A path in a terminal table, shortened in the middle if it is too long.

Files usually differ at the end of their paths, which a table would cut off.
"""

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

ELLIPSIS = "…"
# Minimum width of a column of paths, if there is room.
NARROWEST = 16


def shortened(words: str, width: int) -> str:
    """At most ``width`` characters: a third from the beginning, the rest from the end."""
    if len(words) <= width:
        return words
    head = max(0, width - 1) // 3
    tail = max(0, width - 1 - head)
    return words[:head] + ELLIPSIS + words[len(words) - tail :]


class PathCell:
    """A path that Rich renders shortened to the column."""

    def __init__(self, words: str) -> None:
        self.words = words

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(NARROWEST, len(self.words)), len(self.words))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(shortened(self.words, options.max_width), no_wrap=True)
