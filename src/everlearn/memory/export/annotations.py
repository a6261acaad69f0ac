"""What a Memory was taught with boxes, as annotations that other tools read."""

from typing import TYPE_CHECKING

from everlearn.regions.annotations import Annotated
from everlearn.regions.boxes import WHOLE, Box

if TYPE_CHECKING:
    from everlearn.memory.memory import Memory


def annotations_of(memory: "Memory") -> list[Annotated]:
    """Every image file that was taught, with its names and boxes, in the order it was taught.

    A teaching without a box is about the whole image. What was taught as pixels or vectors has no
    file, and is left out.
    """
    things: dict[str, list[tuple[str, Box]]] = {}
    for teaching in memory.teachings():
        if teaching.source:
            things.setdefault(teaching.source, []).append((teaching.name, teaching.box or WHOLE))
    return [Annotated(source, 0, 0, tuple(found)) for source, found in things.items()]
