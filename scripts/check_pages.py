"""Checks every page of the site with axe-core: python scripts/check_pages.py [NAME …]

axe-core reads each page of out/site (``make docs``), or those named, at phone and desktop width,
light and dark, and everything it finds is printed. Needs chromium.
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from playwright.sync_api import Browser

Scheme = Literal["light", "dark"]
SITE = Path(__file__).parents[1] / "out" / "site"
CHROMIUM = Path("/usr/bin/chromium")
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
LOOKS = [(scheme, width) for scheme in SCHEMES for width in (390, 1280)]
# Generous timeouts for a busy machine; nothing is timed here.
SLOW_MACHINE_MS = 180_000


def violations(
    browser: "Browser", pages: Iterable[Path], looks: Iterable[tuple[Scheme, int]] = LOOKS
) -> Iterator[tuple[str, str, int, str, list[str]]]:
    """Page, scheme, width, rule and the first elements of everything that axe-core finds."""
    from axe_playwright_python.sync_playwright import Axe

    pages = list(pages)
    for scheme, width in looks:
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
        page = context.new_page()
        page.set_default_timeout(SLOW_MACHINE_MS)
        for place in pages:
            page.goto(place.as_uri())
            for violation in Axe().run(page).response["violations"]:
                nodes = [node["html"][:200] for node in violation["nodes"][:3]]
                yield place.name, scheme, width, violation["id"], nodes
        context.close()


def main(*names: str) -> None:
    from playwright.sync_api import sync_playwright

    pages = [SITE / f"{name}.html" for name in names] or sorted(SITE.glob("**/*.html"))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        found = list(violations(browser, pages))
        browser.close()
    for violation in found:
        print(*violation)
    print(f"{len(pages)} pages, {len(LOOKS)} looks each: {len(found)} violations")
    sys.exit(bool(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
