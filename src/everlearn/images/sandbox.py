"""Decodes in a sandboxed process, for formats whose cost cannot be bounded from the file.

A still picture in AVIF or HEIC is a frame of a video codec in a container that may refer to itself
and be assembled from hundreds of tiles. Its cost cannot be computed beforehand, so the system
limits it: the process has two seconds and half a gigabyte, and is killed when it takes more. That
adds about a tenth of a second per picture, much less than these formats take to decode; formats
that can be bounded beforehand do not need it.

On systems without such limits (Windows), or without one on memory (macOS), decoding is still
stopped after thirty seconds.
"""

import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everlearn.errors import CannotRead, DamagedImage, ImageTooLarge, MissingPackage

if TYPE_CHECKING:
    from PIL import Image

SECONDS = 2
MEGABYTES = 448  # of data; the interpreter and its libraries take the rest of the 512
TIMEOUT_SECONDS = 30.0
LONGEST_ANSWER = 4096
SCRIPT = Path(__file__).with_name("sandbox_worker.py")
MODES = ("RGB", "RGBA", "L", "LA")
ADVICE = {
    "HEIF": "reading HEIC needs pillow-heif; install it with: pip install 'everlearn[heif]'",
    "AVIF": "this build of pillow reads no AVIF; install the wheel of PyPI: pip install -U pillow",
}


def decode_in_sandbox(
    data: bytes, kind: str, name: str, *, pixels: int, side: int
) -> tuple["Image.Image", int]:
    """The picture as stored, and its EXIF orientation, which is not applied.

    Parameters
    ----------
    data : the file
    kind : ``"AVIF"`` or ``"HEIF"``
    name : how errors refer to it
    pixels, side : maximum size
    """
    from PIL import Image

    try:
        about, raw = _answer(data, [kind, SECONDS, MEGABYTES, pixels, side], 4 * pixels)
    except OSError as error:
        raise CannotRead(
            f"{name} cannot be read: no process could be started to decode it ({error.strerror})"
        ) from None
    match about.get("error"):
        case None:
            mode, width, height = about["mode"], about["width"], about["height"]
            if mode in MODES and len(raw) == width * height * len(mode):
                return Image.frombytes(mode, (width, height), raw), about["orientation"]
            raise DamagedImage(f"{name} is damaged: its pixels are incomplete")
        case "missing":
            raise MissingPackage(ADVICE[kind])
        case "large":
            raise ImageTooLarge(
                f"{name} has {about['width']} x {about['height']} pixels; the limit is {pixels:,}, "
                f"and {side:,} on a side. Make it smaller, or raise the limit"
            )
        case "cost":
            raise ImageTooLarge(
                f"{name} takes more than {SECONDS} s or {MEGABYTES} MB to decode; make it smaller"
            )
    raise DamagedImage(
        f"{name} is damaged ({about.get('reason', 'its decoder crashed')}); open and save it again "
        "with an image editor"
    )


def _answer(data: bytes, arguments: list[Any], longest: int) -> tuple[dict[str, Any], bytes]:
    """The process's answer about the picture, and its pixels."""
    command = [sys.executable, "-P", str(SCRIPT), *map(str, arguments)]
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        process = subprocess.Popen(
            command, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    timeout = threading.Timer(TIMEOUT_SECONDS, process.kill)
    timeout.start()
    with process:
        assert process.stdout is not None
        line = process.stdout.readline(LONGEST_ANSWER)
        raw = process.stdout.read(longest)
        process.kill()
    timeout.cancel()
    try:
        about = json.loads(line)
    except ValueError:
        about = {}
    if about.get("error") == "memory" or (not about and _exceeded_limits(process.returncode)):
        return {"error": "cost"}, b""
    return about or {"error": "crashed"}, raw


def _exceeded_limits(code: int) -> bool:
    """Whether the system killed it for exceeding its time, rather than a crash."""
    import signal

    over = (getattr(signal, "SIGXCPU", None), getattr(signal, "SIGKILL", None))
    return -code in [signal_.value for signal_ in over if signal_ is not None]
