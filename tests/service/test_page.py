"""The page in a real browser, with a camera that shows a file."""

import io
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from everlearn.service import app
from tests.service.conftest import TOKEN, picture

PAGE = Path(app.__file__).parent / "page"
CHROMIUM = os.environ.get("EVERLEARN_CHROMIUM") or shutil.which("chromium")

browser_only = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium here, so the page was not tried in a browser"
)


def test_the_page_is_small_and_loads_nothing_from_elsewhere():
    texts = {file.name: file.read_text() for file in PAGE.iterdir()}
    assert sum(len(text.encode()) for text in texts.values()) < 200_000
    for name, text in texts.items():
        assert "https://" not in text, name
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", ""), name
        assert "innerHTML" not in text, name
    assert "style=" not in texts["index.html"]
    assert "onclick=" not in texts["index.html"]


def see(locator):
    """Wait until something is as it should be."""
    from playwright.sync_api import expect

    expect.set_options(timeout=60_000)
    return expect(locator)


def moving_picture(path: Path) -> None:
    """A red scene with a stripe that moves: concatenated JPEGs."""
    frames = []
    for shift in range(0, 300, 12):
        pixels = np.full((240, 320, 3), (190, 40, 30), dtype=np.uint8)
        pixels[:, shift : shift + 40] = (250, 240, 60)
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, "JPEG", quality=90)
        frames.append(stream.getvalue())
    path.write_bytes(b"".join(frames))


@pytest.fixture
def browse(tmp_path):
    """Open a browser; ``camera`` is what it sees, or None for no camera at all."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    film = tmp_path / "film.mjpeg"
    moving_picture(film)
    with playwright.sync_playwright() as driver:
        browsers = []

        def start(*, camera=True, **context):
            options = ["--no-sandbox"]
            if camera:
                options += [
                    "--use-fake-ui-for-media-stream",
                    "--use-fake-device-for-media-stream",
                    f"--use-file-for-fake-video-capture={film}",
                ]
            browser = driver.chromium.launch(executable_path=CHROMIUM, args=options)
            browsers.append(browser)
            page = browser.new_context(**context).new_page()
            page.set_default_timeout(60_000)
            page.problems = []
            page.requested = []
            page.on("pageerror", lambda error: page.problems.append(str(error)))
            page.on(
                "console",
                lambda said: page.problems.append(said.text) if said.type == "error" else None,
            )
            page.on("request", lambda request: page.requested.append(request.url))
            return page

        yield start
        for browser in browsers:
            browser.close()


@browser_only
def test_hold_to_teach_and_be_answered(browse, live, memories):
    page = browse()
    page.goto(f"{live}/?token={TOKEN}")
    assert TOKEN not in page.url
    page.get_by_role("button", name="Use the camera").click()
    evil = '<img src=x onerror="document.title=1">'
    page.locator("#name").fill(evil)
    page.locator("#verdict", has_text="Unknown").wait_for()  # the camera runs, nothing moves more
    page.locator("#hold").hover()
    page.mouse.down()
    see(page.locator("#taken")).to_have_text(re.compile("[3-9] pictures"))
    page.mouse.up()
    page.locator(".cards .called").wait_for()
    assert page.locator(".cards .called").inner_text() == evil
    assert page.title() == "everlearn"
    see(page.locator("#verdict")).to_have_text(evil)
    taught = memories["home"].names()[evil].count
    assert taught >= 3

    page.get_by_role("button", name=f"Rename {evil}").click()
    page.get_by_label("New name").fill("red scene")
    page.locator("#rename button[value=ok]").click()
    see(page.locator(".called")).to_have_text("red scene")

    page.locator("#name").fill("sunset")
    page.get_by_role("button", name="Correct").click()
    page.locator(".called", has_text="sunset").wait_for()
    page.get_by_role("button", name="Undo").click()
    page.locator(".called", has_text="sunset").wait_for(state="detached")
    page.get_by_role("button", name="Undo").click()
    see(page.locator(".called")).to_have_text(evil)
    page.get_by_role("button", name="Undo").click()
    page.locator("#no-names").wait_for()
    assert not memories["home"].names()

    page.reload()
    page.locator("#no-names").wait_for()
    assert page.problems == []
    assert all(url.startswith((live, "blob:")) for url in page.requested)


@browser_only
def test_pictures_without_a_camera_on_a_phone(browse, live, tmp_path):
    page = browse(camera=False, viewport={"width": 360, "height": 740}, color_scheme="dark")
    page.goto(f"{live}/?token={TOKEN}")
    page.get_by_role("button", name="Use the camera").click()
    page.locator("#notice").wait_for()
    for name, colour in (("red", (200, 0, 0)), ("blue", (0, 0, 200))):
        files = []
        for shift in range(3):
            file = tmp_path / f"{name}{shift}.png"
            file.write_bytes(picture(*colour, shift=8 * shift))
            files.append(file)
        page.set_input_files("#files", files)
        page.locator("#drop-name").fill(name)
        page.locator("#drop button[value=teach]").click()
        page.locator(".called", has_text=name).wait_for()
    asked = tmp_path / "asked.png"
    asked.write_bytes(picture(205, 0, 0, shift=20))
    page.set_input_files("#files", [asked])
    page.locator("#drop button[value=ask]").click()
    page.locator("#bars button").first.wait_for()
    assert page.locator("#bars button").first.get_attribute("data-name") == "red"
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 360
    page.locator(".cards img").first.wait_for()
    assert page.problems == []
