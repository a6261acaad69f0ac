"""Reads a shard as blocks of rows and labels, one block in memory at a time, without pickle.

npz files are read without numpy's loader, which would load a whole array at once: an npz file is a
zip of arrays, each a short header followed by its numbers. Blocks always have the same boundaries,
because rounding depends on them.
"""

import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from everlearn.cluster.shards import Kind, Shard, file_system
from everlearn.errors import BadShard, MissingPackage, WrongKind, WrongShape
from everlearn.statistics.moments import BLOCK_ROWS

Block = tuple[NDArray[Any], Any]

ROWS = 2 * BLOCK_ROWS
# Limits on one row of features, and on one label: a block then has at most half a gigabyte.
ROW_BYTES = 1 << 18
LABEL_BYTES = 1 << 14


@dataclass(frozen=True)
class Columns:
    """Names of the features and the label in files and tables.

    ``features`` is one column of vectors, or several columns of numbers.
    """

    features: str | tuple[str, ...] = "X"
    label: str = "y"

    @property
    def names(self) -> list[str]:
        vectors = [self.features] if isinstance(self.features, str) else list(self.features)
        return [*vectors, self.label]


def blocks_of(shard: Shard, columns: Columns) -> Iterator[Block]:
    """The rows of a shard that holds vectors."""
    if shard.kind is Kind.ROWS:
        for X, y in shard.rows if isinstance(shard.rows, Iterator) else [shard.rows]:
            yield from _split_rows(X, y)
        return
    system, path = file_system(shard.address)
    with system.open(path, "rb") as file:
        yield from (_npz if shard.kind is Kind.NPZ else _parquet)(file, columns)


def arrow_block(table: Any, columns: Columns) -> Block:
    """Rows and labels of an Arrow table or batch."""
    labels = table.column(columns.label)
    if labels.null_count:
        raise WrongKind(f"{labels.null_count} labels in column {columns.label!r} are missing")
    _require_short(labels, columns.label)
    y = np.asarray(labels.to_pylist(), dtype=object)
    if isinstance(columns.features, str):
        return _vectors(table.column(columns.features), columns.features), y
    each = [table.column(name).to_numpy(zero_copy_only=False) for name in columns.features]
    return np.column_stack(each), y


def _split_rows(X: NDArray[Any], y: Any) -> Iterator[Block]:
    for start in range(0, len(X), ROWS):
        yield X[start : start + ROWS], y[start : start + ROWS]


def _npz(file: IO[bytes], columns: Columns) -> Iterator[Block]:
    if not isinstance(columns.features, str):
        raise WrongKind("the features of an npz file must be one array; give one name")
    with ExitStack() as stack:
        archive = stack.enter_context(zipfile.ZipFile(file))
        X = stack.enter_context(_StoredArray(archive, columns.features, 2, ROW_BYTES))
        y = stack.enter_context(_StoredArray(archive, columns.label, 1, LABEL_BYTES))
        if X.shape[0] != y.shape[0]:
            raise WrongShape(f"X has {X.shape[0]} rows but y has {y.shape[0]} labels")
        for _ in range(0, X.shape[0], ROWS):
            yield X.take(ROWS), y.take(ROWS)


