"""How functions are compiled with numba; ``compiled.py`` decides whether they are.

``compiled``   called from Python: compiled at first use, kept on disk
``inner``      called from compiled code only, so it gets no Python wrapper
``by_type``    called from compiled code, with a body for each type of its first argument

A caller contains a copy of everything it calls, optimised in place. So the compile time is the sum
over all callers of everything they reach: keep entry points few, and rarely executed loops in
Python. Lists, sorting, set functions and slice assignments cost a tenth of a second each.
"""

import contextlib
import gc
import logging
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

from numba import njit
from numba.core import event
from numba.core.caching import FunctionCache
from numba.extending import overload

from everlearn.interrupts import deferred_interrupts

__all__ = ["by_type", "compiled", "inner"]

F = TypeVar("F", bound=Callable[..., object])

# Reductions may be reordered, which makes them fast; NaN and infinity keep their meaning.
OPTIONS: Any = {
    "fastmath": {"reassoc", "contract", "nsz"},
    "nogil": True,
    "no_cfunc_wrapper": True,
}
# Division by zero gives infinity, as in numpy: saves exception code at every division.
UNWRAPPED: Any = {"no_cpython_wrapper": True, "error_model": "numpy"}
# Packages that compile long enough to be worth a message.
SLOW_PACKAGES = ("everlearn.forest",)

logger = logging.getLogger("everlearn")


def compiled(function: F) -> F:
    """Compile at first use, keep the result on disk, release the interpreter lock while running."""
    return cast(F, _uninterrupted(_kept_on_disk(njit(**OPTIONS)(function))))


def inner(function: F) -> F:
    """As :func:`compiled`, for functions that only compiled functions call."""
    return cast(F, _kept_on_disk(njit(**(OPTIONS | UNWRAPPED))(function)))


class ByType(Protocol):
    """A name with one compiled body per type of the first argument."""

    def __call__(self, *arguments: Any) -> Any: ...

    def register(self, kind: type) -> Callable[[F], F]: ...


def by_type(name: Callable[..., Any]) -> ByType:
    """A function with one compiled body per type of its first argument, a named tuple.

    Like ``functools.singledispatch``: ``@name.register(Type)`` adds a body. The body is selected
    when the caller is compiled, so bodies for other types are never compiled.
    """

    def register(kind: type) -> Callable[[F], F]:
        def decorate(body: F) -> F:
            def choose(first: Any, *rest: Any) -> F | None:
                return body if getattr(first, "instance_class", None) is kind else None

            overload(name, jit_options=OPTIONS | UNWRAPPED, strict=False)(choose)
            return body

        return decorate

    name.register = register  # type: ignore[attr-defined]
    return cast(ByType, name)


class _Kept(FunctionCache):
    """Cache of compiled code on disk. If it cannot be written or read, each process compiles.

    numba detects a change of a function's file, but not of a class among its arguments: code cached
    for a renamed or moved class cannot be loaded, and is discarded.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except OSError as error:
            logger.info("compiled code cannot be read: %s", error)
        except Exception as error:  # whatever unpickling raises: AttributeError, ImportError, …
            logger.info("compiled code of another version is discarded: %s", error)
            with contextlib.suppress(OSError):
                self.flush()  # type: ignore[no-untyped-call]
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        except OSError as error:
            logger.info("compiled code cannot be kept on disk: %s", error)


def _kept_on_disk(dispatcher: Any) -> Any:
    """As ``cache=True``, but without failing if the folder cannot be written."""
    if hasattr(dispatcher, "enable_caching"):
        try:
            dispatcher._cache = _Kept(dispatcher.py_func)  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            logger.info("compiled code cannot be kept on disk: %s", error)
    return dispatcher


def _uninterrupted(dispatcher: Any) -> Any:
    """Hold back interrupts while a function is compiled or loaded from disk.

    Both import parts of numba when they are first needed.
    """
    compile_for_arguments = dispatcher._compile_for_args

    def compile_whole(*arguments: Any) -> Any:
        with deferred_interrupts():
            return compile_for_arguments(*arguments)

    # Looked up by the dispatcher, which is written in C, for each new combination of types.
    dispatcher._compile_for_args = compile_whole
    return dispatcher


class _Compiling(event.Listener):
    """Pauses garbage collection while one of our functions is compiled.

    Compilation creates hundreds of thousands of objects that stay reachable until it ends;
    scanning them repeatedly takes a quarter of the time. One log line reports the first compilation
    of a package in this process. numba's lock lets one thread compile at a time.
    """

    def __init__(self) -> None:
        self._announced: set[str] = set()
        self._depth = 0
        self._paused = False

    def on_start(self, event: Any) -> None:
        self._depth += 1
        # Any function of this process may be compiled; one made by exec has no module.
        package = (event.data["dispatcher"].py_func.__module__ or "").rpartition(".")[0]
        if not package.startswith("everlearn."):
            return
        if self._depth == 1 and gc.isenabled():
            gc.disable()
            self._paused = True
        if package not in self._announced:
            self._announced.add(package)
            logger.log(
                logging.WARNING if package.startswith(SLOW_PACKAGES) else logging.INFO,
                "compiling %s for this machine; the result is cached on disk, so this happens once",
                package,
            )

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0 and self._paused:
            self._paused = False
            gc.enable()


event.register("numba:compile", _Compiling())  # type: ignore[no-untyped-call]
