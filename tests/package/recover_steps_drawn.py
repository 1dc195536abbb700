"""Steps that differ in what they draw; see recover_steps.py."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812  as PyTorch's own documentation calls it
from recover_steps import DRAWS, REFUSED, SAMPLES, Training, mlp, of, step, xy
from torch import Tensor, nn


@step(DRAWS)
def drawn_from_one_on() -> Training:
    model, places = mlp(), nn.Embedding(4, 4)

    def loss(part: dict[str, Tensor]) -> Tensor:
        place = torch.randint(1, 5, (len(part["x"]),)) - 1
        return F.mse_loss(model(part["x"] + places(place)), part["y"])

    return Training(nn.ModuleList([model, places]), xy(), loss)


@step(DRAWS)
def drawn_from_a_range() -> Training:
    model, places = mlp(), nn.Embedding(4, 4)

    def loss(part: dict[str, Tensor]) -> Tensor:
        place = torch.empty(len(part["x"])).uniform_(2, 5).long() - 2
        scale = torch.normal(50.0, 1.0, (len(part["x"]), 1)).sub(40).log()
        return F.mse_loss(model(part["x"] + places(place)) * scale, part["y"])

    return Training(nn.ModuleList([model, places]), xy(), loss)


@step(DRAWS)
def drawn_until_it_will_do() -> Training:
    def loss(out: Tensor, y: Tensor) -> Tensor:
        for _ in range(1000):
            first, second = torch.rand(()), torch.randint(0, 9, ())
            if 0.3 < first < 0.4 and second != 5:
                return F.mse_loss(out * first, y)
        raise AssertionError("a loop without this limit would not have ended")

    return of(loss)


@step(REFUSED)
def mask_of_tokens_drawn() -> Training:
    batch = {"x": torch.randn(SAMPLES, 5, 4), "y": torch.randint(0, 3, (SAMPLES, 5))}

    def loss(out: Tensor, y: Tensor) -> Tensor:
        chosen = torch.rand(y.shape) < 0.4
        return F.cross_entropy(out[chosen], y[chosen])

    return of(loss, batch=batch)


@step(REFUSED)
def contrast_with_normalised_noise() -> Training:
    """Constants in place of the noise give no number."""
    model = mlp()

    def loss(part: dict[str, Tensor]) -> Tensor:
        noise = torch.randn_like(part["x"])
        noise = (noise - noise.mean()) / noise.std()
        one, other = model(part["x"]), model(part["x"] + 0.1 * noise)
        return F.cross_entropy(one @ other.T, torch.arange(len(one)))

    return Training(model, xy(), loss)


@step(REFUSED)
def mixed_at_random_now_and_then() -> Training:
    model = mlp()

    def loss(part: dict[str, Tensor]) -> Tensor:
        x = part["x"]
        if torch.rand(()) < 0.4:
            x = 0.5 * (x + x[torch.randperm(len(x))])
        return F.mse_loss(model(x), part["y"])

    return Training(model, xy(), loss)


@step(REFUSED)
def compared_now_and_then() -> Training:
    def loss(out: Tensor, y: Tensor) -> Tensor:
        compares = torch.rand(()) > 0.6
        return F.mse_loss(out, y) + (F.cross_entropy(out @ out.T, torch.arange(len(out))) if compares else 0)

    return of(loss)
