"""Parts of pictures are taught, asked and found, as exactly as whole pictures.

Pictures are coloured squares on grey noise. The proposer returns those squares and a few other
boxes, so that these tests need no network.
"""

import io
import math
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from everlearn import Memory
from everlearn.errors import (
    DamagedJournal,
    ImageTooLarge,
    InvalidBox,
    InvalidInput,
    InvalidParameter,
    NotMergeable,
    OtherName,
)
from everlearn.images.embedders import Pixels
from everlearn.memory.edits.unknowns import all_unknowns
from everlearn.memory.model.background import MOST_OVERLAP, Background
from everlearn.memory.storage.log import counting_examples, counting_vectors
from everlearn.memory.storage.regions import proposals_of
from everlearn.regions import region_embedder
from everlearn.regions.boxes import Box, overlap
from everlearn.regions.proposals import Proposals
from everlearn.regions.region_embedder import Region, crop_edges

COLOURS = {"red": (220, 30, 30), "green": (30, 200, 40), "blue": (40, 50, 230)}
SIDE = 120
GOLDEN = Path(__file__).parents[1] / "golden" / "0.1" / "memory"


def scene(seed: int, *things: tuple[str, int, int]) -> np.ndarray:
    """Squares of 40 pixels at (left, top) on noise."""
    pixels = np.random.default_rng(seed).integers(60, 140, (SIDE, SIDE, 1), dtype=np.uint8)
    pixels = np.repeat(pixels, 3, axis=2)
    for colour, left, top in things:
        pixels[top : top + 40, left : left + 40] = COLOURS[colour]
    return pixels


def square(left: int, top: int) -> tuple[int, int, int, int]:
    return left, top, left + 40, top + 40


class SquareProposer:
    """Proposes coloured squares, and always the same four other boxes."""

    name = "squares"
    other = (
        (0.0, 0.0, 0.25, 0.25),
        (0.7, 0.0, 1.0, 0.3),
        (0.0, 0.7, 0.3, 1.0),
        (0.4, 0.4, 0.6, 0.6),
    )

    def propose(self, picture: Image.Image) -> Proposals:
        pixels = np.asarray(picture).astype(int)
        boxes = []
        for colour in COLOURS.values():
            rows, columns = np.nonzero(np.abs(pixels - colour).sum(axis=2) < 60)
            if len(rows):
                ends = columns.min(), rows.min(), columns.max() + 1, rows.max() + 1
                boxes.append(np.array(ends) / np.tile(picture.size, 2))
        seen = np.array([*boxes, *self.other], dtype=np.float64)
        scores = np.array([0.9] * len(boxes) + [0.2] * len(self.other))
        return Proposals(seen, scores, np.zeros(len(seen), dtype=np.intp))


class SquareFinder:
    """The main thing is the first coloured square."""

    def box(self, picture: Image.Image) -> Box:
        return Box(*SquareProposer().propose(picture).boxes[0])


@pytest.fixture(autouse=True)
def no_networks(monkeypatch):
    monkeypatch.setattr(region_embedder, "Proposer", SquareProposer)
    monkeypatch.setattr(region_embedder, "MainThing", SquareFinder)


def memory_in(folder, regions="things", **more) -> Memory:
    return Memory(folder, embedder=Pixels(size=6, colour=True), regions=regions, **more)


@pytest.fixture
def memory(tmp_path):
    with memory_in(tmp_path / "memory") as opened:
        yield opened


def find_weights(memory: Memory) -> np.ndarray:
    """The weights that separate names from background."""
    calibrated = memory._answering.up_to_date()
    return memory._finding._current_head(calibrated).weights.copy()


# Teaching and asking.


def test_the_vector_is_that_of_the_part(memory) -> None:
    picture = scene(1, ("red", 20, 60))
    assert memory.teach(picture, "red", box=square(20, 60))
    (taught,) = memory.teachings()
    assert taught.box == pytest.approx(np.array(square(20, 60)) / 120, abs=1e-6)
    # Independent: the part cut out of the pixels with its margin, made small by Pillow.
    image = Image.fromarray(picture)
    part = image.resize((46, 46), Image.Resampling.BICUBIC, box=crop_edges(image, taught.box))
    expected = memory.embedder.run(memory.embedder.prepare(part)[None])[0]
    kept = counting_vectors(memory._opened.journal)[3][0]
    assert np.allclose(kept, expected, atol=0.02)
    thumbnail = np.asarray(Image.open(io.BytesIO(memory.thumbnail(1))), dtype=float)
    assert np.abs(thumbnail.mean(axis=(0, 1)) - COLOURS["red"]).max() < 12


