"""Hostile images: hand-made ones, and valid ones with altered bytes."""

import io
import struct
import zlib
from collections.abc import Iterator

import numpy as np
from PIL import Image


def photograph(side: int = 96) -> Image.Image:
    """A small picture with edges and gradients."""
    y, x = np.mgrid[0:side, 0:side]
    pixels = np.stack([x * 255 // side, y * 255 // side, (x ^ y) % 256], axis=2)
    return Image.fromarray(pixels.astype(np.uint8))


def saved(image: Image.Image, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def png(width: int, height: int, data: bytes, *, depth: int = 8, colour: int = 2) -> bytes:
    """A PNG file with arbitrary chunks."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in ((b"IHDR", header), (b"IDAT", data), (b"IEND", b""))
    )


def bmp(
    width: int, height: int, *, bits: int = 24, compression: int = 0, body: bytes = b""
) -> bytes:
    head = struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, compression, 0, 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54 + len(body), 0, 0, 54) + head + body


def gif(width: int, height: int, frame: tuple[int, int, int, int]) -> bytes:
    """A GIF whose frame may have any position."""
    left, top, frame_width, frame_height = frame
    screen = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff"
    place = b"," + struct.pack("<HHHHB", left, top, frame_width, frame_height, 0)
    return screen + place + b"\x02\x02\x44\x01\x00;"


def jpeg_with_size(width: int, height: int, **options: object) -> bytes:
    """A JPEG that declares another size than it has."""
    data = bytearray(saved(photograph(), "JPEG", **options))
    marker = b"\xff\xc2" if options.get("progressive") else b"\xff\xc0"
    at = data.index(marker)
    data[at + 5 : at + 9] = struct.pack(">HH", height, width)
    return bytes(data)


def many_scans(width: int, height: int, scans: int) -> bytes:
    """A progressive JPEG that refines the same pixels again and again."""
    data = jpeg_with_size(width, height, progressive=True)
    start = data.rindex(b"\xff\xda")
    last = data[start:-2]
    return data[:start] + last * scans + b"\xff\xd9"


def hand_made() -> dict[str, bytes]:
    """Hand-made images, by what they attempt."""
    picture = photograph()
    grey16 = Image.fromarray((np.arange(96 * 96).reshape(96, 96) * 7 % 65536).astype(np.uint16))
    frames = [picture.rotate(90 * turn) for turn in range(3)]
    jpeg, plain = saved(picture, "JPEG"), saved(picture, "PNG")
    webp, still = saved(picture, "WEBP"), saved(picture.quantize(16), "GIF")
    noise = np.random.default_rng(0).bytes(4096)
    zeros = zlib.compress(bytes(1 << 24), 9)
    exif = Image.Exif()
    exif[0x0112] = 6
    broken_exif = b"Exif\0\0MM\0*\xff\xff\xff\xff" + noise[:64]
    return {
        "zero bytes": b"",
        "one byte": b"\xff",
        "noise": noise,
        "text": b"this is not an image, whatever it is called.jpg",
        "png, transparent, as large as allowed": png(
            5000, 5000, zlib.compress(bytes(5000 * 20001), 9), colour=6
        ),
        "svg": b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>",
        "pdf": b"%PDF-1.7\n" + noise,
        "jpeg, CMYK, progressive, as large as allowed": saved(
            photograph(16).resize((5000, 5000)).convert("CMYK"), "JPEG", progressive=True
        ),
        "elf": b"\x7fELF" + noise,
        "tiff": saved(picture, "TIFF"),
        "webp, transparent, as large as allowed": saved(
            photograph(16).resize((3500, 3500)).convert("RGBA"), "WEBP", lossless=True, method=0
        ),
        "postscript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(rm) run\n",
        "jpeg signature alone": jpeg[:3],
        "png signature alone": plain[:8],
        "webp signature alone": webp[:12],
        "gif signature alone": still[:6],
        "bmp signature alone": b"BM",
        "jpeg cut in half": jpeg[: len(jpeg) // 2],
        "png cut in half": plain[: len(plain) // 2],
        "webp cut in half": webp[: len(webp) // 2],
        "gif cut in half": still[: len(still) // 2],
        "jpeg without its last byte": jpeg[:-1],
        "jpeg with a tail": jpeg + noise,
        "png with a tail": plain + noise,
        "png called jpeg": plain,
        "png bomb, 4 gigapixels": png(65535, 65535, zeros),
        "png bomb, 2**31 wide": png(2**31 - 1, 2**31 - 1, zeros),
        "png bomb below Pillow's limit": png(12000, 12000, zeros),
        "png as large as allowed, no data": png(5000, 5000, zlib.compress(b"")),
        "png as large as allowed, all zeros": png(
            5000, 5000, zlib.compress(bytes(5000 * 15001), 9)
        ),
        "png, zero wide": png(0, 10, zeros),
        "png, text bomb": _with_text_bomb(plain),
        "png, 16-bit grey": saved(grey16, "PNG"),
        "png, 16-bit colour": png(4, 4, zlib.compress((b"\0" + bytes(range(24))) * 4), depth=16),
        "png, two bits, palette missing": png(8, 8, zlib.compress(bytes(24)), depth=2, colour=3),
        "png, transparent": saved(picture.convert("RGBA"), "PNG"),
        "jpeg, CMYK": saved(picture.convert("CMYK"), "JPEG"),
        "jpeg, grey": saved(picture.convert("L"), "JPEG"),
        "jpeg, EXIF turned": saved(picture, "JPEG", exif=exif),
        "jpeg, EXIF broken": saved(picture, "JPEG", exif=broken_exif),
        "jpeg bomb, 65500 x 65500": jpeg_with_size(65500, 65500),
        "jpeg, declares 4900 x 4900": jpeg_with_size(4900, 4900),
        "jpeg, 2000 scans": many_scans(4900, 4900, 2000),
        "jpeg, progressive, as large as allowed": saved(
            photograph(16).resize((5000, 5000)), "JPEG", progressive=True
        ),
        "gif, animated": saved(
            frames[0].quantize(16), "GIF", save_all=True, append_images=frames[1:]
        ),
        "gif, frame beyond the screen": gif(10, 10, (65000, 65000, 500, 500)),
        "webp, animated": saved(frames[0], "WEBP", save_all=True, append_images=frames[1:]),
        "webp, as large as allowed": saved(
            photograph(16).resize((3500, 3500)), "WEBP", lossless=True, method=0
        ),
        "bmp bomb": bmp(60000, -60000),
        "bmp, run lengths without end": bmp(4000, 4000, bits=8, compression=1, body=noise),
        **_many_parts(jpeg, plain, still),
        **_costly(plain),
    }


def _many_parts(jpeg: bytes, plain: bytes, still: bytes) -> dict[str, bytes]:
    """Valid files with as many parts as fit into them."""
    chunk = struct.pack(">I4sI", 0, b"teSt", zlib.crc32(b"teSt"))
    profile = _chunk(b"iCCP", b"p\0\0" + zlib.compress(bytes(1 << 20), 9))
    exif = _overlapping_exif()
    return {
        "png of 2.7 million empty chunks": plain[:33] + chunk * 2_700_000 + plain[33:],
        "png of 20,000 profiles that unpack to a megabyte": plain[:33] + profile * 20_000,
        "png, a megabyte of EXIF that overlaps itself": plain[:33]
        + _chunk(b"eXIf", exif)
        + plain[33:],
        "gif of 6.7 million comments": still[:13]
        + still[13 : 13 + 3 * 16]
        + b"!\xfe\x01x\0" * 6_700_000
        + still[13 + 3 * 16 :],
        "gif, one extension of 16 million blocks": still[:61] + b"!\xfe" + b"\x01x" * 16_000_000,
        "jpeg of 8 million comments": jpeg[:2] + b"\xff\xfe\0\x02" * 8_000_000 + jpeg[2:],
        "jpeg of 300,000 tables": jpeg[:2]
        + (b"\xff\xdb\0\x43\0" + b"\1" * 64) * 300_000
        + jpeg[2:],
        "jpeg of stuffed bytes": jpeg[:-2] + b"\xff\0" * 16_000_000 + b"\xff\xd9",
        "webp of 4 million chunks": _riff(b"ABCD\0\0\0\0" * 4_000_000),
    }


def _costly(plain: bytes) -> dict[str, bytes]:
    """Few bytes, or few pixels, that cost much time or memory."""
    side = 5000
    row = b"\4" + bytes(8 * side)
    sixteen = zlib.compress(row * side, 1)
    tall = zlib.compress(bytes(4 * 25_000_000), 1)
    lines = bmp(4096, 4096, bits=8, compression=1, body=b"\1\1" * 16_000_000)
    jumps = bmp(5000, 5000, bits=4, compression=2, body=b"\xff\1\0\0" * 250_000)
    arithmetic = bytearray(jpeg_with_size(4900, 4900))
    arithmetic[arithmetic.index(b"\xff\xc0") + 1] = 0xC9
    return {
        "png, one pixel wide, 25 million high": png(1, 25_000_000, tall),
        "png, one pixel high, 25 million wide": png(25_000_000, 1, tall),
        "png, 16 bits, transparent, Paeth, as large as allowed": png(
            side, side, sixteen, depth=16, colour=6
        ),
        "bmp, 32 MB of run lengths": lines,
        "bmp, a megabyte of short run lengths": jumps,
        "jpeg, arithmetic coding": bytes(arithmetic),
        "jpeg, as many passes as allowed": many_scans(5000, 5000, 10),
        "jpeg, as many passes as allowed, small": many_scans(700, 700, 1200),
        "jpeg, 54 passes, small": many_scans(500, 400, 54),
    }


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _riff(chunks: bytes) -> bytes:
    return b"RIFF" + struct.pack("<I", len(chunks) + 4) + b"WEBP" + chunks


def _overlapping_exif() -> bytes:
    """Five thousand entries, each of which spans nearly the whole block."""
    size = 1 << 20
    entries = b"".join(struct.pack("<HHII", tag, 7, size - 70_000, 66_000) for tag in range(5000))
    block = b"II*\0\x08\0\0\0" + struct.pack("<H", 5000) + entries
    return block + bytes(size - len(block))


def _with_text_bomb(data: bytes) -> bytes:
    body = b"Comment\0\0" + zlib.compress(bytes(1 << 26), 9)
    return data[:33] + _chunk(b"zTXt", body) + data[33:]


def seeds() -> list[bytes]:
    """Valid files of every format and kind, to be mutated."""
    picture = photograph(48)
    frames = [picture.rotate(90 * turn) for turn in range(3)]
    exif = Image.Exif()
    exif[0x0112] = 6
    return [
        saved(picture, "JPEG"),
        saved(picture, "JPEG", progressive=True, exif=exif),
        saved(picture.convert("CMYK"), "JPEG"),
        saved(picture, "PNG"),
        saved(picture.quantize(16), "PNG", transparency=3),
        saved(picture.convert("RGBA"), "PNG", exif=exif),
        saved(picture, "WEBP"),
        saved(picture, "WEBP", lossless=True, exif=exif),
        saved(frames[0], "WEBP", save_all=True, append_images=frames[1:]),
        saved(picture.quantize(64), "GIF"),
        saved(frames[0].quantize(16), "GIF", save_all=True, append_images=frames[1:]),
        saved(picture, "BMP"),
        saved(picture.quantize(16), "BMP"),
    ]


def sandbox_seeds() -> list[bytes]:
    """The same for the format that is decoded in a sandbox."""
    picture = photograph(48)
    return [
        saved(picture, "AVIF"),
        saved(picture.convert("RGBA"), "AVIF", quality=90),
        saved(picture, "AVIF", save_all=True, append_images=[picture.rotate(90)]),
    ]


def mutated(count: int, seed: int = 0, files: list[bytes] | None = None) -> Iterator[bytes]:
    """Valid files with bytes changed, removed, doubled, or swapped with those of another file."""
    rng = np.random.default_rng(seed)
    files = files or seeds()
    interesting = np.array([0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF], dtype=np.uint8)
    for index in range(count):
        data = bytearray(files[index % len(files)])
        for _ in range(int(rng.integers(1, 9))):
            # Headers matter most, so half of all changes are in the first hundred bytes.
            reach = min(len(data), 100) if rng.random() < 0.5 else len(data)
            at = int(rng.integers(reach))
            match int(rng.integers(6)):
                case 0:
                    data[at] ^= 1 << int(rng.integers(8))
                case 1:
                    data[at] = int(rng.integers(256))
                case 2:
                    data[at] = int(rng.choice(interesting))
                case 3:
                    del data[at : at + int(rng.integers(1, 64))]
                case 4:
                    data[at:at] = data[at : at + int(rng.integers(1, 64))]
                case _:
                    other = files[int(rng.integers(len(files)))]
                    start = int(rng.integers(len(other)))
                    data[at : at + 16] = other[start : start + 16]
            if not data:
                break
        yield bytes(data)
