"""Changing the network of a Memory: all or nothing, resumed after a kill, and undone."""

import sqlite3
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from attacks.hostile_images import saved
from everlearn import Memory
from everlearn.cli.app import app
from everlearn.errors import (
    CannotWrite,
    ChangedMeanwhile,
    DamagedJournal,
    NeverLearned,
    NothingToUndo,
    PicturesMissing,
    UnknownLabel,
    WrongEmbedder,
)
from everlearn.images.embedders import Pixels
from everlearn.memory.edits.reembed import Reembedded, _serialised
from everlearn.memory.edits.writing import COLUMNS
from everlearn.memory.storage.rows import content_digest, row_checksum
from everlearn.regions.boxes import Box
from everlearn.regions.region_embedder import Region


@pytest.fixture
def photos(tmp_path, rng):
    """Twelve files of three things."""
    files = []
    for thing in range(3):
        pattern = rng.integers(0, 256, (8, 8, 3))
        for index in range(4):
            pixels = np.clip(pattern + rng.integers(-20, 20, (8, 8, 3)), 0, 255).astype(np.uint8)
            path = tmp_path / f"{thing}-{index}.png"
            path.write_bytes(saved(Image.fromarray(pixels).resize((64, 64)), "PNG"))
            files.append((path, f"thing {thing}"))
    return files


def fresh(tmp_path, files, embedder):
    """The coefficients of a Memory that was taught with the other embedder from the start."""
    with Memory(tmp_path / "fresh", embedder=embedder) as memory:
        memory.teach_many(files)
        return coefficients(memory)


def coefficients(memory):
    return memory.classifier.named_steps["ridge"].coef_


@pytest.mark.parametrize("keep", ["thumbnail", "image"])
def test_vectors_are_those_of_the_other_embedder(tmp_path, photos, keep):
    old, new = Pixels(size=4), Pixels(size=8)
    with Memory(tmp_path / "memory", embedder=old, keep_images=keep) as memory:
        memory.teach_many(photos)
        memory.forget(photos[0][0])
        if keep == "image":
            for path, _ in photos:
                path.rename(path.with_suffix(".moved"))
        done = memory.reembed(new)
        assert (done.done, done.left_out) == (11, ())
        assert memory.info()["embedder"] == new.name
        assert memory.verify().problems == ()
        files = [(p.with_suffix(".moved") if keep == "image" else p, n) for p, n in photos]
        memory.teach(*files[0])
        expected = fresh(tmp_path, files, new)
        assert np.allclose(coefficients(memory), expected)
        assert not list(memory.path.glob("reembed-*"))
    with pytest.raises(WrongEmbedder), Memory(tmp_path / "memory", embedder=old) as memory:
        memory.teach(files[0][0], "more")


def test_unreadable_images_are_reported_and_left_out(tmp_path, photos):
    with Memory(tmp_path / "memory", embedder=Pixels(size=4)) as memory:
        memory.teach_many(photos)
        photos[3][0].unlink()
        photos[5][0].write_bytes(photos[6][0].read_bytes())
        before = memory.info()["teachings"]
        with pytest.raises(PicturesMissing, match="2 of 12 teachings") as refused:
            memory.reembed(Pixels(size=8))
        assert refused.value.count == 2
        assert memory.info()["teachings"] == before
        done = memory.reembed(Pixels(size=8), drop=True)
        assert [source for _, source in done.left_out] == [str(photos[3][0]), str(photos[5][0])]
        assert memory.info()["teachings"] == done.done == 10
        assert memory.verify().problems == ()
        for path, _ in photos:
            path.unlink(missing_ok=True)
        before = memory.info()
        with pytest.raises(NeverLearned, match="nothing was changed"):
            memory.reembed(Pixels(size=6), drop=True)
        assert memory.info()["teachings"] == before["teachings"]


