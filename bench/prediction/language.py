"""Programs that train on tokens."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from training import Inputs, Setup, Step, train


def causal(setup: Setup, model: nn.Module, kind: str, vocabulary: int, length: int, **options: Any) -> Step:
    model = setup.place(model)
    length = setup.pick(length, 32)

    def make() -> Inputs:
        return (setup.whole(vocabulary, setup.batch, length),)

    def loss_of(model: nn.Module, tokens: Tensor) -> Tensor:
        return model(input_ids=tokens, labels=tokens, use_cache=False).loss

    return train(setup, model, make, loss_of, kind, **options)


def gpt2(setup: Setup) -> Step:
    from transformers import GPT2Config, GPT2LMHeadModel

    layers, width = setup.pick((12, 768), (2, 64))
    model = GPT2LMHeadModel(GPT2Config(n_layer=layers, n_embd=width, n_head=setup.pick(12, 4)))
    return causal(setup, model, "adamw_fused", 50257, 1024)


def llama_model(setup: Setup) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            hidden_size=setup.pick(1024, 64),
            num_hidden_layers=setup.pick(12, 2),
            num_attention_heads=setup.pick(16, 4),
            num_key_value_heads=setup.pick(4, 2),
            intermediate_size=setup.pick(2816, 128),
            vocab_size=32000,
        )
    )


def llama(setup: Setup) -> Step:
    return causal(setup, llama_model(setup), "adamw_foreach", 32000, 1024, max_norm=1.0)


class Adapted(nn.Module):
    """A frozen linear layer with a trained product of two small matrices next to it."""

    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.up.weight)
        self.dropout = nn.Dropout(0.05)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + 2.0 * self.up(self.down(self.dropout(x)))


def llama_lora(setup: Setup) -> Step:
    model = llama_model(setup).requires_grad_(False)
    for module in [*model.modules()]:
        for name in ("q_proj", "v_proj"):
            if isinstance(part := getattr(module, name, None), nn.Linear):
                setattr(module, name, Adapted(part, 16))
    return causal(setup, model, "adamw", 32000, 1024)


def qwen_checkpointed(setup: Setup) -> Step:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    model = Qwen2ForCausalLM(
        Qwen2Config(
            hidden_size=setup.pick(896, 64),
            num_hidden_layers=setup.pick(16, 2),
            num_attention_heads=setup.pick(14, 4),
            num_key_value_heads=2,
            intermediate_size=setup.pick(4864, 128),
            vocab_size=setup.pick(151936, 1000),
            tie_word_embeddings=True,
        )
    )
    model.gradient_checkpointing_enable({"use_reentrant": False})
    return causal(setup, model, "adamw_fused", setup.pick(151936, 1000), 1024, max_norm=1.0, accumulate=2)


def t5(setup: Setup) -> Step:
    from transformers import T5Config, T5ForConditionalGeneration

    width, layers = setup.pick((512, 6), (64, 2))
    model = T5ForConditionalGeneration(
        T5Config(
            d_model=width, d_kv=width // 8, d_ff=4 * width, num_layers=layers, num_heads=8, decoder_start_token_id=0
        )
    )
    model = setup.place(model)
    length = setup.pick(512, 32)

    def make() -> Inputs:
        return setup.whole(32000, setup.batch, length), setup.whole(32000, setup.batch, length // 4)

    def loss_of(model: nn.Module, tokens: Tensor, labels: Tensor) -> Tensor:
        return model(input_ids=tokens, labels=labels, use_cache=False).loss

    return train(setup, model, make, loss_of, "adafactor")


def bert(setup: Setup) -> Step:
    from transformers import BertConfig, BertForMaskedLM

    width, layers = setup.pick((768, 12), (64, 2))
    config = BertConfig(
        hidden_size=width, num_hidden_layers=layers, num_attention_heads=setup.pick(12, 4), intermediate_size=4 * width
    )
    model = setup.place(BertForMaskedLM(config))
    length = setup.pick(384, 32)

    def make() -> Inputs:
        mask = torch.ones(setup.batch, length, dtype=torch.long, device=setup.device)
        mask[:, length - length // 4 :] = 0
        return setup.whole(30000, setup.batch, length), mask, setup.whole(30000, setup.batch, length)

    def loss_of(model: nn.Module, tokens: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
        return model(input_ids=tokens, attention_mask=mask, labels=labels).loss

    return train(setup, model, make, loss_of, "adamw", max_norm=1.0)


class Experts(nn.Module):
    """Two of several experts for each token, with a fixed capacity, so no shape depends on the data."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, count, bias=False)
        self.up = nn.Parameter(torch.randn(count, width, 4 * width) * 0.02)
        self.down = nn.Parameter(torch.randn(count, 4 * width, width) * 0.02)

    def forward(self, x: Tensor) -> Tensor:
        tokens, count = x.reshape(-1, x.shape[-1]), self.up.shape[0]
        weights, chosen = self.gate(tokens).float().softmax(-1).topk(2, -1)
        capacity = math.ceil(2.5 * len(tokens) / count)
        flat = chosen.flatten()
        place = functional.one_hot(flat, count).cumsum(0).gather(1, flat[:, None])[:, 0] - 1
        fits = place < capacity
        slot = torch.where(fits, flat * capacity + place, count * capacity)
        rows = tokens.repeat_interleave(2, 0)
        buffer = rows.new_zeros(count * capacity + 1, rows.shape[1]).index_add(0, slot, rows)
        hidden = functional.silu(torch.bmm(buffer[:-1].view(count, capacity, -1), self.up.to(rows.dtype)))
        out = torch.bmm(hidden, self.down.to(hidden.dtype)).flatten(0, 1)
        found = out[slot.clamp(max=count * capacity - 1)] * (weights.flatten() * fits)[:, None].to(out.dtype)
        return found.view(-1, 2, found.shape[-1]).sum(1).view_as(x).to(x.dtype)


