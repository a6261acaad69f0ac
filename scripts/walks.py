"""The walks of docs/architecture.md: run each, and record which of our files are entered.

    python scripts/walks.py            print what is entered now
    python scripts/walks.py --write    write it into the page

A file is entered when one of its functions is called; importing it does not count, and compiled
functions (``…_kernels.py``), and how they are compiled (``compiler.py``), do not either. Each walk
runs in a process of its own, so that nothing is warm that a user would find cold. The page shows
each file with the first sentence of its docstring, in the order in which the files are entered.
"""

import ast
import json
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
PAPERS = ROOT / "papers" / "src" / "everlearn_papers"
PACKAGES = {"": ROOT / "src" / "everlearn", "everlearn_papers/": PAPERS}

# Whether loops are compiled, and how, and how packages are loaded, belong to no walk.
COMPILED = ("_kernels.py", "compiler.py", "compiled.py", "interrupts.py")
# Exceptions that mean a walk cannot be run here.
CANNOT = 77


class Recorder:
    """Records which of our files are entered inside a ``with`` block, in order, in every thread."""

    def __init__(self) -> None:
        self.entered: dict[str, None] = {}
        self._names: dict[str, str | None] = {}

    def __enter__(self) -> "Recorder":
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _profile(self, frame: Any, event: str, _: object) -> None:
        if event != "call" or frame.f_code.co_name == "<module>":
            return
        # Before Python 3.12 numba reports calls of compiled functions, with frames of its own.
        if "__name__" not in frame.f_globals:
            return
        file = frame.f_code.co_filename
        if file not in self._names:
            self._names[file] = _named(file)
        name = self._names[file]
        if name is None or name in self.entered or name.endswith(COMPILED):
            return
        if not _importing(frame):
            self.entered[name] = None


