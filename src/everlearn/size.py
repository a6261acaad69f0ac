"""Measures the memory of an object."""

import sys
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np


def size_in_bytes(thing: Any) -> int:
    """The memory of everything reachable from an estimator: arrays, containers, attributes."""
    seen: set[int] = set()
    waiting = [thing]
    total = 0
    while waiting:
        item = waiting.pop()
        if id(item) in seen or isinstance(item, (type, ModuleType, FunctionType, MethodType)):
            continue
        seen.add(id(item))
        if isinstance(item, np.ndarray):
            if item.base is not None:
                waiting.append(item.base)
            else:
                total += item.nbytes
            if item.dtype == object:
                waiting.extend(item.ravel().tolist())
            continue
        total += sys.getsizeof(item)
        if isinstance(item, dict):
            waiting.extend(item.keys())
            waiting.extend(item.values())
        elif isinstance(item, (list, tuple, set, frozenset)):
            waiting.extend(item)
        waiting.extend(_attributes(item))
    return total


def _attributes(item: Any) -> list[Any]:
    values = list(getattr(item, "__dict__", {}).values())
    for cls in type(item).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        names = (slots,) if isinstance(slots, str) else slots
        values.extend(getattr(item, name) for name in names if hasattr(item, name))
    return values
