"""Networks of other packages by name: timm, torchvision, open_clip and transformers.

A name looks like ``timm:resnet18``. Each package specifies the preprocessing of a model; this file
reads it, finds the part of the model that produces one vector per picture, and combines the two
into a :class:`TorchEmbedder`. The functions ``from_…`` take an existing model, for instance one
with your own weights.

=============  ==================================  ============================================
package        source of the preprocessing         the vector
=============  ==================================  ============================================
timm           ``model.pretrained_cfg``            the model without its classifier
torchvision    ``weights.transforms()``            the input of the last linear layer
open_clip      ``model.visual.image_mean``, …      ``encode_image``
transformers   ``AutoImageProcessor``              ``get_image_features``, or ``pooler_output``,
                                                   or the first token of ``last_hidden_state``
=============  ==================================  ============================================
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from everlearn.errors import EverlearnError, InvalidParameter, MissingData, MissingPackage
from everlearn.images.torch_embedder import TorchEmbedder, offline_if_unreachable
from everlearn.interrupts import deferred_interrupts

# The usual normalisation of torch models, for pixels from 0 to 1.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_DEVIATION = (0.229, 0.224, 0.225)
INSTALLED_AS = {"open_clip": "open_clip_torch"}


def hub_of(word: str) -> str | None:
    """The package in a name such as ``timm:resnet18``, if there is one."""
    hub, colon, name = word.partition(":")
    return hub if colon and name and hub in HUBS else None


def hub_embedder(word: str, device: str = "cpu") -> TorchEmbedder:
    """The embedder for a name such as ``timm:resnet18``, with pretrained weights.

    Weights come from the package's cache, or are downloaded by the package.

    Parameters
    ----------
    word : str
        ``timm:NAME``, ``torchvision:NAME``, ``open_clip:NAME`` or ``open_clip:NAME/WEIGHTS``,
        ``transformers:NAME``.
    device : str, default="cpu"
    """
    hub, _, name = word.partition(":")
    if hub_of(word) is None:
        raise InvalidParameter(f"{word!r} is not one of {', '.join(f'{h}:NAME' for h in HUBS)}")
    try:
        with deferred_interrupts():
            package = importlib.import_module(hub)
    except ImportError:
        raise MissingPackage(
            f"{word!r} needs the package {hub}, which is not installed; "
            f"pip install {INSTALLED_AS.get(hub, hub)}"
        ) from None
    with offline_if_unreachable():
        try:
            return HUBS[hub](package, name, device)
        except EverlearnError:
            raise
        except Exception as error:
            raise MissingData(
                f"{hub} has no model {name!r}, or its weights cannot be loaded: {error}. Load it "
                "once with a network connection (the weights stay in the cache of the package), "
                "or create the model yourself and pass it to everlearn.images.hub_models"
            ) from None


def from_timm(model: Any, *, name: str | None = None, device: str = "cpu") -> TorchEmbedder:
    """A model of timm, created with ``num_classes=0``."""
    config: Mapping[str, Any] = model.pretrained_cfg
    size = config.get("test_input_size") or config.get("input_size") or (3, 224, 224)
    crop = config.get("test_crop_pct") or config.get("crop_pct") or 0.875
    return _embedder(
        model,
        name,
        device,
        size=int(size[-1]),
        crop=float(crop),
        mean=config.get("mean") or IMAGENET_MEAN,
        deviation=config.get("std") or IMAGENET_DEVIATION,
    )


def from_torchvision(
    model: Any, transforms: Any, *, name: str | None = None, device: str = "cpu"
) -> TorchEmbedder:
    """A classifier of torchvision without its last linear layer.

    Parameters
    ----------
    model : torch.nn.Module
        Its last linear layer is replaced by the identity.
    transforms : object
        The result of ``weights.transforms()``: ``crop_size``, ``resize_size``, ``mean``, ``std``.
    """
    import torch

    linear = [key for key, part in model.named_modules() if isinstance(part, torch.nn.Linear)]
    if not linear:
        raise InvalidParameter(f"{type(model).__name__} has no linear layer to remove")
    parent, _, last = linear[-1].rpartition(".")
    setattr(model.get_submodule(parent), last, torch.nn.Identity())
    size, resized = _side(transforms.crop_size), _side(transforms.resize_size)
    return _embedder(
        model,
        name,
        device,
        size=size,
        crop=min(1.0, size / resized),
        mean=transforms.mean,
        deviation=transforms.std,
    )


def from_open_clip(model: Any, *, name: str | None = None, device: str = "cpu") -> TorchEmbedder:
    """The image part of a model of open_clip."""
    visual = model.visual
    return _embedder(
        visual,
        name,
        device,
        size=_side(visual.image_size),
        crop=1.0,
        mean=getattr(visual, "image_mean", None) or IMAGENET_MEAN,
        deviation=getattr(visual, "image_std", None) or IMAGENET_DEVIATION,
        through=lambda _, pictures: model.encode_image(pictures),
    )


def from_transformers(
    model: Any, processor: Any, *, name: str | None = None, device: str = "cpu"
) -> TorchEmbedder:
    """A vision model of transformers, or the image part of a model of pictures and text.

    Parameters
    ----------
    model : transformers.PreTrainedModel
    processor : transformers image processor
        ``size``, ``crop_size``, ``image_mean`` and ``image_std`` are read from it.
    """
    crops = bool(getattr(processor, "do_center_crop", False))
    resized = _side(processor.size)
    size = _side(processor.crop_size) if crops else resized
    return _embedder(
        model,
        name,
        device,
        size=size,
        crop=min(1.0, size / resized),
        mean=processor.image_mean,
        deviation=processor.image_std,
        through=_transformers_vectors,
    )


def _transformers_vectors(model: Any, pictures: Any) -> Any:
    if hasattr(model, "get_image_features"):
        output = model.get_image_features(pixel_values=pictures)
        return getattr(output, "pooler_output", output)
    output = model(pixel_values=pictures)
    pooled = getattr(output, "pooler_output", None)
    return output.last_hidden_state[:, 0] if pooled is None else pooled


def _embedder(
    model: Any,
    name: str | None,
    device: str,
    *,
    size: int,
    crop: float,
    mean: Sequence[float],
    deviation: Sequence[float],
    through: Callable[[Any, Any], Any] | None = None,
) -> TorchEmbedder:
    return TorchEmbedder(
        model,
        prefix=name,
        size=size,
        crop=crop,
        mean=tuple(255.0 * float(value) for value in mean),
        scale=tuple(255.0 * float(value) for value in deviation),
        device=device,
        through=through,
    )


def _side(size: Any) -> int:
    """The side in pixels, from any of the forms in which packages write a size."""
    if isinstance(size, Mapping) or hasattr(size, "get"):
        size = size.get("shortest_edge") or size.get("height")
    return int(size[0] if isinstance(size, (list, tuple)) else size)


def _timm(package: Any, name: str, device: str) -> TorchEmbedder:
    model = package.create_model(name, pretrained=True, num_classes=0)
    return from_timm(model, name=f"timm:{name}", device=device)


def _torchvision(package: Any, name: str, device: str) -> TorchEmbedder:
    weights = package.models.get_model_weights(name).DEFAULT
    model = package.models.get_model(name, weights=weights)
    return from_torchvision(model, weights.transforms(), name=f"torchvision:{name}", device=device)


def _open_clip(package: Any, name: str, device: str) -> TorchEmbedder:
    model_name, _, weights = name.partition("/")
    model = package.create_model(model_name, pretrained=weights or None)
    return from_open_clip(model, name=f"open_clip:{name}", device=device)


def _transformers(package: Any, name: str, device: str) -> TorchEmbedder:
    model = package.AutoModel.from_pretrained(name)
    processor = package.AutoImageProcessor.from_pretrained(name)
    return from_transformers(model, processor, name=f"transformers:{name}", device=device)


HUBS: dict[str, Callable[[Any, str, str], TorchEmbedder]] = {
    "timm": _timm,
    "torchvision": _torchvision,
    "open_clip": _open_clip,
    "transformers": _transformers,
}
