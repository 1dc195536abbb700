"""Steps that differ in what they keep, zero, and change in place, and in what they train; see recover_steps.py."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  as PyTorch's own documentation calls it
from recover_steps import REFUSED, SAMPLES, Training, mlp, of, step, xy
from recover_steps_layers import normalising
from torch import Tensor, nn

import vram

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


@step(REFUSED)
def teacher_that_follows() -> Training:
    """Its first loss is that of any teacher: it begins as a copy."""
    model = mlp()
    teacher = copy.deepcopy(model)

    def loss(part: dict[str, Tensor]) -> Tensor:
        out: Tensor = model(part["x"])
        found = F.mse_loss(out, part["y"]) + F.mse_loss(out, teacher(part["x"]).detach())
        with torch.no_grad():
            for mine, other in zip(teacher.parameters(), model.parameters(), strict=True):
                mine.data.lerp_(other, 0.1)
        return found

    return Training(model, xy(), loss)


@step(REFUSED)
def queue_of_keys() -> Training:
    model, queue, place = mlp(), torch.zeros(100, 3), [0]

    def loss(part: dict[str, Tensor]) -> Tensor:
        out: Tensor = model(part["x"])
        found = F.mse_loss(out, part["y"]) + 0.1 * (out @ queue.clone().T).mean()
        queue[place[0] : place[0] + len(out)] = 0 * out.detach()
        place[0] += len(out)
        return found

    return Training(model, xy(), loss)


@step(REFUSED)
def running_baseline() -> Training:
    model, baseline = mlp(), torch.zeros(3)

    def loss(part: dict[str, Tensor]) -> Tensor:
        out: Tensor = model(part["x"])
        found = ((out - baseline) * part["y"]).mean()
        baseline.lerp_(out.detach().mean(0), 0.1)
        return found

    return Training(model, xy(), loss)


@step()
def count_of_samples_seen() -> Training:
    """Nothing that the loss is made of."""
    model, seen = mlp(), torch.zeros(())

    def loss(part: dict[str, Tensor]) -> Tensor:
        seen.add_(len(part["x"]))
        assert seen.item() > 0
        return F.mse_loss(model(part["x"]), part["y"])

    return Training(model, xy(), loss)


@step()
def mask_made_at_first_use() -> Training:
    model = mlp()
    kept: list[Tensor] = []

    def loss(part: dict[str, Tensor]) -> Tensor:
        if not kept:
            kept.append(torch.tensor([1.0, 1.0, 1.0]).index_fill_(0, torch.tensor([1]), 0.5))
        return F.mse_loss(model(part["x"]) * kept[0], part["y"])

    return Training(model, xy(), loss)


@step()
def embedding_of_bounded_norm() -> Training:
    model = nn.Sequential(nn.Embedding(7, 4, max_norm=1.0), nn.Linear(4, 3))
    return of(F.mse_loss, model, {"x": torch.randint(0, 7, (SAMPLES,)), "y": torch.randn(SAMPLES, 3)})


@step(REFUSED)
def embedding_of_bounded_norm_that_is_shared() -> Training:
    """Each lookup bounds the norms of its rows alone; the other use sees all of them."""
    embed = nn.Embedding(7, 4, max_norm=0.5)
    batch = {"x": torch.arange(SAMPLES), "y": torch.randint(0, 7, (SAMPLES,))}
    return Training(embed, batch, lambda part: F.cross_entropy(embed(part["x"]) @ embed.weight.T, part["y"]))


@step(REFUSED)
def graph_from_outside() -> Training:
    model, weight = mlp(), nn.Parameter(torch.randn(3))
    scale = weight.exp()
    return Training(model, xy(), lambda part: F.mse_loss(model(part["x"]) * scale, part["y"]), others=[weight])


# Gradients that are zeroed or changed


def with_gradients(training: Training) -> Training:
    for tensor in training.trained():
        tensor.grad = torch.ones_like(tensor)
    return training


@step(REFUSED)
def zero_grad_within() -> Training:
    model = mlp()

    def loss(part: dict[str, Tensor]) -> Tensor:
        model.zero_grad()
        return F.mse_loss(model(part["x"]), part["y"])

    return Training(model, xy(), loss, {"check": False})


@step(REFUSED)
def zero_grad_within_accumulation() -> Training:
    return with_gradients(dataclasses.replace(zero_grad_within(), options={}))


@step(REFUSED)
def zero_grad_of_an_optimizer_within_accumulation() -> Training:
    training = with_gradients(of(F.mse_loss))
    optimizer, inner = torch.optim.SGD(training.model.parameters(), lr=0.1), training.step

    def loss(part: Any) -> Tensor:
        optimizer.zero_grad(set_to_none=False)
        return inner(part)

    return dataclasses.replace(training, step=loss)


@step(REFUSED)
def gradients_dropped_by_hand() -> Training:
    training = with_gradients(of(F.mse_loss))
    inner = training.step

    def loss(part: Any) -> Tensor:
        for parameter in training.model.parameters():
            parameter.grad = None
        return inner(part)

    return dataclasses.replace(training, step=loss)


@step(REFUSED)
def perturbed_by_backward() -> Training:
    model = mlp()

    def loss(part: dict[str, Tensor]) -> Tensor:
        x = part["x"].clone().requires_grad_()
        F.mse_loss(model(x), part["y"]).backward()  # type: ignore[no-untyped-call]
        assert x.grad is not None
        moved = (x + 0.1 * x.grad.sign()).detach()
        model.zero_grad()
        return F.mse_loss(model(moved), part["y"])

    return Training(model, xy(), loss)


@step()
def perturbed_by_gradients() -> Training:
    model = mlp()

    def loss(part: dict[str, Tensor]) -> Tensor:
        x = part["x"].clone().requires_grad_()
        (slope,) = torch.autograd.grad(F.mse_loss(model(x), part["y"], reduction="sum"), x)
        return F.mse_loss(model((x + 0.1 * slope.sign()).detach()), part["y"])

    return Training(model, xy(), loss)


@step(REFUSED)
def backward_within() -> Training:
    model, other = mlp(), nn.Linear(3, 1)

    def loss(part: dict[str, Tensor]) -> Tensor:
        out: Tensor = model(part["x"])
        other(out.detach()).mean().backward()
        return F.mse_loss(out, part["y"])

    return Training(nn.ModuleList([model, other]), xy(), loss)


@step(REFUSED)
def clipped_in_backward() -> Training:
    training = of(F.mse_loss)

    def backward(loss: Tensor) -> None:
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(training.model.parameters(), 0.1)

    training.options["backward"] = backward
    return training


@step(REFUSED)
def hook_of_a_node() -> Training:
    def loss(out: Tensor, y: Tensor) -> Tensor:
        assert out.grad_fn is not None
        out.grad_fn.register_prehook(lambda grads: (grads[0] / grads[0].norm(),))
        return F.mse_loss(out, y)

    return of(loss)


# Tensors that are no parameters


def of_plain_tensors(loss: Any) -> Training:
    weight = torch.randn(4, 3, requires_grad=True)
    return Training(nn.Identity(), xy(), lambda part: loss(part["x"] @ weight, part["y"]), others=[weight])


@step()
def plain_tensors() -> Training:
    return of_plain_tensors(F.mse_loss)


@step()
def plain_tensors_with_gradients() -> Training:
    return with_gradients(of_plain_tensors(F.mse_loss))


@step(REFUSED)
def plain_tensors_and_a_backward_that_normalises() -> Training:
    return of_plain_tensors(lambda out, y: F.mse_loss(normalising(out), y))


@step()
def parameters_by_a_function() -> Training:
    model = mlp()

    def loss(part: dict[str, Tensor]) -> Tensor:
        scaled = {name: 1.5 * parameter for name, parameter in model.named_parameters()}
        return F.mse_loss(torch.func.functional_call(model, scaled, (part["x"],)), part["y"])

    return Training(model, xy(), loss)


@step()
def models_in_one() -> Training:
    models = [mlp() for _ in range(3)]
    stacked, _ = torch.func.stack_module_state(models)
    parameters = {name: tensor.detach().requires_grad_() for name, tensor in stacked.items()}

    def loss(part: dict[str, Tensor]) -> Tensor:
        out: Tensor = torch.func.vmap(lambda own: torch.func.functional_call(models[0], own, (part["x"],)))(parameters)
        return (out - part["y"]).square().mean()

    return Training(nn.Identity(), xy(), loss, others=list(parameters.values()))


@step()
def gradients_of_each_sample() -> Training:
    model = mlp()

    def loss(part: dict[str, Tensor]) -> Tensor:
        def of_one(own: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
            return F.mse_loss(torch.func.functional_call(model, own, (x,)), y)

        own = dict(model.named_parameters())
        slopes = torch.func.vmap(torch.func.grad(of_one), (None, 0, 0))(own, part["x"], part["y"])
        return sum((slope.flatten(1).square().sum(1).mean() for slope in slopes.values()), torch.zeros(()))

    return Training(model, xy(), loss)


@step(REFUSED)
def gradient_of_the_batch() -> Training:
    model = mlp()

    def loss(part: dict[str, Tensor]) -> Tensor:
        def inner(own: dict[str, Tensor]) -> Tensor:
            return F.mse_loss(torch.func.functional_call(model, own, (part["x"],)), part["y"])

        own = dict(model.named_parameters())
        slopes = torch.func.grad(inner)(own)
        return inner({name: tensor - 0.5 * slopes[name] for name, tensor in own.items()})

    return Training(model, xy(), loss)


@step()
def function_that_recovers_within() -> Training:
    model = mlp()

    @vram.retry_on_oom(join=torch.cat)
    def outputs(batch: Tensor) -> Tensor:
        return model(batch)  # type: ignore[no-any-return]

    return Training(model, xy(), lambda part: F.mse_loss(outputs(part["x"]), part["y"]))
