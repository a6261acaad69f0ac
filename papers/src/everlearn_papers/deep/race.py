"""All rivals, and how each is run: its learning rate and strength by search, then the whole course.

The same network, the same tasks, the same epochs for each; twenty kept pictures of a class for
those that keep any. The search holds every twentieth picture of a class out and asks about those;
the course learns all, and is asked about the test pictures.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import torch

from everlearn.deep.descent import Classifier, Recipe
from everlearn.errors import NotFinite
from everlearn_papers.deep.agem import AGEM
from everlearn_papers.deep.end_to_end import EndToEnd
from everlearn_papers.deep.ewc import EWC
from everlearn_papers.deep.icarl import ICaRL
from everlearn_papers.deep.incremental import Pictured, run
from everlearn_papers.deep.mas import MAS
from everlearn_papers.deep.rival import Rival
from everlearn_papers.deep.rwalk import RiemannianWalk
from everlearn_papers.deep.search import chosen
from everlearn_papers.deep.si import SynapticIntelligence

HELD_OUT_EVERY = 20


@dataclass(frozen=True)
class Contender:
    """A rival and the strengths among which the search chooses."""

    make: Callable[..., Rival]
    strengths: tuple[float, ...]
    settings: dict[str, Any]


TASK: dict[str, Any] = {"outputs": "task"}
CONTENDERS: dict[str, Contender] = {
    "fine-tuning": Contender(Rival, (0.0,), {}),
    "fine-tuning (own head)": Contender(Rival, (0.0,), TASK),
    "EWC": Contender(EWC, (1.0, 10.0, 100.0), TASK),
    "SI": Contender(SynapticIntelligence, (1.0, 10.0, 100.0), TASK),
    "MAS": Contender(MAS, (0.1, 1.0, 10.0), TASK),
    "RWALK": Contender(RiemannianWalk, (1.0, 10.0, 100.0), TASK),
    "A-GEM": Contender(AGEM, (0.0,), TASK),
    "A-GEM (one head)": Contender(AGEM, (0.0,), {}),
    "iCaRL": Contender(ICaRL, (0.5, 1.0, 2.0), {}),
    "iCaRL (softmax)": Contender(ICaRL, (0.5, 1.0, 2.0), {"likelihood": "softmax"}),
    "End-to-End": Contender(EndToEnd, (0.5, 1.0, 2.0), {}),
}
RATES = (0.001, 0.003, 0.01)


def raced(
    contender: Contender,
    classifier: Classifier,
    recipe: Recipe,
    tasks: list[list[int]],
    train: Pictured,
    test: Pictured,
    device: torch.device,
    *,
    searched_tasks: int,
    rates: tuple[float, ...] = RATES,
    watched: dict[str, Any] | None = None,
    begun: bool = True,
) -> dict[str, Any]:
    """One rival through all tasks.

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
    rates : tuple of float
    watched : dict, optional
        By class, what rivals noted while the base network was trained.
    begun : bool
        Whether the network is trained on the first task already.
    """
    learned, held = train.divided(HELD_OUT_EVERY)

    def course(rate: float, strength: float, n_tasks: int, shown: Pictured, asked: Pictured) -> Any:
        made = contender.make(
            classifier,
            replace(recipe, learning_rate=rate),
            strength=strength,
            **contender.settings,
        )
        for part, weights in (watched or {}).get(type(made).__name__, {}).items():
            setattr(made, part, dict(weights))
        return run(
            made,
            tasks[:n_tasks],
            lambda classes: shown.of(classes).shown(device),
            lambda classes: asked.of(classes).shown(device),
            begun=begun,
        )

    begin = perf_counter()
    choice = chosen(
        lambda rate, strength: course(rate, strength, searched_tasks + 1, learned, held),
        rates,
        contender.strengths,
    )
    searched = perf_counter() - begin
    for rate, strength in choice.in_order():
        try:
            best = course(rate, strength, len(tasks), train, test)
        except NotFinite:  # it held for the tasks searched, and not for all
            continue
        choice = replace(choice, learning_rate=rate, strength=strength)
        return {**vars(best), "choice": vars(choice), "search seconds": searched}
    raise NotFinite("every candidate of the search ran away; try lower rates")
