"""Fig. 2 of Skočaj and Leonardis (2002): the incremental eigenspace beside the batch one.

COIL-20, every second view: 720 images of 128 × 128 pixels, the paper's own data. *incX* projects
the images into the final eigenspace; *incA* uses the coefficients kept since each image was
learned, which would allow the image itself to be deleted.

Eigenspaces depend on the inner products of the images only. So the images are expressed in an
orthonormal basis of their span, 720 coordinates instead of 16,384 pixels: errors are the same, in a
twentieth of the time.
"""

from functools import cache
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from everlearn.arrays import Array
from everlearn.errors import MissingData
from everlearn.streams.sources import read_images
from everlearn.subspace.seeding import batch_pca
from everlearn.subspace.streaming import StreamingPCA
from everlearn_papers.data import formats, packs
from everlearn_papers.data.catalogue import find
from everlearn_papers.repeat import Result

SIDE = 128
# The paper does not list its numbers of components; these cover the axis of its figure.
COMPONENTS = (10, 20, 30, 50, 75, 100)
SHOWN_COMPONENTS = 50
ORDERINGS = ("seq", "rnd")
GUARDS = (0, 8)
SETTINGS = {"components": list(COMPONENTS), "guard": list(GUARDS)}


def views() -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """Every second view of each object, in order, and the object labels.

    Read from the pack, or else from the publisher's files (``everlearn data get coil20``).
    """
    try:
        images, labels, angle = packs.arrays(packs.COIL20, "images", "labels", "angle_deg")
    except MissingData:
        examples = formats.coil(find("coil20"))
        place = np.arange(len(examples.y)) - np.searchsorted(examples.y, examples.y)
        chosen = examples.take(place % 2 == 0)
        return read_images(chosen.X, side=SIDE, grey=True), chosen.y
    order = np.lexsort((angle, labels))
    order = order[angle[order] % 10 == 0]
    return images[order], labels[order]


def rotated(X: Array) -> Array:
    """The rows in an orthonormal basis of their span: same inner products, fewer columns."""
    (R,) = scipy.linalg.qr(X.T, mode="r")
    return np.ascontiguousarray(R[: len(X)].T)


def reconstruction_errors(seed: int, *, ordering: str, components: list[int]) -> Result:
    """Mean squared reconstruction error of every image, by method and number of components.

    ``sums[method]`` has one value per number of components, the mean over all images;
    ``profiles[method]`` one value per image (in the order of the objects) at 50 components.
    Methods are ``batch``, and ``incX`` and ``incA`` for every ``guard``.
    """
    X, n_pixels = _coordinates()
    order = np.arange(len(X))
    if ordering == "rnd":
        order = np.random.default_rng(seed).permutation(len(X))
    sums: dict[str, list[float]] = {}
    profiles: dict[str, list[float]] = {}
    for k in components:
        rebuilt = {"batch": batch_pca(X, k).completed}
        for guard in GUARDS:
            pca = StreamingPCA(n_components=k, guard=guard, keep_coefficients=True).fit(X[order])
            rebuilt[f"incX, guard={guard}"] = pca.inverse_transform(pca.transform(X))
            kept = np.empty_like(X)
            kept[order] = pca.inverse_transform(pca.coefficients_)
            rebuilt[f"incA, guard={guard}"] = kept
        for name, images in rebuilt.items():
            errors = ((X - images) ** 2).sum(axis=1) / n_pixels
            sums.setdefault(name, []).append(float(errors.mean()))
            if k == SHOWN_COMPONENTS:
                profiles[name] = np.round(errors, 3).tolist()
    return {"components": components, "sums": sums, "profiles": profiles}


def above_batch(result: Result, method: str) -> Array:
    """Error above that of batch PCA in per cent, for each number of components."""
    ours, batch = (np.array(result["sums"][name]) for name in (method, "batch"))
    above: Array = 100.0 * (ours / batch - 1.0)
    return above


@cache
def _coordinates() -> tuple[Array, int]:
    images, _ = views()
    rows = images.reshape(len(images), -1).astype(np.float64)
    return rotated(rows), rows.shape[1]
