"""Bytes to RGB under hard limits; the only decoding entry point.

Every image is treated as hostile: a few kilobytes can declare a picture of gigabytes, a progressive
JPEG can make its decoder pass over the same pixels hundreds of times, and any decoder may fail on a
flipped byte. So a file is first stripped of everything that produces no pixels (containers.py), its
declared size and the decoding work are compared with the limits before a pixel is decoded, only the
formats below are tried, and every decoder error becomes one of three named errors. The name of a
file plays no role; its bytes decide.

    JPEG, PNG, WebP, GIF, BMP     decoded here
    AVIF, HEIC                    decoded in a separate process with limits (sandbox.py), because
                                  nothing in the file bounds their cost

The result is always upright (EXIF orientation applied), 8 bits per channel, RGB. Of an animation it
is the first frame; transparent areas become white; 16-bit grey keeps its upper 8 bits; colour
profiles are ignored.
"""

import io
import math
import os
import stat
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from everlearn.errors import (
    CannotRead,
    DamagedImage,
    ImageTooLarge,
    InvalidParameter,
    MissingPackage,
    NotAnImage,
)
from everlearn.images.containers import Essence, essence
from everlearn.images.sandbox import decode_in_sandbox

if TYPE_CHECKING:
    from PIL import Image

RGB = NDArray[np.uint8]
Source = bytes | str | os.PathLike[str]

SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".avif", ".heic", ".heif"}
)
# Pictures held in memory by the decoder of a format, where it is more than one.
COPIES = {"WEBP": 2}
# A JPEG decoded at a fraction of its size may have this many times the limit of pixels.
REDUCED_FACTOR = 2.5
SANDBOXED = ("AVIF", "HEIF")
# How errors refer to an image that was given as bytes.
OF_BYTES = "the image"


@dataclass(frozen=True)
class Limits:
    """Limits on the cost of an image; the defaults keep one decode below 2 s and 512 MB.

    Parameters
    ----------
    bytes : int
        Size of the file.
    pixels : int
        Width times height; the default is that of a 24-megapixel camera. WebP, whose decoder
        keeps several copies of the picture, may have half as many. A JPEG that is decoded at a
        fraction of its size, as for embedding, may have two and a half times as many: a phone's 48
        megapixels cost no more memory than 12.
    side : int
        Width or height; the default is the maximum of JPEG.
    work : int
        Pixels processed by all passes of a progressive JPEG, counting each component. Cameras and
        browsers write about fourteen passes, which the default allows for every picture within the
        limit of pixels.
    """

    bytes: int = 32 * 1024 * 1024
    pixels: int = 25_000_000
    side: int = 65_535
    work: int = 600_000_000

    def __post_init__(self) -> None:
        for what, most in vars(self).items():
            if most < 1:
                raise InvalidParameter(f"the limit of {what} must be at least 1, not {most}")


DEFAULT_LIMITS = Limits()


def decode(source: Source, *, limits: Limits = DEFAULT_LIMITS, at_least: int | None = None) -> RGB:
    """Decode an image file, or its bytes, to an array of shape (height, width, 3).

    Parameters
    ----------
    source : bytes or path-like
    limits : Limits
    at_least : int, optional
        A JPEG may be decoded at a half, quarter or eighth of its size as long as both sides keep
        this many pixels, which is several times faster for large photographs.

    Raises
    ------
    CannotRead, NotAnImage, DamagedImage, ImageTooLarge

    Examples
    --------
    >>> from everlearn.images.decode import decode
    >>> dot = bytes.fromhex("424d1e000000000000001a0000000c00000001000100010018000000ff00")
    >>> decode(dot).tolist()
    [[[255, 0, 0]]]
    """
    return np.asarray(open_picture(source, limits=limits, at_least=at_least))


def open_picture(
    source: Source, *, limits: Limits = DEFAULT_LIMITS, at_least: int | None = None
) -> "Image.Image":
    """As :func:`decode`, but returns a Pillow image, which avoids copying the pixels."""
    data = read_bytes(source, limits)
    name = OF_BYTES if isinstance(source, bytes) else os.fspath(source)
    parts = essence(data, name)
    if parts.kind in SANDBOXED:
        stored, orientation = decode_in_sandbox(
            data, parts.kind, name, pixels=limits.pixels, side=limits.side
        )
        return apply_orientation(as_rgb(stored), orientation)
    reduced = at_least is not None and parts.kind == "JPEG"
    _require_within(parts.size, parts, name, limits, reduced)
    image = _opened(parts, name)
    _require_within(image.size, parts, name, limits, reduced)
    try:
        if at_least is not None and reduced:
            image.draft("RGB", (at_least, at_least))
            _require_within(image.size, parts, name, limits, False)
        image.load()
        return apply_orientation(as_rgb(image), parts.orientation)
    except ImageTooLarge:
        raise
    except Exception as error:
        raise DamagedImage(
            f"{name} is damaged ({_reason(error)}); open and save it again with an image editor"
        ) from None


