"""Decoding: right pixels from sound files, named errors from all others."""

import io
import os

import numpy as np
import pytest
from PIL import Image, ImageOps

from benchmarks.hostile_images import hand_made, many_scans, mutated, photograph, png, saved
from everlearn.errors import (
    CannotRead,
    DamagedImage,
    EverlearnError,
    ImageTooLarge,
    InvalidParameter,
    NotAnImage,
)
from everlearn.features.decode import Limits, decode

PICTURE = photograph()
PIXELS = np.asarray(PICTURE)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "WEBP"])
def test_lossless_formats_give_the_very_pixels(kind):
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


def test_the_name_of_a_file_plays_no_role(tmp_path):
    path = tmp_path / "picture.jpg"
    path.write_bytes(saved(PICTURE, "PNG"))
    assert np.array_equal(decode(path), PIXELS)


@pytest.mark.parametrize(
    ("limits", "word"),
    [(Limits(bytes=100), "bytes"), (Limits(pixels=95 * 96), "96 x 96 pixels")],
)
def test_limits_are_kept_and_named(limits, word):
    with pytest.raises(ImageTooLarge, match=word):
        decode(saved(PICTURE, "PNG"), limits=limits)


def test_limits_themselves_are_checked():
    with pytest.raises(InvalidParameter, match="at least 1"):
        Limits(pixels=0)


def test_an_image_at_its_limit_is_read():
    data = saved(PICTURE, "PNG")
    limits = Limits(bytes=len(data), pixels=96 * 96)
    assert np.array_equal(decode(data, limits=limits), PIXELS)


def test_a_bomb_is_refused_before_its_pixels_are_made():
    with pytest.raises(ImageTooLarge):
        decode(png(6000, 6000, b""))


def test_endless_passes_are_refused():
    with pytest.raises(ImageTooLarge, match="scans"):
        decode(many_scans(200, 200, 50))


def test_what_is_no_file_is_named(tmp_path):
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
    "png, text bomb": DamagedImage,
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
    assert len(images) == 50
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
