"""Folders of images, walked, watched and evaluated."""

import os
from pathlib import Path

import numpy as np
import pytest

from benchmarks.hostile_images import photograph, saved
from everlearn import Learner
from everlearn.errors import CannotRead, InvalidInput, NeverLearned
from everlearn.features.decode import decode
from everlearn.features.embedders import Pixels
from everlearn.memory.evaluate import evaluate, plot_confusion
from everlearn.memory.folders import FolderWatch, labelled_files


@pytest.fixture
def photos(tmp_path):
    """Two class folders, one with a folder inside, and things that are no images."""
    place = tmp_path / "photos"
    for name, angles in (("up", (0, 5, 10)), ("down", (180, 185, 190)), ("up/more", (2, 7))):
        (place / name).mkdir(parents=True, exist_ok=True)
        for angle in angles:
            data = saved(photograph(60).rotate(angle), "PNG")
            (place / name / f"{angle}.png").write_bytes(data)
    (place / "up" / "notes.txt").write_text("no image")
    (place / "up" / ".hidden.png").write_bytes(b"")
    (place / ".trash").mkdir()
    (place / ".trash" / "old.png").write_bytes(b"")
    (place / "loose.png").write_bytes(saved(photograph(60), "PNG"))
    return place


def test_the_folder_is_the_name(photos):
    found = [(str(path.relative_to(photos)), name) for path, name in labelled_files([photos])]
    assert found == [
        ("down/180.png", "down"),
        ("down/185.png", "down"),
        ("down/190.png", "down"),
        ("up/0.png", "up"),
        ("up/10.png", "up"),
        ("up/5.png", "up"),
        ("up/more/2.png", "up"),
        ("up/more/7.png", "up"),
    ]


def test_a_name_given_is_the_name_of_all(photos):
    found = list(labelled_files([photos, photos / "up" / "notes.txt"], "thing"))
    assert len(found) == 10
    assert {name for _, name in found} == {"thing"}


@pytest.mark.parametrize(
    ("path", "error", "words"),
    [
        ("missing", CannotRead, "does not exist"),
        ("loose.png", InvalidInput, "--as NAME"),
        ("up/more", InvalidInput, "no folders with images"),
    ],
)
def test_what_has_no_name_is_refused(photos, path, error, words):
    with pytest.raises(error, match=words):
        list(labelled_files([photos / path]))


def test_watching_reports_what_is_complete_once(photos):
    watch = FolderWatch(photos)
    assert watch.look() == []
    assert len(watch.look()) == 8
    assert watch.look() == []
    growing = photos / "down" / "new.png"
    growing.write_bytes(b"first half")
    assert watch.look() == []
    growing.write_bytes(b"first half and second")
    assert watch.look() == []
    assert watch.look() == [(growing, "down")]
    assert watch.look() == []
    growing.unlink()
    assert watch.look() == []
    growing.write_bytes(b"another")
    watch.look()
    assert watch.look() == [(growing, "down")]
    with pytest.raises(CannotRead):
        FolderWatch(photos / "loose.png")


def test_evaluation_counts_by_hand(tmp_path, photos):
    with Learner(tmp_path / "learner", embedder=Pixels(size=8)) as learner:
        files = list(labelled_files([photos]))
        with pytest.raises(NeverLearned):
            evaluate(learner, files)
        learner.teach_many(files)
        # The same picture under another name: one of the two answers must be wrong.
        wrong = (photos / "up" / "0.png", "down")
        strange = (photos / "loose.png", "never taught")
        broken = tmp_path / "broken.png"
        broken.write_bytes(b"")
        steps = []
        result = evaluate(
            learner,
            [*files, wrong, strange, (broken, "up")],
            progress=lambda: steps.append(1),
        )
        assert len(steps) == 11
        assert result.n_known == 9
        assert result.accuracy == pytest.approx(8 / 9)
        assert result.per_name() == {"down": (3, 4), "up": (5, 5)}
        assert result.mistakes() == [("down", "up", 1)]
        assert result.n_unknown == 1
        assert [path for path, _ in result.unreadable] == [os.fspath(broken)]
        plot_confusion(result, tmp_path / "plot.png")
        drawn = decode(tmp_path / "plot.png")
        assert len(np.unique(drawn.reshape(-1, 3), axis=0)) > 10
        assert Path(tmp_path / "plot.png").stat().st_size > 1000
