"""Table 2 of Hayes and Kanan (2020): rivals on the turntable, with and without the task given.

Each task is a fifth of the objects, in the order of a draw; the network is the one trained on
CIFAR-100's base classes. Rivals train on a task in shuffled epochs, so the orderings class iid and
class instance, whose classes come in the same order, are the same for them: one run counts for
both. Learning rates and regularization weights are chosen on the first draw, once with the task
given and once without. The last sixth of each object's training views is held out for this choice,
because the test views are unseen too.

``offline`` trains the network on all examples so far at every checkpoint, at its best rate: the
reference of Ω for every row, including those of SLDA.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from everlearn.deep.descent import Classifier, Recipe, classifier_over, on_device
from everlearn.errors import NotFinite
from everlearn_papers.data import packs
from everlearn_papers.deep.cifar import Scale, base_embedder
from everlearn_papers.deep.domains import CHECKPOINTS, stream_of, turntable_pictures
from everlearn_papers.deep.incremental import Course, Pictured, tasks_of
from everlearn_papers.deep.race import CONTENDERS, Contender, Race, best_of, epochs_of
from everlearn_papers.deep.rival import Rival
from everlearn_papers.deep.search import Choice, chosen

RATES = (0.003, 0.01, 0.03)
# Batch sizes: as published for rehearsal methods (60 epochs); smaller for the others.
PATIENT_BATCH, BATCH = 64, 32
HELD_OUT_SHARE = 1 / 6
OFFLINE = Contender(Rival, (0.0,), {})


def searched(scale: Scale, folder: Path, name: str) -> dict[str, Any]:
    """Choose a rival's settings on the first draw, without and with the task given."""
    race = _race(scale, folder, name, 0)
    trial = cache(_safe(race))
    choices = {
        key: vars(_chosen(race.contender, trial, told=told))
        for key, told in (("untold", False), ("told", True))
    }
    epochs = epochs_of(race.contender, race.recipe.epochs)
    return {"choices": choices, **epochs, "batch": race.recipe.batch_size}


def told(
    scale: Scale, folder: Path, name: str, draws: Sequence[int], choices: dict[str, Any]
) -> dict[str, Any]:
    """Run a rival on some draws, at the settings chosen without and with the task given."""
    runs = []
    for draw in draws:
        race = _race(scale, folder, name, draw)
        courses = cache(race.course)
        plain, plain_choice = _first_that_holds(courses, Choice(**choices["untold"]))
        among, told_choice = _first_that_holds(courses, Choice(**choices["told"]))
        runs.append(
            {
                "draw": draw,
                "accuracies": plain.accuracies,
                "told": among.told,
                "told, untold choice": plain.told,
                "choice": plain_choice,
                "choice, told": told_choice,
                "seconds": plain.seconds,
                "bytes_kept": plain.bytes_kept,
            }
        )
    return {"runs": runs}


def offline(scale: Scale, folder: Path, draw: int) -> dict[str, Any]:
    """Train the whole network on all examples so far, at every checkpoint of a draw."""
    race = _race(scale, folder, "offline", draw)
    tasks = race.tasks

    def learned(rate: float, train: Pictured, test: Pictured, known: list[int], n: int) -> Course:
        course = Course()
        begin = perf_counter()
        whole = Rival(race.classifier, replace(race.recipe, learning_rate=rate))
        whole.learn(train.of(known).shown(race.device), known)
        course.seconds.append(perf_counter() - begin)
        asked = test.of(known).shown(race.device)
        course.ask(whole.scores(asked), asked.slots, tasks[:n])
        return course

    everything = [label for task in tasks for label in task]
    parts = race.divide(race.train)
    choice = chosen(
        lambda rate, _: learned(rate, *parts, everything, len(tasks)),
        RATES,
        OFFLINE.regularizations,
    )
    runs: dict[str, Any] = {"accuracies": [], "told": [], "seconds": []}
    for number in range(1, len(tasks) + 1):
        known = [label for task in tasks[:number] for label in task]
        course = learned(choice.learning_rate, race.train, race.test, known, number)
        for key in runs:
            runs[key] += getattr(course, key)
    settings = {"epochs": race.recipe.epochs, "batch": race.recipe.batch_size}
    return {"draw": draw, "choice": vars(choice), **settings, **runs}


