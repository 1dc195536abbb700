"""A small training on the CPU, for injected failures, and its expected gradients."""

from __future__ import annotations

from typing import Any

import torch
from oom_injection import relative_difference
from torch import nn

EQUAL = 1e-6
torch.set_num_threads(1)  # the tensors are small
Batch = dict[str, torch.Tensor]


class Net(nn.Module):
    """Embedding, attention-like mixing within a sample, LayerNorm: a bit of what transformers are made of."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 16)
        self.mix = nn.Linear(16, 16)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 5)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        x = x + torch.softmax(x @ x.transpose(1, 2) / 4, dim=-1) @ self.mix(x)
        return self.head(torch.tanh(self.norm(x)).mean(1))  # type: ignore[no-any-return]


def make_batch(samples: int) -> Batch:
    return {"tokens": torch.randint(0, 11, (samples, 6)), "labels": torch.randint(0, 5, (samples,))}


def loss_of(model: nn.Module, batch: Batch) -> torch.Tensor:
    return nn.functional.cross_entropy(model(batch["tokens"]), batch["labels"])


def reference(model: nn.Module, *batches: Batch) -> list[torch.Tensor]:
    """Gradients of the full batches, accumulated, of a model left as it was."""
    kept = [p.grad for p in model.parameters()]
    model.zero_grad(set_to_none=True)
    for batch in batches:
        loss_of(model, batch).backward()  # type: ignore[no-untyped-call]
    found = [p.grad for p in model.parameters()]
    for parameter, grad in zip(model.parameters(), kept, strict=True):
        parameter.grad = grad
    return [grad for grad in found if grad is not None]


def assert_equal_gradients(model: nn.Module, expected: list[torch.Tensor], within: float = EQUAL) -> None:
    """Of the whole gradient relative to its norm; of each parameter's ten times that, for sums that nearly cancel."""
    found = [p.grad for p in model.parameters()]
    for grad, other in zip(found, expected, strict=True):
        assert relative_difference(grad, other) <= 10 * within
    whole = torch.cat([grad.flatten() for grad in found if grad is not None])
    assert relative_difference(whole, torch.cat([grad.flatten() for grad in expected])) <= within


def limit(largest: int) -> Any:
    """A check, to be called with a part, that fails above so many samples."""

    def check(part: Batch) -> None:
        if len(part["labels"]) > largest:
            raise torch.OutOfMemoryError(f"CUDA out of memory. {len(part['labels'])} samples are too many")

    return check
