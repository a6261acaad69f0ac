"""How settings of rivals are chosen: held-out pictures, ties, trials, and single steps."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="the rivals need torch: pip install 'everlearn[torch]'")

import torch
from everlearn_papers.deep.incremental import Course, Pictured
from everlearn_papers.deep.race import CONTENDERS, best_of
from everlearn_papers.deep.search import chosen
from everlearn_papers.deep.told import by_views
from everlearn_papers.deep.whole import SingleSteps
from torch import nn

from everlearn.deep.augment import normalised
from everlearn.deep.descent import Classifier, Recipe, Shown


def test_of_equal_candidates_the_middle_one_is_taken_and_the_grid_is_not_extended():
    tried = []

    def attempt(rate, regularization):
        tried.append(rate)
        return Course(accuracies=[1.0], told=[1.0])

    choice = chosen(attempt, (0.001, 0.01, 0.1), (1.0,))
    assert choice.learning_rate == 0.01
    assert set(tried) == {0.001, 0.01, 0.1}


def test_a_search_with_task_labels_uses_accuracies_with_task_labels():
    def attempt(rate, regularization):
        return Course(accuracies=[-abs(rate - 0.01)], told=[-abs(rate - 0.03)])

    rates = (0.003, 0.01, 0.03, 0.1)
    assert chosen(attempt, rates, (0.0,)).learning_rate == 0.01
    assert chosen(attempt, rates, (0.0,), told=True).learning_rate == 0.03


def test_trials_are_scored_on_held_out_examples():
    choice = best_of({"0.003 1": 0.5, "0.01 1": 0.7, "0.03 0.5": 0.6})
    assert (choice.learning_rate, choice.regularization) == (0.01, 1.0)


def test_rehearsing_rivals_get_more_epochs():
    patient = {name for name, contender in CONTENDERS.items() if contender.patient}
    assert patient == {"iCaRL", "iCaRL (softmax)", "End-to-End"}


def test_the_last_sixth_of_an_objects_views_is_held_out():
    slots = np.repeat([0, 1], 12)
    views = Pictured(np.arange(24, dtype=np.uint8)[:, None], slots)
    learned, held = by_views(views)
    assert held.pixels[:, 0].tolist() == [10, 11, 22, 23]
    assert len(learned.slots) == 20


def test_one_step_per_picture_is_nesterov_descent_with_frozen_statistics():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
    base = Classifier(network, 4 * 6 * 6, 3)
    rng = np.random.default_rng(0)
    shown = Shown(
        rng.integers(0, 256, (5, 8, 8, 3), dtype=np.uint8),
        np.array([0, 2, 1, 1, 0]),
        torch.device("cpu"),
    )
    recipe = Recipe(momentum=0.9, weight_decay=0.01)
    steps = SingleSteps(base, 0.02, recipe)
    steps.learn(shown, np.array([3, 0, 4]))
    model = base.eval()
    speed = {name: None for name, _ in model.named_parameters()}
    for place in (3, 0, 4):
        model.zero_grad()
        picture = normalised(shown.pixels[[place]], shown.mean, shown.scale)
        nn.functional.cross_entropy(model(picture), shown.slots[[place]]).backward()
        with torch.no_grad():
            for name, p in model.named_parameters():
                gradient = p.grad + (0.01 * p if p.ndim > 1 else 0.0)
                old = speed[name]
                speed[name] = gradient.clone() if old is None else 0.9 * old + gradient
                p -= 0.02 * (gradient + 0.9 * speed[name])
    for (name, ours), theirs in zip(
        steps.classifier.named_parameters(), model.parameters(), strict=True
    ):
        assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-6), name
    assert torch.equal(
        steps.classifier.network[1].running_mean, torch.zeros(4)
    )  # a batch of one says nothing about them
