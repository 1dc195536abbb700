"""Real out-of-memory errors on one GPU, recovered from; prints what came of it.

recover_alone.py native|pool
"""

from __future__ import annotations

import json
from typing import Any

import torch
from scarce import (
    SAMPLES,
    Net,
    begin,
    difference,
    gradients,
    in_tensors,
    limited,
    loss_of,
    make_batch,
    too_little_for,
    train,
)

import vram


def micro_batches() -> dict[str, Any]:
    """Of the whole batch, at once and in parts: gradients, and bytes that are left."""
    model, batch = Net().cuda(), make_batch()
    limit = too_little_for(lambda samples: train(model, batch, samples))
    train(model, batch)
    expected = gradients(model)
    after_whole = in_tensors()
    model.zero_grad()
    with limited(limit):
        done = vram.micro_batches(batch, lambda part: loss_of(model, part), model=model)
    facts = {"size": done.size, "retries": done.retries, "freed": done.freed_bytes}
    del done  # and the loss
    left = in_tensors() - after_whole
    return facts | {"left": left, "difference": difference(gradients(model), expected)}


def retry_on_oom() -> dict[str, Any]:
    """The same of a function of a batch: its results, and the sizes that it was called with."""
    model, x = Net().cuda().requires_grad_(False), make_batch()["x"]
    sizes: list[int] = []

    def gradient_of_input(batch: torch.Tensor) -> torch.Tensor:
        sizes.append(len(batch))
        inputs = batch.detach().requires_grad_()
        return torch.autograd.grad(model(inputs).square().sum(), inputs)[0]

    limit = too_little_for(lambda samples: gradient_of_input(x[:samples]))
    expected = gradient_of_input(x)
    after_whole = in_tensors()
    sizes.clear()
    with limited(limit):
        found = vram.retry_on_oom(gradient_of_input)(x)
    left = in_tensors() - after_whole - found.nbytes
    return {"sizes": sizes, "left": left, "difference": difference(found, expected)}


def dropout() -> dict[str, Any]:
    """Drawn again as if nothing had failed: bit for bit what comes where the size that works is the first one."""
    model, batch = Net(dropout=0.5).cuda(), make_batch()
    limit = too_little_for(lambda samples: train(model, batch, samples))

    def once() -> tuple[vram.MicroBatches, torch.Tensor, torch.Tensor]:
        model.zero_grad()
        torch.manual_seed(7)
        done = vram.micro_batches(batch, lambda part: loss_of(model, part), model=model)
        return done, gradients(model), torch.cuda.get_rng_state()

    with limited(limit):
        failed = once()
    smooth = once()
    return {
        "retries": [failed[0].retries, smooth[0].retries],
        "sizes": [failed[0].size, smooth[0].size],
        "equal": torch.equal(failed[1], smooth[1]),
        "state": torch.equal(failed[2], smooth[2]),
        "notes": failed[0].notes,
    }


def dropout_of_a_function() -> dict[str, Any]:
    model, x = Net(dropout=0.5).cuda().requires_grad_(False), make_batch()["x"]
    sizes: list[int] = []

    def output(batch: torch.Tensor) -> torch.Tensor:
        sizes.append(len(batch))
        return model(batch)  # type: ignore[no-any-return]

    limit = too_little_for(lambda samples: output(x[:samples]))
    retried = vram.retry_on_oom(output)

    def once() -> tuple[torch.Tensor, list[int]]:
        sizes.clear()
        torch.manual_seed(7)
        return retried(x), sizes.copy()

    with limited(limit):
        failed, tried = once()
    smooth, parts = once()
    return {"tried": tried, "parts": parts, "equal": torch.equal(failed, smooth)}


def main() -> None:
    begin()
    result = {check.__name__: check() for check in (micro_batches, retry_on_oom, dropout, dropout_of_a_function)}
    print(json.dumps(result | {"samples": SAMPLES}), flush=True)


if __name__ == "__main__":
    main()
