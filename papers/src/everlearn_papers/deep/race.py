"""The rivals and how each is run: a search of its settings, then all tasks.

All have the same network and tasks, and twenty stored pictures per class if they store any.
Methods with rehearsal and distillation (``patient``) train for the published 60 epochs per task,
the others for as many as still change their results. The search holds out every twentieth picture
of a class and scores on those; the final run learns all pictures and is scored on the test set.
``regularization`` is the weight of the term against forgetting: a penalty or a distillation loss.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import torch

from everlearn.deep.descent import Classifier, Recipe
from everlearn.errors import NotFinite
from everlearn_papers.deep.agem import AGEM
from everlearn_papers.deep.end_to_end import EndToEnd, balancing_epochs
from everlearn_papers.deep.ewc import EWC
from everlearn_papers.deep.icarl import ICaRL
from everlearn_papers.deep.incremental import Course, Pictured, run
from everlearn_papers.deep.mas import MAS
from everlearn_papers.deep.rival import Rival
from everlearn_papers.deep.rwalk import RiemannianWalk
from everlearn_papers.deep.search import Choice, chosen
from everlearn_papers.deep.si import SynapticIntelligence

HELD_OUT_EVERY = 20


@dataclass(frozen=True)
class Contender:
    """A rival, its settings, and the candidate regularization weights of its search.

    A ``patient`` rival gains from many epochs per task. Its search is a list of ``trials``, pairs
    of rate and distillation weight, which can run in parallel.
    """

    make: Callable[..., Rival]
    regularizations: tuple[float, ...]
    settings: dict[str, Any]
    trials: tuple[tuple[float, float], ...] = ()

    @property
    def patient(self) -> bool:
        return bool(self.trials)


TASK: dict[str, Any] = {"outputs": "task"}
AT_ONE = ((0.003, 1.0), (0.01, 1.0), (0.03, 1.0))
CONTENDERS: dict[str, Contender] = {
    "fine-tuning": Contender(Rival, (0.0,), {}),
    "fine-tuning (own head)": Contender(Rival, (0.0,), TASK),
    "EWC": Contender(EWC, (1.0, 10.0, 100.0), TASK),
    "SI": Contender(SynapticIntelligence, (1.0, 10.0, 100.0), TASK),
    "MAS": Contender(MAS, (0.1, 1.0, 10.0), TASK),
    "RWALK": Contender(RiemannianWalk, (1.0, 10.0, 100.0), TASK),
    "A-GEM": Contender(AGEM, (0.0,), TASK),
    "A-GEM (one head)": Contender(AGEM, (0.0,), {}),
    "iCaRL": Contender(
        ICaRL, (0.5, 1.0, 2.0), {}, (*AT_ONE, (0.01, 0.5), (0.03, 0.5), (0.01, 0.25))
    ),
    "iCaRL (softmax)": Contender(
        ICaRL, (0.5, 1.0, 2.0), {"likelihood": "softmax"}, (*AT_ONE, (0.01, 0.3))
    ),
    "End-to-End": Contender(EndToEnd, (0.5, 1.0, 2.0), {}, AT_ONE),
}
RATES = (0.001, 0.003, 0.01)


def by_number(train: Pictured) -> tuple[Pictured, Pictured]:
    """Split off every twentieth picture of a class; return the rest and those."""
    return train.divided(HELD_OUT_EVERY)


@dataclass(frozen=True)
class Race:
    """A rival with its network, tasks and data, to be run at any settings.

    Parameters
    ----------
    contender : Contender
    classifier : Classifier
        The initial network; not changed.
    recipe : Recipe
        How each task is trained; its learning rate is replaced by the one searched.
    tasks : list of lists of classes
    train, test : Pictured
    device : torch.device
    searched_tasks : int
        Number of tasks after the first that the search runs.
    watched : dict
        Statistics of the base training, by name of the rival's class.
    begun : bool
        Whether the network is already trained on the first task.
    divide : callable
        Splits the training pictures into those learned in the search and those held out.
    """

    contender: Contender
    classifier: Classifier
    recipe: Recipe
    tasks: list[list[int]]
    train: Pictured
    test: Pictured
    device: torch.device
    searched_tasks: int
    watched: dict[str, Any] = field(default_factory=dict)
    begun: bool = True
    divide: Callable[[Pictured], tuple[Pictured, Pictured]] = by_number

    def trial(self, rate: float, regularization: float) -> Course:
        """Run the first tasks without the held-out pictures and score on those."""
        learned, held = self.divide(self.train)
        return self._course(
            rate, regularization, self.tasks[: self.searched_tasks + 1], learned, held
        )

    def course(self, rate: float, regularization: float) -> Course:
        """Run all tasks on all training pictures and score on the test pictures."""
        return self._course(rate, regularization, self.tasks, self.train, self.test)

    def _course(
        self,
        rate: float,
        regularization: float,
        tasks: list[list[int]],
        shown: Pictured,
        asked: Pictured,
    ) -> Course:
        made = self.contender.make(
            self.classifier,
            replace(self.recipe, learning_rate=rate),
            regularization=regularization,
            **self.contender.settings,
        )
        for part, weights in self.watched.get(type(made).__name__, {}).items():
            setattr(made, part, dict(weights))
        return run(
            made,
            tasks,
            lambda classes: shown.of(classes).shown(self.device),
            lambda classes: asked.of(classes).shown(self.device),
            begun=self.begun,
        )


def raced(race: Race, choice: Choice | None = None) -> dict[str, Any]:
    """Run one rival through all tasks, after a search of its settings if none are given."""
    begin = perf_counter()
    choice = choice or chosen(race.trial, RATES, race.contender.regularizations)
    searched = perf_counter() - begin
    for rate, regularization in choice.in_order():
        try:
            best = race.course(rate, regularization)
        except NotFinite:  # diverged on a task after those searched
            continue
        choice = replace(choice, learning_rate=rate, regularization=regularization)
        return {
            **vars(best),
            "choice": vars(choice),
            "search seconds": searched,
            **epochs_of(race.contender, race.recipe.epochs),
        }
    raise NotFinite("every candidate of the search diverged; try lower rates")


def epochs_of(contender: Contender, epochs: int) -> dict[str, int]:
    """Return the epochs of a task, and of the balanced fine-tuning after it if there is any."""
    found = {"epochs": epochs}
    if contender.make is EndToEnd:
        found["balancing epochs"] = balancing_epochs(epochs)
    return found


def best_of(tried: dict[str, float]) -> Choice:
    """Return the best of the trials, keyed by "rate regularization"; ties take the middle one."""
    best = max(tried.values())
    equal = sorted(tuple(map(float, key.split())) for key, value in tried.items() if value == best)
    rate, regularization = equal[len(equal) // 2]
    return Choice(rate, regularization, tried)
