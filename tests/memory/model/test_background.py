"""The background vectors included in everlearn: where they apply, and how the file was made.

The background of taught pictures is compared with its definition in tests/memory/test_finding.py.
"""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

from everlearn.errors import DamagedModel
from everlearn.images.by_name import embedder_for
from everlearn.images.embedders import WEIGHTS, Pixels
from everlearn.memory.model import background
from everlearn.memory.model.background import Background, included_background
from everlearn.regions import region_embedder
from tests.memory.test_finding import SquareFinder, SquareProposer, memory_in, scene, square

SCRIPT = Path(__file__).parents[3] / "scripts" / "background_set.py"


@pytest.fixture
def memory(tmp_path, monkeypatch):
    monkeypatch.setattr(region_embedder, "Proposer", SquareProposer)
    monkeypatch.setattr(region_embedder, "MainThing", SquareFinder)
    own = np.random.default_rng(0).random((32, 108)).astype(np.float32)
    ours = Pixels(size=6, colour=True).name
    included = {ours: own}
    monkeypatch.setattr(background, "included_background", included.get)
    with memory_in(tmp_path / "memory") as opened:
        yield opened


def counted(memory, embedder: str) -> int:
    known = Background(108, 0.5, embedder)
    return memory._opened.read(lambda: known.follow(memory._opened.journal)).count


def test_the_included_background_applies_only_to_its_embedder(memory) -> None:
    assert counted(memory, memory.embedder.name) == 0
    memory.teach(scene(1, ("red", 40, 0)), "red", box=square(40, 0))
    learned = counted(memory, "another network")
    assert learned > 0
    assert counted(memory, memory.embedder.name) == learned + 32
    memory.forget(name="red")
    assert counted(memory, memory.embedder.name) == 0


@pytest.mark.parametrize("word", ["basic", "fast", "balanced", "best"])
def test_the_script_makes_the_file_from_the_photographs(word) -> None:
    pytest.importorskip("onnxruntime", reason="the vectors are those of a network")
    if word != "basic":
        pytest.importorskip("everlearn_networks", reason="everlearn-networks is not installed")
    embedder = embedder_for(word)
    made = runpy.run_path(str(SCRIPT))["vectors_of"](embedder)
    kept = included_background(embedder.name)
    assert kept is not None
    # The file is in half precision, and processors differ in the last bits.
    assert np.allclose(kept, made.astype(np.float32), atol=5e-3)
    assert included_background("another network") is None


def test_an_altered_file_is_refused(tmp_path, monkeypatch) -> None:
    about = json.loads((WEIGHTS / "background.json").read_text())
    (tmp_path / "background.json").write_text(json.dumps(about))
    (tmp_path / about["file"]).write_bytes(b"something else")
    monkeypatch.setattr(background, "WEIGHTS", tmp_path)
    included_background.cache_clear()
    with pytest.raises(DamagedModel, match="install everlearn again"):
        included_background(next(iter(about["arrays"])))
    included_background.cache_clear()