def test_a_killed_reembed_keeps_the_old_state_and_resumes(tmp_path, photos):
    class Counted(Pixels):
        calls = 0

        def run(self, batch):
            Counted.calls += len(batch)
            return batch

    def interrupt(done, _):
        if done == 7:
            raise KeyboardInterrupt

    new = Counted(size=8)
    new.batch_size = 1
    with Memory(tmp_path / "memory", embedder=Pixels(size=4)) as memory:
        memory.teach_many(photos)
        with pytest.raises(KeyboardInterrupt):
            memory.reembed(new, progress=interrupt)
        assert memory.info()["embedder"] == Pixels(size=4).name
        assert memory.verify().problems == ()
    before = Counted.calls
    with Memory(tmp_path / "memory", embedder=Pixels(size=4)) as memory:
        assert memory.reembed(new).done == 12
        assert 0 < Counted.calls - before <= 12 - 6


def test_embedders_are_compared_by_leave_one_out(tmp_path, photos):
    with Memory(tmp_path / "memory", embedder=Pixels(size=4)) as memory:
        memory.teach_many(photos)
        before = coefficients(memory)
        found = memory.compare_networks([Pixels(size=1), Pixels(size=8, colour=True)])
        assert found[0].embedder == "pixels 8 colour"
        assert found[0].accuracy == 1.0 > found[1].accuracy
        assert np.array_equal(coefficients(memory), before)
        assert found[0].teachings == 12


def test_without_keep_no_images_are_stored(tmp_path, photos):
    with Memory(tmp_path / "memory", embedder=Pixels(size=4), keep_images="none") as memory:
        memory.teach_many(photos)
        assert memory.thumbnail(1) is None
        assert not memory.teachings()[0].has_thumbnail


def test_a_change_of_the_network_is_one_operation_that_can_be_undone(tmp_path, photos):
    old, new = Pixels(size=4), Pixels(size=8)
    with Memory(tmp_path / "memory", embedder=old) as memory:
        memory.teach_many(photos)
        before = coefficients(memory)
        for path, _ in photos[:4]:
            path.rename(path.with_suffix(".moved"))
        memory.reembed(new, drop=True)
        assert "thing 0" not in memory.names()
        assert [change.kind for change in memory.history()] == ["reembed", "teach"]
        meant = memory.would_undo()
        assert (meant.kind, meant.count, meant.names) == ("reembed", 8, ("thing 0",))
        lost = "without pictures of thing 0 that could not be read"
        assert meant.about == memory.history()[0].about == f"reembed, 8 teachings, {lost}"
        memory.teach(photos[0][0].with_suffix(".moved"), "new thing")
        with pytest.raises(ChangedMeanwhile):
            memory.undo(meant.id)
        memory.undo()
        undone = memory.undo(meant.id)
        assert (undone.kind, undone.undone, undone.names) == ("reembed", True, ("thing 0",))
        assert memory.info()["embedder"] == old.name
        assert memory.names()["thing 0"].count == 4
        assert np.array_equal(coefficients(memory), before)
        assert memory.verify().problems == ()
        assert [change.kind for change in memory.history()] == ["teach"]
        memory.teach(photos[0][0].with_suffix(".moved"), "thing 0")
    with Memory(tmp_path / "memory", embedder=old) as memory:
        assert memory.verify().problems == ()


@pytest.mark.parametrize("called", ["x", "8\n", "8\n\nthing 0", "-1", "8 thing 0", "9" * 19])
def test_an_impossible_record_of_a_reembed_is_detected(tmp_path, photos, called):
    with Memory(tmp_path / "memory", embedder=Pixels(size=4)) as memory:
        memory.teach_many(photos)
        photos[0][0].unlink()
        memory.reembed(Pixels(size=8), drop=True)
        journal = memory._opened.journal
        row = journal.db.row(f"SELECT {COLUMNS} FROM operations ORDER BY id DESC LIMIT 1")
        assert row[-1] == "11\nthing 0"
        forged = (*row[:-1], called)
        with journal.transaction():
            journal.db.replace("operations", *forged, row_checksum("operations", *forged))
    with pytest.raises(DamagedJournal, match="of operations was altered"):
        Memory(tmp_path / "memory")


def test_without_the_previous_journal_a_reembed_cannot_be_undone(tmp_path, photos):
    with Memory(tmp_path / "memory", embedder=Pixels(size=4)) as memory:
        memory.teach_many(photos)
        memory.reembed(Pixels(size=8))
        (memory.path / "before-reembed-2").unlink()
        with pytest.raises(NothingToUndo, match="change back with reembed"):
            memory.undo()
        assert memory.info()["teachings"] == 12


