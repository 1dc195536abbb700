"""Low-rank adapters (LoRA) in parallel with the linear layers of a model, which are trained instead of its parameters."""

# mypy: allow-untyped-calls

from __future__ import annotations

import functools
import gc
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from vram.dry import _linear
from vram.dry._patches import Patches


def _layers(parameters: list[Any]) -> list[Any]:
    """Return the linear layers with these weights in their order, without the head: those tied to an embedding, or else the last."""
    modules = [each for each in gc.get_objects() if issubclass(type(each), nn.Module)]
    embedded = {id(each.weight) for each in modules if isinstance(each, nn.Embedding)}
    linear = {id(each.weight): each for each in modules if _linear.sizes_of(each)}
    found = [linear[id(parameter)] for parameter in parameters if id(parameter) in linear]
    return [each for each in found if id(each.weight) not in embedded] if embedded & linear.keys() else found[:-1]


def _attach(layer: Any, rank: int) -> list[Any]:
    """Add an adapter as PEFT does: float32, without dropout. Returns its parameters."""
    place: dict[str, Any] = {"device": layer.weight.device, "dtype": torch.float32, "bias": False}
    sizes = _linear.sizes_of(layer)
    assert sizes is not None
    inputs, outputs = sizes
    down, up = nn.Linear(inputs, rank, **place), nn.Linear(rank, outputs, **place)
    layer.add_module("lora_A", down)
    layer.add_module("lora_B", up)
    forward = layer.forward

    @functools.wraps(forward)
    def adapted(x: Any) -> Any:
        result = forward(x)
        return (result + up(down(x.to(down.weight.dtype))) * 2.0).to(result.dtype)

    layer.forward = adapted
    return [down.weight, up.weight]


def adapt(rank: int, patches: Patches) -> list[Any]:
    """Give adapters to the layers that a new optimizer would train; it then trains these. Returns them, later."""
    adapted: list[Any] = []
    init = Optimizer.__init__

    @functools.wraps(init)
    def with_adapters(optimizer: Any, params: Any, defaults: Any) -> None:
        groups = [{**each, "params": list(each["params"])} if isinstance(each, dict) else each for each in params]
        named = [each for group in groups for each in (group["params"] if isinstance(group, dict) else [group])]
        trained = [each[1] if isinstance(each, tuple) else each for each in named]
        layers = _layers(trained)
        if layers:
            for parameter in trained:
                parameter.requires_grad_(False)
            groups = [parameter for layer in layers for parameter in _attach(layer, rank)]
            adapted.extend(layers)
        init(optimizer, groups, defaults)

    patches.put(Optimizer, "__init__", with_adapters)
    return adapted
