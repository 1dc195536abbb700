"""Steps with different precision, trained parameters, graph structure and random numbers; see recover_steps.py."""

from __future__ import annotations

import dataclasses

import torch
import torch.nn.functional as F  # noqa: N812  as PyTorch's own documentation calls it
from recover_steps import DRAWS, REFUSED, SAMPLES, Training, images, mlp, of, step, token_loss, tokens, xy
from recover_steps_losses import padded_tokens
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

# Precision


@step(within=3e-2)
def autocast() -> Training:
    model = mlp()

    def loss(part: dict[str, Tensor]) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return F.mse_loss(model(part["x"]).float(), part["y"])

    return Training(model, xy(), loss)


@step(within=3e-2)
def autocast_in_16_bits_of_float() -> Training:
    training = autocast()
    model = training.model

    def loss(part: dict[str, Tensor]) -> Tensor:
        with torch.autocast("cpu", dtype=torch.float16):
            return F.mse_loss(model(part["x"]).float(), part["y"])

    return dataclasses.replace(training, step=loss)


@step(REFUSED)
def padded_tokens_under_autocast() -> Training:
    training = padded_tokens()
    inner = training.step

    def loss(part: dict[str, Tensor]) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return inner(part)

    return dataclasses.replace(training, step=loss)


@step(within=3e-2)
def parameters_of_16_bits() -> Training:
    model = mlp().to(torch.bfloat16)
    return Training(model, xy(), lambda part: F.mse_loss(model(part["x"].bfloat16()).float(), part["y"]))


@step()
def gradient_scaler() -> Training:
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    training = of(F.mse_loss)
    training.options["backward"] = lambda loss: scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
    return training


@step(within=1e-13)
def double() -> Training:
    model = mlp().double()
    return of(F.mse_loss, model, {name: tensor.double() for name, tensor in xy().items()})


@step()
def complex_numbers() -> Training:
    model = nn.Linear(4, 3, dtype=torch.complex64)
    return Training(model, xy(), lambda part: (model(part["x"] * (1 + 1j)).abs() - part["y"]).square().mean())


# What is trained, and how it hangs together


@step()
def shared_parameters() -> Training:
    embed = nn.Embedding(7, 4)
    model = nn.ModuleDict({"embed": embed, "mix": nn.Linear(4, 4)})
    batch = {"x": torch.randint(0, 7, (SAMPLES, 3)), "y": torch.randint(0, 7, (SAMPLES,))}
    mix = model["mix"]
    return Training(
        model, batch, lambda part: F.cross_entropy(mix(embed(part["x"]).mean(1)) @ embed.weight.T, part["y"])
    )


@step()
def frozen_layer() -> Training:
    model = mlp()
    model[0].requires_grad_(False)
    return of(F.mse_loss, model)


@step()
def unfrozen_within_the_step() -> Training:
    model = mlp()
    model[0].requires_grad_(False)

    def loss(part: dict[str, Tensor]) -> Tensor:
        model[0].requires_grad_(True)
        return F.mse_loss(model(part["x"]), part["y"])

    return Training(model, xy(), loss)


@step()
def unused_layer() -> Training:
    model = nn.ModuleList([mlp(), nn.Linear(2, 2)])
    return Training(model, xy(), lambda part: F.mse_loss(model[0](part["x"]), part["y"]))


@step()
def loss_with_a_weight_of_its_own() -> Training:
    head, model = nn.Parameter(torch.ones(3)), mlp()
    return Training(model, xy(), lambda part: F.mse_loss(model(part["x"]) * head, part["y"]), others=[head])


@step()
def loss_with_a_weight_that_has_a_gradient() -> Training:
    training = loss_with_a_weight_of_its_own()
    training.others[0].grad = torch.ones(3)
    return training


@step()
def loss_with_a_hooked_weight() -> Training:
    training = loss_with_a_weight_of_its_own()
    training.others[0].register_hook(lambda grad: grad.clamp(-0.01, 0.01))  # type: ignore[no-untyped-call]
    return training


@step()
def gradients_of_inputs() -> Training:
    batch = xy()
    batch["x"].requires_grad_()
    training = of(F.mse_loss, batch=batch)
    return dataclasses.replace(training, others=[batch["x"]])


@step()
def sparse_embedding() -> Training:
    model = nn.Sequential(nn.EmbeddingBag(9, 4, sparse=True), nn.Linear(4, 3))
    return of(F.mse_loss, model, {"x": torch.randint(0, 9, (SAMPLES, 3)), "y": torch.randn(SAMPLES, 3)})


def accumulated(training: Training) -> Training:
    training.step(training.batch).backward()  # type: ignore[no-untyped-call]
    return training


@step()
def accumulation() -> Training:
    return accumulated(of(F.mse_loss))


@step()
def accumulation_of_sparse_gradients() -> Training:
    return accumulated(sparse_embedding())


