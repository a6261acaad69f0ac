"""The service, one client: a frame in and its answer out, vectors, the start and the page."""

import io
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_image

from benchmarks.serving import TOKEN, Hasty, quantile, serving
from benchmarks.side_by_side import Line
from everlearn import Client, EfficientNetLite0, Memory, service

FRAMES = 60
QUESTIONS = 2_000
WIDTH = 512
NAMES = 100


def lines() -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as folder:
        yield from frames(Path(folder) / "frames")
        yield from vectors(Path(folder) / "vectors")
    page = Path(service.__file__).parent / "page"
    weight = sum(file.stat().st_size for file in page.iterdir() if file.is_file())
    yield Line("the whole page, its parts and the API's", f"{weight / 1e3:.0f} KB", "≤ 200 KB")


def frames(folder: Path) -> Iterator[Line]:
    """As the page sends them: squares of 256 as JPEG."""
    found = []
    for name in ("flower.jpg", "china.jpg"):
        pixels = load_sample_image(name)
        for left in range(0, 330, 11):
            stream = io.BytesIO()
            square = Image.fromarray(pixels[:400, left : left + 400 - 100]).resize((256, 256))
            square.save(stream, "JPEG", quality=90)
            found.append((stream.getvalue(), np.asarray(square), name))
    embedder = EfficientNetLite0()
    with Memory(folder, embedder=embedder) as memory:
        for data, _, name in found[::4]:
            memory.teach(data, name)
    asked, own = [], []
    with serving(folder) as running, Client(running.address, token=TOKEN) as client:
        yield Line("start to first page", f"{running.seconds:.1f} s", "≤ 3 s")
        for data, pixels, _ in found[:8]:
            client.ask(data)
            embedder.embed([pixels])
        for data, pixels, _ in found[:FRAMES]:
            start = time.perf_counter()
            client.ask(data)
            asked.append(time.perf_counter() - start)
            start = time.perf_counter()
            embedder.embed([pixels])
            own.append(time.perf_counter() - start)
        new = found[1][0]
        client.teach(new, "something new")
        knows = any(answer.name == "something new" for answer in client.ask(new, top=None))
    ratio = float(np.median(asked) / np.median(own))
    measured = f"{1e3 * np.median(asked):.1f} ms, {ratio:.2f} × the embedder alone"
    yield Line("a frame in, its answer out, loopback, Lite0", measured, "≤ 1.3 × the embedder")
    yield Line("a new name is known", "to the next frame" if knows else "later", "the next frame")


def vectors(folder: Path) -> Iterator[Line]:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(NAMES, WIDTH))
    with Memory(folder) as memory:
        memory.teach_many(
            ((centres[i % NAMES] + rng.normal(size=WIDTH)).astype(np.float32), f"name {i % NAMES}")
            for i in range(10 * NAMES)
        )
    seconds = []
    with serving(folder) as running:
        client = Hasty(running.port)
        for i in range(QUESTIONS + 50):
            vector = (centres[i % NAMES] + rng.normal(size=WIDTH)).tolist()
            start = time.perf_counter()
            client.post("/v1/ask", {"vector": vector})
            if i >= 50:
                seconds.append(time.perf_counter() - start)
        client.close()
    half, most = (1e3 * quantile(seconds, share) for share in (0.5, 0.99))
    yield Line(
        f"a vector of {WIDTH} in, its answer out, {NAMES} names",
        f"median {half:.1f} ms, p99 {most:.1f} ms",
        "p99 ≤ 10 ms",
    )
