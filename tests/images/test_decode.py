"""Decoding: correct pixels from valid files, named errors from all others."""

import io
import os
import re
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps, PngImagePlugin

from attacks.hostile_images import (
    hand_made,
    many_scans,
    mutated,
    photograph,
    png,
    saved,
    seeds,
)
from everlearn.errors import (
    CannotRead,
    DamagedImage,
    EverlearnError,
    ImageTooLarge,
    InvalidParameter,
    NotAnImage,
)
from everlearn.images import sandbox
from everlearn.images.containers import MOST_PARTS, essence, orientation
from everlearn.images.decode import Limits, decode

ROOT = Path(__file__).parents[2]
PICTURE = photograph()
PIXELS = np.asarray(PICTURE)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "WEBP"])
def test_lossless_formats_give_exact_pixels(kind):
    options = {"lossless": True, "exact": True} if kind == "WEBP" else {}
    assert np.array_equal(decode(saved(PICTURE, kind, **options)), PIXELS)


def test_jpeg_is_close():
    decoded = decode(saved(PICTURE, "JPEG", quality=95, subsampling=0)).astype(int)
    assert np.abs(decoded - PIXELS).mean() < 4


def test_palette_image_equals_its_palette_applied():
    palette = PICTURE.quantize(16)
    expected = np.asarray(palette.convert("RGB"))
    for kind in ("GIF", "PNG", "BMP"):
        assert np.array_equal(decode(saved(palette, kind)), expected)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_matches_pillow(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = saved(PICTURE.crop((0, 0, 40, 25)), "PNG", exif=exif)
    expected = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))))
    assert np.array_equal(decode(data), expected)


def test_an_animation_is_its_first_frame():
    first, second = PICTURE.quantize(8), PICTURE.rotate(180).quantize(8)
    data = saved(first, "GIF", save_all=True, append_images=[second])
    assert np.array_equal(decode(data), np.asarray(first.convert("RGB")))