def test_the_same_picture_has_several_teachings_with_different_boxes(memory) -> None:
    picture = scene(2, ("red", 0, 0), ("blue", 80, 80))
    assert memory.teach(picture, "red", box=square(0, 0))
    assert memory.teach(picture, "blue", box=square(80, 80))
    assert not memory.teach(picture, "red", box=square(0, 0))
    assert not memory.teach(picture, "red", box=(0.0, 0.0, 1 / 3, 1 / 3))
    with pytest.raises(OtherName):
        memory.teach(picture, "blue", box=square(0, 0))
    assert memory.correct(picture, "crimson", box=square(0, 0)).moved_from == ("red",)
    assert {t.name for t in memory.teachings()} == {"crimson", "blue"}


def test_without_a_box_a_whole_memory_is_as_before(tmp_path) -> None:
    with memory_in(tmp_path / "a", regions=None) as memory:
        assert memory.regions == "whole"
        memory.teach(scene(1, ("red", 0, 0)), "red")
        assert memory.teachings()[0].box is None
        assert memory.ask(scene(1, ("red", 0, 0))).box is None
        assert memory._opened.journal.db.value("SELECT COUNT(*) FROM boxes") == 0
        memory.teach(scene(1, ("red", 0, 0)), "red", box="auto")
        assert not memory.teach(scene(1, ("red", 0, 0)), "red")


def test_ask_and_why_accept_a_box(memory) -> None:
    for seed in range(4):
        memory.teach(scene(seed, ("red", 20, 20)), "red", box=square(20, 20))
        memory.teach(scene(seed + 9, ("blue", 60, 20)), "blue", box=square(60, 20))
    both = scene(77, ("red", 0, 80), ("blue", 80, 0))
    assert memory.ask(both, box=square(0, 80))[0].name == "red"
    answers = memory.ask(both, box=square(80, 0))
    assert answers[0].name == "blue"
    assert answers.box == pytest.approx((80 / 120, 0.0, 1.0, 40 / 120), abs=1e-5)
    why = memory.why(both, box=square(80, 0))
    assert why.name == "blue"
    taught = {t.id: t.box for t in memory.teachings()}
    assert [effect.box for effect in why.effects] == [taught[e.id] for e in why.effects]


@pytest.mark.parametrize(
    "box", [(0, 0, 0, 40), (0, 0, 500, 40), (-5, 0, 30, 30), (0, 0, math.nan, 1), (1, 2), "main", 7]
)
def test_an_invalid_box_changes_nothing(memory, box) -> None:
    memory.teach(scene(1, ("red", 0, 0)), "red", box=square(0, 0))
    before = memory._opened.journal.chain_at(1)
    for act in (memory.teach, memory.correct):
        with pytest.raises(InvalidBox):
            act(scene(2, ("red", 0, 0)), "red", box=box)
    with pytest.raises(InvalidBox):
        memory.ask(scene(2, ("red", 0, 0)), box=box)
    summary = memory.teach_many([(Region(scene(3, ("red", 0, 0)), box), "red")])
    assert summary.unreadable == 1
    assert memory._opened.journal.last_position == 1
    assert memory._opened.journal.chain_at(1) == before
    assert memory.verify().ok


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_a_picture_that_is_too_large_is_refused_and_nothing_is_taught(memory, tmp_path, kind):
    path = tmp_path / f"wall.{kind.lower()}"
    Image.new("L", (10_000, 10_000)).save(path, kind)
    for box in (None, "auto", (0, 0, 50, 50)):
        with pytest.raises(ImageTooLarge, match="10000 x 10000"):
            memory.teach(path, "wall", box=box)
    with pytest.raises(ImageTooLarge):
        memory.find(path)
    assert list(memory.names()) == []
    assert memory.verify().ok


def test_a_picture_without_things_has_none(memory, monkeypatch) -> None:
    memory.teach(scene(0, ("red", 20, 60)), "red", box=square(20, 60))
    nothing = Proposals(np.zeros((0, 4)), np.zeros(0), np.zeros(0, dtype=np.intp))
    monkeypatch.setattr(SquareProposer, "propose", lambda self, picture: nothing)
    assert memory.find(scene(1)) == []
    # A picture without proposals can be taught.
    memory.teach(scene(2, ("blue", 20, 60)), "blue", box=square(20, 60))
    assert memory.verify().ok


