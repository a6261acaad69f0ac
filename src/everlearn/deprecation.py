"""Old spellings of names, attributes and parameters, kept for one version with a ``FutureWarning``.

A constructor argument under its old name has the default ``DEPRECATED``, as in scikit-learn; the
class lists it in ``_renamed_parameters`` with its current name, None if it was removed.
"""

import warnings
from collections.abc import Callable
from typing import Any

DEPRECATED = "deprecated"


def with_old_names(
    package: str, find: Callable[[str], Any], renamed: dict[str, str]
) -> Callable[[str], Any]:
    """``__getattr__`` of a package that also finds names under their old spelling."""

    def find_renamed(name: str) -> Any:
        if name not in renamed:
            return find(name)
        new = renamed[name]
        warnings.warn(
            f"{package}.{name} is now called {new}; the old name will be removed",
            FutureWarning,
            stacklevel=2,
        )
        return find(new)

    return find_renamed


def renamed_attribute(owner: object, name: str, renamed: dict[str, str]) -> Any:
    """The attribute with the current name; for use in ``__getattr__``."""
    new = renamed.get(name)
    if new is None:
        raise AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}")
    warnings.warn(
        f"{type(owner).__name__}.{name} is now called {new}; the old name will be removed",
        FutureWarning,
        stacklevel=3,
    )
    return getattr(owner, new)


def parameter(estimator: Any, name: str) -> Any:
    """The value of a constructor argument, also if it was given under its old name."""
    for old, new in estimator._renamed_parameters.items():
        if new == name and not _is_default(getattr(estimator, old)):
            return getattr(estimator, old)
    return getattr(estimator, name)


def warn_of_old_parameters(estimator: Any) -> None:
    """Warn of constructor arguments given under an old name."""
    for old, new in estimator._renamed_parameters.items():
        if _is_default(getattr(estimator, old)):
            continue
        what = "has no effect any more; omit it" if new is None else f"is now called {new}"
        warnings.warn(
            f"{old} of {type(estimator).__name__} {what}; the old name will be removed",
            FutureWarning,
            stacklevel=3,
        )


def under_todays_names(kind: Any, parameters: dict[str, Any]) -> dict[str, Any]:
    """Constructor arguments from a file of any version, under their current names."""
    named, renamed = {}, getattr(kind, "_renamed_parameters", {})
    for name, value in parameters.items():
        new = renamed.get(name, name)
        if new == name:
            named[name] = value
        elif new is not None:
            named[new] = kind._converted_parameter(name, value)
    return named


def _is_default(value: object) -> bool:
    return isinstance(value, str) and value == DEPRECATED
