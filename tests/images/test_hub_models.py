"""Networks of other packages, tested with small random networks of the same interface."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from everlearn.errors import InvalidParameter, MissingData, MissingPackage
from everlearn.images import hub_models
from everlearn.images.by_name import embedder_for

torch = pytest.importorskip("torch", reason="networks of these packages run in torch")

MEAN, DEVIATION = (0.5, 0.25, 0.1), (0.2, 0.5, 0.4)


@pytest.fixture
def picture(rng):
    return rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)


def prepared(picture):
    """Preprocessed pixels, channels first, the same for all packages here."""
    scaled = (picture / 255.0 - np.array(MEAN)) / np.array(DEVIATION)
    return torch.tensor(scaled.transpose(2, 0, 1)[None], dtype=torch.float32)


class Body(torch.nn.Module):
    """Five features of a picture."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv2d(3, 5, 3, stride=2)

    def forward(self, pictures):
        return self.conv(pictures).mean((2, 3))


def test_timm(picture):
    model = Body()
    model.pretrained_cfg = {
        "input_size": (3, 8, 8), "crop_pct": 1.0, "mean": MEAN, "std": DEVIATION,
    }  # fmt: skip
    embedder = hub_models.from_timm(model, name="timm:tiny")
    assert embedder.name.startswith("timm:tiny ")
    expected = model(prepared(picture)).detach().numpy()
    assert np.allclose(embedder.embed([picture]), expected, atol=1e-5)


def test_torchvision_loses_its_last_linear_layer(picture):
    body = Body()
    model = torch.nn.Sequential(
        body, torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Linear(5, 9))
    )
    transforms = SimpleNamespace(crop_size=[8], resize_size=[8], mean=MEAN, std=DEVIATION)
    embedder = hub_models.from_torchvision(model, transforms)
    assert embedder.n_features == 5
    expected = body(prepared(picture)).detach().numpy()
    assert np.allclose(embedder.embed([picture]), expected, atol=1e-5)
    with pytest.raises(InvalidParameter, match="no linear layer"):
        hub_models.from_torchvision(Body(), transforms)


def test_torchvision_keeps_the_crop_of_its_transforms():
    model = torch.nn.Sequential(Body(), torch.nn.Linear(5, 9))
    transforms = SimpleNamespace(crop_size=[224], resize_size=[232], mean=MEAN, std=DEVIATION)
    embedder = hub_models.from_torchvision(model, transforms)
    assert (embedder.size, embedder.crop) == (224, 224 / 232)


def test_open_clip(picture):
    class Clip(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.visual = Body()
            self.visual.image_size, self.visual.image_mean = (8, 8), MEAN
            self.visual.image_std = DEVIATION

        def encode_image(self, pictures):
            return 2.0 * self.visual(pictures)

    model = Clip()
    embedder = hub_models.from_open_clip(model, name="open_clip:tiny")
    expected = 2.0 * model.visual(prepared(picture)).detach().numpy()
    assert np.allclose(embedder.embed([picture]), expected, atol=1e-5)


@pytest.mark.parametrize("kind", ["pooled", "tokens", "clip"])
def test_transformers(picture, kind):
    body = Body()

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = body

        def forward(self, pixel_values):
            vectors = self.body(pixel_values)
            tokens = torch.stack([vectors, 7.0 * vectors], dim=1)
            pooled = 3.0 * vectors if kind == "pooled" else None
            return SimpleNamespace(last_hidden_state=tokens, pooler_output=pooled)

    model = Model()
    if kind == "clip":
        model.get_image_features = lambda pixel_values: 4.0 * body(pixel_values)
    processor = SimpleNamespace(
        size={"height": 8, "width": 8}, image_mean=MEAN, image_std=DEVIATION
    )
    embedder = hub_models.from_transformers(model, processor)
    scale = {"pooled": 3.0, "tokens": 1.0, "clip": 4.0}[kind]
    expected = scale * body(prepared(picture)).detach().numpy()
    assert np.allclose(embedder.embed([picture]), expected, atol=1e-5)


def test_half_precision_and_tokens(picture):
    class Tokens(Body):
        def forward(self, pictures):
            assert pictures.dtype == torch.float16
            vectors = self.conv(pictures).mean((2, 3))
            return torch.stack([vectors, 3.0 * vectors], dim=1)

    model = Tokens().half()
    model.pretrained_cfg = {"input_size": (3, 8, 8), "mean": MEAN, "std": DEVIATION}
    embedder = hub_models.from_timm(model)
    assert embedder.embed([picture]).dtype == np.float32
    assert embedder.n_features == 5


def test_the_prefix_of_a_name_selects_the_package(picture, monkeypatch):
    """With a fake timm whose models are small."""
    made = []

    def create_model(name, *, pretrained, num_classes):
        if name == "missing":
            raise RuntimeError("no such model")
        made.append((name, pretrained, num_classes))
        model = Body()
        model.pretrained_cfg = {"input_size": (3, 8, 8), "mean": MEAN, "std": DEVIATION}
        return model

    package = ModuleType("timm")
    package.create_model = create_model
    monkeypatch.setitem(sys.modules, "timm", package)
    monkeypatch.setattr(hub_models, "offline_if_unreachable", _nothing)
    embedder = embedder_for("timm:tiny")
    assert made == [("tiny", True, 0)]
    assert embedder.name.startswith("timm:tiny ")
    both = embedder_for("timm:tiny+pixels-2")
    assert both.n_features == 5 + 4
    with pytest.raises(MissingData, match="missing"):
        embedder_for("timm:missing")


def _nothing():
    import contextlib

    return contextlib.nullcontext()


@pytest.mark.parametrize("hub", ["timm", "torchvision", "open_clip", "transformers"])
def test_a_missing_package_is_named(hub, monkeypatch):
    monkeypatch.setitem(sys.modules, hub, None)
    with pytest.raises(MissingPackage, match=f"pip install {hub}"):
        embedder_for(f"{hub}:some-model")


def test_unknown_prefixes_are_refused():
    assert hub_models.hub_of("timm:") is None
    assert hub_models.hub_of("C:model.onnx") is None
    with pytest.raises(InvalidParameter, match="timm:NAME"):
        hub_models.hub_embedder("keras:resnet")
