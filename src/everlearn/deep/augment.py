"""Augmentation of whole batches on the device.

    crop      the picture is padded by reflection and a window of its size is cut out
    mirror    left and right are swapped, for every second picture
    cut-out   a random square is set to the mean colour (DeVries and Taylor 2017)
    light     brightness and contrast are varied as in End-to-End (Castro et al. 2018)

Each picture uses its own random numbers, so the same seed gives the same pictures.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

# Brightness changes by up to this share of the full scale, contrast by this factor (Castro et al.
# 2018, Sec. 5: intensities within ±63 of 255, contrast between 0.2 and 1.8).
BRIGHTNESS, CONTRAST = 63.0 / 255.0, 0.8


@dataclass(frozen=True)
class Augmentation:
    """Settings of the augmentation; with the defaults nothing is changed.

    Parameters
    ----------
    padding : int
        Largest shift of a crop, in pixels.
    mirror : bool
    cut_out : int
        Side of the covered square, in pixels; 0 for none.
    light : bool
        Vary brightness and contrast.
    """

    padding: int = 0
    mirror: bool = False
    cut_out: int = 0
    light: bool = False


def normalised(pictures: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
    """8-bit pictures (n, height, width, 3) as (n, 3, height, width), (value − mean) / scale."""
    return _channels_first((pictures.float() - mean) / scale)


def augmented(
    pictures: Tensor,
    how: Augmentation,
    mean: Tensor,
    scale: Tensor,
    generator: torch.Generator,
) -> Tensor:
    """8-bit pictures (n, height, width, 3), varied and normalised, as (n, 3, height, width)."""
    rows, columns = _windows(pictures, how, generator)
    chosen = torch.arange(len(pictures), device=pictures.device)[:, None, None]
    values = pictures[chosen, rows[:, :, None], columns[:, None, :]].float()
    if how.light:
        values = _vary_light(values, generator)
    values = (values - mean) / scale
    if how.cut_out:
        values = values.masked_fill(_cut_out_mask(values, how.cut_out, generator)[..., None], 0.0)
    return _channels_first(values)


def _channels_first(values: Tensor) -> Tensor:
    """(n, height, width, 3) as (n, 3, height, width).

    On a GPU the memory layout is kept, which is the fastest for convolutions there. On a CPU it is
    not: torch 2.13 corrupts its heap in the backward pass of small convolutions in that layout.
    """
    permuted = values.permute(0, 3, 1, 2)
    return permuted if values.device.type == "cuda" else permuted.contiguous()


def _windows(
    pictures: Tensor, how: Augmentation, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """The source row and column of each row and column of the crop."""
    n, height, width, _ = pictures.shape
    down = _shifts(n, how.padding, pictures, generator)
    across = _shifts(n, how.padding, pictures, generator)
    rows = _reflected(torch.arange(height, device=pictures.device) + down[:, None], height)
    columns = _reflected(torch.arange(width, device=pictures.device) + across[:, None], width)
    if how.mirror:
        mirrored = torch.rand(n, device=pictures.device, generator=generator) < 0.5
        columns = torch.where(mirrored[:, None], columns.flip(1), columns)
    return rows, columns


def _shifts(n: int, padding: int, like: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randint(-padding, padding + 1, (n,), device=like.device, generator=generator)


def _reflected(positions: Tensor, length: int) -> Tensor:
    """Positions beyond an edge, reflected at it (the edge itself is not repeated)."""
    positions = positions.abs()
    return torch.where(positions >= length, 2 * (length - 1) - positions, positions)


def _vary_light(values: Tensor, generator: torch.Generator) -> Tensor:
    """Change brightness and contrast of each picture by random amounts."""
    n = len(values)
    draw = torch.rand(2, n, 1, 1, 1, device=values.device, generator=generator) * 2 - 1
    brighter = values + 255.0 * BRIGHTNESS * draw[0]
    middle = brighter.mean((1, 2, 3), keepdim=True)
    return ((brighter - middle) * (1 + CONTRAST * draw[1]) + middle).clamp(0.0, 255.0)


def _cut_out_mask(values: Tensor, side: int, generator: torch.Generator) -> Tensor:
    """Mask of a square around a random point of each picture; it may extend beyond the edge."""
    n, height, width, _ = values.shape
    draw = torch.rand(2, n, 1, device=values.device, generator=generator)
    top = (draw[0] * height).floor() - side // 2
    left = (draw[1] * width).floor() - side // 2
    row = torch.arange(height, device=values.device)
    column = torch.arange(width, device=values.device)
    in_rows = (row >= top) & (row < top + side)
    in_columns = (column >= left) & (column < left + side)
    return in_rows[:, :, None] & in_columns[:, None, :]
