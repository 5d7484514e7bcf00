"""The short way through the first block of Conv4 against the plain one, in float64."""

import copy

import pytest
import torch
from torch import Tensor, nn

from fewtask.encoders import image_block
from fewtask.encoders.image_block import ImageBlock
from fewtask.encoders.normalisation import normalising


@pytest.fixture
def block(monkeypatch) -> ImageBlock:
    """Some channels with γ < 0, and parts of three pictures: ten are not a multiple of it."""
    monkeypatch.setattr(image_block, "AT_A_TIME", 3 * 5 * 8 * 6)
    torch.manual_seed(0)
    made = ImageBlock(3, 5, pooled=True).double()
    norm = made[1]
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([1.0, -2.0, 0.5, -0.3, 1.5]))
        norm.bias.normal_()
    return made


def pictures() -> Tensor:
    return torch.randn(10, 3, 8, 6, dtype=torch.float64).contiguous(memory_format=torch.channels_last)


def plain(block: ImageBlock, x: Tensor) -> Tensor:
    return nn.Sequential.forward(block, x)


def assert_same(found, wanted) -> None:
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


def test_output_and_running_statistics_are_the_plain_ones(block) -> None:
    other, x = copy.deepcopy(block), pictures()
    assert block._short_way(x)
    assert_same([block(x), *block.buffers()], [plain(other, x), *other.buffers()])
    before = [b.clone() for b in block.buffers()]
    with normalising(block, update=False):
        block(x)
    assert_same(block.buffers(), before)


def test_gradients_are_the_plain_ones(block) -> None:
    x = pictures()
    weight = torch.randn(10, 5, 4, 3, dtype=torch.float64)
    found, wanted = (
        torch.autograd.grad((way(x) * weight).sum(), list(block.parameters()))
        for way in (block, lambda x: plain(block, x))
    )
    assert_same(found, wanted)


def test_second_derivatives_are_the_plain_ones(block) -> None:
    x, theta = pictures(), list(block.parameters())
    torch.manual_seed(1)
    vector = [torch.randn_like(p) for p in theta]

    def hessian_product(way) -> tuple[Tensor, ...]:
        slopes = torch.autograd.grad(way(x).pow(3).sum(), theta, create_graph=True)
        return torch.autograd.grad(slopes, theta, vector)

    assert_same(hessian_product(block), hessian_product(lambda x: plain(block, x)))


@pytest.mark.parametrize(
    "why",
    ["evaluation", "episodes by themselves", "statistics to keep", "a gradient for the pictures", "odd sizes", "few"],
)
def test_the_plain_way_is_taken_where_the_short_one_does_not_hold(block, why: str, monkeypatch) -> None:
    x, asked = pictures(), {}
    if why == "evaluation":
        block.eval()
    elif why == "episodes by themselves":
        asked = {"groups": 2}
    elif why == "statistics to keep":
        asked = {"statistics": "keep"}
    elif why == "a gradient for the pictures":
        x.requires_grad_()
    elif why == "odd sizes":
        x = x[:, :, :7]
    else:
        monkeypatch.setattr(image_block, "AT_A_TIME", 1 << 19)
    other = copy.deepcopy(block)
    with normalising(block, **asked), normalising(other, **asked):
        assert not block._short_way(x)
        assert_same([block(x), *block.buffers()], [plain(other, x), *other.buffers()])


def test_vmap_takes_the_plain_way(block) -> None:
    block[1].update = False
    x = pictures()
    many = torch.func.vmap(block, in_dims=0)(x.expand(2, -1, -1, -1, -1))
    assert_same(many, [plain(block, x)] * 2)
