"""A torch module as an embedder; with timm, also a network by its name."""

import hashlib
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from everlearn.errors import MissingData, MissingPackage
from everlearn.images.embedders import NetworkEmbedder, Vectors
from everlearn.interrupts import deferred_interrupts

# The host of timm's weights, and the timeout of a connection test.
WEIGHTS_HUB = "huggingface.co"
HUB_SECONDS = 3.0


class TorchEmbedder(NetworkEmbedder):
    """Any ``torch.nn.Module`` that returns vectors, or a model of timm by its name.

    Parameters
    ----------
    module : torch.nn.Module or str
        Takes NCHW. Feature maps and tokens are averaged. A name is looked up in timm, with its
        pretrained weights, which are downloaded from Hugging Face if they are not in its cache.
    name : str, optional
        Defaults to the class and a digest of the weights.
    prefix : str, optional
        Replaces the class in the default name.
    size, crop, mean, scale
        As in :class:`OnnxEmbedder`; the defaults are those of ImageNet models in torch.
    device : str, default="cpu"
    through : callable, optional
        Returns the vectors of a batch, ``through(module, batch)``; defaults to calling the module.

    Notes
    -----
    *Cost*: that of the network.

    *Promises*: a vector depends on the picture and the weights alone: not on its batch, on threads
    or on the run. On another device the last digits differ.

    Examples
    --------
    >>> import torch  # doctest: +SKIP
    >>> from everlearn import TorchEmbedder
    >>> embedder = TorchEmbedder(torch.nn.Conv2d(3, 16, 3), size=64)  # doctest: +SKIP
    >>> embedder.n_features  # doctest: +SKIP
    16
    """

    threads = 1
    batch_size = 32

    def __init__(
        self,
        module: Any,
        *,
        name: str | None = None,
        prefix: str | None = None,
        size: int = 224,
        crop: float = 0.875,
        mean: float | Sequence[float] = (123.675, 116.28, 103.53),
        scale: float | Sequence[float] = (58.395, 57.12, 57.375),
        device: str = "cpu",
        through: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        try:
            with deferred_interrupts():
                import torch
        except ImportError:
            raise MissingPackage(
                "TorchEmbedder needs torch; install it with: pip install 'everlearn[torch]'"
            ) from None
        super().__init__(size, crop, mean, scale)
        self._torch = torch
        self._module = (_timm_model(module) if isinstance(module, str) else module).eval()
        self._module.to(device)
        self.device = device
        self._through = through
        # Pictures are given in the network's own precision.
        floats = (p.dtype for p in self._module.parameters() if p.is_floating_point())
        self._dtype = next(floats, torch.float32)
        weights, kind = _digest_of_weights(self._module), prefix or type(self._module).__name__
        self.name = name or f"{kind} {weights} {size} {crop} {mean} {scale}"
        self.n_features = self._probed_width()

    def run(self, batch: Vectors) -> Vectors:
        with self._torch.inference_mode():
            pictures = self._torch.from_numpy(batch).to(self.device, self._dtype)
            through = self._through
            output = self._module(pictures) if through is None else through(self._module, pictures)
        if output.ndim == 3:
            # Tokens.
            output = output.mean(1)
        elif output.ndim > 3:
            output = output.flatten(2).mean(2)
        return np.asarray(output.float().cpu().numpy())


def _timm_model(name: str) -> Any:
    try:
        import timm
    except ImportError:
        raise MissingPackage(
            f"{name!r} is looked up in timm, which is not installed; pip install timm, "
            "or pass the module itself"
        ) from None
    with offline_if_unreachable():
        try:
            return timm.create_model(name, pretrained=True, num_classes=0)
        except Exception as error:
            raise MissingData(
                f"the model {name!r} of timm, or its weights, cannot be loaded: {error}. Load it "
                "once with a network connection (its weights stay in the cache of Hugging Face), "
                "or pass a module with your own weights"
            ) from None


@contextmanager
def offline_if_unreachable() -> Iterator[None]:
    """Put huggingface_hub offline if its server cannot be reached.

    Otherwise loading weights would retry for most of a minute before it uses the cache.
    """
    try:
        socket.create_connection((WEIGHTS_HUB, 443), timeout=HUB_SECONDS).close()
        offline = False
    except OSError:
        offline = True
    try:
        from huggingface_hub import constants
    except ImportError:
        yield
        return
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = before or offline
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def _digest_of_weights(module: Any) -> str:
    import torch

    digest = hashlib.sha256()
    for key, value in module.state_dict().items():
        digest.update(key.encode())
        # As bytes: numpy has no bfloat16.
        digest.update(value.detach().cpu().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]
