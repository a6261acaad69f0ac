"""Learners on a GPU: speed beside the limits of the machine, and agreement with the host.

    python benchmarks/gpu.py --out results             # one GPU, torch and CuPy; two minutes
    python benchmarks/gpu.py --out results --small     # on any machine, to see that it runs

Every figure is printed and stored in ``gpu.json`` as it is measured; if a row fails, the reason is
recorded and the others continue. Times are the best of several runs after a warm-up, including
synchronisation.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from everlearn import (
    InitialWhitening,
    NearestClassMean,
    PowerNormalizer,
    RandomFeatures,
    RecursiveRLSC,
    StreamingLDA,
    StreamingPCA,
    StreamPipeline,
)
from everlearn.arrays import as_numpy

LEARNERS = {
    "NearestClassMean": NearestClassMean,
    "StreamingLDA": StreamingLDA,
    "RecursiveRLSC": RecursiveRLSC,
}


class Report:
    """Rows of a table, printed and written as they are measured."""

    def __init__(self, folder: Path, device: str) -> None:
        self.file = folder / "gpu.json"
        self.rows: list[dict[str, Any]] = []
        self.head = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "device": device}
        self.start = time.perf_counter()

    def add(self, what: str, measured: float, unit: str, wanted: str = "", note: str = "") -> None:
        row = {"what": what, "measured": measured, "unit": unit, "wanted": wanted, "note": note}
        self.rows.append(row)
        beside = f" (wanted {wanted})" if wanted else ""
        said = f"; {note}" if note else ""
        print(f"[{self.elapsed:5.1f}] {what}: {measured:.4g} {unit}{beside}{said}", flush=True)
        self.write()

    def attempt(self, part: Callable[[], None]) -> None:
        try:
            part()
        except Exception as error:
            self.rows.append({"what": part.__name__, "failed": f"{type(error).__name__}: {error}"})
            print(f"[{self.elapsed:5.1f}] {part.__name__} FAILED", flush=True)
            traceback.print_exc()
            self.write()

    def write(self) -> None:
        self.file.write_text(json.dumps(self.head | {"rows": self.rows}, indent=1) + "\n")

    @property
    def elapsed(self) -> float:
        return time.perf_counter() - self.start


class Bench:
    """The rows of the table, on one device."""

    def __init__(self, report: Report, device: torch.device, small: bool) -> None:
        self.report = report
        self.device = device
        self.on_gpu = device.type == "cuda"
        self.n, self.d, self.k = (3_000, 32, 20) if small else (1_281_167, 512, 1_000)
        self.wide, self.asked = (200, 500) if small else (10_000, 50_000)
        self.n_equal, self.d_equal, self.k_equal = (600, 16, 7) if small else (20_000, 64, 50)

    def wait(self) -> None:
        if self.on_gpu:
            torch.cuda.synchronize()

    def best(self, work: Callable[[], object], times: int) -> float:
        """The shortest of several runs in seconds, after a warm-up."""
        found = []
        for _ in range(times + 1):
            self.wait()
            start = time.perf_counter()
            work()
            self.wait()
            found.append(time.perf_counter() - start)
        return min(found[1:])

    # What the machine can do.

    def data(self) -> None:
        generator = torch.Generator(device=self.device).manual_seed(0)
        self.y = np.random.default_rng(0).integers(0, self.k, self.n)
        shape = (self.n, self.d)
        self.pinned = torch.empty(shape, dtype=torch.float32, pin_memory=self.on_gpu)
        centres = torch.randn(self.k, self.d, generator=generator, device=self.device)
        for start in range(0, self.n, 100_000):
            slots = torch.from_numpy(self.y[start : start + 100_000]).to(self.device)
            noise = torch.randn(len(slots), self.d, generator=generator, device=self.device)
            self.pinned[start : start + 100_000].copy_(centres[slots] * 0.5 + noise)
        self.wait()
        self.plain = self.pinned.numpy().copy()
        self.report.add("data made", self.report.elapsed, "s")

    def limits(self) -> None:
        where = torch.empty_like(self.pinned, device=self.device)
        add, size = self.report.add, self.plain.nbytes / 1e9
        pinned = self.best(lambda: where.copy_(self.pinned, non_blocking=True), 3)
        add("limit: copy from pinned memory", pinned, "s", note=f"{size / pinned:.1f} GB/s")
        plain = torch.from_numpy(self.plain)
        ordinary = self.best(lambda: where.copy_(plain), 2)
        add("limit: copy from ordinary memory", ordinary, "s", note=f"{size / ordinary:.1f} GB/s")
        part = where[:200_000].double()
        product = self.best(lambda: part.T @ part, 3)
        rate = 2.0 * len(part) * self.d**2 / product / 1e12
        whole = product * self.n / len(part)
        add("limit: bare float64 product XᵀX of all rows", whole, "s", note=f"{rate:.1f} TFLOP/s")

    # The rows.

    def fit_pinned(self) -> None:
        for name, make in LEARNERS.items():
            learner = make().to(self.device)
            took = self.best(partial(learner.fit, self.pinned, self.y), 4)
            wanted = "" if name == "NearestClassMean" else "≤ 0.10"
            self.report.add(f"{name}: fit from pinned memory", took, "s", wanted)

    def fit_ordinary(self) -> None:
        for name in ("StreamingLDA", "RecursiveRLSC"):
            learner = LEARNERS[name]().to(self.device)
            took = self.best(partial(learner.fit, self.plain, self.y), 3)
            self.report.add(f"{name}: fit from ordinary memory", took, "s", "≤ 0.40")

    def fit_mapped(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            np.save(Path(folder) / "rows.npy", self.plain)
            rows = np.load(Path(folder) / "rows.npy", mmap_mode="r")
            learner = StreamingLDA().to(self.device)
            took = self.best(lambda: learner.fit(rows, self.y), 3)
            self.report.add("StreamingLDA: fit from a mapped file", took, "s", "≤ 0.6")

    def fit_there(self) -> None:
        rows = self.pinned.to(self.device)
        learner = StreamingLDA()
        took = self.best(lambda: learner.fit(rows, self.y), 3)
        self.report.add("StreamingLDA: fit of rows on the device", took, "s")
        took = self.best(lambda: learner.registry_.encode(self.y), 3)
        self.report.add("labels to slots, on the host", took, "s", "< 0.02")
        words = np.array([f"n{slot:08d}" for slot in range(self.k)])[self.y]
        took = self.best(lambda: StreamingLDA().fit(rows, words), 1)
        self.report.add("StreamingLDA: fit of rows on the device, labels are words", took, "s")

    def many_classes(self) -> None:
        """Every row is a class of its own."""
        n = min(self.n, 1_000_000)
        rows, numbers = self.pinned[:n].to(self.device), np.random.default_rng(0).permutation(n)
        for kind, labels in (("numbers", numbers), ("words", numbers.astype(str))):
            took = self.best(partial(StreamingLDA().fit, rows, labels), 2)
            what = f"StreamingLDA: fit of {n:,} rows of as many classes, labels are {kind}"
            self.report.add(what, took, "s", "≤ 2.0")

    def ask_many(self) -> None:
        rows = self.pinned[: self.asked].to(self.device)
        for name, make in LEARNERS.items():
            learner = make().to(self.device).fit(self.pinned, self.y)
            took = 1e3 * self.best(partial(learner.predict, rows), 10)
            self.report.add(f"{name}: predict {self.asked:,} rows there", took, "ms", "≤ 5")
            learner.learn_one(rows[0], 0)
            start = time.perf_counter()
            learner.predict(rows[:10])
            again = 1e3 * (time.perf_counter() - start)
            self.report.add(f"{name}: first predict after a change", again, "ms")

    def one_at_a_time(self) -> None:
        rows = list(self.pinned[:1_000].to(self.device))
        labels = self.y[:1_000].tolist()
        steps = 200 if self.n < 10_000 else 1_000
        for name, make in LEARNERS.items():
            learner = make().to(self.device).fit(self.pinned, self.y)
            for i in range(20):
                learner.learn_one(rows[i], labels[i]).predict_one(rows[i])

            def learn(learner: Any = learner) -> None:
                for i in range(steps):
                    learner.learn_one(rows[i % 1000], labels[i % 1000])

            def ask(learner: Any = learner) -> None:
                for i in range(steps):
                    learner.predict_one(rows[i % 1000])

            def both(learner: Any = learner) -> None:
                for i in range(steps):
                    learner.predict_one(rows[i % 1000])
                    learner.learn_one(rows[i % 1000], labels[i % 1000])

            # Single vectors are copied to the host and computed with there.
            for what, work in (("learn one", learn), ("ask one", ask), ("ask then learn", both)):
                took = 1e6 * self.best(work, 2) / steps
                self.report.add(f"{name}: {what}, a vector on the device", took, "µs")

    def wide_features(self) -> None:
        wide = RandomFeatures(n_components=self.wide)
        steps = [("wide", wide), ("learn", RecursiveRLSC(regularization="auto"))]
        learner = StreamPipeline(steps).to(self.device)
        start = time.perf_counter()
        learner.fit(self.pinned[:2_000], self.y[:2_000])
        learner.predict(self.pinned[:10])
        self.report.add("wide: first use, features drawn", time.perf_counter() - start, "s")
        for run in (1, 2):
            start = time.perf_counter()
            learner.partial_fit(self.pinned, self.y)
            self.wait()
            took = time.perf_counter() - start
            what = f"wide: Gram and sums of {self.wide:,} ReLU features, run {run}"
            self.report.add(what, took, "s", "≤ 5.0")
        classifier = learner.steps_[-1][1]
        for run in (1, 2):
            start = time.perf_counter()
            learner.predict(self.pinned[:10])
            took = time.perf_counter() - start
            what = f"wide: path of 20 λ, choice, head and answer, run {run}"
            self.report.add(what, took, "s", "≤ 1.5")
            classifier._device_copy.moments.version += 1  # as if more had been learned
        right = np.mean(learner.predict(self.pinned[: self.asked]) == self.y[: self.asked])
        self.report.add("wide: right answers on rows taught", 100 * right, "%")

    def equal(self) -> None:
        """Compares host and device, with arrays of torch and CuPy."""
        rng = np.random.default_rng(1)
        words = np.array([f"class {k}" for k in range(self.k_equal)])
        slots = rng.integers(0, self.k_equal, self.n_equal)
        centres = 2.0 + rng.normal(size=(self.k_equal, self.d_equal))
        X = (centres[slots] + rng.normal(size=(self.n_equal, self.d_equal))).astype(np.float32)
        y = words[slots]
        kinds: dict[str, Callable[[np.ndarray], Any]] = {
            "torch": lambda array: torch.tensor(array, device=self.device)
        }
        if self.on_gpu:
            try:
                import cupy

                kinds["CuPy"] = cupy.asarray
            except ImportError as error:
                self.report.rows.append({"what": "CuPy", "failed": str(error)})
        for name, make in SAME.items():
            host = make()
            expected = _answers(host, X, y, lambda array: array)
            for kind, convert in kinds.items():
                self._one_equal(f"{name}, {kind}", make, X, y, convert, expected)
        expected = _answers(StreamingLDA(), _as_bfloat16(X), y, lambda array: array)
        self._one_equal(
            "StreamingLDA, bfloat16", StreamingLDA, X, y,
            lambda array: torch.tensor(array, device=self.device).bfloat16(), expected,
        )  # fmt: skip

    def _one_equal(self, name: str, make: Any, X: Any, y: Any, convert: Any, expected: Any) -> None:
        def equal() -> None:
            there = make()
            if not self.on_gpu and hasattr(there, "to"):
                there.to(self.device)
            found = _answers(there, X, y, convert)
            gaps = [
                float(np.abs(ours - theirs).max() / np.abs(theirs).max())
                if ours.dtype.kind == "f"
                else float(np.mean(ours != theirs))
                for ours, theirs in zip(found, expected, strict=True)
            ]
            self.report.add(f"host against device: {name}", max(gaps), "relative", "≤ 1e-9")

        self.report.attempt(equal)

    def equal_at_size(self) -> None:
        for name in ("StreamingLDA", "RecursiveRLSC"):
            there = LEARNERS[name]().to(self.device).fit(self.pinned, self.y)
            start = time.perf_counter()
            host = LEARNERS[name]().fit(self.plain, self.y)
            took = time.perf_counter() - start
            rows = self.plain[:2_000]
            ours, theirs = there.decision_function(rows), host.decision_function(rows)
            gap = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
            note = f"the host's fit took {took:.1f} s"
            self.report.add(
                f"host against device: {name}, all rows", gap, "relative", "≤ 1e-9", note
            )

    def array_tests(self) -> None:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/device"),
                *("-W", "ignore::DeprecationWarning", "--durations=5"),
                *(() if find_spec("hypothesis") else ("--ignore=tests/device/test_moments.py",)),
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        said = (done.stdout.strip().splitlines() or ["nothing"])[-1]
        self.report.add("tests of arrays, exit status", done.returncode, "", "0", said)
        if done.returncode:
            print(done.stdout[-6_000:], done.stderr[-2_000:], flush=True)


SAME: dict[str, Callable[[], Any]] = {
    "NearestClassMean": NearestClassMean,
    "NearestClassMean, cosine": lambda: NearestClassMean(metric="cosine"),
    "StreamingLDA": StreamingLDA,
    "StreamingLDA, oas and empirical": lambda: StreamingLDA(shrinkage="oas", priors="empirical"),
    "RecursiveRLSC": RecursiveRLSC,
    "RecursiveRLSC, intercept": lambda: RecursiveRLSC(fit_intercept=True),
    "RecursiveRLSC, auto": lambda: RecursiveRLSC(regularization="auto", recoding="auto"),
    "wide RecursiveRLSC": lambda: StreamPipeline(
        [("wide", RandomFeatures(n_components=300)), ("learn", RecursiveRLSC())]
    ),
    "InitialWhitening": InitialWhitening,
    "PowerNormalizer": PowerNormalizer,
    "RandomFeatures": lambda: RandomFeatures(n_components=300),
    "RandomFeatures, fourier": lambda: RandomFeatures(n_components=300, kind="fourier"),
    "StreamingPCA": StreamingPCA,
}


def _answers(estimator: Any, X: Any, y: Any, convert: Callable[[Any], Any]) -> list[Any]:
    """Answers after it was taught in two parts."""
    half, rows = len(X) // 2, convert(X[:500])
    estimator.partial_fit(convert(X[:half]), y[:half])
    estimator.partial_fit(convert(X[half:]), y[half:])
    if not hasattr(estimator, "predict"):
        return [as_numpy(estimator.transform(rows))]
    scores = estimator.decision_function(rows)
    assert type(scores) is type(rows)
    for i in range(10):
        estimator.learn_one(convert(X[i]), str(y[i]))
    shares = estimator.predict_proba(rows)
    return [as_numpy(scores), as_numpy(shares), estimator.predict(rows)]


def _as_bfloat16(X: np.ndarray) -> np.ndarray:
    rounded: np.ndarray = torch.tensor(X).bfloat16().float().numpy()
    return rounded


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--small", action="store_true", help="sizes for any machine")
    parser.add_argument("--only", default="", help="parts by name, with commas between")
    parser.add_argument("--tests", action="store_true", help="run the tests of arrays as well")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    name = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    versions = f"torch {torch.__version__}, numpy {np.__version__}, {os.cpu_count()} cores"
    report = Report(asked.out, f"{name}; {versions}")
    print(report.head, flush=True)
    bench = Bench(report, device, asked.small)
    parts = (
        bench.limits, bench.fit_pinned, bench.fit_ordinary, bench.fit_there,
        bench.many_classes, bench.ask_many, bench.one_at_a_time, bench.wide_features,
        bench.fit_mapped, bench.equal, bench.equal_at_size,
        *([bench.array_tests] if asked.tests else []),
    )  # fmt: skip
    chosen = [part for part in parts if not asked.only or part.__name__ in asked.only.split(",")]
    for part in (bench.data, *chosen):
        report.attempt(part)


if __name__ == "__main__":
    main()
