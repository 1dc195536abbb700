"""Steps with different hooks, normalising layers and buffers; see recover_steps.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  as PyTorch's own documentation calls it
from recover_steps import REFUSED, Training, images, mlp, of, step
from torch import Tensor, nn

# Hooks


def hooked(register: Callable[[Any], Any]) -> Training:
    model = mlp()
    register(model)
    return of(F.mse_loss, model)


@step()
def hook_that_clamps() -> Training:
    return hooked(lambda model: model[0].weight.register_hook(lambda grad: grad.clamp(-0.02, 0.02)))


@step()
def hook_that_only_looks() -> Training:
    return hooked(lambda model: model[2].bias.register_hook(lambda _grad: None))


@step()
def two_hooks() -> Training:
    def register(model: Any) -> None:
        model[0].bias.register_hook(lambda grad: grad * 2)
        model[0].bias.register_hook(lambda grad: grad / (grad.norm() + 0.1))

    return hooked(register)


@step(REFUSED)
def hook_after_accumulation() -> Training:
    def halve(parameter: Tensor) -> None:
        assert parameter.grad is not None
        parameter.grad.mul_(0.5)

    return hooked(lambda model: model[0].weight.register_post_accumulate_grad_hook(halve))


@step(REFUSED)
def hook_of_a_modules_backward() -> Training:
    return hooked(lambda model: model[0].register_full_backward_hook(lambda *_: None))


@step(REFUSED)
def hook_before_a_modules_backward() -> Training:
    return hooked(
        lambda model: model[2].register_full_backward_pre_hook(lambda _m, grads: (grads[0].clamp(-0.1, 0.1),))
    )


@step()
def hook_of_a_modules_forward() -> Training:
    return hooked(lambda model: model[0].register_forward_hook(lambda _m, _i, out: out * 0.5))


@step()
def hook_before_a_modules_forward() -> Training:
    return hooked(lambda model: model[2].register_forward_pre_hook(lambda _m, inputs: (inputs[0] + 1,)))


@step(REFUSED)
def hook_within_the_step() -> Training:
    def loss(out: Tensor, y: Tensor) -> Tensor:
        out.register_hook(lambda grad: grad / grad.norm())  # type: ignore[no-untyped-call]
        return F.mse_loss(out, y)

    return of(loss)


class Normalising(torch.autograd.Function):
    """Its backward is not linear."""

    @staticmethod
    def forward(_ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(_ctx: Any, grad: Tensor) -> Tensor:
        return grad.div(grad.norm())


class Reversing(torch.autograd.Function):
    @staticmethod
    def forward(_ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(_ctx: Any, grad: Tensor) -> Tensor:
        return -grad


normalising: Any = Normalising.apply
reversing: Any = Reversing.apply


@step(REFUSED)
def backward_that_normalises() -> Training:
    return of(lambda out, y: F.mse_loss(normalising(out), y))


@step()
def backward_that_reverses() -> Training:
    return of(lambda out, y: F.mse_loss(reversing(out), y))


# Layers that normalise, and buffers


@step(REFUSED)
def batch_norm() -> Training:
    return of(F.mse_loss, mlp(nn.BatchNorm1d(5)))


@step()
def batch_norm_in_evaluation() -> Training:
    return of(F.mse_loss, mlp(nn.BatchNorm1d(5).eval()))


@step(REFUSED)
def batch_norm_as_a_function() -> Training:
    return of(lambda out, y: F.mse_loss(F.batch_norm(out, None, None, training=True), y))


@step()
def layer_norm() -> Training:
    return of(F.mse_loss, mlp(nn.LayerNorm(5)))


@step()
def group_norm() -> Training:
    """The bias before it has no gradient but rounding."""
    return images(nn.GroupNorm(2, 4))


@step()
def instance_norm() -> Training:
    return images(nn.InstanceNorm2d(4, affine=True))


@step(REFUSED)
def instance_norm_with_statistics() -> Training:
    return images(nn.InstanceNorm2d(4, track_running_stats=True))


@step()
def spectral_norm() -> Training:
    model = mlp()
    nn.utils.parametrizations.spectral_norm(model[0])
    return of(F.mse_loss, model)


@step()
def older_spectral_norm() -> Training:
    model = mlp()
    nn.utils.spectral_norm(model[0])
    return of(F.mse_loss, model)


@step()
def weight_norm() -> Training:
    model = mlp()
    nn.utils.parametrizations.weight_norm(model[0])
    return of(F.mse_loss, model)


class Averaging(nn.Module):
    """Moves a buffer towards the mean of what comes by, and counts."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.average: Tensor
        self.count: Tensor
        self.register_buffer("average", torch.zeros(5))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            if self.kind == "in place":
                self.average.lerp_(x.mean(0), 0.1)
            elif self.kind == "anew":
                self.average = self.average.lerp(x.mean(0), 0.1)
            self.count += 1
        return x - self.average if self.kind != "count" else x / self.count


@step(REFUSED)
def average_in_a_buffer() -> Training:
    return of(F.mse_loss, mlp(Averaging("in place")))


@step(REFUSED)
def average_in_a_new_buffer() -> Training:
    return of(F.mse_loss, mlp(Averaging("anew")))


@step()
def count_in_a_buffer() -> Training:
    return of(F.mse_loss, mlp(Averaging("count")))