def test_a_vector_has_no_box(memory) -> None:
    with pytest.raises(InvalidBox):
        memory.teach(np.ones(108), "x", box=(0, 0, 1, 1))


# Finding.


def test_things_are_found_named_and_separated_from_background(memory) -> None:
    for seed in range(3):
        memory.teach(scene(seed, ("red", 5 * seed, 60)), "red", box=square(5 * seed, 60))
        memory.teach(scene(9 + seed, ("blue", 70, 4 * seed)), "blue", box=square(70, 4 * seed))
    things = memory.find(scene(50, ("blue", 10, 70), ("red", 75, 30)))
    assert {thing.name for thing in things[:2]} == {"red", "blue"}
    boxes = {thing.name: thing.box for thing in things[:2]}
    assert boxes["red"] == pytest.approx(np.array(square(75, 30)) / 120, abs=1e-5)
    assert boxes["blue"] == pytest.approx(np.array(square(10, 70)) / 120, abs=1e-5)
    everything = memory.find(scene(50, ("blue", 10, 70), ("red", 75, 30)), everything=True)
    assert len(things) < len(everything)
    assert all(a.name != "background" for thing in things for a in thing.answers)
    assert memory.names().keys() == {"red", "blue"}


def test_ask_where_gives_one_answer_and_its_box(memory) -> None:
    for seed in range(3):
        memory.teach(scene(seed, ("red", 5 * seed, 60)), "red", box=square(5 * seed, 60))
    answers = memory.ask(scene(51, ("red", 70, 10)), where=True)
    assert answers[0].name == "red"
    assert answers.box == pytest.approx(np.array(square(70, 10)) / 120, abs=1e-5)


def test_ask_where_prefers_what_looks_like_a_name_to_what_has_the_better_box(memory) -> None:
    for seed in range(3):
        memory.teach(scene(seed, ("red", 5 * seed, 60)), "red", box=square(5 * seed, 60))
        memory.teach(scene(9 + seed, ("blue", 70, 4 * seed)), "blue", box=square(70, 4 * seed))
    picture = scene(50, ("red", 75, 30))
    picture[70:110, 5:45] = (200, 45, 50)  # less red than the square

    class Busy:
        def propose(self, image: Image.Image) -> Proposals:
            boxes = np.array([(5, 70, 45, 110), (75, 30, 115, 70)]) / SIDE
            return Proposals(boxes, np.array([0.99, 0.05]), np.zeros(2, dtype=np.intp))

    memory._intake.region_embedder.proposer = Busy()
    answers = memory.ask(picture, where=True)
    assert answers[0].name == "red"
    assert answers.box == pytest.approx(np.array(square(75, 30)) / SIDE, abs=1e-6)


def test_a_reader_finds_things_while_a_backup_is_restored(tmp_path, restore_between_words) -> None:
    with memory_in(tmp_path / "m") as writer:
        writer.teach(scene(1, ("red", 10, 10)), "red", box=square(10, 10))
        writer.teach(scene(2, ("blue", 60, 30)), "blue", box=square(60, 30))
        writer.backup(tmp_path / "backup")
        writer.teach(scene(3, ("green", 30, 60)), "green", box=square(30, 60))
    picture = scene(9, ("green", 70, 70), ("red", 10, 10))
    with memory_in(tmp_path / "m", read_only=True, regions=None) as reader:
        restore_between_words(tmp_path / "backup", tmp_path / "m")
        found = [(thing.box, list(thing.answers)) for thing in reader.find(picture)]
    with memory_in(tmp_path / "backup", read_only=True, regions=None) as backup:
        assert found == [(thing.box, list(thing.answers)) for thing in backup.find(picture)]


def test_before_anything_is_taught_everything_is_unknown(memory) -> None:
    things = memory.find(scene(1, ("red", 0, 0)))
    assert things
    assert all(thing.name is None and thing.answers.unknown for thing in things)


def test_the_number_of_boxes_is_limited(memory) -> None:
    for most in (0, 10_000, -1, 2.5, "3", None):
        with pytest.raises(InvalidInput, match="most must be a number of boxes"):
            memory.find(scene(1), most=most)
    assert len(memory.find(scene(1), most=np.int64(3))) <= 3


def test_a_classifier_without_second_moments_raises_a_named_error(tmp_path) -> None:
    from everlearn.errors import NotExplainable

    with memory_in(tmp_path / "m", classifier="mean") as memory:
        memory.teach(scene(1, ("red", 0, 0)), "red", box=square(0, 0))
        with pytest.raises(NotExplainable, match="ridge"):
            memory.find(scene(1, ("red", 0, 0)))


