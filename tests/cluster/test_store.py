import os
from pathlib import Path

import numpy as np
import pytest

from everlearn import ExStream, NearestClassMean, StreamingLDA, load, save
from everlearn.cluster import Entry, ShardedModel, fit, unlearn
from everlearn.cluster.listing import listed
from everlearn.cluster.plan import fixed_runs, planned
from everlearn.cluster.store import PARTS, SHARDS, CheckpointStore
from everlearn.errors import (
    AlreadyLearned,
    BadShard,
    CannotWrite,
    DamagedModel,
    InvalidParameter,
    NeverLearned,
    NotKept,
    NotMergeable,
)
from everlearn.persistence import dumps
from tests.cluster.conftest import write_shards


def assert_equal_statistics(ours, theirs, tolerance=1e-8):
    assert ours.classes_.tolist() == theirs.classes_.tolist()
    a, b = (learner._state()[0] for learner in (ours, theirs))
    order_a, order_b = ours.registry_.order, theirs.registry_.order
    np.testing.assert_allclose(a["counts"][order_a], b["counts"][order_b], rtol=tolerance)
    np.testing.assert_allclose(a["means"][order_a], b["means"][order_b], rtol=0, atol=tolerance)
    size = np.abs(b["scatter"]).max()
    np.testing.assert_allclose(a["scatter"] / size, b["scatter"] / size, rtol=0, atol=tolerance)


def part_of(X, y, *identities):
    return ShardedModel(
        NearestClassMean().fit(X, y), {name: Entry(len(X)) for name in identities}, "j"
    )


@pytest.fixture(params=["folder", "memory"])
def checkpoint(request, tmp_path):
    """A folder, and an object store as fsspec has one in memory."""
    return str(tmp_path / "checkpoint") if request.param == "folder" else f"memory://{tmp_path}"


def test_a_saved_sharded_model_has_its_ledger(tmp_path, rng):
    part = part_of(rng.normal(size=(9, 3)), np.arange(9) % 3, "a\n1\n", "b\n2\n")
    part.ledger["c\n3\n"] = Entry(0, ("not learned: it is empty",))
    save(part, tmp_path / "model")
    back = load(tmp_path / "model")
    assert back.ledger == part.ledger
    assert back.bad == {"c": ("not learned: it is empty",)}
    assert dumps(back.learner) == dumps(part.learner)


def test_a_file_without_a_learner_is_damaged(tmp_path):
    empty = ShardedModel(ShardedModel(NearestClassMean()))
    save(empty, tmp_path / "model")
    with pytest.raises(DamagedModel):
        load(tmp_path / "model")


def test_a_shard_in_both_is_never_added_twice(rng):
    X, y = rng.normal(size=(9, 3)), np.arange(9) % 3
    whole = part_of(X, y, "a\n1\n1970")
    before = dumps(whole)
    for same in ("a\n1\n1970", "a\n1\n2026"):
        with pytest.raises(AlreadyLearned, match="a is part of both"):
            whole.merge(part_of(X, y, same))
        assert dumps(whole) == before
    with pytest.raises(NotMergeable):
        whole.merge(ShardedModel(NearestClassMean().fit(X, y), {"b": Entry(9)}, "another job"))


def test_a_finished_fit_is_not_repeated(reference, shards, checkpoint):
    first = fit(StreamingLDA(), shards.paths, checkpoint=checkpoint)
    reference.done.clear()
    again = fit(StreamingLDA(), shards.paths, checkpoint=checkpoint)
    assert dumps(again) == dumps(first)
    assert not reference.done
    assert len(CheckpointStore(checkpoint).names()) == 1


def test_only_a_changed_shard_is_read_again(reference, shards, tmp_path):
    checkpoint = str(tmp_path / "checkpoint")
    fit(StreamingLDA(), shards.paths, checkpoint=checkpoint, keep_shards=True)
    np.savez(shards.paths[2], X=shards.X[:5], y=shards.y[:5])
    others = [path for i, path in enumerate(shards.paths) if i != 2]
    for path in others:
        mtime = os.stat(path)
        with open(path, "r+b") as file:
            file.write(b"XX")
        os.utime(path, ns=(mtime.st_atime_ns, mtime.st_mtime_ns))
    trained = fit(StreamingLDA(), shards.paths, checkpoint=checkpoint, keep_shards=True)
    kept = np.ones(len(shards.X), dtype=bool)
    kept[120:180] = False
    X, y = (np.concatenate([a[kept], a[:5]]) for a in (shards.X, shards.y))
    assert_equal_statistics(trained.learner, StreamingLDA().fit(X, y))


