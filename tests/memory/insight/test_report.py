"""What a report says about rare names."""

import numpy as np
import pytest

from everlearn import Memory


def taught(folder, apart):
    """Four names of sixty examples, and two of five, which can be close to the first two."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(6, 16))
    if not apart:
        centres[4:] = centres[:2] + 0.05
    memory = Memory(folder)
    for k in range(6):
        count = 60 if k < 4 else 5
        X = centres[k] + 0.3 * rng.normal(size=(count, 16))
        memory.teach_many((x, f"name {k}") for x in X.astype(np.float32))
    return memory


@pytest.mark.parametrize("apart", [True, False])
def test_unrecognised_rare_names_are_reported(tmp_path, apart):
    with taught(tmp_path / "m", apart) as memory:
        report = memory.report()
    assert report.rare == ["name 4", "name 5"]
    said = " ".join(report.about_rare_names())
    if apart:
        assert said == ""
    else:
        assert "name 4, name 5" in said
        assert "compare-classifiers" in said
        assert said in str(report)


def test_equally_taught_names_are_not_rare(tmp_path, clusters):
    X, names = clusters(n_classes=3, each=4)
    with Memory(tmp_path / "m") as memory:
        memory.teach_many(zip(X, names, strict=True))
        assert memory.report().rare == []
