"""``python -m benchmarks.subspace_picture``: the picture in docs/subspace.md.

A scene of ``everlearn_papers.subspace.scenes`` is learned with no seed given; shown are images as
seen, the pixels found not to belong there, the repaired images and the truth.
"""

from pathlib import Path

import numpy as np
from everlearn_papers.subspace.scenes import scene

from everlearn import RobustStreamingPCA

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "subspace_repair.png"
SHOWN = 5


def draw() -> Path:
    from matplotlib import colormaps
    from matplotlib.image import imsave

    made, k = scene(0)
    order = np.random.default_rng(0).permutation(len(made.images))
    X = made.images.reshape(len(made.images), -1)
    pca = RobustStreamingPCA(n_components=k, image_shape=made.shape).fit(X[order])
    occluded = np.flatnonzero(made.occluded.any(axis=(1, 2)))
    chosen = occluded[np.linspace(0, len(occluded) - 1, SHOWN).astype(int)]
    outliers, _ = pca.outliers(X[chosen])
    rows = [
        made.images[chosen],
        255.0 * outliers.reshape(SHOWN, *made.shape),
        pca.restore(X[chosen]).reshape(SHOWN, *made.shape),
        made.truth[chosen],
    ]
    framed = [[np.pad(image, 2, constant_values=255.0) for image in row] for row in rows]
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    imsave(PICTURE, np.block(framed), cmap=colormaps["gray"], vmin=0, vmax=255)
    return PICTURE


if __name__ == "__main__":
    print(f"written to {draw()}")
