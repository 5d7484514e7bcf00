"""The Set Transformer of the paper's appendix, and the same function with less arithmetic.

Lee et al., Set Transformer, ICML 2019, in the form of Meta-Interpolation's appendix: two self-attention blocks,
pooling by attention from one seed, an affine map back. `forward` is the plain form for sets of any size. What
training needs are singletons and pairs, and there the algebra is shorter:

* A softmax over one score is 1. Attention on a singleton is LayerNorm(Q + V) = LayerNorm(X (W_Q + W_V) + b_Q + b_V):
  one projection, no keys.
* A softmax over two scores is a sigmoid of their difference q·(k_a - k_b), so block 2 projects the difference of
  the two elements to a key once (half the rows, and the key bias cancels), and attention is
  v_b + sigmoid(...) (v_a - v_b). Block 1 projects each row once, however many sets it is in.
* The pooling query is the same for all sets: q·(g W_K) = g·(W_K q), so the key projection shrinks to d_h x heads
  numbers (its bias cancels in the softmax), and pooling before the value projection halves the latter's rows.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fewtask.errors import SettingsError
from fewtask.sets.base import SetFunction, index_rows


class AttentionBlock(nn.Module):
    """LayerNorm a head on Q + attention, then LayerNorm on O + ReLU(O W + b)."""

    def __init__(self, d: int, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads, self.width = heads, hidden // heads
        self.query, self.key, self.value = nn.Linear(d, hidden), nn.Linear(d, hidden), nn.Linear(d, hidden)
        self.head_weight = nn.Parameter(torch.ones(heads, self.width))
        self.head_bias = nn.Parameter(torch.zeros(heads, self.width))
        self.feed = nn.Linear(hidden, hidden)
        self.norm = nn.LayerNorm(hidden)

    def split(self, x: Tensor) -> Tensor:
        """[..., d_h] -> [..., heads, d_k]."""
        return x.unflatten(-1, (self.heads, self.width))

    def finish(self, x: Tensor) -> Tensor:
        """Q + attention [..., heads, d_k] to the block's output [..., d_h]."""
        normed = F.layer_norm(x, (self.width,)) * self.head_weight + self.head_bias
        out = normed.flatten(-2)
        return self.norm(out + F.relu(self.feed(out)))

    def attend(self, query: Tensor, x: Tensor) -> Tensor:
        """The plain form. query [S, m, d_h] is projected already; x [S, n, d] -> [S, m, d_h]."""
        q = self.split(query).transpose(1, 2)
        k = self.split(self.key(x)).transpose(1, 2)
        v = self.split(self.value(x)).transpose(1, 2)
        # Written out because the fused attention has no second derivative.
        weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(self.width), dim=-1)
        return self.finish((q + weights @ v).transpose(1, 2))


class SetTransformer(SetFunction):
    """phi_lambda: [S, n, d] -> [S, d] with hidden width d_h = heads · d_k."""

    def __init__(self, d: int, hidden: int, heads: int = 4, dropout: float = 0.1) -> None:
        super().__init__()
        if hidden % heads:
            raise SettingsError(f"the set function's hidden width {hidden} must be a multiple of its {heads} heads")
        self.block1 = AttentionBlock(d, hidden, heads)
        self.block2 = AttentionBlock(hidden, hidden, heads)
        self.pool = AttentionBlock(hidden, hidden, heads)
        self.seed = nn.Parameter(torch.empty(1, hidden))
        nn.init.xavier_uniform_(self.seed)
        self.output = nn.Linear(hidden, d)
        self.dropout = nn.Dropout(dropout)

    def forward(self, sets: Tensor) -> Tensor:
        """The appendix, equation by equation."""
        g = self.block1.attend(self.block1.query(sets), sets)
        g = self.dropout(self.block2.attend(self.block2.query(g), g))
        query = self.pool.query(self.seed).expand(len(g), 1, -1)
        g = self.dropout(self.pool.attend(query, g))
        return self.output(g.squeeze(1))

    def singletons(self, h: Tensor) -> Tensor:
        for block in (self.block1, self.block2):
            both = F.linear(h, block.query.weight + block.value.weight, block.query.bias + block.value.bias)
            h = block.finish(block.split(both))
        h = self.dropout(h)
        pooled = self.pool.value(h) + self.pool.query(self.seed)
        return self.output(self.dropout(self.pool.finish(self.pool.split(pooled))))

    def merge(self, h: Tensor, members: Tensor) -> Tensor:
        count, size = members.shape
        if size == 1:
            return self.singletons(index_rows(h, members[:, 0]))
        if size > 2:
            return self(index_rows(h, members.reshape(-1)).view(count, size, -1))
        return self._pool_pairs(self._second(self._first(h, members)))

    def _first(self, h: Tensor, members: Tensor) -> Tensor:
        """Block 1 on pairs: rows [M, d] projected once each, then gathered -> [2, S, d_h]."""
        block = self.block1
        rows = members.t().reshape(-1)
        shape = (2, len(members), block.heads, block.width)
        q = index_rows(block.query(h), rows).view(shape)
        v = index_rows(block.value(h), rows).view(shape)
        # The key's bias cancels in the difference.
        k = index_rows(F.linear(h, block.key.weight), rows).view(shape)
        return block.finish(q + _pair_attention(q, k[0] - k[1], v, block.width))

    def _second(self, g: Tensor) -> Tensor:
        """Block 2 on pairs: [2, S, d_h] -> [2, S, d_h]."""
        block = self.block2
        q, v = block.split(block.query(g)), block.split(block.value(g))
        key_difference = block.split(F.linear(g[0] - g[1], block.key.weight))
        return self.dropout(block.finish(q + _pair_attention(q, key_difference, v, block.width)))

    def _pool_pairs(self, g: Tensor) -> Tensor:
        """Pooling and the map back: [2, S, d_h] -> [S, d]."""
        pool = self.pool
        query = pool.split(pool.query(self.seed)[0])
        # Key weights seen through the fixed query: [heads, d_h].
        lens = torch.einsum("hk,hkd->hd", query, pool.key.weight.unflatten(0, (pool.heads, pool.width)))
        share = torch.sigmoid((g[0] - g[1]) @ lens.t() / math.sqrt(pool.width)).t().unsqueeze(-1)
        mixed = torch.lerp(g[1].unsqueeze(0), g[0].unsqueeze(0), share)
        weight = pool.value.weight.unflatten(0, (pool.heads, pool.width))
        # [heads, S, d_h] x [heads, d_h, d_k]: each head projects its own mixture.
        value = torch.bmm(mixed, weight.transpose(1, 2)).transpose(0, 1) + pool.split(pool.value.bias)
        return self.output(self.dropout(pool.finish(query + value)))


def _pair_attention(q: Tensor, key_difference: Tensor, v: Tensor, width: int) -> Tensor:
    """softmax(q kᵀ / √d_k) v over two elements; q, v [2, S, heads, d_k], key_difference [S, heads, d_k]."""
    share = torch.sigmoid((q * key_difference).sum(-1, keepdim=True) / math.sqrt(width))
    return torch.lerp(v[1].unsqueeze(0), v[0].unsqueeze(0), share)
