"""Experiments on what Skočaj and Leonardis (2002) describe or announce without numbers.

scattered    Sec. 4: robust projection of images with outlying pixels scattered over them
drift        Sec. 6: image weights and forgetting, when the scene is replaced by another
"""

from typing import Any

import numpy as np

from everlearn.arrays import Array
from everlearn.evaluation.metrics import msre
from everlearn.subspace.robust import RobustStreamingPCA
from everlearn.subspace.streaming import StreamingPCA
from everlearn_papers.repeat import Result
from everlearn_papers.subspace.scenes import FRESH
from everlearn_papers.subspace.sequences import PHOTOGRAPHS, changing_scene

N_COMPONENTS = 6
N_PROJECTED = 10
SHARES = (0.1, 0.3, 0.5)
N_IMAGES = 60
# Forgetting: factor on the weight of all earlier images with each new one.
MEMORIES: dict[str, dict[str, Any]] = {
    "long: forgetting = 1": {},
    "forgetting = 0.98": {"half_life": float(np.log(0.5) / np.log(0.98))},
    "short: forgetting = 0.9": {"half_life": float(np.log(0.5) / np.log(0.9))},
}
WEIGHT_OF_NEW = 5.0
SETTINGS = {"components": N_COMPONENTS, "images of a scene": N_IMAGES}
WEIGHTED = f"long, sample_weight = {WEIGHT_OF_NEW:g} for the new scene"


def scattered(seed: int, *, shape: list[int]) -> Result:
    """Errors of standard and robust projection, by the share of outlying pixels.

    Errors are with respect to the true images, which also define the eigenspace; outlying pixels
    have random grey levels.
    """
    rng = np.random.default_rng(FRESH + seed)
    truth = _truth(seed, PHOTOGRAPHS[seed % len(PHOTOGRAPHS)], shape)
    pca = RobustStreamingPCA(n_components=N_COMPONENTS, image_shape=(shape[0], shape[1]))
    pca.start(truth)
    chosen = truth[rng.choice(len(truth), N_PROJECTED, replace=False)]
    plain = StreamingPCA(n_components=N_COMPONENTS).fit(truth)
    result: Result = {"none": msre(chosen, _rebuilt(plain, chosen)), "plain": [], "robust": []}
    for share in SHARES:
        seen = np.where(
            rng.random(chosen.shape) < share, rng.uniform(0.0, 255.0, chosen.shape), chosen
        )
        result["plain"].append(msre(chosen, _rebuilt(plain, seen)))
        result["robust"].append(msre(chosen, pca.inverse_transform(pca.transform(seen))))
    return result


def drift(seed: int, *, shape: list[int]) -> Result:
    """Error of each image before it is learned, when the scene changes, by memory setting.

    ``next`` has one error per image; ``old`` is the error of the first scene at the end.
    """
    scenes = [_truth(seed, photograph, shape) for photograph in PHOTOGRAPHS]
    images = np.concatenate(scenes)
    result: Result = {"next": {}, "old": {}}
    settings = {**MEMORIES, WEIGHTED: {}}
    for name, own in settings.items():
        pca = StreamingPCA(n_components=N_COMPONENTS, **own).fit(images[:N_COMPONENTS])
        errors = []
        for place, image in enumerate(images[N_COMPONENTS:], start=N_COMPONENTS):
            errors.append(msre(image, _rebuilt(pca, image[None])[0]))
            is_new = place >= len(scenes[0])
            weight = WEIGHT_OF_NEW if name == WEIGHTED and is_new else 1.0
            pca.partial_fit(image[None], sample_weight=[weight])
        result["next"][name] = np.round(errors, 3).tolist()
        result["old"][name] = msre(scenes[0], _rebuilt(pca, scenes[0]))
    return result


def _truth(seed: int, photograph: str, shape: list[int]) -> Array:
    scene = changing_scene(
        photograph=photograph,
        n_images=N_IMAGES,
        shape=(shape[0], shape[1]),
        random_state=FRESH + seed,
    )
    images: Array = scene.truth.reshape(N_IMAGES, -1)
    return images


def _rebuilt(pca: Any, images: Array) -> Array:
    rebuilt: Array = pca.inverse_transform(pca.transform(images))
    return rebuilt