class _StoredArray:
    """An array inside an npz file, read from front to back."""

    def __init__(
        self, archive: zipfile.ZipFile, name: str, dimensions: int, row_bytes: int
    ) -> None:
        try:
            self._file = archive.open(f"{name}.npy")
        except KeyError:
            names = [member.removesuffix(".npy") for member in archive.namelist()[:8]]
            raise BadShard(f"there is no array {name!r}; the arrays are {names}") from None
        version = np.lib.format.read_magic(self._file)
        header = np.lib.format.read_array_header_1_0
        if version != (1, 0):
            header = np.lib.format.read_array_header_2_0
        self.shape, by_column, self._dtype = header(self._file)
        if len(self.shape) != dimensions:
            raise WrongShape(f"{name} has shape {self.shape}, not {dimensions} dimensions")
        if self._dtype.hasobject:
            raise WrongKind(
                f"{name} holds Python objects, which are never loaded; save plain arrays"
            )
        if by_column and dimensions > 1:
            raise BadShard(f"{name} is stored by columns; save np.ascontiguousarray({name})")
        self._width = int(np.prod(self.shape[1:]))
        if self._width * self._dtype.itemsize > row_bytes:
            raise BadShard(
                f"a row of {name} has {self._width * self._dtype.itemsize:,} bytes; "
                f"the limit is {row_bytes:,}"
            )
        self._left = self.shape[0]

    def take(self, most: int) -> NDArray[Any]:
        """The next rows, at most ``most``."""
        count = min(most, self._left)
        wanted = count * self._width * self._dtype.itemsize
        data = self._file.read(wanted)
        if len(data) < wanted:
            raise BadShard("an array ends before its last row")
        self._left -= count
        return np.frombuffer(data, self._dtype).reshape(count, *self.shape[1:])

    def __enter__(self) -> "_StoredArray":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _parquet(file: IO[bytes], columns: Columns) -> Iterator[Block]:
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise MissingPackage(
            "reading parquet needs pyarrow; install it with: pip install 'everlearn[shards]'"
        ) from None
    # Strings stay dictionary-encoded until their length is checked.
    table = ParquetFile(file, read_dictionary=[columns.label])
    missing = set(columns.names) - set(table.schema_arrow.names)
    if missing:
        raise BadShard(f"there is no column {sorted(missing)}; found {table.schema_arrow.names}")
    _require_narrow(table, columns)
    for batch in table.iter_batches(batch_size=ROWS, columns=columns.names):
        yield arrow_block(batch, columns)


def _require_narrow(table: Any, columns: Columns) -> None:
    """Refuse row groups whose vectors are so long that a block would not fit in memory."""
    wanted = set(columns.names)
    for number in range(table.metadata.num_row_groups):
        group = table.metadata.row_group(number)
        for index in range(group.num_columns):
            column = group.column(index)
            if column.path_in_schema.split(".")[0] not in wanted:
                continue
            if column.num_values * 8 > ROW_BYTES * max(group.num_rows, 1):
                raise BadShard(
                    f"vectors in {column.path_in_schema} have {column.num_values:,} numbers in "
                    f"{group.num_rows} rows; the limit is {ROW_BYTES // 8:,} per row"
                )


def _require_short(labels: Any, name: str) -> None:
    """Refuse excessively long labels."""
    import pyarrow
    import pyarrow.compute

    chunks = labels.chunks if isinstance(labels, pyarrow.ChunkedArray) else [labels]
    for chunk in chunks:
        words = chunk.dictionary if isinstance(chunk, pyarrow.DictionaryArray) else chunk
        text = pyarrow.types.is_string(words.type) or pyarrow.types.is_binary(words.type)
        if text or pyarrow.types.is_large_string(words.type):
            longest = pyarrow.compute.max(pyarrow.compute.binary_length(words)).as_py() or 0
            if longest > LABEL_BYTES:
                raise BadShard(
                    f"a label in column {name!r} has {longest:,} bytes; the limit is "
                    f"{LABEL_BYTES:,}"
                )


def _vectors(column: Any, name: str) -> NDArray[Any]:
    """A column of lists of equal length as a matrix."""
    import pyarrow

    if isinstance(column, pyarrow.ChunkedArray):
        column = column.combine_chunks()
    if column.null_count:
        raise WrongKind(f"{column.null_count} vectors in column {name!r} are missing")
    if isinstance(column, pyarrow.ExtensionArray):
        column = column.storage
    if not hasattr(column, "flatten"):
        raise WrongKind(f"column {name!r} holds {column.type}, not vectors; give its name instead")
    lengths = np.unique(column.value_lengths())
    if len(lengths) > 1:
        raise WrongShape(
            f"vectors in column {name!r} have between {lengths[0]} and {lengths[-1]} numbers; they "
            "must all have the same length"
        )
    values = column.flatten()
    if values.null_count:
        raise WrongKind(f"vectors in column {name!r} hold missing numbers")
    return values.to_numpy(zero_copy_only=False).reshape(len(column), -1)
