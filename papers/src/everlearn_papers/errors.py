"""What can go wrong in re-running a paper, one named exception per cause."""

from everlearn.errors import EverlearnError


class WrongPack(EverlearnError, ValueError):
    """A data file holds something else than its format promises."""


class DamagedDownload(EverlearnError, OSError):
    """What was fetched does not have the checksum that is known of it."""


class UnsafeArchive(EverlearnError, ValueError):
    """An archive would write outside its folder, or far more than it should."""


class UnknownExperiment(EverlearnError, ValueError):
    """No paper, or no part of it, has this name."""


class OtherResults(EverlearnError, FileExistsError):
    """A folder holds results that new ones would replace or mix with; nothing was changed."""