def last_views(train: Pictured) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return masks of all but the last views of each object, and of the last views."""
    held = np.zeros(len(train.slots), dtype=bool)
    for slot in np.unique(train.slots):
        own = np.flatnonzero(train.slots == slot)
        held[own[len(own) - round(HELD_OUT_SHARE * len(own)) :]] = True
    return ~held, held


def by_views(train: Pictured) -> tuple[Pictured, Pictured]:
    """Split off the last views of each object; return the rest and those."""
    learned, held = last_views(train)
    return train.at(learned), train.at(held)


def turned(draw: int) -> tuple[Pictured, Pictured, list[list[int]]]:
    """Return train and test pictures, classes in a draw's order of arrival, and its tasks."""
    pixels, _ = turntable_pictures(32)
    where = packs.turntable("arc", np.arange(len(pixels))[:, None])
    order, _ = stream_of(where, "class iid", draw)
    labels = where.train.y[order]
    arrival = labels[np.sort(np.unique(labels, return_index=True)[1])]
    place = np.argsort(arrival)
    train, test = (
        Pictured(pixels[part.X[:, 0].astype(np.intp)], place[part.y])
        for part in (where.train, where.test)
    )
    step = len(arrival) // CHECKPOINTS
    return train, test, tasks_of(len(arrival), step, step)


def _race(scale: Scale, folder: Path, name: str, draw: int) -> Race:
    contender = OFFLINE if name == "offline" else CONTENDERS[name]
    train, test, tasks = turned(draw)
    device = torch.device(scale.device)
    return Race(
        contender,
        _blank(scale, folder, len(tasks[0]), device),
        _recipe(scale, contender),
        tasks,
        train,
        test,
        device,
        scale.searched_tasks,
        begun=False,
        divide=by_views,
    )


def _recipe(scale: Scale, contender: Contender) -> Recipe:
    if contender.patient:
        return replace(scale.task_recipe, epochs=scale.patient_epochs, batch_size=PATIENT_BATCH)
    epochs = 2 * scale.turn_epochs if contender is OFFLINE else scale.turn_epochs
    return replace(scale.task_recipe, epochs=epochs, batch_size=BATCH)


def _blank(scale: Scale, folder: Path, n_classes: int, device: torch.device) -> Classifier:
    network = base_embedder(scale, folder).network
    blank = classifier_over(network, n_classes, 32, scale.seed)
    on_device(blank, device)
    return blank


def _chosen(contender: Contender, trial: Callable[..., Course], *, told: bool) -> Choice:
    """Choose settings by the listed trials if there are any, else by search."""
    if not contender.patient:
        return chosen(trial, RATES, contender.regularizations, told=told)
    courses = {pair: trial(*pair) for pair in contender.trials}
    return best_of(
        {
            f"{rate:g} {regularization:g}": (course.told if told else course.accuracies)[-1]
            for (rate, regularization), course in courses.items()
        }
    )


def _safe(race: Race) -> Any:
    """Return a trial function that scores 0 on divergence, so that it can be cached."""

    def trial(rate: float, regularization: float) -> Course:
        try:
            return race.trial(rate, regularization)
        except NotFinite:
            return Course(accuracies=[0.0], told=[0.0])

    return trial


def _first_that_holds(courses: Any, choice: Choice) -> tuple[Course, list[float]]:
    for rate, regularization in choice.in_order():
        try:
            return courses(rate, regularization), [rate, regularization]
        except NotFinite:  # diverged on a task after those searched
            continue
    raise NotFinite("every candidate of the search diverged; try lower rates")
