"""StreamPipeline against the same steps taught by hand."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_estimator

import everlearn
from everlearn import (
    NearestClassMean,
    RobustStreamingPCA,
    StreamingLDA,
    StreamingPCA,
    StreamingScaler,
    StreamPipeline,
    check_learner,
)
from everlearn.errors import (
    CannotSave,
    InvalidInput,
    InvalidLabel,
    InvalidParameter,
    NotForgettable,
    NotMergeable,
    WrongWidth,
)


def blobs(rng, n_classes=4, n_features=30, n_each=25):
    centres = 6 * rng.normal(size=(n_classes, n_features))
    y = rng.permutation(np.repeat(np.arange(n_classes), n_each))
    return centres[y] + rng.normal(size=(len(y), n_features)), np.array(["a", "b", "c", "d"])[y]


def chain(**words):
    steps = [
        ("eigenspace", StreamingPCA(n_components=5, axes="steady")),
        ("learner", NearestClassMean()),
    ]
    return StreamPipeline(steps, **words)


def test_fit_equals_training_the_steps_in_sequence(rng):
    X, y = blobs(rng)
    pipeline = chain().fit(X, y)
    eigenspace = StreamingPCA(n_components=5, axes="steady").fit(X)
    learner = NearestClassMean().fit(eigenspace.transform(X), y)
    assert np.array_equal(pipeline.predict_proba(X), learner.predict_proba(eigenspace.transform(X)))
    assert list(pipeline.classes_) == ["a", "b", "c", "d"]
    assert pipeline.n_features_in_ == 30


def test_a_stream_with_classes_one_after_the_other_is_learned(rng):
    X, y = blobs(rng)
    order = np.argsort(y, kind="stable")
    pipeline = chain()
    for i in order:
        pipeline.learn_one(X[i], y[i])
    assert pipeline.n_seen_ == 100
    assert pipeline.score(X, y) > 0.95
    assert [pipeline.predict_one(x) for x in X] == list(pipeline.predict(X))


def test_principal_axes_move_under_the_learner_and_steady_ones_do_not(rng):
    """Why ``axes="steady"`` exists: brightness order of the classes turns the components."""
    X, y = blobs(rng, n_features=8)
    order = np.argsort(y, kind="stable")
    scores = {}
    for axes in ("principal", "steady"):
        pipeline = chain().set_params(eigenspace__axes=axes, eigenspace__n_components=8)
        for i in order:
            pipeline.learn_one(X[i], y[i])
        scores[axes] = pipeline.score(X, y)
    raw = NearestClassMean().fit(X, y).score(X, y)
    assert scores["steady"] == raw
    assert scores["principal"] < raw


def test_frozen_transformers_learn_from_the_first_examples_alone(rng):
    X, y = blobs(rng)
    frozen = chain(freeze_after=40)
    for start in range(0, 100, 30):  # the second block straddles the limit
        frozen.partial_fit(X[start : start + 30], y[start : start + 30])
    frozen.learn_one(X[0], y[0])
    first = StreamingPCA(n_components=5, axes="steady").fit(X[:40])
    assert frozen.named_steps["eigenspace"].n_samples_seen_ == 40
    np.testing.assert_allclose(
        frozen.named_steps["eigenspace"].components_, first.components_, atol=1e-9
    )
    assert frozen.n_seen_ == 101


def test_weights_reach_every_step_that_accepts_them(rng):
    X, y = blobs(rng)
    weights = rng.integers(0, 3, size=100).astype(float)
    weighted = chain().fit(X, y, sample_weight=weights)
    eigenspace = StreamingPCA(n_components=5, axes="steady").fit(X, sample_weight=weights)
    np.testing.assert_array_equal(
        weighted.named_steps["eigenspace"].components_, eigenspace.components_
    )
    learner = NearestClassMean().fit(eigenspace.transform(X), y, sample_weight=weights)
    np.testing.assert_array_equal(weighted.named_steps["learner"].centroids_, learner.centroids_)


def test_steps_of_scikit_learn_work_too(rng):
    X, y = blobs(rng)
    pipeline = StreamPipeline([("scale", StandardScaler()), ("svm", SGDClassifier(random_state=0))])
    pipeline.partial_fit(X, y, classes=np.unique(y))
    pipeline.learn_one(X[0], y[0])
    assert pipeline.score(X, y) > 0.9
    assert pipeline.predict_one(X[3]) == pipeline.predict(X[3:4])[0]
    assert not hasattr(pipeline, "predict_proba")
    assert hasattr(pipeline, "decision_function")
    assert not hasattr(make_pipeline(StandardScaler(), SGDClassifier()), "partial_fit")


def test_robust_eigenspace_in_front_of_a_learner(rng):
    X, y = blobs(rng)
    pipeline = StreamPipeline(
        [("eigenspace", RobustStreamingPCA(n_components=4)), ("learner", StreamingLDA())]
    ).fit(X, y)
    spoiled = X.copy()
    spoiled[:, 3] = np.nan
    assert pipeline.score(spoiled, y) > 0.95


@pytest.mark.parametrize("labels", [[None] * 3, [1, 2, 3], ["a", "b"]])
def test_a_refused_batch_leaves_every_step_as_it_was(rng, labels):
    X, y = blobs(rng)
    pipeline = chain().fit(X, y)
    before = pipeline.predict_proba(X)
    with pytest.raises(InvalidInput):
        pipeline.partial_fit(X[:3], labels)
    with pytest.raises(InvalidLabel):
        pipeline.learn_one(X[0], 1)
    with pytest.raises(WrongWidth):
        pipeline.learn_one(X[0, :5], "a")
    assert pipeline.n_seen_ == 100
    assert pipeline.named_steps["eigenspace"].n_samples_seen_ == 100
    assert np.array_equal(pipeline.predict_proba(X), before)


def test_inexact_operations_are_refused(rng):
    X, y = blobs(rng)
    pipeline = chain().fit(X, y)
    with pytest.raises(NotForgettable, match="fit it again"):
        pipeline.forget(X[:1], y[:1])
    with pytest.raises(NotForgettable, match="fit it again"):
        pipeline.forget_class("a")
    with pytest.raises(NotMergeable, match="axes"):
        pipeline.merge(chain().fit(X, y))


@pytest.mark.parametrize(
    ("pipeline", "complaint"),
    [
        (StreamPipeline([]), "at least a learner"),
        (StreamPipeline([("pca", StreamingPCA())]), "should be a learner"),
        (StreamPipeline([("ncm", NearestClassMean()), ("b", NearestClassMean())]), "no transform"),
        (StreamPipeline([("ncm", NearestClassMean())], freeze_after=0), "freeze_after"),
    ],
)
def test_invalid_steps_are_refused(rng, pipeline, complaint):
    X, y = blobs(rng)
    with pytest.raises(InvalidParameter, match=complaint):
        pipeline.fit(X, y)
    with pytest.raises(NotFittedError):
        pipeline.predict(X)


def test_a_loaded_one_continues_identically(rng, tmp_path):
    X, y = blobs(rng)
    pipeline = chain(freeze_after=50).fit(X[:40], y[:40])
    everlearn.save(pipeline, tmp_path / "pipeline")
    loaded = everlearn.load(tmp_path / "pipeline")
    for learner in (pipeline, loaded):
        learner.partial_fit(X[40:], y[40:])
    assert np.array_equal(loaded.predict_proba(X), pipeline.predict_proba(X))
    assert (loaded.n_seen_, loaded.freeze_after) == (100, 50)
    everlearn.save(chain(), tmp_path / "untaught")
    assert not hasattr(everlearn.load(tmp_path / "untaught"), "classes_")


def test_foreign_steps_cannot_be_saved(rng, tmp_path):
    pipeline = StreamPipeline([("scale", StandardScaler()), ("learner", NearestClassMean())])
    with pytest.raises(CannotSave, match=r"a StandardScaler, .* everlearn\.StreamingScaler does"):
        everlearn.save(pipeline.fit(*blobs(rng)), tmp_path / "pipeline")


def test_a_pipeline_with_our_scaler_is_the_one_with_scikit_learns_and_can_be_saved(rng, tmp_path):
    X, y = blobs(rng)
    ours, theirs = (
        StreamPipeline([("scale", scaler), ("learner", NearestClassMean())], freeze_after=50)
        for scaler in (StreamingScaler(), StandardScaler())
    )
    for part in np.array_split(np.arange(len(X)), 7):
        for pipeline in (ours, theirs):
            pipeline.partial_fit(X[part], y[part])
    scores = theirs.decision_function(X)
    np.testing.assert_allclose(ours.decision_function(X), scores, rtol=1e-9, atol=1e-9)
    everlearn.save(ours, tmp_path / "pipeline")
    loaded = everlearn.load(tmp_path / "pipeline")
    np.testing.assert_array_equal(loaded.decision_function(X), ours.decision_function(X))


PIPELINES = [
    chain(),
    StreamPipeline([("only", StreamingLDA())]),
    StreamPipeline(
        [
            ("scale", StandardScaler()),
            ("eigenspace", StreamingPCA(axes="steady")),
            ("learner", StreamingLDA()),
        ],
        freeze_after=40,
    ),
]


@pytest.mark.parametrize("pipeline", PIPELINES, ids=["chain", "one step", "three steps"])
def test_contract_of_a_learner(pipeline):
    check_learner(pipeline)


@pytest.mark.parametrize("pipeline", PIPELINES[1:], ids=["one step", "three steps"])
def test_contract_of_scikit_learn(pipeline):
    results = check_estimator(pipeline, on_fail=None, on_skip=None)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    if not get_tags(pipeline).input_tags.sparse:
        # Before 1.7 scikit-learn asks for sparse rows of estimators that say they take none.
        failed.pop("check_sample_weight_equivalence_on_sparse_data", None)
    assert failed == {}
