"""Steps with different losses; see recover_steps.py."""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  as PyTorch's own documentation calls it
from recover_steps import REFUSED, SAMPLES, Training, labelled, mlp, of, square, step, token_loss, tokens, xy
from torch import Tensor, nn


@step()
def mean_squared_error() -> Training:
    return of(F.mse_loss)


@step()
def mean_absolute_error() -> Training:
    return of(F.l1_loss)


@step()
def huber() -> Training:
    return of(F.huber_loss)


@step()
def cross_entropy() -> Training:
    return of(F.cross_entropy, batch=labelled())


@step()
def smoothed_labels() -> Training:
    return of(functools.partial(F.cross_entropy, label_smoothing=0.1), batch=labelled())


@step()
def binary_cross_entropy() -> Training:
    return of(lambda out, y: F.binary_cross_entropy_with_logits(out, y.sigmoid()))


@step()
def divergence() -> Training:
    return of(lambda out, y: F.kl_div(out.log_softmax(-1), y.softmax(-1), reduction="batchmean"))


@step()
def focal_loss() -> Training:
    def loss(out: Tensor, y: Tensor) -> Tensor:
        plain = F.cross_entropy(out, y, reduction="none")
        return ((1 - torch.exp(-plain)) ** 2 * plain).mean()

    return of(loss, batch=labelled())


@step()
def sum_over_samples() -> Training:
    return of(functools.partial(F.mse_loss, reduction="sum"), reduction="sum")


@step(REFUSED)
def sum_called_a_mean() -> Training:
    return of(functools.partial(F.mse_loss, reduction="sum"))


@step(REFUSED)
def sum_with_a_regulariser() -> Training:
    model = mlp()
    return of(
        lambda out, y: (out - y).square().sum() + model[0].weight.square().sum(), model, reduction="sum"
    )  # fmt: skip


@step()
def mean_with_a_regulariser() -> Training:
    model = mlp()
    return of(lambda out, y: square(out, y) + 0.1 * model[0].weight.square().mean(), model)


@step(REFUSED)
def sum_over_a_fixed_count() -> Training:
    return of(lambda out, y: (out - y).square().sum() / SAMPLES)


@step()
def sum_over_a_fixed_count_said() -> Training:
    return of(lambda out, y: (out - y).square().sum() / SAMPLES, reduction="sum")


@step()
def two_losses() -> Training:
    return of(lambda out, y: F.mse_loss(out, y) + 0.3 * F.l1_loss(out[:, 0], y[:, 0]))


@step(REFUSED)
def padded_tokens() -> Training:
    return of(token_loss, batch=tokens())


@step()
def padded_tokens_said() -> Training:
    return of(token_loss, batch=tokens(), weight=lambda part: (part["y"] != -100).sum())


@step(REFUSED)
def padded_tokens_weighed_by_a_mean() -> Training:
    return of(token_loss, batch=tokens(), weight=lambda part: (part["y"] != -100).float().mean())


@step()
def tokens_without_padding() -> Training:
    return of(token_loss, batch={"x": torch.randn(SAMPLES, 5, 4), "y": torch.randint(0, 3, (SAMPLES, 5))})


@step(REFUSED)
def class_weights() -> Training:
    weight = torch.tensor([0.2, 1.0, 5.0])
    return of(functools.partial(F.cross_entropy, weight=weight), batch={**labelled(), "y": torch.arange(SAMPLES) % 3})


@step()
def class_weights_said() -> Training:
    weight = torch.tensor([0.2, 1.0, 5.0])
    return of(
        functools.partial(F.cross_entropy, weight=weight), batch=labelled(), weight=lambda part: weight[part["y"]].sum()
    )


def masked() -> dict[str, Tensor]:
    return {**xy(), "mask": torch.tensor([1.0, 1, 1, 1, 0, 1])}


def masked_training(**options: Any) -> Training:
    model = mlp()

    def loss(part: dict[str, Tensor]) -> Tensor:
        out: Tensor = model(part["x"])
        return ((out - part["y"]).square().mean(-1) * part["mask"]).sum() / part["mask"].sum()

    return Training(model, masked(), loss, options)


@step(REFUSED)
def masked_by_hand() -> Training:
    return masked_training()


@step()
def masked_by_hand_said() -> Training:
    return masked_training(weight=lambda part: part["mask"].sum())


@step(REFUSED)
def picked_by_index() -> Training:
    return of(lambda out, y: (out - y)[y[:, 0] > 0].square().mean())


@step(REFUSED)
def contrastive() -> Training:
    return of(lambda out, y: F.cross_entropy(out @ y.T, torch.arange(len(out))))


@step()
def triplets_within_a_sample() -> Training:
    return of(lambda out, y: F.triplet_margin_loss(out, y, y.flip(-1)))


@step(REFUSED)
def pairs_of_samples() -> Training:
    return of(lambda out, y: F.relu(1 - (out[:, None] - out[None]) * (y[:, None] - y[None]).sign()).mean())


def with_balance_loss(factor: float) -> Training:
    """A mixture of experts whose balance loss is there in training only."""
    gate, experts = nn.Linear(4, 2), nn.Linear(4, 6)
    model = nn.ModuleList([gate, experts])

    def loss(part: dict[str, Tensor]) -> Tensor:
        share = gate(part["x"]).softmax(-1)
        out = (experts(part["x"]).view(-1, 2, 3) * share[..., None]).sum(1)
        balance = (share.mean(0) ** 2).sum() if model.training else 0.0
        return F.mse_loss(out, part["y"]) + factor * balance

    return Training(model, xy(), loss)


@step(REFUSED)
def balance_in_training() -> Training:
    return with_balance_loss(0.05)


@step(REFUSED)
def divided_by_the_batchs_spread() -> Training:
    return of(lambda out, y: square(out, y) / y.std())


@step(REFUSED)
def overlap_of_the_batch() -> Training:
    """A dice loss over all samples at once."""
    return of(lambda out, y: 1 - 2 * (out.sigmoid() * y.sigmoid()).sum() / (out.sigmoid() + y.sigmoid()).sum())


@step(REFUSED)
def exponential_of_a_mean() -> Training:
    return of(lambda out, y: square(out, y).exp())


@step()
def critic_near_zero() -> Training:
    """The small difference of two means."""
    return of(lambda out, y: (out + 3).mean() - (out * 1.001 + y * 0.001 + 3).mean())


@step()
def gradient_penalty() -> Training:
    model = mlp(out=1)

    def loss(part: dict[str, Tensor]) -> Tensor:
        x = part["x"].detach().requires_grad_()
        out: Tensor = model(x)
        (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        penalty: Tensor = (slope.norm(dim=1) - 1).square().mean()
        return out.mean() + penalty

    return Training(model, xy(), loss)
