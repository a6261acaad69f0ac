"""Draws named boxes onto a picture, and writes frames as a video."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from everlearn.errors import CannotWrite, InvalidParameter, MissingPackage
from everlearn.regions.boxes import Box

if TYPE_CHECKING:
    from PIL import Image

# Distinguishable with red-green colour blindness (Okabe and Ito).
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#f0e442")
UNKNOWN_COLOUR = "#808080"


def drawn(picture: "Image.Image", things: Iterable[tuple[Box, str, bool]]) -> "Image.Image":
    """A copy of a picture with boxes and words; the flag says whether the word is a name."""
    from PIL import ImageDraw, ImageFont

    copy = picture.copy()
    draw = ImageDraw.Draw(copy)
    width = max(2, round(max(copy.size) / 300))
    font = ImageFont.load_default(size=max(11, round(max(copy.size) / 45)))
    for box, words, known in things:
        colour = _colour(words) if known else UNKNOWN_COLOUR
        left, top, right, bottom = box.pixels(*copy.size)
        draw.rectangle((left, top, right - 1, bottom - 1), outline=colour, width=width)
        # Words go above the box, or inside if there is no room.
        frame = draw.textbbox((left, top), words, font=font)
        height = frame[3] - frame[1] + 2 * width
        start = top - height if top >= height else top
        draw.rectangle(
            (left, start, left + frame[2] - frame[0] + 2 * width, start + height), colour
        )
        corner = (left + width, start + width - (frame[1] - top))
        draw.text(corner, words, fill="white", font=font)
    return copy


def _colour(words: str) -> str:
    name = words.rsplit(" ", 1)[0]
    return COLOURS[sum(name.encode()) % len(COLOURS)]


class VideoFile:
    """A video file to which frames are written.

    Parameters
    ----------
    path : path-like
        The suffix selects the container: .mp4, .mkv, .mov, .avi or .webm.
    rate : float
        Frames per second.
    """

    def __init__(self, path: str | os.PathLike[str], rate: float) -> None:
        if rate <= 0.0:
            raise InvalidParameter(f"a video needs more than 0 frames per second, not {rate}")
        try:
            import av
        except ImportError:
            raise MissingPackage(
                "writing videos needs PyAV; install it with: pip install 'everlearn[video]'"
            ) from None
        self._av = av
        self._path = Path(path)
        self._rate = max(1, round(rate))
        self._stream: Any = None
        try:
            self._container = av.open(os.fspath(path), "w")
        except (av.FFmpegError, OSError, ValueError) as error:
            raise CannotWrite(f"{path} cannot be written: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def write(self, pixels: NDArray[np.uint8]) -> None:
        """Append one frame; all frames have the size of the first."""
        height, width = (side - side % 2 for side in pixels.shape[:2])
        if self._stream is None:
            codec = "libvpx" if self._path.suffix.lower() == ".webm" else "mpeg4"
            self._stream = self._container.add_stream(codec, rate=self._rate)
            self._stream.width, self._stream.height = width, height
            self._stream.pix_fmt = "yuv420p"
            self._stream.bit_rate = 8 * width * height
        even = np.ascontiguousarray(pixels[:height, :width])
        frame = self._av.VideoFrame.from_ndarray(even, format="rgb24")
        with self._named_errors():
            self._container.mux(self._stream.encode(frame))

    def close(self) -> None:
        """Write what is left and close the file."""
        with self._named_errors(), self._container:
            if self._stream is not None:
                self._container.mux(self._stream.encode())

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except (self._av.FFmpegError, OSError) as error:
            raise CannotWrite(f"{self._path} cannot be written: {error}") from None
