"""Runs the examples and draws their output: EVERLEARN_DATA=… python scripts/gallery.py

Writes docs/images/gallery/NAME.svg, the words of each example as on a terminal, and two pictures of
what examples compute. docs/examples.md shows them.
"""

import subprocess
import sys
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "images" / "gallery"
LINE, CHARACTER, MARGIN, MOST_LINES = 17, 7.4, 12, 12
WIDEST = 90
EXAMPLES = (
    "digits_in_a_minute",
    "robot_objects",
    "few_shot_folder",
    "repair_faces",
    "inside_a_tree",
    "federated_round",
    "forget_a_person",
)


def printed(name: str) -> list[str]:
    """The last lines an example prints."""
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py")]
    if name == "few_shot_folder":
        from everlearn_papers.data.catalogue import find

        command.append(str(find("demo_photos")))
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told = done.stdout.rstrip().splitlines()
    lines = [part for line in told for part in wrap(line, WIDEST, drop_whitespace=False) or [""]]
    return lines if len(lines) <= MOST_LINES else ["…", *lines[1 - MOST_LINES :]]


def terminal(title: str, lines: list[str]) -> str:
    """Lines as a small drawing of a terminal."""
    lines = [f"$ python examples/{title}.py", *lines]
    width = round(max(map(len, lines)) * CHARACTER + 2 * MARGIN)
    height = len(lines) * LINE + 2 * MARGIN
    rows = "".join(
        f'<text x="{MARGIN}" y="{MARGIN + LINE * (n + 0.8):.1f}" xml:space="preserve">'
        f"{escape(line)}</text>"
        for n, line in enumerate(lines)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}"><rect width="100%" height="100%" rx="6" fill="#1d2327"/>'
        f'<g fill="#e8e8e8" font-family="DejaVu Sans Mono,Menlo,Consolas,monospace" '
        f'font-size="12">{rows}</g></svg>\n'
    )


def faces(found: dict[str, Any]) -> None:
    """Six faces of repair_faces.py: occluded, repaired, and original."""
    from PIL import Image

    side = found["SIDE"]
    rows = [found["hidden"][:6], found["repaired"][:6], found["truth"][60:66]]
    grid = np.block([[image.reshape(side, side) for image in row] for row in rows])
    grey = np.clip((grid + 1.5) / 3.0 * 255, 0, 255).astype(np.uint8)
    picture = Image.fromarray(grey).resize((grid.shape[1] * 4, grid.shape[0] * 4), 0)
    picture.save(FOLDER / "repair_faces.png", optimize=True)


def tree(found: dict[str, Any]) -> None:
    """The path of inside_a_tree.py's digit."""
    from everlearn.forest.inside import draw, path

    images = found["X"].reshape(-1, 8, 8)
    steps = path(found["forest"], found["example"], tree=0)
    figure = draw(steps, image_of=lambda number: images[number], image=images[400])
    figure.savefig(FOLDER / "inside_a_tree.png", dpi=60, bbox_inches="tight")


def main() -> None:
    import runpy

    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in EXAMPLES:
        drawing = terminal(name, printed(name))
        (FOLDER / f"{name}.svg").write_text(drawing, encoding="utf-8")
    faces(runpy.run_path(str(ROOT / "examples" / "repair_faces.py")))
    tree(runpy.run_path(str(ROOT / "examples" / "inside_a_tree.py")))


if __name__ == "__main__":
    main()