def read_bytes(source: Source, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """The bytes of an image file, if within the limit."""
    if isinstance(source, bytes):
        data, name = source, OF_BYTES
    else:
        data, name = _read_file(source, limits.bytes), os.fspath(source)
    if len(data) > limits.bytes:
        raise ImageTooLarge(
            f"{name} has more than {limits.bytes:,} bytes; make it smaller, or raise the limit"
        )
    if not data:
        raise NotAnImage(f"{name} is empty")
    return data


def _read_file(path: str | os.PathLike[str], most: int) -> bytes:
    """The file, or its first ``most`` + 1 bytes."""
    try:
        with open(path, "rb", opener=_open_without_waiting) as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                raise CannotRead(f"{path} is not a regular file")
            return file.read(min(about.st_size, most + 1))
    except CannotRead:
        raise
    except OSError as error:
        raise CannotRead(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise CannotRead(f"{path!r} cannot be read: {error}") from None


def _open_without_waiting(path: str, flags: int) -> int:
    """Open without blocking: a pipe would wait for a writer."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _opened(parts: Essence, name: str) -> "Image.Image":
    pillow = pillow_image()
    try:
        return pillow.open(io.BytesIO(parts.data), formats=(parts.kind,))
    except (pillow.DecompressionBombError, pillow.DecompressionBombWarning):
        raise ImageTooLarge(f"{name} declares far more pixels than any limit allows") from None
    except Exception as error:
        raise DamagedImage(
            f"{name} is damaged ({_reason(error)}); open and save it again with an image editor"
        ) from None


def _require_within(
    size: tuple[int, int] | None, parts: Essence, name: str, limits: Limits, reduced: bool
) -> None:
    if size is None:
        return
    width, height = size
    if width < 1 or height < 1:
        raise DamagedImage(f"{name} is damaged: it declares a size of {width} x {height} pixels")
    if max(size) > limits.side:
        raise ImageTooLarge(
            f"{name} has {width} x {height} pixels; the limit is {limits.side:,} on a side. Make "
            f"it smaller, or raise the limit (on the command line --most-side {max(size)})"
        )
    factor = (REDUCED_FACTOR if reduced else 1.0) / COPIES.get(parts.kind, 1)
    if width * height > limits.pixels * factor:
        counted = "" if factor == 1.0 else f" times {factor:g}, as it is a {parts.kind}"
        enough = math.ceil(width * height / factor / 1e6)
        raise ImageTooLarge(
            f"{name} has {width} x {height} pixels; the limit is {limits.pixels:,}{counted}. Make "
            f"it smaller, or raise the limit (on the command line --most-megapixels {enough})"
        )
    if parts.passes * width * height > limits.work:
        raise ImageTooLarge(
            f"{name} is a {parts.kind} of {width} x {height} pixels in {parts.passes} passes, more "
            f"work than {limits.work:,} pixels; save it again with an image editor, or raise the "
            "limit of work"
        )


def as_rgb(image: "Image.Image") -> "Image.Image":
    """Eight-bit RGB; transparent areas become white."""
    if image.mode.startswith("I"):
        grey = (np.asarray(image) >> 8).clip(0, 255).astype(np.uint8)
        image = pillow_image().fromarray(grey)
    elif image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        return _on_white(image if image.mode == "RGBA" else image.convert("RGBA"))
    return image if image.mode == "RGB" else image.convert("RGB")


def _on_white(image: "Image.Image") -> "Image.Image":
    canvas: Image.Image = pillow_image().new("RGB", image.size, "white")
    canvas.paste(image, mask=image.getchannel("A"))
    return canvas


def apply_orientation(image: "Image.Image", orientation: int) -> "Image.Image":
    """The image turned upright, from its EXIF orientation."""
    transpose = pillow_image().Transpose
    operations = {
        2: transpose.FLIP_LEFT_RIGHT,
        3: transpose.ROTATE_180,
        4: transpose.FLIP_TOP_BOTTOM,
        5: transpose.TRANSPOSE,
        6: transpose.ROTATE_270,
        7: transpose.TRANSVERSE,
        8: transpose.ROTATE_90,
    }
    return image.transpose(operations[orientation]) if orientation in operations else image


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def pillow_image() -> ModuleType:
    """Pillow's Image module, or ``MissingPackage``."""
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise MissingPackage(
            "reading images needs pillow; install it with: pip install 'everlearn[images]'"
        ) from None
    return Image
