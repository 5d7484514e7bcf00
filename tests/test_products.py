"""Matrix products by oneDNN: torch's numbers, derivatives of both orders, and no more work than asked for."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fewtask import products
from fewtask.encoders.base import Encoder

ROWS, WIDE, OUT = 96, 160, 112
assert ROWS * WIDE * OUT > products.SMALLEST


@pytest.fixture
def fast(monkeypatch):
    """The faster library on any processor whose torch has it; where it has not there is nothing to test."""
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this torch is built without oneDNN")
    monkeypatch.setattr(products, "onednn_is_faster", lambda: True)


def made(dtype=torch.float64) -> list[Tensor]:
    torch.manual_seed(0)
    x, w, b = torch.randn(ROWS, WIDE), torch.randn(OUT, WIDE) / WIDE**0.5, torch.randn(OUT)
    return [t.to(dtype).requires_grad_() for t in (x, w, b)]


def derivatives(linear, x, w, b) -> list[Tensor]:
    """Value, gradients, and the gradients of their length: everything that a hypergradient passes through."""
    out = linear(x, w, b)
    first = torch.autograd.grad(torch.tanh(out).pow(2).mean(), [x, w, b], create_graph=True)
    second = torch.autograd.grad(sum(g.pow(2).sum() for g in first), [x, w, b])
    return [out, *first, *second]


def test_value_and_both_derivatives_are_those_of_float64(fast):
    exact = derivatives(F.linear, *made())
    for found, wanted in zip(derivatives(products.linear, *made(torch.float32)), exact):
        torch.testing.assert_close(found.double(), wanted, rtol=0, atol=2e-5 * float(wanted.detach().abs().max()))


@pytest.mark.parametrize(
    "lay",
    [
        pytest.param(lambda t: t.detach(), id="rows"),
        pytest.param(lambda t: t.detach().t().contiguous().t(), id="columns"),
        pytest.param(lambda t: torch.cat([t, t], 1).detach()[:, : t.shape[1]], id="a part of wider rows"),
        pytest.param(lambda t: t.detach()[:1].expand_as(t), id="one row repeated"),
    ],
)
def test_any_layout_in_memory_gives_the_same(fast, lay):
    x, w, b = (t.float() for t in made())
    for one, other in ((lay(x), w), (x, lay(w))):
        torch.testing.assert_close(products.linear(one, other, b), F.linear(one, other, b), rtol=1e-5, atol=1e-4)


def test_gradients_lie_in_memory_as_their_tensors_do(fast):
    """A sum of one by rows and one by columns takes thirty times as long."""
    x, w, _ = made(torch.float32)
    turned = w.detach().t().contiguous().t().requires_grad_()
    to_x, to_w = torch.autograd.grad(products.linear(x, turned).sum(), [x, turned])
    assert to_x.is_contiguous()
    assert to_w.t().is_contiguous()


def test_only_what_is_asked_for_is_computed(fast, monkeypatch):
    calls = []
    plainly = products._onednn
    monkeypatch.setattr(products, "_onednn", lambda *args: calls.append(args) or plainly(*args))
    x, w, b = made(torch.float32)
    loss = products.linear(x * 2, w, b).pow(2).sum()
    for wanted, count in (([x], 1), ([w], 1), ([b], 0), ([x, w, b], 2)):
        calls.clear()
        torch.autograd.grad(loss, wanted, retain_graph=True)
        assert len(calls) == count
    calls.clear()
    loss.backward()
    assert len(calls) == 2


def test_what_does_not_suit_is_left_to_torch(fast, monkeypatch):
    monkeypatch.setattr(products, "_onednn", lambda *args: pytest.fail("not for this product"))
    x, w, b = (t.detach() for t in made())
    products.linear(x, w, b)  # float64
    products.linear(x.float()[:2], w.float()[:8])  # small
    products.linear(x.float().to("meta"), w.float().to("meta"))
    with products.torchs_own():
        products.linear(x.float(), w.float())
    many = torch.func.vmap(lambda rows: products.linear(rows, w.float()))(x.float().expand(3, -1, -1))
    assert many.shape == (3, ROWS, OUT)
    torch.func.grad(lambda rows: products.linear(rows, w.float()).sum())(x.float())


def test_sets_of_rows_keep_their_shape(fast):
    x, w, b = (t.detach().float() for t in made())
    sets = x.view(8, 12, WIDE)
    torch.testing.assert_close(products.linear(sets, w, b), F.linear(sets, w, b), rtol=1e-5, atol=1e-4)


def test_a_users_network_multiplies_faster_with_its_own_weights():
    network = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Sequential(nn.Linear(5, 4)))
    weights = [p.data_ptr() for p in network.parameters()]
    encoder = Encoder.from_sequential(network, (6,))
    assert [p.data_ptr() for p in encoder.parameters()] == weights
    assert [type(m) for m in encoder.modules() if isinstance(m, nn.Linear)] == [products.Linear] * 2


def test_the_choice_follows_the_processor(monkeypatch, tmp_path):
    about = tmp_path / "cpuinfo"
    monkeypatch.setattr(products, "Path", lambda _: about)
    choose = products.onednn_is_faster.__wrapped__

    def on(maker, capability):
        about.write_text(f"vendor_id : {maker}\n")
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
        return choose()

    assert on("AuthenticAMD", "AVX512") == torch.backends.mkldnn.is_available()
    assert not on("AuthenticAMD", "AVX2")
    assert not on("GenuineIntel", "AVX512")
    monkeypatch.setattr(products, "ONEDNN", None)
    assert not on("AuthenticAMD", "AVX512")
