"""Networks: against published parameter counts and the textbook forms of their parts."""

import pytest

pytest.importorskip("torch", reason="everlearn.deep needs torch: pip install 'everlearn[torch]'")

import torch
from torch import nn

from everlearn.deep.networks import (
    BasicBlock,
    InvertedResidual,
    LastStages,
    MobileNetV2,
    ResNet18,
    fingerprint,
    named_network,
    width_of,
)
from everlearn.errors import InvalidParameter, WrongShape


@pytest.mark.parametrize(
    ("network", "parameters", "width"),
    [
        # torchvision's published totals less their output layers (1,000 × 512 or 1,280, and bias).
        (ResNet18("imagenet"), 11_689_512 - 513_000, 512),
        (MobileNetV2("imagenet"), 3_504_872 - 1_281_000, 1280),
        # The small stem has 3 × 3 filters instead of 7 × 7.
        (ResNet18("small"), 11_689_512 - 513_000 - 3 * 64 * (49 - 9), 512),
        (MobileNetV2("small"), 3_504_872 - 1_281_000, 1280),
    ],
    ids=["resnet18", "mobilenetv2", "resnet18 small", "mobilenetv2 small"],
)
def test_published_number_of_parameters(network, parameters, width):
    assert sum(p.numel() for p in network.parameters()) == parameters
    assert width_of(network, 32) == width


def test_small_stem_keeps_the_resolution_at_the_start():
    """After the stem of ResNet-18: 32 × 32 stays 32 × 32, the published one leaves 8 × 8."""
    picture = torch.zeros(1, 3, 32, 32)
    for stem, side in (("small", 32), ("imagenet", 8)):
        network = ResNet18(stem, width=4)
        assert network.maxpool(network.conv1(picture)).shape[-1] == side


def test_last_stages_are_square_roots_of_each_stage_at_unit_length():
    network = ResNet18(width=4).eval()
    pictures = torch.rand(3, 3, 16, 16)
    maps = torch.relu(network.bn1(network.conv1(pictures)))
    means = []
    for stage in (network.layer1, network.layer2, network.layer3, network.layer4):
        maps = stage(maps)
        means.append(maps.mean((2, 3)))
    torch.testing.assert_close(network(pictures), means[-1])
    rows = LastStages(network, 2).eval()(pictures)
    for columns, mean in ((slice(0, 16), means[2]), (slice(16, 48), means[3])):
        squares = mean / mean.sum(1, keepdim=True)
        torch.testing.assert_close(rows[:, columns].square(), squares, rtol=1e-4, atol=1e-6)
    with pytest.raises(InvalidParameter, match="1 to 4"):
        LastStages(network, 5)
    with pytest.raises(InvalidParameter, match="ResNet18"):
        LastStages(nn.Identity())


def test_last_stages_have_gradients_for_empty_maps():
    network = ResNet18(width=4)
    nn.init.zeros_(network.layer4[1].bn2.weight)
    nn.init.zeros_(network.layer4[0].bn2.weight)
    nn.init.zeros_(network.layer4[0].downsample[1].weight)
    LastStages(network)(torch.rand(2, 3, 16, 16)).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in network.parameters() if p.grad is not None)


def test_basic_block_is_the_identity_plus_a_change():
    block = BasicBlock(4, 4, 1).eval()
    nn.init.zeros_(block.bn2.weight)
    maps = torch.rand(2, 4, 5, 5)
    assert torch.equal(block(maps), maps)


def test_bottleneck_is_linear_and_adds_only_where_shapes_agree():
    block = InvertedResidual(8, 8, 1, 6).eval()
    nn.init.zeros_(block.conv[-1].weight)
    maps = torch.randn(1, 8, 5, 5)
    assert torch.equal(block(maps), maps), "negative values would be cut if it were not linear"
    assert not InvertedResidual(8, 16, 1, 6).adds
    assert not InvertedResidual(8, 8, 2, 6).adds


def test_a_named_network_depends_only_on_its_seed():
    torch.manual_seed(1)
    first = named_network("mobilenetv2-half", seed=3).state_dict()
    after = torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(after, torch.rand(1)), "the caller's random numbers were used"
    again = named_network("mobilenetv2-half", seed=3).state_dict()
    assert all(torch.equal(first[key], again[key]) for key in first)


def test_a_fingerprint_depends_on_shapes_not_weights():
    assert fingerprint(ResNet18(width=4)) == fingerprint(ResNet18(width=4))
    assert fingerprint(ResNet18(width=4)) != fingerprint(ResNet18(width=8))


def test_unknown_names_and_shapes_are_refused():
    with pytest.raises(InvalidParameter, match="resnet18"):
        named_network("alexnet")
    with pytest.raises(InvalidParameter, match="small"):
        ResNet18("large")
    with pytest.raises(WrongShape, match="one row per picture"):
        width_of(_Sum(), 8)


class _Sum(nn.Module):
    def forward(self, pictures):
        return pictures.sum((1, 2, 3))