def test_sixteen_bit_grey_keeps_its_upper_eight_bits():
    grey = (np.arange(64 * 64).reshape(64, 64) * 16).astype(np.uint16)
    decoded = decode(saved(Image.fromarray(grey), "PNG"))
    assert np.array_equal(decoded, np.repeat((grey // 256).astype(np.uint8)[..., None], 3, axis=2))


def test_transparent_parts_are_white():
    clear = PICTURE.convert("RGBA")
    clear.putalpha(Image.fromarray((np.arange(96 * 96).reshape(96, 96) % 2 * 255).astype(np.uint8)))
    decoded = decode(saved(clear, "PNG"))
    shown = np.asarray(clear)[..., 3] == 255
    assert np.array_equal(decoded[shown], PIXELS[shown])
    assert (decoded[~shown] == 255).all()


def test_cmyk_has_the_colours_of_its_rgb():
    flat = Image.new("CMYK", (16, 16), (0, 255, 255, 0))
    assert np.abs(decode(saved(flat, "JPEG", quality=100)).astype(int) - [255, 0, 0]).max() < 12


def test_large_jpeg_may_be_decoded_smaller_and_looks_the_same():
    large = PICTURE.resize((1024, 1024))
    data = saved(large, "JPEG", quality=95)
    small = decode(data, at_least=200)
    assert small.shape == (256, 256, 3)
    reference = np.asarray(large.resize((256, 256), Image.Resampling.BOX)).astype(int)
    assert np.abs(small - reference).mean() < 4
    assert decode(data).shape == (1024, 1024, 3)


def test_the_name_of_a_file_does_not_matter(tmp_path):
    path = tmp_path / "picture.jpg"
    path.write_bytes(saved(PICTURE, "PNG"))
    assert np.array_equal(decode(path), PIXELS)


@pytest.mark.parametrize(
    ("limits", "word"),
    [(Limits(bytes=100), "bytes"), (Limits(pixels=95 * 96), "96 x 96 pixels")],
)
def test_exceeded_limits_raise_a_named_error(limits, word):
    with pytest.raises(ImageTooLarge, match=word):
        decode(saved(PICTURE, "PNG"), limits=limits)


@pytest.mark.parametrize(
    ("kind", "at_least", "says"),
    [
        ("PNG", None, "10,000"),
        ("JPEG", None, "10,000"),
        ("JPEG", 8, "10,000 times 2.5, as it is a JPEG"),
        ("WEBP", None, "10,000 times 0.5, as it is a WEBP"),
    ],
)
def test_the_limit_of_pixels_is_named_as_it_was_given_with_one_that_is_enough(kind, at_least, says):
    data = saved(photograph(1600), kind)
    with pytest.raises(ImageTooLarge) as refused:
        decode(data, limits=Limits(pixels=10_000), at_least=at_least)
    words = str(refused.value)
    assert f"the limit is {says}. " in words
    enough = int(words.rpartition("--most-megapixels ")[2].rstrip(")"))
    decode(data, limits=Limits(pixels=enough * 1_000_000), at_least=at_least)


def test_a_video_is_refused_with_the_option_that_takes_its_frames():
    with pytest.raises(NotAnImage, match=r"the image is a video .*--every SECONDS"):
        decode(b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom" + bytes(64))


def test_the_limit_of_a_side_is_named_by_its_option():
    with pytest.raises(ImageTooLarge, match="--most-side 96"):
        decode(saved(PICTURE, "PNG"), limits=Limits(side=95))


def test_limits_themselves_are_checked():
    with pytest.raises(InvalidParameter, match="limit of pixels must be at least 1, not 0"):
        Limits(pixels=0)


def test_an_image_at_its_limit_is_read():
    data = saved(PICTURE, "PNG")
    limits = Limits(bytes=len(data), pixels=96 * 96)
    assert np.array_equal(decode(data, limits=limits), PIXELS)


def test_a_decompression_bomb_is_refused_before_decoding():
    with pytest.raises(ImageTooLarge):
        decode(png(6000, 6000, b""))


def test_the_limit_applies_to_the_pixels_of_all_passes():
    assert decode(many_scans(200, 200, 54)).shape == (200, 200, 3)
    with pytest.raises(ImageTooLarge, match="passes"):
        decode(many_scans(4900, 4900, 54))
    with pytest.raises(ImageTooLarge, match="passes"):
        decode(many_scans(200, 200, 54), limits=Limits(work=54 * 200 * 200))


@pytest.mark.parametrize("size", [(1, 25_000_000), (25_000_000, 1), (65_536, 1)])
def test_sides_are_limited_like_the_area(size):
    with pytest.raises(ImageTooLarge, match="on a side"):
        decode(png(*size, b""))


def test_metadata_never_reaches_the_decoder(monkeypatch):
    """Comments, texts, profiles, EXIF and later frames are removed before Pillow is called."""
    exif = Image.Exif()
    exif[0x010E] = "secret words"
    text = PngImagePlugin.PngInfo()
    text.add_text("Comment", "secret words")
    profile = b"secret words" * 20
    frames = {"save_all": True, "append_images": [PICTURE.rotate(90)]}
    files = [
        saved(PICTURE, "JPEG", exif=exif, icc_profile=profile, comment=b"secret words"),
        saved(PICTURE, "PNG", exif=exif, pnginfo=text),
        saved(PICTURE.quantize(16), "GIF", comment=b"secret words", **frames),
    ]
    for data in files:
        assert b"secret words" in data
        shown = essence(data, "x").data
        assert b"secret words" not in shown
        assert np.array_equal(
            np.asarray(Image.open(io.BytesIO(shown)).convert("RGB")),
            np.asarray(Image.open(io.BytesIO(data)).convert("RGB")),
        )


def test_a_file_of_many_empty_blocks_is_refused_early():
    chunk = png(1, 1, b"")[33:45].replace(b"IDAT", b"teSt")
    plain, jpeg = saved(PICTURE, "PNG"), saved(PICTURE, "JPEG")
    still = saved(PICTURE.quantize(16), "GIF")
    for data in (
        plain[:33] + chunk * MOST_PARTS + plain[33:],
        jpeg[:2] + b"\xff\xfe\0\x02" * MOST_PARTS + jpeg[2:],
        still[:61] + b"!\xfe\x01x\0" * MOST_PARTS + still[61:],
        still[:61] + b"!\xfe" + b"\x01x" * MOST_PARTS + b"\0" + still[61:],
        b"RIFF\0\0\0\0WEBP" + b"ABCD\0\0\0\0" * MOST_PARTS,
    ):
        with pytest.raises(ImageTooLarge, match="more than 10,000"):
            decode(data)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("value", range(1, 9))
def test_orientation_is_read_as_pillow_reads_it(kind, value):
    exif = Image.Exif()
    exif[0x010F], exif[0x0112], exif[0x0131] = "a camera", value, "a program"
    data = saved(PICTURE, kind, exif=exif)
    assert essence(data, "x").orientation == Image.open(io.BytesIO(data)).getexif()[0x0112] == value


@given(st.binary(max_size=200), st.sampled_from([b"", b"II*\0", b"MM\0*"]))
def test_orientation_of_arbitrary_bytes_is_one_of_eight(noise, start):
    assert orientation(start + noise) in range(1, 9)


@given(st.binary(max_size=400), st.sampled_from(seeds()), st.integers(0, 400))
def test_parsing_of_blocks_raises_only_named_errors(noise, data, at):
    with suppress(EverlearnError):
        assert len(essence(data[:at] + noise, "x").data) <= at + len(noise)
    with suppress(EverlearnError):
        essence(data[:at] + noise + data[at:], "x")


def test_images_are_opened_by_one_function_only():
    """An EPS named .png would run Ghostscript if any other file opened it with all formats."""
    opening = re.compile(r"\b(Image|pillow)\.open\(|imread\(|from PIL import Image")
    allowed = {"decode.py", "sandbox_worker.py", "sandbox.py", "video.py"}
    found = [
        path
        for folder in ("src", "papers/src")
        for path in (ROOT / folder).rglob("*.py")
        if opening.search(path.read_text()) and "TYPE_CHECKING" not in path.read_text()
    ]
    assert {path.name for path in found} <= allowed


def test_avif_is_read_like_the_others():
    data = saved(PICTURE, "AVIF", quality=95, subsampling="4:4:4")
    assert np.abs(decode(data).astype(int) - PIXELS).mean() < 4
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = decode(saved(PICTURE.crop((0, 0, 40, 24)), "AVIF", exif=exif))
    assert turned.shape == (40, 24, 3)


def test_heic_is_read_where_pillow_heif_is_installed():
    heif = pytest.importorskip("pillow_heif")
    file = io.BytesIO()
    heif.from_pillow(PICTURE).save(file, quality=95, chroma=444)
    assert np.abs(decode(file.getvalue()).astype(int) - PIXELS).mean() < 4


@pytest.mark.parametrize("kind", ["AVIF", "HEIF"])
def test_a_decoder_in_its_own_process_ends_with_a_named_error(kind, monkeypatch):
    if kind == "HEIF":
        pytest.importorskip("pillow_heif").register_heif_opener()
    data = saved(PICTURE, kind)
    for damaged in (data[:200], data[: len(data) // 2], data[:40] + bytes(200) + data[240:]):
        with pytest.raises(DamagedImage, match="damaged"):
            decode(damaged)
    with pytest.raises(ImageTooLarge, match="96 x 96"):
        decode(data, limits=Limits(pixels=95 * 96))
    monkeypatch.setattr(sandbox, "MEGABYTES", 1)
    with pytest.raises(EverlearnError):
        decode(data)
    monkeypatch.setattr(sandbox, "SECONDS", 0)
    with pytest.raises(EverlearnError):
        decode(data)


def test_a_sandbox_that_cannot_start_raises_a_named_error(monkeypatch):
    monkeypatch.setattr(sandbox.sys, "executable", "/does/not/exist")
    with pytest.raises(CannotRead, match="no process could be started"):
        decode(saved(PICTURE, "AVIF"))


def test_unsupported_formats_are_named_in_the_error():
    for data, name in (
        (saved(PICTURE, "TIFF"), "TIFF"),
        (b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom", "MP4"),
        (b"%PDF-1.7", "PDF"),
    ):
        with pytest.raises(NotAnImage, match=name):
            decode(data)


def test_a_path_that_is_not_a_file_raises_a_named_error(tmp_path):
    with pytest.raises(CannotRead, match="No such file"):
        decode(tmp_path / "missing.jpg")
    with pytest.raises(CannotRead):
        decode(tmp_path)
    with pytest.raises(CannotRead, match="null"):
        decode("a\0b")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(CannotRead, match="regular"):
        decode(pipe)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "BMP"])
def test_a_truncated_file_is_damaged(kind):
    data = saved(PICTURE, kind)
    with pytest.raises(DamagedImage, match="damaged"):
        decode(data[: len(data) // 2])


EXPECTED = {
    "zero bytes": NotAnImage,
    "text": NotAnImage,
    "tiff": NotAnImage,
    "postscript": NotAnImage,
    "png bomb, 4 gigapixels": ImageTooLarge,
    "png bomb below Pillow's limit": ImageTooLarge,
    "png, text bomb": None,
    "png of 2.7 million empty chunks": ImageTooLarge,
    "png of 20,000 profiles that unpack to a megabyte": ImageTooLarge,
    "png, a megabyte of EXIF that overlaps itself": None,
    "png, one pixel wide, 25 million high": ImageTooLarge,
    "gif of 6.7 million comments": ImageTooLarge,
    "gif, one extension of 16 million blocks": ImageTooLarge,
    "jpeg of 8 million comments": ImageTooLarge,
    "jpeg of 300,000 tables": ImageTooLarge,
    "jpeg, arithmetic coding": NotAnImage,
    "jpeg, 54 passes, small": None,
    "bmp, 32 MB of run lengths": ImageTooLarge,
    "bmp, a megabyte of short run lengths": ImageTooLarge,
    "jpeg bomb, 65500 x 65500": ImageTooLarge,
    "jpeg, 2000 scans": ImageTooLarge,
    "gif, frame beyond the screen": ImageTooLarge,
    "bmp bomb": ImageTooLarge,
    "jpeg, CMYK": None,
    "jpeg, EXIF broken": None,
    "png with a tail": None,
}


# Pillow warns of damaged EXIF and goes on, which is what it should do.
@pytest.mark.filterwarnings("ignore:.*EXIF.*:UserWarning")
def test_hand_made_hostile_images_give_named_errors():
    images = hand_made()
    assert len(images) >= 68
    outcomes = {}
    for name, data in images.items():
        try:
            pixels = decode(data, at_least=512)
            assert pixels.dtype == np.uint8
            assert pixels.ndim == 3
            outcomes[name] = None
        except EverlearnError as error:
            outcomes[name] = type(error)
    assert {name: outcomes[name] for name in EXPECTED} == EXPECTED


def test_mutated_images_give_named_errors():
    decoded = refused = 0
    for data in mutated(3000, seed=7):
        try:
            assert decode(data).shape[2] == 3
            decoded += 1
        except EverlearnError:
            refused += 1
    assert decoded > 300
    assert refused > 300


def test_a_large_jpeg_is_accepted_if_decoded_at_a_fraction_of_its_size():
    """48 megapixels are accepted only if a smaller decoding is enough."""
    data = saved(Image.new("RGB", (8064, 6048), (200, 30, 60)), "JPEG")
    small = decode(data, at_least=448)
    assert min(small.shape[:2]) >= 448
    assert small.shape[0] * small.shape[1] <= 2_000_000
    assert np.abs(small.mean(axis=(0, 1)) - (200, 30, 60)).max() < 3
    with pytest.raises(ImageTooLarge, match="--most-megapixels"):
        decode(data)
