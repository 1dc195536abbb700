"""Adapters on the linear layers of GPT-2, which are transformers' Conv1D: predicted by a what-if, and put into the model by hand."""

# mypy: allow-untyped-calls

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("VRAM_BINARY", ROOT / "build" / "release" / "src" / "vram"))
os.environ.setdefault("VRAM_PROGRAM", str(BINARY))
os.environ.setdefault("VRAM_LIBRARY", str(BINARY.with_name("libvram.so")))

torch: Any = pytest.importorskip("torch", reason="torch is not installed; tools/requirements-torch.txt has the version")
transformers: Any = pytest.importorskip(
    "transformers", reason="transformers is not installed; tools/requirements-frameworks.txt has the versions"
)

import vram  # noqa: E402 after the library is named
from vram.dry import DryRun  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
WIDTH, LAYERS, RANK = 128, 3, 4
CONFIG = {"n_layer": LAYERS, "n_embd": WIDTH, "n_head": 4, "vocab_size": 1000, "n_positions": 128}
# By the name of a layer in a block: the inputs and the outputs of its product.
SIZES = {"attn.c_attn": (1, 3), "attn.c_proj": (1, 1), "mlp.c_fc": (1, 4), "mlp.c_proj": (4, 1)}


class Adapted(torch.nn.Module):  # type: ignore[misc]
    """What PEFT makes of a layer."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer
        inputs, outputs = layer.weight.shape  # of a Conv1D
        self.lora_A = torch.nn.Linear(inputs, RANK, bias=False, device="cuda")
        self.lora_B = torch.nn.Linear(RANK, outputs, bias=False, device="cuda")

    def forward(self, x: Any) -> Any:
        return self.layer(x) + self.lora_B(self.lora_A(x)) * 2.0


def adapted(model: Any) -> Any:
    model.requires_grad_(False)
    for block in model.transformer.h:
        for part, name in ((block.attn, "c_attn"), (block.attn, "c_proj"), (block.mlp, "c_fc"), (block.mlp, "c_proj")):
            setattr(part, name, Adapted(getattr(part, name)))
    return torch.optim.AdamW([each for each in model.parameters() if each.requires_grad])


def adamw(model: Any) -> Any:
    return torch.optim.AdamW(model.parameters())


def train(batch: int, change: Callable[[Any], Any]) -> None:
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**CONFIG)).cuda()
    optimizer = change(model)
    while True:
        tokens = torch.randint(0, 1000, (batch, 128)).cuda()
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def predicted(change: Callable[[Any], Any] = adamw) -> DryRun:
    return vram.predict(lambda batch: train(batch, change), "24GiB", batch=8)


def test_adapters_have_the_shapes_of_the_layers() -> None:
    answer, really = predicted().what_if(lora_rank=RANK), predicted(adapted)
    assert answer.peak.requested_bytes == really.peak.requested_bytes
    held = answer.run.by_module()
    for name, (inputs, outputs) in SIZES.items():
        layer = f"transformer.h.0.{name}"
        assert held[f"{layer}.lora_A"]["parameter"] == 4 * RANK * inputs * WIDTH
        assert held[f"{layer}.lora_B"]["parameter"] == 4 * RANK * outputs * WIDTH


@pytest.mark.parametrize(("weights", "element_bytes"), [("nf4", 0.5 + 4 / 64), ("int8", 1)])
def test_weights_are_stored_in_fewer_bytes(weights: str, element_bytes: float) -> None:
    held = predicted().what_if(lora_rank=RANK, weights=weights).run.by_module()
    for name, (inputs, outputs) in SIZES.items():
        weight = element_bytes * inputs * outputs * WIDTH * WIDTH
        of_outputs = 4 * outputs * WIDTH * (2 if weights == "int8" else 1)  # the bias, and scales
        assert held[f"transformer.h.0.{name}"]["parameter"] == weight + of_outputs


def test_weights_that_are_trained_cannot_be_stored_so() -> None:
    def frozen_but_one(model: Any) -> Any:
        model.requires_grad_(False)
        return torch.optim.AdamW([model.transformer.h[0].mlp.c_fc.weight.requires_grad_()])

    with pytest.raises(vram.VramError, match="cannot be trained"):
        predicted(frozen_but_one).what_if(weights="nf4")
