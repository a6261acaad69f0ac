"""The mathematics of the rivals against independent computations."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="the rivals need torch: pip install 'everlearn[torch]'")

import torch
from everlearn_papers.deep.agem import AGEM, projected
from everlearn_papers.deep.ewc import EWC
from everlearn_papers.deep.exemplars import Exemplars, herded
from everlearn_papers.deep.icarl import ICaRL
from everlearn_papers.deep.importance import Anchored
from everlearn_papers.deep.incremental import Course, run, tasks_of
from everlearn_papers.deep.mas import MAS
from everlearn_papers.deep.rival import Rows, grow
from everlearn_papers.deep.rwalk import DAMPING, SHARE, STEPS, OnlineEWC, RiemannianWalk
from everlearn_papers.deep.search import Choice, chosen
from everlearn_papers.deep.si import SynapticIntelligence
from torch import nn

from everlearn.deep.descent import Classifier, Recipe
from everlearn.errors import NotFinite

RECIPE = Recipe(epochs=2, batch_size=8, learning_rate=0.05, label_smoothing=0.0)


def blobs(n=16, n_classes=4, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(0, 3, (n_classes, 5))
    y = np.repeat(np.arange(n_classes), n)
    X = centres[y] + rng.normal(size=(len(y), 5)) + shift
    return Rows(torch.as_tensor(X, dtype=torch.float32), torch.as_tensor(y))


def classifier(n_classes=4, seed=0):
    torch.manual_seed(seed)
    return Classifier(nn.Sequential(nn.Linear(5, 6), nn.Tanh()), 6, n_classes)


def of(rows, classes):
    chosen_rows = torch.isin(rows.slots, torch.as_tensor(classes))
    return Rows(rows.pixels[chosen_rows], rows.slots[chosen_rows])


def gradients_one_by_one(model, rows, objective):
    """Gradients of one example after the other, by plain autograd."""
    found = []
    for x, y in zip(rows.pixels, rows.slots, strict=True):
        model.zero_grad()
        objective(model(x[None])[0], y).backward()
        found.append({name: p.grad.clone() for name, p in model.named_parameters()})
    return found


def test_fisher_is_the_mean_of_squared_gradients_of_single_examples():
    rows, model = blobs(), classifier()
    rival = EWC(model, RECIPE, labels="true")
    rival._open_task(rows, range(4))
    fisher = rival.fisher(rows)
    each = gradients_one_by_one(model, rows, lambda s, y: torch.log_softmax(s, 0)[y])
    for name, value in fisher.items():
        expected = torch.stack([g[name].square() for g in each]).mean(0)
        assert torch.allclose(value, expected, rtol=1e-4, atol=1e-7), name


def test_fisher_with_sampled_labels_is_the_curvature_of_the_model():
    """Its expectation over the model's own labels, for the bias: mean of p − p² (exactly)."""
    rows, model = blobs(n=2000), classifier()
    rival = EWC(model, RECIPE)
    rival._open_task(rows, range(4))
    fisher = rival.fisher(rows)["output.bias"]
    chosen_rows = rows.pixels
    shares = model(chosen_rows).softmax(1).detach()
    assert torch.allclose(fisher, (shares - shares.square()).mean(0), atol=0.03)


def test_sensitivity_is_the_mean_absolute_gradient_of_the_squared_norm():
    rows, model = blobs(), classifier()
    rival = MAS(model, RECIPE)
    found = rival.sensitivity(rows)
    each = gradients_one_by_one(model, rows, lambda s, y: s.square().sum())
    for name, value in found.items():
        expected = torch.stack([g[name].abs() for g in each]).mean(0)
        assert torch.allclose(value, expected, rtol=1e-4, atol=1e-6), name


