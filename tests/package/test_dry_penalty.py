"""Gradients of gradients in a dry run: what their formulas allocate, and the order in which autograd runs them."""

# mypy: allow-untyped-calls

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import dry_events
import pytest
import torch
from torch import nn
from torch.nn import functional

from vram.dry import dry_run
from vram.dry._mode import DryMode

LAYERS: dict[str, Callable[[Any], Any]] = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu, tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "softplus": functional.softplus,
    "leaky_relu": functional.leaky_relu,
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "layer_norm": lambda x: functional.layer_norm(x, x.shape[1:]),
    "norm": lambda x: x / x.flatten(1).norm(dim=1)[:, None, None],
    "mean": lambda x: (x - x.mean(1, keepdim=True)).square(),
}


def penalty(layer: Callable[[Any], Any]) -> Callable[[str], Any]:
    def program(device: str) -> Any:
        w = torch.ones(24, 24, device=device, requires_grad=True)
        x = torch.ones(6, 20, 24, device=device, requires_grad=True)
        slope = torch.autograd.grad(layer(x @ w).square().sum(), x, create_graph=True)[0]
        slope.square().sum().backward()
        return w

    return program


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_formulas_allocate_what_they_allocate_for_real(
    layer: Callable[[Any], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They add out of place what autograd's engine would add in place. The order is another one: see below."""
    tape = dry_events.Tape(monkeypatch)
    tape.run(penalty(layer), tmp_path)
    real = dry_events.real_events(penalty(layer))
    sizes = [Counter(size for size in events if size >= 1024) for events in (tape.events, real)]
    assert sizes[0] == sizes[1]


def names_in_order(device: str, passes: ThreadPoolExecutor) -> list[str]:
    """Train with a penalty, whose gradient is computed by a thread of `passes`. Returns the functions of the last backward pass."""
    torch.manual_seed(0)
    critic = nn.Sequential(nn.Linear(16, 16), nn.SiLU(), nn.LayerNorm(16), nn.Linear(16, 1)).to(device)
    names: list[str] = []
    for step in range(6):
        real, fake = (torch.ones(4, 16, device=device) for _ in range(2))
        loss = critic(fake).mean() - critic(real).mean()
        between = torch.ones(4, 16, device=device, requires_grad=True)
        judged = critic(between).sum()
        slope = passes.submit(torch.autograd.grad, judged, between, create_graph=True).result(60)[0]
        loss = loss + (slope.norm(dim=1) - 1).square().mean()
        if step == 5:
            _note_names(loss.grad_fn, names)
        loss.backward()
    return names


def _note_names(root: Any, names: list[str]) -> None:
    waiting, seen = [root], set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            node.register_prehook(partial(_note, names, node.name()))
            waiting += [each for each, _ in node.next_functions]


def _note(names: list[str], name: str, _gradients: Any) -> None:
    names.append(name)


class _Here(ThreadPoolExecutor):
    """Calls at once: a dry run follows one thread."""

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        return type("Done", (), {"result": lambda _self, _timeout: result})()


def test_functions_that_backward_passes_make_are_run_in_the_order_of_the_thread_of_a_gpu(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as program, ThreadPoolExecutor(1) as passes:  # each counts from 0
        expected = program.submit(names_in_order, "cpu", passes).result(120)
    with dry_run(gpu="24GiB", path=tmp_path / "dry.vtrace"), _Here() as here:
        found = names_in_order("cuda", here)
    assert len(expected) > 40
    assert found == expected


def test_a_convolution_copies_transposed_gradients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a recorded program on an H100 did: bench/prediction/measured-h100-blind.tar.xz, wgan_penalty.fp32.48."""
    calls: list[tuple[str, tuple[int, ...]]] = []
    account = DryMode.account

    def noted(mode: Any, func: Any, args: Any, kwargs: Any, outputs: Any) -> None:
        calls.append((str(func), tuple(outputs[0].shape) if outputs else ()))
        account(mode, func, args, kwargs, outputs)

    monkeypatch.setattr(DryMode, "account", noted)
    with dry_run(gpu="H100 80GB", path=tmp_path / "dry.vtrace"):
        critic = nn.Conv2d(3, 8, 3, device="cuda")
        x = torch.ones(4, 3, 10, 10, device="cuda", requires_grad=True)
        slope = torch.autograd.grad(critic(x).square().sum(), x, create_graph=True)[0]
        calls.clear()
        slope.square().sum().backward()
    assert ("aten.clone.default", (8, 4, 8, 8)) in calls


def test_gradients_of_signs_run(tmp_path: Path) -> None:
    """Their formula returns zeros without memory, whose products PyTorch computes the shapes of."""
    with dry_run(path=tmp_path / "dry.vtrace"):
        x = torch.ones(3, 4, device="cuda", requires_grad=True)
        slope = torch.autograd.grad((x * 1.0).abs().sum(), x, create_graph=True)[0]
        slope.sum().backward()
        assert x.grad is not None
        assert x.grad.shape == x.shape