def _importing(frame: Any) -> bool:
    """Whether a call is part of an import: a class body, a decorator, a constant."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") != "__main__":
            return True
        frame = frame.f_back
    return False


def _named(file: str) -> str | None:
    for prefix, folder in PACKAGES.items():
        if Path(file).is_relative_to(folder):
            return prefix + str(Path(file).relative_to(folder))
    return None


def _photograph(folder: Path, number: int) -> Path:
    from PIL import Image

    file = folder / f"{number}.png"
    pixels = np.random.default_rng(number).integers(0, 255, (240, 320, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file)
    return file


def lda(recorder: Recorder, _: Path) -> None:
    """One example through streaming LDA: `learn_one`, then `predict_one`"""
    from everlearn import StreamingLDA

    # Enough examples that the next ridge is not being prepared, as in most calls of a stream.
    X = np.random.default_rng(0).normal(size=(400, 8))
    learner = StreamingLDA().fit(X, np.arange(400) % 4)
    learner.learn_one(X[0], 1).predict_one(X[0])
    with recorder:
        learner.learn_one(X[1], 2)
        learner.predict_one(X[1])


def first_photograph(recorder: Recorder, folder: Path) -> None:
    """A Memory opened and taught its first photograph"""
    from everlearn import Memory

    picture = _photograph(folder, 0)
    with recorder:
        memory = Memory(folder / "memory")
        memory.teach(picture, "cup")
    memory.close()


def photograph(recorder: Recorder, folder: Path) -> None:
    """One more photograph taught"""
    from everlearn import Memory

    with Memory(folder / "memory") as memory:
        for number in range(4):
            memory.teach(_photograph(folder, number), "cup" if number % 2 else "pen")
        memory.ask(_photograph(folder, 9))
        picture = _photograph(folder, 10)
        with recorder:
            memory.teach(picture, "cup")


def question(recorder: Recorder, folder: Path) -> None:
    """A photograph asked about, after one was taught"""
    from everlearn import Memory

    with Memory(folder / "memory") as memory:
        for number in range(4):
            memory.teach(_photograph(folder, number), "cup" if number % 2 else "pen")
        memory.ask(_photograph(folder, 9))
        memory.teach(_photograph(folder, 10), "cup")
        picture = _photograph(folder, 11)
        with recorder:
            memory.ask(picture)


def request(recorder: Recorder, folder: Path) -> None:
    """A service started, and one HTTP request: `POST /v1/ask`"""
    from starlette.testclient import TestClient

    from everlearn import Memory
    from everlearn.service import Settings, create_app

    with Memory(folder / "memory") as memory:
        for number in range(4):
            memory.teach(_photograph(folder, number), "cup" if number % 2 else "pen")
        app, _ = create_app({"home": memory}, Settings(token="x" * 32))
        headers = {"Authorization": "Bearer " + "x" * 32, "Content-Type": "image/png"}
        data = _photograph(folder, 9).read_bytes()
        memory.ask(_photograph(folder, 10))
        # The service answers in its own threads, which are recorded if they start now.
        with recorder, TestClient(app, base_url="http://127.0.0.1", headers=headers) as client:
            client.post("/v1/ask", content=data).raise_for_status()


def rust(recorder: Recorder, _: Path) -> None:
    """A new class through RUST"""
    from everlearn import NCMForest

    X = np.random.default_rng(0).normal(size=(120, 6))
    y = np.arange(120) % 4
    forest = NCMForest(n_estimators=2, update="rust", random_state=0).fit(X[y < 3], y[y < 3])
    with recorder:
        forest.partial_fit(X[y == 3], y[y == 3])


def cluster(recorder: Recorder, _: Path) -> None:
    """A fit on a cluster: the driver and a worker"""
    from contextlib import nullcontext
    from unittest.mock import patch

    from everlearn import NearestClassMean
    from everlearn.cluster import fit
    from everlearn.cluster.driving import ShardOutcome, drive
    from everlearn.cluster.work import work

    class InThisProcess:
        """An engine whose worker is this process, so that one recorder sees both sides."""

        window, workers = 1, 1

        def run(self, job: Any, plan: Any, receive: Any) -> bytes:
            self.job = job
            self.waiting: list[Any] = []
            return drive(plan, self, receive)

        def start(self, task: Any, inputs: Any) -> None:
            self.waiting.append((task, inputs))

        def wait(self) -> list[ShardOutcome]:
            task, inputs = self.waiting.pop()
            return [ShardOutcome(task.name, *work(self.job, task, inputs))]

        def fetch(self, part: Any) -> Any:
            return part

        def release(self, part: Any) -> None: ...

    X = np.random.default_rng(0).normal(size=(20, 3))
    shards = [(X[:10], np.arange(10) % 2), (X[10:], np.arange(10) % 2)]
    with (
        patch("everlearn.cluster.fitting.opened", lambda *_: nullcontext(InThisProcess())),
        patch("everlearn.cluster.plan.TASK_BYTES", 1),
        recorder,
    ):
        fit(NearestClassMean(), shards)


def network(recorder: Recorder, folder: Path) -> None:
    """A base network trained, and a Memory's network consolidated"""
    try:
        import torch
    except ImportError:
        print("torch is not installed", file=sys.stderr)
        sys.exit(CANNOT)
    from everlearn import Memory
    from everlearn.deep.descent import Recipe
    from everlearn.deep.trainer import BaseTrainer
    from everlearn.workflows.consolidate import consolidate

    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1)]
    small = torch.nn.Sequential(*layers, torch.nn.Flatten())
    pixels = np.random.default_rng(0).integers(0, 255, (24, 16, 16, 3), dtype=np.uint8)
    recipe = Recipe(epochs=1, batch_size=8)
    from PIL import Image

    files = []
    for number, picture in enumerate(pixels):
        files.append(folder / f"{number}.png")
        Image.fromarray(picture).save(files[-1])
    with recorder:
        trained = BaseTrainer(small, size=16, recipe=recipe, held_out=0.0).train(
            pixels, np.arange(24) % 2
        )
        with Memory(folder / "memory", embedder=trained.embedder) as memory:
            memory.teach_many((file, str(number % 2)) for number, file in enumerate(files))
            consolidate(memory, recipe=recipe, held_out=0.25)


