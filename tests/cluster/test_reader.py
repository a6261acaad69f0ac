import zipfile

import numpy as np
import pytest

from everlearn.cluster.listing import listed
from everlearn.cluster.reader import ROWS, Columns, blocks_of
from everlearn.errors import BadShard, WrongKind, WrongShape


def read(path, columns=Columns()):  # noqa: B008
    blocks = list(blocks_of(listed(str(path))[0], columns))
    return np.concatenate([X for X, _ in blocks]), [label for _, y in blocks for label in y]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8])
def test_npz_is_read_as_numpy_reads_it(rng, tmp_path, save, dtype):
    X, y = (9 * rng.normal(size=(2 * ROWS + 3, 2))).astype(dtype), rng.integers(0, 9, 2 * ROWS + 3)
    save(tmp_path / "a.npz", X=X, y=y)
    ours, labels = read(tmp_path / "a.npz")
    np.testing.assert_array_equal(ours, X)
    assert ours.dtype == dtype
    assert labels == y.tolist()
    sizes = [len(block) for block, _ in blocks_of(listed(str(tmp_path))[0], Columns())]
    assert sizes == [ROWS, ROWS, 3]


def test_parquet_is_read_as_it_was_written(rng, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    X, strings = rng.normal(size=(50, 3)), rng.choice(["ä", "b"], 50).tolist()
    fixed = pyarrow.FixedSizeListArray.from_arrays(X.ravel(), 3)
    columns = {"X": fixed, "y": strings, "lists": X.tolist(), "a": X[:, 0], "b": X[:, 1]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet", row_group_size=20)
    for features, expected in (("X", X), ("lists", X), (("a", "b"), X[:, :2])):
        ours, labels = read(tmp_path / "a.parquet", Columns(features, "y"))
        np.testing.assert_array_equal(ours, expected)
        assert labels == strings


def test_python_objects_in_an_npz_are_never_unpickled(tmp_path):
    class Bomb:
        def __reduce__(self):
            return pytest.fail, ("a pickle was run",)

    np.savez(tmp_path / "a.npz", X=np.array([[Bomb()]], dtype=object), y=np.zeros(1))
    with pytest.raises(WrongKind, match="objects"):
        read(tmp_path / "a.npz")


def test_a_damaged_npz_is_detected(tmp_path, rng):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in (("X", rng.normal(size=(4, 2))), ("y", np.arange(4))):
            np.save(tmp_path / "member.npy", array)
            archive.writestr(f"{name}.npy", (tmp_path / "member.npy").read_bytes()[:-1])
    with pytest.raises(BadShard, match="ends before"):
        read(path)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(zipfile.BadZipFile):
        read(path)


@pytest.mark.parametrize(
    ("arrays", "error", "message"),
    [
        ({"X": np.zeros((3, 2))}, BadShard, "no array 'y'"),
        ({"X": np.zeros((3, 2)), "y": np.zeros(2)}, WrongShape, "3 rows"),
        ({"X": np.zeros(3), "y": np.zeros(3)}, WrongShape, "dimensions"),
        ({"X": np.zeros((2, 3)).T, "y": np.zeros(3)}, BadShard, "by columns"),
    ],
)
def test_inconsistent_columns_raise_a_named_error(tmp_path, arrays, error, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(error, match=message):
        read(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([[1.0], [2.0, 3.0]], "between 1 and 2"),
        ([[1.0], None], "missing"),
        ([[1.0], [None]], "missing"),
        ([1.0, 2.0], "not vectors"),
    ],
)
def test_columns_that_are_not_vectors_raise_a_named_error(tmp_path, column, message):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"X": column, "y": [0, 1]}), tmp_path / "a.parquet")
    with pytest.raises((WrongKind, WrongShape), match=message):
        read(tmp_path / "a.parquet")
