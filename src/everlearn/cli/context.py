"""Shared by commands: opening the Memory, image limits, addresses, and names typed by hand."""

import contextlib
import errno
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from everlearn.cli.output import low_address_limit
from everlearn.errors import InvalidParameter, OutOfMemory
from everlearn.images.decode import DEFAULT_LIMITS, Limits
from everlearn.images.names import folded
from everlearn.memory.storage.locations import is_address, storage_at
from everlearn.memory.storage.postgres.address import parse_address

if TYPE_CHECKING:
    from everlearn.memory.memory import Memory
    from everlearn.regions.region_embedder import Mode


class Positive(click.FloatRange):
    """A number above zero; rejects nan and inf."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a number above 0.", param, ctx)
        return number


class Place(click.Path):
    """The location of a Memory: a folder, or the address of a database."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, file_okay=False)

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        if isinstance(value, str) and is_address(value):
            return parse_address(value)
        return super().convert(value, param, ctx)


POSITIVE = Positive(min=0, min_open=True)

Command = TypeVar("Command", bound=Callable[..., Any])

# Option, field of Limits, units per option value, help.
_LIMITS = (
    ("--most-megabytes", "bytes", 1 << 20, "Largest image file that is read."),
    ("--most-megapixels", "pixels", 1_000_000, "Largest image that is read."),
    ("--most-side", "side", 1, "Longest side of an image, in pixels."),
    ("--most-work", "work", 1_000_000, "Megapixels decoded in all passes of a progressive JPEG."),
)


keep_images = click.option(
    "--keep-images",
    type=click.Choice(["thumbnail", "image", "none"]),
    default="thumbnail",
    show_default=True,
    expose_value=False,
    callback=lambda ctx, _, value: ctx.meta.__setitem__("keep_images", value),
    help="What to keep of a picture; image: the file itself, in case the original is moved.",
)


def opened(
    ctx: click.Context,
    *,
    read_only: bool = False,
    regions: "Mode | None" = None,
    computes: bool = True,
) -> "Memory":
    """The Memory named on the command line; closed when the command ends.

    ``computes`` is false for commands that only read the journal: they need little memory.
    """
    from everlearn.memory.memory import Memory

    if computes:
        require_address_space(ctx.obj, network(ctx))
    limits = ctx.meta.get("limits", DEFAULT_LIMITS)
    memory = Memory(
        ctx.obj,
        embedder=network(ctx),
        read_only=read_only,
        limits=limits,
        keep_images=ctx.meta.get("keep_images", "thumbnail"),
        regions=regions,
    )
    ctx.call_on_close(memory.close)
    return memory


def require_address_space(place: Any, named: str | None) -> None:
    """Raise ``OutOfMemory`` if a network is needed and the limit on address space is too low."""
    message = low_address_limit()
    if message and _needs_a_network(place, named):
        raise OutOfMemory(message)


def _needs_a_network(place: Any, named: str | None) -> bool:
    """Whether the Memory at ``place`` embeds with a network, rather than pixels or not at all."""
    if named is not None:
        return not named.startswith("pixels")
    storage = storage_at(place)
    if not storage.exists():
        return True
    from everlearn.memory.edits.writing import kind_of_vectors
    from everlearn.memory.storage.journal import Journal

    with contextlib.closing(Journal(storage.open(write=False))) as journal:
        kind = kind_of_vectors(journal)
    known = kind["embedder"]
    return not known.startswith("pixels") if known else not kind["n_features"]


def network(ctx: click.Context) -> str | None:
    """The network given on the command line, if any: a name or a file."""
    named: str | None = ctx.meta.get("network")
    return named


def image_limits(ctx: click.Context) -> Limits:
    """The image limits given by options."""
    limits: Limits = ctx.meta.get("limits", DEFAULT_LIMITS)
    return limits


def with_image_limits(command: Command) -> Command:
    """Add options for image limits, which :func:`opened` applies."""
    for option, field, unit, words in reversed(_LIMITS):
        shown = getattr(DEFAULT_LIMITS, field) / unit
        command = click.option(
            option,
            type=POSITIVE,
            expose_value=False,
            metavar="NUMBER",
            help=f"{words}  [default: {shown:g}]",
            callback=_noted(field, unit),
        )(command)
    return command


def _noted(field: str, unit: int) -> Callable[..., None]:
    def note(ctx: click.Context, _: click.Parameter, value: float | None) -> None:
        if value is not None:
            chosen = {**vars(ctx.meta.get("limits", DEFAULT_LIMITS)), field: round(value * unit)}
            ctx.meta["limits"] = Limits(**chosen)

    return note


def cannot_listen(host: str, port: int, error: Exception) -> InvalidParameter:
    """The error of a command that cannot listen on its address."""
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return InvalidParameter(
            f"port {port} of {host} is in use; stop what listens there, or choose another with "
            "--port"
        )
    reason = error.strerror if isinstance(error, OSError) else error
    return InvalidParameter(
        f"{host}:{port} cannot be listened on: {reason}; check --host and --port"
    )


class BoxNumbers(click.ParamType[Any]):
    """Four comma-separated numbers, or the word auto."""

    name = "box"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...] | str:
        if value == "auto":
            return "auto"
        try:
            numbers = tuple(float(word) for word in str(value).split(","))
        except ValueError:
            numbers = ()
        if len(numbers) != 4:
            self.fail(f"{value!r} is not left,top,right,bottom in pixels or shares, or auto")
        return numbers


BOX = BoxNumbers()


new_name = click.option("--new", is_flag=True, help="NAME is new, even if it resembles another.")


def confirmed_name(memory: Any, name: str, *, new: bool, instead_of: str | None = None) -> str:
    """The intended name; asks if it looks like a misspelling of a known one.

    ``instead_of`` is a name that is about to be replaced, and may be misspelled itself.
    """
    from everlearn.memory.edits.writing import misspelled

    replaced = None if instead_of is None else folded(instead_of)
    known = [] if new else [other for other in memory.names() if folded(other) != replaced]
    similar = misspelled(name, known)
    if similar is None:
        return name
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError(
            f"{name!r} is not known; did you mean {similar!r}? Add --new if it is a new name."
        )
    question = f"{name!r} is not known. Teach it as {similar!r} (n: as a new name)?"
    return similar if click.confirm(question, default=True, err=True) else name
