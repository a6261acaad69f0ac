"""The site builds without warnings, has every public name, and loads nothing from other hosts."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import everlearn
from scripts.check_pages import CHROMIUM, SLOW_MACHINE_MS, violations
from tests.docs.blocks import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    pytest.importorskip("mkdocstrings", reason="the documentation extra is not installed")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def pages_of(site: Path) -> list[Path]:
    return sorted(site.glob("**/*.html"))


def test_every_public_name_is_in_the_reference_once(site):
    headings = [
        name
        for page in (site / "reference").glob("*.html")
        for name in re.findall(r'<h2 id="everlearn\.[\w.]*?(\w+)" class="doc', page.read_text())
    ]
    assert sorted(name for name in headings if name in everlearn.__all__) == sorted(
        everlearn.__all__
    )


def test_nothing_is_loaded_from_elsewhere(site):
    loading = re.compile(r'<(?:script|img|iframe|source)[^>]*\ssrc="?(?:https?:)?//[^>]*>', re.I)
    styles = re.compile(r'<link[^>]*rel="?(?:stylesheet|preconnect|preload)"?[^>]*//[^>]*>', re.I)
    for page in pages_of(site):
        text = page.read_text("utf-8")
        assert not loading.findall(text) + styles.findall(text), page


def test_search_works_without_a_server(site):
    index = (site / "search" / "search_index.js").read_text("utf-8")
    assert "StreamingLDA" in index
    assert "forget" in index


def browser_pages(site: Path) -> list[Path]:
    """Pages of each kind; `make pages` looks at all of them, which takes minutes."""
    chosen = ("index", "start/scikit-learn", "memory", "reference/learners")
    return [site / f"{name}.html" for name in chosen]


def test_pages_pass_axe_core(site):
    """axe-core finds nothing, at phone and desktop width, light and dark."""
    pytest.importorskip("axe_playwright_python.sync_playwright")
    playwright = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM.exists():
        pytest.skip("chromium is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        found = list(violations(browser, browser_pages(site), [("light", 1280), ("dark", 390)]))
        # The search finds something, from a folder, without a server.
        page = browser.new_page()
        page.set_default_timeout(SLOW_MACHINE_MS)
        page.goto((site / "index.html").as_uri())
        page.locator("input.md-search__input").click()
        page.keyboard.type("receipt", delay=20)
        page.wait_for_selector(".md-search-result__item", state="attached")
        searched = page.locator(".md-search-result__list").inner_text()
        browser.close()
    assert not found, "\n".join(map(str, found))
    assert "receipt" in searched.lower()
