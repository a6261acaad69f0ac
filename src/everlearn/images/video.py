"""Reads frames of a video file at regular intervals.

A video is treated as a folder of frames: the frame of ``clip.mp4`` at two seconds has the path
``clip.mp4/2.000s``, so that everything from a video can be forgotten by its path.

Only MP4, QuickTime, Matroska, WebM and AVI are opened, as identified by their first bytes: FFmpeg
also supports formats that are lists of other files and would open those. The decoders of videos are
large and run in this process; unlike images, videos have no time limit, and an untrusted file
should be converted elsewhere first.
"""

import math
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition, Event, Thread
from typing import Any

import numpy as np

from everlearn.errors import (
    CannotRead,
    DamagedImage,
    EverlearnError,
    ImageTooLarge,
    InvalidParameter,
    MissingPackage,
    NotAnImage,
)
from everlearn.images.decode import DEFAULT_LIMITS, RGB, Limits

# Cameras and streams. An HTTP stream may be a file and end; the others end only on an error.
_LIVE = re.compile(r"(/dev/video|rtsps?://|https?://)")
_CREDENTIALS = re.compile(r"(?<=://)[^/@]*@")
LIVE_SECONDS = 10.0

SUFFIXES = frozenset({".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi"})


@dataclass(frozen=True)
class VideoFrame(os.PathLike[str]):
    """One frame, or the error of reading it; its path is that of the file and the time."""

    path: str
    seconds: float
    pixels: RGB | None = field(default=None, repr=False)
    error: EverlearnError | None = None

    def __fspath__(self) -> str:
        return self.path if self.error else f"{self.path}/{self.seconds:.3f}s"

    def opened(self) -> RGB:
        """Its pixels; raises the error if there are none."""
        if self.pixels is None:
            raise self.error or DamagedImage(f"{self.path} has no frame at {self.seconds} s")
        return self.pixels


def frames(
    path: str | os.PathLike[str], every: float, *, limits: Limits = DEFAULT_LIMITS
) -> Iterator[VideoFrame]:
    """Frames of a video: the first, and then one per interval.

    A file that cannot be read, or ends early, yields a last frame with the error.

    Parameters
    ----------
    path : path-like
    every : float
        Seconds between two frames.
    limits : Limits
        ``pixels`` and ``side`` apply to a frame.
    """
    _require_interval(every)
    name = os.fspath(path)
    last = 0.0
    try:
        for seconds, pixels in _decoded(name, every, limits):
            last = seconds
            yield VideoFrame(name, seconds, pixels)
    except EverlearnError as error:
        yield VideoFrame(name, last, error=error)


def _require_interval(every: float) -> None:
    if not (math.isfinite(every) and every > 0.0):
        raise InvalidParameter(f"the seconds between frames must be more than 0, not {every}")


def is_video(path: str | os.PathLike[str]) -> bool:
    """Whether a file has the suffix of a video."""
    return os.path.splitext(os.fspath(path))[1].lower() in SUFFIXES


def with_frames(
    files: Iterable[tuple[Path, str]], every: float, *, limits: Limits = DEFAULT_LIMITS
) -> Iterator[tuple[Path | VideoFrame, str]]:
    """Labelled files, with videos expanded into labelled frames."""
    for path, label in files:
        if is_video(path):
            yield from ((frame, label) for frame in frames(path, every, limits=limits))
        else:
            yield path, label


def read_frames(
    address: str | os.PathLike[str], every: float, *, limits: Limits = DEFAULT_LIMITS
) -> Iterator[VideoFrame]:
    """As :func:`frames`, and also of a camera (``/dev/video0``) or a stream (``rtsp://…``)."""
    name = os.fspath(address)
    live = _LIVE.match(name)
    if not live:
        return frames(name, every, limits=limits)
    _require_interval(every)
    live_frames = _live(name, "v4l2" if live[1] == "/dev/video" else None, every, limits)
    return live_frames if live[1].startswith("http") else latest_frames(live_frames)


