"""Small models of Transformers with random weights, and what is done with them: training, LoRA and inference.

Formulas are chosen with the models marked `choose` only. The halves were fixed before anything was measured.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Model:
    """A model: its half, its class in Transformers, and its config."""

    half: str
    class_name: str
    values: dict[str, Any]


@dataclass(frozen=True)
class Case:
    """What is done with a model; the words are those of `vram plan --model`."""

    use: str
    precision: str
    batch: int
    sequence: int
    optimizer: str = "adamw"
    checkpoints: bool = False
    rank: int = 16
    targets: str = "linear"

    def options(self) -> list[str]:
        words = ["--use", self.use, "--precision", self.precision]
        words += ["--batch", str(self.batch), "--sequence", str(self.sequence)]
        if self.use != "infer":
            words += ["--optimizer", self.optimizer, *(["--checkpoint"] if self.checkpoints else [])]
        if self.use == "lora":
            words += ["--rank", str(self.rank), "--targets", self.targets]
        return words


def _llama_like(hidden: int, inner: int, layers: int, heads: int, kv_heads: int, **more: Any) -> dict[str, Any]:
    sizes = {
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
    }
    return {**sizes, "num_key_value_heads": kv_heads, "max_position_embeddings": 4096, "vocab_size": 32000, "tie_word_embeddings": False, **more}  # fmt: skip


def _bert_like(hidden: int, layers: int, heads: int, **more: Any) -> dict[str, Any]:
    sizes = {
        "hidden_size": hidden,
        "intermediate_size": 4 * hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
    }
    return {**sizes, "max_position_embeddings": 1024, "vocab_size": 30522, **more}


MODELS = {
    "llama": Model("choose", "LlamaForCausalLM", _llama_like(2048, 5632, 8, 16, 16)),
    "gpt2": Model("choose", "GPT2LMHeadModel", {"n_embd": 1024, "n_layer": 14, "n_head": 16, "n_positions": 2048}),
    "qwen3": Model("choose", "Qwen3ForCausalLM", _llama_like(1536, 4096, 10, 12, 4, head_dim=128)),
    "bert": Model("choose", "BertForMaskedLM", _bert_like(768, 12, 12)),
    "falcon": Model("choose", "FalconForCausalLM", {
        "hidden_size": 1024, "num_hidden_layers": 12, "num_attention_heads": 16, "num_kv_heads": 4,
        "new_decoder_architecture": True, "vocab_size": 65024,
    }),
    "mixtral": Model("choose", "MixtralForCausalLM", _llama_like(
        1024, 3584, 6, 16, 4, num_local_experts=8, num_experts_per_tok=2, sliding_window=None,
    )),
    "mistral": Model("choose", "MistralForCausalLM", _llama_like(1536, 4096, 8, 24, 8, sliding_window=256)),
    "phi": Model("choose", "PhiForCausalLM", _llama_like(1024, 4096, 12, 16, 16, vocab_size=51200, resid_pdrop=0.1)),
    "qwen2": Model("prove", "Qwen2ForCausalLM", _llama_like(1280, 3456, 12, 20, 4, vocab_size=50000)),
    "bert-wide": Model("prove", "BertForMaskedLM", _bert_like(1280, 10, 20, vocab_size=28996)),
    # Kept away until its error led to a rule.
    "falcon-multi-query": Model("choose", "FalconForCausalLM", {
        "hidden_size": 1536, "num_hidden_layers": 9, "num_attention_heads": 24, "multi_query": True, "parallel_attn": True,
        "new_decoder_architecture": False, "vocab_size": 40000,
    }),
    "qwen2-moe": Model("prove", "Qwen2MoeForCausalLM", _llama_like(
        1024, 2816, 6, 16, 16, moe_intermediate_size=704, shared_expert_intermediate_size=2816, num_experts=24, num_experts_per_tok=4,
    )),
    "qwen3-moe": Model("prove", "Qwen3MoeForCausalLM", _llama_like(
        1024, 3072, 6, 16, 4, head_dim=128, moe_intermediate_size=512, num_experts=32, num_experts_per_tok=8,
    )),
    "gemma3": Model("prove", "Gemma3ForCausalLM", _llama_like(
        1152, 4608, 12, 8, 2, head_dim=128, sliding_window=256, tie_word_embeddings=True, vocab_size=65536,
    )),
    "phi3": Model("prove", "Phi3ForCausalLM", _llama_like(1280, 3584, 10, 20, 10, pad_token_id=0)),
    "opt": Model("prove", "OPTForCausalLM", {
        "hidden_size": 1280, "ffn_dim": 5120, "num_hidden_layers": 10, "num_attention_heads": 20, "word_embed_proj_dim": 1280,
        "max_position_embeddings": 2048, "vocab_size": 50272,
    }),
}  # fmt: skip

CASES = [
    Case("train", "bf16", 2, 512),
    Case("train", "bf16", 8, 640, "sgd"),
    Case("train", "autocast", 2, 512),
    Case("train", "autocast", 8, 640, "sgd"),
    Case("train", "fp32", 2, 512),
    Case("train", "fp32", 6, 640, "momentum"),
    Case("train", "bf16", 8, 768, "adamw-fused", checkpoints=True),
    Case("lora", "bf16", 2, 512),
    Case("lora", "bf16", 8, 640, rank=64),
    Case("lora", "autocast", 4, 512),
    Case("lora", "fp32", 2, 512, targets="query-value"),
    Case("lora", "fp32", 6, 640),
    Case("lora", "bf16", 8, 768, checkpoints=True, targets="attention"),
    Case("infer", "bf16", 1, 1024),
    Case("infer", "bf16", 16, 768),
    Case("infer", "fp32", 2, 768),
    Case("infer", "fp32", 8, 1024),
]
# Tokens that inference generates; the rest of the sequence is the prompt.
GENERATED = 6
STEPS = 2


def config_of(model: Model, tiny: bool) -> Any:
    import transformers

    values = dict(model.values)
    if tiny:  # only the number of layers and words shrinks: all keys of the config stay in use
        values |= {key: 2 for key in ("num_hidden_layers", "n_layer") if key in values} | {"vocab_size": 512}
    return getattr(transformers, model.class_name).config_class(architectures=[model.class_name], **values)


def build(model: Model, config: Any, case: Case, device: str) -> Any:
    """Returns the model on the device. It is made in its final type, since a conversion would be the peak of small tasks."""
    import torch
    import transformers

    dtype = torch.bfloat16 if case.precision == "bf16" else torch.float32
    with torch.device(device):
        found = getattr(transformers, model.class_name)._from_config(config, dtype=dtype)
    if case.checkpoints:
        found.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return found


# The names of linear layers in Transformers, for `--targets`.
QUERY_VALUE = ("q_proj", "v_proj", "query", "value", "c_attn", "query_key_value", "qkv_proj")
ATTENTION = ("attn", "attention")


def add_adapters(model: Any, case: Case) -> None:
    """Freezes the model and gives its blocks adapters as PEFT does: in fp32, without dropout, and none for routers and experts."""
    import torch
    from torch import nn
    from transformers.pytorch_utils import Conv1D

    model.requires_grad_(False)
    blocks = max((each for each in model.modules() if isinstance(each, nn.ModuleList)), key=len)
    for name, layer in [*blocks.named_modules()]:
        if not isinstance(layer, (nn.Linear, Conv1D)):
            continue
        last = name.rpartition(".")[2]
        if case.targets == "query-value" and last not in QUERY_VALUE:
            continue
        if case.targets == "attention" and not any(word in name for word in ATTENTION):
            continue
        outputs, inputs = layer.weight.shape if isinstance(layer, nn.Linear) else reversed(layer.weight.shape)
        place: dict[str, Any] = {"device": layer.weight.device, "dtype": torch.float32, "bias": False}
        down, up = nn.Linear(inputs, case.rank, **place), nn.Linear(case.rank, outputs, **place)
        layer.add_module("lora_A", down)
        layer.add_module("lora_B", up)
        layer.forward = functools.partial(_adapted, layer.forward, down, up)


def _adapted(forward: Callable[[Any], Any], down: Any, up: Any, x: Any) -> Any:
    result = forward(x)
    kind = result.dtype
    x = x.to(down.weight.dtype)
    result = result + up(down(x)) * 2.0
    return result.to(kind)


def optimizer_of(case: Case, parameters: list[Any]) -> Any:
    import torch

    if case.optimizer.startswith("adamw"):
        return torch.optim.AdamW(parameters, 1e-4, fused=case.optimizer == "adamw-fused" or None)
    return torch.optim.SGD(parameters, 1e-4, momentum=0.9 if case.optimizer == "momentum" else 0)


def trainer(model: Any, case: Case, device: str) -> Callable[[Callable[[str], None]], None]:
    """Returns a training step as of Transformers' Trainer: gradients are freed before the next forward. It calls `note` after phases."""
    import torch

    model.train()
    if case.use == "lora":
        add_adapters(model, case)
    optimizer = optimizer_of(case, [each for each in model.parameters() if each.requires_grad])
    extra = {} if model.config.model_type == "bert" else {"use_cache": False}

    def step(note: Callable[[str], None]) -> None:
        tokens = torch.randint(8, 500, (case.batch, case.sequence), device=device)
        is_cast = case.precision == "autocast"
        with torch.autocast(torch.device(device).type, torch.bfloat16) if is_cast else nullcontext():
            loss = model(input_ids=tokens, labels=tokens, **extra).loss
        note("forward")
        loss.backward()
        note("backward")
        optimizer.step()
        optimizer.zero_grad()
        note("step")

    return step


def generator(model: Any, case: Case, device: str) -> Callable[[Callable[[str], None]], None]:
    """Returns a step that generates tokens as generate() does, or one forward pass of a model that is not causal."""
    import torch

    model.eval()
    is_causal = model.config.model_type != "bert"
    if is_causal:
        model.generation_config.eos_token_id = None

    def step(note: Callable[[str], None]) -> None:
        prompt = case.sequence - (GENERATED if is_causal else 0)
        tokens = torch.randint(8, 500, (case.batch, prompt), device=device)
        with torch.no_grad():
            if is_causal:
                model.generate(
                    tokens, attention_mask=torch.ones_like(tokens), do_sample=False, max_new_tokens=GENERATED
                )
            else:
                model(input_ids=tokens)
        note("generate")

    return step


def program(model: Model, config: Any, case: Case, device: str) -> Callable[[Callable[[str], None]], None]:
    found = build(model, config, case, device)
    return (generator if case.use == "infer" else trainer)(found, case, device)
