"""Model files with a valid digest and wrong contents raise a named error.

The long run is ``attacks/forged_models.py``.
"""

import json

import numpy as np
import pytest

from attacks.forged_models import attack, examples, forge, makers, original, write
from everlearn import load
from everlearn.errors import DamagedModel

ELSEWHERE = ("NCMForest", "SVMForest")  # tested where the forests are, which compile for long


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [kind for kind in makers() if kind not in ELSEWHERE])
def test_forged_files_raise_only_named_errors(kind, tmp_path):
    source, (X, y) = original(kind), examples(kind)
    outcomes = []
    with np.errstate(all="ignore"):
        for number in range(30):
            write(tmp_path / "model", *forge(np.random.default_rng([number, 1]), *source))
            outcomes.append(attack(tmp_path / "model", X, y))
    assert "refused" in outcomes


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("means", np.full((4, 5), np.nan)),
        ("counts", np.array([1.0, -1.0, 1.0, 1.0])),
        ("scatter", np.full((5, 5), np.inf)),
        ("scatter", np.zeros((5, 4))),
        ("counts", np.array([1, 0, 1, 1], dtype=bool)),
    ],
)
def test_the_error_names_the_field(field, value, tmp_path):
    description, arrays = original("StreamingLDA")
    write(tmp_path / "model", description, arrays | {field: value})
    with pytest.raises(DamagedModel, match=field):
        load(tmp_path / "model")


@pytest.mark.parametrize(
    ("name", "value"), [("shrinkage", 7.0), ("shrinkage", []), ("class_scatter", 10**400)]
)
def test_the_error_names_the_parameter(name, value, tmp_path):
    description, arrays = original("StreamingLDA")
    description["parameters"][name] = value
    write(tmp_path / "model", description, arrays)
    with pytest.raises(DamagedModel, match=name):
        load(tmp_path / "model")


def test_a_deeply_nested_description_is_refused(tmp_path):
    description, arrays = original("NearestClassMean")
    description["notes"]["labels"] = "here"
    endless = json.dumps(description).replace('"here"', "[" * 100_000 + "]" * 100_000)
    write(tmp_path / "model", endless, arrays)
    with pytest.raises(DamagedModel):
        load(tmp_path / "model")
