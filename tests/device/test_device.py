"""Transformers over numpy, torch, CuPy and a strict array API."""

import numpy as np
import pytest

from everlearn import (
    ClassWhitening,
    InitialWhitening,
    NearestClassMean,
    PowerNormalizer,
    RandomFeatures,
    StreamingPCA,
    StreamPipeline,
)
from everlearn.arrays import as_numpy
from everlearn.errors import NotFinite, WrongWidth

TRANSFORMERS = {
    "whitening": InitialWhitening(),
    "class whitening": ClassWhitening(),
    "power": PowerNormalizer(),
    "power 0.3": PowerNormalizer(power=0.3, unit_length=False),
    "relu": RandomFeatures(n_components=300),
    "fourier": RandomFeatures(n_components=300, kind="fourier", gamma=0.01),
    "PCA": StreamingPCA(n_components=3),
}


@pytest.fixture(params=TRANSFORMERS)
def transformer(request):
    kind = TRANSFORMERS[request.param]
    return type(kind)(**kind.get_params())


def test_outputs_are_on_the_device_of_the_input(kind, transformer, examples):
    X, y = examples
    host = type(transformer)(**transformer.get_params()).fit(X, y)
    rows = kind.make(X)
    out = transformer.fit(rows, y).transform(rows)
    assert type(out) is type(rows)
    expected = host.transform(X)
    assert np.abs(as_numpy(out) - expected).max() <= 1e-9 * np.abs(expected).max()
    one = transformer.transform(kind.make(X[:1]))
    assert np.abs(as_numpy(one) - expected[:1]).max() <= 1e-9 * np.abs(expected).max()
    assert np.abs(transformer.transform(X) - expected).max() <= 1e-9 * np.abs(expected).max()


def test_bad_rows_raise_a_named_error(kind, transformer, examples):
    X, y = examples
    transformer.fit(kind.make(X), y)
    bad = X.copy()
    bad[3, 3] = np.inf
    with pytest.raises(NotFinite):
        transformer.transform(kind.make(bad))
    with pytest.raises(WrongWidth):
        transformer.transform(kind.make(X[:, :4]))


def test_images_are_reconstructed_on_the_device_of_their_coefficients(kind, examples):
    X, _ = examples
    pca = StreamingPCA(n_components=3).fit(X)
    there = kind.make(X)
    again = pca.inverse_transform(pca.transform(there))
    np.testing.assert_allclose(as_numpy(again), pca.inverse_transform(pca.transform(X)), rtol=1e-9)
    errors = pca.reconstruction_error(there)
    assert type(errors) is type(there)
    np.testing.assert_allclose(as_numpy(errors), pca.reconstruction_error(X), rtol=1e-7)


def test_a_pipeline_with_a_learning_transformer_accepts_rows_on_any_device(kind, examples):
    X, y = examples

    def chain():
        return StreamPipeline([("whiten", InitialWhitening()), ("learn", NearestClassMean())])

    host, there = chain().fit(X, y), chain().fit(kind.make(X), y)
    rows = kind.make(X)
    assert there.predict(rows).tolist() == host.predict(X).tolist()
    np.testing.assert_allclose(
        as_numpy(there.decision_function(rows)), host.decision_function(X), rtol=1e-9, atol=1e-9
    )
    assert there.learn_one(rows[0, :], "melon").predict_one(rows[0, :]) == "melon"
