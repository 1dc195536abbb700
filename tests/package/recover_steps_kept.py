"""Steps that differ in what they keep, zero, and change in place; see recover_steps.py."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812  as PyTorch's own documentation calls it
from recover_steps import REFUSED, SAMPLES, Training, mlp, of, step, xy
from torch import Tensor, nn

# What is kept from one call to the next, and changed in place


@step(REFUSED)
def batch_scaled_in_place() -> Training:
    """Pixels, of which one step too many makes next to nothing: no comparison of numbers would see that."""
    batch, model = xy(), mlp()
    batch["x"] = batch["x"].abs() * 100

    def loss(part: dict[str, Tensor]) -> Tensor:
        part["x"].div_(255)
        return F.mse_loss(model(part["x"]), part["y"])

    return Training(model, batch, loss)


@step(REFUSED)
def labels_changed_in_place() -> Training:
    batch = {"x": torch.randn(SAMPLES, 4), "y": torch.randint(0, 3, (SAMPLES,))}
    model = mlp()

    def loss(part: dict[str, Tensor]) -> Tensor:
        part["y"].add_(1).remainder_(3)
        return F.cross_entropy(model(part["x"]), part["y"])

    return Training(model, batch, loss)


@step()
def outputs_changed_in_place() -> Training:
    return of(lambda out, y: F.mse_loss(out.mul_(2), y))


@step()
def embedding_of_bounded_norm() -> Training:
    model = nn.Sequential(nn.Embedding(7, 4, max_norm=1.0), nn.Linear(4, 3))
    return of(F.mse_loss, model, {"x": torch.randint(0, 7, (SAMPLES,)), "y": torch.randn(SAMPLES, 3)})
