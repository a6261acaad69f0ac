"""All rivals, and how each is run: its learning rate and strength by search, then the whole course.

The same network and the same tasks for each; twenty kept pictures of a class for those that keep
any. Those that rehearse and distil (``patient``) have as many epochs a task as they are published
with (60), the others as many as change anything for them. The search holds every twentieth picture
of a class out and asks about those; the course learns all, and is asked about the test pictures.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import torch

from everlearn.deep.descent import Classifier, Recipe
from everlearn.errors import NotFinite
from everlearn_papers.deep.agem import AGEM
from everlearn_papers.deep.end_to_end import EndToEnd
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
    """A rival and the strengths among which the search chooses.

    A ``patient`` one gains from many epochs a task. Its search is a list of trials, pairs of rate
    and strength, each of which can run beside the others.
    """

    make: Callable[..., Rival]
    strengths: tuple[float, ...]
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
    """Every twentieth picture of a class held out."""
    return train.divided(HELD_OUT_EVERY)


@dataclass(frozen=True)
class Race:
    """A rival's way through some tasks, at any rate and strength.

    Parameters
    ----------
    contender : Contender
    classifier : Classifier
        The network it starts from; not changed.
    recipe : Recipe
        How each task is trained; its learning rate is searched for.
    tasks : list of lists of classes
    train, test : Pictured
    device : torch.device
    searched_tasks : int
        How many tasks after the first the search runs through.
    watched : dict
        By class, what rivals noted while the base network was trained.
    begun : bool
        Whether the network is trained on the first task already.
    divide : callable
        Training pictures to learn from while searching, and those held out.
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

    def trial(self, rate: float, strength: float) -> Course:
        """The first tasks without the pictures held out, asked about these."""
        learned, held = self.divide(self.train)
        return self._course(rate, strength, self.tasks[: self.searched_tasks + 1], learned, held)

    def course(self, rate: float, strength: float) -> Course:
        """All tasks and pictures, asked about the test pictures."""
        return self._course(rate, strength, self.tasks, self.train, self.test)

    def _course(
        self,
        rate: float,
        strength: float,
        tasks: list[list[int]],
        shown: Pictured,
        asked: Pictured,
    ) -> Course:
        made = self.contender.make(
            self.classifier,
            replace(self.recipe, learning_rate=rate),
            strength=strength,
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
    """One rival through all tasks, with the search for its rate and strength if none is given."""
    begin = perf_counter()
    choice = choice or chosen(race.trial, RATES, race.contender.strengths)
    searched = perf_counter() - begin
    for rate, strength in choice.in_order():
        try:
            best = race.course(rate, strength)
        except NotFinite:  # it held for the tasks searched, and not for all
            continue
        choice = replace(choice, learning_rate=rate, strength=strength)
        return {
            **vars(best),
            "choice": vars(choice),
            "search seconds": searched,
            "epochs": race.recipe.epochs,
        }
    raise NotFinite("every candidate of the search ran away; try lower rates")


def best_of(tried: dict[str, float]) -> Choice:
    """The choice that trials, by rate and strength, come to."""
    best = max(tried.values())
    equal = sorted(tuple(map(float, key.split())) for key, value in tried.items() if value == best)
    rate, strength = equal[len(equal) // 2]
    return Choice(rate, strength, tried)
