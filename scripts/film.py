"""Make the film of the page, docs/images/film.webp: python scripts/film.py (``make film``).

The real page in headless chromium, with a camera that shows what the script holds up: pieces of
scikit-learn's two photographs on a table. Each picture of the film is one of the page; how long a
machine takes for it does not matter. Something is held up and named, another thing is called by
that name, corrected, both are found again in another place, and one is forgotten.
"""

import base64
import io
import shutil
import socket
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Page, sync_playwright
from sklearn.datasets import load_sample_image

from everlearn import Memory
from everlearn.service import Settings
from everlearn.service.server import make_server

TARGET = Path(__file__).parents[1] / "docs" / "images" / "film.webp"
WIDTH, HEIGHT = 900, 700
STEP_MS = 250
MOST_SECONDS, MOST_BYTES = 20.0, 2_000_000
SCENE = (640, 480)
# The piece of each photograph that is held up: left, top, right, bottom.
THINGS = {
    "flower": ("flower.jpg", (150, 40, 470, 360)),
    "temple": ("china.jpg", (190, 60, 510, 380)),
}

# A camera that shows the picture it was told to, moving a little as a hand does.
CAMERA = """
const canvas = Object.assign(document.createElement("canvas"), {width: 640, height: 480});
const context = canvas.getContext("2d");
let held = null, count = 0;
window.holdUp = (address) => new Promise((resolve) => {
  const picture = new Image();
  picture.onload = () => { held = picture; resolve(); };
  picture.src = address;
});
setInterval(() => {
  count += 1;
  context.fillStyle = "#8a8f98";
  context.fillRect(0, 0, 640, 480);
  if (held) context.drawImage(held, 4 * Math.sin(count / 3), 3 * Math.cos(count / 4));
}, 60);
navigator.mediaDevices.getUserMedia = async () => canvas.captureStream(15);
"""


def scene(thing: str, table: int, side: int, left: int, top: int) -> str:
    """Something lying on a table, as an address that a page can show."""
    file, box = THINGS[thing]
    shades = np.linspace(table - 20, table + 20, SCENE[0]).astype(np.uint8)
    ground = np.repeat(np.tile(shades, (SCENE[1], 1))[:, :, None], 3, axis=2)
    picture = Image.fromarray(ground)
    piece = Image.fromarray(load_sample_image(file)).crop(box).resize((side, side))
    picture.paste(piece, (left, top))
    stream = io.BytesIO()
    picture.save(stream, "JPEG", quality=92)
    return "data:image/jpeg;base64," + base64.b64encode(stream.getvalue()).decode()


class Film:
    """Pictures of a page, one for every step of time."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.frames: list[Image.Image] = []

    def run(self, seconds: float) -> None:
        """So much of the film; the page goes on meanwhile."""
        for _ in range(round(1000 * seconds / STEP_MS)):
            self.page.wait_for_timeout(STEP_MS)
            shot = self.page.screenshot(type="jpeg", quality=92)
            self.frames.append(Image.open(io.BytesIO(shot)).convert("RGB"))

    def hold_up(self, address: str) -> None:
        self.page.evaluate("address => window.holdUp(address)", address)

    def say(self, name: str) -> None:
        self.page.locator("#name").fill("")
        self.page.locator("#name").press_sequentially(name)

    def teach(self, seconds: float) -> None:
        self.page.locator("#hold").hover()
        self.page.mouse.down()
        self.run(seconds)
        self.page.mouse.up()

    def save(self, path: Path) -> float:
        """Write it; returns how many seconds it takes to see."""
        lasting: list[int] = []
        kept: list[Image.Image] = []
        for frame in self.frames:
            if kept and frame.tobytes() == kept[-1].tobytes():
                lasting[-1] += STEP_MS
            else:
                kept.append(frame)
                lasting.append(STEP_MS)
        kept[0].save(path, save_all=True, append_images=kept[1:], duration=lasting, loop=0,
                     quality=62, method=6)  # fmt: skip
        return sum(lasting) / 1000


def play(film: Film) -> None:
    """The story."""
    page = film.page
    page.get_by_role("button", name="Use the camera").click()
    film.hold_up(scene("flower", 150, 330, 150, 70))
    page.locator("#verdict", has_text="Unknown").wait_for()
    film.run(1.5)
    film.say("flower")
    film.teach(1.0)
    page.locator("#verdict", has_text="flower").wait_for()
    film.run(1.5)
    film.hold_up(scene("temple", 150, 330, 150, 70))
    film.run(2.0)
    film.say("temple")
    film.teach(1.0)
    page.locator("#verdict", has_text="temple").wait_for()
    film.run(1.5)
    film.hold_up(scene("flower", 90, 260, 250, 120))
    page.locator("#verdict", has_text="flower").wait_for()
    film.run(2.0)
    film.hold_up(scene("temple", 200, 280, 130, 150))
    page.locator("#verdict", has_text="temple").wait_for()
    film.run(2.0)
    page.get_by_role("button", name="Forget temple").click()
    film.run(1.0)
    page.locator("#forget button[value=forget]").click()
    page.locator(".called", has_text="temple").wait_for(state="detached")
    film.run(2.0)


def main() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = Settings()
    with tempfile.TemporaryDirectory() as folder, Memory(Path(folder) / "memory") as memory:
        server = make_server({"memory": memory}, settings, port=port)
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            time.sleep(0.05)
        try:
            with sync_playwright() as driver:
                browser = driver.chromium.launch(
                    executable_path=shutil.which("chromium"), args=["--no-sandbox"]
                )
                page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
                page.set_default_timeout(120_000)
                page.add_init_script(CAMERA)
                page.goto(f"http://127.0.0.1:{port}/?token={settings.token}")
                film = Film(page)
                play(film)
                browser.close()
        finally:
            server.should_exit = True
            server.service.events.close()
            thread.join()
    seconds = film.save(TARGET)
    size = TARGET.stat().st_size
    print(f"{TARGET.name}: {seconds:.1f} s, {size / 1e6:.2f} MB, {len(film.frames)} pictures")
    if seconds > MOST_SECONDS or size > MOST_BYTES:
        raise SystemExit(f"a film has at most {MOST_SECONDS:.0f} s and {MOST_BYTES / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
