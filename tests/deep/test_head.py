"""A learner as the last layer of a network: the same answers, gradients through it, one file."""

import copy
import io

import numpy as np
import pytest

pytest.importorskip("torch", reason="everlearn.deep needs torch: pip install 'everlearn[torch]'")

import torch

from everlearn import NCMForest, NearestClassMean, RecursiveRLSC, StreamingLDA
from everlearn.deep.head import LearnerHead
from everlearn.errors import NotExportable

LINEAR = [NearestClassMean, StreamingLDA, RecursiveRLSC]


@pytest.fixture
def features():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(60, 6, generator=generator, dtype=torch.float64)


LABELS = np.array(["cup", "pen", "key"] * 20)


@pytest.mark.parametrize("kind", LINEAR)
def test_it_answers_like_its_learner(features, kind):
    head = LearnerHead(kind()).double()
    head.learn(features[:30], LABELS[:30])
    for part in (slice(30, 45), slice(45, 60)):  # W is read anew after each teaching
        head.learn(features[part], LABELS[part])
        expected = kind().fit(features[: part.stop].numpy(), LABELS[: part.stop])
        shares = torch.softmax(head(features), dim=1)
        np.testing.assert_allclose(shares, expected.predict_proba(features.numpy()), atol=1e-9)
        assert head.predict(features).tolist() == expected.predict(features.numpy()).tolist()


def test_new_classes_may_come_at_any_time_and_integers_are_labels(features):
    head = LearnerHead(StreamingLDA()).learn(features[:20].float(), torch.arange(20) % 2)
    assert head(features.float()).shape == (60, 2)
    head.learn(features[20:21].float() + 9, torch.tensor([7]))
    assert head.predict(features[20:21].float() + 9).tolist() == [7]
    assert list(head.parameters()) == []


def test_gradients_flow_to_the_layers_before(features):
    layer = torch.nn.Linear(6, 4).double()
    with torch.no_grad():
        head = LearnerHead(RecursiveRLSC()).double().learn(layer(features), LABELS)
    wanted = torch.from_numpy(np.searchsorted(head.classes_, LABELS))
    torch.nn.functional.cross_entropy(head(layer(features)), wanted).backward()
    # The same by a difference quotient, at one weight.
    step, losses = 1e-6, []
    for change in (step, -step):
        moved = copy.deepcopy(layer)
        with torch.no_grad():
            moved.weight[0, 0] += change
            losses.append(torch.nn.functional.cross_entropy(head(moved(features)), wanted))
    quotient = float(losses[0] - losses[1]) / (2 * step)
    assert float(layer.weight.grad[0, 0]) == pytest.approx(quotient, rel=1e-5)


def test_state_dict_contains_the_learner(features):
    network = torch.nn.Sequential(torch.nn.Linear(6, 6), LearnerHead(StreamingLDA())).double()
    with torch.no_grad():
        network[1].learn(network[0](features), LABELS)
        expected = network(features)
    file = io.BytesIO()
    torch.save(network.state_dict(), file)
    file.seek(0)
    other = torch.nn.Sequential(torch.nn.Linear(6, 6), LearnerHead(NearestClassMean())).double()
    other.load_state_dict(torch.load(file, weights_only=True))
    with torch.no_grad():
        np.testing.assert_allclose(other(features), expected, atol=1e-12)
        np.testing.assert_allclose(copy.deepcopy(network)(features), expected, atol=1e-12)
    assert repr(other[1]) == "LearnerHead(StreamingLDA())"


def test_half_precision_works_and_nonlinear_learners_are_refused(features):
    half = features.to(torch.bfloat16)
    head = LearnerHead(NearestClassMean()).learn(half, LABELS)
    assert head(half).dtype == torch.bfloat16
    with pytest.raises(NotExportable, match="not a linear function"):
        LearnerHead(NCMForest(n_estimators=2)).learn(features, LABELS)(features)