def paper(recorder: Recorder, folder: Path) -> None:
    """One paper re-run: a part of the paper on transfer, quick"""
    from everlearn_papers.reproduce import reproduce

    from everlearn.errors import MissingData

    with recorder:
        try:
            reproduce("transfer", only="fig1", quick=True, out=folder / "out")
        except MissingData as missing:
            print(missing, file=sys.stderr)
            sys.exit(CANNOT)


WALKS: tuple[Callable[[Recorder, Path], None], ...] = (
    lda,
    first_photograph,
    photograph,
    question,
    request,
    rust,
    cluster,
    network,
    paper,
)


def title_of(walk: Callable[..., object]) -> str:
    return str(walk.__doc__)


def entered_by(name: str) -> list[str] | None:
    """The files a walk enters, in order; None if something it needs is missing."""
    done = subprocess.run(
        [sys.executable, __file__, "--walk", name], capture_output=True, text=True, check=False
    )
    if done.returncode == CANNOT:
        return None
    if done.returncode:
        raise RuntimeError(f"the walk {name} failed:\n{done.stderr[-2000:]}")
    return list(json.loads(done.stdout.splitlines()[-1]))


def written(text: str, entered: dict[str, list[str] | None]) -> str:
    """The page with updated walks; those that could not be run are kept."""
    start, end = text.index("## Walks\n"), text.index("\n## Truth and caches")
    before = listed(text)
    parts = ["## Walks\n", INTRODUCTION]
    for walk in WALKS:
        name = walk.__name__
        files = entered[name] if entered[name] is not None else before.get(title_of(walk), [])
        parts.append(f"### {title_of(walk)}\n")
        parts.append("".join(f"{i}. `{f}`: {summary(f)}\n" for i, f in enumerate(files or [], 1)))
    return text[:start] + "\n".join(parts) + text[end:]


def listed(text: str) -> dict[str, list[str]]:
    """The files listed on the page, by the title of their walk."""
    walks: dict[str, list[str]] = {}
    part = text[text.index("## Walks\n") : text.index("\n## Truth and caches")]
    for section in part.split("\n### ")[1:]:
        title, _, rest = section.partition("\n")
        walks[title] = [line.split("`")[1] for line in rest.splitlines() if line[:1].isdigit()]
    return walks


def summary(file: str) -> str:
    """The first sentence of a file's docstring."""
    prefix = "everlearn_papers/"
    folder = PACKAGES[prefix if file.startswith(prefix) else ""]
    text = (folder / file.removeprefix(prefix)).read_text(encoding="utf-8")
    first = (ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0].replace("\n", " ")
    return re.split(r"(?<!Sec)(?<!Eq)(?<!Fig)(?<! al)\. ", first)[0].rstrip(".")


INTRODUCTION = """\
Each list is what a profiler recorded: the files whose functions are called, in the order in which
they are first entered (imports and compiled functions are not recorded). A test runs the walks and
compares; `python scripts/walks.py --write` rewrites the lists.
"""


def main() -> None:
    if sys.argv[1:2] == ["--walk"]:
        recorder = Recorder()
        with tempfile.TemporaryDirectory() as folder:
            next(w for w in WALKS if w.__name__ == sys.argv[2])(recorder, Path(folder))
        print(json.dumps(list(recorder.entered)))
        return
    entered = {walk.__name__: entered_by(walk.__name__) for walk in WALKS}
    for walk in WALKS:
        files = entered[walk.__name__]
        shown = "cannot be run here" if files is None else f"{len(files)} files"
        print(f"{title_of(walk)}: {shown}")
        for file in files or ():
            print(f"    {file}")
    if "--write" in sys.argv:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), entered), encoding="utf-8")


if __name__ == "__main__":
    main()
