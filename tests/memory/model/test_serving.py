"""Prepared answers: equal to those of the Memory, and never outdated."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from attacks.hostile_images import saved
from everlearn import Memory, NCMForest, RecursiveRLSC
from everlearn.memory.model.head import head_of
from everlearn.memory.model.serving import PREFIX, prepared_answers, read_head, write_head
from everlearn.memory.storage.sqlite.folder import FolderCaches, FolderStorage

CLASSES = 6


class OfPictures:
    """Features of a picture without a network."""

    name = "mean colours"
    n_features = 48
    at_least = None
    batch_size = 4
    threads = 1

    def prepare(self, picture):
        return np.asarray(picture.resize((4, 4)), dtype=np.float32).ravel() / 255 - 0.5

    def run(self, batch):
        return batch


@pytest.fixture
def files(tmp_path, rng):
    paths = []
    for thing in range(CLASSES):
        colours = rng.integers(0, 256, (4, 4, 3))
        for index in range(5):
            noisy = np.clip(colours + rng.integers(-30, 30, (4, 4, 3)), 0, 255).astype(np.uint8)
            paths.append((tmp_path / f"{thing}-{index}.png", f"thing {thing}"))
            paths[-1][0].write_bytes(saved(Image.fromarray(noisy).resize((32, 32)), "PNG"))
    return paths


@pytest.fixture(autouse=True)
def small_network(monkeypatch):
    monkeypatch.setattr("everlearn.memory.edits.intake.default_embedder", OfPictures)


@pytest.fixture
def taught(tmp_path, files):
    with Memory(tmp_path / "memory") as memory:
        memory.teach_many((path, name) for path, name in files if not path.stem.endswith("4"))
    return tmp_path / "memory"


def as_plain(answers):
    return [(a.name, a.probability) for a in answers], vars(answers)


def test_answers_are_those_of_the_memory_to_the_last_bit(taught, files):
    asked = [path for path, _ in files]
    prepared = prepared_answers(taught)
    assert prepared is not None
    with Memory(taught, read_only=True) as memory:
        for quick, slow in zip(prepared.ask_many(asked), memory.ask_many(asked), strict=True):
            assert as_plain(quick) == as_plain(slow)


@pytest.mark.parametrize(
    "change",
    [
        lambda memory: memory.teach(np.ones(48), "another"),
        lambda memory: memory.forget(name="thing 1"),
        lambda memory: memory.rename("thing 1", "thing 2"),
        lambda memory: memory.use(classifier=RecursiveRLSC(regularization=1.0)),
    ],
)
def test_prepared_answers_are_not_used_after_a_change(taught, change):
    memory = Memory(taught)
    change(memory)
    assert prepared_answers(taught) is None
    memory.close()
    assert prepared_answers(taught) is not None


def test_a_renamed_name_is_answered_immediately(taught, files):
    with Memory(taught) as memory:
        memory.rename("thing 1", "thing one")
        assert next(prepared_answers(taught).ask_many([files[5][0]]))[0].name == "thing one"


def test_an_erase_removes_prepared_answers(taught):
    memory = Memory(taught)
    memory.forget(name="thing 1", erase=True)
    assert not list(taught.glob(f"{PREFIX}*"))
    memory.close()
    assert prepared_answers(taught) is not None


def test_prepared_answers_are_not_used_with_ignored_unknowns(taught, files):
    with Memory(taught, accept=1e-6) as memory:
        memory.ask(files[4][0], remember=True)
        memory.ignore_unknowns(memory.unknowns()[0].id)
    assert prepared_answers(taught) is None


def test_nonlinear_classifiers_prepare_no_answers(tmp_path, files):
    with Memory(
        tmp_path / "memory", classifier=NCMForest(n_estimators=2, random_state=0)
    ) as memory:
        memory.teach_many(files)
    assert prepared_answers(tmp_path / "memory") is None


def test_an_altered_file_is_not_used(taught):
    (path,) = taught.glob(f"{PREFIX}*")
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert prepared_answers(taught) is None
    path.write_bytes(data[: len(data) // 2])
    assert prepared_answers(taught) is None
    path.write_bytes(data)
    with Memory(taught, read_only=True) as memory:
        assert memory.verify().ok


def test_verify_finds_a_wrong_head(taught):
    from everlearn.memory.model.serving import read_head, write_head
    from everlearn.memory.storage.journal import Journal

    journal = Journal(FolderStorage(taught).open(write=False))
    arrays = read_head(FolderCaches(taught), journal).arrays()
    write_head(FolderCaches(taught), journal, head_of(arrays | {"bias": arrays["bias"] + 1.0}))
    journal.close()
    with Memory(taught, read_only=True) as memory:
        assert "prepared" in memory.verify().problems[0]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rows", np.full((12, 48), np.nan, dtype=np.float32)),
        ("rows", np.zeros((11, 48), dtype=np.float32)),
        ("bias", np.zeros(CLASSES, dtype=np.float32)),
        ("temperature", np.zeros(1)),
        ("nearest", np.zeros(1, dtype=np.int64)),
    ],
)
def test_inconsistent_arrays_are_refused(taught, key, value):
    from everlearn.memory.model.serving import read_head
    from everlearn.memory.storage.journal import Journal

    journal = Journal(FolderStorage(taught).open(write=False))
    arrays = read_head(FolderCaches(taught), journal).arrays()
    journal.close()
    with pytest.raises(ValueError, match=r"wrong type|inconsistent|temperature"):
        head_of(arrays | {key: value})


def test_asking_does_not_import_the_packages_of_learners(taught):
    program = (
        "import sys; from pathlib import Path; import everlearn.cli.app, everlearn.cli.asking; "
        "from everlearn.memory.model.serving import prepared_answers; "
        f"assert prepared_answers(Path({str(taught)!r})) is not None; "
        "print(*{'sklearn', 'scipy', 'numba', 'rich', 'pandas'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""


@pytest.mark.parametrize(("times", "ok"), [(1 + 1e-12, True), (1.001, False)])
def test_last_bits_of_another_processor_pass_verify_and_altered_bits_do_not(taught, times, ok):
    """Processors and versions of BLAS round the last bit of a temperature differently."""
    with Memory(taught) as memory:
        journal = memory._opened.journal
        head = read_head(FolderCaches(taught), journal)
        assert head is not None
        write_head(
            FolderCaches(taught), journal, replace(head, temperature=head.temperature * times)
        )
        assert memory.verify().ok is ok
