"""What a computation costs, found from shapes alone: it runs on tensors without numbers (torch's meta device)."""

from __future__ import annotations

import weakref
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from fewtask.products import ONEDNN
from fewtask.threads import KEPT


class ArithmeticCounter(TorchDispatchMode):
    """Counts multiplications and additions of matrix products and convolutions, in passes forward and backward.

    torch's own counter follows modules as well, which fails under `torch.autograd.grad` of a part of a graph.
    """

    def __init__(self) -> None:
        super().__init__()
        self.products = 0.0
        self.convolutions = 0.0

    @property
    def total(self) -> float:
        return self.products + self.convolutions

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.note(func, args, kwargs or {}, out)
        return out

    def note(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        if func.overloadpacket is ONEDNN:
            operations = 2 * args[0].numel() * args[1].shape[0]
        elif func.overloadpacket in flop_registry:
            operations = flop_registry[func.overloadpacket](*args, **kwargs, out_val=out)
        else:
            return
        if "convolution" in func.overloadpacket.__name__:
            self.convolutions += operations
        else:
            self.products += operations


class Trace(ArithmeticCounter):
    """Counts arithmetic, bytes read and written by everything else, operations, and bytes of tensors that live.

    Tensors that were there before are not counted. Those that are too large for their memory to be kept when they are
    freed are `fresh`: the system has to find, and wipe, the pages of each.
    """

    def __init__(self) -> None:
        super().__init__()
        self.moved = 0.0
        self.fresh = 0.0
        self.operations = 0
        self.live = 0
        self.peak = 0
        self._known: dict[int, int] = {}

    def note(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        super().note(func, args, kwargs, out)
        read, written = _tensors((args, kwargs)), _tensors(out)
        for tensor in read:
            # One that was there before: known, at no cost.
            self._learn(tensor, 0)
        before = {_key(tensor) for tensor in read}
        if not func._schema.is_mutable and written and all(_key(tensor) in before for tensor in written):
            return  # a view
        self.operations += 1
        if func.overloadpacket not in flop_registry:
            self.moved += sum(tensor.numel() * tensor.element_size() for tensor in (*read, *written))
        for tensor in written:
            size = tensor.untyped_storage().nbytes()
            if size > KEPT and _key(tensor) not in self._known:
                self.fresh += size
            self._learn(tensor, size)
        inside = 0
        if "convolution" in func.overloadpacket.__name__:
            # Convolutions lay their tensors out anew, inside.
            inside = sum(tensor.numel() * tensor.element_size() for tensor in (*read, *written))
        self.peak = max(self.peak, self.live + inside)

    def _learn(self, tensor: Tensor, size: int) -> None:
        key = _key(tensor)
        if key in self._known:
            return
        self._known[key] = size
        self.live += size
        weakref.finalize(tensor.untyped_storage(), self._forget, key)

    def _forget(self, key: int) -> None:
        self.live -= self._known.pop(key)


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def _key(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
