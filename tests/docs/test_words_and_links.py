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
