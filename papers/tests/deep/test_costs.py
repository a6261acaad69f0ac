"""Times are of the settings that the search chose, and of learners that learned the same."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the rivals need torch: pip install 'everlearn[torch]'")

from everlearn_papers.deep import costs
from everlearn_papers.deep.cifar import Scale
from everlearn_papers.deep.incremental import Pictured
from everlearn_papers.deep.tables import best_rate

SCALE = Scale(n_classes=6, base=2, step=2)
RESULTS = Path(__file__).parents[3] / "docs" / "papers" / "deep" / "results.json"


class Flat:
    """Pixels as they are, in place of a network."""

    def embed(self, pixels):
        return pixels.reshape(len(pixels), -1).astype(np.float32)


def test_one_at_a_time_learns_what_a_batch_learns(monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    slots = np.repeat(np.arange(6), 30)
    pixels = rng.integers(0, 256, (180, 2, 2, 3)) // 4 + 30 * slots[:, None, None, None]
    parts = Pictured(pixels.astype(np.uint8), slots)
    monkeypatch.setattr(costs, "pictures", lambda scale: (parts, parts))
    monkeypatch.setattr(costs, "base_embedder", lambda scale, folder: Flat())
    batch = costs.cost(SCALE, tmp_path, "SLDA (plastic)")
    single = costs.cost(SCALE, tmp_path, "SLDA (plastic), one at a time")
    assert batch["accuracy"] == single["accuracy"] > 0.8
    assert len(batch["seconds"]) == len(single["seconds"]) == 2  # two tasks after the base
    assert batch["embedding seconds"] < sum(batch["seconds"])


def test_times_are_of_the_settings_that_the_search_chose():
    found = json.loads(RESULTS.read_text("utf-8"))["found"]
    for name, settings in costs.RIVALS.items():
        choice = found[f"rival:{name}"]["choice"]
        assert settings == (choice["learning_rate"], choice["regularization"])
    assert best_rate(found, "ExStream")["rates"] == [costs.EXSTREAM_RATE]
