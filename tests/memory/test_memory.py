"""The Memory: teaching, asking, forgetting, undo, and reopening."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from attacks.hostile_images import photograph, saved
from everlearn import (
    ExStream,
    FixedCovarianceLDA,
    InitialWhitening,
    Memory,
    NearestClassMean,
    RecursiveRLSC,
    StreamingLDA,
    StreamPipeline,
)
from everlearn.errors import (
    InvalidInput,
    InvalidLabel,
    InvalidParameter,
    NeverLearned,
    NotExportable,
    NotFinite,
    NothingToUndo,
    NotMergeable,
    OtherName,
    ReadOnlyMemory,
    UnknownLabel,
    WrongEmbedder,
    WrongKind,
    WrongShape,
    WrongWidth,
)
from everlearn.images.embedders import Pixels
from everlearn.memory.model.classifiers import default_classifier
from everlearn.memory.model.head import unit
from tests.memory.conftest import mapped, same_bits, state_of
from tests.memory.oracles import PlainMemory


def answers_of(memory, X):
    return [memory.ask(x)[0].name for x in X]


def test_it_answers_like_its_classifier_taught_directly(tmp_path, clusters):
    X, names = clusters()
    with Memory(tmp_path) as memory:
        memory.teach_many(zip(X, names, strict=True))
        reference = RecursiveRLSC(regularization=0.3, recoding=0.5).fit(mapped(X), names)
        others = clusters()[0]
        assert answers_of(memory, others) == reference.predict(mapped(others)).tolist()
        asked = memory.ask(others[0], top=None)
        assert [answer.name for answer in asked] == [
            reference.classes_[i]
            for i in np.argsort(-reference.decision_function(mapped(others[:1]))[0])
        ]
        assert sum(answer.probability for answer in asked) == pytest.approx(1.0)
        assert len(memory.ask(others[0], top=2)) == 2


def test_before_anything_is_taught_everything_is_unknown(tmp_path):
    with Memory(tmp_path) as memory:
        answers = memory.ask([1.0, 2.0])
        assert answers.unknown
        assert len(answers) == 0
        assert memory.names() == {}
        with pytest.raises(NeverLearned):
            memory.export(tmp_path / "head.onnx")


def test_one_name_is_answered_with_certainty(tmp_path):
    with Memory(tmp_path) as memory:
        memory.teach([1.0, 0.0], "cup")
        assert memory.ask([0.9, 0.1])[0] == memory.ask([1.0, 0.0])[0]
        assert memory.ask([0.9, 0.1])[0].probability == 1.0


def test_closing_and_opening_changes_no_answer(tmp_path, clusters):
    X, names = clusters()
    with Memory(tmp_path) as memory:
        for x, name in zip(X, names, strict=True):
            memory.teach(x, name)
            memory.ask(x)
        before = [memory.ask(x, top=None) for x in X]
        counts = {name: record.count for name, record in memory.names().items()}
    with Memory(tmp_path) as memory:
        for old, x in zip(before, X, strict=True):
            new = memory.ask(x, top=None)
            assert [a.name for a in new] == [a.name for a in old]
            assert new.unknown == old.unknown
            assert np.allclose(
                [a.probability for a in new], [a.probability for a in old], atol=0.05
            )
        assert {name: record.count for name, record in memory.names().items()} == counts


def test_the_same_example_is_one_teaching_unless_asked_otherwise(tmp_path):
    with Memory(tmp_path) as memory:
        assert memory.teach([1.0, 2.0], "cup")
        assert not memory.teach([1.0, 2.0], "cup")
        with pytest.raises(OtherName, match="already taught as 'cup'"):
            memory.teach([1.0, 2.0], "mug")
        assert list(memory.names()) == ["cup"]
        assert memory.teach([1.0, 2.0], "mug", also=True)
        assert memory.names()["cup"].count == 1
        assert memory.teach([1.0, 2.0], "cup", again=True)
        assert memory.names()["cup"].count == 2
        memory.forget(name="cup")
        assert memory.teach([1.0, 2.0], "cup", also=True)
    with Memory(tmp_path) as memory:
        assert not memory.teach([1.0, 2.0], "cup")


def test_names_list_when_they_were_last_taught(tmp_path):
    with Memory(tmp_path) as memory:
        memory.teach([1.0, 0.0], "cup")
        memory.teach([0.0, 1.0], "pen")
        memory.teach([1.0, 0.1], "cup")
        names = memory.names()
        assert list(names) == ["cup", "pen"]
        assert names["cup"].last_taught >= names["pen"].last_taught > 1.7e9


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("teach"), st.integers(0, 11), st.sampled_from("abc")),
        st.tuples(st.just("forget name"), st.sampled_from("abc")),
        st.tuples(st.just("forget source"), st.sampled_from(["/x", "/y"])),
        st.tuples(st.just("rename"), st.sampled_from("abc"), st.sampled_from("abcd")),
        st.tuples(st.just("undo")),
        st.tuples(st.just("undo")),
        st.tuples(st.just("redo")),
        st.tuples(st.just("erase"), st.sampled_from("abc")),
        st.tuples(st.just("reopen")),
    ),
    min_size=3,
    max_size=18,
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(actions=ACTIONS)
def test_any_sequence_of_changes_equals_the_plain_list(tmp_path_factory, actions):
    pool = np.random.default_rng(5).normal(size=(12, 5)).astype(np.float32)
    folder = tmp_path_factory.mktemp("memory")
    plain = PlainMemory()
    memory = Memory(folder, classifier=NearestClassMean())
    try:
        for action, *values in actions:
            if action == "teach":
                vector, source = pool[values[0]], "/x" if values[0] % 2 else "/y"
                new = memory.teach(vector, values[1], source=source, also=True)
                assert new == plain.teach(tuple(vector.tolist()), values[1], source)
            elif action == "reopen":
                memory.close()
                memory = Memory(folder)
            elif action in ("undo", "redo"):
                if plain.before if action == "undo" else plain.undone:
                    getattr(memory, action)()
                    getattr(plain, action)()
                else:
                    with pytest.raises(NothingToUndo):
                        getattr(memory, action)()
            elif action == "erase":
                if values[0] in plain.counts():
                    memory.forget(name=values[0], erase=True)
                    plain.erase(values[0])
            elif action == "rename":
                if values[0] in plain.counts() and values[0] != values[1]:
                    memory.rename(*values)
                    plain.rename(*values)
            else:
                key = "name" if action == "forget name" else "source"
                position = 1 if key == "name" else 2
                if any(known[position] == values[0] for known in plain.taught):
                    memory.forget(**{key: values[0]})
                    plain.forget(**{key: values[0]})
                else:
                    with pytest.raises(UnknownLabel):
                        memory.forget(**{key: values[0]})
        counts = {name: record.count for name, record in memory.names().items()}
        assert counts == plain.counts()
        assert memory.verify().problems == ()
        if counts:
            X, names = plain.matrix()
            reference = NearestClassMean().fit(unit(X), names)
            scores = reference.decision_function(unit(pool))
            if scores.ndim == 2:
                clear = np.sort(scores, axis=1)
                sure = clear.shape[1] == 1 or clear[:, -1] - clear[:, -2] > 1e-6
                expected = reference.predict(unit(pool))
                for x, name, certain in zip(pool, expected, np.broadcast_to(sure, 12), strict=True):
                    assert not certain or memory.ask(x)[0].name == name
    finally:
        memory.close()


@pytest.mark.parametrize(
    "classifier", [NearestClassMean(), StreamingLDA(shrinkage=0.1), RecursiveRLSC()]
)
def test_forgetting_equals_never_having_taught(tmp_path, clusters, classifier):
    X, names = clusters()
    keep = [name != "class 2" for name in names]
    with Memory(tmp_path / "a", classifier=classifier) as memory:
        memory.teach_many(zip(X, names, strict=True))
        assert memory.forget("class 2").count == 6
        with Memory(tmp_path / "b", classifier=classifier) as never:
            never.teach_many((x, n) for x, n, k in zip(X, names, keep, strict=True) if k)
            assert answers_of(memory, X) == answers_of(never, X)
            assert "class 2" not in memory.names()


def test_erasing_equals_never_having_taught_bit_for_bit(tmp_path, clusters):
    X, names = clusters(each=80)
    secret = np.full(16, 0.123456, dtype=np.float32)
    with Memory(tmp_path / "a") as memory, Memory(tmp_path / "b") as never:
        memory.teach_many(zip(X[:300], names[:300], strict=True))
        memory.teach(secret, "secret name", source="/secret/place.jpg")
        never.teach_many(zip(X[:300], names[:300], strict=True))
        assert memory.forget(name="secret name", erase=True).count == 1
        arrays, _ = state_of(memory)
        others, _ = state_of(never)
        assert all(np.array_equal(arrays[key], others[key]) for key in arrays)
    files = b"".join(path.read_bytes() for path in (tmp_path / "a").iterdir())
    for trace in (secret.tobytes(), b"secret name", b"/secret/place.jpg"):
        assert trace not in files


def test_renaming_to_an_existing_name_merges_them(tmp_path, clusters):
    X, names = clusters()
    with Memory(tmp_path) as memory:
        memory.teach_many(zip(X, names, strict=True))
        memory.rename("class 0", "class 1")
        assert memory.names()["class 1"].count == 12
        together = ["class 1" if name == "class 0" else name for name in names]
        reference = RecursiveRLSC(regularization=0.3, recoding=0.5).fit(mapped(X), together)
        assert answers_of(memory, X) == reference.predict(mapped(X)).tolist()
        assert memory.undo().kind == "rename"
        assert memory.names()["class 0"].count == 6


def test_undoing_a_rename_after_the_old_name_was_used_again(tmp_path):
    with Memory(tmp_path) as memory:
        memory.teach([1.0, 0.0], "cup")
        memory.rename("cup", "mug")
        memory.teach([0.0, 1.0], "cup")
        assert memory.undo().kind == "teach"
        assert memory.undo().kind == "rename"
        assert list(memory.names()) == ["cup"]
        assert memory.ask([1.0, 0.0])[0].name == "cup"


def test_many_taught_together_are_undone_together(tmp_path, clusters):
    X, names = clusters(each=40)
    with Memory(tmp_path) as memory:
        memory.teach([1.0] * 16, "first")
        memory.teach_many(zip(X, names, strict=True))
        assert memory.undo().kind == "teach"
        assert list(memory.names()) == ["first"]


@pytest.mark.parametrize(
    "classifier", [NearestClassMean(metric="cosine"), StreamingLDA(shrinkage="oas")]
)
def test_another_classifier_learns_everything_from_the_journal(tmp_path, clusters, classifier):
    X, names = clusters()
    with Memory(tmp_path) as memory:
        memory.teach_many(zip(X, names, strict=True))
        memory.forget(name="class 3")
        memory.use(classifier=classifier)
        rest = [(x, n) for x, n in zip(X, names, strict=True) if n != "class 3"]
        reference = classifier.fit(unit(np.array([x for x, _ in rest])), [n for _, n in rest])
        assert answers_of(memory, X) == reference.predict(unit(X)).tolist()
    with Memory(tmp_path) as memory:
        assert answers_of(memory, X) == reference.predict(unit(X)).tolist()
        assert type(classifier).__name__ in memory.info()["classifier"]


@pytest.mark.parametrize(
    "of_width",
    [
        lambda width: FixedCovarianceLDA(base=np.eye(width)),
        lambda width: StreamingLDA(start_covariance=np.eye(width)),
        lambda width: StreamingLDA(start_covariance=np.ones(width)),
    ],
)
def test_a_classifier_for_vectors_of_one_length_has_to_fit_those_of_the_memory(
    tmp_path, clusters, of_width
):
    """Refused before the change: afterwards the Memory could not be asked."""
    with pytest.raises(InvalidParameter, match="teach first"):
        Memory(tmp_path / "empty", classifier=of_width(4))
    pairs = list(zip(*clusters(), strict=True))
    width = len(pairs[0][0])
    with Memory(tmp_path / "memory") as memory:
        memory.teach_many(pairs)
        before = memory.info()["classifier"]
        for other in (4, 5, width + 1):
            with pytest.raises(InvalidParameter, match=f"for {width} features"):
                memory.use(classifier=of_width(other))
        assert memory.info()["classifier"] == before
        memory.use(classifier=of_width(width))
        assert memory.ask(pairs[0][0])[0].name == pairs[0][1]


def test_a_classifier_too_large_to_be_stored_is_refused_in_one_line(tmp_path):
    with Memory(tmp_path / "memory") as memory:
        memory.teach(np.ones(1500), "cup")
        before = memory.info()["classifier"]
        with pytest.raises(InvalidParameter, match="its parameters take 22 MB") as refused:
            memory.use(classifier=StreamingLDA(start_covariance=np.eye(1500)))
        assert len(str(refused.value)) < 500
        assert "\n" not in str(refused.value)
        assert memory.info()["classifier"] == before


def test_vectors_too_long_for_this_machine_are_refused_before_the_write(tmp_path):
    """A matrix of the length squared would take 300 GB; afterwards nothing could be asked."""
    long = np.ones(200_000, dtype=np.float32)
    with Memory(tmp_path / "memory") as memory:
        with pytest.raises(InvalidInput, match=r"200,000 features takes about [0-9,]+ GB"):
            memory.teach(long, "cup")
        with pytest.raises(InvalidInput, match="use mean"):
            memory.teach_many([(long, "cup")])
        assert memory.info()["log_entries"] == 0
        memory.use(classifier="mean")
        memory.teach(long, "cup")
    with Memory(tmp_path / "memory") as memory:
        assert memory.ask(long)[0].name == "cup"


def test_a_classifier_that_cannot_forget_is_retrained(tmp_path, clusters):
    X, names = clusters()
    rehearsing = ExStream(n_prototypes=4, learning_rate=0.1)
    with Memory(tmp_path, classifier=rehearsing) as memory:
        memory.teach_many(zip(X, names, strict=True))
        memory.ask(X[0])
        memory.forget(name="class 1")
        rest = [(x, n) for x, n in zip(X, names, strict=True) if n != "class 1"]
        rehearsing.fit(unit(np.array([x for x, _ in rest])), [n for _, n in rest])
        assert answers_of(memory, X) == rehearsing.predict(unit(X)).tolist()


def test_an_existing_folder_keeps_its_classifier(tmp_path):
    Memory(tmp_path).close()
    with pytest.raises(InvalidParameter, match="use"):
        Memory(tmp_path, classifier=NearestClassMean())
    Memory(tmp_path, classifier=default_classifier()).close()


def test_merging_equals_teaching_both(tmp_path, clusters):
    X, names = clusters()
    with (
        Memory(tmp_path / "a") as one,
        Memory(tmp_path / "b") as two,
        Memory(tmp_path / "c") as both,
    ):
        one.teach_many(zip(X[:14], names[:14], strict=True))
        two.teach_many(zip(X[10:], names[10:], strict=True))
        both.teach_many(zip(X, names, strict=True))
        assert one.merge(two) == 10
        assert {n: r.count for n, r in one.names().items()} == {
            n: r.count for n, r in both.names().items()
        }
        assert answers_of(one, X) == answers_of(both, X)
        assert one.undo().kind == "merge"
        assert sum(record.count for record in one.names().values()) == 14
        with pytest.raises(NotMergeable, match="itself"):
            one.merge(one)
    with Memory(tmp_path / "a") as one:
        assert one.merge(tmp_path / "b") == 10


def test_images_of_all_kinds_are_the_same_example(tmp_path):
    picture = photograph(64)
    path = tmp_path / "picture.png"
    path.write_bytes(saved(picture, "PNG"))
    with Memory(tmp_path / "memory", embedder=Pixels(size=8)) as memory:
        memory.teach(path, "pattern")
        assert not memory.teach(path.read_bytes(), "pattern")
        memory.teach(np.asarray(photograph(64).rotate(90)), "turned")
        memory.teach(photograph(64).rotate(180), "upside down")
        assert memory.ask(picture)[0].name == "pattern"
        assert memory.ask(np.asarray(picture))[0].name == "pattern"
        assert memory.ask(Image.open(path))[0].name == "pattern"


def test_forgetting_by_file_folder_or_picture(tmp_path):
    for name, angle in (("a", 0), ("b", 90), ("c", 180)):
        (tmp_path / name).mkdir()
        for index in range(2):
            image = photograph(40 + index).rotate(angle)
            (tmp_path / name / f"{index}.png").write_bytes(saved(image, "PNG"))
    files = sorted(tmp_path.glob("*/*.png"))
    with Memory(tmp_path / "memory", embedder=Pixels(size=6)) as memory:
        memory.teach_many((path, path.parent.name) for path in files)
        moved = tmp_path / "elsewhere.png"
        moved.write_bytes((tmp_path / "c" / "1.png").read_bytes())
        assert memory.forget(tmp_path / "a" / "0.png").count == 1
        assert memory.forget(tmp_path / "b").count == 2
        assert memory.forget(moved).count == 1
        assert {name: r.count for name, r in memory.names().items()} == {"a": 1, "c": 1}
        memory.teach([0.5] * 36, str(tmp_path / "c"))
        with pytest.raises(InvalidInput, match="name= or source="):
            memory.forget(str(tmp_path / "c"))
        assert memory.forget(source=str(tmp_path / "c")).count == 1


def test_an_unreadable_image_does_not_stop_the_others(tmp_path):
    good, bad = tmp_path / "good.png", tmp_path / "bad.png"
    good.write_bytes(saved(photograph(30), "PNG"))
    bad.write_bytes(b"no image")
    outcomes = []
    with Memory(tmp_path / "memory", embedder=Pixels(size=4)) as memory:
        summary = memory.teach_many(
            [(bad, "x"), (good, "x"), (good, "x")], acknowledge=outcomes.append
        )
        assert (summary.taught, summary.repeated, summary.unreadable) == (1, 1, 1)
        assert [outcome.taught for outcome in outcomes] == [False, True, False]
        assert "bad.png" in str(outcomes[0].error)
        answers = list(memory.ask_many([good, bad]))
        assert answers[0][0].name == "x"
        assert isinstance(answers[1], InvalidInput)


@pytest.mark.parametrize(
    ("example", "name", "error"),
    [
        ([1.0, np.nan], "x", NotFinite),
        ([1.0, 1e39], "x", NotFinite),
        ([1.0, 2.0, 3.0], "x", WrongWidth),
        ([[1.0, 2.0], [3.0, 4.0]], "x", WrongShape),
        ([[1.0], [3.0, 4.0]], "x", WrongShape),
        ([], "x", WrongShape),
        (["a", "b"], "x", WrongKind),
        (object(), "x", WrongKind),
        ([1.0, 2.0], "", InvalidLabel),
        ([1.0, 2.0], "  ", InvalidLabel),
        ([1.0, 2.0], "two\nlines", InvalidLabel),
        ([1.0, 2.0], "x" * 201, InvalidLabel),
        ([1.0, 2.0], 7, InvalidLabel),
    ],
)
def test_a_bad_example_changes_nothing(tmp_path, example, name, error):
    with Memory(tmp_path) as memory:
        memory.teach([1.0, 0.0], "cup")
        before = memory.info(), state_of(memory)
        with pytest.raises(error):
            memory.teach(example, name)
        with pytest.raises(error):
            memory.teach_many([(example, name)])
        assert memory.info() == before[0]
        assert same_bits(state_of(memory), before[1])


def test_impossible_forgets_and_renames_raise_a_named_error(tmp_path):
    with Memory(tmp_path) as memory:
        memory.teach([1.0, 0.0], "cup")
        with pytest.raises(UnknownLabel, match="'pen'"):
            memory.forget("pen")
        with pytest.raises(UnknownLabel, match="known names: 'cup'"):
            memory.rename("pen", "pencil")
        with pytest.raises(NeverLearned):
            memory.forget([0.0, 1.0])
        with pytest.raises(InvalidInput, match="say what"):
            memory.forget()
        with pytest.raises(InvalidInput, match="only one thing"):
            memory.forget([1.0, 0.0], name="cup")
        assert memory.forget([1.0, 0.0]).count == 1


@pytest.mark.parametrize("wrong", [7, ["cup"], b"cup", object()])
def test_a_name_that_is_no_string_is_refused(tmp_path, wrong):
    """Without a database error, which would say that the journal is damaged."""
    with Memory(tmp_path) as memory:
        memory.teach([1.0, 0.0], "cup")
        for ask in (
            lambda: memory.forget(name=wrong),
            lambda: memory.forget(source=wrong),
            lambda: memory.forget(name=wrong, erase=True),
            lambda: memory.would_forget(name=wrong),
            lambda: memory.names(wrong),
            lambda: memory.teachings(wrong),
            lambda: memory.similar_name(wrong),
            lambda: memory.why([1.0, 0.0], wrong),
        ):
            with pytest.raises(WrongKind, match="is a string, not"):
                ask()
        assert memory.names()["cup"].count == 1


@pytest.mark.parametrize("wrong", ["x", "0.5", 0.0, 1.0, -1, float("nan"), True, 1j, [0.5]])
def test_accept_is_a_share(tmp_path, wrong):
    with pytest.raises(InvalidParameter, match="accept must be a share between 0 and 1"):
        Memory(tmp_path / "new", accept=wrong)
    assert not (tmp_path / "new").exists()
    with Memory(tmp_path / "m") as memory:
        with pytest.raises(InvalidParameter, match="accept must be a share between 0 and 1"):
            memory.set_accept(wrong)
        assert memory.accept == 0.95


def test_vectors_of_different_embedders_are_refused(tmp_path):
    picture = np.asarray(photograph(30))
    with Memory(tmp_path, embedder=Pixels(size=4)) as memory:
        memory.teach(picture, "pattern")
    with Memory(tmp_path, embedder=Pixels(size=8)) as memory:
        with pytest.raises(WrongEmbedder, match="pixels 4"):
            memory.teach(picture, "pattern")
        with pytest.raises(WrongEmbedder):
            memory.ask(picture)


def test_a_reader_sees_later_teachings(tmp_path, clusters):
    X, names = clusters()
    with Memory(tmp_path) as writer:
        writer.teach(X[0], names[0])
        with Memory(tmp_path, read_only=True) as reader:
            assert reader.ask(X[0])[0].name == names[0]
            for action in (
                lambda: reader.teach(X[1], "x"),
                lambda: reader.forget(names[0]),
                lambda: reader.undo(),
                lambda: reader.rename("a", "b"),
                lambda: reader.use(classifier=NearestClassMean()),
            ):
                with pytest.raises(ReadOnlyMemory):
                    action()
            writer.teach_many(zip(X, names, strict=True))
            assert answers_of(reader, X) == answers_of(writer, X)
            writer.rename(names[0], "another")
            assert "another" in [a.name for a in reader.ask(X[0], top=None)]
            writer.use(classifier=NearestClassMean())
            writer.forget(name="another", erase=True)
            assert answers_of(reader, X) == answers_of(writer, X)


@pytest.fixture
def reader_of_restored(tmp_path, restore_between_words):
    """A reader of three names; only the first is left after two of them were read."""
    with Memory(tmp_path / "m") as writer:
        for number, (x, name) in enumerate(zip(np.eye(3), ("cup", "pen", "jar"), strict=True)):
            writer.teach(x, name)
            if not number:
                writer.backup(tmp_path / "backup")
    with Memory(tmp_path / "m", read_only=True) as reader:
        restore_between_words(tmp_path / "backup", tmp_path / "m")
        yield reader


def test_a_reader_answers_while_a_backup_is_restored(reader_of_restored):
    """The journal is not damaged: its new state has no word for a name of the old."""
    answers = reader_of_restored.ask([0.0, 1.0, 0.0], top=None)
    assert [(answer.name, answer.probability) for answer in answers] == [("cup", 1.0)]


def test_a_reader_exports_while_a_backup_is_restored(reader_of_restored, tmp_path):
    onnx = pytest.importorskip("onnx")
    reader_of_restored.export(tmp_path / "model.onnx")
    facts = onnx.load(tmp_path / "model.onnx").metadata_props
    assert [fact.value for fact in facts if fact.key == "names"] == ['["cup"]']


def test_photographs(tmp_path, photographs):
    """With five photographs per class the others are recognised; nothing was tuned on them."""
    with Memory(tmp_path) as memory:
        taught = sorted(photographs.glob("[c-e]*/image_000[1-5].jpg"))
        memory.teach_many((path, path.parent.name) for path in taught)
        asked = sorted(photographs.glob("[c-e]*/image_001*.jpg"))
        answers = list(memory.ask_many(asked))
        right = [a[0].name == path.parent.name for a, path in zip(answers, asked, strict=True)]
        assert len(asked) == 40
        assert np.mean(right) > 0.9
        others = list(memory.ask_many(sorted(photographs.glob("[p-w]*/image_001[0-3].jpg"))))
        assert np.mean([a.unknown for a in others]) > np.mean([a.unknown for a in answers]) + 0.5


def test_a_pipeline_is_asked_like_any_classifier(tmp_path, clusters):
    """Calibration asks a classifier for its temperature, an answer for its linear head."""
    X, names = clusters()
    others = clusters()[0]

    def whitened(learner):
        return StreamPipeline([("whiten", InitialWhitening()), ("learner", learner)])

    with Memory(tmp_path, classifier=whitened(RecursiveRLSC())) as memory:
        memory.teach_many(zip(X, names, strict=True))
        reference = whitened(RecursiveRLSC()).fit(unit(X), names)
        assert answers_of(memory, others) == reference.predict(unit(others)).tolist()
        before = [memory.ask(x)[0].probability for x in others]
        with pytest.raises(NotExportable, match="StreamPipeline is not a linear function"):
            memory.export(tmp_path / "head.onnx")
    with Memory(tmp_path, read_only=True) as again:
        assert [again.ask(x)[0].probability for x in others] == pytest.approx(before)
