"""Encoders can be cut anywhere, follow the data, and normalise as torch does, one episode at a time or together."""

from __future__ import annotations

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from fewtask.encoders import Encoder, make_encoder
from fewtask.encoders.normalisation import EpisodeBatchNorm, convert, normalising
from fewtask.errors import SettingsError
from fewtask.settings import EncoderSettings


def users_network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(27, 5)
    )


def built(name: str, width: int, input_shape: tuple[int, ...]) -> Encoder:
    torch.manual_seed(0)
    if name == "users":
        encoder = Encoder.from_sequential(users_network(), input_shape)
    else:
        encoder = make_encoder(EncoderSettings(name=name, width=width), input_shape)
    if name == "residual-mlp":
        nn.init.normal_(encoder.layers[-1].weight)
    # Statistics and weights of a network that has learned something.
    for layer in encoder.modules():
        if isinstance(layer, EpisodeBatchNorm):
            for tensor in (layer.running_mean, layer.weight.data, layer.bias.data):
                tensor.normal_()
            layer.running_var.uniform_(0.5, 2.0)
    return encoder.double()


CASES = [
    ("conv4", 4, (3, 16, 16), [(3, 16, 16), (4, 8, 8), (4, 4, 4), (4, 2, 2), (4, 1, 1)]),
    ("conv4", 8, (1, 28, 28), [(1, 28, 28), (8, 14, 14), (8, 7, 7), (8, 3, 3), (8, 1, 1)]),
    ("conv4", 4, (1, 14, 14), [(1, 14, 14), (4, 7, 7), (4, 3, 3), (4, 1, 1), (4, 1, 1)]),
    ("conv4", 4, (3, 8, 20), [(3, 8, 20), (4, 4, 10), (4, 2, 5), (4, 1, 2), (4, 1, 2)]),
    ("conv4", 32, (3, 32, 32), [(3, 32, 32), (32, 16, 16), (32, 8, 8), (32, 4, 4), (32, 2, 2)]),
    ("conv4", 32, (3, 84, 84), [(3, 84, 84), (32, 42, 42), (32, 21, 21), (32, 10, 10), (32, 5, 5)]),
    ("mlp", 6, (9,), [(9,), (6,), (6,), (6,)]),
    ("mlp", 6, (2, 3), [(2, 3), (6,), (6,), (6,)]),
    ("residual-mlp", 6, (9,), [(9,), (15,), (15,), (9,)]),
    ("text-head", 6, (12,), [(12,), (6,), (6,), (6,)]),
    ("users", 0, (2, 8, 8), [(2, 8, 8), (3, 6, 6), (3, 6, 6), (3, 6, 6), (3, 3, 3), (27,), (5,)]),
]


@pytest.mark.parametrize(("name", "width", "input_shape", "shapes"), CASES)
def test_an_encoder_can_be_cut_at_every_layer(
    name: str, width: int, input_shape: tuple[int, ...], shapes: list[tuple[int, ...]]
) -> None:
    encoder = built(name, width, input_shape).eval()
    assert encoder.shapes == shapes
    assert encoder.depth == len(shapes) - 1
    assert encoder.embedding == math.prod(shapes[-1])
    x = torch.randn(5, *input_shape, dtype=torch.float64)
    whole = encoder(x)
    assert whole.shape == (5, encoder.embedding)
    for layer, shape in enumerate(shapes):
        h = encoder.lower(x, layer)
        assert h.shape == (5, math.prod(shape)) == (5, encoder.width(layer))
        torch.testing.assert_close(encoder.upper(h, layer), whole, rtol=1e-12, atol=1e-12)


def test_conv4_computes_the_appendix_table() -> None:
    """Convolution, BatchNorm, ReLU, pooling, in that order."""
    encoder = built("conv4", 4, (3, 28, 28)).eval()
    x = torch.randn(3, 3, 28, 28, dtype=torch.float64)
    h = x
    for block in encoder.layers:
        convolution, norm = block[0], block[1]
        h = F.conv2d(h, convolution.weight, convolution.bias, padding=1)
        h = F.batch_norm(h, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=1e-5)
        h = F.max_pool2d(F.relu(h), 2)
    torch.testing.assert_close(encoder(x), h.flatten(1), rtol=1e-12, atol=1e-12)


def test_the_mlp_computes_the_appendix_table() -> None:
    encoder = built("mlp", 7, (9,)).eval()
    x = h = torch.randn(4, 9, dtype=torch.float64)
    for linear, norm in ((encoder.layers[0][1], encoder.layers[0][2]), (encoder.layers[1][0], encoder.layers[1][1])):
        h = (h @ linear.weight.T + linear.bias - norm.running_mean) / (norm.running_var + 1e-5).sqrt()
        h = h * norm.weight + norm.bias
        h = torch.where(h > 0, h, 0.01 * h)
    torch.testing.assert_close(encoder(x), h @ encoder.layers[2].weight.T + encoder.layers[2].bias)


@pytest.mark.parametrize("training", [True, False])
def test_the_residual_network_starts_as_the_normalised_input(training: bool) -> None:
    encoder = make_encoder(EncoderSettings(name="residual-mlp", width=6, scale=3.0), (9,)).train(training)
    x = torch.randn(5, 9)
    torch.testing.assert_close(encoder(x), 3.0 * x / x.norm(dim=1, keepdim=True))
    assert [encoder.carry(layer) for layer in range(4)] == [0, 9, 9, 0]
    h = encoder.lower(x, 1)
    torch.testing.assert_close(h[:, -9:], 3.0 * x / x.norm(dim=1, keepdim=True))


