"""everlearn: open-ended visual learning. Teach it an example and a name; it recognises it at once.

The public names are listed in ``__init__.pyi``, for people and type checkers alike. Each is looked
up when it is first used, so importing is fast and a program only loads the packages it uses.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__version__ = "0.1.0"