def test_two_numbers_per_weight_represent_the_penalties_of_all_tasks():
    """EWC's force equals autograd's gradient of the sum of penalties, one anchor per task."""
    rival = EWC(classifier(), RECIPE, regularization=3.0)
    anchors = []
    for seed in range(3):
        torch.manual_seed(seed)
        for parameter in rival.classifier.parameters():
            parameter.data.normal_()
        weights = {n: p.detach().clone() for n, p in rival.classifier.named_parameters()}
        omega = {n: torch.rand_like(p) for n, p in weights.items()}
        rival.anchor(omega)
        anchors.append((omega, weights))
    for parameter in rival.classifier.parameters():
        parameter.data.normal_()
        parameter.grad = torch.zeros_like(parameter)
    named = dict(rival.classifier.named_parameters())
    penalty = sum(
        1.5 * (omega[n] * (p - weights[n]).square()).sum()
        for omega, weights in anchors
        for n, p in named.items()
    )
    expected = torch.autograd.grad(penalty, list(named.values()))
    rival.change_gradients()
    for parameter, gradient in zip(named.values(), expected, strict=True):
        assert torch.allclose(parameter.grad, gradient, rtol=1e-4, atol=1e-4)


def test_importances_grow_with_the_output_layer():
    rival = Anchored(classifier(2), RECIPE, regularization=1.0)
    rival.anchor({n: torch.ones_like(p) for n, p in rival.classifier.named_parameters()})
    grow(rival.classifier, 5, seed=0)
    rows = blobs()
    nn.functional.cross_entropy(rival.classifier(rows.pixels), rows.slots).backward()
    before = rival.classifier.output.weight.grad.clone()
    rival.change_gradients()
    # Old rows are where they were anchored, new ones have no anchor: no force on either.
    assert torch.allclose(rival.classifier.output.weight.grad, before, atol=1e-6)


def test_path_integral_is_the_fall_of_the_loss():
    """Along small steps of plain descent, − Σ g Δθ over all weights is the loss that was lost."""
    rows = blobs(n=8)
    whole = Recipe(epochs=300, batch_size=32, learning_rate=0.003, label_smoothing=0.0)
    rival = SynapticIntelligence(
        classifier(), whole, optimiser=lambda p, lr: torch.optim.SGD(p, lr=lr)
    )

    @torch.no_grad()
    def loss():
        return float(nn.functional.cross_entropy(rival.classifier(rows.pixels), rows.slots))

    before = loss()
    paths = []
    end_task = rival.end_task
    rival.end_task = lambda task: (paths.append(rival.path), end_task(task))
    rival.learn(rows, range(4))
    walked = sum(float(path.sum()) for path in paths[0].values())
    assert walked == pytest.approx(before - loss(), rel=0.02)


def test_riemannian_importance_lies_between_nothing_and_two_units():
    rows = blobs()
    rival = RiemannianWalk(classifier(), Recipe(epochs=10, batch_size=8, label_smoothing=0.0))
    rival.learn(rows, range(4))
    values = torch.cat([v.flatten() for v in rival.stiffness.values()])
    assert float(values.min()) >= 0.0
    assert float(values.max()) <= 4.0 + 1e-5
    assert float(values.max()) >= 2.0 - 1e-5, "the largest of either part is brought to one"


def test_the_projected_gradient_is_the_nearest_that_does_not_increase_the_reference_loss():
    """g̃ solves min ‖g̃ − g‖ subject to g̃ᵀ g_ref ≥ 0: feasible, and no nearer point is."""
    torch.manual_seed(0)
    for _ in range(20):
        g = [torch.randn(3, 2), torch.randn(4)]
        r = (torch.randn(3, 2), torch.randn(4))
        flat_g = torch.cat([t.flatten() for t in g])
        flat_r = torch.cat([t.flatten() for t in r])
        found = torch.cat([t.flatten() for t in projected(g, r)])
        if flat_g @ flat_r >= 0:
            assert torch.equal(found, flat_g)
            continue
        assert float(found @ flat_r) == pytest.approx(0.0, abs=1e-5)
        distance = float((found - flat_g).norm())
        assert distance == pytest.approx(float(-flat_g @ flat_r / flat_r.norm()), rel=1e-4)