def test_a_users_network_is_taken_as_it_is() -> None:
    network = users_network()
    with torch.no_grad():
        network[1].running_mean.normal_()
        network[1].weight.normal_()
    wanted = copy.deepcopy(network)
    encoder = Encoder.from_sequential(network, (2, 8, 8))
    x = torch.randn(6, 2, 8, 8)
    torch.testing.assert_close(encoder.train()(x), wanted.train()(x))
    torch.testing.assert_close(encoder.eval()(x), wanted.eval()(x))


@pytest.mark.parametrize(
    ("name", "input_shape", "reason"),
    [
        ("conv4", (9,), r"conv4 takes images .* shape \(9,\)"),
        ("conv4", (3, 7, 8), r"at least 8x8 pixels"),
        ("conv5", (3, 16, 16), r"unknown encoder 'conv5': did you mean 'conv4'"),
    ],
)
def test_an_encoder_that_does_not_fit_is_refused(name: str, input_shape: tuple[int, ...], reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        make_encoder(EncoderSettings(name=name), input_shape)


def test_a_layer_that_does_not_exist_is_refused() -> None:
    encoder = built("mlp", 4, (5,))
    for layer in (-1, 4):
        with pytest.raises(SettingsError, match=rf"layer {layer} does not exist: .* 0 .* to 3 \(the output\)"):
            encoder.width(layer)
    with pytest.raises(SettingsError, match=r"layer 2 of the network does not take features of shape \(4,\)"):
        Encoder.from_sequential(nn.Sequential(nn.Linear(5, 4), nn.Linear(3, 2)), (5,))


@pytest.mark.parametrize("option", ["affine", "track_running_stats"])
def test_a_batchnorm_that_evaluation_cannot_use_is_refused(option: str) -> None:
    with pytest.raises(SettingsError, match="leave affine and track_running_stats on"):
        Encoder.from_sequential(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, **{option: False})), (3,))


def pair(features: int, spatial: bool) -> tuple[EpisodeBatchNorm, nn.BatchNorm1d | nn.BatchNorm2d]:
    """Our layer and torch's with the same random weights and statistics."""
    theirs = (nn.BatchNorm2d if spatial else nn.BatchNorm1d)(features).double()
    with torch.no_grad():
        for tensor in (theirs.weight, theirs.bias, theirs.running_mean):
            tensor.normal_()
        theirs.running_var.uniform_(0.5, 2.0)
    ours = convert(copy.deepcopy(theirs))
    assert isinstance(ours, EpisodeBatchNorm)
    assert ours.weight.dtype == torch.float64
    return ours, theirs


def data(episodes: int, rows: int, features: int, spatial: bool) -> Tensor:
    shape = (episodes * rows, features, *((3, 2) if spatial else ()))
    return torch.randn(shape, dtype=torch.float64) * 2 + 1


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 4), st.integers(2, 5), st.integers(1, 4), st.booleans(), st.integers(0, 2**31))
def test_episodes_normalised_together_equal_a_loop_over_them(
    episodes: int, rows: int, features: int, spatial: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    ours, theirs = pair(features, spatial)
    x = data(episodes, rows, features, spatial).requires_grad_()
    cotangent = torch.randn_like(x)
    with normalising(ours, groups=episodes, update=False):
        out = ours.train()(x)
    wanted = torch.cat([theirs.train()(part) for part in x.chunk(episodes)])
    torch.testing.assert_close(out, wanted, rtol=1e-10, atol=1e-10)
    gradients = torch.autograd.grad(out, [x, ours.weight, ours.bias], cotangent)
    loop = torch.autograd.grad(wanted, [x, theirs.weight, theirs.bias], cotangent)
    torch.testing.assert_close(gradients, loop, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("spatial", [True, False])
def test_all_rows_together_equal_torchs_batchnorm(spatial: bool) -> None:
    torch.manual_seed(1)
    ours, theirs = pair(3, spatial)
    for _ in range(3):
        x = data(2, 4, 3, spatial)
        torch.testing.assert_close(ours.train()(x), theirs.train()(x), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_var, theirs.running_var)
    x = data(2, 4, 3, spatial)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("groups", [1, 4])
def test_a_pass_that_must_not_touch_the_running_statistics_does_not(groups: int) -> None:
    ours, _ = pair(3, True)
    before = (ours.running_mean.clone(), ours.running_var.clone())
    with normalising(ours, update=False, groups=groups):
        ours.train()(data(4, 3, 3, True))
    assert torch.equal(ours.running_mean, before[0])
    assert torch.equal(ours.running_var, before[1])
    assert (ours.update, ours.groups) == (True, 1)
    ours.eval()(data(4, 3, 3, True))
    assert torch.equal(ours.running_mean, before[0])


def test_running_statistics_of_episodes_move_towards_the_mean_of_each_ones_own() -> None:
    ours, _ = pair(3, True)
    mean, var = ours.running_mean.clone(), ours.running_var.clone()
    x = data(4, 5, 3, True)
    with normalising(ours, groups=4):
        ours.train()(x)
    per_episode = x.view(4, 5, 3, -1)
    means = torch.stack([e.transpose(0, 1).reshape(3, -1).mean(1) for e in per_episode]).mean(0)
    variances = torch.stack([e.transpose(0, 1).reshape(3, -1).var(1) for e in per_episode]).mean(0)
    torch.testing.assert_close(ours.running_mean, 0.9 * mean + 0.1 * means)
    torch.testing.assert_close(ours.running_var, 0.9 * var + 0.1 * variances)


def test_the_state_of_normalising_is_restored_after_an_error() -> None:
    network = nn.Sequential(EpisodeBatchNorm(3), EpisodeBatchNorm(3))

    def interrupted() -> None:
        with normalising(network, update=False, groups=3):
            assert [(m.update, m.groups) for m in network] == [(False, 3)] * 2
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        interrupted()
    assert [(m.update, m.groups) for m in network] == [(True, 1)] * 2