def test_parts_are_not_shared_between_parameters(reference, shards, checkpoint):
    for learner in (StreamingLDA(), StreamingLDA(shrinkage=0.5)):
        reference.done = []
        trained = fit(learner, shards.paths, checkpoint=checkpoint)
        assert reference.done
        assert trained.learner.shrinkage == learner.shrinkage


def test_a_damaged_part_is_removed_and_recomputed(reference, shards, checkpoint):
    def interrupt(progress):
        if progress.shards == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(StreamingLDA(), shards.paths, checkpoint=checkpoint, progress=interrupt)
    store = CheckpointStore(checkpoint)
    for name in store.names():
        store.write(name, b"\0" * 100)
    trained = fit(StreamingLDA(), shards.paths, checkpoint=checkpoint)
    assert_equal_statistics(trained.learner, StreamingLDA().fit(shards.X, shards.y))


@pytest.mark.parametrize("learner", [None, NearestClassMean(), StreamingLDA(shrinkage=0.9)])
def test_a_part_with_another_learner_is_recomputed(reference, shards, checkpoint, learner):
    """Although its job, ledger and number of rows are right: the digest of a job can be copied."""
    finished = fit(StreamingLDA(), shards.paths, checkpoint=checkpoint)
    if learner is not None:
        learner.fit(shards.X, shards.y)
    store = CheckpointStore(checkpoint)
    (name,) = store.names()
    store.write(name, dumps(ShardedModel(learner, finished.ledger, finished.job)))
    again = fit(StreamingLDA(), shards.paths, checkpoint=checkpoint)
    assert dumps(again) == dumps(finished)


def test_a_model_does_not_merge_with_images_that_were_only_embedded():
    model = part_of(np.eye(3), ["a", "b", "c"], "a\n1\n")
    before = dumps(model)
    embedded = ShardedModel(None, {"b\n2\n": Entry(3)}, "j")
    with pytest.raises(NotMergeable, match="embedded only"):
        model.merge(embedded)
    with pytest.raises(NotMergeable, match="embedded only"):
        embedded.merge(model)
    assert dumps(model) == before
    with pytest.raises(NotMergeable, match="embedded only"):
        model.unmerge(ShardedModel(None, {"a\n1\n": Entry(3)}, "j"))


def test_a_late_task_of_a_cancelled_run_does_no_harm(reference, shards, tmp_path):
    """The late task makes parts that this run is about to make, and removes their inputs."""
    checkpoint = str(tmp_path / "checkpoint")

    def interrupt(progress):
        if progress.shards == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(StreamingLDA(), shards.paths, checkpoint=checkpoint, progress=interrupt)
    start, others = reference.start, []

    def start_after_the_other_run(task, inputs):
        if not others:
            others.append(reference.__class__())
            reference.start = start
            run_beside(others[0], reference.job, shards, checkpoint)
        start(task, inputs)

    reference.start = start_after_the_other_run
    trained = fit(StreamingLDA(), shards.paths, checkpoint=checkpoint)
    assert others
    assert trained.rows == len(shards.X)
    assert_equal_statistics(trained.learner, StreamingLDA().fit(shards.X, shards.y))


def run_beside(engine, job, shards, checkpoint):
    stored = CheckpointStore(checkpoint).names()
    engine.run(job, planned(job.digest, fixed_runs(listed(shards.paths)), stored), lambda _: None)


def test_an_incomplete_part_is_not_stored(reference, shards, tmp_path):
    checkpoint = str(tmp_path / "checkpoint")
    broken = shards.paths[0]
    whole = Path(broken).read_bytes()
    about = os.stat(broken)
    with open(broken, "r+b") as file:
        file.write(b"\0" * 400)
    os.utime(broken, ns=(about.st_atime_ns, about.st_mtime_ns))
    skipped = fit(StreamingLDA(), shards.paths, checkpoint=checkpoint, on_bad="skip")
    assert list(skipped.bad) == [broken]
    with open(broken, "wb") as file:
        file.write(whole)
    os.utime(broken, ns=(about.st_atime_ns, about.st_mtime_ns))
    trained = fit(StreamingLDA(), shards.paths, checkpoint=checkpoint, on_bad="skip")
    assert not trained.bad
    assert_equal_statistics(trained.learner, StreamingLDA().fit(shards.X, shards.y))


