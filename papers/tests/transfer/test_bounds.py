import numpy as np
from everlearn_papers.transfer.bounds import (
    augmented_bound,
    hinge_losses,
    online_transfer_bound,
    passive_aggressive_bound,
    square_losses,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from everlearn import OnlineTransfer, PassiveAggressive, TROLPlus

SEEDS = st.integers(0, 100_000)
NOISE = st.sampled_from([0.0, 0.1, 0.5])
CS = st.sampled_from([0.1, 1.0, 5.0])


def stream(seed, noise, n=60, d=5):
    """Examples in the unit ball, labelled by a hidden direction; some labels are wrong."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    hidden = rng.normal(size=d)
    signs = np.where(X @ hidden > 0, 1, -1)
    signs[rng.random(n) < noise] *= -1
    return X, signs, hidden, rng


def hypotheses(rng, hidden, *more):
    """Several u; the bound must hold for each."""
    yield from more
    for size in (0.0, 0.5, 3.0, 20.0):
        yield size * hidden
    yield from rng.normal(size=(3, len(hidden)))


@settings(max_examples=60, deadline=None)
@given(SEEDS, NOISE, CS)
def test_passive_aggressive_never_breaks_its_bound(seed, noise, C):
    X, signs, hidden, rng = stream(seed, noise)
    first = rng.normal(size=5) * rng.choice([0.0, 1.0, 5.0])
    learner = PassiveAggressive(C=C, start=first, fit_intercept=False, positive=1).fit(X, signs)
    for u in hypotheses(rng, hidden, first):
        bound = passive_aggressive_bound(np.linalg.norm(u - first), hinge_losses(X @ u, signs), C=C)
        assert learner.mistakes_ <= bound + 1e-9


@settings(max_examples=60, deadline=None)
@given(SEEDS, NOISE, CS, st.floats(0.2, 30.0))
def test_the_bound_holds_at_any_radius(seed, noise, C, radius):
    X, signs, hidden, rng = stream(seed, noise)
    learner = PassiveAggressive(C=C, fit_intercept=False).fit(radius * X, signs)
    for u in hypotheses(rng, hidden):
        losses = hinge_losses(radius * X @ u, signs)
        bound = passive_aggressive_bound(np.linalg.norm(u), losses, C=C, radius=radius)
        assert learner.mistakes_ <= bound + 1e-9


@settings(max_examples=40, deadline=None)
@given(SEEDS, NOISE, CS, st.integers(1, 4))
def test_augmented_learning_never_breaks_its_bound(seed, noise, C, k):
    X, signs, hidden, rng = stream(seed, noise)
    priors = rng.normal(size=(k, 5))
    learner = TROLPlus(
        prior_models=priors,
        sources="each",
        positive=1,
        online=PassiveAggressive(C=C, fit_intercept=False),
    )
    learner.fit(X, signs)
    augmented = np.hstack([X, np.clip(X @ priors.T, -1, 1) / np.sqrt(k)])
    first = np.append(np.zeros(5), np.full(k, 1 / np.sqrt(k)))
    for u in hypotheses(rng, np.append(hidden, np.zeros(k)), first):
        losses = hinge_losses(augmented @ u, signs)
        # Scaled by 1/√k, the extra features of one example are no longer than one feature is.
        tight = augmented_bound(np.linalg.norm(u - first), losses, C=C)
        published = augmented_bound(np.linalg.norm(u - first), losses, C=C, n_knowledge=k)
        assert learner.mistakes_ <= tight + 1e-9
        assert tight <= published + 1e-9


@settings(max_examples=60, deadline=None)
@given(SEEDS, NOISE, st.floats(0.0, 5.0))
def test_online_transfer_never_breaks_its_bound(seed, noise, trust):
    X, signs, hidden, rng = stream(seed, noise)
    source = trust * (hidden + rng.normal(size=5))
    own = PassiveAggressive(fit_intercept=False, positive=1)
    own_margins = []
    for x, sign in zip(X, signs, strict=True):
        own_margins.append(own.margin(x[None])[0] if hasattr(own, "registry_") else 0.0)
        own.learn_one(x, sign)
    learner = OnlineTransfer(
        prior_models=[source], positive=1, online=PassiveAggressive(fit_intercept=False)
    ).fit(X, signs)
    assert learner.mistakes_ <= online_transfer_bound(X @ source, own_margins, signs) + 1e-9


def test_losses_of_the_paper():
    np.testing.assert_allclose(hinge_losses([2.0, 0.5, -1.0], [1, 1, 1]), [0.0, 0.5, 2.0])
    np.testing.assert_allclose(square_losses([2.0, 0.0, -5.0], [1, 1, 1]), [0.0, 0.25, 1.0])
