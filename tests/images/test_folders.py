"""Folders of images, walked, watched and evaluated."""

import os
from pathlib import Path

import numpy as np
import pytest

from attacks.hostile_images import photograph, saved
from everlearn import Memory
from everlearn.cluster.listing import listed
from everlearn.errors import CannotRead, CannotWrite, InvalidInput, NeverLearned
from everlearn.images import folders
from everlearn.images.decode import decode
from everlearn.images.embedders import Pixels
from everlearn.images.folders import (
    BAD_LINK,
    BAD_NAME,
    CLOSED,
    HIDDEN,
    LOOSE,
    NO_IMAGE,
    NOT_READ,
    VIDEO,
    FolderWatch,
    labelled_files,
    names_of_listed,
    survey,
)
from everlearn.memory.answers import Answer, Answers
from everlearn.memory.insight.evaluate import evaluate, plot_confusion
from everlearn.streams.sources import image_folder


@pytest.fixture
def photos(tmp_path):
    """Two class folders, one with a nested folder, and files that are not images."""
    folder = tmp_path / "photos"
    for name, angles in (("up", (0, 5, 10)), ("down", (180, 185, 190)), ("more/up", (2, 7))):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for angle in angles:
            data = saved(photograph(60).rotate(angle), "PNG")
            (folder / name / f"{angle}.png").write_bytes(data)
    (folder / "up" / "notes.txt").write_text("no image")
    (folder / "up" / ".hidden.png").write_bytes(b"")
    (folder / ".trash").mkdir()
    (folder / ".trash" / "old.png").write_bytes(b"")
    (folder / "loose.png").write_bytes(saved(photograph(60), "PNG"))
    return folder


def test_the_folder_of_an_image_is_its_name(photos):
    found = [(str(path.relative_to(photos)), name) for path, name in labelled_files([photos])]
    assert found == [
        ("down/180.png", "down"),
        ("down/185.png", "down"),
        ("down/190.png", "down"),
        ("more/up/2.png", "up"),
        ("more/up/7.png", "up"),
        ("up/0.png", "up"),
        ("up/10.png", "up"),
        ("up/5.png", "up"),
    ]


def test_a_given_name_applies_to_all_images(photos):
    found = list(labelled_files([photos, photos / "up" / "notes.txt"], "thing"))
    assert len(found) == 10
    assert {name for _, name in found} == {"thing"}


