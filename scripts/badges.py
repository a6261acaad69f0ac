"""Draws the badges of the README from the project's metadata: python scripts/badges.py

Badges are files in docs/images, so that no page loads anything from elsewhere. Each states a fact
that pyproject.toml or a test holds; a test compares the files with what this script draws.
"""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "images"
CHARACTER, MARGIN = 6.6, 7


def facts() -> dict[str, tuple[str, str]]:
    """File name of each badge, its left and its right half."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    project = settings["project"]
    pythons = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    if not settings["tool"]["mypy"]["strict"]:
        raise ValueError("the badge says that types are checked strictly, and they are not")
    return {
        "badge-python.svg": ("python", " | ".join(pythons)),
        "badge-licence.svg": ("licence", project["license"]),
        "badge-scikit-learn.svg": ("scikit-learn", "check_estimator passes"),
        "badge-types.svg": ("types", "mypy strict"),
    }


def drawn(left: str, right: str) -> str:
    """One badge as SVG."""
    widths = [round(len(word) * CHARACTER + 2 * MARGIN) for word in (left, right)]
    whole = sum(widths)
    words = "".join(
        f'<text x="{x}" y="14">{word}</text>'
        for x, word in ((MARGIN, left), (widths[0] + MARGIN, right))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="20" role="img">'
        f"<title>{left}: {right}</title>"
        f'<rect width="{whole}" height="20" rx="3" fill="#1f6f6b"/>'
        f'<path d="M3 0h{widths[0] - 3}v20h-{widths[0] - 3}a3 3 0 0 1-3-3v-14a3 3 0 0 1 3-3z" '
        f'fill="#444"/><g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" '
        f'font-size="11">{words}</g></svg>\n'
    )


def main() -> None:
    for name, halves in facts().items():
        (FOLDER / name).write_text(drawn(*halves), encoding="utf-8")


if __name__ == "__main__":
    main()
