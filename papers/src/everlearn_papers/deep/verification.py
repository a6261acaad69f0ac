"""Each rival in its published setting, compared with the published figure.

**Permuted MNIST, one pass** (Chaudhry et al., ICLR 2019): 17 tasks, each a fixed permutation of the
pixels of MNIST, all ten digits in every task; 55,000 pictures a task, seen once in batches of ten;
two hidden layers of 256, weights drawn from a normal cut at two deviations of 0.1, biases of 0.1,
plain SGD; 25 examples of each class of each task are kept by A-GEM. Learning rates and
regularization weights are those of the authors' script ``replicate_results_iclr19.sh``;
the figures are those of their notebook ``agem_plots.ipynb`` (mean of five runs, final accuracy over
all tasks). What they call EWC is EWC++ here, and their MAS measures ten examples at once and keeps
only the last task's importance. Both are run as in their code and, for comparison, as defined in
their papers.

**Split MNIST, task told** (Zenke et al., ICML 2017): digits two by two, five tasks, one head each;
two hidden layers of 256, ten epochs, batches of 64, Adam at 0.001 with its state reset at every
task. The figure for SI and RWALK is what Avalanche's table of baselines lists as published.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from everlearn.deep.descent import Classifier, Recipe
from everlearn.streams.examples import DataSet
from everlearn_papers.deep.agem import AGEM
from everlearn_papers.deep.ewc import EWC
from everlearn_papers.deep.incremental import Course
from everlearn_papers.deep.mas import MAS
from everlearn_papers.deep.rival import Rival, Rows
from everlearn_papers.deep.rwalk import OnlineEWC, RiemannianWalk
from everlearn_papers.deep.si import SynapticIntelligence

HIDDEN = 256
N_PERMUTATIONS, TRAINED_ON, KEPT = 17, 55_000, 25
DIGITS, PAIRS = 10, ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9))


@dataclass(frozen=True)
class Published:
    """A published setting: the rival, its parameters, and the figure in per cent."""

    make: Callable[..., Rival]
    learning_rate: float
    regularization: float
    figure: float | None
    tolerance: float
    source: str


def _mas_of_code(*arguments: Any, **settings: Any) -> MAS:
    return MAS(*arguments, together=10, last_only=True, **settings)


NOTEBOOK = "Chaudhry et al. 2019, agem_plots.ipynb"
PERMUTED: dict[str, Published] = {
    "fine-tuning": Published(Rival, 0.03, 0.0, 48.0, 3.0, NOTEBOOK),
    "EWC++": Published(OnlineEWC, 0.03, 10.0, 68.3, 3.0, NOTEBOOK),
    "EWC": Published(EWC, 0.03, 20.0, None, 0.0, NOTEBOOK),
    "MAS, as in their code": Published(_mas_of_code, 0.1, 0.1, 69.9, 3.0, NOTEBOOK),
    "MAS": Published(MAS, 0.1, 0.1, None, 0.0, NOTEBOOK),
    "RWALK": Published(RiemannianWalk, 0.1, 1.0, 85.8, 3.0, NOTEBOOK),
    "A-GEM": Published(AGEM, 0.1, 0.0, 89.1, 2.0, NOTEBOOK),
    "SI": Published(SynapticIntelligence, 0.1, 0.1, None, 0.0, NOTEBOOK),
}
BASELINES = "as listed in Avalanche's continual-learning-baselines"
SPLIT: dict[str, Published] = {
    "fine-tuning": Published(Rival, 1e-3, 0.0, None, 0.0, BASELINES),
    "EWC": Published(EWC, 1e-3, 1000.0, None, 0.0, BASELINES),
    "SI": Published(SynapticIntelligence, 1e-3, 1.0, 97.0, 1.0, f"Zenke et al. 2017, {BASELINES}"),
    "MAS": Published(MAS, 1e-3, 1.0, None, 0.0, BASELINES),
    "RWALK": Published(RiemannianWalk, 1e-3, 1.0, 99.0, 1.0, f"Chaudhry et al. 2018, {BASELINES}"),
}


def perceptron(n_inputs: int, hidden: int, n_classes: int, seed: int) -> Classifier:
    """Return a network of two hidden layers and an output layer."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = (nn.Linear(n_inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        return Classifier(nn.Sequential(*layers), hidden, n_classes)


