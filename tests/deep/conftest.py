"""Shared by the tests of networks, which are skipped without torch."""

from importlib.util import find_spec

if find_spec("torch"):
    from tests.deep.small import one_thread, stripes

    __all__ = ["one_thread", "stripes"]
