"""Fig. 2 of Skočaj and Leonardis (2002): how far the incremental eigenspace is from the batch one.

COIL-20, every second view: 720 images of 128 × 128 pixels, the paper's own data. incX projects the
images into the final eigenspace, incA uses the coefficients kept since each image was learned.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy import pack
from benchmarks.side_by_side import Line
from everlearn import StreamingPCA

COMPONENTS = (10, 20, 30, 50, 75, 100)
PUBLISHED = {"in order": (3.1, 8.6), "random": (1.3, 3.1)}
WANTED = {(0, "in order"): (3.6, 9.0), (0, "random"): (1.8, 4.3)}
WANTED |= {(8, "in order"): (1.5, 5.0), (8, "random"): (0.8, 2.2)}


def excess(X: NDArray[np.float64], guard: int) -> tuple[float, float]:
    """Percent of squared reconstruction error above batch PCA, mean over numbers of components."""
    centred = X - X.mean(axis=0)
    energies = np.linalg.eigvalsh(centred @ centred.T)[::-1]
    projected, kept = [], []
    for k in COMPONENTS:
        pca = StreamingPCA(n_components=k, guard=guard, keep_coefficients=True).fit(X)
        best = energies[k:].sum() / X.shape[1]
        projected.append(pca.reconstruction_error(X).sum() / best - 1)
        reconstructed = pca.inverse_transform(pca.coefficients_)
        kept.append(((X - reconstructed) ** 2).mean(axis=1).sum() / best - 1)
    return 100 * float(np.mean(projected)), 100 * float(np.mean(kept))


def lines() -> Iterator[Line]:
    data = pack("coil20.npz")
    if data is None:
        return
    views = data["angle_deg"] % 10 == 0
    X = data["images"][views].reshape(views.sum(), -1).astype(np.float64)
    orders = {"in order": np.arange(len(X)), "random": np.random.default_rng(0).permutation(len(X))}
    for guard, name in WANTED:
        inc_x, inc_a = excess(X[orders[name]], guard)
        kind = "as published" if guard == 0 else f"default, guard={guard}"
        wanted, published = WANTED[guard, name], PUBLISHED[name]
        yield Line(
            f"COIL-20, images {name}, {kind}: error above batch PCA, incX / incA",
            f"{inc_x:.2f} % / {inc_a:.2f} %",
            f"≤ {wanted[0]} / {wanted[1]}; the paper: {published[0]} / {published[1]}",
        )