def test_agem_keeps_a_fixed_number_per_class_and_scores_them_within_their_task():
    rows = blobs()
    rival = AGEM(classifier(), RECIPE, kept=3, outputs="task")
    rival.learn(of(rows, [0, 1]), [0, 1])
    rival.learn(of(rows, [2, 3]), [2, 3])
    assert torch.bincount(rival.slots).tolist() == [3, 3, 3, 3]
    scores = rival._among_own(torch.zeros(12, 4), torch.arange(12))
    for row, slot in zip(scores, rival.slots.tolist(), strict=True):
        own = {0, 1} if slot < 2 else {2, 3}
        assert {k for k in range(4) if torch.isfinite(row[k])} == own


def naive_herding(features, n):
    mean, picked = features.mean(0), []
    for k in range(1, n + 1):
        best = min(
            (i for i in range(len(features)) if i not in picked),
            key=lambda i: np.linalg.norm(mean - features[[*picked, i]].sum(0) / k),
        )
        picked.append(best)
    return picked


def test_herding_equals_a_naive_implementation():
    features = np.random.default_rng(0).normal(size=(30, 4))
    found = herded(torch.as_tensor(features), 12).tolist()
    assert found == naive_herding(features, 12)


def test_a_smaller_exemplar_set_is_a_prefix_of_a_larger_one():
    rows, store = blobs(), Exemplars()
    store.keep(of(rows, [0, 1]), of(rows, [0, 1]).pixels, 8)
    first = store.by_class[0].clone()
    store.keep(of(rows, [2]), of(rows, [2]).pixels, 3)
    assert torch.equal(store.by_class[0], first[:3])
    assert [len(store.by_class[k]) for k in range(3)] == [3, 3, 3]


def test_icarl_answers_with_the_nearest_mean_of_exemplars():
    rows = blobs()
    rival = ICaRL(classifier(2), RECIPE, regularization=1.0, kept=5)
    course = run(
        rival,
        [[0, 1], [2, 3]],
        lambda classes: of(rows, classes),
        lambda classes: of(blobs(seed=1), classes),
        begun=False,
    )
    asked = blobs(seed=2)
    with torch.no_grad():
        features = nn.functional.normalize(rival.classifier.features(asked.pixels))
        means = torch.stack(
            [
                nn.functional.normalize(rival.classifier.features(rival.exemplars.by_class[k]))
                .mean(0)
                .div(
                    nn.functional.normalize(rival.classifier.features(rival.exemplars.by_class[k]))
                    .mean(0)
                    .norm()
                )
                for k in range(4)
            ]
        )
    nearest = torch.cdist(features, means).argmin(1)
    assert torch.equal(rival.scores(asked).argmax(1), nearest)
    assert course.bytes_kept == 20 * 5 * 4
    assert course.accuracies[-1] > 0.6


@pytest.mark.parametrize(("make", "regularization"), [(EWC, 20.0), (MAS, 1.0)])
def test_important_weights_move_less_with_a_penalty(make, regularization):
    """Distance from the first task's weights after the second, each weighed by its importance."""
    first, second = blobs(n=40), blobs(n=40, shift=4.0)
    second = Rows(second.pixels, 3 - second.slots)
    recipe = Recipe(epochs=10, batch_size=16, learning_rate=0.05, label_smoothing=0.0)
    walked = []
    for c in (0.0, regularization):
        rival = make(classifier(), recipe, regularization=c)
        rival.learn(first, range(4))
        before = {n: p.detach().clone() for n, p in rival.classifier.named_parameters()}
        importance = dict(rival.stiffness)
        rival.learn(second, range(4))
        now = dict(rival.classifier.named_parameters())
        distance = sum((importance[n] * (now[n] - before[n]).square()).sum() for n in before)
        walked.append(float(distance.detach()))
    assert walked[1] < walked[0] / 3


