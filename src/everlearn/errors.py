"""All exceptions, one per cause.

Each is also the built-in exception a caller would expect (``ValueError`` for a bad value,
``OSError`` for a file that cannot be written), so code written against scikit-learn keeps working.
"""


class EverlearnError(Exception):
    """Base class of all exceptions that everlearn raises on purpose."""


class InvalidInput(EverlearnError, ValueError):
    """An argument is invalid; nothing was changed."""


class NotFinite(InvalidInput):
    """Features or weights hold NaN or infinity."""


class WrongShape(InvalidInput):
    """An array has the wrong number of dimensions, no rows, or rows that do not match."""


class WrongWidth(InvalidInput):
    """The number of features differs from what the learner was taught."""


class OtherFeatures(InvalidInput):
    """Columns have other names than those the learner was taught."""


class WrongKind(InvalidInput, TypeError):
    """Complex, sparse or object values where plain numbers are needed."""


class NothingVisible(InvalidInput):
    """Every pixel of an image is missing."""


class InvalidLabel(InvalidInput):
    """A label is missing, neither an integer nor a string, or of another type than before."""


class UnknownLabel(InvalidInput):
    """A label that was never taught."""


class InvalidWeight(InvalidInput):
    """Sample weights that are negative, all zero, or not supported by the learner."""


class InvalidParameter(InvalidInput):
    """A constructor argument outside its range."""


class TooManyLabels(InvalidLabel):
    """A two-label learner was given a third label."""


class InvalidPrior(InvalidInput):
    """A prior model has no decision function, another width, or gives a non-finite score."""


class TooManyExamples(InvalidInput):
    """A learner that stores its examples has reached its limit."""


class NeverLearned(InvalidInput):
    """What should be forgotten was not learned before."""


class NotForgettable(EverlearnError, NotImplementedError):
    """This learner cannot forget exactly; the message says why and what to do instead."""


class NotMergeable(EverlearnError, ValueError):
    """These two learners cannot be merged exactly; the message says why."""


class LostDefiniteness(EverlearnError, ArithmeticError):
    """A matrix that should be positive definite is not."""


class CannotWrite(EverlearnError, OSError):
    """A file could not be written; what was there before is untouched."""


class CannotRead(EverlearnError, OSError):
    """A file could not be opened."""


class NotAModel(EverlearnError, ValueError):
    """The file was not written by :func:`everlearn.save`."""


class DamagedModel(EverlearnError, ValueError):
    """The file is truncated or altered: its contents do not match its digest."""


class NewerFormat(EverlearnError, ValueError):
    """The file was written by a later version of everlearn."""


class CannotSave(EverlearnError, TypeError):
    """The learner, or one of its parameters, has no representation as plain data."""


class CheckFailed(EverlearnError, AssertionError):
    """A learner violated a promise that :func:`everlearn.check_learner` tests."""


class NotAnImage(InvalidInput):
    """The bytes are not in a supported image format."""


class DamagedImage(InvalidInput):
    """An image file is truncated or inconsistent."""


class InvalidBox(InvalidInput):
    """Four numbers that are not a box, or a box that is empty or outside its picture."""


class InvalidAnnotations(InvalidInput):
    """An annotation file is damaged or in an unsupported format."""


class ImageTooLarge(InvalidInput):
    """An image with more bytes, pixels or passes than the limits allow."""


class MissingPackage(EverlearnError, ImportError):
    """A feature needs a package that is not installed; the message says which extra brings it."""


class MemoryBusy(EverlearnError, OSError):
    """Another process, or another Memory of this one, is teaching in the same folder."""


class ReadOnlyMemory(EverlearnError, OSError):
    """A change was requested of a Memory that was opened read-only."""


class NotSeenYet(EverlearnError, TimeoutError):
    """A replica has not reached the requested position in time."""


class NotOrderedYet(EverlearnError, TimeoutError):
    """Teachings were stored and wait for a process with the right to order them."""


class MemoryClosed(EverlearnError, ValueError):
    """A Memory is used after it was closed."""


class ChangedMeanwhile(InvalidInput):
    """The operation to be undone or redone is not the last one any more; nothing was changed."""


class PicturesMissing(InvalidInput):
    """Pictures that were taught can no longer be read, and would be lost; nothing was changed."""

    def __init__(self, message: str, count: int = 0) -> None:
        super().__init__(message)
        self.count = count


class UnknownMemory(InvalidInput):
    """A service has no Memory of that name."""


class KeyReused(InvalidInput):
    """The idempotency key of one change was sent with another; nothing was changed."""


class AnswerErased(EverlearnError, LookupError):
    """A change was made before under this idempotency key; an erase removed its answer since."""


class TooBusy(EverlearnError, OSError):
    """The service is overloaded; nothing was changed, try again."""


class CannotReach(EverlearnError, OSError):
    """No service answers at that address."""


class NotAllowed(EverlearnError, PermissionError):
    """The service refuses this client or this request."""


class ServiceFailed(EverlearnError, RuntimeError):
    """The service failed without a usable reason; see its log."""


class NotAMemory(EverlearnError, ValueError):
    """The folder contains something other than a Memory."""


class DamagedJournal(EverlearnError, ValueError):
    """The journal of a Memory is damaged beyond what SQLite can read."""


class WrongEmbedder(InvalidInput):
    """Vectors of different embedders cannot be compared."""


class AlreadyThere(EverlearnError, FileExistsError):
    """A folder that should be new already exists; nothing was changed."""


class OtherName(InvalidInput):
    """An example was already taught under another name."""


class NothingToUndo(InvalidInput):
    """There is no operation to undo or redo."""


class NotExplainable(EverlearnError, TypeError):
    """This classifier has no formula for the effect of a single teaching on an answer."""


class NotExportable(EverlearnError, TypeError):
    """This classifier is not a linear function of its input, so it has no linear head."""


class MissingData(EverlearnError, FileNotFoundError):
    """A data set is not found; the message says where to get it and where to put it."""


class NoInstances(InvalidInput):
    """An ordering by instance (video, object) was requested for data without instances."""


class TooFewExamples(InvalidInput):
    """A class has fewer examples than the protocol takes from it."""


class NotStreaming(EverlearnError, TypeError):
    """An estimator has neither partial_fit nor learn_one."""


class TooFewClasses(InvalidInput):
    """Training a network needs at least two classes."""


class OutOfMemory(EverlearnError, MemoryError):
    """The device is out of memory; nothing was changed."""


class OtherNetwork(EverlearnError, ValueError):
    """A file contains weights, or a checkpoint, of another network or other data."""


class BadShard(InvalidInput):
    """A shard cannot be read or learned from; the message has its address and the reason."""


class AlreadyLearned(InvalidInput):
    """A shard, or another version of it, was already learned; nothing was changed."""


class NotKept(EverlearnError, LookupError):
    """The statistics of a shard were not kept, so it cannot be unlearned."""


class WorkersLost(EverlearnError, RuntimeError):
    """Workers keep failing before they finish; the message says what to try."""


class Implausible(InvalidInput):
    """Received statistics that no examples could have produced."""
