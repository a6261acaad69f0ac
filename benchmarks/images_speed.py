"""Measures how fast a Memory teaches, asks and opens."""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import numpy as np
import onnxruntime
from everlearn_papers.data.catalogue import find
from sklearn.base import clone

from benchmarks.side_by_side import Line
from everlearn import Memory
from everlearn.images.decode import open_picture
from everlearn.images.embedders import WEIGHTS, EfficientNetLite0
from everlearn.images.folders import labelled_files
from everlearn.memory.model.model import Model

THREADS = 2
ROUNDS = 5
N_TEACHINGS = 100_000
N_NAMES = 1000
WIDTH = 1280
QUESTIONS = 3000

Precision = Literal["float32", "int8"]


def session(threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    model = (WEIGHTS / "efficientnet_lite0.onnx").read_bytes()
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def processor_time(run: Callable[[], object], n_images: int) -> float:
    """Milliseconds of all cores together per image; the best of several rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return 1e3 * best / n_images


def teach_folder(folder: Path, precision: Precision = "float32") -> float:
    """Images per second of teaching a folder, everything on disk."""
    files = list(labelled_files([folder]))
    embedder = EfficientNetLite0(precision=precision)
    with tempfile.TemporaryDirectory() as place, Memory(place, embedder=embedder) as memory:
        start = time.perf_counter()
        memory.teach_many(files)
        return len(files) / (time.perf_counter() - start)


def bare_model(images: np.ndarray, batch: int, *, side_by_side: bool) -> float:
    """Images per second of onnxruntime alone, fed with prepared images.

    Either one session that splits every call over two threads, as it does by default, or two
    threads that call a session of one thread each.
    """
    model = session(1 if side_by_side else THREADS)
    parts = [images[start : start + batch] for start in range(0, len(images), batch)]
    model.run(None, {"image": parts[0]})
    start = time.perf_counter()
    if side_by_side:
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda part: model.run(None, {"image": part}), parts))
    else:
        for part in parts:
            model.run(None, {"image": part})
    return len(images) / (time.perf_counter() - start)


def throughput() -> Iterator[Line]:
    folder = find("demo_photos")
    embedder = EfficientNetLite0()
    prepared = np.stack(
        [embedder.prepare(open_picture(path)) for path, _ in labelled_files([folder])]
    )
    contenders = {
        f"{'two callers' if pair else 'one call'}, batches of {batch}": (batch, pair)
        for pair in (False, True)
        for batch in (1, 4, 16)
    }
    best = dict.fromkeys(contenders, 0.0)
    ours = quick = 0.0
    for _ in range(ROUNDS):
        ours = max(ours, teach_folder(folder))
        quick = max(quick, teach_folder(folder, "int8"))
        for name, (batch, pair) in contenders.items():
            best[name] = max(best[name], bare_model(prepared, batch, side_by_side=pair))
    as_shipped = max(rate for name, rate in best.items() if name.startswith("one call"))
    fastest = max(best, key=best.__getitem__)
    yield Line(
        "teach DIR on two cores, against onnxruntime's own two-thread session at its best batch",
        f"{ours / as_shipped:.0%} ({ours:.0f} of {as_shipped:.0f} images/s)",
        ">= 90 %",
    )
    yield Line(
        "the same with int8, against onnxruntime's own rate with float32",
        f"{quick / as_shipped:.2f} x ({quick:.0f} of {as_shipped:.0f} images/s)",
        ">= 1.5 x",
    )
    yield Line(
        f"float32, against the fastest way found to run the model alone ({fastest})",
        f"{ours / best[fastest]:.0%} ({best[fastest]:.0f} images/s)",
        "reported",
    )
    model = processor_time(lambda: bare_model(prepared, 1, side_by_side=True), len(prepared))
    everything = processor_time(lambda: teach_folder(folder), len(prepared))
    yield Line(
        "the same in processor time, which other programs on the machine do not disturb",
        f"{model / everything:.0%} (model {model:.1f} ms an image, everything {everything:.1f} ms)",
        "reported",
    )
    with_int8 = processor_time(lambda: teach_folder(folder, "int8"), len(prepared))
    one_call = processor_time(lambda: bare_model(prepared, 4, side_by_side=False), len(prepared))
    yield Line(
        "teach DIR with int8 in processor time, against onnxruntime's own float32 in one call",
        f"{one_call / with_int8:.2f} x ({with_int8:.1f} ms an image, {one_call:.1f} ms)",
        ">= 1.5 x",
    )


def vectors(n: int, seed: int = 0) -> Iterator[tuple[np.ndarray, str]]:
    """Synthetic teachings: a thousand names, each a direction with noise."""
    rng = np.random.default_rng(seed)
    centres = rng.random((N_NAMES, WIDTH), dtype=np.float32)
    for index in range(n):
        name = index % N_NAMES
        noise = rng.random(WIDTH, dtype=np.float32)
        yield centres[name] + 0.5 * noise, f"name {name:03d}"


def large() -> Iterator[Line]:
    place = Path(tempfile.mkdtemp())
    try:
        start = time.perf_counter()
        with Memory(place) as memory:
            memory.teach_many(vectors(N_TEACHINGS), again=True)
        rate = N_TEACHINGS / (time.perf_counter() - start)
        yield Line(
            "teaching 100,000 vectors of 1,280, on disk", f"{rate:,.0f} a second", "reported"
        )
        question = next(vectors(1, seed=1))[0]
        start = time.perf_counter()
        with Memory(place) as memory:
            memory.classifier  # noqa: B018  (follows the log to its end)
            opened = time.perf_counter() - start
            memory.ask(question)
            answered = time.perf_counter() - start
            yield Line(
                "opening a Memory of 100,000 teachings from its snapshot",
                f"{opened:.2f} s; first answer after {answered:.2f} s",
                "< 2 s",
            )
            yield from ask(memory)
            start = time.perf_counter()
            anew = Model(clone(memory.classifier))
            anew.follow(memory._opened.journal, memory._opened.journal.last_position)
            yield Line(
                "rebuilding it from the journal alone",
                f"{time.perf_counter() - start:.1f} s",
                "< 60 s",
            )
    finally:
        shutil.rmtree(place)


def ask(memory: Memory) -> Iterator[Line]:
    wall, work = [], []
    for x in [x for x, _ in vectors(QUESTIONS, seed=2)]:
        start, start_work = time.perf_counter(), time.thread_time()
        memory.ask(x)
        wall.append(time.perf_counter() - start)
        work.append(time.thread_time() - start_work)
    half, most = 1e3 * np.quantile(wall, [0.5, 0.99])
    busy = sum(os.getloadavg()[:1])
    yield Line(
        "ask with 1,000 names from vectors of 1,280, p99 of 3,000 questions",
        f"{most:.2f} ms (median {half:.2f} ms; p99 of processor time "
        f"{1e3 * np.quantile(work, 0.99):.2f} ms; load {busy:.1f} on {os.cpu_count()} cores)",
        "< 2 ms",
    )


def lines() -> Iterator[Line]:
    yield from throughput()
    yield from large()
