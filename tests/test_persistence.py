import contextlib
import json
import os
import stat
import threading

import numpy as np
import pytest
import safetensors.numpy
from sklearn.base import clone

import everlearn
from everlearn import NearestClassMean, RecursiveRLSC, StreamingLDA, load, persistence, save
from everlearn.errors import (
    CannotRead,
    CannotSave,
    CannotWrite,
    DamagedModel,
    EverlearnError,
    InvalidParameter,
    NewerFormat,
    NotAModel,
)
from everlearn.persistence import digest_of
from tests.contract.learners import LEARNERS, OTHER_LEARNERS


@pytest.fixture
def taught(rng):
    X = rng.normal(size=(40, 5))
    y = np.array(["ä", "b", "c", "d"])[rng.integers(0, 4, 40)]
    return StreamingLDA(shrinkage=0.25, class_scatter=True).fit(X, y)


@pytest.fixture
def path(tmp_path, taught):
    path = tmp_path / "model.everlearn"
    save(taught, path)
    return path


@pytest.mark.parametrize("learner", LEARNERS + OTHER_LEARNERS, ids=repr)
def test_statistics_are_restored_bit_for_bit(learner, rng, tmp_path):
    X, y = rng.normal(size=(40, 5)), rng.integers(-2, 3, 40)
    learner = clone(learner).fit(X, y)
    save(learner, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert repr(loaded) == repr(learner)
    assert loaded.classes_.tolist() == learner.classes_.tolist()
    ours, theirs = learner._state()[0], loaded._state()[0]
    assert ours.keys() == theirs.keys()
    for key in ours:
        np.testing.assert_array_equal(ours[key], theirs[key])
    assert loaded.predict(X).tolist() == learner.predict(X).tolist()


def test_equal_learners_have_equal_files(taught):
    files = {persistence.dumps(persistence.loads(persistence.dumps(taught))) for _ in range(8)}
    assert files == {persistence.dumps(taught)}


def test_array_parameters_are_restored(tmp_path, rng):
    learner = RecursiveRLSC(regularization="auto", candidates=np.array([1.0, 10.0]))
    save(learner.fit(rng.normal(size=(20, 3)), np.arange(20) % 3), tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").candidates, [1.0, 10.0])


def test_feature_names_are_restored(tmp_path):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"width": [1.0, 2.0], "height": [3.0, 5.0]})
    save(NearestClassMean().fit(table, ["a", "b"]), tmp_path / "model")
    assert load(tmp_path / "model").predict(table).tolist() == ["a", "b"]
    assert load(tmp_path / "model").feature_names_in_.tolist() == ["width", "height"]


def test_a_file_is_plain_safetensors_with_a_readable_description(path):
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        metadata = json.loads(file.read(length))["__metadata__"]
    assert metadata["format"] == "everlearn"
    assert metadata["version"] == "1"
    assert metadata["learner"] == "StreamingLDA"
    description = json.loads(metadata["description"])
    assert description["parameters"]["shrinkage"] == 0.25
    assert description["notes"]["labels"].count("ä") == 1
    assert set(safetensors.numpy.load_file(path)) >= {"counts", "means", "scatter"}


@pytest.mark.parametrize("keep", [0, 5, 8, 100, 0.5, -1])
def test_a_truncated_file_is_detected(path, keep):
    data = path.read_bytes()
    path.write_bytes(data[: int(keep * len(data)) if isinstance(keep, float) else keep])
    with pytest.raises((DamagedModel, NotAModel)):
        load(path)


def test_any_flipped_bit_is_detected(path, rng):
    data = path.read_bytes()
    for position in rng.integers(0, len(data), 300):
        flipped = bytearray(data)
        flipped[position] ^= 1 << rng.integers(0, 8)
        path.write_bytes(flipped)
        with pytest.raises(EverlearnError):
            load(path)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x80\x04\x95pickle", b"PK\x03\x04" * 50])
def test_a_file_of_another_format_raises_a_named_error(tmp_path, content):
    (tmp_path / "foreign").write_bytes(content)
    with pytest.raises(NotAModel, match="not written by everlearn"):
        load(tmp_path / "foreign")


def test_another_safetensors_file_is_not_a_model(tmp_path):
    safetensors.numpy.save_file({"weights": np.ones(3)}, tmp_path / "foreign")
    with pytest.raises(NotAModel):
        load(tmp_path / "foreign")


def forge(path, arrays=None, **changes):
    """Rewrite a file's metadata or arrays with a digest that fits."""
    data = path.read_bytes()
    arrays = safetensors.numpy.load(data) | (arrays or {})
    metadata = persistence._metadata(data, path)
    metadata |= changes
    metadata["digest"] = persistence._digest(metadata, arrays)
    path.write_bytes(safetensors.numpy.save(arrays, metadata))


def test_a_newer_format_asks_for_an_upgrade(path):
    forge(path, version="2")
    with pytest.raises(NewerFormat, match="upgrade everlearn"):
        load(path)


@pytest.mark.parametrize("name", ["os.system", "Pipeline", "__class__", "Labels", "load"])
def test_a_file_cannot_name_another_class(path, name):
    description = json.loads(persistence._metadata(path.read_bytes(), path)["description"])
    description["learner"] = name
    forge(path, description=json.dumps(description))
    with pytest.raises(DamagedModel):
        load(path)


def test_a_description_that_contradicts_the_arrays_is_damage(path):
    description = json.loads(persistence._metadata(path.read_bytes(), path)["description"])
    description["arrays"] = {}
    forge(path, description=json.dumps(description))
    with pytest.raises(DamagedModel):
        load(path)


