"""Networks that not everybody needs: files, and where they come from.

Everlearn itself knows what to do with them; here are only the files.
"""

import json
from pathlib import Path
from typing import Any

__all__ = ["about", "file", "names"]
__version__ = "0.1.0"

_WEIGHTS = Path(__file__).parent / "weights"


def names() -> list[str]:
    """All networks, in alphabetical order.

    Examples
    --------
    >>> import everlearn_networks
    >>> everlearn_networks.names()  # doctest: +NORMALIZE_WHITESPACE
    ['efficientnet_lite0_int8', 'efficientnet_lite2', 'efficientnet_lite2_int8', 'picodet_s_416',
     'pp_lcnetv2_base']
    """
    return sorted(path.stem for path in _WEIGHTS.glob("*.json"))


def file(name: str) -> Path:
    """The ONNX file of a network.

    Raises
    ------
    KeyError
        If there is no network of that name.
    """
    return _WEIGHTS / str(about(name)["file"])


def about(name: str) -> dict[str, Any]:
    """Origin, licence, changes, SHA-256, inputs and outputs of a network.

    Raises
    ------
    KeyError
        If there is no network of that name.
    """
    if name not in names():
        raise KeyError(f"{name!r} is not one of {', '.join(names())}")
    facts: dict[str, Any] = json.loads((_WEIGHTS / f"{name}.json").read_text())
    return facts
