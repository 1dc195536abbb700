"""Compare the estimates of `vram plan --model` with dry runs of the same models, and write one row for each.

    python bench/model_plans.py build/release/src/vram bench/model_plans.csv

It needs torch and transformers, and the library (VRAM_LIBRARY). The models are small ones of each family with random sizes of batches and
sequences. The formulas were written with the families marked `choose`; those marked `prove` only show their errors. Experts are missing: a dry
run has no values, so it does not know which tokens each expert gets.
"""

from __future__ import annotations

import argparse
import csv
import gc
import sys
from pathlib import Path
from typing import Any

import torch
import transformers

import vram

sys.path.insert(0, str(Path(__file__).resolve().parent / "prediction"))
from model_programs import STEPS, Case, trainer
from model_truth import estimated, percent

SIZES = {
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "vocab_size": 8192,
}
LLAMA_LIKE = {**SIZES, "num_key_value_heads": 4, "max_position_embeddings": 2048, "tie_word_embeddings": False}
# family: (choose or prove, class, config)
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("choose", "LlamaForCausalLM", {**LLAMA_LIKE, "num_key_value_heads": 16}),
    "gpt2": (
        "choose",
        "GPT2LMHeadModel",
        {"n_embd": 1024, "n_layer": 8, "n_head": 16, "n_positions": 2048, "vocab_size": 8192},
    ),
    "qwen3": ("choose", "Qwen3ForCausalLM", {**LLAMA_LIKE, "head_dim": 128}),
    "gemma2": ("choose", "Gemma2ForCausalLM", {**LLAMA_LIKE, "head_dim": 64, "tie_word_embeddings": True}),
    "opt": (
        "choose",
        "OPTForCausalLM",
        {**SIZES, "ffn_dim": 4096, "word_embed_proj_dim": 1024, "max_position_embeddings": 2048},
    ),
    "bert": ("choose", "BertForMaskedLM", {**SIZES, "max_position_embeddings": 2048}),
    "mistral": ("prove", "MistralForCausalLM", {**LLAMA_LIKE, "sliding_window": None}),
    "qwen2": ("prove", "Qwen2ForCausalLM", LLAMA_LIKE),
    "phi3": ("choose", "Phi3ForCausalLM", {**LLAMA_LIKE, "pad_token_id": 0}),
    "phi": ("prove", "PhiForCausalLM", {**LLAMA_LIKE, "num_key_value_heads": 16, "resid_pdrop": 0.1}),
    "gpt_neox": ("prove", "GPTNeoXForCausalLM", {**SIZES, "max_position_embeddings": 2048}),
    "falcon": ("prove", "FalconForCausalLM", {**SIZES, "num_kv_heads": 4, "new_decoder_architecture": True}),
    "starcoder2": ("prove", "Starcoder2ForCausalLM", {**LLAMA_LIKE, "residual_dropout": 0.1}),
    "gemma": ("prove", "GemmaForCausalLM", {**LLAMA_LIKE, "head_dim": 64, "tie_word_embeddings": True}),
    "gemma3_text": ("prove", "Gemma3ForCausalLM", {**LLAMA_LIKE, "head_dim": 64, "sliding_window": 4096}),
}
CASES = [
    Case("train", "bf16", 4, 1024, "sgd"),
    Case("train", "bf16", 2, 512),
    Case("train", "autocast", 3, 768),
    Case("train", "fp32", 2, 512, "sgd"),
    Case("train", "bf16", 8, 1024, "sgd", checkpoints=True),
]


def measured(config: Any, class_name: str, case: Case) -> int:
    """Return the peak of requested bytes of two steps in a dry run."""
    with vram.dry_run(gpu="H100 80GB") as run:
        model = getattr(transformers, class_name)(config).to(
            "cuda", torch.bfloat16 if case.precision == "bf16" else torch.float32
        )
        if case.checkpoints:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        step = trainer(model, case, "cuda")
        for _ in range(STEPS):
            step(lambda _phase: None)
    peak = int(run.peak.requested_bytes)
    del model, step
    gc.collect()
    return peak


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("output", type=Path)
    parser.add_argument("families", nargs="*", default=list(MODELS))
    asked = parser.parse_args()
    with asked.output.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(
            [
                "family",
                "half",
                "precision",
                "optimizer",
                "batch",
                "sequence",
                "checkpoints",
                "dry_run_bytes",
                "estimated_bytes",
                "error_percent",
            ]
        )
        for family in asked.families:
            half, class_name, values = MODELS[family]
            config = getattr(transformers, class_name).config_class(architectures=[class_name], **values)
            for case in CASES:
                real = measured(config, class_name, case)
                guess = estimated(asked.program, config, case)
                of_case = [case.precision, case.optimizer, case.batch, case.sequence, case.checkpoints]
                row = [family, half, *of_case, real, guess, percent(guess, real)]
                rows.writerow(row)
                file.flush()
                print(*row, file=sys.stderr)


if __name__ == "__main__":
    main()
