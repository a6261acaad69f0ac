"""``why`` and ``check`` against models retrained without a teaching."""

import numpy as np
import pytest
from PIL import Image

from attacks.hostile_images import photograph, saved
from everlearn import Memory, NearestClassMean, RecursiveRLSC
from everlearn.errors import InvalidInput, NeverLearned, NotExplainable, UnknownLabel
from everlearn.images.embedders import Pixels
from everlearn.memory.insight.influence import Influence
from everlearn.memory.model.head import unit
from tests.memory.conftest import mapped

RIDGE = {"regularization": 0.3, "recoding": 0.5}


@pytest.fixture
def uneven(rng):
    """Overlapping classes of 1 to 30 examples, at length one."""
    y = np.repeat(np.arange(6), [1, 2, 5, 9, 20, 30])
    X = unit(rng.normal(size=(6, 12))[y] + 0.9 * rng.normal(size=(len(y), 12)))
    return X, y


def retrained(X, y, keep, n_classes=6):
    """Scores of a model taught only some examples; −∞ for classes without any."""
    learner = RecursiveRLSC(**RIDGE).fit(X[keep], y[keep])

    def scores(questions):
        full = np.full((len(questions), n_classes), -np.inf)
        full[:, learner.classes_] = learner.decision_function(questions)
        return full

    return scores


def test_leave_one_out_equals_retraining(uneven, monkeypatch):
    X, y = uneven
    monkeypatch.setattr("everlearn.memory.insight.influence.MOST_SCORES", 64)
    blocks = Influence(RecursiveRLSC(**RIDGE).fit(X, y), X, y).leave_one_out_blocks()
    left_out = np.concatenate([scores for _, scores in blocks])
    for i in range(len(X)):
        expected = retrained(X, y, np.arange(len(X)) != i)(X[i : i + 1])[0]
        assert np.allclose(left_out[i], expected, rtol=0, atol=1e-9)


def test_effects_equal_retraining_without_the_teaching(uneven, rng):
    X, y = uneven
    influence = Influence(RecursiveRLSC(**RIDGE).fit(X, y), X, y)
    x = unit(rng.normal(size=12))
    for target in (1, 3, 5):
        without = influence.without_each(x, target)
        for i in range(len(X)):
            keep = np.arange(len(X)) != i
            # The factor N^α, which all scores share, is omitted.
            expected = retrained(X, y, keep)(x[None])[0, target] / keep.sum() ** 0.5
            assert without[i] == pytest.approx(expected, abs=1e-9)
    gone = np.array([0, 1, 2, 40, 60])
    keep = ~np.isin(np.arange(len(X)), gone)
    expected = retrained(X, y, keep)(x[None])[0] / keep.sum() ** 0.5
    assert np.allclose(influence.without(x, gone), expected, rtol=0, atol=1e-9)


def test_probabilities_equal_those_of_a_memory_never_taught_it(tmp_path, uneven, rng):
    X, y = uneven
    x = X[-1] + 0.3 * rng.normal(size=X.shape[1])
    with Memory(tmp_path / "memory") as memory:
        memory.teach_many((row, f"class {name}") for row, name in zip(X, y, strict=True))
        answers = {answer.name: answer.probability for answer in memory.ask(x, top=99)}
        for name in ("class 4", None):
            why = memory.why(x, name, top=3)
            assert why.probability == pytest.approx(answers[why.name], rel=1e-5)
        T = memory._answering.calibrated.temperature
        for effect in why.effects:
            memory.forget(id=effect.id)
            classifier, known = memory.classifier, memory._opened.journal.names_by_id()
            scores = classifier.decision_function((x / np.linalg.norm(x))[None])[0]
            place = [known[number] for number in classifier.classes_.tolist()].index(why.name)
            shares = np.exp((scores - scores.max()) / T)
            expected = shares[place] / shares.sum()
            assert effect.probability_without == pytest.approx(expected, rel=1e-5)
            memory.undo()


def test_why_lists_the_deciding_teaching_first(tmp_path, rng):
    with Memory(tmp_path) as memory:
        for index in range(20):
            memory.teach([1.0, 0.0, 0.1 * rng.normal()], "many", source=f"/many/{index}")
        memory.teach([0.0, 1.0, 0.0], "one", source="/one.png")
        why = memory.why([0.1, 1.0, 0.0])
        assert why.name == "one"
        assert (why.effects[0].name, why.effects[0].source) == ("one", "/one.png")
        assert why.effects[0].effect == pytest.approx(why.score)
        assert why.decisive
        assert why.answer_without(1) == "many"
        assert not memory.why([1.0, 0.0, 0.0]).decisive
        assert memory.why([0.1, 1.0, 0.0], "many").name == "many"
        with pytest.raises(UnknownLabel):
            memory.why([1.0, 0.0, 0.0], "nobody")
        with pytest.raises(InvalidInput):
            why.answer_without(3)
        memory.forget("one")
        assert memory.why([0.1, 1.0, 0.0]).name == "many"


