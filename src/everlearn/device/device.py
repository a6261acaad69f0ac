"""Devices other than the host, and how rows are copied there.

A device is a namespace of the array API standard (https://data-apis.org/array-api, through
array-api-compat) and one of its devices. Values that numpy reads without copying are on the host:
numpy arrays, lists, tensors on the CPU. Device code is written once against the standard; a
``Device`` adds what the standard lacks: copying rows, and a context for computations.

Rows are copied in blocks, so that there is never a float64 copy of all of them.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from everlearn.arrays import AnyArray, Slots, as_numpy, lies_on_device
from everlearn.errors import InvalidParameter, MissingPackage, NotFinite, OutOfMemory, WrongKind
from everlearn.interrupts import deferred_interrupts

# Size of a block in float64, 512 MB: enough to keep a GPU busy, small relative to its memory.
BLOCK_NUMBERS = 2**26

NOT_FINITE = (
    "Input X contains NaN or infinity, or numbers whose squares overflow; remove such rows, or "
    "scale the features"
)


class Device:
    """A namespace and one of its devices."""

    def __init__(self, xp: Any, device: Any) -> None:
        self.xp = xp
        self.device = device

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and (self.xp, self.device) == (other.xp, other.device)

    def __hash__(self) -> int:
        return hash((self.xp.__name__, str(self.device)))

    def __str__(self) -> str:
        return f"{self.xp.__name__.rpartition('.')[2]} on {self.device}"

    def __deepcopy__(self, memo: object) -> "Device":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return device_again, (self.xp.__name__.rpartition(".")[2], str(self.device))

    def computing(self) -> AbstractContextManager[Any]:
        """Context for device work; translates out-of-memory errors."""
        # Finiteness is checked at the end.
        return np.errstate(all="ignore")

    def array(self, values: AnyArray) -> Any:
        """A copy of a host array."""
        return self.xp.asarray(values, device=self.device, copy=True)

    def zeros(self, *shape: int) -> Any:
        return self.xp.zeros(shape, dtype=self.xp.float64, device=self.device)

    def doubles(self, values: Any) -> Any:
        """An array on this device as float64; itself if it already is."""
        return self.xp.astype(values, self.xp.float64, copy=False)

    def numbers(self, *scalars: Any) -> list[float]:
        """Scalars on this device, copied to the host together."""
        doubles = [self.doubles(scalar) for scalar in scalars]
        found: list[float] = as_numpy(self.xp.stack(doubles)).tolist()
        return found

    def indices(self, where: AnyArray) -> Any:
        """Integers of the host, as an index."""
        return self.array(np.ascontiguousarray(where, dtype=np.int64))

    def sums_with(self, sums: Any, member: Any, rows: Any) -> Any:
        """Sums by slot with these rows added, through a product with their indicators."""
        every = self.xp.arange(sums.shape[0], device=self.device)
        return sums + self.doubles(member[:, None] == every).T @ rows

    def width_of_sums(self, n_slots: int) -> int:
        """Numbers per row that :meth:`sums_with` allocates."""
        return n_slots

    def with_rows(self, matrix: Any, where: Slots, rows: Any) -> Any:
        """A matrix with some rows replaced."""
        source = np.arange(matrix.shape[0])
        source[where] = len(source) + np.arange(len(where))
        both = self.xp.concat([matrix, rows], axis=0)
        return self.xp.take(both, self.indices(source), axis=0)

    def blocks(self, X: Any, size: int) -> Iterator[Any]:
        """Blocks of rows of an array on this device or on the host, in its own type.

        A block is valid until the next one is requested.
        """
        here = device_of(X) is not None
        n_rows = int(X.shape[0])
        for start in range(0, n_rows, size):
            part = X[start : min(start + size, n_rows), :]
            yield part if here else self.array(np.ascontiguousarray(as_numpy(part)))


class Incoming:
    """Rows that are being copied to a device.

    Iterating yields float64 blocks on a device, each transformed by ``through``, with ``width``
    features. Whether all were finite is known at the end: checking every block would force a
    synchronisation.
    """

    def __init__(
        self,
        device: Device,
        X: Any,
        *,
        width: int,
        through: Callable[[Any], Any] | None = None,
    ) -> None:
        self.device = device
        self.shape = (int(X.shape[0]), width)
        self._X = X
        self._widest = max(width, int(X.shape[1]))
        self._through = through
        self._squares: Any = None

    def make_room(self, width: int) -> None:
        """Reduce the block size so that this many numbers per row fit beside it."""
        self._widest = max(self._widest, width)

    def __iter__(self) -> Iterator[Any]:
        xp = self.device.xp
        self._squares = self.device.zeros()
        for block in self.device.blocks(self._X, max(1, BLOCK_NUMBERS // self._widest)):
            rows = self.device.doubles(block)
            flat = xp.reshape(rows, (-1,))
            self._squares = self._squares + flat @ flat
            yield rows if self._through is None else self._through(rows)

    def numbered(self) -> Iterator[tuple[Any, slice]]:
        """The blocks, each with its rows."""
        start = 0
        for rows in self:
            part = slice(start, start + int(rows.shape[0]))
            yield rows, part
            start = part.stop

    def require_finite(self) -> None:
        """Raise ``NotFinite`` unless the square of all rows seen was finite."""
        if not np.isfinite(self.device.numbers(self._squares)[0]):
            raise NotFinite(NOT_FINITE)


def mapped(device: Device, X: Any, function: Callable[[Any], Any], *, width: int) -> Any:
    """Apply a function to float64 rows on a device, block by block; raises ``NotFinite``."""
    with device.computing():
        incoming = Incoming(device, X, width=width, through=function)
        parts = list(incoming)
        incoming.require_finite()
        return joined(device, parts)


def joined(device: Device, parts: list[Any]) -> Any:
    """Concatenated blocks."""
    return parts[0] if len(parts) == 1 else device.xp.concat(parts, axis=0)


def device_of(values: object) -> Device | None:
    """The device of an array; None for the host."""
    if not lies_on_device(values):
        return None
    array: Any = values
    return _device(array, array.device)


def device_named(device: object) -> Device | None:
    """The device meant by a caller: a name as in torch, or a device of some namespace."""
    if device is None or device == "cpu":
        return None
    if isinstance(device, Device):
        return device
    kind = "torch" if isinstance(device, str) else type(device).__module__.partition(".")[0]
    try:
        with deferred_interrupts():
            namespace = import_module(kind)
        if kind == "cupy":
            chosen: Any = device
            with chosen:
                return device_of_empty(namespace.zeros(0))
        return device_of_empty(namespace.zeros(0, device=device))
    except (ImportError, AttributeError, TypeError, RuntimeError, AssertionError) as error:
        reason = (str(error).splitlines() or [""])[0]
        raise InvalidParameter(
            "a device must be a name such as 'cuda' or 'cpu', or a device of torch or CuPy; "
            f"there is no {device!r} here: {reason}"
        ) from None


def device_again(namespace: str, device: str) -> Device | None:
    """The device that was pickled, or the host if it does not exist."""
    try:
        with deferred_interrupts():
            package = import_module(namespace)
        return device_named(package.device(device))
    except (ImportError, AttributeError, TypeError, RuntimeError, InvalidParameter):
        return None


def device_of_empty(array: Any) -> Device:
    """The device of an array, including the host under another namespace than numpy."""
    return _device(array, array.device)


def _device(array: Any, native: Any) -> Device:
    key = (type(array), native if hasattr(array, "detach") else str(native))
    found = _DEVICES.get(key)
    if found is None:
        found = _DEVICES[key] = _new_device(array, native)
    return found


_DEVICES: dict[tuple[type, Any], Device] = {}


def _new_device(array: Any, device: Any) -> Device:
    try:
        from array_api_compat import array_namespace, is_cupy_array, is_torch_array
    except ImportError:
        raise MissingPackage(
            "arrays on a device need array-api-compat; install it with: pip install "
            "'everlearn[gpu]'"
        ) from None
    xp = array_namespace(array)
    if is_torch_array(array):
        from everlearn.device.torch_device import TorchDevice

        if device.type in ("meta", "mps"):
            raise WrongKind(
                f"a tensor on {device.type!r} has no float64, which the statistics need; "
                "use X.cpu(), or X.cuda()"
            )
        return TorchDevice(xp, device)
    if is_cupy_array(array):
        return CupyDevice(xp, device)
    return Device(xp, device)


def unit_rows_at(device: Device, rows: Any) -> Any:
    """Rows at length one; a row of zeros stays zero."""
    xp = device.xp
    lengths = xp.sqrt(xp.sum(rows * rows, axis=1, keepdims=True))
    return rows / xp.where(lengths > 0, lengths, xp.ones_like(lengths))


class CupyDevice(Device):
    """CuPy on one GPU."""

    @contextmanager
    def computing(self) -> Iterator[None]:
        import cupy

        try:
            with self.device:
                yield
        except cupy.cuda.memory.OutOfMemoryError as error:
            raise out_of_memory(self, error) from None


def out_of_memory(device: Device, error: Exception) -> OutOfMemory:
    reason = (str(error).splitlines() or [""])[0]
    return OutOfMemory(
        f"{device} is out of memory ({reason}); give fewer rows at a time, or free some of it"
    )
