"""Steps of two ranks with DistributedDataParallel, each a small function; recover_rank_steps.py runs them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  as PyTorch's own documentation calls it
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

Parts = dict[str, Any]  # what a step uses: modules, wrapped or not
RANK = int(sys.argv[1])


@dataclass
class Case:
    modules: dict[str, nn.Module]
    step: Callable[[Parts, Any], Tensor]
    batch: Any
    options: dict[str, Any] = field(default_factory=dict)  # of DistributedDataParallel
    wrap: Callable[[dict[str, nn.Module], dict[str, Any]], Parts] = lambda modules, options: {
        name: DistributedDataParallel(module, **options) for name, module in modules.items()
    }
    earlier: bool = False  # gradients of another batch are there, under no_sync()


def mlp() -> Any:
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


def xy() -> dict[str, Tensor]:
    samples = 6 + RANK
    return {"x": torch.randn(samples, 4), "y": torch.randn(samples, 3)}


def loss_of(parts: Parts, part: Any) -> Tensor:
    return F.mse_loss(parts["net"](part["x"]), part["y"])


def plain() -> Case:
    return Case({"net": mlp()}, loss_of, xy())


def bucket_views() -> Case:
    return Case({"net": mlp()}, loss_of, xy(), {"gradient_as_bucket_view": True})


def accumulated() -> Case:
    return Case({"net": mlp()}, loss_of, xy(), earlier=True)


def accumulated_in_bucket_views() -> Case:
    return Case({"net": mlp()}, loss_of, xy(), {"gradient_as_bucket_view": True}, earlier=True)


class Sometimes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net, self.more = mlp(), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.more(self.net(x)) if RANK else self.net(x)  # type: ignore[no-any-return]


def used_on_one_rank() -> Case:
    return Case({"net": Sometimes()}, loss_of, xy(), {"find_unused_parameters": True})


class Words(nn.Module):
    """A sparse gradient, on one rank or on both."""

    def __init__(self, always: bool) -> None:
        super().__init__()
        self.words, self.net, self.always = nn.Embedding(5, 4, sparse=True), mlp(), always

    def forward(self, x: Tensor) -> Tensor:
        if RANK or self.always:
            x = x + self.words((x[:, 0] > 0).long())
        return self.net(x)  # type: ignore[no-any-return]


def sparse_on_one_rank() -> Case:
    return Case({"net": Words(always=False)}, loss_of, xy(), {"find_unused_parameters": True})


def sparse_on_both() -> Case:
    return Case({"net": Words(always=True)}, loss_of, xy())


class Transposed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = mlp()
        self.shift: Tensor
        self.register_buffer("shift", torch.rand(2, 3).t())

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x) + self.shift.sum(1)  # type: ignore[no-any-return]


def transposed_buffer() -> Case:
    return Case({"net": Transposed()}, loss_of, xy())


def frozen() -> Case:
    net = mlp()
    net[0].requires_grad_(False)
    return Case({"net": net}, loss_of, xy())


def clamped() -> Case:
    net = mlp()
    net[0].weight.register_hook(lambda grad: grad.clamp(-0.02, 0.02))
    return Case({"net": net}, loss_of, xy())


def shared_by_two() -> Case:
    """Two wrappers with an encoder in both."""

    def wrap(modules: dict[str, nn.Module], options: dict[str, Any]) -> Parts:
        both = [nn.Sequential(modules["encoder"], modules[name]) for name in ("first", "second")]
        return {f"net{i}": DistributedDataParallel(module, **options) for i, module in enumerate(both)}

    def step(parts: Parts, part: Any) -> Tensor:
        if "net0" in parts:
            one, other = parts["net0"](part["x"]), parts["net1"](part["x"])
        else:
            one, other = (parts[name](parts["encoder"](part["x"])) for name in ("first", "second"))
        return F.mse_loss(one, part["y"]) + F.l1_loss(other, part["y"])

    modules: dict[str, nn.Module] = {"encoder": nn.Linear(4, 5), "first": nn.Linear(5, 3), "second": nn.Linear(5, 3)}
    return Case(modules, step, xy(), wrap=wrap)


def listed_twice() -> Case:
    def wrap(modules: dict[str, nn.Module], options: dict[str, Any]) -> Parts:
        net = DistributedDataParallel(modules["net"], **options)
        return {"net": nn.Sequential(net, nn.Identity()), "again": net}

    return Case({"net": mlp()}, loss_of, xy(), wrap=wrap)


CASES: list[Callable[[], Case]] = [
    plain,
    bucket_views,
    accumulated,
    accumulated_in_bucket_views,
    used_on_one_rank,
    sparse_on_one_rank,
    sparse_on_both,
    transposed_buffer,
    frozen,
    clamped,
    shared_by_two,
    listed_twice,
]