def test_the_command_asks_before_pictures_are_lost(tmp_path, photos):
    with Memory(tmp_path / "memory", embedder=Pixels(size=4)) as memory:
        memory.teach_many(photos)
    for path, _ in photos[:4]:
        path.unlink()
    command = ["-m", str(tmp_path / "memory"), "--network", "pixels-4", "reembed", "pixels"]
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code == 1
    assert "nothing would be left of thing 0" in refused.stderr
    done = CliRunner().invoke(app, [*command, "--yes"])
    assert done.exit_code == 0, done.output
    assert "8 teachings with new vectors, 4 left out; everlearn undo" in done.stdout


@pytest.mark.parametrize("answer", ["n", "y"])
def test_a_user_at_a_terminal_is_asked(tmp_path, photos, monkeypatch, answer):
    with Memory(tmp_path / "memory", embedder=Pixels(size=4)) as memory:
        memory.teach_many(photos)
    photos[0][0].unlink()
    there = SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("everlearn.cli.embedding.sys", there)
    command = ["-m", str(tmp_path / "memory"), "--network", "pixels-4", "reembed", "pixels"]
    asked = CliRunner().invoke(app, command, input=f"{answer}\n")
    assert "continue without 1 teaching? [y/N]" in asked.stderr
    assert asked.exit_code == (0 if answer == "y" else 1)
    with Memory(tmp_path / "memory", read_only=True) as memory:
        assert memory.info()["teachings"] == (11 if answer == "y" else 12)


@pytest.mark.parametrize("keep", ["image", "thumbnail"])
def test_the_command_keeps_the_files_of_pictures_if_told_to(tmp_path, photos, keep):
    base = ["-m", str(tmp_path / "memory"), "--network", "pixels-4"]
    files = [str(path) for path, _ in photos[:4]]
    taught = CliRunner().invoke(app, [*base, "teach", *files, "--as", "x", "--keep-images", keep])
    assert taught.exit_code == 0, taught.output
    for path, _ in photos[:4]:
        path.unlink()
    done = CliRunner().invoke(app, [*base, "reembed", "pixels"])
    assert done.exit_code == (0 if keep == "image" else 1)
    assert ("4 teachings with new vectors" in done.stdout) == (keep == "image")


def test_pictures_that_were_moved_are_found_again(tmp_path, photos):
    with Memory(tmp_path / "memory", embedder=Pixels(size=4)) as memory:
        memory.teach_many(photos)
        (tmp_path / "moved").mkdir()
        for path, _ in photos:
            path.rename(tmp_path / "moved" / path.name)
        (tmp_path / "moved" / photos[1][0].name).write_bytes(b"another file")
        with pytest.raises(UnknownLabel):
            memory.relocate(tmp_path / "nowhere", tmp_path / "moved")
        done = memory.relocate(tmp_path, tmp_path / "moved")
        assert (done.moved, done.missing) == (11, (str(photos[1][0]),))
        assert memory.verify().problems == ()
        assert memory.reembed(Pixels(size=8), drop=True).done == 11


NOT_UTF8 = "caf\udce9"


@pytest.mark.parametrize("mode", ["whole", "main"])
def test_pictures_whose_paths_are_not_utf8_are_read_again(tmp_path, photos, mode):
    inside = tmp_path / f"{NOT_UTF8} \udcff"
    inside.mkdir()
    with Memory(tmp_path / "memory", embedder=Pixels(size=4)) as memory:
        for path, name in photos:
            memory.teach(path.rename(inside / f"{NOT_UTF8}{path.name}"), name)
        done = memory.reembed(Pixels(size=8), regions=mode)
        assert (done.done, done.left_out) == (12, ())
        assert memory.image(1) == (inside / f"{NOT_UTF8}0-0.png").read_bytes()


