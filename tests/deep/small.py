"""Tiny pictures that a tiny network can learn, and networks that train in a second."""

import numpy as np
import pytest
import torch

from everlearn.deep.augment import Augmentation
from everlearn.deep.descent import Recipe
from everlearn.deep.networks import ResNet18

SIZE = 12


@pytest.fixture(autouse=True)
def one_thread():
    """One thread: on a busy machine, small work on several threads mostly waits for them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def striped(n_per_class: int, n_classes: int = 3, seed: int = 0):
    """Noise with stripes: a direction and colour per class, a phase per picture."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[0:SIZE, 0:SIZE]
    pictures, labels = [], []
    for label in range(n_classes):
        angle = np.pi * label / n_classes
        for _ in range(n_per_class):
            phase = rng.uniform(0, 2 * np.pi)
            wave = np.sin(1.3 * (rows * np.cos(angle) + columns * np.sin(angle)) + phase)
            grey = 110 + 50 * wave[..., None] + rng.normal(0, 25, (SIZE, SIZE, 3))
            pictures.append(np.clip(grey, 0, 255).astype(np.uint8))
            labels.append(label)
    return np.stack(pictures), np.array(labels)


def tiny(seed: int = 0) -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ResNet18(width=4)


def quick(**changes) -> Recipe:
    plain = Augmentation(padding=1)
    values = {"epochs": 8, "batch_size": 16, "learning_rate": 0.1, "augmentation": plain}
    return Recipe(**(values | changes))


@pytest.fixture(scope="session")
def stripes():
    return striped(20)
