"""The attention-only set function of the paper's analysis, and how it mixes its elements.

Source: Meta-Interpolation, section "Theoretical Analysis" and the first half of the proof of Theorem 1. There
the Set Transformer is two attention layers A(Q, K, V) = softmax(QKᵀ/√d)V without heads, LayerNorm or
feed-forward parts. Its attention rows sum to one, so it is affine in a convex combination of its elements:

    φ({h})     = Wh + b
    φ({h, h'}) = W(h + α(h' − h)) + b,    W = (W_1^V W_2^V)ᵀ,    b = (b_1^V W_2^V + b_2^V)ᵀ

Only α depends on the elements. The trained Set Transformer of `fewtask.sets` has LayerNorm, where this is not
exact.

Slip in the source: the proof writes g(hᵀW + b) for g(Wh + b); W is already transposed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fewtask.errors import SettingsError


@dataclass(frozen=True)
class AttentionLayer:
    """Maps of one layer j: query, key, value [d, d] are W_j^Q, W_j^K, W_j^V; the biases [d] are b_j^Q, ..."""

    query: Tensor
    key: Tensor
    value: Tensor
    query_bias: Tensor
    key_bias: Tensor
    value_bias: Tensor

    def weights(self, asking: Tensor, elements: Tensor) -> Tensor:
        """softmax(QKᵀ/√d) [..., m, n] of m asking rows [..., m, d] over n elements [..., n, d]."""
        queries = asking @ self.query + self.query_bias
        keys = elements @ self.key + self.key_bias
        return torch.softmax(queries @ keys.transpose(-1, -2) / math.sqrt(keys.shape[-1]), dim=-1)

    def values(self, elements: Tensor) -> Tensor:
        """V = HW^V + 1b^V, [..., n, d]."""
        return elements @ self.value + self.value_bias


@dataclass(frozen=True)
class PairAttention:
    """Attention probabilities of pairs {h, h'}, each [...]: the entries that make up α.

    p1:       weight that h gives to h in layer 1, softmax(Q_1K_1ᵀ/√d)_{1,1}.
    p1_tilde: weight that h' gives to h in layer 1, softmax(Q_1K_1ᵀ/√d)_{2,1}.
    p2:       weight that the seed gives to the first row in layer 2, softmax(Q_2K_2ᵀ/√d)_{1,1}.
    """

    p1: Tensor
    p1_tilde: Tensor
    p2: Tensor

    @property
    def alpha(self) -> Tensor:
        """α = p2(1 − p1) + (1 − p2)(1 − p̃1), the share of h' in the mixture; strictly between 0 and 1."""
        return self.p2 * (1 - self.p1) + (1 - self.p2) * (1 - self.p1_tilde)


@dataclass(frozen=True)
class AttentionSetFunction:
    """φ_λ of the analysis: self-attention among the elements, then attention pooling by one seed.

    first, second: the two layers. seed: S, [d].
    """

    first: AttentionLayer
    second: AttentionLayer
    seed: Tensor

    def __call__(self, elements: Tensor) -> Tensor:
        """φ(r) = A(Q_2, K_2, V_2) of sets [..., n, d] -> [..., d], layer by layer as it is defined."""
        hidden = self.first.weights(elements, elements) @ self.first.values(elements)
        return (self.second.weights(self.seed[None], hidden) @ self.second.values(hidden)).squeeze(-2)

    def shares(self, elements: Tensor) -> Tensor:
        """σ_2σ_1, the share of each element: sets [..., n, d] -> [..., n], non-negative, summing to one.

        For every n, φ(r) = W Σ_i share_i h_i + b; for a pair the shares are (1 − α, α).
        """
        first = self.first.weights(elements, elements)
        hidden = first @ self.first.values(elements)
        return (self.second.weights(self.seed[None], hidden) @ first).squeeze(-2)

    def pair_attention(self, h: Tensor, other: Tensor) -> PairAttention:
        """p1, p̃1 and p2 of the pairs {h, h'}; h and other [..., d] are broadcast against each other."""
        elements = torch.stack(torch.broadcast_tensors(h, other), dim=-2)
        first = self.first.weights(elements, elements)
        second = self.second.weights(self.seed[None], first @ self.first.values(elements))
        return PairAttention(p1=first[..., 0, 0], p1_tilde=first[..., 1, 0], p2=second[..., 0, 0])

    def alpha(self, h: Tensor, other: Tensor) -> Tensor:
        """α of the pairs {h, h'}; h and other [..., d] are broadcast, the result is [...]."""
        return self.pair_attention(h, other).alpha

    def pairwise_alpha(self, support: Tensor, partner: Tensor) -> Tensor:
        """α_ij of every pair of a row of support [N, d] and one of partner [N', d] -> [N, N']."""
        return self.alpha(support[:, None, :], partner[None, :, :])

    @property
    def weight(self) -> Tensor:
        """W = (W_1^V W_2^V)ᵀ, [d, d]; it multiplies column vectors from the left."""
        return (self.first.value @ self.second.value).T

    @property
    def bias(self) -> Tensor:
        """b = (b_1^V W_2^V + b_2^V)ᵀ, [d]."""
        return self.first.value_bias @ self.second.value + self.second.value_bias

    def singleton(self, h: Tensor) -> Tensor:
        """Closed form φ({h}) = Wh + b of rows [..., d] -> [..., d]."""
        return h @ self.weight.T + self.bias

    def mixture(self, h: Tensor, other: Tensor) -> Tensor:
        """Closed form φ({h, h'}) = W(h + α(h' − h)) + b -> [..., d]; h and other [..., d] are broadcast."""
        return self.singleton(h + self.alpha(h, other)[..., None] * (other - h))


def random_set_function(
    d: int,
    generator: torch.Generator,
    *,
    scale: float = 1.0,
    values: bool = True,
    dtype: torch.dtype = torch.float64,
) -> AttentionSetFunction:
    """A set function of width d with normal weights (deviation scale/√d), biases and seed (deviation scale).

    values=False makes the value maps the identity without bias, so that W = I and b = 0 (Proposition 1).
    """
    if d < 1:
        raise SettingsError(f"a set function of width {d} was asked for: the width must be at least 1")

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=dtype) * scale

    def layer() -> AttentionLayer:
        query, key, value = (draw(d, d) / math.sqrt(d) for _ in range(3))
        query_bias, key_bias, value_bias = (draw(d) for _ in range(3))
        if not values:
            value, value_bias = torch.eye(d, dtype=dtype), torch.zeros(d, dtype=dtype)
        return AttentionLayer(query, key, value, query_bias, key_bias, value_bias)

    return AttentionSetFunction(first=layer(), second=layer(), seed=draw(d))