def test_an_escape_in_a_path_is_read_as_it_is_written(tmp_path, photos):
    """A backslash is a character of a path too."""
    written = photos[0][0].rename(tmp_path / "caf\\udce9.png")
    with Memory(tmp_path / "memory", embedder=Pixels(size=4)) as memory:
        memory.teach(written, "cup")
        assert memory.image(1) == written.read_bytes()


@pytest.mark.parametrize(
    ("old", "new"), [("old", NOT_UTF8), (NOT_UTF8, "new"), (NOT_UTF8, "é\udcff")]
)
@pytest.mark.parametrize("folder", [True, False])
def test_pictures_are_relocated_from_and_to_paths_that_are_not_utf8(
    tmp_path, photos, old, new, folder
):
    before, after = tmp_path / old, tmp_path / new
    before.mkdir()
    inside = f"{NOT_UTF8}.png"
    picture = photos[0][0].rename(before / inside)
    with Memory(tmp_path / "memory", embedder=Pixels(size=4)) as memory:
        memory.teach(picture, "cup")
        before.rename(after)
        if folder:
            done = memory.relocate(before, after)
        else:
            done = memory.relocate(picture, after / inside)
        assert (done.moved, done.missing) == (1, ())
        assert memory.image(1) == (after / inside).read_bytes()
        assert memory.reembed(Pixels(size=8)).done == 1


def test_a_picture_taught_again_from_a_path_that_is_not_utf8_keeps_its_first(tmp_path, photos):
    """Its file is still there; a file that is gone is followed."""
    first = photos[0][0].rename(tmp_path / f"{NOT_UTF8}.png")
    copy = tmp_path / "copy.png"
    copy.write_bytes(first.read_bytes())
    with Memory(tmp_path / "memory", embedder=Pixels(size=4)) as memory:
        memory.teach(first, "cup")
        memory.teach(copy, "cup")
        copy.unlink()
        assert memory.image(1) == first.read_bytes()
        moved = first.rename(tmp_path / f"{NOT_UTF8}-moved.png")
        memory.teach(moved, "cup")
        assert memory.image(1) == moved.read_bytes()


@pytest.mark.parametrize("mode", ["whole", "main"])
def test_progress_counts_pictures_that_cannot_be_read_and_those_of_an_earlier_run(
    tmp_path, photos, mode
):
    with Memory(tmp_path / "memory", embedder=Pixels(size=4)) as memory:
        memory.teach_many(photos)
        memory.forget(photos[5][0])
        for gone in (0, 6, 11):
            photos[gone][0].unlink()
        photos[3][0].write_bytes(b"another file")
        steps = []

        def note(done, total):
            steps.append((done, total))

        with pytest.raises(PicturesMissing):
            memory.reembed(Pixels(size=8), note, regions=mode)
        assert steps == [(done, 12) for done in range(1, 13)]
        steps.clear()  # the second run begins with what the first one collected
        memory.reembed(Pixels(size=8), note, regions=mode, drop=True)
        assert steps == [(done, 12) for done in range(8, 13)]


def test_teaching_a_moved_file_again_updates_its_path(tmp_path, photos):
    with Memory(tmp_path / "memory", embedder=Pixels(size=4)) as memory:
        memory.teach_many(photos)
        copy = tmp_path / "copy.png"
        copy.write_bytes(photos[0][0].read_bytes())
        assert not memory.teach(copy, "thing 0")
        assert memory.teachings()[0].source == str(photos[0][0])
        photos[0][0].unlink()
        assert not memory.teach(copy, "thing 0")
        assert memory.teachings()[0].source == str(copy)
        assert memory.reembed(Pixels(size=8)).done == 12


NEW = Pixels(size=8)


def forge_nothing(db):
    pass


def entry(number):
    """A collected entry, whose vector has this number everywhere."""
    return _serialised(Reembedded(np.full(NEW.n_features, number, dtype="<f4").tobytes()))


def forge_nan(db):
    db.execute("UPDATE vectors SET vector = ?", (entry(np.nan),))


def forge_another(db):
    db.execute("UPDATE vectors SET vector = ?", (entry(1.0),))


