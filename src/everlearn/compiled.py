"""How functions are compiled, where numba is installed; see ``acceleration.py``.

Without numba the closed-form learners use ``statistics/plain_kernels.py``. Subspaces and transfer
learning run their loops in plain Python, which is correct but slow, and is logged. Forests need
numba and raise an error without it.
"""

import functools
import logging
from collections.abc import Callable
from typing import Any, TypeVar, cast

from everlearn.acceleration import COMPILED, require_compiler
from everlearn.arrays import Array
from everlearn.interrupts import deferred_interrupts

__all__ = ["Array", "by_type", "compiled", "inner"]

F = TypeVar("F", bound=Callable[..., object])

logger = logging.getLogger("everlearn")


@functools.cache
def _announce(package: str) -> None:
    logger.warning(
        "%s runs without numba, up to some hundred times slower; install it with: "
        "pip install 'everlearn[fast]'",
        package,
    )


def _as_python(function: F) -> F:
    """The function itself; the first call of each package is logged."""

    @functools.wraps(function)
    def announced(*arguments: Any, **named: Any) -> object:
        _announce(function.__module__.rpartition(".")[0])
        return function(*arguments, **named)

    return cast(F, announced)


class _NeverCompiled:
    """Stands for a function with one body per type, which only the compiler can select."""

    def __init__(self, name: Callable[..., Any]) -> None:
        self._name = name.__name__

    def __call__(self, *_: Any) -> Any:
        require_compiler(self._name)

    def register(self, kind: type) -> Callable[[F], F]:
        return lambda body: body


if COMPILED:
    # An interrupted import of the compiler would make every later call fail.
    with deferred_interrupts():
        from everlearn.compiler import by_type, compiled, inner
else:
    by_type = _NeverCompiled
    compiled = inner = _as_python
