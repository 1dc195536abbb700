"""The models of checkpoint.py: a GPT, a ViT and a ResNet, each with a list of blocks."""

# mypy: ignore-errors

from __future__ import annotations

import math

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop, self.heads, self.causal = nn.Dropout(0.1), heads, causal

    def forward(self, x):
        shape = (*x.shape[:2], self.heads, -1)
        query, key, value = (part.view(shape).transpose(1, 2) for part in self.qkv(self.first(x)).chunk(3, -1))
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        x = x + self.drop(self.out(mixed.transpose(1, 2).flatten(2)))
        return x + self.drop(self.down(nn.functional.gelu(self.up(self.second(x)))))


class Gpt(nn.Module):
    def __init__(self, width=1024, layers=16, heads=16, vocabulary=32000, length=1024):
        super().__init__()
        self.embed, self.place = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Attention(width, heads, True) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        x = self.embed(tokens) + self.place(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Vit(nn.Module):
    def __init__(self, width=1024, layers=24, heads=16, patch=16, side=224):
        super().__init__()
        self.cut = nn.Conv2d(3, width, patch, patch)
        self.place = nn.Parameter(torch.zeros(1, (side // patch) ** 2, width))
        self.blocks = nn.ModuleList(Attention(width, heads, False) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, images):
        x = self.cut(images).flatten(2).transpose(1, 2) + self.place
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))


class Bottleneck(nn.Module):
    def __init__(self, before, width, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width),
        )  # fmt: skip
        fits = before == 4 * width and stride == 1
        self.short = (
            nn.Identity()
            if fits
            else nn.Sequential(nn.Conv2d(before, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))
        )

    def forward(self, x):
        return torch.relu(self.body(x) + self.short(x))


class ResNet(nn.Module):
    def __init__(self, layers=(3, 4, 6, 3), width=64):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        blocks, before = [], width
        for number, count in enumerate(layers):
            for place in range(count):
                blocks.append(Bottleneck(before, width << number, 2 if number and not place else 1))
                before = 4 * (width << number)
        self.blocks, self.head = nn.ModuleList(blocks), nn.Linear(before, 1000)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))


def cross_entropy(output):
    logits = output.flatten(0, -2)
    return nn.functional.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long, device=logits.device))


def gradients(model, sample):
    """Those of all parameters, one after the other."""
    model.zero_grad(set_to_none=True)
    cross_entropy(model(sample)).backward()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def fixed_lengths(count):
    """The plans without a planner for so many blocks: of how many each region is made."""
    return {"every block": 1, "√N": round(math.sqrt(count))}


def models(tiny):
    """Name: how to make the model, how to make a batch, and whether it trains under autocast."""
    if tiny:
        return {
            "gpt": (lambda: Gpt(64, 4, 4, 100, 64), lambda: torch.randint(0, 100, (4, 64)), True),
            "vit": (lambda: Vit(64, 4, 4, 8, 32), lambda: torch.randn(4, 3, 32, 32), True),
            "resnet": (lambda: ResNet((1, 1, 1, 1), 16), lambda: torch.randn(4, 3, 64, 64), False),
        }
    return {
        "gpt": (Gpt, lambda: torch.randint(0, 32000, (16, 1024)), True),
        "vit": (Vit, lambda: torch.randn(64, 3, 224, 224), True),
        "resnet": (ResNet, lambda: torch.randn(128, 3, 224, 224), False),
    }