def test_with_task_labels_answers_are_classes_of_the_task():
    course = Course()
    scores = torch.tensor([[0.0, 2.0, 9.0, 0.0], [0.0, 9.0, 1.0, 2.0]])
    course.ask(scores, torch.tensor([1, 3]), [[0, 1], [2, 3]])
    assert course.accuracies == [0.0]
    assert course.told == [1.0]
    assert course.top5 == [1.0]


def test_tasks_are_the_base_and_then_a_few_at_a_time():
    assert tasks_of(10, 5, 2) == [[0, 1, 2, 3, 4], [5, 6], [7, 8], [9]]


def test_search_takes_the_best_and_a_diverging_candidate_scores_zero():
    def attempt(rate, regularization):
        if rate == 10.0:
            raise NotFinite("ran away")
        return Course(accuracies=[1.0 - abs(rate - 0.1) - abs(regularization - 3.0)])

    choice = chosen(attempt, (0.01, 0.1, 10.0), (1.0, 2.0, 3.0))
    assert (choice.learning_rate, choice.regularization) == (0.1, 3.0)
    assert choice.tried["10 2"] == 0.0


def test_search_extends_the_grid_if_the_best_is_at_its_end():
    def attempt(rate, regularization):
        return Course(accuracies=[-abs(np.log10(rate) + 4) - abs(np.log10(regularization) - 2)])

    choice = chosen(attempt, (0.001, 0.01, 0.1), (1.0, 10.0))
    assert choice.learning_rate == pytest.approx(1e-4)
    assert choice.regularization == pytest.approx(100.0)


def test_candidates_are_sorted_by_score_with_the_chosen_first():
    choice = Choice(0.1, 2.0, {"0.1 1": 0.5, "0.1 2": 0.7, "1 2": 0.6})
    assert choice.in_order() == [(0.1, 2.0), (1.0, 2.0), (0.1, 1.0)]


def test_examples_measured_together_cancel_each_other_as_in_public_code():
    rows, model = blobs(n=5), classifier()
    rows = Rows(rows.pixels[:10], rows.slots[:10])
    found = MAS(model, RECIPE, together=10).sensitivity(rows)
    model.zero_grad()
    model(rows.pixels).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert torch.allclose(found[name], parameter.grad.abs() / 10, rtol=1e-4, atol=1e-6), name


@pytest.mark.parametrize("make", [OnlineEWC, RiemannianWalk])
def test_running_fisher_and_path_score_equal_a_naive_loop(make):
    """Plain descent on the same batches, with the recursions of the module written out."""
    rows, recipe = blobs(n=40), Recipe(epochs=1, batch_size=8, learning_rate=0.05)
    rival = make(classifier(), recipe, optimiser=lambda p, lr: torch.optim.SGD(p, lr=lr))
    rival.learn(rows, range(4))
    model = classifier()
    weight = model.output.weight
    fisher = torch.zeros_like(weight)
    squares, gain, score = fisher.clone(), fisher.clone(), fisher.clone()
    at = weight.detach().clone()
    for step, (x, y) in enumerate(rows.epoch(0, recipe), start=1):
        model.zero_grad()
        nn.functional.cross_entropy(model(x), y, label_smoothing=0.1).backward()
        before = weight.detach().clone()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.05 * parameter.grad
        squares += weight.grad.square()
        gain -= weight.grad * (weight.detach() - before)
        if step % STEPS == 0:
            walked = weight.detach() - at
            score += gain.clamp(min=0) / (fisher * walked.square() + DAMPING)
            fisher = (1 - SHARE) * fisher + SHARE / STEPS * squares
            if make is OnlineEWC:
                squares.zero_()
            gain.zero_()
            at = weight.detach().clone()
    assert torch.allclose(rival.fisher["output.weight"], fisher, rtol=1e-4, atol=1e-7)
    if make is RiemannianWalk:
        assert torch.allclose(rival.past_score["output.weight"], score, rtol=1e-3, atol=1e-5)
