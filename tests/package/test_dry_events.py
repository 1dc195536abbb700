"""Births and deaths of a dry run are those of the same program run for real, in order and to the byte.

The programs use operators whose kernels allocate the same on the CPU and on a GPU: their results.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import dry_events
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


def residual(device: str) -> Any:
    """Gradients that meet: the engine adds them in place."""
    w = [torch.ones(64, 64, device=device, requires_grad=True) for _ in range(3)]
    x = torch.ones(32, 64, device=device)
    for _ in range(2):
        h = x
        for each in w:
            h = h + (h @ each).tanh() + h.sin()
        h.exp().sum().backward()
    return w


def shared_weight(device: str) -> Any:
    w = torch.ones(48, 48, device=device, requires_grad=True)
    y = (torch.ones(8, 48, device=device) @ w).relu() @ w
    (y * y).sum().backward()
    return w


def mlp_with_sgd(device: str) -> Any:
    model = nn.Sequential(nn.Linear(40, 80), nn.Tanh(), nn.Linear(80, 40)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, foreach=False)
    for _ in range(3):
        x = torch.ones(16, 40, device=device)
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model, optimizer


def accumulation(device: str) -> Any:
    model = nn.Linear(32, 32, device=device)
    for _ in range(3):
        (model(torch.ones(4, 32, device=device)).sigmoid().sum() / 3).backward()
    return model


def checkpointed(device: str) -> Any:
    layers = nn.ModuleList(nn.Linear(64, 64, device=device) for _ in range(4))
    h = torch.ones(16, 64, device=device, requires_grad=True)
    for layer in layers:
        h = checkpoint(lambda h, layer=layer: torch.tanh(layer(h)), h, use_reentrant=False, preserve_rng_state=False)
    h.sum().backward()
    return layers


def views_and_in_place(device: str) -> Any:
    x = torch.zeros(100, 10, device=device)
    x.add_(1).view(10, 100)[2:5].mul_(2)
    y = x.transpose(0, 1).contiguous()
    del x
    z = y.narrow(0, 0, 3)
    del y
    return z.clone()


def cycle(device: str) -> Any:
    """A reference cycle keeps a tensor until the collector runs."""

    class Node:
        pass

    import gc

    gc.disable()
    try:
        node: Any = Node()
        node.self, node.tensor = node, torch.ones(1000, device=device)
        del node
        between = torch.ones(10, device=device)
        gc.collect()
    finally:
        gc.enable()
    return between


def hooks(device: str) -> Any:
    kept: list[Any] = []
    model: Any = nn.Sequential(nn.Linear(20, 30), nn.Tanh()).to(device)
    model[0].register_forward_hook(lambda _module, _inputs, output: kept.append(output.detach().mean(0)))
    model[0].weight.register_hook(lambda gradient: gradient * 2)
    model(torch.ones(5, 20, device=device)).sum().backward()
    return model, kept


def resized(device: str) -> Any:
    x = torch.zeros(100, device=device)
    x.resize_(1000)
    x.untyped_storage().resize_(0)
    return torch.ones(7, device=device)


def custom_function(device: str) -> Any:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            (x,) = ctx.saved_tensors
            return gradient * 2 + gradient * x

    x = torch.ones(300, device=device, requires_grad=True)
    y = Double.apply(x)
    (y + y.sin()).sum().backward()
    return x


def cross_entropy(device: str) -> Any:
    table = nn.Embedding(50, 16, device=device)
    head = nn.Linear(16, 50, device=device, bias=False)
    tokens = torch.arange(24).reshape(4, 6).to(device)
    functional.cross_entropy(head(table(tokens)).flatten(0, 1), tokens.flatten()).backward()
    return table, head


def copied(device: str) -> Any:
    """A parameter is copied by Parameter's own method, which makes nothing besides."""
    model = nn.Sequential(nn.Linear(40, 80), nn.Linear(80, 40)).to(device)
    return model, copy.deepcopy(model)


def written_views(device: str) -> Any:
    """As ReLU in place after instance normalization, and a position that is added to patches."""
    w = torch.ones(6, 50, device=device, requires_grad=True)
    for _ in range(2):
        y = (w * 2).view(3, 100).relu_()
        y = y.sin().view(2, 150).mul_(2).add_(w.view(2, 150))
        (y * y).sum().backward()
        part = (w * 2).view(300)[10:200].relu_()
        part.exp().sum().backward()
        z = (w * 3).t().relu_()
        z.square().sum().backward()
        apart = torch.empty_strided((6, 50), (64, 1), device=device).copy_(w).view(6, 50).relu_()
        apart.sum().backward()
    with torch.no_grad():
        w.view(300).add_(1)
    return w


def selected(device: str) -> Any:
    """As sequences that are sorted by their lengths."""
    w = torch.ones(6, 50, device=device, requires_grad=True)
    order = torch.arange(5, -1, -1, device=device)
    (w * 2).index_select(0, order).sin().sum().backward()
    return w


def packed(device: str) -> Any:
    """Each part of a packed batch is an allocation, until they are joined."""
    x = torch.ones(4, 8, 20, device=device)
    lengths = torch.tensor([8, 6, 6, 3])
    by_steps = nn.utils.rnn.pack_padded_sequence(x.transpose(0, 1).contiguous(), lengths)
    return nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True), by_steps


def running_products(device: str) -> Any:
    """PyTorch asks whether one of the numbers is zero, and has a faster way if none is, but not for wrapped tensors."""
    w = torch.full((6, 50), 1.5, device=device, requires_grad=True)
    for dim in (0, -1):
        w.sin().cumprod(dim).square().sum().backward()
    w[:1].cumprod(0).sum().backward()
    (gradient,) = torch.autograd.grad(w.cumprod(1).sum(), w, create_graph=True)
    gradient.square().sum().backward()
    return w, torch.func.grad(lambda x: x.cumprod(0).sum())(torch.full((6, 50), 1.5, device=device))


PROGRAMS = [
    copied,
    running_products,
    packed,
    selected,
    written_views,
    residual,
    shared_weight,
    mlp_with_sgd,
    accumulation,
    checkpointed,
    views_and_in_place,
    cycle,
    hooks,
    resized,
    custom_function,
    cross_entropy,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_the_same_events_as_for_real(program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tape = dry_events.Tape(monkeypatch)
    tape.run(program, tmp_path)
    real = dry_events.real_events(program)
    assert [event for event in tape.at_end if abs(event) > 64] == [event for event in real if abs(event) > 64]
    assert dry_events.peak(tape.at_end) > 0


@pytest.mark.parametrize(
    ("layer", "x", "gradients"),
    [
        (nn.Conv2d(40, 40, 5, groups=40, bias=False), torch.ones(2, 40, 50, 50), [4 * 40 * 25, 4 * 2 * 40 * 50 * 50]),
        (nn.BatchNorm1d(40), torch.ones(500, 40), [4 * 40, 4 * 40, 4 * 500 * 40]),
    ],
    ids=["depthwise convolution", "normalization by rows"],
)
def test_gradients_of_weights_come_first(
    layer: nn.Module, x: torch.Tensor, gradients: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As recorded on an H200."""

    def program(device: str) -> Any:
        layer.to(device)(x.to(device).requires_grad_()).sum().backward()

    tape = dry_events.Tape(monkeypatch)
    tape.run(program, tmp_path)
    assert [event for event in tape.at_end if event in gradients][-len(gradients) :] == gradients
