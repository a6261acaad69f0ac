"""Old spellings of attributes and parameters, kept for one version with a ``FutureWarning``.

A constructor argument under its old name has the default ``DEPRECATED``, as scikit-learn has it;
the class lists it in ``_renamed_parameters`` with the name it has now, None where it is gone.
"""

import warnings
from typing import Any

DEPRECATED = "deprecated"


def renamed_attribute(owner: object, name: str, renamed: dict[str, str]) -> Any:
    """The attribute an old name stands for; for use in ``__getattr__``."""
    new = renamed.get(name)
    if new is None:
        raise AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}")
    warnings.warn(
        f"{type(owner).__name__}.{name} is called {new} now; the old name goes in the next version",
        FutureWarning,
        stacklevel=3,
    )
    return getattr(owner, new)


def parameter(estimator: Any, name: str) -> Any:
    """The value of a constructor argument, under its old name where that was given."""
    for old, new in estimator._renamed_parameters.items():
        if new == name and not _is_left_out(getattr(estimator, old)):
            return getattr(estimator, old)
    return getattr(estimator, name)


def warn_of_old_parameters(estimator: Any) -> None:
    """Warn of constructor arguments that were given under an old name."""
    for old, new in estimator._renamed_parameters.items():
        if _is_left_out(getattr(estimator, old)):
            continue
        what = "has no effect any more; leave it out" if new is None else f"is called {new} now"
        warnings.warn(
            f"{old} of {type(estimator).__name__} {what}; the old name goes in the next version",
            FutureWarning,
            stacklevel=3,
        )


def under_todays_names(kind: Any, parameters: dict[str, Any]) -> dict[str, Any]:
    """Constructor arguments from a file of any version, under the names that they have now."""
    named, renamed = {}, getattr(kind, "_renamed_parameters", {})
    for name, value in parameters.items():
        new = renamed.get(name, name)
        if new == name:
            named[name] = value
        elif new is not None:
            named[new] = kind._converted_parameter(name, value)
    return named


def _is_left_out(value: object) -> bool:
    return isinstance(value, str) and value == DEPRECATED