def test_unlearning_a_shard_equals_never_having_learned_it(reference, shards, checkpoint):
    trained = fit(StreamingLDA(), shards.paths, checkpoint=checkpoint, keep_shards=True)
    assert unlearn(trained, shards.paths[7], checkpoint) == [shards.paths[7]]
    rest = np.ones(len(shards.X), dtype=bool)
    rest[7 * 60 : 8 * 60] = False
    assert_equal_statistics(trained.learner, StreamingLDA().fit(shards.X[rest], shards.y[rest]))
    assert shards.paths[7] not in trained.addresses
    with pytest.raises(NeverLearned):
        unlearn(trained, shards.paths[7], checkpoint)


def test_shards_are_unlearned_by_a_pattern_and_erased(reference, tmp_path, monkeypatch):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "ours").mkdir()
    ours = write_shards(tmp_path / "ours", 4, seed=1)
    theirs = write_shards(tmp_path / "theirs", 5, seed=2)
    checkpoint = str(tmp_path / "checkpoint")
    trained = fit(
        StreamingLDA(), ours.paths + theirs.paths, checkpoint=checkpoint, keep_shards=True
    )
    monkeypatch.chdir(tmp_path)
    assert unlearn(trained, "theirs/*", checkpoint) == theirs.paths
    assert_equal_statistics(trained.learner, StreamingLDA().fit(ours.X, ours.y))
    assert len(CheckpointStore(checkpoint).names(SHARDS)) == 4


def test_unlearning_nothing_changes_nothing(reference, shards, checkpoint):
    model = fit(NearestClassMean(), shards.paths, checkpoint=checkpoint, keep_shards=True)
    assert unlearn(model, [], checkpoint) == []
    assert len(model.ledger) == len(shards.paths)


def test_a_shard_that_was_not_kept_cannot_be_unlearned(reference, shards, checkpoint):
    trained = fit(StreamingLDA(), shards.paths, checkpoint=checkpoint)
    before = dumps(trained)
    with pytest.raises(NotKept, match="keep_shards"):
        unlearn(trained, shards.paths[:2], checkpoint)
    assert dumps(trained) == before


def test_a_part_that_cannot_be_stored_ends_the_fit(reference, shards, tmp_path):
    (tmp_path / "checkpoint").write_text("a file where a folder should be")
    with pytest.raises((CannotWrite, NotADirectoryError)):
        fit(StreamingLDA(), shards.paths, checkpoint=str(tmp_path / "checkpoint"))


def test_results_of_two_fits_merge(reference, shards):
    first = fit(StreamingLDA(), shards.paths[:4])
    first.merge(fit(StreamingLDA(), shards.paths[4:]))
    assert_equal_statistics(first.learner, StreamingLDA().fit(shards.X, shards.y))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"on_bad": "ignore"}, InvalidParameter),
        ({"keep_shards": True}, InvalidParameter),
        ({"checkpoint": "memory://x", "deterministic": False}, InvalidParameter),
        ({"engine": "carrier pigeon"}, InvalidParameter),
        ({"engine": "dask", "workers": 2}, InvalidParameter),
        ({"embedder": "unheard-of"}, InvalidParameter),
    ],
)
def test_arguments_are_checked_before_anything_starts(shards, arguments, error):
    with pytest.raises(error):
        fit(StreamingLDA(), shards.paths, **arguments)


def test_learners_without_an_exact_sum_are_refused(shards):
    with pytest.raises(NotMergeable, match="exact sum"):
        fit(ExStream(), shards.paths)


def test_a_checkpoint_has_two_folders():
    assert {PARTS, SHARDS} == {"parts", "shards"}


def test_a_bad_row_rejects_its_shard(reference, tmp_path):
    X = np.ones((5, 2))
    X[3] = np.nan
    np.savez(tmp_path / "a.npz", X=X, y=np.arange(5) % 2)
    with pytest.raises(BadShard, match=r"a\.npz: not learned: .*NaN"):
        fit(NearestClassMean(), str(tmp_path))
