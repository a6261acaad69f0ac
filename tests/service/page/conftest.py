"""A browser whose camera shows a file, shared by the tests of a file."""

import io
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

CHROMIUM = os.environ.get("EVERLEARN_CHROMIUM") or shutil.which("chromium")


@pytest.fixture(scope="module")
def film(tmp_path_factory) -> Path:
    """What the camera sees: a red scene with a stripe that moves, as concatenated JPEGs."""
    frames = []
    for shift in range(0, 300, 12):
        pixels = np.full((240, 320, 3), (190, 40, 30), dtype=np.uint8)
        pixels[:, shift : shift + 40] = (250, 240, 60)
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, "JPEG", quality=90)
        frames.append(stream.getvalue())
    path = tmp_path_factory.mktemp("camera") / "film.mjpeg"
    path.write_bytes(b"".join(frames))
    return path


@pytest.fixture(scope="module")
def launched(film):
    """A browser that was started with these options, once."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        browsers = {}

        def get(*, camera, allowed):
            options = ["--no-sandbox"]
            if allowed:
                options.append("--use-fake-ui-for-media-stream")
            if camera:
                options += [
                    "--use-fake-device-for-media-stream",
                    f"--use-file-for-fake-video-capture={film}",
                ]
            if (camera, allowed) not in browsers:
                browser = driver.chromium.launch(executable_path=CHROMIUM, args=options)
                browsers[camera, allowed] = browser
            return browsers[camera, allowed]

        yield get
        for browser in browsers.values():
            browser.close()


@pytest.fixture
def browse(launched):
    """Open a page that shares nothing with others; without ``camera`` there is none at all."""
    contexts = []

    def start(*, camera=True, allowed=True, **settings):
        context = launched(camera=camera, allowed=allowed).new_context(**settings)
        contexts.append(context)
        page = context.new_page()
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

    start.another = lambda page: page.context.new_page()

    yield start
    for context in contexts:
        context.close()