def test_every_skipped_file_is_counted_under_a_reason(photos, tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    (target / "linked.png").write_bytes(saved(photograph(60), "PNG"))
    (photos / "linked").symlink_to(target)
    (photos / "up" / "back").symlink_to(photos)
    (photos / "up" / "gone.png").symlink_to(tmp_path / "nothing")
    (photos / "up" / "itself").symlink_to("itself")
    (photos / "up" / "scan.tif").write_bytes(saved(photograph(60), "TIFF"))
    (photos / "up" / "clip.mp4").write_bytes(b"\0\0\0\x18ftypmp42")
    (photos / "up" / "IMG_0001").write_bytes(saved(photograph(61), "JPEG"))
    (photos / "up" / "phone.heic").write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic")
    (photos / "up" / "web.avif").write_bytes(saved(photograph(62), "AVIF"))
    bad = Path(os.fsdecode(os.fsencode(photos) + b"/caf\xe9"))
    bad.mkdir()
    (bad / "1.png").write_bytes(saved(photograph(60), "PNG"))
    found = survey([photos])
    taken = {(path.name, name) for path, name in found.files}
    assert {("IMG_0001", "up"), ("phone.heic", "up"), ("web.avif", "up")} <= taken
    assert ("linked.png", "linked") in taken
    left_out = {
        reason.partition(":")[0]: [path.name for path in left]
        for reason, left in found.left_out.items()
    }
    assert left_out == {
        HIDDEN: [".trash", ".hidden.png"],
        LOOSE: ["loose.png"],
        BAD_NAME: ["1.png"],
        BAD_LINK: ["gone.png", "itself", "back"],
        NOT_READ: ["scan.tif"],
        VIDEO: ["clip.mp4"],
        NO_IMAGE: ["notes.txt"],
    }
    assert found.is_unusual
    everything = {path for path in photos.rglob("*") if not path.is_dir()}
    everything = {path for path in everything if ".trash" not in path.parts}
    accounted = {path for path, _ in found.files} | {
        path for left in found.left_out.values() for path in left
    }
    assert everything <= accounted
    with_videos = survey([photos], videos=True)
    assert ("clip.mp4", "up") in {(path.name, name) for path, name in with_videos.files}


def test_an_image_has_the_name_of_the_folder_it_lies_in(tmp_path):
    """Whichever parent folder is given; for surveys, watches, shards and streams."""
    nest = tmp_path / "nest"
    for below in ("2024/05/Cardinal", "2024/06/Cardinal", "2024/05/.cache", "2024/__MACOSX/Jay"):
        (nest / below).mkdir(parents=True)
        (nest / below / "1.png").write_bytes(saved(photograph(60), "PNG"))
    for given in (nest, nest / "2024", nest / "2024" / "05", nest / "2024" / "05" / "Cardinal"):
        assert {name for _, name in survey([given]).files} == {"Cardinal"}
    found = survey([nest])
    assert found.nested == {"Cardinal": {"2024/05/Cardinal": 1, "2024/06/Cardinal": 1}}
    assert found.is_unusual
    watch = FolderWatch(nest)
    watch.scan()
    assert watch.scan() == found.files
    shards = listed(str(nest))
    pictures = {(Path(p.path), p.label) for shard in shards for p in shard.pictures}
    assert pictures == set(found.files)
    streamed = image_folder(nest)
    assert list(zip(map(Path, streamed.X), streamed.y, strict=True)) == found.files
    outermost = survey([nest, nest / "2024"], outermost=True)
    assert [name for _, name in outermost.files] == ["2024", "2024", "05", "06"]


def test_a_folder_with_only_images_is_a_class(tmp_path, monkeypatch):
    """As in ``teach photos/*``; a folder with images beside subfolders of images is not a class."""
    for name in ("cat", "dog", ".mine"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.png").write_bytes(saved(photograph(60), "PNG"))
    found = survey([tmp_path / "cat", tmp_path / "dog"])
    assert [name for _, name in found.files] == ["cat", "dog"]
    assert set(found.nested) == {"cat", "dog"}
    monkeypatch.chdir(tmp_path / "cat")
    assert survey([Path()]).files == [(Path("1.png"), "cat")]
    with pytest.raises(InvalidInput, match="have no name"):
        survey([tmp_path / ".mine"])


def test_an_unreadable_folder_is_reported(photos, monkeypatch):
    real = os.scandir

    def refuse(path):
        if Path(path).name == "down":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(folders.os, "scandir", refuse)
    found = survey([photos])
    assert found.left_out[CLOSED] == [photos / "down"]
    assert {name for _, name in found.files} == {"up"}


def test_unknown_counts_as_wrong_even_if_the_first_guess_is_right(tmp_path, photos, monkeypatch):
    answers = Answers([Answer("up", 0.9)], unknown=True, familiarity=0.0, threshold=1.0)
    with Memory(tmp_path / "memory", embedder=Pixels(size=8)) as memory:
        memory.teach_many(labelled_files([photos]))
        monkeypatch.setattr(memory, "ask_many", lambda files, top: iter([answers] * len(files)))
        result = evaluate(memory, [(photos / "up" / "0.png", "up")])
    assert result.accuracy == 0.0
    assert result.flagged_known == 1
    assert [(m.name, m.answered, m.times) for m in result.mistakes()] == [("up", None, 1)]


@pytest.mark.parametrize(
    ("path", "error", "words"),
    [
        ("missing", CannotRead, "does not exist"),
        ("loose.png", InvalidInput, "--as NAME"),
        (".trash", InvalidInput, "holds no images"),
    ],
)
def test_images_without_a_name_are_refused(photos, path, error, words):
    with pytest.raises(error, match=words):
        list(labelled_files([photos / path]))


def test_watching_reports_each_complete_file_once(photos):
    watch = FolderWatch(photos)
    assert watch.scan() == []
    assert len(watch.scan()) == 8
    assert watch.scan() == []
    growing = photos / "down" / "new.png"
    growing.write_bytes(b"first half")
    assert watch.scan() == []
    growing.write_bytes(b"first half and second")
    assert watch.scan() == []
    assert watch.scan() == [(growing, "down")]
    assert watch.scan() == []
    growing.unlink()
    assert watch.scan() == []
    growing.write_bytes(b"another")
    watch.scan()
    assert watch.scan() == [(growing, "down")]
    with pytest.raises(CannotRead):
        FolderWatch(photos / "loose.png")


def test_evaluation_counts_by_hand(tmp_path, photos):
    with Memory(tmp_path / "memory", embedder=Pixels(size=8)) as memory:
        files = list(labelled_files([photos]))
        with pytest.raises(NeverLearned):
            evaluate(memory, files)
        memory.teach_many(files)
        # The same picture under another name: one of the two answers must be wrong.
        wrong = (photos / "up" / "0.png", "down")
        untaught = (photos / "loose.png", "never taught")
        broken = tmp_path / "broken.png"
        broken.write_bytes(b"")
        steps = []
        result = evaluate(
            memory,
            [*files, wrong, untaught, (broken, "up")],
            progress=lambda: steps.append(1),
        )
        assert len(steps) == 11
        assert result.n_known == 9
        assert result.accuracy == pytest.approx(8 / 9)
        assert result.per_name() == {"down": (3, 4), "up": (5, 5)}
        assert result.mistakes() == [("down", "up", 1, (os.fspath(wrong[0]),))]
        # The untaught one is a copy of a picture that was taught under another name.
        assert result.taught == [os.fspath(path) for path, _ in [*files, wrong, untaught]]
        assert result.n_unknown == 1
        assert [path for path, _ in result.unreadable] == [os.fspath(broken)]
        with pytest.raises(CannotWrite, match="plot"):
            plot_confusion(result, tmp_path / "missing" / "plot.png")
        with pytest.raises(CannotWrite, match="plot"):
            plot_confusion(result, tmp_path / "plot.unheard-of")
        plot_confusion(result, tmp_path / "plot.png")
        drawn = decode(tmp_path / "plot.png")
        assert len(np.unique(drawn.reshape(-1, 3), axis=0)) > 10
        assert Path(tmp_path / "plot.png").stat().st_size > 1000


def test_listed_files_get_the_same_names_as_surveyed_ones(tmp_path):
    """The page lists remote files, the command line surveys folders."""
    starts = {
        "nest/2024/05/Cardinal/x.jpg": b"\xff\xd8\xff\xe0",
        "nest/Finch/y": b"\x89PNG\r\n\x1a\n" + bytes(20),
        "nest/Finch/notes.txt": b"words",
        "nest/Finch/film.mp4": b"",
        "nest/.thumbnails/z.jpg": b"\xff\xd8\xff\xe0",
        "nest/__MACOSX/Finch/z.jpg": b"\xff\xd8\xff\xe0",
        "nest/loose.jpg": b"\xff\xd8\xff\xe0",
        "nest/a\x07b/x.jpg": b"\xff\xd8\xff\xe0",
        "Robin/1.jpg": b"\xff\xd8\xff\xe0",
        "Robin/2.jpg": b"\xff\xd8\xff\xe0",
    }
    for path, start in starts.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(start)
    found = survey([tmp_path / "nest", tmp_path / "Robin"])
    names = {str(path.relative_to(tmp_path)): name for path, name in found.files}
    assert names["nest/2024/05/Cardinal/x.jpg"] == "Cardinal"
    assert names["Robin/1.jpg"] == "Robin"
    listed = names_of_listed(list(starts.items()))
    assert {path: name for path, (name, _) in zip(starts, listed, strict=True) if name} == names
    for reason, paths in found.left_out.items():
        for path in paths:  # a hidden folder is left out as a whole
            inside = str(path.relative_to(tmp_path))
            own = [r for p, (_, r) in zip(starts, listed, strict=True) if p.startswith(inside)]
            assert own == [reason], inside
