"""The Set Transformer of the paper's appendix, and the same function with less arithmetic.

Lee et al., Set Transformer, ICML 2019, in the form of Meta-Interpolation's appendix: two self-attention blocks,
pooling by attention from one seed, an affine map back. `forward` is the plain form for sets of any size. What
training needs are singletons and pairs, and there the algebra is shorter:

* A softmax over one score is 1. Attention on a singleton is LayerNorm(Q + V) = LayerNorm(X (W_Q + W_V) + b_Q + b_V):
  one projection, no keys.
* A softmax over two scores is a sigmoid of their difference q·(k_a - k_b), so block 2 projects the difference of
  the two elements to a key once (half the rows, and the key bias cancels), and attention is
  v_b + sigmoid(...) (v_a - v_b). Block 1 projects each row once, however many sets it is in; a row that is a
  singleton as well adds its query and value up.
* The pooling query is the same for all sets: q·(g W_K) = g·(W_K q), so the key projection shrinks to d_h x heads
  numbers (its bias cancels in the softmax), and pooling before the value projection halves the latter's rows.

Between the attentions singletons and pairs meet the same weights: `both` takes them through those in one pass, and
takes means before the affine map at the end, where only means are asked for.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fewtask.errors import SettingsError
from fewtask.products import Linear, linear
from fewtask.sets.base import Averages, SetFunction, index_rows


class Dropout(nn.Dropout):
    """nn.Dropout with a mask from 16 random bits a number, in a third of the time on a CPU.

    The rate is rounded to 1/65536, and what is kept is scaled by exactly the inverse of its rounded share.
    """

    def forward(self, x: Tensor) -> Tensor:
        kept = round((1 - self.p) * 2**16)
        if not self.training or kept in (0, 2**16):
            return super().forward(x)
        words = torch.randint(-(2**63), 2**63 - 1, (-(-x.numel() // 4),), device=x.device)
        bits = words.view(torch.int16)[: x.numel()].view(x.shape)
        return x * ((bits < kept - 2**15).to(x.dtype) * (2**16 / kept))


class AttentionBlock(nn.Module):
    """LayerNorm a head on Q + attention, then LayerNorm on O + ReLU(O W + b)."""

    def __init__(self, d: int, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads, self.width = heads, hidden // heads
        self.query, self.key, self.value = Linear(d, hidden), Linear(d, hidden), Linear(d, hidden)
        self.head_weight = nn.Parameter(torch.ones(heads, self.width))
        self.head_bias = nn.Parameter(torch.zeros(heads, self.width))
        self.feed = Linear(hidden, hidden)
        self.norm = nn.LayerNorm(hidden)

    def split(self, x: Tensor) -> Tensor:
        """[..., d_h] -> [..., heads, d_k]."""
        return x.unflatten(-1, (self.heads, self.width))

    def finish(self, x: Tensor) -> Tensor:
        """Q + attention [..., heads, d_k] to the block's output [..., d_h]."""
        out = torch.addcmul(self.head_bias, F.layer_norm(x, (self.width,)), self.head_weight).flatten(-2)
        return self.norm(out + F.relu(self.feed(out)))

    def alone(self, x: Tensor) -> Tensor:
        """Q + attention of singletons: [M, d] -> [M, heads, d_k]."""
        return self.split(linear(x, self.query.weight + self.value.weight, self.query.bias + self.value.bias))

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
        self.output = Linear(hidden, d)
        self.dropout = Dropout(dropout)

    def forward(self, sets: Tensor) -> Tensor:
        """The appendix, equation by equation."""
        g = self.block1.attend(self.block1.query(sets), sets)
        g = self.dropout(self.block2.attend(self.block2.query(g), g))
        query = self.pool.query(self.seed).expand(len(g), 1, -1)
        g = self.dropout(self.pool.attend(query, g))
        return self.output(g.squeeze(1))

    def singletons(self, h: Tensor) -> Tensor:
        g = self.block1.finish(self.block1.alone(h))
        g = self.dropout(self.block2.finish(self.block2.alone(g)))
        return self.output(self._close(self._pool_alone(g)))

    def merge(self, h: Tensor, members: Tensor) -> Tensor:
        count, size = members.shape
        if size == 1:
            return self.singletons(index_rows(h, members[:, 0]))
        if size > 2:
            return self(index_rows(h, members.reshape(-1)).view(count, size, -1))
        g = self.block1.finish(self._first(h, self.block1.query(h), self.block1.value(h), members))
        g = self.dropout(self.block2.finish(self._second(g)))
        return self.output(self._close(self._pool_pairs(g)))

    def both(
        self, alone: Tensor, h: Tensor, members: Tensor, averages: Averages | None = None, shared: int = 0
    ) -> tuple[Tensor, Tensor]:
        count, size = members.shape
        if size != 2:
            return super().both(alone, h, members, averages)
        rows = [len(alone), 2 * count]
        q, v = self.block1.query(h), self.block1.value(h)
        first = [self.block1.split(q[:shared] + v[:shared]), self.block1.alone(alone[shared:])]
        one, two = self.block1.finish(torch.cat([*first, self._first(h, q, v, members)])).split(rows)
        g = self.block2.finish(torch.cat([self.block2.alone(one), self._second(two)]))
        one, two = self.dropout(g).split(rows)
        g = self._close(torch.cat([self._pool_alone(one), self._pool_pairs(two)]))
        single, merged = g.split([len(alone), count])
        if averages is not None:
            single, merged = averages(single, merged)
        rows = [len(single), len(merged)]
        single, merged = self.output(torch.cat([single, merged])).split(rows)
        return single, merged

    def _first(self, h: Tensor, q: Tensor, v: Tensor, members: Tensor) -> Tensor:
        """Q + attention of block 1 on pairs: rows [M, d] projected once each, then gathered -> [2 S, heads, d_k].

        Here and below the S first elements come before the S second ones.
        """
        block = self.block1
        a, b = members.t()
        # Biases of keys and values cancel in the differences.
        k = linear(h, block.key.weight)
        v_b = index_rows(v, b)
        q = index_rows(q, torch.cat([a, b]))
        return _pair_attention(block, q, index_rows(k, a) - index_rows(k, b), v_b, index_rows(v, a) - v_b)

    def _second(self, g: Tensor) -> Tensor:
        """Q + attention of block 2 on pairs: [2 S, d_h] -> [2 S, heads, d_k]."""
        block = self.block2
        a, b = g.chunk(2)
        difference = a - b
        k, v = linear(difference, block.key.weight), linear(difference, block.value.weight)
        return _pair_attention(block, block.query(g), k, block.value(b), v)

    def _pool_alone(self, g: Tensor) -> Tensor:
        """Q + attention of the pooling on singletons: [M, d_h] -> [M, heads, d_k]."""
        return self.pool.split(self.pool.value(g) + self.pool.query(self.seed))

    def _pool_pairs(self, g: Tensor) -> Tensor:
        """Q + attention of the pooling on pairs: [2 S, d_h] -> [S, heads, d_k]."""
        pool = self.pool
        query = pool.split(pool.query(self.seed)[0])
        # Key weights seen through the fixed query: [heads, d_h].
        lens = torch.einsum("hk,hkd->hd", query, pool.key.weight.unflatten(0, (pool.heads, pool.width)))
        a, b = g.chunk(2)
        difference = a - b
        share = torch.sigmoid(difference @ lens.t() / math.sqrt(pool.width)).t().unsqueeze(-1)
        # [heads, S, d_h]: each head projects its own mixture with its own rows of the weight.
        mixed = torch.addcmul(b, share, difference)
        weights = pool.value.weight.unflatten(0, (pool.heads, pool.width))
        value = torch.stack([linear(x, weight) for x, weight in zip(mixed, weights)], dim=1)
        return value + (query + pool.split(pool.value.bias))

    def _close(self, x: Tensor) -> Tensor:
        """The rest of the pooling block: [M, heads, d_k] -> [M, d_h]."""
        return self.dropout(self.pool.finish(x))


def _pair_attention(block: AttentionBlock, q: Tensor, k: Tensor, v_b: Tensor, v: Tensor) -> Tensor:
    """Q + softmax(q Kᵀ / √d_k) V over two elements a and b: q + v_b + sigmoid(q·(k_a - k_b) / √d_k) (v_a - v_b).

    q [2 S, d_h]; k = k_a - k_b, v_b and v = v_a - v_b are [S, d_h] -> [2 S, heads, d_k].
    """
    q = block.split(q.unflatten(0, (2, -1)))
    share = torch.sigmoid((q * block.split(k)).sum(-1, keepdim=True) / math.sqrt(block.width))
    return torch.addcmul(q + block.split(v_b), share, block.split(v)).flatten(0, 1)
