"""Exceptions raised when re-running a paper, one per cause."""

from everlearn.errors import EverlearnError


class WrongPack(EverlearnError, ValueError):
    """A data file does not match its format."""


class DamagedDownload(EverlearnError, OSError):
    """A downloaded file does not match its known checksum."""


class UnsafeArchive(EverlearnError, ValueError):
    """An archive would write outside its folder, or exceeds the size limits."""


class UnknownExperiment(EverlearnError, ValueError):
    """No paper, or no part of it, has this name."""


class OtherResults(EverlearnError, FileExistsError):
    """A folder holds results that new ones would overwrite or mix with; nothing was changed."""
