"""Kinds of arrays that learners accept, with functions to make one and to move a learner.

``strict`` is array-api-strict on a device that numpy cannot read, which finds what only numpy
allows. ``torch`` computes with torch on the CPU, as it would on a GPU. ``cuda`` and ``cupy`` run
where there is a GPU.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

NAMES = ("strict", "torch", "cuda", "cupy")


@dataclass(frozen=True)
class Kind:
    name: str
    make: Callable[[np.ndarray], Any]
    device: object

    def on_device(self, learner: Any) -> Any:
        """A learner that always computes on the device of this kind."""
        return learner.to(self.device)


def kind_named(name: str) -> Kind:
    """A kind of arrays, or skip the test saying what is missing."""
    pytest.importorskip("array_api_compat", reason="array-api-compat is not installed")
    if name == "strict":
        strict = pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")
        device = strict.Device("device1")
        return Kind(name, lambda array: strict.asarray(array, device=device), device)
    if name == "cupy":
        cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
        if not cupy.cuda.is_available():
            pytest.skip("there is no GPU for CuPy")
        return Kind(name, cupy.asarray, cupy.cuda.Device(0))
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if name == "cuda" and not torch.cuda.is_available():
        pytest.skip("there is no GPU for torch")
    device = torch.device("cpu" if name == "torch" else "cuda:0")
    return Kind(name, lambda array: torch.tensor(array, device=device), device)
