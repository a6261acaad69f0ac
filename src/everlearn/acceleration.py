"""Whether loops are compiled: decided once, when this module is imported.

They are if numba is installed, unless the environment variable ``EVERLEARN_COMPILED`` is 0.
Otherwise numpy and BLAS give the same results, up to rounding.
"""

import os
from importlib.util import find_spec

from everlearn.errors import MissingPackage

COMPILED = os.environ.get("EVERLEARN_COMPILED", "1") != "0" and find_spec("numba") is not None


def require_compiler(what: str) -> None:
    """Raise ``MissingPackage`` if nothing can be compiled."""
    if not COMPILED:
        raise MissingPackage(
            f"{what} needs numba, which is not installed or was turned off by "
            "EVERLEARN_COMPILED=0; install it with: pip install 'everlearn[forests]'"
        )
