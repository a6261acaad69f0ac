"""CIFAR-100: base network, rivals, streams and consolidation as stages that return plain numbers.

Stages share a folder: ``base`` writes its network there and the others load it. They can run in
sequence or in parallel (``benchmarks/deep.py``), and each can be repeated separately.

Classes arrive in an order drawn from the seed. The base network is trained on 95 % of the pictures
of its classes; learning rates and regularization weights are chosen on the held-out rest. Test
pictures are used only for the final evaluation.
"""

from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from everlearn.deep.augment import Augmentation
from everlearn.deep.descent import Classifier, Recipe, classifier_over, hit_rate, on_device
from everlearn.deep.embedding import DeepEmbedder
from everlearn.deep.networks import N_STAGES, LastStages, named_network
from everlearn.deep.trainer import BaseTrainer
from everlearn.errors import NotFinite
from everlearn.persistence import load_arrays, save_arrays
from everlearn_papers.data.mosaics import cifar100_pictures
from everlearn_papers.deep.base import trained_base
from everlearn_papers.deep.end_to_end import EndToEnd
from everlearn_papers.deep.icarl import ICaRL
from everlearn_papers.deep.incremental import Course, Pictured, in_order, run, tasks_of
from everlearn_papers.deep.race import CONTENDERS, HELD_OUT_EVERY, Race, best_of, raced
from everlearn_papers.deep.rwalk import RiemannianWalk
from everlearn_papers.deep.si import SynapticIntelligence
from everlearn_papers.deep.streams import LEARNERS, Vectors, ridge_on_random_features, streamed

WATCHED = ("path", "began_at", "fisher", "score")


@dataclass(frozen=True)
class Scale:
    """Size of an experiment; the default is the full one."""

    network: str = "resnet18"
    n_classes: int = 100
    base: int = 50
    step: int = 10
    per_class: int | None = None
    base_epochs: int = 80
    joint_epochs: int = 76
    task_epochs: int = 10
    patient_epochs: int = 60
    turn_epochs: int = 10
    tens_epochs: int = 30
    batch_size: int = 512
    task_batch: int = 128
    searched_tasks: int = 2
    width: int = 10_000
    seed: int = 0
    device: str = "cuda"

    @property
    def base_recipe(self) -> Recipe:
        # Label smoothing makes features fit the base classes better and new classes worse.
        return Recipe(
            epochs=self.base_epochs,
            batch_size=self.batch_size,
            label_smoothing=0.0,
            seed=self.seed,
        )

    @property
    def task_recipe(self) -> Recipe:
        return Recipe(
            epochs=self.task_epochs,
            batch_size=self.task_batch,
            learning_rate=0.03,
            label_smoothing=0.0,
            warm_up=0.1,
            augmentation=Augmentation(padding=4, mirror=True),
            seed=self.seed,
        )


def pictures(scale: Scale) -> tuple[Pictured, Pictured]:
    """Return training and test pictures of CIFAR-100 in order of arrival, cut to the scale."""
    data = cifar100_pictures()
    train, test, _ = in_order(data.train, data.test, scale.seed)
    few = range(scale.n_classes)
    return _first(train.of(list(few)), scale.per_class), _first(test.of(list(few)), scale.per_class)


def joint(scale: Scale, folder: Path) -> dict[str, Any]:
    """Train on all classes at once with the library's trainer: the upper bound."""
    train, test = pictures(scale)
    recipe = replace(scale.base_recipe, epochs=scale.joint_epochs, label_smoothing=0.1)
    trainer = BaseTrainer(scale.network, recipe=recipe, held_out=0.0, device=scale.device)
    begin = perf_counter()
    trained = trainer.train(train.pixels, train.slots)
    _wait(scale)
    seconds = perf_counter() - begin
    shown = test.shown(torch.device(scale.device))
    course = Course()
    tasks = tasks_of(scale.n_classes, scale.base, scale.step)
    scores = torch.as_tensor(trained.scores(test.pixels), device=shown.device)
    course.ask(scores, shown.slots, tasks)
    return {"accuracy": course.accuracies[-1], "top5": course.top5[-1], "seconds": seconds}


def base(scale: Scale, folder: Path) -> dict[str, Any]:
    """Train the base network and write it to the folder."""
    train, test = pictures(scale)
    device = torch.device(scale.device)
    learned, _ = train.of(range(scale.base)).divided(HELD_OUT_EVERY)
    blank = Classifier(torch.nn.Identity(), 1, 1)
    watchers = [make(blank, scale.task_recipe) for make in (SynapticIntelligence, RiemannianWalk)]
    begin = perf_counter()
    classifier = trained_base(
        scale.network, learned.shown(device), scale.base, scale.base_recipe, watchers
    )
    _wait(scale)
    seconds = perf_counter() - begin
    arrays = _arrays("network.", classifier.state_dict())
    for watcher in watchers:
        for part in WATCHED:
            if hasattr(watcher, part):
                arrays |= _arrays(f"{type(watcher).__name__}.{part}.", getattr(watcher, part))
    save_arrays(folder / "base.safetensors", "base", asdict(scale), arrays)
    accuracy = hit_rate(classifier, test.of(range(scale.base)).shown(device))
    return {"accuracy": accuracy, "seconds": seconds}


def rival(
    scale: Scale, folder: Path, name: str, tried: dict[str, float] | None = None
) -> dict[str, Any]:
    """Run one rival on all tasks, with settings chosen by search or from ``tried`` trials."""
    return raced(race(scale, folder, name), best_of(tried) if tried else None)


