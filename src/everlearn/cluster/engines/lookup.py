"""Finds the adapter of an engine by its name, an address, or a client."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from everlearn.cluster.driving import Engine
from everlearn.errors import InvalidParameter, MissingPackage


@contextmanager
def opened(engine: Any, workers: int | None = None) -> Iterator[Engine]:
    """The adapter of an engine; closes what it started, leaves the rest running.

    Parameters
    ----------
    engine : str or client
        ``"local"``, ``"dask"``, ``"ray"``, ``"spark"``; an address (``"dask://host:8786"``,
        ``"ray://host:10001"``, ``"spark://host:7077"``); a ``distributed.Client``, the ``ray``
        module, a ``SparkSession``.
    workers : int, optional
        Number of processes of ``"local"``; defaults to one per core.
    """
    kind = kind_of(engine)
    if workers is not None and kind != "local":
        raise InvalidParameter(
            "workers is for the engine 'local'; other engines have their own setting"
        )
    with _context(kind, engine, workers) as adapter:
        yield adapter


def _context(kind: str, engine: Any, workers: int | None) -> AbstractContextManager[Engine]:
    if kind == "local":
        from everlearn.cluster.engines.local import opened_local

        return opened_local(workers)
    if kind == "dask":
        _require("distributed", kind)
        from everlearn.cluster.engines.dask import opened_dask

        return opened_dask(engine)
    if kind == "ray":
        _require("ray", kind)
        from everlearn.cluster.engines.ray import opened_ray

        return opened_ray(engine)
    _require("pyspark", kind)
    from everlearn.cluster.engines.spark import opened_spark

    return opened_spark(engine)


def kind_of(engine: Any) -> str:
    """The kind of engine that a name, an address or a client stands for."""
    name = engine if isinstance(engine, str) else _package(engine)
    kind = {"distributed": "dask", "pyspark": "spark"}.get(name, name.split(":", 1)[0])
    if kind in ("local", "dask", "ray", "spark"):
        return kind
    raise InvalidParameter(
        f"{engine!r} is not an engine; use 'local', 'dask', 'ray', 'spark', an address such as "
        "'dask://host:8786', or a client"
    )


def engine_of(collection: Any) -> str | None:
    """The engine a collection belongs to, or ``None``."""
    if isinstance(collection, tuple) and len(collection) == 2:
        collection = collection[0]
    return {"dask": "dask", "ray": "ray", "pyspark": "spark"}.get(_package(collection))


def _package(thing: Any) -> str:
    name = getattr(thing, "__name__", None) or type(thing).__module__
    return str(name).split(".", 1)[0]


def _require(package: str, extra: str) -> None:
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise MissingPackage(
            f"engine {extra!r} needs {package}; install it with: pip install 'everlearn[{extra}]'"
        )
