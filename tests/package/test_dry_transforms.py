"""torch.func in dry runs: gradients, Jacobians and ensembles."""

# mypy: allow-untyped-calls

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dry_events
import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, stack_module_state, vjp, vmap

from vram.dry import dry_run

pytestmark = pytest.mark.filterwarnings("ignore")
F = nn.functional


def gradient_of_a_chain(device: str) -> Any:
    weight, x = torch.ones(40, 40, device=device), torch.ones(30, 40, device=device)
    return grad(lambda w: ((x @ w).tanh() @ w).sin().sum())(weight)


def gradient_of_a_model(device: str) -> Any:
    model = nn.Sequential(nn.Linear(40, 60), nn.Tanh(), nn.Linear(60, 40)).to(device)
    parameters = {name: each.detach() for name, each in model.named_parameters()}

    def loss(parameters: Any, x: Any) -> Any:
        return functional_call(model, parameters, (x,)).square().sum()

    return model, grad(loss)(parameters, torch.ones(16, 40, device=device))


@pytest.mark.parametrize("program", [gradient_of_a_chain, gradient_of_a_model], ids=lambda program: program.__name__)
def test_the_same_bytes_as_for_real(program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tape = dry_events.Tape(monkeypatch)
    tape.run(program, tmp_path)
    real = dry_events.real_events(program)
    found, expected = ([event for event in each if abs(event) > 512] for each in (tape.at_end, real))
    assert found == expected


def model_on(device: str) -> Any:
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).to(device)


def of_each_sample(device: str) -> Any:
    model = model_on(device)
    parameters = {name: each.detach() for name, each in model.named_parameters()}

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        return F.mse_loss(functional_call(model, parameters, (x[None],)), y[None])

    x, y = torch.ones(5, 4, device=device), torch.ones(5, 2, device=device)
    found = vmap(grad(loss), in_dims=(None, 0, 0), randomness="different")(parameters, x, y)
    return [each.shape for each in found.values()]


def ensemble(device: str) -> Any:
    models = [model_on(device) for _ in range(3)]
    parameters, buffers = stack_module_state(models)
    base = copy.deepcopy(models[0]).to("meta")

    def call(parameters: Any, buffers: Any, x: Any) -> Any:
        return functional_call(base, (parameters, buffers), (x,))

    return vmap(call, in_dims=(0, 0, None))(parameters, buffers, torch.ones(5, 4, device=device)).shape


def products(device: str) -> Any:
    x = torch.ones(6, 6, device=device)
    return jvp(torch.sin, (x,), (x,))[1].shape, vjp(torch.sin, x)[1](x)[0].shape, jacfwd(torch.sin)(x).shape


def second_derivatives(device: str) -> Any:
    model = model_on(device)
    return hessian(lambda x: model(x).sum())(torch.ones(4, device=device)).shape


def gradients_at_once(device: str) -> Any:
    """Without torch.func, but by the same kind of tensors."""
    x = torch.ones(4, device=device, requires_grad=True)
    gradients = torch.autograd.grad(model_on(device)(x), x, torch.eye(2, device=device), is_grads_batched=True)
    return gradients[0].shape, torch.autograd.functional.jacobian(model_on(device), x, vectorize=True).shape


TRANSFORMS: dict[str, Callable[[str], Any]] = {
    "gradients at once": gradients_at_once,
    "gradients of each sample": of_each_sample,
    "an ensemble": ensemble,
    "products with Jacobians": products,
    "a Jacobian": lambda device: jacrev(model_on(device))(torch.ones(4, device=device)).shape,
    "a Hessian": second_derivatives,
}


@pytest.mark.parametrize("program", TRANSFORMS.values(), ids=TRANSFORMS)
def test_transforms_have_the_shapes_of_the_cpu(program: Callable[[str], Any], tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        found = program("cuda")
        after = torch.ones(3, device="cuda", requires_grad=True)
        (after * 2).sum().backward()
    assert found == program("cpu")
