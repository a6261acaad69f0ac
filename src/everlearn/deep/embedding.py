"""A network as an embedder: used directly, saved to one file, exported to ONNX.

DeepEmbedder     for Memory and for learners; embeds whole arrays of pictures on the device
save_embedder    one file in the format of :func:`everlearn.save`
load_embedder    the same embedder again, under the same name
export_onnx      one ONNX file that :class:`~everlearn.images.embedders.OnnxEmbedder` reads
                 without torch, under the same name: a Memory taught with one can be opened
                 with the other
"""

import contextlib
import json
import logging
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from everlearn.deep.checkpoint import MALFORMED, require_finite_weights
from everlearn.deep.descent import BATCH_ROWS, MEAN, SCALE, Shown
from everlearn.deep.networks import NETWORKS, as_vectors, fingerprint, named_network
from everlearn.errors import (
    DamagedModel,
    InvalidParameter,
    MissingPackage,
    NotAModel,
    NotExportable,
    OtherNetwork,
)
from everlearn.images.embedders import Vectors
from everlearn.images.onnx_files import ONNX_METADATA
from everlearn.images.torch_embedder import TorchEmbedder
from everlearn.persistence import load_arrays, replace_file, save_arrays

KIND = "embedder"


class DeepEmbedder(TorchEmbedder):
    """A trained network as the embedder of a learner or a Memory.

    Parameters
    ----------
    network : torch.nn.Module
    architecture : str, optional
        Its name in ``everlearn.deep.networks.NETWORKS``, from which a file restores the code.
    name, size, crop, mean, scale, device
        As in :class:`~everlearn.images.torch_embedder.TorchEmbedder`.
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        architecture: str | None = None,
        name: str | None = None,
        size: int = 32,
        crop: float = 1.0,
        mean: Any = MEAN,
        scale: Any = SCALE,
        device: str = "cpu",
    ) -> None:
        super().__init__(
            network, name=name, size=size, crop=crop, mean=mean, scale=scale, device=device
        )
        self.network = network
        self.architecture = architecture

    def embed(self, images: Any) -> Vectors:
        """Vectors of pictures; an array of the right size is not prepared picture by picture."""
        side = (self.size, self.size, 3)
        fits = isinstance(images, np.ndarray) and images.shape[1:] == side and self.crop == 1.0
        if not fits or images.dtype != np.uint8:
            return super().embed(images)
        shown = Shown(
            images,
            np.zeros(len(images), np.int64),
            torch.device(self.device),
            self.mean,
            self.scale,
        )
        self.network.eval()
        vectors = np.empty((len(images), self.n_features), dtype=np.float32)
        with torch.inference_mode():
            for number, pictures in enumerate(shown.plain()):
                start = number * BATCH_ROWS
                rows = as_vectors(self.network(pictures)).float().cpu().numpy()
                vectors[start : start + len(rows)] = rows
        return vectors


def save_embedder(embedder: DeepEmbedder, path: str | os.PathLike[str]) -> None:
    """Write an embedder to one file, atomically."""
    description = _preprocessing(embedder) | {
        "architecture": embedder.architecture,
        "network": fingerprint(embedder.network),
    }
    state = embedder.network.state_dict()
    arrays = {key: value.detach().cpu().contiguous().numpy() for key, value in state.items()}
    save_arrays(path, KIND, description, arrays)


def load_embedder(
    path: str | os.PathLike[str], network: nn.Module | None = None, *, device: str = "cpu"
) -> DeepEmbedder:
    """Read an embedder written by :func:`save_embedder`.

    Parameters
    ----------
    path : path-like
    network : torch.nn.Module, optional
        The module for the weights, if it is not one of everlearn's own: a file contains no
        code.
    device : str, default="cpu"

    Raises
    ------
    OtherNetwork
        If the weights do not belong to this module.
    CannotRead, NotAModel, DamagedModel, NewerFormat
    """
    kind, description, arrays = load_arrays(path)
    if kind != KIND:
        raise NotAModel(f"{path} holds a {kind}, not an embedder")
    try:
        architecture, expected = description["architecture"], description["network"]
        settings = {key: description[key] for key in ("name", "size", "crop", "mean", "scale")}
    except KeyError as error:
        raise DamagedModel(f"{path} is intact but does not describe an embedder: {error}") from None
    if network is None:
        if not isinstance(architecture, str) or architecture not in NETWORKS:
            raise InvalidParameter(
                f"{path} holds the weights of a module that is not one of everlearn's; "
                "pass it as network=..."
            )
        network = named_network(architecture)
    if fingerprint(network) != expected:
        raise OtherNetwork(
            f"{path} holds the weights of another network than the given {type(network).__name__}"
        )
    require_finite_weights(path, arrays)
    # load_state_dict accepts a file without the batch counters of batch normalisation.
    if missing := network.state_dict().keys() - arrays.keys():
        raise DamagedModel(f"{path} is intact but has no weights called {min(missing)}")
    try:
        network.load_state_dict({key: torch.from_numpy(value) for key, value in arrays.items()})
        return DeepEmbedder(network, architecture=architecture, device=device, **settings)
    except MALFORMED as error:
        raise DamagedModel(f"{path} is intact but does not describe an embedder: {error}") from None


def export_onnx(embedder: DeepEmbedder, path: str | os.PathLike[str]) -> None:
    """Write an embedder as one ONNX file, including weights and preprocessing.

    Raises
    ------
    MissingPackage
        If onnxscript, which torch's exporter needs, is not installed.
    NotExportable
        If the module uses an operation that ONNX does not have.
    """
    try:
        import onnxscript  # noqa: F401
    except ImportError:
        raise MissingPackage(
            "export to ONNX needs onnxscript; install it with: pip install 'everlearn[torch]'"
        ) from None
    module = _Vectors(embedder.network).eval()
    device = torch.device(embedder.device)
    example = torch.zeros(2, 3, embedder.size, embedder.size, device=device)
    try:
        with _exporter_quiet():
            program = torch.onnx.export(
                module,
                (example,),
                input_names=["pictures"],
                output_names=["vectors"],
                dynamic_shapes=({0: torch.export.Dim("n")},),
                dynamo=True,
                verbose=False,
            )
    except torch.onnx.OnnxExporterError as error:
        raise NotExportable(
            f"{type(embedder.network).__name__} cannot be written as ONNX: {error}"
        ) from None
    assert program is not None
    program.model.metadata_props[ONNX_METADATA] = json.dumps(_preprocessing(embedder))
    replace_file(Path(path), program.model_proto.SerializeToString())


@contextlib.contextmanager
def _exporter_quiet() -> Iterator[None]:
    """Suppress messages of torch's exporter about its internals and absent packages."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


class _Vectors(nn.Module):
    """A network whose feature maps are averaged to vectors, as in the embedder."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return as_vectors(self.network(pictures))


def _preprocessing(embedder: DeepEmbedder) -> dict[str, Any]:
    """Name and preprocessing of the embedder."""
    return {
        "name": embedder.name,
        "size": embedder.size,
        "crop": embedder.crop,
        "mean": embedder.mean.tolist(),
        "scale": embedder.scale.tolist(),
    }
