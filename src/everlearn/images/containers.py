"""Reduces image files to the parts a decoder needs.

A file is a sequence of parts: segments of a JPEG, chunks of a PNG or WebP, blocks of a GIF.
Decoders in Python walk over all of them, keep texts, profiles and comments, and can be stalled or
exhausted by a file with a million empty ones. So the parts are walked here first, up to a limit,
and only those that produce pixels are kept: no comments, texts, profiles or further frames, and no
EXIF, of which only the orientation is read here.

The work is linear in the size of the file, and a few hundred steps for an ordinary photograph. An
inconsistent file is truncated at the inconsistency, and the decoder reports what is missing.
"""

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from everlearn.errors import DamagedImage, ImageTooLarge, NotAnImage

# Maximum number of parts; a PNG of 32 MB in the usual pieces of 8 KB has four thousand.
MOST_PARTS = 10_000
# Pillow decodes run lengths of a BMP in Python, so even small ones take long.
MOST_RUN_LENGTH_BYTES = 1 << 20
RUN_LENGTH_PASSES = 250

ORIENTATION = 0x0112
MOST_EXIF_ENTRIES = 1000

_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_PIXELS = {b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"}
_GIF_EXTENSION, _GIF_FRAME, _GIF_CONTROL = 0x21, 0x2C, 0xF9

# Segments of a JPEG that produce pixels: tables, restart interval, and the colour space (JFIF,
# Adobe).
_JPEG_KEPT = {0xC4, 0xDB, 0xDD, 0xE0, 0xEE}
_JPEG_BARE = {0x01, *range(0xD0, 0xD8)}
_JPEG_EXIF, _JPEG_SCAN, _JPEG_END = 0xE1, 0xDA, 0xD9
# Baseline, extended and progressive Huffman coding; others are rare and slow.
_JPEG_FRAMES = {0xC0, 0xC1, 0xC2}
_JPEG_OTHER_FRAMES = {*range(0xC3, 0xD0)} - {0xC4, 0xC8, 0xCC}
# Every scan header that a decoder accepts, with its number of components.
_SCANS = re.compile(rb"\xff\xda\x00[\x08\x0a\x0c\x0e]([\x01-\x04])")

# Brands of files whose first box is "ftyp".
_AVIF_BRANDS = {b"avif", b"avis"}
_HEIF_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"}
# Formats that are not supported, but recognised for the message.
_OTHERS = (
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
    (b"%PDF", "PDF"),
    (b"8BPS", "Photoshop"),
    (b"%!PS", "PostScript"),
    (b"\xff\x0a", "JPEG XL"),
    (b"\0\0\0\x0cJXL ", "JPEG XL"),
    (b"\0\0\0\x0cjP  ", "JPEG 2000"),
    (b"\x1aE\xdf\xa3", "Matroska or WebM video"),
    (b"<svg", "SVG"),
    (b"<?xml", "SVG or other XML"),
)


@dataclass(frozen=True)
class Essence:
    """The parts of a file that produce pixels.

    Attributes
    ----------
    kind : Pillow's name of the format
    data : the file without the other parts
    orientation : EXIF orientation, 1 to 8
    size : width and height, if they were found
    passes : how often a decoder processes every pixel, counting all components, or an equivalent
        slowdown
    """

    kind: str
    data: bytes = field(repr=False)
    orientation: int = 1
    size: tuple[int, int] | None = None
    passes: int = 1


def essence(data: bytes, name: str) -> Essence:
    """The parts of a file that produce pixels; ``NotAnImage`` for an unsupported format."""
    kind = kind_of(data)
    if kind in _WALKS:
        return _WALKS[kind](data, name)
    if kind in ("AVIF", "HEIF"):
        return Essence(kind, data)
    if "video" in kind:
        raise NotAnImage(
            f"{name} is a video ({kind}), not an image; on the command line --every SECONDS takes "
            "frames of it"
        )
    found = f"is a {kind} file, which is not supported" if kind else "is in no known image format"
    raise NotAnImage(f"{name} {found}; use a JPEG, PNG, WebP, GIF, BMP, AVIF or HEIC file")


def kind_of(data: bytes) -> str:
    """The format of a file by its first bytes; empty if unknown."""
    if data.startswith(b"\xff\xd8\xff"):
        return "JPEG"
    if data.startswith(_PNG):
        return "PNG"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "WEBP"
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return "GIF"
    if data.startswith(b"BM"):
        return "BMP"
    if data[4:8] == b"ftyp":
        return _kind_of_boxes(data)
    return next((kind for start, kind in _OTHERS if data.startswith(start)), "")


def _kind_of_boxes(data: bytes) -> str:
    (length,) = struct.unpack_from(">I", data)
    brands = {data[at : at + 4] for at in range(8, min(length, len(data), 256), 4)}
    if brands & _AVIF_BRANDS:
        return "AVIF"
    return "HEIF" if brands & _HEIF_BRANDS else "MP4 or QuickTime video"


def _jpeg(data: bytes, name: str) -> Essence:
    kept, exif, size, at = [b"\xff\xd8"], b"", None, 2
    for _ in range(MOST_PARTS):
        at = data.find(b"\xff", at)
        while at >= 0 and data[at + 1 : at + 2] == b"\xff":
            at += 1
        if at < 0 or at + 4 > len(data):
            raise DamagedImage(f"{name} is damaged: it ends before its first pixel")
        marker = data[at + 1]
        if marker in _JPEG_BARE or marker == 0x00:
            at += 2
            continue
        if marker == _JPEG_END:
            raise DamagedImage(f"{name} is damaged: it holds no pixels")
        end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        part = data[at:end]
        if marker in _JPEG_OTHER_FRAMES:
            raise NotAnImage(
                f"{name} is a JPEG with lossless or arithmetic coding, which is not supported; "
                "save it again with an image editor"
            )
        if marker in _JPEG_FRAMES and len(part) >= 9:
            height, width = struct.unpack_from(">HH", part, 5)
            size = width, height
        if marker == _JPEG_EXIF and not exif and part[4:10] == b"Exif\0\0":
            exif = part[10:]
        if marker == _JPEG_SCAN:
            rest = data[at:]
            passes = sum(match[1][0] for match in _SCANS.finditer(rest))
            kept.append(rest)
            return Essence("JPEG", b"".join(kept), orientation(exif), size, max(1, passes))
        if marker in _JPEG_KEPT or marker in _JPEG_FRAMES:
            kept.append(part)
        at = max(end, at + 4)
    raise _too_many(name, "segments before its first pixel")


def _png(data: bytes, name: str) -> Essence:
    kept, exif, at = [_PNG], b"", len(_PNG)
    for _ in range(MOST_PARTS):
        if at + 12 > len(data):
            break
        length, kind = struct.unpack_from(">I4s", data, at)
        end = at + 12 + length
        if kind in _PNG_PIXELS:
            kept.append(data[at:end])
        if kind == b"eXIf" and not exif:
            exif = data[at + 8 : end - 4]
        if kind == b"IEND":
            break
        at = end
    else:
        raise _too_many(name, "chunks")
    has_size = data[12:16] == b"IHDR" and len(data) >= 24
    size = struct.unpack_from(">II", data, 16) if has_size else None
    return Essence("PNG", b"".join(kept), orientation(exif), size)


def _gif(data: bytes, name: str) -> Essence:
    """The screen, the palette, and the first frame with its transparency."""
    if len(data) < 13:
        raise DamagedImage(f"{name} is damaged: it ends before its first pixel")
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    at = 13 + (3 << (flags & 7) + 1 if flags & 0x80 else 0)
    kept = [data[:at]]
    control = b""
    for _ in range(MOST_PARTS):
        if at + 2 > len(data):
            break
        if data[at] == _GIF_FRAME:
            if at + 10 > len(data):
                break
            left, top, across, down = struct.unpack_from("<HHHH", data, at + 1)
            size = max(width, left + across), max(height, top + down)
            return Essence("GIF", b"".join([*kept, control, data[at:]]), size=size)
        if data[at] != _GIF_EXTENSION:
            at += 1
            continue
        end = _after_blocks(data, at + 2, name)
        if data[at + 1] == _GIF_CONTROL:
            control = data[at:end]
        at = end
    else:
        raise _too_many(name, "extensions before its first frame")
    raise DamagedImage(f"{name} is damaged: it holds no frame")


def _after_blocks(data: bytes, at: int, name: str) -> int:
    """The position after the blocks of a GIF extension."""
    for _ in range(MOST_PARTS):
        if at >= len(data) or data[at] == 0:
            return at + 1
        at += 1 + data[at]
    raise _too_many(name, "blocks in one extension")


def _webp(data: bytes, name: str) -> Essence:
    exif, at = b"", 12
    for _ in range(MOST_PARTS):
        if at + 8 > len(data):
            break
        kind, length = struct.unpack_from("<4sI", data, at)
        if kind == b"EXIF" and not exif:
            exif = data[at + 8 : at + 8 + length].removeprefix(b"Exif\0\0")
        at += 8 + length + length % 2
    else:
        raise _too_many(name, "chunks")
    return Essence("WEBP", data, orientation(exif), _webp_size(data))


def _webp_size(data: bytes) -> tuple[int, int] | None:
    """Width and height from the first chunk, before a decoder allocates memory for them."""
    kind, head = data[12:16], data[20:30]
    if len(head) < 10:
        return None
    if kind == b"VP8X":
        return 1 + int.from_bytes(head[4:7], "little"), 1 + int.from_bytes(head[7:10], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(head[1:5], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", head, 6)
        return width & 0x3FFF, height & 0x3FFF
    return None


def _bmp(data: bytes, name: str) -> Essence:
    run_lengths = len(data) >= 34 and int.from_bytes(data[30:34], "little") in (1, 2)
    if run_lengths and len(data) > MOST_RUN_LENGTH_BYTES:
        raise ImageTooLarge(
            f"{name} is a BMP with {len(data):,} bytes of run lengths, more than "
            f"{MOST_RUN_LENGTH_BYTES:,}; save it again as PNG"
        )
    return Essence("BMP", data, passes=RUN_LENGTH_PASSES if run_lengths else 1)


_WALKS: dict[str, Callable[[bytes, str], Essence]] = {
    "JPEG": _jpeg,
    "PNG": _png,
    "GIF": _gif,
    "WEBP": _webp,
    "BMP": _bmp,
}


def orientation(exif: bytes) -> int:
    """The EXIF orientation, 1 to 8; 1 if it is missing or damaged."""
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(exif[:4])
    if order is None or len(exif) < 10:
        return 1
    (at,) = struct.unpack_from(f"{order}I", exif, 4)
    if at + 2 > len(exif):
        return 1
    (count,) = struct.unpack_from(f"{order}H", exif, at)
    for entry in range(at + 2, at + 2 + 12 * min(count, MOST_EXIF_ENTRIES), 12):
        if entry + 12 > len(exif):
            return 1
        tag, kind, _, value = struct.unpack_from(f"{order}HHIH", exif, entry)
        if tag == ORIENTATION:
            return value if kind == 3 and 1 <= value <= 8 else 1
    return 1


def _too_many(name: str, what: str) -> ImageTooLarge:
    return ImageTooLarge(
        f"{name} has more than {MOST_PARTS:,} {what}; save it again with an image editor"
    )
