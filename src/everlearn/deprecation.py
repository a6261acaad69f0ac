"""Old spellings of renamed attributes, kept for one version with a ``FutureWarning``."""

import warnings
from typing import Any


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
