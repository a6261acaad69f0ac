"""Synthetic scene under changing light with an occluder, and the true images behind it.

A substitute for the image set of Skočaj and Leonardis (2002), Sec. 5, Table 1: a photograph with
gradually changing light, a soft vertical shadow (their "cloud") that moves across it, and in most
images a square at a random place in front of it. An eigenspace should learn the light and the
shadow, but not the square. Because the images are synthetic, the image behind the square is known.

    light       gain g_t from ``gain[0]`` to ``gain[1]``, and a vertical gradient that reverses
    shadow      1 − depth · exp(−(column − c_t)² / 2 width²),  c_t moving from edge to edge
    noise       Gaussian, per pixel, part of the truth
    occluder    a square in ``occluded_share`` of the images

The photographs are the two that scikit-learn ships (reading them needs Pillow).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import Array
from everlearn.errors import InvalidParameter

OCCLUDERS = ("black", "grey", "texture", "noise", "photograph")
PHOTOGRAPHS = ("china.jpg", "flower.jpg")


@dataclass(frozen=True)
class Scene:
    """Images of one scene, in the order of the light.

    Attributes
    ----------
    images : ndarray of shape (n_images, height, width)
        Observed images, grey levels from 0 to 255.
    truth : ndarray of shape (n_images, height, width)
        The same images without occluders.
    occluded : ndarray of bool, shape (n_images, height, width)
        Pixels covered by the occluder.
    """

    images: Array
    truth: Array
    occluded: NDArray[np.bool_]

    @property
    def shape(self) -> tuple[int, int]:
        _, height, width = self.images.shape
        return height, width


def changing_scene(
    *,
    photograph: str = "china.jpg",
    n_images: int = 100,
    shape: tuple[int, int] = (80, 100),
    gain: tuple[float, float] = (0.6, 1.0),
    shadow_width: float = 0.2,
    shadow_depth: float = 0.5,
    occluder: str = "grey",
    occluder_side: float = 0.35,
    occluded_share: float = 0.8,
    noise: float = 1.0,
    random_state: int = 0,
) -> Scene:
    """Synthesise a scene from a photograph.

    Parameters
    ----------
    photograph : {"china.jpg", "flower.jpg"}
    n_images : int
    shape : (height, width)
    gain : (first, last)
        Brightness at the two ends of the sequence.
    shadow_width : float
        Standard deviation of the shadow's profile, as a share of the image's width.
    shadow_depth : float
        Share of the light removed at the centre of the shadow.
    occluder : {"black", "grey", "texture", "noise", "photograph"}
        A square that is black, of one random grey level, striped, random in each pixel, or cut
        out of the photograph at another place.
    occluder_side : float
        The square's side, as a share of the image's smaller side.
    occluded_share : float
        Share of the images with an occluder.
    noise : float
        Standard deviation in grey levels.
    random_state : int

    Examples
    --------
    >>> from everlearn_papers.subspace.sequences import changing_scene
    >>> scene = changing_scene(n_images=10, shape=(40, 50))
    >>> scene.images.shape, int(scene.occluded.any(axis=(1, 2)).sum())
    ((10, 40, 50), 8)
    """
    if photograph not in PHOTOGRAPHS:
        raise InvalidParameter(f"photograph is one of {PHOTOGRAPHS}, not {photograph!r}")
    _require_known(occluder)
    rng = np.random.default_rng(random_state)
    source = _grey_photograph(photograph)
    height, width = shape
    view = resized(source, shape)
    time = np.linspace(0.0, 1.0, n_images)[:, None, None]
    columns = np.linspace(0.0, 1.0, width)[None, None, :]
    rows = np.linspace(0.0, 1.0, height)[None, :, None]
    light = gain[0] + (gain[1] - gain[0]) * time + 0.15 * np.cos(np.pi * time) * (rows - 0.5)
    shadow = 1.0 - shadow_depth * np.exp(-((columns - time) ** 2) / (2.0 * shadow_width**2))
    truth = view * light * shadow + noise * rng.normal(size=(n_images, height, width))
    occluded = np.zeros(truth.shape, dtype=bool)
    images = truth.copy()
    side = max(1, round(occluder_side * min(shape)))
    for i in rng.permutation(n_images)[: round(occluded_share * n_images)]:
        top = int(rng.integers(0, height - side + 1))
        left = int(rng.integers(0, width - side + 1))
        square = (i, slice(top, top + side), slice(left, left + side))
        occluded[square] = True
        images[square] = _patch(occluder, side, source, rng) + noise * rng.normal(size=(side, side))
    return Scene(images=images, truth=truth, occluded=occluded)


def occluder_patch(kind: str, side: int, rng: np.random.Generator) -> Array:
    """Square occluder of grey levels; kinds as in ``changing_scene``."""
    _require_known(kind)
    source = _grey_photograph(PHOTOGRAPHS[0]) if kind == "photograph" else np.empty((0, 0))
    return _patch(kind, side, source, rng)


def _require_known(occluder: str) -> None:
    if occluder not in OCCLUDERS:
        raise InvalidParameter(f"occluder is one of {OCCLUDERS}, not {occluder!r}")


def _patch(kind: str, side: int, source: Array, rng: np.random.Generator) -> Array:
    if kind == "black":
        return np.zeros((side, side))
    if kind == "grey":
        return np.full((side, side), rng.uniform(0.0, 255.0))
    if kind == "noise":
        return rng.uniform(0.0, 255.0, size=(side, side))
    if kind == "texture":
        period, phase = rng.uniform(3.0, 8.0), rng.uniform(0.0, 2.0 * np.pi)
        angle = rng.uniform(0.0, np.pi)
        across, down = np.meshgrid(np.arange(side), np.arange(side))
        along = across * np.cos(angle) + down * np.sin(angle)
        stripes: Array = 127.5 * (1.0 + np.sin(2.0 * np.pi * along / period + phase))
        return stripes
    top = int(rng.integers(0, source.shape[0] - side + 1))
    left = int(rng.integers(0, source.shape[1] - side + 1))
    return source[top : top + side, left : left + side]


def _grey_photograph(name: str) -> Array:
    from sklearn.datasets import load_sample_image

    grey: Array = load_sample_image(name) @ np.array([0.299, 0.587, 0.114])
    return grey


def resized(image: Array, shape: tuple[int, int]) -> Array:
    """Resize an image by area averaging: each pixel is the mean of the area it covers."""
    rows = _area_weights(image.shape[0], shape[0])
    columns = _area_weights(image.shape[1], shape[1])
    averaged: Array = rows @ image @ columns.T
    return averaged


def _area_weights(n_from: int, n_to: int) -> Array:
    """Matrix that averages ``n_from`` cells into ``n_to`` equal intervals."""
    edges = np.linspace(0.0, n_from, n_to + 1)
    cells = np.arange(n_from)
    covered = np.minimum(edges[1:, None], cells + 1.0) - np.maximum(edges[:-1, None], cells)
    weights = np.maximum(covered, 0.0)
    scaled: Array = weights / weights.sum(axis=1, keepdims=True)
    return scaled
