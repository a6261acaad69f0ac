"""What the tests of networks share; without torch each of their files says that it is left out."""

from importlib.util import find_spec

if find_spec("torch"):
    from tests.deep.small import one_thread, stripes

    __all__ = ["one_thread", "stripes"]