# Exactness.


def naive_background(memory: Memory) -> tuple[int, np.ndarray, np.ndarray]:
    """Count, sum and Gram matrix by the definition, from the pictures that count."""
    journal = memory._opened.journal
    boxes: dict[bytes, list] = {}
    for _, example in counting_examples(journal):
        boxes.setdefault(example.digest, []).append(example.region.box)
    rows = []
    for digest, taught in boxes.items():
        proposals = proposals_of(journal, digest)
        other = overlap(proposals.boxes, np.array(taught)).max(axis=1) < MOST_OVERLAP
        u = proposals.vectors[other].astype(float)
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        u = np.sign(u) * np.sqrt(np.abs(u))
        rows.append(u / np.linalg.norm(u, axis=1, keepdims=True))
    X = np.concatenate(rows) if rows else np.empty((0, 108))
    return len(X), X.sum(axis=0), X.T @ X


def test_background_is_every_proposal_that_was_not_taught(memory) -> None:
    picture = scene(1, ("red", 0, 0), ("blue", 80, 80))
    memory.teach(picture, "red", box=square(0, 0))
    memory.teach(scene(2, ("green", 40, 0)), "green", box=square(40, 0))
    background = Background(108, 0.5, memory.embedder.name)

    def check() -> int:
        sums = memory._opened.read(lambda: background.follow(memory._opened.journal))
        count, total, gram = naive_background(memory)
        assert sums.count == count
        assert np.allclose(sums.total, total)
        assert np.allclose(np.triu(sums.gram), np.triu(gram))
        return count

    before = check()
    memory.teach(picture, "blue", box=square(80, 80))
    # The proposal of the blue square is no longer background.
    assert check() < before
    memory.undo()
    assert check() == before
    memory.forget(name="green")
    check()


steps = st.lists(
    st.one_of(
        st.tuples(st.just("teach"), st.integers(0, 5), st.sampled_from(["red", "green", "blue"])),
        st.tuples(st.just("forget"), st.integers(0, 5), st.just("")),
        st.tuples(st.just("undo"), st.just(0), st.just("")),
        st.tuples(st.just("redo"), st.just(0), st.just("")),
        st.tuples(st.just("ask"), st.just(0), st.just("")),
    ),
    min_size=2,
    max_size=10,
)
PLACES = {"red": (0, 0), "green": (40, 70), "blue": (80, 20)}


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=steps)
def test_after_an_erase_statistics_equal_those_of_a_new_memory(steps, tmp_path_factory) -> None:
    root = tmp_path_factory.mktemp("exact")
    with memory_in(root / "one") as memory:
        memory.teach(scene(99, ("red", 0, 0)), "red", box=square(0, 0))
        for what, number, name in steps:
            picture = scene(number, *((c, *PLACES[c]) for c in COLOURS))
            try:
                if what == "teach":
                    memory.teach(picture, name, box=square(*PLACES[name]), also=True)
                elif what == "forget":
                    memory.forget(picture)
                elif what == "ask":
                    memory.find(scene(3, ("red", 10, 10)))
                else:
                    getattr(memory, what)()
            except InvalidInput:
                continue
        if not memory.names():
            return
        weights = find_weights(memory)
        left = [(t.name, t.source, t.box) for t in memory.teachings()]
        examples = [example for _, example in counting_examples(memory._opened.journal)]
        names = [name for name, _ in counting_examples(memory._opened.journal)]
        memory.teach(scene(123, ("green", 5, 5)), "gone", box=square(5, 5))
        memory.forget(name="gone", erase=True)
        erased = find_weights(memory)
        assert memory.verify().ok
    with memory_in(root / "one", read_only=True, regions=None) as again:
        assert np.array_equal(find_weights(again), erased)
    with memory_in(root / "two") as fresh:
        for name, example in zip(names, examples, strict=True):
            assert fresh.teach(example, name, also=True)
        assert [(t.name, t.source, t.box) for t in fresh.teachings()] == left
        assert np.array_equal(find_weights(fresh), erased)
        # Before the erase the sums were equal up to rounding, with names in another order.
        assert np.allclose(
            np.sort(find_weights(fresh), axis=0), np.sort(weights, axis=0), atol=1e-9
        )
    with memory_in(root / "three") as merged:
        assert merged.merge(root / "two") == len(names)
        assert np.array_equal(find_weights(merged), erased)


