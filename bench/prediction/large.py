"""How long dry runs of large models take, and how much memory of the host: a Llama of 7 billion parameters, and one of 70 billion with FSDP2.

    python bench/prediction/large.py            # both, each in a process of its own, against the aims; under 2 minutes
    python bench/prediction/large.py 7b         # one, in this process
    python -m cProfile -s tottime bench/prediction/large.py 7b

The models are those of transformers, or, without it, the same layers without rotary positions. Each trains two steps of AdamW in bfloat16.
"""

# mypy: ignore-errors

from __future__ import annotations

import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
import vram

RANKS = 64
# width, width of the MLP, layers, heads, heads of keys; tokens of a step; seconds and bytes of the host that the dry run may take
SIZES = {
    "7b": (4096, 11008, 32, 32, 32, 2048, 10, 2 << 30),
    "70b": (8192, 28672, 80, 64, 8, 4096, 60, 4 << 30),
}
WORDS = 32000


class Layer(nn.Module):
    def __init__(self, width, inner, heads, key_heads):
        super().__init__()
        self.heads, self.key_heads, size = heads, key_heads, width // heads
        self.norm, self.inner_norm = nn.RMSNorm(width), nn.RMSNorm(width)
        self.query, self.output = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.key, self.value = (nn.Linear(width, key_heads * size, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        h = self.norm(x)
        query, key, value = (each(h).unflatten(-1, (heads, -1)).transpose(1, 2) for each, heads in (
            (self.query, self.heads), (self.key, self.key_heads), (self.value, self.key_heads)))  # fmt: skip
        key, value = (
            each.repeat_interleave(self.heads // self.key_heads, 1, output_size=self.heads) for each in (key, value)
        )
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.output(mixed.transpose(1, 2).flatten(2))
        h = self.inner_norm(x)
        return x + self.down(nn.functional.silu(self.gate(h)) * self.up(h))


class Own(nn.Module):
    def __init__(self, width, inner, layers, heads, key_heads):
        super().__init__()
        self.table = nn.Embedding(WORDS, width)
        self.layers = nn.ModuleList(Layer(width, inner, heads, key_heads) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, WORDS, bias=False)

    def forward(self, tokens):
        x = self.table(tokens)
        for layer in self.layers:
            x = layer(x)
        return nn.functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), tokens.flatten())


def llama(width, inner, layers, heads, key_heads):
    """Return the model, its layers, and a function that returns its loss."""
    try:
        from transformers import LlamaConfig, LlamaForCausalLM
    except ImportError:
        model = Own(width, inner, layers, heads, key_heads)
        return model, model.layers, model
    config = LlamaConfig(hidden_size=width, intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=heads,
                         num_key_value_heads=key_heads, vocab_size=WORDS, use_cache=False)  # fmt: skip
    model = LlamaForCausalLM(config)
    return model, model.model.layers, lambda tokens: model(input_ids=tokens, labels=tokens).loss


def train(name):
    *shape, tokens, _, _ = SIZES[name]
    torch.set_default_dtype(torch.bfloat16)
    model, layers, loss_of = llama(*shape)
    if name == "70b":
        from torch.distributed.fsdp import fully_shard

        for part in (*layers, model):
            fully_shard(part)
    model.cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        loss = loss_of(torch.randint(0, WORDS, (1, tokens)).cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return sum(parameter.numel() for parameter in model.parameters())


def run(name):
    warnings.simplefilter("ignore")
    aim_seconds, aim_bytes = SIZES[name][-2:]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    began, began_cpu = time.perf_counter(), time.process_time()
    with vram.dry_run("H200", world_size=RANKS if name == "70b" else 1) as dry:
        parameters = train(name)
    seconds, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    began = time.perf_counter()
    peak = dry.peak
    print(
        f"{name}: {parameters / 1e9:.2f} billion parameters, {'transformers' if 'transformers' in sys.modules else 'own model'}, torch "
        f"{torch.__version__}: {seconds:.1f} s (processor: {cpu:.1f} s), then {time.perf_counter() - began:.1f} s for the peaks; host "
        f"{host / 2**20:.0f} MiB, {before / 2**20:.0f} MiB of it before; predicted peak {peak.requested_bytes / 1e9:.1f} GB",
        flush=True,
    )
    if cpu > aim_seconds or host > aim_bytes:
        print(f"{name}: above the aim of {aim_seconds} s of the processor and {aim_bytes >> 20} MiB", flush=True)
        return 1
    return 0


def main():
    names = sys.argv[1:]
    if unknown := [name for name in names if name not in SIZES]:
        print(f"expected {', '.join(SIZES)}, got {unknown[0]}", file=sys.stderr)
        return 2
    if len(names) == 1:
        return run(names[0])
    return max(subprocess.run([sys.executable, __file__, name], check=False).returncode for name in names or SIZES)


if __name__ == "__main__":
    sys.exit(main())
