"""A Memory of many names gives the same answers, and follows each teaching."""

import hashlib
import json
from types import SimpleNamespace

import numpy as np
import pytest

from everlearn import Memory, NearestClassMean, RecursiveRLSC
from everlearn.arrays import unit_rows
from everlearn.learners.closed_form import screened
from everlearn.learners.closed_form.least_squares import LeastSquares
from everlearn.memory.model import calibrated, follower, head, live
from everlearn.memory.name_words import FEW, NameWords
from everlearn.memory.storage import snapshot
from everlearn.memory.storage.journal import Journal
from everlearn.statistics import class_means, screening

WIDTH = 12


@pytest.fixture
def many_from_two_names(monkeypatch):
    monkeypatch.setattr(live, "MANY_NAMES", 2)


def vector_of(rng, centres, name):
    return centres[name] + 0.3 * rng.normal(size=WIDTH)


def answers_of(memory, questions, top=4):
    found = [memory.ask(x, top=top) for x in questions]
    return [[(a.name, a.probability) for a in one] for one in found], [
        (one.familiarity, one.unknown, one.p_value) for one in found
    ]


@pytest.mark.parametrize("classifier", ["ridge", "mean"])
def test_answers_equal_those_of_one_weight_matrix(rng, tmp_path, monkeypatch, classifier):
    centres = rng.normal(size=(9, WIDTH))
    questions = rng.normal(size=(25, WIDTH))

    # Both are recalibrated by the same questions.
    monkeypatch.setattr(calibrated, "LATEST", calibrated.GROWTH)

    def taught(folder, many):
        noise = np.random.default_rng(1)
        monkeypatch.setattr(live, "MANY_NAMES", 2 if many else 10**9)
        found = []
        with Memory(folder, classifier=classifier) as memory:
            for step in range(60):
                name = int(noise.integers(1 + min(8, step // 4)))
                memory.teach(vector_of(noise, centres, name), f"name {name}")
                if step % 9 == 8:
                    memory.forget(name=f"name {name}") if step % 2 else memory.undo()
                if step % 3 == 0:
                    found.append(answers_of(memory, questions[:3]))
            memory.rename("name 3", "another word")
            found.append(answers_of(memory, questions))
            assert memory.verify().ok
        return found

    few, many = taught(tmp_path / "few", False), taught(tmp_path / "many", True)
    for (ours, facts), (theirs, expected) in zip(many, few, strict=True):
        assert [[name for name, _ in one] for one in ours] == [
            [name for name, _ in one] for one in theirs
        ]
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose([p for _, p in one], [p for _, p in other], rtol=1e-3)
        for (a, unknown, p), (b, known, q) in zip(facts, expected, strict=True):
            assert (a, p) == (pytest.approx(b, abs=1e-5), pytest.approx(q, abs=0.1))
            assert unknown == known


@pytest.mark.parametrize("spread", [1.0, 1e-3, 1e-6])
@pytest.mark.parametrize("classifier", ["ridge", "mean"])
def test_a_screen_of_names_changes_no_answer(rng, tmp_path, monkeypatch, classifier, spread):
    """Also if names are nearly alike. Probabilities are right to half of the tolerance."""
    monkeypatch.setattr(live, "MANY_NAMES", 2)
    monkeypatch.setattr(screening, "LARGE_SHARE", 2.0)
    centres = rng.normal(size=WIDTH) + spread * rng.normal(size=(40, WIDTH))
    questions = [*centres[:5], *rng.normal(size=(15, WIDTH))]
    screens_used, shares = [], screening.Screen.shares

    def noted(*args, **settings):
        found = shares(*args, **settings)
        screens_used.extend([found] if found else [])
        return found

    monkeypatch.setattr(screening.Screen, "shares", noted)

    def taught(folder, rows):
        monkeypatch.setattr(screened, "MANY_ROWS", rows)
        with Memory(folder, classifier=classifier) as memory:
            memory.teach_many((centre, f"name {i % 37}") for i, centre in enumerate(centres))
            first = answers_of(memory, questions)
            memory.teach(questions[-1], "name 3")
            memory.forget(name="name 2")
            return first, answers_of(memory, questions)

    whole = taught(tmp_path / "whole", 10**9)
    screens_used.clear()
    for ours, theirs in zip(taught(tmp_path / "screened", 2), whole, strict=True):
        assert ours[1] == theirs[1]
        for one, other in zip(ours[0], theirs[0], strict=True):
            assert [name for name, _ in one] == [name for name, _ in other]
            np.testing.assert_allclose(
                [p for _, p in one], [p for _, p in other], rtol=live.TOLERANCE / 2
            )
    assert len(screens_used) == 2 * len(questions)


def test_a_memory_of_many_names_is_the_same_after_reopening(rng, tmp_path, many_from_two_names):
    centres = rng.normal(size=(30, WIDTH))
    questions = rng.normal(size=(10, WIDTH))
    with Memory(tmp_path / "memory") as memory:
        for step in range(300):
            memory.teach(vector_of(rng, centres, step % 30), f"name {step % 30}")
            if step % 50 == 0:
                memory.ask(questions[0])
        before = [one[0].name for one in map(memory.ask, questions)]
        digest = memory.verify().model
    with Memory(tmp_path / "memory", read_only=True) as memory:
        assert [one[0].name for one in map(memory.ask, questions)] == before
        assert memory.verify().model == digest


def test_a_snapshot_of_many_names_is_delayed(rng, tmp_path, monkeypatch):
    """Teachings since the last snapshot are replayed from the journal."""
    monkeypatch.setattr(follower, "BYTES_PER_ENTRY", 1)
    centres = rng.normal(size=(5, WIDTH))
    with Memory(tmp_path) as memory:
        for step in range(600):
            memory.teach(vector_of(rng, centres, step % 5), f"name {step % 5}")
        x = rng.normal(size=WIDTH)
        before = memory.ask(x)[0]
    assert all(path.suffix == ".calibration" for path in tmp_path.glob("snapshot-*"))
    with Memory(tmp_path) as memory:
        again = memory.ask(x)[0]
        assert (again.name, again.probability) == (before.name, pytest.approx(before.probability))
        assert memory.verify().ok


@pytest.mark.parametrize("top", [1, 3, None])
def test_the_best_shares_are_those_of_a_stable_sort(rng, top):
    many = rng.random(5_003)
    many[4_990:5_001] = 2.0  # ties across the end of a block
    few = rng.random(200), rng.integers(0, 4, 200) / 4.0, np.zeros(50)
    for shares in (*few, many, rng.integers(0, 9, 4_096) / 9.0):
        expected = np.argsort(-shares, kind="stable")[:top]
        np.testing.assert_array_equal(head.best_shares(shares, top), expected)


def test_names_are_read_together_only_if_many_are_needed_together():
    asked, words = [], {number: f"name {number}" for number in range(200)}

    def one(number):
        asked.append(number)
        return words[number]

    def every():
        asked.append("all")
        return dict(words)

    names = NameWords(one, every)
    assert [names[7], names[7], names[8]] == ["name 7", "name 7", "name 8"]
    assert asked == [7, 8]
    names.expect(FEW)
    assert [names[number] for number in range(150)] == list(words.values())[:150]
    assert sorted(asked) == list(range(150))
    asked.clear()
    names.expect(FEW + 1)
    names.expect(200)
    assert [names[number] for number in range(200)] == list(words.values())
    assert asked == ["all"]
    assert dict(names) == words


@pytest.mark.parametrize(("top", "expected"), [(5, 0), (None, 1)])
def test_many_questions_do_not_read_all_names(rng, tmp_path, monkeypatch, top, expected):
    read, names_by_id = [], Journal.names_by_id
    monkeypatch.setattr(Journal, "names_by_id", lambda self: read.append(1) or names_by_id(self))
    vectors = rng.normal(size=(200, WIDTH))
    with Memory(tmp_path) as memory:
        memory.teach_many((x, f"name {i}") for i, x in enumerate(vectors))
        read.clear()
        for i, x in enumerate(vectors):
            assert memory.ask(x, top=top)[0].name == f"name {i}"
    assert len(read) == expected


def test_names_are_searched_by_substring_and_paged(rng, tmp_path):
    words = ["Apple", "apple pie", "100%", "under_score", "underscore", "pear"]
    with Memory(tmp_path) as memory:
        for word in words:
            memory.teach(rng.normal(size=WIDTH), word)
        memory.teach(rng.normal(size=WIDTH), "Apple")
        memory.forget(name="pear")
        assert list(memory.names()) == sorted(words[:-1])
        assert list(memory.names("APPLE")) == ["Apple", "apple pie"]
        assert memory.names("pp")["Apple"].count == 2
        assert list(memory.names("%")) == ["100%"]
        assert list(memory.names("r_s")) == ["under_score"]
        assert list(memory.names(limit=2, offset=1)) == sorted(words[:-1])[1:3]
        assert list(memory.names(latest_first=True, limit=2)) == ["Apple", "underscore"]
        assert list(memory.names("nothing")) == []
        assert (memory.info()["names"], memory.info()["teachings"]) == (5, 6)


def test_a_new_name_computes_no_other_length(rng):
    n_names = 2 * live.BLOCK_ROWS + 100
    taught = NearestClassMean().partial_fit(rng.normal(size=(n_names, 4)), np.arange(n_names))
    kept = live.SquaredLengths(taught.moments_)
    before = kept.squares
    taught.learn_one(rng.normal(size=4), n_names)
    kept.follow()
    assert np.shares_memory(before, kept.squares)
    np.testing.assert_allclose(kept.squares, (taught.moments_.means**2).sum(axis=1))


def test_after_some_teachings_a_new_name_copies_no_class_means(
    rng, tmp_path, monkeypatch, many_from_two_names
):
    """Class means mapped from a snapshot have no spare rows."""
    monkeypatch.setattr(class_means, "MANY_CLASSES", 8)
    monkeypatch.setattr(class_means, "ROOM_SLICE", 4)
    centres = rng.normal(size=(31, WIDTH))
    with Memory(tmp_path / "memory") as memory:
        memory.teach_many((vector_of(rng, centres, i % 30), f"name {i % 30}") for i in range(512))
    copied, padded = [], class_means.padded
    monkeypatch.setattr(
        class_means, "padded", lambda array, n: copied.append(array.ndim) or padded(array, n)
    )
    with Memory(tmp_path / "memory") as memory:
        memory.ask(centres[0])
        for step in range(6):
            memory.teach(vector_of(rng, centres, step), f"name {step}")
            memory.ask(centres[step])
        memory.teach(centres[30], "name 30")
        assert "name 30" in [answer.name for answer in memory.ask(centres[30], top=None)]
        assert copied == [1, 1]  # the counts of both learners
        assert memory.verify().ok


def test_the_average_likeness_is_that_over_all_names(rng, many_from_two_names, monkeypatch):
    monkeypatch.setattr(screened, "MANY_ROWS", 2)
    monkeypatch.setattr(screening, "LARGE_SHARE", 2.0)
    names, learner = NearestClassMean(), RecursiveRLSC()
    model = SimpleNamespace(classifier=learner, means=names)
    X, y = unit_rows(rng.normal(size=(90, WIDTH))), rng.integers(0, 25, 90)
    for taught in (names, learner):
        taught.partial_fit(X, y)
    products, x = live.LiveProducts(model), unit_rows(rng.normal(size=(1, WIDTH)))[0]
    for step in range(4):
        familiarity = calibrated.familiarity_of(model)
        near = familiarity.near(x[None])[0]
        found = products.likeness(x, needs_average=True)
        assert found.nearest == near.argmax()
        np.testing.assert_allclose([found.highest, found.average], [near.max(), near.mean()])
        for taught in (names, learner):
            taught.learn_one(X[step], [3, 7, 40, 41][step])
        products.follow()


@pytest.fixture
def with_snapshot(rng, tmp_path, monkeypatch, many_from_two_names):
    """A Memory with a snapshot, and with teachings and forgotten ones after it."""
    centres = rng.normal(size=(31, WIDTH))
    with Memory(tmp_path / "memory") as memory:
        memory.teach_many((vector_of(rng, centres, i % 30), f"name {i % 30}") for i in range(512))
    assert len(snapshots(tmp_path / "memory")) == 1
    with Memory(tmp_path / "memory") as memory:
        for step in range(20):
            memory.teach(vector_of(rng, centres, step), f"name {step}")
        memory.undo()
        memory.teach(centres[30], "name 30")
        memory.ask(centres[0])  # calibrates
    assert len(snapshots(tmp_path / "memory")) == 1
    return tmp_path / "memory", centres


def snapshots(folder):
    return [path for path in folder.glob("snapshot-*") if path.suffix != ".calibration"]


def factor_in(path, changed=None):
    """The factor in a snapshot; ``changed`` replaces it, with a correct digest."""
    head, body = path.read_bytes().split(b"\n", 2)[1:]
    header = json.loads(head)
    start = sum(header["lengths"][:3])
    R = np.frombuffer(body[start:], "<f8").reshape(WIDTH, WIDTH)
    if changed is not None:
        body = body[:start] + changed.tobytes()
        header["lengths"][3] = changed.nbytes
        header["sha256"] = hashlib.sha256(body).hexdigest()
        line = json.dumps(header).encode()
        line += b" " * (-(len(snapshot.MAGIC) + len(line) + 1) % snapshot.ALIGNED)
        path.write_bytes(snapshot.MAGIC + line + b"\n" + body)
    return R


@pytest.fixture
def matrices(monkeypatch):
    """The matrices that were formed."""
    formed, matrix = [], LeastSquares._matrix
    monkeypatch.setattr(LeastSquares, "_matrix", lambda self: formed.append(1) or matrix(self))
    return formed


def test_opening_uses_the_factor_of_the_snapshot(with_snapshot, matrices):
    folder, centres = with_snapshot
    (path,) = snapshots(folder)
    with Memory(folder) as memory:
        ours = answers_of(memory, centres)
        assert not matrices
    with Memory(folder) as memory:
        assert memory.verify().ok
        path.unlink()
    with Memory(folder) as memory:
        theirs = answers_of(memory, centres)
        assert matrices
    for one, other in zip(ours[0], theirs[0], strict=True):
        assert [name for name, _ in one] == [name for name, _ in other]
        np.testing.assert_allclose([p for _, p in one], [p for _, p in other], rtol=1e-9)


@pytest.mark.parametrize(
    ("change", "skipped"),
    [
        (lambda R: np.full_like(R, np.nan), True),
        (lambda R: -R, True),
        (lambda R: R[:-1, :-1].copy(), True),
        (lambda R: R[:-1].copy(), True),
        (lambda R: 1.001 * R, False),
        (lambda R: 1e200 * R, False),
        (lambda R: 1e-200 * R, False),
        (lambda R: R.T @ R, False),
    ],
)
def test_a_factor_of_another_matrix_is_not_used(with_snapshot, matrices, caplog, change, skipped):
    folder, centres = with_snapshot
    with Memory(folder) as memory:
        expected = answers_of(memory, centres)
    (path,) = snapshots(folder)
    factor_in(path, change(factor_in(path)))
    with Memory(folder) as memory:
        found = answers_of(memory, centres)
        assert matrices
    assert ("is skipped" in caplog.text) == skipped
    for one, other in zip(found[0], expected[0], strict=True):
        assert [name for name, _ in one] == [name for name, _ in other]
        np.testing.assert_allclose([p for _, p in one], [p for _, p in other], rtol=1e-9)


def test_verify_finds_a_factor_that_is_right_in_the_compared_direction_alone(with_snapshot):
    folder, _ = with_snapshot
    (path,) = snapshots(folder)
    R = factor_in(path)
    v = np.cos(np.arange(1.0, WIDTH + 1.0))
    w = np.eye(WIDTH)[0] - v[0] / (v @ v) * v
    factor_in(path, np.linalg.cholesky(R.T @ R + np.outer(w, w)).T.copy())
    with Memory(folder) as memory:
        (problem,) = memory.verify().problems
    assert "a snapshot" in problem
