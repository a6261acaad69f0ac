"""Draw the page's main states into docs/images: python scripts/page_screenshots.py.

Needs chromium and playwright. What is taught are pieces of scikit-learn's two photographs.
"""

import shutil
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import Literal

from playwright.sync_api import Page, sync_playwright

from everlearn import Memory
from everlearn.cli.demo import write_crops
from everlearn.service import Settings
from everlearn.service.server import make_server

IMAGES = Path(__file__).parents[1] / "docs" / "images"
# Name of the file, colours, width and height.
LOOKS: tuple[tuple[str, Literal["light", "dark"], int, int], ...] = (
    ("page-light", "light", 1100, 1040),
    ("page-dark", "dark", 1100, 1040),
    ("page-phone", "light", 390, 1500),
)
THINGS = {"flower": "flower.jpg", "temple": "china.jpg"}


def draw(page: Page, address: str, asked: Path, target: str) -> None:
    """The page with an answer on it."""
    page.goto(address)
    page.locator(".cards img").nth(3).wait_for()
    page.set_input_files("#files", [asked])
    page.locator("#drop button[value=ask]").click()
    page.locator("#bars button").first.wait_for()
    page.wait_for_timeout(500)
    page.screenshot(path=IMAGES / f"{target}.jpg", quality=82)


def main() -> None:
    """Serve a Memory for as long as the pictures take."""
    settings = Settings()
    with tempfile.TemporaryDirectory() as folder, Memory(Path(folder) / "memory") as memory:
        found = {name: write_crops(Path(folder), file) for name, file in THINGS.items()}
        for name, files in found.items():
            for file in files[:-1]:
                memory.teach(file, name)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = make_server({"memory": memory}, settings, port=port)
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            time.sleep(0.05)
        address = f"http://127.0.0.1:{port}/?token={settings.token}"
        asked = found["flower"][-1]
        with sync_playwright() as driver:
            browser = driver.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            for target, scheme, width, height in LOOKS:
                context = browser.new_context(
                    color_scheme=scheme, viewport={"width": width, "height": height}
                )
                page = context.new_page()
                page.set_default_timeout(120_000)
                draw(page, address, asked, target)
                context.close()
            browser.close()
        server.should_exit = True
        server.service.events.close()
        thread.join()


if __name__ == "__main__":
    main()
