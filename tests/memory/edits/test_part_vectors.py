"""Changing between one network and several embeds only what is missing."""

import numpy as np
import pytest
from PIL import Image

from attacks.hostile_images import saved
from everlearn import Memory
from everlearn.images import Pixels, SideBySide

GREY, COLOUR, SMALL = Pixels(size=4), Pixels(size=3, colour=True), Pixels(size=2)


class Counted(Pixels):
    """Counts the pictures it has seen."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.seen = 0

    def run(self, batch):
        self.seen += len(batch)
        return super().run(batch)


@pytest.fixture
def photos(tmp_path, rng):
    """Twelve files of four things."""
    files = []
    for thing in range(4):
        pattern = rng.integers(0, 256, (8, 8, 3))
        for index in range(3):
            pixels = np.clip(pattern + rng.integers(-20, 20, (8, 8, 3)), 0, 255).astype(np.uint8)
            path = tmp_path / f"{thing}-{index}.png"
            path.write_bytes(saved(Image.fromarray(pixels).resize((64, 64)), "PNG"))
            files.append((path, f"thing {thing}"))
    return files


def coefficients(memory):
    return memory.classifier.named_steps["ridge"].coef_


def taught_from_the_start(folder, photos, embedder):
    with Memory(folder, embedder=embedder) as memory:
        memory.teach_many(photos)
        return coefficients(memory)


def test_adding_a_network_embeds_with_the_new_one_only(tmp_path, photos):
    old, new = Counted(size=4), Counted(size=3, colour=True)
    with Memory(tmp_path / "memory", embedder=GREY) as memory:
        memory.teach_many(photos)
        old.seen = new.seen = 0
        assert memory.reembed(SideBySide([old, new])).done == 12
        assert (old.seen, new.seen) == (0, 12)
        expected = taught_from_the_start(tmp_path / "two", photos, SideBySide([GREY, COLOUR]))
        assert np.array_equal(coefficients(memory), expected)
        assert memory.verify().problems == ()
    with Memory(tmp_path / "memory") as memory:
        assert memory.ask(photos[0][0])[0].name == "thing 0"


def test_removing_a_network_needs_no_images(tmp_path, photos):
    before = taught_from_the_start(tmp_path / "one", photos, GREY)
    with Memory(tmp_path / "memory", embedder=SideBySide([GREY, COLOUR])) as memory:
        memory.teach_many(photos)
        for path, _ in photos:
            path.unlink()
        done = memory.reembed(GREY)
        assert (done.done, done.left_out) == (12, ())
        # The same vectors at length one, up to the last digit of float32.
        assert np.allclose(coefficients(memory), before, atol=1e-5)
        assert memory.verify().problems == ()


def test_replacing_one_network_keeps_the_vectors_of_the_other(tmp_path, photos):
    kept, new = Counted(size=4), Counted(size=2)
    with Memory(tmp_path / "memory", embedder=SideBySide([GREY, COLOUR])) as memory:
        memory.teach_many(photos)
        kept.seen = new.seen = 0
        memory.reembed(SideBySide([new, kept]))
        assert (kept.seen, new.seen) == (0, 12)
        expected = taught_from_the_start(tmp_path / "two", photos, SideBySide([SMALL, GREY]))
        assert np.allclose(coefficients(memory), expected, atol=1e-5)


def test_comparing_networks_decodes_each_image_once(tmp_path, photos, monkeypatch):
    from everlearn.images import batches

    opened, decode = [], batches.open_picture

    def counted(*given, **named):
        opened.append(1)
        return decode(*given, **named)

    with Memory(tmp_path / "memory", embedder=GREY) as memory:
        memory.teach_many(photos)
        monkeypatch.setattr(batches, "open_picture", counted)
        candidates = [GREY, COLOUR, SMALL, SideBySide([COLOUR, SMALL]), "pixels-4+pixels-2"]
        found = memory.compare_networks(candidates)
        assert len(opened) == len(photos)
        assert {c.embedder for c in found} >= {GREY.name, COLOUR.name, SMALL.name}
        accuracies = [c.accuracy for c in found]
        assert accuracies == sorted(accuracies, reverse=True)
        costs = {c.embedder: c.cost for c in found}
        assert costs[GREY.name].switch_seconds == 0.0
        assert costs[COLOUR.name].switch_seconds > 0.0
        assert costs[GREY.name].megabytes == pytest.approx((12 * 16 * 4 + 16**2 * 8) / 1e6)
        # What was made for the comparison is used by the switch.
        memory.reembed(SideBySide([COLOUR, SMALL]))
        assert len(opened) == len(photos)


def test_teachings_unreadable_for_one_network_are_left_out(tmp_path, photos):
    with Memory(tmp_path / "memory", embedder=GREY) as memory:
        memory.teach_many(photos)
        photos[0][0].unlink()
        done = memory.reembed(SideBySide([GREY, COLOUR]), drop=True)
        assert (done.done, len(done.left_out)) == (11, 1)
        assert memory.verify().problems == ()


def test_network_words_are_accepted(tmp_path, photos):
    with Memory(tmp_path / "memory", network="pixels-4") as memory:
        memory.teach_many(photos)
        assert memory.reembed("pixels-4+pixels-2").done == 12
        assert memory.info()["embedder"] == SideBySide([GREY, SMALL]).name


def test_a_new_folder_remembers_its_network(tmp_path, photos):
    from everlearn.errors import AlreadyThere, InvalidParameter

    with Memory(tmp_path / "memory", network="pixels-4+pixels-2") as memory:
        name = memory.set_network()
    with Memory(tmp_path / "memory") as memory:
        memory.teach(*photos[0])
        assert memory.info()["embedder"] == name
    other = Memory(tmp_path / "memory", network="pixels-3")
    with other as memory, pytest.raises(AlreadyThere, match="reembed"):
        memory.set_network()
    with pytest.raises(InvalidParameter, match="one of them"):
        Memory(tmp_path / "other", network="fast", embedder=GREY)


def test_strictness_is_kept_in_the_folder(tmp_path, clusters):
    from everlearn.errors import InvalidParameter

    X, names = clusters(each=20)
    with Memory(tmp_path) as memory:
        assert memory.accept == 0.95
        memory.teach_many(zip(X, names, strict=True))
        strict = memory.ask(X[0]).threshold
        memory.set_accept(0.99)
        assert memory.accept == 0.99
        mild = memory.ask(X[0]).threshold
        assert mild < strict
        with pytest.raises(InvalidParameter, match="between 0 and 1"):
            memory.set_accept(1.0)
    with Memory(tmp_path, read_only=True) as memory:
        assert (memory.accept, memory.ask(X[0]).threshold) == (0.99, mild)
    with Memory(tmp_path, accept=0.95, read_only=True) as memory:
        assert memory.ask(X[0]).threshold == strict
