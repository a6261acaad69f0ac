"""Networks from pictures to vectors, without an output layer: G in Hayes and Kanan (2020).

    ResNet18       He et al. 2016, Table 1       512 features, 11.2 million parameters
    MobileNetV2    Sandler et al. 2018, Table 2  1,280 features, 2.2 million parameters

Each has two stems. ``"imagenet"`` is the published one: it halves a picture several times before
the first block and suits 224 × 224 pixels. ``"small"`` keeps the resolution at the start, as is
usual for pictures of 32 × 32: in ResNet-18 one 3 × 3 convolution replaces the 7 × 7 with stride 2
and the pooling behind it; in MobileNetV2 the first two strides become 1.

Parameters have torchvision's names, so that its weights can be loaded.

Any other ``torch.nn.Module`` from (n, 3, size, size) to (n, d), or to a feature map, which is then
averaged, can be used wherever a network is expected.
"""

import hashlib
from collections.abc import Callable
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from everlearn.errors import InvalidParameter, WrongShape

Stem = Literal["small", "imagenet"]
# Table 2 of MobileNetV2: expansion, channels, repeats, stride of the first.
INVERTED_RESIDUALS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
ROUND_TO = 8
N_STAGES = 4
TINY = 1e-12


class ResNet18(nn.Module):
    """Four stages of two basic blocks each.

    Parameters
    ----------
    stem : {"small", "imagenet"}, default="small"
    width : int, default=64
        Channels of the first stage; each stage doubles them. 64 is the published network.
    """

    def __init__(self, stem: Stem = "small", width: int = 64) -> None:
        super().__init__()
        _require_stem(stem)
        if stem == "small":
            self.conv1 = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        else:
            self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.maxpool = nn.MaxPool2d(3, 2, 1) if stem == "imagenet" else nn.Identity()
        self.layer1 = _stage(width, width, 1)
        self.layer2 = _stage(width, 2 * width, 2)
        self.layer3 = _stage(2 * width, 4 * width, 2)
        self.layer4 = _stage(4 * width, 8 * width, 2)
        _initialise(self)

    def forward(self, pictures: Tensor) -> Tensor:
        return self.stages(pictures)[-1].mean((2, 3))

    def stages(self, pictures: Tensor) -> list[Tensor]:
        """The feature maps of the four stages."""
        maps = self.maxpool(torch.relu(self.bn1(self.conv1(pictures))))
        outputs = []
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            maps = stage(maps)
            outputs.append(maps)
        return outputs


class LastStages(nn.Module):
    """The last stages of a trained network, concatenated, each as its square root at length one.

    The last stage has learned to separate the base classes, and has lost other information that
    earlier stages still have. All of them together separate unseen classes better.

    Parameters
    ----------
    network : ResNet18
    n : int, default=3
        Number of stages, counted from the last; at most four.
    """

    def __init__(self, network: nn.Module, n: int = 3) -> None:
        super().__init__()
        if not isinstance(network, ResNet18):
            raise InvalidParameter(f"LastStages needs a ResNet18, not a {type(network).__name__}")
        if not 1 <= n <= N_STAGES:
            raise InvalidParameter(f"n must be from 1 to {N_STAGES}, not {n}")
        self.network = network
        self.n = n

    def forward(self, pictures: Tensor) -> Tensor:
        means = [maps.float().mean((2, 3)) for maps in self.network.stages(pictures)[-self.n :]]
        # The square root has no derivative at zero.
        return torch.cat([nn.functional.normalize((mean + TINY).sqrt()) for mean in means], 1)


