"""Augmentation: every augmented picture is one that the settings allow."""

import pytest

pytest.importorskip("torch", reason="everlearn.deep needs torch: pip install 'everlearn[torch]'")

import torch

from everlearn.deep.augment import Augmentation, augmented, normalised

MEAN, SCALE = torch.tensor([10.0, 20.0, 30.0]), torch.tensor([2.0, 4.0, 8.0])
NONE, ONE = torch.zeros(3), torch.ones(3)


def pictures(n=64, side=6):
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (n, side, side, 3), dtype=torch.uint8, generator=generator)


def drawn(how, shown=None, seed=0):
    shown = pictures() if shown is None else shown
    generator = torch.Generator().manual_seed(seed)
    return augmented(shown, how, NONE, ONE, generator).permute(0, 2, 3, 1)


def test_without_augmentation_pictures_are_only_normalised():
    shown = pictures()
    generator = torch.Generator().manual_seed(0)
    expected = (shown.double() - MEAN) / SCALE
    for found in (
        normalised(shown, MEAN, SCALE),
        augmented(shown, Augmentation(), MEAN, SCALE, generator),
    ):
        assert torch.allclose(found.permute(0, 2, 3, 1).double(), expected, atol=1e-5)


def test_crops_are_windows_of_the_mirrored_picture():
    """Every crop is found among all windows of the picture padded by reflection (torch's own)."""
    shown = pictures(n=40)
    found = drawn(Augmentation(padding=2), shown)
    padded = torch.nn.functional.pad(
        shown.permute(0, 3, 1, 2).float(), (2, 2, 2, 2), mode="reflect"
    ).permute(0, 2, 3, 1)
    places = set()
    for number, crop in enumerate(found):
        matches = [
            (top, left)
            for top in range(5)
            for left in range(5)
            if torch.equal(padded[number, top : top + 6, left : left + 6], crop)
        ]
        assert matches, f"crop {number} is no window of its picture"
        places.update(matches)
    assert len(places) > 12, "crops hardly move"


def test_mirror_flips_about_half_of_the_pictures():
    shown = pictures(n=400)
    found = drawn(Augmentation(mirror=True), shown)
    turned = (found == shown.flip(2)).flatten(1).all(1)
    kept = (found == shown).flatten(1).all(1)
    assert (turned ^ kept).all()
    assert 140 < int(turned.sum()) < 260


def test_cut_out_covers_one_square_with_the_mean():
    found = drawn(Augmentation(cut_out=3), torch.full((200, 8, 8, 3), 9, dtype=torch.uint8))
    for picture in found:
        covered = (picture == 0).all(2)
        rows, columns = covered.any(1), covered.any(0)
        assert int(covered.sum()) == int(rows.sum()) * int(columns.sum()) <= 9
        assert covered.any()
    assert max(int((p == 0).all(2).sum()) for p in found) == 9


def test_light_keeps_the_range_and_the_order_of_pixels():
    shown = pictures(n=50)
    found = drawn(Augmentation(light=True), shown)
    assert float(found.min()) >= 0
    assert float(found.max()) <= 255
    assert not torch.equal(found, shown.float())
    for before, after in zip(shown, found, strict=True):
        order = before.flatten().argsort(stable=True)
        assert (after.flatten()[order].diff() >= -1e-3).all()


def test_same_seed_same_pictures():
    how = Augmentation(padding=2, mirror=True, cut_out=2, light=True)
    assert torch.equal(drawn(how, seed=5), drawn(how, seed=5))
    assert not torch.equal(drawn(how, seed=5), drawn(how, seed=6))