@pytest.mark.parametrize("classifier", [None, RecursiveRLSC(**RIDGE)], ids=["root", "plain"])
def test_why_uses_vectors_after_the_feature_map(tmp_path, uneven, rng, classifier):
    """Scores without a teaching equal those of a model that was never taught it."""
    X, y = uneven
    X, x = X.astype(np.float32), rng.normal(size=12).astype(np.float32)
    see = mapped if classifier is None else unit
    with Memory(tmp_path, classifier=classifier) as memory:
        memory.teach_many((row, f"class {k}") for row, k in zip(X, y, strict=True))
        why = memory.why(x, "class 4", top=len(y))
        position = {teaching.id: i for i, teaching in enumerate(memory.teachings())}
    U = see(X)
    for effect in why.effects:
        keep = np.arange(len(y)) != position[effect.id]
        expected = retrained(U, y, keep)(see(x[None]))[0, 4] / keep.sum() ** 0.5
        assert effect.score_without == pytest.approx(expected, abs=1e-9)
    assert len(why.effects) == len(y)


def test_unexplainable_answers_raise_a_named_error(tmp_path):
    with Memory(tmp_path, classifier=NearestClassMean()) as memory:
        with pytest.raises(NeverLearned):
            memory.report()
        memory.teach([1.0, 0.0], "cup")
        with pytest.raises(NotExplainable, match="NearestClassMean"):
            memory.why([1.0, 0.0])
        with pytest.raises(NotExplainable, match="use"):
            memory.report()


def test_a_report_counts_leave_one_out_answers(tmp_path, rng):
    y = np.repeat(np.arange(4), [12, 12, 12, 2])
    X = rng.normal(size=(4, 10))[y] + 0.8 * rng.normal(size=(len(y), 10))
    names = [f"<name {k}>" for k in range(4)]
    with Memory(tmp_path / "memory") as memory:
        memory.teach_many((x, names[k]) for x, k in zip(X.astype(np.float32), y, strict=True))
        told = []
        report = memory.report(progress=lambda done, of: told.append((done, of)))
    U = mapped(X.astype(np.float32))
    right = [
        retrained(U, y, np.arange(len(y)) != i, 4)(U[i : i + 1])[0].argmax() == y[i]
        for i in range(len(y))
    ]
    assert report.accuracy.right == sum(right)
    assert report.per_name[names[1]].right == sum(
        r for r, k in zip(right, y, strict=True) if k == 1
    )
    assert sum(count for *_, count in report.confused_pairs) == len(y) - sum(right)
    assert report.too_few == [names[3]]
    assert "3 more pictures" in report.advice[names[3]]
    assert told[-1] == (len(y), len(y))
    low, high = report.accuracy.interval
    assert low < report.accuracy.share < high
    page = tmp_path / "page.html"
    report.to_html(page)
    assert "&lt;name 1&gt;" in page.read_text()
    assert "<name 1>" not in page.read_text()
    report.plot(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 1000


def test_swapped_names_are_suspected_first(tmp_path, data_pack):
    """5 % of names swapped: most are within the first 10 % of the list."""
    pack = data_pack("caltech101_effnetlite0.npz")
    rng = np.random.default_rng(0)
    chosen = [k for k in range(101) if (pack["labels"] == k).sum() >= 40][:12]
    rows = np.concatenate([np.flatnonzero(pack["labels"] == k)[:40] for k in chosen])
    true = pack["labels"][rows]
    given = true.copy()
    swapped = rng.choice(len(rows), len(rows) // 20, replace=False)
    for i in swapped:
        given[i] = rng.choice([k for k in chosen if k != true[i]])
    with Memory(tmp_path) as memory:
        memory.teach_many(
            (x, f"class {k}") for x, k in zip(pack["features"][rows], given, strict=True)
        )
        ranking = memory.report().ranking
    first = set(ranking[: len(rows) // 10])
    assert np.mean([int(i) + 1 in first for i in swapped]) >= 0.9


def test_blurred_dark_and_repeated_pictures_are_reported(tmp_path):
    sharp = photograph(200)
    noise = np.random.default_rng(0).integers(0, 256, (200, 200, 3), dtype=np.uint8)
    blurred = Image.fromarray(noise[:4, :4]).resize((200, 200), Image.Resampling.BICUBIC)
    dark = sharp.point(lambda value: value // 16)
    with Memory(tmp_path, embedder=Pixels(size=8)) as memory:
        for picture in (Image.fromarray(noise), blurred, dark):
            memory.teach(saved(picture, "PNG"), "thing")
        memory.teach(saved(Image.fromarray(noise), "BMP"), "thing")
        report = memory.report()
        ids = [teaching.id for teaching in memory.teachings()]
    assert report.blurred == [ids[1]]
    assert report.dark == [ids[2]]
    assert (ids[0], ids[3]) in [pair[:2] for pair in report.near_duplicates]