class BasicBlock(nn.Module):
    """x + F(x), F two 3 × 3 convolutions; if the size changes, x passes a 1 × 1 convolution."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, maps: Tensor) -> Tensor:
        change = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(maps)))))
        return torch.relu(change + self.downsample(maps))


class MobileNetV2(nn.Module):
    """Inverted residuals with linear bottlenecks: a network for machines without a GPU.

    Parameters
    ----------
    stem : {"small", "imagenet"}, default="small"
    width : float, default=1.0
        Factor on the channels of every layer; 1.0 is the published network.
    """

    def __init__(self, stem: Stem = "small", width: float = 1.0) -> None:
        super().__init__()
        _require_stem(stem)
        halve = 1 if stem == "small" else 2
        channels = _rounded(32 * width)
        layers: list[nn.Module] = [_convolution(3, channels, 3, halve)]
        for expansion, wanted, repeats, stride in INVERTED_RESIDUALS:
            first = min(stride, halve) if wanted == 24 else stride
            for number in range(repeats):
                following = _rounded(wanted * width)
                layers.append(
                    InvertedResidual(channels, following, first if number == 0 else 1, expansion)
                )
                channels = following
        layers.append(_convolution(channels, _rounded(1280 * max(1.0, width)), 1))
        self.features = nn.Sequential(*layers)
        _initialise(self)

    def forward(self, pictures: Tensor) -> Tensor:
        maps: Tensor = self.features(pictures)
        return maps.mean((2, 3))


class InvertedResidual(nn.Module):
    """Expand, filter each channel, project; x is added if the shape allows it."""

    def __init__(self, channels_in: int, channels: int, stride: int, expansion: int) -> None:
        super().__init__()
        inside = channels_in * expansion
        layers = [] if expansion == 1 else [_convolution(channels_in, inside, 1)]
        self.conv = nn.Sequential(
            *layers,
            _convolution(inside, inside, 3, stride, groups=inside),
            nn.Conv2d(inside, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
        )
        self.adds = stride == 1 and channels_in == channels

    def forward(self, maps: Tensor) -> Tensor:
        change: Tensor = self.conv(maps)
        return maps + change if self.adds else change


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "resnet18": lambda: ResNet18("small"),
    "resnet18-stages": lambda: LastStages(ResNet18("small")),
    "resnet18-imagenet": lambda: ResNet18("imagenet"),
    "mobilenetv2": lambda: MobileNetV2("small"),
    "mobilenetv2-imagenet": lambda: MobileNetV2("imagenet"),
    "mobilenetv2-half": lambda: MobileNetV2("small", 0.5),
}


def named_network(name: str, seed: int = 0) -> nn.Module:
    """One of ``NETWORKS`` with new weights, which depend only on the seed."""
    if name not in NETWORKS:
        raise InvalidParameter(
            f"there is no network {name!r}; use one of {', '.join(NETWORKS)}, "
            "or pass a torch.nn.Module"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return NETWORKS[name]()


def as_vectors(output: Tensor) -> Tensor:
    """The output of a network as one row per picture: a feature map is averaged."""
    if output.ndim < 2:
        raise WrongShape(
            f"the network returns shape {tuple(output.shape)}, expected one row per picture"
        )
    return output.flatten(2).mean(2) if output.ndim > 2 else output


def width_of(network: nn.Module, size: int) -> int:
    """Number of features of a network for pictures of size × size."""
    was_training = network.training
    device = next((p.device for p in network.parameters()), torch.device("cpu"))
    network.eval()
    with torch.inference_mode():
        width = as_vectors(network(torch.zeros(1, 3, size, size, device=device))).shape[1]
    network.train(was_training)
    return int(width)


def fingerprint(network: nn.Module) -> str:
    """Identifies an architecture: a digest of the names and shapes of its state."""
    lines = (f"{key} {tuple(value.shape)}" for key, value in network.state_dict().items())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _stage(channels_in: int, channels: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        BasicBlock(channels_in, channels, stride), BasicBlock(channels, channels, 1)
    )


def _convolution(
    channels_in: int, channels: int, side: int, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels_in, channels, side, stride, side // 2, groups=groups, bias=False),
        nn.BatchNorm2d(channels),
        nn.ReLU6(),
    )


def _rounded(channels: float) -> int:
    """The nearest multiple of eight, at most a tenth below the requested number."""
    near = max(ROUND_TO, int(channels + ROUND_TO / 2) // ROUND_TO * ROUND_TO)
    return near + ROUND_TO if near < 0.9 * channels else near


def _initialise(network: nn.Module) -> None:
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


def _require_stem(stem: Stem) -> None:
    if stem not in get_args(Stem):
        raise InvalidParameter(f"stem must be one of {', '.join(get_args(Stem))}, not {stem!r}")
