"""The page in Chromium with a fake camera: answers and frames per second, axe-core.

Needs chromium and playwright. The film is made of scikit-learn's two photographs.
"""

import io
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image
from sklearn.datasets import load_sample_image

from benchmarks.serving import TOKEN, serving
from benchmarks.side_by_side import Line

SECONDS = 15
# Counts requests and how long the interface stood still, in the page itself.
WATCH = """
() => {
  window.counted = { ask: 0, teach: 0, find: 0, stood: 0 };
  const send = WebSocket.prototype.send;
  WebSocket.prototype.send = function (...given) {
    window.counted.find += 1;
    return send.apply(this, given);
  };
  const own = window.fetch;
  window.fetch = async (...given) => {
    const answer = await own(...given);
    for (const kind of ["ask", "teach"]) {
      if (String(given[0]).includes(`v1/${kind}`)) window.counted[kind] += 1;
    }
    return answer;
  };
  let before = performance.now();
  const beat = () => {
    const now = performance.now();
    window.counted.stood = Math.max(window.counted.stood, now - before);
    before = now;
    setTimeout(beat, 0);
  };
  beat();
}
"""


def lines() -> Iterator[Line]:
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "memory") as running:
        film = Path(folder) / "film.mjpeg"
        film.write_bytes(b"".join(moving()))
        with sync_playwright() as driver:
            browser = driver.chromium.launch(
                executable_path=shutil.which("chromium"),
                args=[
                    "--no-sandbox",
                    "--use-fake-ui-for-media-stream",
                    "--use-fake-device-for-media-stream",
                    f"--use-file-for-fake-video-capture={film}",
                ],
            )
            page = browser.new_page()
            page.set_default_timeout(120_000)
            elsewhere: list[str] = []
            page.on("request", lambda request: elsewhere.append(request.url))
            page.goto(f"{running.address}/?token={TOKEN}")
            violations = len(Axe().run(page).response["violations"])
            page.evaluate(WATCH)
            browser.start_tracing(page=page, categories=["toplevel"])
            page.get_by_role("button", name="Use the camera").click()
            page.locator("#name").fill("garden")
            page.locator("#verdict.unknown").wait_for()
            page.locator("#hold").hover()
            page.mouse.down()
            taught = rate(page, "teach")
            page.mouse.up()
            page.locator("#bars button").first.wait_for()
            answered = rate(page, "ask")
            stood, busy = page.evaluate("window.counted.stood"), longest(browser.stop_tracing())
            violations += len(Axe().run(page).response["violations"])
            page.get_by_role("button", name="Why?").click()
            page.locator("#why-list li").first.wait_for()
            violations += len(Axe().run(page).response["violations"])
            page.get_by_role("button", name="Close", exact=True).click()
            page.get_by_role("button", name="Find things").click()
            page.locator("#boxes .box").first.wait_for()
            page.evaluate("window.counted.stood = 0")
            browser.start_tracing(page=page, categories=["toplevel"])
            boxes, paused = rate(page, "find"), page.evaluate("window.counted.stood")
            busy_drawing = longest(browser.stop_tracing())
            violations += len(Axe().run(page).response["violations"])
            browser.close()
    foreign = [url for url in elsewhere if not url.startswith((running.address, "blob:", "data:"))]
    yield Line("live camera page", f"{answered:.1f} answers a second", "≥ 5")
    yield Line("teaching by holding", f"{taught:.1f} frames a second", "≥ 5")
    yield Line(
        "the interface stood still at most; its longest task, processor time",
        f"{stood:.0f} ms; {busy:.0f} ms",
        "≤ 50 ms",
    )
    yield Line("live page with boxes drawn", f"{boxes:.1f} frames a second", "≥ 4")
    yield Line(
        "and it stood still at most; its longest task, processor time",
        f"{paused:.0f} ms; {busy_drawing:.0f} ms",
        "≤ 50 ms",
    )
    yield Line("requests to elsewhere", str(len(foreign)), "0")
    yield Line("axe-core in four states", f"{violations} violations", "0")


def longest(trace: bytes) -> float:
    """Milliseconds of processor time of the longest task of the page's main thread.

    By the clock a page also stands still while the service, the camera's film and this program
    have both cores.
    """
    events = json.loads(trace)["traceEvents"]
    main = {
        (event["pid"], event["tid"])
        for event in events
        if event.get("name") == "thread_name" and event["args"].get("name") == "CrRendererMain"
    }
    tasks = [
        event.get("tdur", 0)
        for event in events
        if event.get("name", "").endswith("RunTask") and (event["pid"], event["tid"]) in main
    ]
    return max(tasks) / 1000


def rate(page: Any, kind: str) -> float:
    before = page.evaluate(f"window.counted.{kind}")
    page.wait_for_timeout(1000 * SECONDS)
    return (page.evaluate(f"window.counted.{kind}") - before) / SECONDS


def moving() -> Iterator[bytes]:
    """The camera moves over two photographs."""
    for name in ("flower.jpg", "china.jpg"):
        pixels = load_sample_image(name)
        for step in range(0, 200, 2):
            stream = io.BytesIO()
            Image.fromarray(pixels[step // 2 : step // 2 + 240, step : step + 320]).save(
                stream, "JPEG", quality=85
            )
            yield stream.getvalue()
