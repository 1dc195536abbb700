"""Models whose blocks can run again: with random numbers, statistics, shared weights and arguments besides the activation."""

# mypy: allow-untyped-calls

from __future__ import annotations

import torch
from torch import nn

torch.set_num_threads(1)  # the tensors are small


class Block(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.BatchNorm1d(width), nn.Linear(width, 32), nn.Linear(32, width)
        self.drop = nn.Dropout(0.3)

    def forward(self, x: torch.Tensor, scale: torch.Tensor, shift: float = 0.0) -> torch.Tensor:
        result: torch.Tensor = x + self.drop(self.down(torch.tanh(self.up(self.norm(x) + shift)))) * scale
        return result


class Net(nn.Module):
    """Draws a random number after each block, and shares the weight of its first and last layer."""

    def __init__(self, blocks: int = 6) -> None:
        super().__init__()
        self.first = nn.Linear(16, 16)
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))
        self.last = nn.Linear(16, 16)
        self.last.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = torch.sigmoid(x.mean())
        x = self.first(x)
        for number, block in enumerate(self.blocks):
            x = block(x, scale, shift=number / 10)
            torch.rand(1)
        result: torch.Tensor = self.last(x)
        return result


class Tower(nn.Module):
    """A part of a transformer, large enough that activations matter."""

    def __init__(self, blocks: int = 8, width: int = 128, words: int = 200) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(words, width), nn.Linear(width, words)
        self.layers = nn.ModuleList(Layer(width) for _ in range(blocks))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        result: torch.Tensor = self.head(x)
        return result


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = x + self.drop(self.down(nn.functional.gelu(self.up(self.norm(x)))))
        return result