@pytest.mark.parametrize(
    ("name", "shape"),
    [("means", (4, 3)), ("counts", (9,)), ("scatter", (2, 2)), ("class_scatter", (1, 5, 5))],
)
def test_arrays_of_another_shape_never_reach_compiled_code(path, name, shape):
    forge(path, arrays={name: np.ones(shape)})
    with pytest.raises(DamagedModel):
        load(path)


def test_non_finite_statistics_are_damage(path, taught):
    forge(path, arrays={"means": np.full(taught.moments_.means.shape, np.nan)})
    with pytest.raises(DamagedModel):
        load(path)


@pytest.fixture
def mapped(taught, path, monkeypatch):
    """A learner of which every array of float64 lies in the file."""
    monkeypatch.setattr(persistence, "LARGE_ARRAY", 1)
    return load(path, mmap=True)


def test_a_mapped_learner_learns_without_changing_the_file(mapped, taught, path, rng):
    before = path.read_bytes()
    assert digest_of(mapped) == digest_of(taught)
    X, y = rng.normal(size=(30, 5)), np.array(["b", "new", "c"])[rng.integers(0, 3, 30)]
    for one in (mapped, taught):
        one.partial_fit(X, y)
        one.forget_class("d")
    assert digest_of(mapped) == digest_of(taught)
    assert np.array_equal(mapped.decision_function(X), taught.decision_function(X))
    assert path.read_bytes() == before


def test_a_mapped_learner_outlives_its_file(mapped, taught, path, rng):
    path.unlink()
    X = rng.normal(size=(5, 5))
    assert np.array_equal(mapped.decision_function(X), taught.decision_function(X))


@pytest.mark.parametrize("keep", [0, 5, 8, 100, 0.5, -1])
def test_a_truncated_file_is_not_mapped(path, keep):
    data = path.read_bytes()
    path.write_bytes(data[: int(keep * len(data)) if isinstance(keep, float) else keep])
    with pytest.raises((DamagedModel, NotAModel)):
        load(path, mmap=True)


def test_no_flipped_bit_crashes_a_mapped_learner(path, rng, monkeypatch):
    monkeypatch.setattr(persistence, "LARGE_ARRAY", 1)
    data = path.read_bytes()
    for position in rng.integers(0, len(data), 300):
        flipped = bytearray(data)
        flipped[position] ^= 1 << rng.integers(0, 8)
        path.write_bytes(flipped)
        with contextlib.suppress(EverlearnError):
            load(path, mmap=True).decision_function(rng.normal(size=(2, 5)))


def test_tensors_that_overlap_are_damage(path):
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header["means"]["data_offsets"] = [n + 8 for n in header["means"]["data_offsets"]]
    forged = json.dumps(header).encode()
    path.write_bytes(len(forged).to_bytes(8, "little") + forged + data[start:])
    with pytest.raises(DamagedModel):
        load(path, mmap=True)


def test_a_missing_file_cannot_be_read(tmp_path):
    with pytest.raises(CannotRead, match="No such file"):
        load(tmp_path / "nothing")


def test_a_missing_folder_cannot_be_written(taught, tmp_path):
    with pytest.raises(CannotWrite, match="check the folder"):
        save(taught, tmp_path / "missing" / "model")


def test_a_failed_write_leaves_the_old_file_and_no_other(path, rng, monkeypatch):
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CannotWrite, match="No space left"):
        save(NearestClassMean().fit(rng.normal(size=(4, 2)), list("aabb")), path)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_replacing_is_atomic_for_readers(path, rng):
    learners = [NearestClassMean().fit(rng.normal(size=(4, 2000)), list("aabb")) for _ in range(2)]
    save(learners[0], path)
    allowed = {learner.centroids_.tobytes() for learner in learners}
    stop = threading.Event()

    def write():
        while not stop.is_set():
            for learner in learners:
                save(learner, path)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(100):
            assert load(path).centroids_.tobytes() in allowed
    finally:
        stop.set()
        writer.join()


def test_file_permissions_follow_the_umask(path):
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


def test_parameters_that_are_not_plain_data_cannot_be_saved(tmp_path):
    with pytest.raises(CannotSave, match="candidates"):
        save(RecursiveRLSC(candidates=lambda: 1.0), tmp_path / "model")
    with pytest.raises(CannotSave, match="object"):
        save(object(), tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_registered_custom_learner_can_be_loaded(tmp_path):
    class Shelf(NearestClassMean):
        pass

    learner = Shelf().learn_one([0.0, 1.0], "cup").learn_one([1.0, 0.0], "hat")
    with pytest.raises(CannotSave, match="register"):
        everlearn.save(learner, tmp_path / "shelf")
    assert everlearn.register(Shelf) is Shelf
    everlearn.save(learner, tmp_path / "shelf")
    loaded = everlearn.load(tmp_path / "shelf")
    assert type(loaded) is Shelf
    assert loaded.predict_one([0.1, 0.9]) == "cup"


def test_a_registered_name_must_be_unique(tmp_path):
    class StreamingLDA(NearestClassMean):
        pass

    with pytest.raises(InvalidParameter, match="there already is a StreamingLDA"):
        everlearn.register(StreamingLDA)
    with pytest.raises(InvalidParameter, match="a class that extends a learner"):
        everlearn.register(dict)


def test_a_file_of_another_kind_than_expected_is_refused(tmp_path):
    save(NearestClassMean().learn_one([0.0], "cup"), tmp_path / "model")
    for mmap in (False, True):
        assert load(tmp_path / "model", NearestClassMean, mmap=mmap).predict_one([1.0]) == "cup"
        with pytest.raises(NotAModel, match="holds a NearestClassMean, not a StreamingLDA"):
            load(tmp_path / "model", StreamingLDA, mmap=mmap)
    with pytest.raises(InvalidParameter, match="load takes a class"):
        load(tmp_path / "model", "StreamingLDA")