def trial(
    scale: Scale, folder: Path, name: str, rate: float, regularization: float
) -> dict[str, Any]:
    """Run a rival's first tasks; return its accuracy on held-out pictures, 0 if it diverges."""
    try:
        course = race(scale, folder, name).trial(rate, regularization)
    except NotFinite:
        return {"accuracy": 0.0, "told": 0.0}
    return {"accuracy": course.accuracies[-1], "told": course.told[-1]}


def race(scale: Scale, folder: Path, name: str) -> Race:
    """Return the race of a rival on CIFAR-100, from the base network in the folder."""
    train, test = pictures(scale)
    classifier, watched = loaded_base(scale, folder)
    contender = CONTENDERS[name]
    epochs = scale.patient_epochs if contender.patient else scale.task_epochs
    return Race(
        contender,
        classifier,
        replace(scale.task_recipe, epochs=epochs),
        tasks_of(scale.n_classes, scale.base, scale.step),
        train,
        test,
        torch.device(scale.device),
        scale.searched_tasks,
        watched,
    )


def stream(scale: Scale, folder: Path) -> dict[str, Any]:
    """Embed all pictures with the base network and write the vectors to the folder."""
    train, test = pictures(scale)
    begin = perf_counter()
    embedder = base_embedder(scale, folder)
    vectors, asked = embedder.embed(train.pixels), embedder.embed(test.pixels)
    seconds = perf_counter() - begin
    np.savez(folder / "vectors.npz", X=vectors, y=train.slots, X_test=asked, y_test=test.slots)
    return {"embedding seconds": seconds, "examples": len(vectors) + len(asked)}


def staged(scale: Scale, folder: Path) -> dict[str, Any]:
    """Run closed-form learners on features of the base network's last 1, 2, ... stages."""
    train, test = pictures(scale)
    classifier, _ = loaded_base(scale, folder)
    tasks = tasks_of(scale.n_classes, scale.base, scale.step)
    learners = {name: LEARNERS[name] for name in ("SLDA (plastic)", "RLSC")}
    learners[f"RLSC, {scale.width:,} wide"] = partial(
        ridge_on_random_features, scale.width, scale.device
    )
    found: dict[str, Any] = {}
    for n in range(1, N_STAGES + 1):
        embedder = DeepEmbedder(LastStages(classifier.network, n), device=scale.device)
        taught, asked = (Vectors(embedder.embed(p.pixels), p.slots) for p in (train, test))
        for name, made in learners.items():
            _, course = streamed(made, taught, asked, tasks, seed=scale.seed)
            found[f"{name}, {n}"] = vars(course)
    return found


def in_tens(scale: Scale, folder: Path, name: str) -> dict[str, Any]:
    """Run iCaRL or End-to-End as published: ten classes at a time, from scratch."""
    train, test = pictures(scale)
    device = torch.device(scale.device)
    tasks = tasks_of(scale.n_classes, scale.step, scale.step)
    recipe = replace(
        scale.task_recipe, epochs=scale.tens_epochs, learning_rate=0.1, label_smoothing=0.0
    )
    network = named_network(scale.network, scale.seed)
    blank = classifier_over(network, scale.step, 32, scale.seed)
    on_device(blank, device)
    budget = 20 * scale.n_classes
    make = {"iCaRL": ICaRL, "End-to-End": EndToEnd}[name]
    contender = make(blank, recipe, regularization=1.0, budget=budget)
    course = run(
        contender,
        tasks,
        lambda classes: train.of(classes).shown(device),
        lambda classes: test.of(classes).shown(device),
        begun=False,
    )
    return vars(course)


def loaded_base(scale: Scale, folder: Path) -> tuple[Classifier, dict[str, Any]]:
    """Load the base network and the rivals' statistics of its training."""
    _, _, arrays = load_arrays(folder / "base.safetensors")
    device = torch.device(scale.device)
    network = named_network(scale.network)
    classifier = classifier_over(network, scale.base, 32, scale.seed)
    classifier.load_state_dict(_tensors("network.", arrays, torch.device("cpu")))
    on_device(classifier, device)
    watched = {
        make.__name__: {
            part: _tensors(f"{make.__name__}.{part}.", arrays, device)
            for part in WATCHED
            if any(key.startswith(f"{make.__name__}.{part}.") for key in arrays)
        }
        for make in (SynapticIntelligence, RiemannianWalk)
    }
    return classifier, watched


def base_embedder(scale: Scale, folder: Path) -> DeepEmbedder:
    classifier, _ = loaded_base(scale, folder)
    return DeepEmbedder(classifier.network, architecture=scale.network, device=scale.device)


def _first(part: Pictured, per_class: int | None) -> Pictured:
    if per_class is None:
        return part
    kept = np.concatenate(
        [np.flatnonzero(part.slots == slot)[:per_class] for slot in np.unique(part.slots)]
    )
    return Pictured(part.pixels[kept], part.slots[kept])


def _wait(scale: Scale) -> None:
    if scale.device == "cuda":
        torch.cuda.synchronize()


def _arrays(prefix: str, tensors: dict[str, torch.Tensor]) -> dict[str, NDArray[Any]]:
    return {f"{prefix}{key}": t.detach().cpu().contiguous().numpy() for key, t in tensors.items()}


def _tensors(
    prefix: str, arrays: dict[str, NDArray[Any]], device: torch.device
) -> dict[str, torch.Tensor]:
    return {
        key.removeprefix(prefix): torch.from_numpy(value).to(device)
        for key, value in arrays.items()
        if key.startswith(prefix)
    }
