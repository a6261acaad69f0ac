"""The page's JavaScript, run by node and by a browser: the same file gives the same answers."""

import json
import re
import shutil
import subprocess
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import onnxruntime
import pytest
from PIL import Image

from everlearn import Memory
from scripts.check_pages import CHROMIUM, SLOW_MACHINE_MS
from tests.docs.blocks import ROOT, blocks

PAGE = ROOT / "docs" / "how-to" / "one-file.md"
# npm install --prefix out/node onnxruntime-web
PACKAGES = ROOT / "out" / "node" / "node_modules"
MAIN = """
import * as ort from "onnxruntime-web";
import { readFileSync } from "node:fs";
ort.env.wasm.numThreads = 1;
const size = 224;
%s
const session = await ort.InferenceSession.create("things.onnx");
const answers = [];
for (const file of process.argv.slice(2)) {
  answers.push(await named(session, ort, new Uint8ClampedArray(readFileSync(file))));
}
console.log(JSON.stringify(answers));
"""
HTML = """<!doctype html>
<title>things</title>
<script type="importmap">
{"imports": {"onnxruntime-web": "/node_modules/onnxruntime-web/dist/ort.wasm.bundle.min.mjs"}}
</script>
<img src="0.png"><img src="1.png"><img src="2.png">
<script type="module">
window.failed = null;
try {
  const { ask } = await import("/page.mjs");
  const answers = [];
  for (const picture of document.images) {
    await picture.decode();
    answers.push(await ask(picture));
  }
  window.answers = answers;
} catch (error) { window.failed = String(error); }
</script>
"""


def test_the_page_speaks_of_what_the_file_has():
    """Without node, at least the names on the page are checked."""
    (code,) = (block.code for block in blocks(PAGE) if block.language == "javascript")
    assert re.search(
        r"\{ name, probabilities, unknown \} = await session.run\(\{ pixels \}\)", code
    )
    assert code.count("{") == code.count("}")
    assert code.count("(") == code.count(")")


@pytest.fixture
def pictures():
    """Two of each of three colours; 256 pixels wide, so that the centre is cut out 1 : 1."""
    rng = np.random.default_rng(0)
    noise = rng.normal(scale=20, size=(6, 256, 256, 3))
    colours = np.array(((200, 40, 40), (40, 60, 200), (120, 120, 120)) * 2)
    return np.clip(colours[:, None, None] + noise, 0, 255).astype(np.uint8)


@pytest.fixture
def things(tmp_path, pictures):
    """A folder with ``things.onnx`` and the packages of node, and what the file says in Python."""
    if not (PACKAGES / "onnxruntime-web").exists():
        pytest.skip("needs npm install --prefix out/node onnxruntime-web")
    with Memory(tmp_path / "memory", network="basic") as memory:
        for picture, name in zip(pictures, ["rot", "blau", "grau"] * 2, strict=True):
            memory.teach(picture, name)
        memory.export(tmp_path / "things.onnx", with_embedder=True)
    (tmp_path / "node_modules").symlink_to(PACKAGES)
    session = onnxruntime.InferenceSession(
        tmp_path / "things.onnx", providers=["CPUExecutionProvider"]
    )
    names, shares, unknown, _ = session.run(None, {"pixels": centre(pictures[:3])})
    said = ["unknown" if strange else name for name, strange in zip(names, unknown, strict=True)]
    return tmp_path, list(zip(said, shares, strict=True))


def centre(pictures):
    return np.ascontiguousarray(pictures[:, 16:240, 16:240])


def the_code() -> str:
    (code,) = (block.code for block in blocks(PAGE) if block.language == "javascript")
    return code


def require_the_same(answers, expected):
    for answer, (name, shares) in zip(answers, expected, strict=True):
        assert answer["name"] == name
        assert np.allclose(answer["probabilities"], shares, atol=2e-3)


def test_node_gives_the_same_answers_as_python(things, pictures):
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    folder, expected = things
    named = "async function named" + the_code().split("export async function named")[1]
    (folder / "main.mjs").write_text(MAIN % named, encoding="utf-8")
    files = []
    for index, picture in enumerate(centre(pictures[:3])):
        rgba = np.dstack([picture, np.full(picture.shape[:2], 255, dtype=np.uint8)])
        files.append(f"{index}.raw")
        (folder / files[-1]).write_bytes(rgba.tobytes())
    done = subprocess.run(
        ["node", "main.mjs", *files],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    require_the_same(json.loads(done.stdout), expected)


def test_a_browser_gives_the_same_answers_as_python(things, pictures):
    """The code of the page, unchanged, in Chromium."""
    playwright = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM.exists():
        pytest.skip("chromium is not installed")
    folder, expected = things
    for index, picture in enumerate(pictures[:3]):
        Image.fromarray(picture).save(folder / f"{index}.png")
    (folder / "page.mjs").write_text(the_code(), encoding="utf-8")
    (folder / "index.html").write_text(HTML, encoding="utf-8")
    with served(folder) as address, playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(SLOW_MACHINE_MS)
        page.goto(address)
        page.wait_for_function("window.answers || window.failed")
        assert page.evaluate("window.failed") is None
        answers = page.evaluate("window.answers")
        browser.close()
    require_the_same(answers, expected)


class Quiet(SimpleHTTPRequestHandler):
    extensions_map = SimpleHTTPRequestHandler.extensions_map | {".mjs": "text/javascript"}

    def log_message(self, *words):
        pass


@contextmanager
def served(folder):
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/index.html"
        finally:
            server.shutdown()
            thread.join()
