"""Write the background that every Memory of things begins with: python scripts/background_set.py.

32 random parts of scikit-learn's two photographs (roofs, trees and sky; leaves, without the flower)
as vectors of each network that a word stands for, in half precision. Both photographs are under
CC BY 2.0.
The parts are drawn with a fixed seed: the same file every time. Needs everlearn-networks.
"""

import hashlib
import json

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from safetensors.numpy import save
from sklearn.datasets import load_sample_image

from everlearn.images.by_name import embedder_for
from everlearn.images.embedders import WEIGHTS, Edges, Embedder

NETWORKS = ("basic", "fast", "balanced", "best")
EACH = 16
SMALLEST, LARGEST = 0.1, 0.6  # sides, as shares of the photograph's
# Left, top, right, bottom of what is no background, as shares of the sides.
FLOWER = (0.2, 0.14, 0.7, 0.86)
MOST_FLOWER = 0.1


def parts(
    rng: np.random.Generator, width: int, height: int, avoid: tuple[float, ...] | None
) -> list[Edges]:
    """Random boxes in pixels, at most a tenth of each in what is to be avoided."""
    found: list[Edges] = []
    while len(found) < EACH:
        w, h = rng.uniform(SMALLEST, LARGEST, 2)
        left, top = rng.uniform(0.0, 1.0 - w), rng.uniform(0.0, 1.0 - h)
        right, bottom = left + w, top + h
        if avoid is not None:
            across = max(0.0, min(right, avoid[2]) - max(left, avoid[0]))
            down = max(0.0, min(bottom, avoid[3]) - max(top, avoid[1]))
            if across * down > MOST_FLOWER * w * h:
                continue
        found.append((left * width, top * height, right * width, bottom * height))
    return found


def vectors_of(embedder: Embedder) -> NDArray[np.float16]:
    """The vectors of all parts, one row each."""
    rng = np.random.default_rng(0)
    prepared: list[NDArray[np.float32]] = []
    for name, avoid in (("china.jpg", None), ("flower.jpg", FLOWER)):
        picture = Image.fromarray(load_sample_image(name))
        boxes = parts(rng, *picture.size, avoid)
        prepared += [embedder.prepare_part(picture, edges) for edges in boxes]
    return np.concatenate([embedder.run(one[None]) for one in prepared]).astype(np.float16)


def main() -> None:
    made = {word: embedder_for(word) for word in NETWORKS}
    data = save({word: vectors_of(embedder) for word, embedder in made.items()})
    (WEIGHTS / "background.safetensors").write_bytes(data)
    about = {
        "file": "background.safetensors",
        "sha256": hashlib.sha256(data).hexdigest(),
        "licence": "made from photographs under CC BY 2.0",
        "photographs": {
            "china.jpg": "danielbuechele, flickr.com/photos/danielbuechele/6061409035",
            "flower.jpg": "vultilion, flickr.com/photos/vultilion/6056698931",
        },
        "from": "scikit-learn, sklearn/datasets/images",
        "arrays": {embedder.name: word for word, embedder in made.items()},
        "vectors": f"float16, {2 * EACH} of random parts for each embedder",
        "written_by": "scripts/background_set.py",
    }
    (WEIGHTS / "background.json").write_text(json.dumps(about, indent=2) + "\n")


if __name__ == "__main__":
    main()