@step()
def sparse_earlier_dense_now() -> Training:
    embed = nn.Embedding(9, 4, sparse=True)
    model = nn.Sequential(embed, nn.Flatten(), nn.Linear(12, 3))
    batch = {"x": torch.randint(0, 9, (SAMPLES, 3)), "y": torch.randn(SAMPLES, 3)}
    training = accumulated(of(F.mse_loss, model, batch))
    embed.sparse = False
    return training


@step()
def dense_earlier_sparse_now() -> Training:
    embed = nn.Embedding(9, 4)
    model = nn.Sequential(embed, nn.Flatten(), nn.Linear(12, 3))
    batch = {"x": torch.randint(0, 9, (SAMPLES, 3)), "y": torch.randn(SAMPLES, 3)}
    training = accumulated(of(F.mse_loss, model, batch))
    embed.sparse = True
    return training


def checkpointed(reentrant: bool) -> Training:
    first, last, head = nn.Linear(4, 5), nn.Linear(5, 3), nn.Linear(3, 3)

    def loss(part: dict[str, Tensor]) -> Tensor:
        hidden = checkpoint(lambda x: torch.tanh(head(last(x))), first(part["x"]), use_reentrant=reentrant)
        return F.mse_loss(hidden, part["y"])

    # The head is not in `model`, and in a reentrant checkpoint not in the outer graph.
    return Training([first, last], xy(), loss, others=list(head.parameters()))


@step()
def checkpoints() -> Training:
    return checkpointed(reentrant=False)


@step()
def reentrant_checkpoints() -> Training:
    return checkpointed(reentrant=True)


@step()
def channels_last() -> Training:
    training = images(nn.GroupNorm(1, 4))
    training.model.to(memory_format=torch.channels_last)
    return training


@step()
def recurrent() -> Training:
    model = nn.GRU(4, 3, batch_first=True)
    batch = {"x": torch.randn(SAMPLES, 4, 4), "y": torch.randn(SAMPLES, 3)}
    return Training(model, batch, lambda part: F.mse_loss(model(part["x"])[1][0], part["y"]))


@step()
def attention() -> Training:
    model = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    batch = {"x": torch.randn(SAMPLES, 3, 4), "y": torch.randn(SAMPLES, 3, 4)}
    return of(F.mse_loss, model, batch)


@step()
def several_models() -> Training:
    first, second = nn.Linear(4, 5), nn.Linear(5, 3)
    return Training([first, second, first], xy(), lambda part: F.mse_loss(second(first(part["x"])), part["y"]))


@step()
def cut_by_hand() -> Training:
    model = mlp()
    batch = [(torch.randn(4), torch.randn(3)) for _ in range(SAMPLES)]

    def loss(part: list[tuple[Tensor, Tensor]]) -> Tensor:
        return F.mse_loss(model(torch.stack([x for x, _ in part])), torch.stack([y for _, y in part]))

    return Training(model, batch, loss, {"samples": SAMPLES, "split": lambda whole, start, stop: whole[start:stop]})


@step()
def compiled() -> Training:
    model = mlp()
    return of(F.mse_loss, torch.compile(model, backend="aot_eager", dynamic=True))


# Random numbers


@step(DRAWS)
def dropout() -> Training:
    return of(F.mse_loss, mlp(nn.Dropout(0.5)))


@step(DRAWS)
def dropped_paths() -> Training:
    def loss(out: Tensor, y: Tensor) -> Tensor:
        kept = torch.rand(len(out), 1).add(0.7).floor()
        return F.mse_loss(out * kept / 0.7, y)

    return of(loss)


@step(DRAWS)
def reparametrised() -> Training:
    return of(lambda out, y: F.mse_loss(out + 0.1 * torch.randn_like(out), y))


@step(DRAWS)
def dropout_in_attention() -> Training:
    model = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.2, batch_first=True)
    batch = {"x": torch.randn(SAMPLES, 3, 4), "y": torch.randn(SAMPLES, 3, 4)}
    return of(F.mse_loss, model, batch)


@step(DRAWS)
def dropout_with_checkpoints() -> Training:
    drop, last = nn.Dropout(0.4), nn.Linear(4, 3)

    def loss(part: dict[str, Tensor]) -> Tensor:
        return F.mse_loss(checkpoint(lambda x: last(drop(x)), part["x"], use_reentrant=False), part["y"])

    return Training(nn.ModuleList([drop, last]), xy(), loss)


@step(REFUSED)
def padded_tokens_and_dropout() -> Training:
    return of(token_loss, nn.Sequential(mlp(), nn.Dropout(0.2)), tokens())


@step(REFUSED)
def samples_mixed_at_random() -> Training:
    def loss(out: Tensor, y: Tensor) -> Tensor:
        order = torch.randperm(len(out))
        return F.mse_loss(0.5 * (out + out[order]), y)

    return of(loss)
