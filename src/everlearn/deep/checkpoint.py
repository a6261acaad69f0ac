"""The checkpoint file of a training, from which an interrupted run resumes.

One file in the format of :func:`everlearn.save` (no code inside, digest checked, replaced
atomically): the current weights, the best so far, and the optimiser's momentum; with the network,
pictures and recipe they belong to, and the number of epochs done. A file of another network, other
pictures or another recipe is refused: it would silently resume a different run.
"""

import dataclasses
import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from everlearn.deep.descent import Recipe
from everlearn.deep.networks import fingerprint
from everlearn.deep.pictures import Pictures
from everlearn.errors import DamagedModel, OtherNetwork
from everlearn.persistence import load_arrays, save_arrays

# Exceptions raised by files with a valid digest and invalid contents.
MALFORMED = (
    KeyError, IndexError, ValueError, TypeError, AttributeError, RuntimeError, OverflowError,
)  # fmt: skip
KIND = "training"


@dataclass
class TrainingProgress:
    """The progress of a training."""

    epochs_done: int = 0
    best: float = -1.0
    best_epoch: int = -1
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)


class Checkpoint:
    """The checkpoint file of a training.

    Parameters
    ----------
    path : path-like
    classifier : the network with its output layer
    recipe : Recipe
    pictures : Pictures
        The training pictures.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        classifier: nn.Module,
        recipe: Recipe,
        pictures: Pictures,
    ) -> None:
        self.path = Path(path)
        self._belongs_to = {
            "network": fingerprint(classifier),
            "pictures": digest_of(pictures),
            "recipe": repr(dataclasses.asdict(recipe)),
        }

    def save(
        self, classifier: nn.Module, optimizer: torch.optim.Optimizer, progress: TrainingProgress
    ) -> None:
        """Write the current state of the training, replacing the file atomically."""
        arrays = _arrays("now.", classifier.state_dict())
        arrays |= _arrays("best.", progress.best_weights)
        arrays |= _arrays("momentum.", _momenta(optimizer))
        description = {
            "belongs to": self._belongs_to,
            "epochs done": progress.epochs_done,
            "best": progress.best,
            "best epoch": progress.best_epoch,
            "history": progress.history,
        }
        save_arrays(self.path, KIND, description, arrays)

    def load(self, classifier: nn.Module, optimizer: torch.optim.Optimizer) -> TrainingProgress:
        """Restore a classifier and its optimiser from the file; without a file, start from zero.

        Raises
        ------
        OtherNetwork
            If the file is of another network, other pictures or another recipe.
        DamagedModel, NotAModel, NewerFormat
            If the file cannot be read; delete it to start over.
        """
        if not self.path.exists():
            return TrainingProgress()
        kind, description, arrays = load_arrays(self.path)
        if kind != KIND:
            raise OtherNetwork(f"{self.path} holds a {kind}, not a training; use another path")
        require_finite_weights(self.path, arrays)
        belongs_to = description.get("belongs to") if isinstance(description, dict) else None
        self._require_same(belongs_to if isinstance(belongs_to, dict) else {})
        try:
            progress = TrainingProgress(
                int(description["epochs done"]),
                float(description["best"]),
                int(description["best epoch"]),
                _tensors("best.", arrays),
                list(description["history"]),
            )
            classifier.load_state_dict(_tensors("now.", arrays))
            _restore_momenta(optimizer, _tensors("momentum.", arrays))
        except MALFORMED as error:
            raise DamagedModel(
                f"{self.path} is intact but does not describe a training: {error}"
            ) from None
        return progress

    def _require_same(self, other: dict[str, Any]) -> None:
        differing = [key for key, value in self._belongs_to.items() if other.get(key) != value]
        if differing:
            raise OtherNetwork(
                f"{self.path} belongs to a training with another {' and other '.join(differing)}; "
                "use another path, or delete it to start over"
            )


def require_finite_weights(path: str | os.PathLike[str], arrays: dict[str, Any]) -> None:
    """Refuse weights with NaN or infinity, which would spread to every vector."""
    for key, value in arrays.items():
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise DamagedModel(f"{path} is intact, but {key} holds NaN or infinity")


def digest_of(pictures: Pictures) -> str:
    """Identifies pictures, labels and their order."""
    digest = hashlib.sha256(np.ascontiguousarray(pictures.pixels).data)
    digest.update("\n".join(map(str, pictures.labels.tolist())).encode())
    return digest.hexdigest()[:16]


def copied(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """A copy of weights that further training does not change."""
    return {key: value.detach().clone() for key, value in weights.items()}


def _momenta(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The momentum of each parameter, by its index in the optimiser."""
    found = {}
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for number, parameter in enumerate(parameters):
        buffer = optimizer.state[parameter].get("momentum_buffer")
        if buffer is not None:
            found[str(number)] = buffer
    return found


def _restore_momenta(optimizer: torch.optim.Optimizer, momenta: dict[str, Tensor]) -> None:
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for number, buffer in momenta.items():
        parameter = parameters[int(number)]
        if buffer.shape != parameter.shape:
            raise ValueError(f"the momentum of parameter {number} has the shape {buffer.shape}")
        optimizer.state[parameter]["momentum_buffer"] = buffer.to(parameter.device)


def _arrays(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    return {f"{prefix}{key}": t.detach().cpu().contiguous().numpy() for key, t in tensors.items()}


def _tensors(prefix: str, arrays: dict[str, Any]) -> dict[str, Tensor]:
    return {
        key.removeprefix(prefix): torch.from_numpy(value.copy())
        for key, value in arrays.items()
        if key.startswith(prefix)
    }
