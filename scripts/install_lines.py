"""Keeps the install lines on all pages consistent: python scripts/install_lines.py

``PUBLISHED`` is the one switch: while it is false, pages install from a clone, since the package
index does not have everlearn yet. Change it, run this, and every page says the other thing. A test
fails where a page says something else.
"""

import re
from pathlib import Path

PUBLISHED = False

ROOT = Path(__file__).parents[1]
# From a clone, and from the package index.
PAIRS = (
    ("pip install . ./papers", "pip install everlearn-papers"),
    ("pip install . ./networks", "pip install 'everlearn[networks]'"),
)
EXTRAS = re.compile(r"pip install '(?:everlearn|\.)\[([\w,-]+)\]'")
NOTE = re.compile(r"<!-- install -->.*?<!-- /install -->", re.DOTALL)
NOTES = {
    False: "These lines work in a clone of this repository. Once everlearn is on the package "
    "index, `'.[cli]'` will read `'everlearn[cli]'`, and no clone is needed.",
    True: "Or `uvx --from 'everlearn[cli]' everlearn demo`, without installing anything; or "
    "`pipx install 'everlearn[cli]'`, for the command alone.",
}


def pages() -> list[Path]:
    """Every file with an install line that a reader might copy."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found += [ROOT / name / "README.md" for name in ("papers", "networks")]
    found += [*sorted((ROOT / "examples").glob("*.py")), ROOT / "scripts" / "command_line_docs.py"]
    return [page for page in found if page.exists()]


def rewritten(text: str, *, published: bool = PUBLISHED) -> str:
    """The text with install lines of one kind."""
    for clone, index in PAIRS:
        text = text.replace(*((clone, index) if published else (index, clone)))
    name = "everlearn" if published else "."
    text = EXTRAS.sub(lambda match: f"pip install '{name}[{match[1]}]'", text)
    return NOTE.sub(f"<!-- install -->\n{NOTES[published]}\n<!-- /install -->", text)


def main() -> None:
    for page in pages():
        text = page.read_text("utf-8")
        if rewritten(text) != text:
            page.write_text(rewritten(text), "utf-8")
            print(page.relative_to(ROOT))


if __name__ == "__main__":
    main()