def forge_nan_with_checksum(db):
    """With valid checksums: only the numbers show that it is wrong."""
    (path,) = [row[2] for row in db.execute("PRAGMA database_list")]
    for (digest,) in db.execute("SELECT digest FROM vectors").fetchall():
        own = row_checksum(Path(path).name, digest, content_digest(entry(np.nan)))
        row = entry(np.nan), own, digest
        db.execute("UPDATE vectors SET vector = ?, seal = ? WHERE digest = ?", row)


def forge_kinds(db):
    db.execute("UPDATE vectors SET vector = 'words', seal = 7")


def forge_schema(db):
    db.execute("CREATE VIEW more AS SELECT 1")


@pytest.mark.parametrize(
    "forge",
    [
        forge_nothing,
        forge_nan,
        forge_another,
        forge_nan_with_checksum,
        forge_kinds,
        forge_schema,
    ],
)
def test_collected_vectors_are_validated(tmp_path, photos, forge):
    with Memory(tmp_path / "memory", embedder=Pixels(size=4)) as memory:
        memory.teach_many(photos)
        memory.compare_networks([NEW])
        (side,) = memory.path.glob("reembed-*")
        db = sqlite3.connect(side)
        forge(db)
        db.commit()
        db.close()
        assert memory.reembed(NEW).done == 12
        assert memory.verify().problems == ()
        assert np.allclose(coefficients(memory), fresh(tmp_path, photos, NEW))


def test_collected_vectors_do_not_follow_links(tmp_path, photos):
    new = Pixels(size=8)
    with Memory(tmp_path / "memory", embedder=Pixels(size=4)) as memory:
        memory.teach_many(photos)
        memory.compare_networks([new])
        (side,) = memory.path.glob("reembed-*")
        side.unlink()
        side.symlink_to(tmp_path / "elsewhere")
        assert memory.reembed(new).done == 12
        assert not (tmp_path / "elsewhere").exists()


def test_a_full_disk_during_reembed_raises_a_named_error(tmp_path, photos):
    with Memory(tmp_path / "memory", embedder=Pixels(size=4)) as memory:
        memory.teach_many(photos)
        new = Pixels(size=8)
        memory.compare_networks([new])
        (side,) = memory.path.glob("reembed-*")
        side.unlink()
        side.mkdir()
        with pytest.raises(CannotWrite, match="nothing was changed"):
            memory.reembed(new)
        assert memory.info()["embedder"] == Pixels(size=4).name


@pytest.mark.parametrize("box", [None, (0.0, 0.0, 0.5, 0.5)])
def test_a_named_unknown_picture_is_reembedded(tmp_path, photos, box):
    """Its file is gone, but the question kept the image."""
    path = tmp_path / "stranger.png"
    other = np.zeros((64, 64, 3), dtype=np.uint8)
    other[:32, :32, 1] = 255
    path.write_bytes(saved(Image.fromarray(other), "PNG"))
    with Memory(tmp_path / "memory", embedder=Pixels(size=4), keep_images="image") as memory:
        memory.teach_many(photos)
        assert memory.ask(path, box=box, remember=True).unknown
        (group,) = memory.unknowns()
        memory.name_unknowns(group.id, "stranger")
        asked = Region(path.read_bytes(), box) if box else path.read_bytes()
        path.unlink()
        assert memory.reembed(Pixels(size=8)).left_out == ()
        (taught,) = memory.teachings("stranger")
        assert taught.box == (None if box is None else Box(*box))
        kept = memory._opened.journal.vector_bytes(taught.id)
    with Memory(tmp_path / "fresh", embedder=Pixels(size=8)) as memory:
        memory.teach(asked, "stranger")
        assert kept == memory._opened.journal.vector_bytes(1)


def test_pictures_of_unknowns_are_kept_only_if_images_are_kept(tmp_path, photos):
    data = photos[0][0].read_bytes()
    for keep, there in (("thumbnail", False), ("image", True)):
        with Memory(tmp_path / keep, embedder=Pixels(size=4), keep_images=keep) as memory:
            memory.teach_many(photos[4:])
            assert memory.ask(photos[0][0], remember=True).unknown
            place = memory.path
        held = b"".join(path.read_bytes() for path in place.iterdir())
        assert (data[:200] in held) is there