def test_erasing_a_picture_removes_its_boxes_and_proposals(tmp_path, memory) -> None:
    memory.teach(scene(1, ("red", 0, 0), ("blue", 80, 80)), "red", box=square(0, 0))
    memory.teach(scene(1, ("red", 0, 0), ("blue", 80, 80)), "blue", box=square(80, 80))
    memory.teach(scene(2, ("green", 0, 0)), "green", box=square(0, 0))
    db = memory._opened.journal.db
    receipt = memory.forget(name="red", erase=True).receipt
    receipt.save(tmp_path / "receipt")
    # The picture is still taught by its other box.
    assert memory.verify(tmp_path / "receipt").ok
    assert db.value("SELECT COUNT(*) FROM proposals") == 2
    receipt = memory.forget(name="blue", erase=True).receipt
    receipt.save(tmp_path / "receipt")
    assert memory.verify(tmp_path / "receipt").ok
    assert db.value("SELECT COUNT(*) FROM proposals") == 1
    assert db.value("SELECT COUNT(*) FROM boxes") == 1


def test_a_backup_includes_boxes_and_proposals(tmp_path, memory) -> None:
    memory.teach(scene(1, ("red", 0, 0)), "red", box=square(0, 0))
    weights = find_weights(memory)
    memory.backup(tmp_path / "copy")
    with memory_in(tmp_path / "copy", regions=None) as copy:
        assert copy.regions == "things"
        assert copy.teachings() == memory.teachings()
        assert np.array_equal(find_weights(copy), weights)


# Modes.


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    pairs = []
    for seed in range(6):
        name = ("red", "green", "blue")[seed % 3]
        file = folder / f"{seed}.png"
        Image.fromarray(scene(seed, (name, 7 * seed, 60))).save(file)
        pairs.append((file, name))
    return pairs


def test_reembed_changes_the_mode_and_keeps_given_boxes(tmp_path, files) -> None:
    with memory_in(tmp_path / "m", regions=None) as memory:
        memory.teach_many(files[:4])
        memory.teach(files[4][0], "green", box=(0.1, 0.2, 0.9, 0.8))
        assert [t.box for t in memory.teachings()][:4] == [None] * 4
        with pytest.raises(InvalidParameter):
            memory.reembed(regions="everything")
        memory.reembed(regions="things")
        assert memory.regions == "things"
        boxes = [t.box for t in memory.teachings()]
        for seed, box in enumerate(boxes[:4]):
            assert box == pytest.approx(np.array(square(7 * seed, 60)) / 120, abs=1e-5)
        assert boxes[4] == Box(0.1, 0.2, 0.9, 0.8)
        assert memory._opened.journal.db.value("SELECT COUNT(*) FROM proposals") == 5
        assert memory.verify().ok
        things = memory.find(scene(60, ("red", 70, 10)))
        assert things[0].name == "red"
        memory.undo()
        assert memory.regions == "whole"
        assert [t.box for t in memory.teachings()][:4] == [None] * 4
        memory.reembed(regions="things")
        assert [t.box for t in memory.teachings()] == boxes
        memory.reembed(regions="whole")
        assert [t.box for t in memory.teachings()] == [None] * 4 + [Box(0.1, 0.2, 0.9, 0.8)]
        assert memory._opened.journal.db.value("SELECT COUNT(*) FROM proposals") == 0
        assert memory.verify().ok
    with memory_in(tmp_path / "plain", regions=None) as plain:
        plain.teach_many(files[:4])
        plain.teach(files[4][0], "green", box=(0.1, 0.2, 0.9, 0.8))
        with memory_in(tmp_path / "m", regions=None) as memory:
            ours, theirs = (counting_vectors(m._opened.journal)[3] for m in (memory, plain))
            assert np.array_equal(ours, theirs)


def test_modes_are_compared_without_changing_anything(tmp_path, files) -> None:
    with memory_in(tmp_path / "m", regions=None) as memory:
        memory.teach_many(files)
        found = memory.compare_regions()
        assert {comparison.regions for comparison in found} == {"whole", "main"}
        assert found[0].regions == "main"
        assert found[0].accuracy == 1.0
        assert memory.regions == "whole"
        assert memory.verify().ok


def test_a_folder_keeps_its_mode(tmp_path, files) -> None:
    with memory_in(tmp_path / "m", regions="main") as memory:
        memory.teach_many(files)
        assert memory.teachings()[0].box is not None
        assert not memory.teach(*files[0])
    with memory_in(tmp_path / "m", regions=None) as memory:
        assert memory.regions == "main"
    with pytest.raises(InvalidParameter, match="reembed"):
        memory_in(tmp_path / "m", regions="whole")
    with pytest.raises(InvalidParameter):
        memory_in(tmp_path / "n", regions="parts")
    with memory_in(tmp_path / "whole", regions=None) as whole:
        whole.teach(scene(1), "x")
        with pytest.raises(NotMergeable, match="regions"):
            whole.merge(tmp_path / "m")


