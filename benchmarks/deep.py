"""The deep half of deep streaming LDA on CIFAR-100, stage by stage; needs torch, best with a GPU.

    python benchmarks/deep.py --out results --stages joint,base,stream,learners+rivals
    python benchmarks/deep.py --out results --stages base,nights+tens+sizes+transfer --seed 1
    python benchmarks/deep.py --out results --stages mnist
    python benchmarks/deep.py --out results --tiny          # all stages, in minutes on any machine

Each stage is a process of its own, and some run side by side: a GPU that is fed small batches by
one process waits for it most of the time. ``joint`` runs alone, since its seconds are quoted. What
a stage finds is written to ``results/deep.json`` as soon as it ends, so that a run cut short
leaves what it has.
"""

import argparse
import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from everlearn_papers.deep import cifar
from everlearn_papers.deep.cifar import CONTENDERS, Scale

from everlearn.deep import networks

TINY = Scale(
    network="tiny", n_classes=6, base=2, step=2, per_class=40, base_epochs=3, joint_epochs=2,
    task_epochs=1, tens_epochs=1, batch_size=64, task_batch=32, searched_tasks=1, device="cpu",
)  # fmt: skip
networks.NETWORKS["tiny"] = lambda: networks.ResNet18(width=8)

MNIST_JOBS = [f"split:{n}" for n in ("SI", "EWC", "MAS", "RWALK", "fine-tuning")] + [
    f"permuted:{n}" for n in ("A-GEM", "RWALK", "EWC", "MAS", "SI", "fine-tuning")
]


def jobs_of(stage: str, scale: Scale) -> list[str]:
    """The jobs of a stage, each a process."""
    from everlearn_papers.deep.streams import LEARNERS

    return {
        "rivals": [f"rival:{name}" for name in CONTENDERS],
        "learners": [f"learner:{name}" for name in LEARNERS],
        "tens": ["tens:iCaRL", "tens:End-to-End"],
        "nights": [f"nights:{kept}" for kept in (500, 100, 20)],
        "sizes": [f"size:{base}" for base in _sizes(scale)],
        "mnist": MNIST_JOBS,
        "transfer": ["adapt:", "turntable:"],
    }.get(stage, [f"{stage}:"])


def done(job: str, scale: Scale, folder: Path) -> dict[str, Any]:
    """Run one job in this process."""
    kind, _, name = job.partition(":")
    if kind in ("joint", "base", "stream"):
        return getattr(cifar, kind)(scale, folder)
    if kind == "rival":
        return cifar.rival(scale, folder, name)
    if kind == "tens":
        return cifar.in_tens(scale, folder, name)
    if kind == "nights":
        from everlearn_papers.deep.nights import nights

        epochs = 30 if scale.per_class is None else 1
        return nights(scale, folder, int(name), epochs=epochs)
    if kind == "learner":
        from everlearn_papers.deep.streams import course_of

        return course_of(name, folder, scale.base, scale.step, seed=scale.seed)
    if kind == "size":
        return _of_size(replace(scale, base=int(name)), folder / f"size-{name}")
    if kind in ("adapt", "turntable"):
        from everlearn_papers.deep import domains

        return getattr(domains, kind)(scale, folder)
    from everlearn_papers.data.packs import mnist
    from everlearn_papers.deep import verification

    measure = {"split": verification.split_mnist, "permuted": verification.permuted_mnist}[kind]
    few: dict[str, Any] = {} if scale.per_class is None else {"n_train": 500}
    if few and kind == "permuted":
        few["n_tasks"] = 2
    return {"accuracy": measure(name, mnist(), seed=scale.seed, **few)}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--work", type=Path, help="folder for what stages hand to each other")
    options.add_argument("--stages", default="joint,base,stream,learners+rivals")
    options.add_argument("--tiny", action="store_true")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--at-once", type=int, default=4, help="jobs side by side")
    options.add_argument("--seconds", type=float, default=560.0, help="stop what runs longer")
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
        found = done(chosen.job, scale, work)
        print(json.dumps({chosen.job: found | {"wall seconds": perf_counter() - begin}}))
        return
    _all(chosen, scale, work)


def _all(chosen: argparse.Namespace, scale: Scale, work: Path) -> None:
    """Stages in order; the jobs of a stage, and stages joined by ``+``, side by side."""
    begin = perf_counter()
    results: dict[str, Any] = {"scale": asdict(scale), "stages": chosen.stages}
    for group in chosen.stages.split(","):
        waiting = [job for stage in group.split("+") for job in jobs_of(stage, scale)]
        running: dict[str, subprocess.Popen[str]] = {}
        while waiting or running:
            while waiting and len(running) < chosen.at_once:
                job = waiting.pop(0)
                running[job] = _started(job, chosen, work)
            for job in list(running):
                try:
                    output, errors = running[job].communicate(timeout=0.5)
                except subprocess.TimeoutExpired:
                    continue
                process = running.pop(job)
                last = output.strip().splitlines()[-1] if output.strip() else "{}"
                if process.returncode:
                    results[job] = {"error": errors[-2000:]}
                else:
                    results |= json.loads(last)
                print(f"{perf_counter() - begin:6.0f} s  {job}  {_short(results[job])}", flush=True)
                (chosen.out / "deep.json").write_text(json.dumps(results, indent=1))
            if perf_counter() - begin > chosen.seconds:
                for job, process in running.items():
                    process.kill()
                    results[job] = {"error": "stopped, out of time"}
                results["never begun"] = waiting
                (chosen.out / "deep.json").write_text(json.dumps(results, indent=1))
                return


def _started(job: str, chosen: argparse.Namespace, work: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, __file__, "--out", str(chosen.out), "--work", str(work)]
    command += ["--seed", str(chosen.seed), "--job", job] + (["--tiny"] if chosen.tiny else [])
    threads = "4" if job.startswith(("learner", "nights", "size")) else "1"
    environment = os.environ | {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def _of_size(scale: Scale, folder: Path) -> dict[str, Any]:
    """Fig. 3: a base of another size, streamed to the end."""
    from everlearn_papers.deep.streams import course_of

    folder.mkdir(exist_ok=True)
    found: dict[str, Any] = {"base": cifar.base(scale, folder), **cifar.stream(scale, folder)}
    for name in ("NCM", "SLDA (fixed)", "SLDA (plastic)", "RLSC"):
        course = course_of(name, folder, scale.base, scale.step, seed=scale.seed)
        found[name] = {key: course[key] for key in ("accuracies", "top5")}
    return found


def _sizes(scale: Scale) -> tuple[int, ...]:
    return (2, 4) if scale.per_class else (10, 25, 75)


def _gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def _short(found: dict[str, Any]) -> str:
    if "error" in found:
        return found["error"].strip().splitlines()[-1][:200]
    accuracies = found.get("accuracies") or found.get("mornings")
    if accuracies:
        return " ".join(f"{100 * value:.1f}" for value in accuracies)
    return " ".join(f"{k} {v:.4g}" for k, v in found.items() if isinstance(v, float))


if __name__ == "__main__":
    main()
