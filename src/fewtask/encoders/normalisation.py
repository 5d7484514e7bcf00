"""BatchNorm that knows about episodes and about passes that must not touch its running statistics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fewtask.errors import SettingsError

Statistics = Literal["usual", "batch", "keep", "kept"]


class EpisodeBatchNorm(nn.Module):
    """BatchNorm over rows [M, C, ...] with three more states, set by `normalising`.

    groups: the M rows are so many equal runs (episodes) that are normalised each by itself, in one pass.
    update: whether this pass moves the running statistics.
    statistics: "usual", the batch's in training and the running ones otherwise; "batch", always the batch's;
        "keep", the batch's, remembered with their graph for passes with "kept".

    Parameter and buffer names are those of torch's BatchNorm, which `convert` replaces.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, features: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.features, self.eps, self.momentum = features, eps, momentum
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.ones(features))
        self.groups = 1
        self.update = True
        self.statistics: Statistics = "usual"
        self.kept: tuple[Tensor, Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.statistics == "keep":
            dims = (0, *range(2, x.dim()))
            self.kept = x.mean(dims, keepdim=True), x.var(dims, correction=0, keepdim=True)
        if self.statistics in ("keep", "kept"):
            assert self.kept is not None
            # Written out, because torch's own takes given statistics for constants; learning would then run away
            # into changes that normalisation undoes.
            centre, spread = self.kept
            scale = self.weight.view(centre.shape) * torch.rsqrt(spread + self.eps)
            return (x - centre) * scale + self.bias.view(centre.shape)
        if not self.training and self.statistics == "usual":
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)
        if self.groups == 1:
            if not self.update:
                return F.batch_norm(x, None, None, self.weight, self.bias, True, self.momentum, self.eps)
            # The graph holds on to what it is given: copies, so that a second pass of a step may move the buffers.
            mean, var = self.running_mean.clone(), self.running_var.clone()
            out = F.batch_norm(x, mean, var, self.weight, self.bias, True, self.momentum, self.eps)
            self.running_mean.copy_(mean)
            self.running_var.copy_(var)
            return out
        return self._grouped(x)

    @property
    def of_this_batch(self) -> bool:
        """Whether a pass is normalised by the statistics of all its rows together, and nothing else is asked for."""
        return self.groups == 1 and (self.statistics == "batch" or (self.statistics == "usual" and self.training))

    def move(self, mean: Tensor, var: Tensor, count: int) -> None:
        """The running statistics towards those of a pass: mean and variance [C] of `count` numbers a channel."""
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(var * (count / max(1, count - 1)), self.momentum)

    def _grouped(self, x: Tensor) -> Tensor:
        """Each group's rows side by side as channels: [G * m, C, ...] -> [m, G * C, ...] and back."""
        groups, count = self.groups, x.shape[0] // self.groups
        rest = x.shape[2:]
        wide = x.reshape(groups, count, self.features, *rest).transpose(0, 1)
        wide = wide.reshape(count, groups * self.features, *rest)
        mean = var = None
        if self.update:
            # Gathers this pass's statistics of every group; their mean moves the running ones.
            mean, var = x.new_zeros(groups * self.features), x.new_zeros(groups * self.features)
        out = F.batch_norm(wide, mean, var, self.weight.repeat(groups), self.bias.repeat(groups), True, 1.0, self.eps)
        if mean is not None and var is not None:
            self.running_mean.lerp_(mean.view(groups, -1).mean(0), self.momentum)
            self.running_var.lerp_(var.view(groups, -1).mean(0), self.momentum)
        out = out.reshape(count, groups, self.features, *rest).transpose(0, 1)
        return out.reshape(x.shape)

    def extra_repr(self) -> str:
        return f"{self.features}, eps={self.eps}, momentum={self.momentum}"


def convert(module: nn.Module) -> nn.Module:
    """A module with every torch BatchNorm replaced by an EpisodeBatchNorm that has its weights."""
    if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
        if not (module.affine and module.track_running_stats):
            raise SettingsError(
                f"{module} has no weights or keeps no running statistics, which evaluation needs: leave affine and "
                "track_running_stats on"
            )
        new = EpisodeBatchNorm(module.num_features, module.eps, 0.1 if module.momentum is None else module.momentum)
        new.to(module.weight)
        new.load_state_dict(
            {name: value for name, value in module.state_dict().items() if name != "num_batches_tracked"}
        )
        return new
    for name, child in module.named_children():
        replaced = convert(child)
        if replaced is not child:
            setattr(module, name, replaced)
    return module


@contextmanager
def normalising(
    module: nn.Module, *, update: bool = True, groups: int = 1, statistics: Statistics | None = None
) -> Iterator[None]:
    """Within the block, BatchNorm treats rows as `groups` runs and moves its running statistics or not.

    statistics: where those of the block come from; unset: from where they came before.
    """
    layers = [layer for layer in module.modules() if isinstance(layer, EpisodeBatchNorm)]
    before = [(layer.update, layer.groups, layer.statistics) for layer in layers]
    for layer in layers:
        layer.update, layer.groups, layer.statistics = update, groups, statistics or layer.statistics
    try:
        yield
    finally:
        for layer, old in zip(layers, before):
            layer.update, layer.groups, layer.statistics = old
            if statistics == "kept":
                layer.kept = None
