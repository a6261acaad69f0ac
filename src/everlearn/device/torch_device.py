"""Torch on one device, with copies from host memory overlapping computation.

A GPU reads page-locked ("pinned") memory directly. Rows in pinned memory are copied directly;
others first go into one of two pinned buffers, filled by several threads. Copies run on a separate
stream. While block i is processed, block i + 1 is copied to the device and block i + 2 into its
buffer:

    host      stage 0 | stage 1 | stage 2 | …
    copies              copy 0  | copy 1  | copy 2 | …
    compute                       use 0   | use 1  | …
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from everlearn.arrays import AnyArray, Slots, as_numpy
from everlearn.device.device import Device, out_of_memory

# Threads that fill a pinned buffer, and the fewest bytes worth one of them.
THREADS = 8
BYTES_A_THREAD = 2**22
# Fewer numbers than this are copied without buffers.
FEW_NUMBERS = 2**16


class TorchDevice(Device):
    """Torch, on the CPU or a GPU."""

    def computing(self) -> "Computing":
        return Computing(self)

    def array(self, values: AnyArray) -> Any:
        import torch

        return torch.tensor(np.ascontiguousarray(values), device=self.device)

    def numbers(self, *scalars: Any) -> list[float]:
        import torch

        if len(scalars) <= 2:  # the second is ready once the first was waited for
            return [float(scalar.item()) for scalar in scalars]
        found: list[float] = torch.stack([scalar.double() for scalar in scalars]).tolist()
        return found

    def doubles(self, values: Any) -> Any:
        return values.detach().double()

    def sums_with(self, sums: Any, member: Any, rows: Any) -> Any:
        return sums.index_add_(0, member, rows)

    def width_of_sums(self, n_slots: int) -> int:
        return 1

    def with_rows(self, matrix: Any, where: Slots, rows: Any) -> Any:
        return matrix.index_copy_(0, self.indices(where), rows)

    def blocks(self, X: Any, size: int) -> Iterator[Any]:
        import torch

        if isinstance(X, torch.Tensor) and X.device == self.device:
            for start in range(0, len(X), size):
                yield X[start : start + size]
        elif self.device.type == "cuda" and X.shape[0] * X.shape[1] > FEW_NUMBERS:
            yield from _staged(X, size, self.device)
        else:
            for start in range(0, len(X), size):
                yield self.array(as_numpy(X[start : start + size]))


class Computing:
    """Leaves a caller's inference mode, in which created state could not be changed later."""

    def __init__(self, device: TorchDevice) -> None:
        self._device = device
        self._mode: Any = None

    def __enter__(self) -> None:
        import torch

        if torch.is_inference_mode_enabled():
            self._mode = torch.inference_mode(False)
            self._mode.__enter__()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._mode is not None:
            self._mode.__exit__(kind, error, trace)
        if error is not None:
            import torch

            if isinstance(error, torch.OutOfMemoryError):
                raise out_of_memory(self._device, error) from None


def _staged(X: Any, size: int, device: Any) -> Iterator[Any]:
    """Blocks of host rows on a GPU, copied on a side stream through two buffers."""
    import torch

    source, pinned = _as_tensor(X)
    size = min(size, len(X))
    dtype = source.dtype if source is not None else torch.from_numpy(np.empty(0, X.dtype)).dtype
    shape = (size, int(X.shape[1]))
    main, side = torch.cuda.current_stream(device), _side_stream(device)
    there = [torch.empty(shape, dtype=dtype, device=device) for _ in range(2)]
    locked = [] if pinned else [torch.empty(shape, dtype=dtype, pin_memory=True) for _ in range(2)]
    copied = [torch.cuda.Event() for _ in range(2)]
    used = [torch.cuda.Event() for _ in range(2)]
    # The allocator may return memory that queued work still reads.
    side.wait_stream(main)
    threads = ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1))
    try:
        for index, start in enumerate(range(0, len(X), size)):
            turn = index % 2
            rows = min(size, len(X) - start)
            if pinned:
                block = source[start : start + rows]
            else:
                block = locked[turn][:rows]
                copied[turn].synchronize()  # the copy before the last has read this buffer
                _fill(block, X, source, start, threads)
            with torch.cuda.stream(side):
                side.wait_event(used[turn])
                there[turn][:rows].copy_(block, non_blocking=True)
                copied[turn].record(side)
            main.wait_event(copied[turn])
            yield there[turn][:rows]
            used[turn].record(main)
    finally:
        threads.shutdown()
        # Pinned rows may be changed by the caller again, and buffers reused.
        for event in copied:
            event.synchronize()


def _as_tensor(X: Any) -> tuple[Any, bool]:
    """Host rows as a tensor if possible without copying, and whether they are pinned."""
    import torch

    if isinstance(X, torch.Tensor):
        tensor = X.detach()
        return tensor, bool(tensor.is_pinned()) and tensor.is_contiguous()
    if X.flags.writeable and X.flags.c_contiguous and not isinstance(X, np.memmap):
        tensor = torch.from_numpy(X)
        return tensor, bool(tensor.is_pinned())
    return None, False


def _fill(block: Any, X: Any, source: Any, start: int, threads: ThreadPoolExecutor) -> None:
    """Copy rows from ``start`` on into a pinned block, by several threads."""
    import torch

    if isinstance(X, torch.Tensor):
        block.copy_(source[start : start + len(block)])  # torch uses its own threads
        return
    target: AnyArray = block.numpy()
    parts = max(1, min(THREADS, target.nbytes // BYTES_A_THREAD))
    edges = np.linspace(0, len(target), parts + 1).astype(int)

    def copy(part: int) -> None:
        low, high = edges[part], edges[part + 1]
        np.copyto(target[low:high], X[start + low : start + high])

    list(threads.map(copy, range(parts)))


def _side_stream(device: Any) -> Any:
    """The stream for copies to a device, created once."""
    import torch

    key = str(device)
    if key not in _SIDE_STREAMS:
        _SIDE_STREAMS[key] = torch.cuda.Stream(device)
    return _SIDE_STREAMS[key]


_SIDE_STREAMS: dict[str, Any] = {}
