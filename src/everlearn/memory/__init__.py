"""The durable Memory: a labelled image store on disk that answers with names."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
