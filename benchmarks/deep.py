"""Runs the experiments on deep streaming learning, job by job; needs torch, best with a GPU.

    python benchmarks/deep.py --out results                  # everything
    python benchmarks/deep.py --out results --stages joint,base,rivals --seed 1
    python benchmarks/deep.py --out results --tiny           # everything, in minutes anywhere

Each job is a separate process. Jobs that train networks share the GPU, ``--at-once`` of them in
parallel, since a GPU that gets small batches from one process is mostly idle; ``joint``, ``base``
and ``costs`` run alone, because their times are quoted. Jobs that need no GPU run beside them. A
job starts when the jobs it depends on are done. Its results are written to ``results/deep.json``
as soon as it ends, and an interrupted run resumes when it is given the same ``--work`` folder.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from everlearn_papers.deep import cifar
from everlearn_papers.deep.cifar import Scale
from everlearn_papers.deep.domains import ORDERINGS
from everlearn_papers.deep.race import CONTENDERS
from everlearn_papers.deep.streams import LEARNERS, RATES
from everlearn_papers.deep.tables import TIMED
from everlearn_papers.deep.verification import PERMUTED, SPLIT
from everlearn_papers.deep.whole import RATES as WHOLE_NETWORK_RATES

from everlearn.deep import networks

TINY = Scale(
    network="tiny", n_classes=9, base=3, step=3, per_class=40, base_epochs=3, joint_epochs=2,
    task_epochs=1, patient_epochs=1, turn_epochs=1, tens_epochs=1, batch_size=64, task_batch=32,
    searched_tasks=1, width=200, device="cpu",
)  # fmt: skip
networks.NETWORKS["tiny"] = lambda: networks.ResNet18(width=8)

ALONE = ("joint:", "base:", *(f"cost:{name}" for name in TIMED))
NO_GPU = ("learner", "ordering", "split", "permuted", "shrinkage")
NEEDS = {
    "stream": ("base:",),
    "rival": ("base:",),
    "trial": ("base:",),
    "consolidation": ("base:",),
    "staged": ("base:",),
    "adapt": ("base:",),
    "turntable": ("base:",),
    "choice": ("base:",),
    "offline": ("base:",),
    "whole": ("base:",),
    "cost": ("base:",),
    "learner": ("stream:",),
    "shrinkage": ("stream:",),
    "ordering": ("stream:", "turntable:"),
}
STAGES = (
    "joint,base,stream,turntable,mnist,trials,rivals,learners,orderings,consolidation,tens,sizes,told,"
    "adapt,staged,shrinkage,whole,costs"
)
DRAWS = 10


def jobs_of(stage: str, scale: Scale) -> list[str]:
    """The jobs of a stage, longest first."""
    rated = [f"learner:{name}@{_joined(rates)}" for name in RATES for rates in RATES[name]]
    plain = [f"learner:{name}" for name in LEARNERS if name not in RATES]
    slow_first = ("End-to-End", "iCaRL", "iCaRL (softmax)", "RWALK", "EWC", "A-GEM")
    rivals = sorted(CONTENDERS, key=lambda name: name not in slow_first)
    patient = [name for name in rivals if CONTENDERS[name].patient]
    draws = range(_draws(scale))
    return {
        "trials": [job for name in patient for job in trials(name)],
        "patient": [f"rival:{name}" for name in patient],
        "impatient": [f"rival:{name}" for name in rivals if name not in patient],
        "rivals": [f"rival:{name}" for name in rivals],
        "learners": rated[::-1] + plain,
        "tens": ["tens:End-to-End", "tens:iCaRL"],
        "consolidation": [
            f"consolidation:{kept}" for kept in ((500, 100, 20) if _full(scale) else (40, 20))
        ],
        "sizes": [f"size:{base}" for base in ((75, 25, 10) if _full(scale) else (6,))],
        "mnist": [f"permuted:{n}" for n in reversed(PERMUTED)] + [f"split:{n}" for n in SPLIT],
        "orderings": [f"ordering:{name}@{draw}" for draw in draws for name in ORDERINGS],
        "told": [
            *(f"choice:{name}" for name in rivals),
            *(f"offline:{draw}" for draw in draws),
            *(f"told:{name}@{_joined(pair)}" for pair in _pairs(draws) for name in rivals),
        ],
        "costs": [f"cost:{name}" for name in TIMED],
        "whole": [
            *(f"whole:{rate:g}" for rate in WHOLE_NETWORK_RATES),
            *(f"whole:{name}" for name in ORDERINGS),
        ],
    }.get(stage, [f"{stage}:"])


def trials(name: str) -> list[str]:
    """The jobs that search the learning rate and regularization of a rival with many epochs."""
    return [f"trial:{name}@{_joined(pair)}" for pair in CONTENDERS[name].trials]


def needs(job: str) -> tuple[str, ...]:
    """The jobs that a job depends on."""
    kind, _, name = job.partition(":")
    if kind == "rival" and CONTENDERS[name].patient:
        return ("base:", *trials(name))
    if kind == "told":
        return ("base:", f"choice:{name.partition('@')[0]}")
    return NEEDS.get(kind, ())


def done(job: str, scale: Scale, folder: Path, found: dict[str, Any]) -> dict[str, Any]:
    """Run one job in this process; ``found`` holds the results of earlier jobs."""
    kind, _, name = job.partition(":")
    if kind in ("joint", "base", "stream", "staged"):
        return getattr(cifar, kind)(scale, folder)
    if kind == "rival":
        tried = {_key(job): found[job]["accuracy"] for job in needs(job) if "@" in job}
        return cifar.rival(scale, folder, name, tried)
    if kind == "trial":
        name, _, pair = name.partition("@")
        return cifar.trial(scale, folder, name, *_split(pair))
    if kind == "cost":
        from everlearn_papers.deep.costs import cost

        return cost(scale, folder, name)
    if kind == "tens":
        return cifar.in_tens(scale, folder, name)
    if kind == "consolidation":
        from everlearn_papers.deep.consolidation import consolidation

        return consolidation(scale, folder, int(name), epochs=30 if _full(scale) else 1)
    if kind in ("learner", "shrinkage"):
        return _learner(name, folder, scale)
    if kind == "size":
        return _of_size(replace(scale, base=int(name)), folder / f"size-{name}")
    if kind in ("adapt", "turntable", "ordering"):
        return _on_other_data(kind, name, scale, folder)
    if kind in ("choice", "told", "offline"):
        return _told(kind, name, scale, folder, found)
    if kind == "whole":
        from everlearn_papers.deep import whole

        if name in ORDERINGS:
            return whole.turntable(scale, folder, name, _draws(scale))
        return whole.cifar(scale, folder, float(name))
    from everlearn_papers.data.packs import mnist
    from everlearn_papers.deep import verification

    measures: dict[str, Callable[..., float]] = {
        "split": verification.split_mnist,
        "permuted": verification.permuted_mnist,
    }
    few: dict[str, Any] = {} if _full(scale) else {"n_train": 500}
    if few and kind == "permuted":
        few["n_tasks"] = 2
    return {"accuracy": measures[kind](name, mnist(), seed=scale.seed, **few)}


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--work", type=Path, help="folder for what jobs hand to each other")
    options.add_argument("--stages", default=STAGES)
    options.add_argument("--tiny", action="store_true")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--at-once", type=int, default=4, help="jobs side by side on the GPU")
    options.add_argument("--beside", type=int, default=2, help="jobs beside them without a GPU")
    options.add_argument("--without", nargs="*", default=[], help="leave out jobs named so")
    options.add_argument("--together", action="store_true", help="others beside joint and base")
    options.add_argument("--seconds", type=float, default=1e9, help="stop what runs longer")
    options.add_argument("--job", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    scale = replace(TINY if chosen.tiny else Scale(), seed=chosen.seed)
    if not chosen.tiny and not _gpu():
        scale = replace(scale, device="cpu")
    work = chosen.work or chosen.out / "work"
    work.mkdir(parents=True, exist_ok=True)
    chosen.out.mkdir(parents=True, exist_ok=True)
    if chosen.job:
        begin = perf_counter()
        before = work / "deep.json"
        known = json.loads(before.read_text()) if before.exists() else {}
        found = done(chosen.job, scale, work, known)
        print(json.dumps({chosen.job: found | {"wall seconds": perf_counter() - begin}}))
        return
    Jobs(chosen, scale, work).run()


class Jobs:
    """Waiting, running and finished jobs."""

    def __init__(self, chosen: argparse.Namespace, scale: Scale, work: Path) -> None:
        self.chosen = chosen
        self.work = work
        self.begin = perf_counter()
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.results: dict[str, Any] = {}
        if (work / "deep.json").exists():
            before = json.loads((work / "deep.json").read_text())
            self.results = {k: v for k, v in before.items() if "error" not in v}
        self.results["scale"] = asdict(scale)
        wanted = [job for stage in chosen.stages.split(",") for job in jobs_of(stage, scale)]
        self.waiting = [
            job
            for job in wanted
            if job not in self.results and not any(word in job for word in chosen.without)
        ]

    def run(self) -> None:
        while self.waiting or self.running:
            ready = [job for job in self.waiting if self._may_begin(job)]
            for job in ready:
                if self._may_begin(job):
                    self.waiting.remove(job)
                    self.running[job] = self._started(job)
            if not self.running:
                break  # jobs they depend on failed
            self._collect()
            if perf_counter() - self.begin > self.chosen.seconds:
                self._stop()
        for job in self.waiting:
            print(f"never begun: {job}", flush=True)

    def _may_begin(self, job: str) -> bool:
        """Whether the jobs it depends on are done, and a slot is free."""
        for other in needs(job):
            found = self.results.get(other)
            if found is None or "error" in found:
                return False
        if _on_cpu(job):
            return sum(_on_cpu(other) for other in self.running) < self.chosen.beside
        on_gpu = [other for other in self.running if not _on_cpu(other)]
        first = [other for other in (*self.waiting, *on_gpu) if other in ALONE]
        if not self.chosen.together and (job in ALONE or first):
            return not on_gpu and first[:1] == [job]
        return len(on_gpu) < self.chosen.at_once

    def _collect(self) -> None:
        for job in list(self.running):
            try:
                self.running[job].wait(timeout=0.1)
            except subprocess.TimeoutExpired:
                continue
            code = self.running.pop(job).returncode
            output = self._file(job, "out").read_text().strip()
            if code:
                self.results[job] = {"error": self._file(job, "err").read_text()[-2000:]}
            else:
                self.results |= json.loads(output.splitlines()[-1])
            print(
                f"{perf_counter() - self.begin:6.0f} s  {job}  {_short(self.results[job])}",
                flush=True,
            )
            self._write()

    def _stop(self) -> None:
        for job, process in self.running.items():
            process.kill()
            self.results[job] = {"error": "stopped, out of time"}
            print(f"stopped: {job}", flush=True)
        self._write()
        self.running = {}
        self.waiting = []

    def _write(self) -> None:
        for folder in (self.chosen.out, self.work):
            (folder / "deep.json").write_text(json.dumps(self.results, indent=1))

    def _started(self, job: str) -> "subprocess.Popen[bytes]":
        chosen = self.chosen
        command = [sys.executable, __file__, "--out", str(chosen.out), "--work", str(self.work)]
        command += ["--seed", str(chosen.seed), "--job", job] + (["--tiny"] if chosen.tiny else [])
        threads = "2" if job.startswith(("consolidation", "size")) else "1"
        environment = os.environ | {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
        with self._file(job, "out").open("wb") as out, self._file(job, "err").open("wb") as errors:
            return subprocess.Popen(command, stdout=out, stderr=errors, env=environment)

    def _file(self, job: str, end: str) -> Path:
        return self.work / f"{job.replace(':', '-').replace(' ', '-')}.{end}"


def _learner(name: str, folder: Path, scale: Scale) -> dict[str, Any]:
    from everlearn_papers.deep.streams import course_of, shrunk_courses

    if not name:
        return shrunk_courses(folder, scale.base, scale.step, seed=scale.seed)
    name, _, rates = name.partition("@")
    return course_of(name, folder, scale.base, scale.step, rates=_split(rates), seed=scale.seed)


def _on_other_data(kind: str, name: str, scale: Scale, folder: Path) -> dict[str, Any]:
    from everlearn_papers.deep import domains

    if kind == "adapt":
        return domains.adapt(scale, folder)
    if kind == "turntable":
        return domains.turntable(scale, folder, _draws(scale))
    name, _, draw = name.partition("@")
    return domains.ordering(folder, name, [int(draw)])


def _told(
    kind: str, name: str, scale: Scale, folder: Path, found: dict[str, Any]
) -> dict[str, Any]:
    from everlearn_papers.deep import told

    if kind == "choice":
        return told.searched(scale, folder, name)
    if kind == "offline":
        return told.offline(scale, folder, int(name))
    name, _, draw = name.partition("@")
    draws = [int(number) for number in _split(draw)]
    return told.told(scale, folder, name, draws, found[f"choice:{name}"]["choices"])


def _of_size(scale: Scale, folder: Path) -> dict[str, Any]:
    """Fig. 3: a base of another size, streamed to the end."""
    from everlearn_papers.deep.streams import course_of, shrunk_courses

    folder.mkdir(exist_ok=True)
    found: dict[str, Any] = {"base": cifar.base(scale, folder), **cifar.stream(scale, folder)}
    for name in ("NCM", "SLDA (fixed)", "SLDA (plastic)", "RLSC"):
        course = course_of(name, folder, scale.base, scale.step, seed=scale.seed)
        found[name] = {key: course[key] for key in ("accuracies", "top5")}
    return found | {"shrinkage": shrunk_courses(folder, scale.base, scale.step, seed=scale.seed)}


def _draws(scale: Scale) -> int:
    return DRAWS if _full(scale) else 1


def _pairs(draws: range) -> list[range]:
    return [draws[first : first + 2] for first in draws[::2]]


def _joined(numbers: Sequence[float]) -> str:
    return ",".join(f"{number:g}" for number in numbers)


def _split(numbers: str) -> tuple[float, ...]:
    return tuple(float(number) for number in numbers.split(",") if number)


def _key(trial: str) -> str:
    """Learning rate and regularization of a trial, as in a choice."""
    return trial.partition("@")[2].replace(",", " ")


def _on_cpu(job: str) -> bool:
    return job.startswith(NO_GPU)


def _full(scale: Scale) -> bool:
    return scale.per_class is None


def _gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def _short(found: dict[str, Any]) -> str:
    if "error" in found:
        return (found["error"].strip().splitlines() or ["?"])[-1][:200]
    accuracies = found.get("accuracies") or found.get("after")
    if accuracies:
        return " ".join(f"{100 * value:.1f}" for value in accuracies)
    courses = {k: v for k, v in found.items() if isinstance(v, dict) and "accuracies" in v}
    several = {k: course["accuracies"][-1] for k, course in courses.items()}
    plain = {k: v for k, v in found.items() if isinstance(v, float)}
    return " ".join(f"{k} {v:.4g}" for k, v in (several | plain).items())


if __name__ == "__main__":
    main()
