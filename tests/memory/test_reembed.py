"""Another network, the same Memory."""

import numpy as np
import pytest
from PIL import Image

from benchmarks.hostile_images import saved
from everlearn import Memory
from everlearn.errors import NeverLearned, WrongEmbedder
from everlearn.images.embedders import Pixels


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
    """What a Memory taught with the other embedder from the start would be."""
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
        assert memory.undo().kind == "forget"
        assert len(memory.teachings()) == 12
        files = [(p.with_suffix(".moved") if keep == "image" else p, n) for p, n in photos]
        expected = fresh(tmp_path, files, new)
        assert np.allclose(coefficients(memory), expected)
        assert not list(memory.path.glob("reembed-*"))
    with pytest.raises(WrongEmbedder), Memory(tmp_path / "memory", embedder=old) as memory:
        memory.teach(files[0][0], "more")


def test_what_cannot_be_read_is_reported_and_kept_out(tmp_path, photos):
    with Memory(tmp_path / "memory", embedder=Pixels(size=4)) as memory:
        memory.teach_many(photos)
        photos[3][0].unlink()
        photos[5][0].write_bytes(photos[6][0].read_bytes())
        done = memory.reembed(Pixels(size=8))
        assert [source for _, source in done.left_out] == [str(photos[3][0]), str(photos[5][0])]
        assert memory.info()["teachings"] == done.done == 10
        assert memory.verify().problems == ()
        for path, _ in photos:
            path.unlink(missing_ok=True)
        before = memory.info()
        with pytest.raises(NeverLearned, match="nothing was changed"):
            memory.reembed(Pixels(size=6))
        assert memory.info()["teachings"] == before["teachings"]


def test_killed_the_old_state_stays_and_the_work_goes_on(tmp_path, photos):
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


def test_embedders_are_compared_by_leaving_out(tmp_path, photos):
    with Memory(tmp_path / "memory", embedder=Pixels(size=4)) as memory:
        memory.teach_many(photos)
        before = coefficients(memory)
        found = memory.compare_embedders([Pixels(size=1), Pixels(size=8, colour=True)])
        assert found[0].embedder == "pixels 8 colour"
        assert found[0].accuracy == 1.0 > found[1].accuracy
        assert np.array_equal(coefficients(memory), before)
        assert found[0].teachings == 12


def test_keeping_nothing_keeps_nothing(tmp_path, photos):
    with Memory(tmp_path / "memory", embedder=Pixels(size=4), keep_images="none") as memory:
        memory.teach_many(photos)
        assert memory.thumbnail(1) is None
        assert not memory.teachings()[0].has_thumbnail
