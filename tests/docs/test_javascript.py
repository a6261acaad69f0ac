"""The page's JavaScript, run by node: the same file gives the same answers there."""

import json
import re
import shutil
import subprocess

import numpy as np
import onnxruntime
import pytest

from everlearn import Memory
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


def test_the_page_speaks_of_what_the_file_has():
    """Where node or its package is missing, at least every name on the page is right."""
    (code,) = (block.code for block in blocks(PAGE) if block.language == "javascript")
    assert re.search(
        r"\{ name, probabilities, unknown \} = await session.run\(\{ pixels \}\)", code
    )
    assert code.count("{") == code.count("}")
    assert code.count("(") == code.count(")")


def test_a_browser_answers_as_python_does(tmp_path):
    if shutil.which("node") is None or not (PACKAGES / "onnxruntime-web").exists():
        pytest.skip("needs node, and npm install --prefix out/node onnxruntime-web")
    rng = np.random.default_rng(0)
    pictures = [
        np.clip(np.array(colour) + rng.normal(scale=20, size=(224, 224, 3)), 0, 255).astype(
            np.uint8
        )
        for colour in ((200, 40, 40), (40, 60, 200), (120, 120, 120)) * 2
    ]
    with Memory(tmp_path / "memory") as memory:
        for picture, name in zip(pictures, ["rot", "blau", "grau"] * 2, strict=True):
            memory.teach(picture, name)
        memory.export(tmp_path / "things.onnx", with_embedder=True)
    session = onnxruntime.InferenceSession(
        tmp_path / "things.onnx", providers=["CPUExecutionProvider"]
    )
    (code,) = (block.code for block in blocks(PAGE) if block.language == "javascript")
    named = "async function named" + code.split("export async function named")[1]
    (tmp_path / "main.mjs").write_text(MAIN % named, encoding="utf-8")
    (tmp_path / "node_modules").symlink_to(PACKAGES)
    for index, picture in enumerate(pictures[:3]):
        rgba = np.dstack([picture, np.full(picture.shape[:2], 255, dtype=np.uint8)])
        (tmp_path / f"{index}.raw").write_bytes(rgba.tobytes())
    done = subprocess.run(
        ["node", "main.mjs", "0.raw", "1.raw", "2.raw"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    for answer, picture in zip(json.loads(done.stdout), pictures[:3], strict=True):
        name, shares, unknown, _ = session.run(None, {"pixels": picture[None]})
        assert answer["name"] == ("unknown" if unknown[0] else name[0])
        assert np.allclose(answer["probabilities"], shares[0], atol=2e-3)
