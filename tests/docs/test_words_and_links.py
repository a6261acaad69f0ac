"""Links are valid and no word is misspelt."""

import re
import subprocess
import sys

import pytest

from tests.docs.blocks import ROOT, outside_of_blocks, pages

PAGES = pages()
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
# On the site these are pages; in the repository they live elsewhere (scripts/site_hooks.py).
ON_THE_SITE = {
    "docs/tour.md": "examples/tour.ipynb",
    "docs/project/contributing.md": "CONTRIBUTING.md",
    "docs/project/changelog.md": "CHANGELOG.md",
    "docs/project/security.md": "SECURITY.md",
    "docs/benchmarks.md": "benchmarks/RESULTS.md",
}

# Where the accuracy on the demo photographs is stated.
FIGURES = {
    "README.md": r"Of 100 new photographs (\d+) get the right name, (\d+) are called \*unknown\* "
    r"and (\d+) gets a wrong name",
    "docs/tutorial.md": r"(\d+) of 100 new photographs get the right name, (\d+) are called "
    r"\*unknown\* and (\d+) gets a wrong name",
    "docs/memory.md": r"mean of 10 random choices \| ([\d.]+) % named right \(([\d.]+) % called "
    r"unknown\); first guess ([\d.]+) % right",
    "docs/concepts/unknown.md": r"named right",
}


def named(page):
    return str(page.relative_to(ROOT))


def anchors(text: str) -> set[str]:
    """What the headings of a page can be linked by."""
    found = set()
    for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        plain = re.sub(r"[^\w\s-]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title))
        found.add(re.sub(r"[-\s]+", "-", plain.strip().lower()))
    return found


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page):
    for target in LINK.findall(outside_of_blocks(page)):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        place = (page.parent / path).resolve() if path else page
        relative = str(place.relative_to(ROOT))
        place = ROOT / ON_THE_SITE.get(relative, relative)
        assert place.exists(), f"{named(page)} links to {target}, which is not there"
        if anchor and place.suffix == ".md":
            known = anchors(place.read_text("utf-8"))
            assert anchor in known, f"{named(page)} links to {target}; there are {sorted(known)}"


def test_no_word_is_misspelt():
    places = [named(page) for page in PAGES] + ["src", "papers/src", "examples", "scripts"]
    done = subprocess.run(
        [sys.executable, "-m", "codespell_lib", *places],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\nwords of our own belong into docs/words.txt"


def test_how_good_it_is_on_photographs_is_one_set_of_figures():
    """Named right, called unknown, first guess: on every page what the benchmark printed."""
    pages = {name: " ".join((ROOT / name).read_text("utf-8").split()) for name in FIGURES}
    table = pages["docs/concepts/unknown.md"]
    rows = ("named right", "called unknown", "first guess right")
    right, unknown, guess = (
        float(re.search(rf"\| \*{row}\* \| [^|]+ \| ([\d.]+) % \|", table)[1]) for row in rows
    )
    assert right <= guess
    assert right + unknown <= 100
    for name, pattern in FIGURES.items():
        found = re.search(pattern, pages[name])
        assert found, name
        stated = [float(number) for number in found.groups()]
        if name in ("README.md", "docs/tutorial.md"):
            assert stated == [round(right), round(unknown), 100 - round(right) - round(unknown)]
        elif stated:
            assert stated == [right, unknown, guess], name
