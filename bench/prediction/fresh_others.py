"""Programs of the half `fresh` that train on tables, sound and games. They were written and measured once, and no rule was changed in between."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from training import Inputs, Setup, Step, optimizer, train


class Ranking(nn.Module):
    """DLRM: bags of embeddings, products of all pairs, and two perceptrons."""

    def __init__(self, tables: int, rows: int, width: int, hidden: int) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(13, hidden), nn.ReLU(), nn.Linear(hidden, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(
            nn.Linear(pairs + width, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1)
        )
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1), persistent=False)

    def forward(self, numbers: Tensor, bags: Tensor) -> Tensor:
        dense = self.bottom(numbers)
        vectors = torch.stack(
            [dense, *(table(bag).to(dense.dtype) for table, bag in zip(self.bags, bags, strict=True))], 1
        )
        products = torch.bmm(vectors, vectors.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([dense, products], 1)).squeeze(1)


def dlrm(setup: Setup) -> Step:
    tables, rows = setup.pick((16, 200_000), (4, 100))
    model = setup.place(Ranking(tables, rows, setup.pick(64, 8), setup.pick(1024, 32)))

    def make() -> Inputs:
        return (
            setup.real(setup.batch, 13),
            setup.whole(rows, tables, setup.batch, 10),
            setup.real(setup.batch).gt(0).float(),
        )

    def loss_of(model: nn.Module, numbers: Tensor, bags: Tensor, clicked: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(model(numbers, bags).float(), clicked)

    return train(setup, model, make, loss_of, "adagrad")


class Dilated(nn.Module):
    """A layer of WaveNet: a causal convolution with gates."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.past = dilation
        self.gates = nn.Conv1d(width, 2 * width, 2, dilation=dilation)
        self.out = nn.Conv1d(width, 2 * width, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        value, gate = self.gates(functional.pad(x, (self.past, 0))).chunk(2, 1)
        more, skip = self.out(value.tanh() * gate.sigmoid()).chunk(2, 1)
        return x + more, skip


class WaveNet(nn.Module):
    def __init__(self, width: int, layers: int, classes: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(classes, width)
        self.layers = nn.ModuleList(Dilated(width, 1 << i % 10) for i in range(layers))
        self.head = nn.Sequential(nn.ReLU(), nn.Conv1d(width, width, 1), nn.ReLU(), nn.Conv1d(width, classes, 1))

    def forward(self, sound: Tensor) -> Tensor:
        x = self.embed(sound).transpose(1, 2)
        total = torch.zeros_like(x)
        for layer in self.layers:
            x, skip = layer(x)
            total = total + skip
        return self.head(total)


def wavenet(setup: Setup) -> Step:
    samples = setup.pick(8000, 64)
    model = setup.place(WaveNet(setup.pick(64, 8), setup.pick(20, 3), 256))

    def loss_of(model: nn.Module, sound: Tensor) -> Tensor:
        return functional.cross_entropy(model(sound[:, :-1]), sound[:, 1:])

    return train(setup, model, lambda: (setup.whole(256, setup.batch, samples + 1),), loss_of, "adam")


class Conformer(nn.Module):
    """Half a perceptron, attention, a depthwise convolution, and the other half."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.halves = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(width),
                nn.Linear(width, 4 * width),
                nn.SiLU(),
                nn.Dropout(0.1),
                nn.Linear(4 * width, width),
            )
            for _ in range(2)
        )
        self.norm, self.attention = nn.LayerNorm(width), nn.MultiheadAttention(width, heads, 0.1, batch_first=True)
        self.enter = nn.Sequential(nn.Conv1d(width, 2 * width, 1), nn.GLU(1))
        self.leave = nn.Sequential(
            nn.Conv1d(width, width, 31, padding=15, groups=width),
            nn.BatchNorm1d(width),
            nn.SiLU(),
            nn.Conv1d(width, width, 1),
        )
        self.last = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + 0.5 * self.halves[0](x)
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        x = x + self.leave(self.enter(x.transpose(1, 2))).transpose(1, 2)
        return self.last(x + 0.5 * self.halves[1](x))


def conformer(setup: Setup) -> Step:
    width, layers, frames = setup.pick((256, 12, 800), (32, 2, 32))
    start = nn.Sequential(nn.Conv2d(1, width, 3, 2), nn.ReLU(), nn.Conv2d(width, width, 3, 2), nn.ReLU())
    body = nn.Sequential(
        nn.Linear(width * 19, width), *(Conformer(width, 4) for _ in range(layers)), nn.Linear(width, 500)
    )
    model = setup.place(nn.ModuleList([start, body]))

    def loss_of(model: nn.ModuleList, sound: Tensor) -> Tensor:
        scores = model[1](model[0](sound).transpose(1, 2).flatten(2))
        labels = torch.zeros(scores.shape[:2], dtype=torch.long, device=sound.device)
        return functional.cross_entropy(scores.flatten(0, 1), labels.flatten())

    return train(setup, model, lambda: (setup.real(setup.batch, 1, frames, 80),), loss_of, "adam_foreach", max_norm=5.0)


def actor_critic(setup: Setup) -> Step:
    """PPO on frames of a game: values without gradients first, then epochs of small batches."""
    body = nn.Sequential(
        nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(64 * 49, 512), nn.ReLU(), nn.Linear(512, 19),
    )  # fmt: skip
    model = setup.place(body)
    steps = optimizer("adam", model.parameters())
    horizon = setup.pick(32, 4)

    def step() -> Tensor:
        frames = torch.randint(0, 255, (horizon * setup.batch, 4, 84, 84), device=setup.device, dtype=torch.uint8)
        actions, gains = setup.whole(18, horizon * setup.batch), setup.real(horizon * setup.batch)
        with torch.no_grad(), setup.autocast():
            before = torch.cat([model(part.to(setup.dtype) / 255) for part in frames.chunk(4)])
        old, returns = before[:, :18].float().log_softmax(1).gather(1, actions[:, None]), before[:, 18].float() + gains
        loss = gains.new_zeros(())
        for part in torch.randperm(len(frames), device=setup.device).chunk(4):
            with setup.autocast():
                found = model(frames[part].to(setup.dtype) / 255)
            scores = found[:, :18].float().log_softmax(1)
            ratio = (scores.gather(1, actions[part][:, None]) - old[part]).exp().squeeze(1)
            gain = torch.minimum(ratio * gains[part], ratio.clamp(0.9, 1.1) * gains[part]).mean()
            spread = -(scores.exp() * scores).sum(1).mean()
            loss = functional.mse_loss(found[:, 18].float(), returns[part]) - gain - 0.01 * spread
            steps.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            steps.step()
        return loss.detach()

    return step