def drawn_as_published(classifier: Classifier, seed: int, scale: float = 0.1) -> Classifier:
    """Draw weights from a normal truncated at two deviations; set biases to ``scale``."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        for parameter in classifier.parameters():
            if parameter.ndim > 1:
                nn.init.trunc_normal_(parameter, std=scale, a=-2 * scale, b=2 * scale)
            else:
                parameter.fill_(scale)
    return classifier


def permuted_mnist(
    name: str,
    mnist: DataSet,
    *,
    seed: int = 0,
    n_tasks: int = N_PERMUTATIONS,
    n_train: int = TRAINED_ON,
    published: dict[str, Published] | None = None,
) -> float:
    """Return the final accuracy over all tasks, in per cent."""
    setting = (published or PERMUTED)[name]
    rng = np.random.default_rng(seed)
    kept = rng.permutation(len(mnist.train))[:n_train]
    X = torch.as_tensor(mnist.train.X[kept], dtype=torch.float32)
    y = torch.as_tensor(mnist.train.y[kept].astype(np.int64))
    X_test = torch.as_tensor(mnist.test.X, dtype=torch.float32)
    y_test = torch.as_tensor(mnist.test.y.astype(np.int64))
    n_inputs = X.shape[1]
    permutations = [torch.as_tensor(rng.permutation(n_inputs)) for _ in range(n_tasks)]
    recipe = Recipe(
        epochs=1, batch_size=10, learning_rate=setting.learning_rate, label_smoothing=0.0, seed=seed
    )
    rival = setting.make(
        drawn_as_published(perceptron(n_inputs, HIDDEN, DIGITS, seed), seed),
        recipe,
        regularization=setting.regularization,
        kept=KEPT,
        optimiser=torch.optim.SGD,
    )
    for permutation in permutations:
        rival.learn(Rows(X[:, permutation], y), range(DIGITS))
    right = [
        float((rival.scores(Rows(X_test[:, p], y_test)).argmax(1) == y_test).float().mean())
        for p in permutations
    ]
    return 100.0 * float(np.mean(right))


def split_mnist(
    name: str,
    mnist: DataSet,
    *,
    seed: int = 0,
    epochs: int = 10,
    n_train: int | None = None,
    published: dict[str, Published] | None = None,
) -> float:
    """Return the final accuracy over all tasks, task given, in per cent."""
    setting = (published or SPLIT)[name]
    recipe = Recipe(
        epochs=epochs,
        batch_size=64,
        learning_rate=setting.learning_rate,
        label_smoothing=0.0,
        seed=seed,
    )
    n_inputs = mnist.train.X.shape[1]
    rival = setting.make(
        perceptron(n_inputs, HIDDEN, DIGITS, seed),
        recipe,
        regularization=setting.regularization,
        outputs="task",
        optimiser=torch.optim.Adam,
    )
    for pair in PAIRS:
        rival.learn(_rows(mnist.train, pair, n_train), pair)
    course = Course()
    asked = _rows(mnist.test, range(DIGITS), None)
    course.ask(rival.scores(asked), asked.slots, [list(pair) for pair in PAIRS])
    return 100.0 * course.told[-1]


def _rows(examples: Any, digits: Any, n: int | None) -> Rows:
    chosen = np.flatnonzero(np.isin(examples.y, list(digits)))[:n]
    X = torch.as_tensor(examples.X[chosen], dtype=torch.float32)
    return Rows(X, torch.as_tensor(examples.y[chosen].astype(np.int64)))
