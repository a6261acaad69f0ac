"""Exports taught boxes as annotations for other tools."""

from typing import TYPE_CHECKING

from everlearn.regions.annotations import Annotated
from everlearn.regions.boxes import WHOLE, Box

if TYPE_CHECKING:
    from everlearn.memory.memory import Memory


def annotations_of(memory: "Memory") -> list[Annotated]:
    """Every taught image file with its names and boxes, in the order of teaching.

    A teaching without a box is about the whole image. Teachings without a source (of pixels or
    vectors) are left out.
    """
    things: dict[str, list[tuple[str, Box]]] = {}
    for teaching in memory.teachings():
        if teaching.source:
            things.setdefault(teaching.source, []).append((teaching.name, teaching.box or WHOLE))
    return [Annotated(source, 0, 0, tuple(found)) for source, found in things.items()]