# Journals from before there were boxes.


def test_an_old_journal_is_read_unchanged_and_upgraded_for_writing(tmp_path) -> None:
    shutil.copytree(GOLDEN, tmp_path / "old")
    file = tmp_path / "old" / "journal.sqlite"
    before = file.read_bytes()
    with Memory(tmp_path / "old", read_only=True) as memory:
        names = dict(memory.names())
        assert all(t.box is None for t in memory.teachings())
        assert memory.regions == "whole"
        assert memory.verify().ok
    assert file.read_bytes() == before
    with Memory(tmp_path / "old") as memory:
        assert dict(memory.names()) == names
        assert memory.verify().ok
        digest = memory._opened.read(lambda: memory._opened.model().digest())
    with Memory(tmp_path / "old") as memory:
        assert memory._opened.read(lambda: memory._opened.model().digest()) == digest


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE boxes SET x1 = 0.9",
        "DELETE FROM boxes",
        "UPDATE boxes SET found = 2",
        "INSERT INTO boxes SELECT 7, x0, y0, x1, y1, found, seal FROM boxes LIMIT 1",
        "UPDATE proposals SET vectors = zeroblob(length(vectors))",
        "UPDATE proposals SET boxes = x'00'",
    ],
)
def test_boxes_that_were_altered_are_noticed(tmp_path, damage) -> None:
    with memory_in(tmp_path / "m") as memory:
        memory.teach(scene(1, ("red", 0, 0)), "red", box=square(0, 0))
    db = sqlite3.connect(tmp_path / "m" / "journal.sqlite")
    db.execute(damage)
    db.commit()
    db.close()
    try:
        with memory_in(tmp_path / "m", regions=None) as memory:
            assert not memory.verify().ok
    except DamagedJournal:
        pass


# Kept unknown things.


def kept(memory: Memory) -> list:
    return memory._opened.read(lambda: all_unknowns(memory._opened.journal))


def test_unknown_things_are_kept_as_parts_and_named_with_their_boxes(tmp_path, memory) -> None:
    for seed in range(3):
        memory.teach(scene(seed, ("red", 5 * seed, 60)), "red", box=square(5 * seed, 60))
    file = tmp_path / "both.png"
    Image.fromarray(scene(50, ("blue", 70, 10), ("green", 10, 60))).save(file)
    places = {memory.find(file)[i].box for i in range(2)}
    assert not kept(memory)
    for _ in range(2):
        memory.find(file, remember=True)
    unknown = kept(memory)
    # Two things of one picture are kept, each once.
    assert {one.example.region.box for one in unknown} == places
    assert {one.example.source for one in unknown} == {str(file)}
    for one in unknown:
        small = Image.open(io.BytesIO(memory.unknown_thumbnail(one.id)))
        seen = np.asarray(small, dtype=float).mean(axis=(0, 1))
        assert min(np.abs(seen - COLOURS[c]).max() for c in ("blue", "green")) < 12
    (blue,) = [one for one in unknown if one.example.region.box.left > 0.5]
    assert memory.name_unknowns(blue.id, "blue") == 1
    (taught,) = memory.teachings("blue")
    assert (taught.box, taught.source) == (blue.example.region.box, str(file))
    assert memory.ask(scene(51, ("blue", 0, 0)), box=square(0, 0))[0].name == "blue"
    # The erase also removes the other unknown thing of the same picture.
    memory.forget(name="blue", erase=True)
    assert not kept(memory)
    assert memory.verify().ok


def test_without_kept_images_unknown_things_have_no_thumbnail(tmp_path) -> None:
    picture = scene(50, ("blue", 70, 10))
    with memory_in(tmp_path / "memory", keep_images="none") as memory:
        memory.teach(scene(1, ("red", 5, 60)), "red", box=square(5, 60))
        memory.find(picture, remember=True)
        (one,) = [u for u in kept(memory) if u.example.region.box.left > 0.5]
        assert memory.unknown_thumbnail(one.id) is None
        last = list(memory.follow([picture] * 3))[-1]
        views = [view for thing in last.things for view in thing.views]
        assert views
        assert all(not view.thumbnail for view in views)