class ExpertBlock(nn.Module):
    def __init__(self, width: int, heads: int, experts: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.experts = Experts(width, experts)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.first(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.experts(self.second(x))


def moe(setup: Setup) -> Step:
    width, layers, vocabulary = setup.pick((512, 6, 32000), (64, 2, 1000))
    embedding = nn.Embedding(vocabulary, width)
    blocks = [ExpertBlock(width, 8, setup.pick(8, 4)) for _ in range(layers)]
    model = setup.place(nn.Sequential(embedding, *blocks, nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False)))
    length = setup.pick(512, 32)

    def make() -> Inputs:
        tokens = setup.whole(vocabulary, setup.batch, length + 1)
        return tokens[:, :-1], tokens[:, 1:]

    def loss_of(model: nn.Module, tokens: Tensor, following: Tensor) -> Tensor:
        return functional.cross_entropy(model(tokens).flatten(0, 1), following.flatten())

    return train(setup, model, make, loss_of, "adamw_foreach", max_norm=1.0)


class Recurrent(nn.Module):
    def __init__(self, vocabulary: int, width: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, layers, dropout=0.2, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.lstm(self.embedding(tokens))[0])


def lstm(setup: Setup) -> Step:
    vocabulary, width = setup.pick((10000, 1024), (100, 32))
    model = setup.place(Recurrent(vocabulary, width, 3))
    length = setup.pick(128, 16)

    def make() -> Inputs:
        tokens = setup.whole(vocabulary, setup.batch, length + 1)
        return tokens[:, :-1], tokens[:, 1:]

    def loss_of(model: nn.Module, tokens: Tensor, following: Tensor) -> Tensor:
        return functional.cross_entropy(model(tokens).flatten(0, 1), following.flatten())

    return train(setup, model, make, loss_of, "plainsgd", max_norm=0.25)


class Translator(nn.Module):
    def __init__(self, vocabulary: int, width: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.transformer = nn.Transformer(width, 8, layers, layers, 4 * width, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], target.device, self.head.weight.dtype)
        mixed = self.transformer(self.embedding(source), self.embedding(target), tgt_mask=mask, tgt_is_causal=True)
        return self.head(mixed)


def translation(setup: Setup) -> Step:
    vocabulary, width, layers = setup.pick((32000, 512, 6), (100, 32, 2))
    model = setup.place(Translator(vocabulary, width, layers))
    length = setup.pick(256, 16)

    def make() -> Inputs:
        return setup.whole(vocabulary, setup.batch, length), setup.whole(vocabulary, setup.batch, length + 1)

    def loss_of(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
        scores = model(source, target[:, :-1])
        return functional.cross_entropy(scores.flatten(0, 1), target[:, 1:].flatten(), label_smoothing=0.1)

    return train(setup, model, make, loss_of, "adam_fused")