def latest_frames(source: Iterator[VideoFrame]) -> Iterator[VideoFrame]:
    """The latest frame whenever the next one is requested; frames in between are dropped.

    A thread reads the source in the background, so that a caller slower than the camera always gets
    a current frame and no backlog builds up.
    """
    ready = Condition()
    held: list[VideoFrame] = []
    stopped, ended = Event(), Event()
    failures: list[BaseException] = []

    def read() -> None:
        try:
            for frame in source:
                with ready:
                    held[:] = [frame]
                    ready.notify()
                if stopped.is_set():
                    return
        except BaseException as error:
            failures.append(error)
        finally:
            with ready:
                ended.set()
                ready.notify()

    Thread(target=read, daemon=True, name="everlearn camera").start()
    try:
        while True:
            with ready:
                ready.wait_for(lambda: held or ended.is_set())
                taken = held.pop() if held else None
            if taken is None:
                break
            yield taken
    finally:
        stopped.set()
    if failures:
        raise failures[0]


def _live(
    name: str, input_format: str | None, every: float, limits: Limits
) -> Iterator[VideoFrame]:
    av = _av()
    last = 0.0
    shown = _CREDENTIALS.sub("", name)
    options = {} if input_format else {"rtsp_transport": "tcp"}
    try:
        with av.open(name, format=input_format, options=options, timeout=LIVE_SECONDS) as container:
            for seconds, pixels in _sampled(container, shown, every, limits):
                last = seconds
                yield VideoFrame(shown, seconds, pixels)
        if not name.startswith("http"):
            raise CannotRead(f"{shown} ended after {last:.1f} seconds: the stream was closed")
    except EverlearnError as error:
        yield VideoFrame(shown, last, error=error)
    except av.error.ExitError:
        reason = CannotRead(f"{shown} sent nothing for {LIVE_SECONDS:.0f} seconds")
        yield VideoFrame(shown, last, error=reason)
    except (av.FFmpegError, ValueError, IndexError, OSError) as error:
        message = _CREDENTIALS.sub("", str(error))
        reason = CannotRead(f"{shown} cannot be read, or broke off: {message}")
        yield VideoFrame(shown, last, error=reason)


def _decoded(name: str, every: float, limits: Limits) -> Iterator[tuple[float, RGB]]:
    av = _av()
    try:
        with open(name, "rb") as file:
            format_name = _container_format(file.read(64), name)
            file.seek(0)
            with av.open(file, format=format_name) as container:
                yield from _sampled(container, name, every, limits)
    except EverlearnError:
        raise
    except (av.FFmpegError, ValueError, IndexError) as error:
        raise DamagedImage(f"{name} is damaged: {error}") from None
    except OSError as error:
        raise CannotRead(f"{name} cannot be read: {error.strerror}") from None


def _sampled(
    container: Any, name: str, every: float, limits: Limits
) -> Iterator[tuple[float, RGB]]:
    if not container.streams.video:
        raise NotAnImage(f"{name} holds no pictures, only sound")
    stream = container.streams.video[0]
    due = -math.inf
    for frame in container.decode(stream):
        if (
            frame.width * frame.height > limits.pixels
            or max(frame.width, frame.height) > limits.side
        ):
            raise ImageTooLarge(
                f"{name} has frames of {frame.width} x {frame.height} pixels; the limit is "
                f"{limits.pixels:,}, and {limits.side:,} on a side"
            )
        seconds = 0.0 if frame.time is None else float(frame.time)
        if seconds + 1e-9 < due:
            continue
        # The next due time after this frame; frames missed in a gap are not made up for.
        missed = 0 if due == -math.inf else math.floor((seconds - due) / every + 1e-9)
        due = (seconds if due == -math.inf else due) + (missed + 1) * every
        pixels = frame.to_ndarray(format="rgb24")
        yield seconds, np.ascontiguousarray(np.rot90(pixels, round(frame.rotation / 90) % 4))


def _container_format(start: bytes, name: str) -> str:
    """FFmpeg's name of a container, by its first bytes."""
    if start[4:8] in (b"ftyp", b"moov", b"mdat", b"wide", b"free"):
        return "mov"
    if start.startswith(b"\x1aE\xdf\xa3"):
        return "matroska"
    if start[:4] == b"RIFF" and start[8:12] == b"AVI ":
        return "avi"
    raise NotAnImage(f"{name} is not an MP4, QuickTime, Matroska, WebM or AVI video")


def _av() -> Any:
    try:
        import av
    except ImportError:
        raise MissingPackage(
            "frames of videos need PyAV; install it with: pip install 'everlearn[video]'"
        ) from None
    return av
