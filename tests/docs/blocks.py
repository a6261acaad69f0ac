"""The code of a page: what is run, what is only read, and what is said about it.

A block is fenced. Its language says what it is:

    python       run, all of a page in one namespace, top to bottom
    console      run, line by line, in a folder with photographs; ``$`` marks commands, if any
    text, json   shown, not run
    anything else is refused, so that no code is forgotten

``<!-- needs: WORDS -->`` in front of a block says what it cannot be run without (a camera, a
cluster, hours); then it is read instead: Python is compiled and its imports are made, commands
and their options are looked up. ``<!-- output -->`` says that what a block shows is what its
commands print, cell by cell. ``<!-- setup … -->`` holds Python that is run and not shown.

Commands in sentences and tables are run as well, each in a folder of its own that holds a taught
Memory; words in capitals stand for what is in ``PLACEHOLDERS``.
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACEHOLDERS = {
    "FILE": "photos/cup/1.jpg",
    "FOLDER": "photos",
    "NAME": "cup",
    "OLD": "photos",
    "NEW": "moved",
}
LANGUAGES = {"python", "console", "text", "json", "javascript", "html", "nginx", "yaml", "setup"}
PARTS = re.compile(
    r"^<!-- setup\n(?P<setup>.*?)^-->"
    r"|(?:^<!-- needs: (?P<needs>[^\n]*) -->\n+)?(?P<output>^<!-- output -->\n+)?"
    r"^```(?P<language>[^\n]*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One block of a page."""

    line: int
    language: str
    code: str
    needs: str = ""
    output: bool = False


def pages() -> list[Path]:
    """Everything a person reads, but what other programs have written."""
    written = {ROOT / "docs" / "command-line.md"}
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "papers" / "README.md"]
    return sorted(page for page in found if page not in written and page.name != "report.md")


def blocks(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    found = []
    for match in PARTS.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match["setup"] is not None:
            found.append(Block(line, "setup", match["setup"]))
        else:
            told = (match["needs"] or "", match["output"] is not None)
            found.append(Block(line, match["language"], match["code"], *told))
    return found


def outside_of_blocks(page: Path) -> str:
    """The prose of a page, its blocks left out."""
    return PARTS.sub("", page.read_text("utf-8"))


def commands(block: Block) -> list[str]:
    """The commands of a console block, continued lines joined; what they print is left out."""
    joined = block.code.replace("\\\n", " ")
    lines = [line.strip() for line in joined.splitlines() if line.strip()]
    typed = [line[2:] for line in lines if line.startswith("$ ")]
    return [line for line in typed or lines if not line.startswith("#")]


def output_of(block: Block, command: str) -> list[str]:
    """What a console block shows after a command."""
    lines = block.code.splitlines()
    (start,) = [n for n, line in enumerate(lines) if line == f"$ {command}"]
    after = lines[start + 1 :]
    ends = [n for n, line in enumerate(after) if line.startswith("$ ")]
    return [line for line in after[: ends[0] if ends else None] if line.strip()]


def commands_in_prose(page: Path) -> list[str]:
    """Commands in the sentences and tables of a page, placeholders filled in."""
    spans = re.findall(r"`([^`\n]+)`", outside_of_blocks(page))
    found = [span for span in spans if re.match(r"(everlearn|python|make|pip|pytest) ", span)]
    return [
        re.sub(r"\b[A-Z]{3,}\b", lambda word: PLACEHOLDERS.get(word[0], word[0]), command)
        for command in dict.fromkeys(found)
    ]
