"""Programs of the half `further` that train on images and scenes. They were committed before any of them was predicted or ran on a GPU."""

# size: one file holds what trains on images and scenes

from __future__ import annotations

import copy
import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from training import Inputs, Setup, Step, train


def unit(before: int, after: int, kernel: int | tuple[int, int], stride: int = 1) -> nn.Module:
    sides = (kernel, kernel) if isinstance(kernel, int) else kernel
    convolution = nn.Conv2d(before, after, sides, stride, (sides[0] // 2, sides[1] // 2), bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(after, eps=1e-3), nn.ReLU(inplace=True))


class Branches(nn.Module):
    """Several paths from the same input, whose channels are joined."""

    def __init__(self, *paths: nn.Module) -> None:
        super().__init__()
        self.paths = nn.ModuleList(paths)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([path(x) for path in self.paths], 1)


def square(before: int, width: int) -> nn.Module:
    return Branches(
        unit(before, width, 1),
        nn.Sequential(unit(before, 3 * width // 4, 1), unit(3 * width // 4, width, 5)),
        nn.Sequential(unit(before, width, 1), unit(width, 3 * width // 2, 3), unit(3 * width // 2, 3 * width // 2, 3)),
        nn.Sequential(nn.AvgPool2d(3, 1, 1), unit(before, width // 2, 1)),
    )


def crossed(before: int, width: int, inner: int) -> nn.Module:
    return Branches(
        unit(before, width, 1),
        nn.Sequential(unit(before, inner, 1), unit(inner, inner, (1, 7)), unit(inner, width, (7, 1))),
        nn.Sequential(
            unit(before, inner, 1), *(unit(inner, inner, sides) for sides in ((7, 1), (1, 7), (7, 1))), unit(inner, width, (1, 7))
        ),
        nn.Sequential(nn.AvgPool2d(3, 1, 1, count_include_pad=False), unit(before, width, 1)),
    )  # fmt: skip


def smaller(before: int, after: int) -> nn.Module:
    path = nn.Sequential(unit(before, after // 2, 1), unit(after // 2, after, 3), unit(after, after, 3, 2))
    return Branches(path, nn.MaxPool2d(3, 2, 1))


class Inception(nn.Module):
    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.start = nn.Sequential(
            unit(3, width // 2, 3, 2), unit(width // 2, width // 2, 3), unit(width // 2, width, 3), nn.MaxPool2d(3, 2),
            unit(width, 5 * width // 4, 1), unit(5 * width // 4, 3 * width, 3), nn.MaxPool2d(3, 2),
            square(3 * width, width), square(4 * width, width), square(4 * width, width), smaller(4 * width, 4 * width),
            *(crossed(8 * width, 2 * width, width + width * i // 2) for i in range(3)),
        )  # fmt: skip
        self.side = nn.Sequential(
            nn.AvgPool2d(5, 3, 2), unit(8 * width, 2 * width, 1), nn.AdaptiveMaxPool2d(2), nn.Flatten()
        )
        self.aside = nn.Linear(8 * width, classes)
        self.end = nn.Sequential(
            smaller(8 * width, 4 * width), nn.Dropout2d(0.1), crossed(12 * width, 4 * width, 3 * width)
        )
        self.head = nn.Linear(16 * width, classes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.start(x)
        aside = self.aside(self.side(x))
        return self.head(functional.dropout(self.end(x).mean((2, 3)), 0.3)), aside


def inception(setup: Setup) -> Step:
    """Branches with long and flat kernels, a second classifier in the middle, and RMSprop with momentum."""
    classes, size = setup.pick((1000, 291), (10, 75))
    model = setup.place(Inception(setup.pick(64, 8), classes))

    def make() -> Inputs:
        return setup.real(setup.batch, 3, size, size), setup.whole(classes, setup.batch)

    def loss_of(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        scores, aside = model(images)
        early = functional.cross_entropy(aside, labels, label_smoothing=0.1)
        return functional.cross_entropy(scores, labels, label_smoothing=0.1) + 0.4 * early

    rmsprop = lambda weights: torch.optim.RMSprop(weights, 0.01, 0.9, eps=1.0, momentum=0.9, foreach=True)  # noqa: E731
    return train(setup, model, make, loss_of, rmsprop, max_norm=2.0)


def cosines(setup: Setup) -> Step:
    """Swin V2 from transformers: windows, cosine attention, and a network for places."""
    from transformers import Swinv2Config, Swinv2ForImageClassification

    size, width, depths, heads, window = setup.pick(
        (192, 96, [2, 2, 6, 2], [3, 6, 12, 24], 6), (32, 16, [1, 1], [2, 4], 4)
    )
    config = Swinv2Config(
        image_size=size, patch_size=4, embed_dim=width, depths=depths, num_heads=heads, window_size=window, drop_path_rate=0.2, num_labels=500
    )  # fmt: skip
    model = setup.place(Swinv2ForImageClassification(config))

    def adamw(weights: list[nn.Parameter]) -> torch.optim.Optimizer:
        groups = [
            {"params": [each for each in weights if each.ndim > 1], "weight_decay": 0.05},
            {"params": [each for each in weights if each.ndim < 2], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, 5e-4)

    def make() -> Inputs:
        return setup.real(setup.batch, 3, size, size), setup.whole(500, setup.batch)

    def loss_of(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        return model(pixel_values=images, labels=labels).loss

    return train(setup, model, make, loss_of, adamw, max_norm=5.0)


class Frozen(nn.Module):
    """A batch norm whose figures and weights are constants."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(1, width, 1, 1))
        self.register_buffer("shift", torch.zeros(1, width, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale + self.shift


class Plain(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        first, second = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.body = nn.Sequential(first, Frozen(after), nn.ReLU(inplace=True), second, Frozen(after))
        self.skip = nn.Identity() if stride == 1 else nn.Sequential(nn.Conv2d(before, after, 1, stride), Frozen(after))

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.body(x) + self.skip(x))


class Queries(nn.Module):
    """DETR: queries that read an image become objects."""

    def __init__(
        self, widths: tuple[int, ...], width: int, heads: int, layers: int, queries: int, classes: int
    ) -> None:
        super().__init__()
        parts = [
            block for before, after in pairwise(widths) for block in (Plain(before, after, 2), Plain(after, after, 1))
        ]
        self.backbone = nn.Sequential(
            nn.Conv2d(3, widths[0], 7, 2, 3), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1), *parts
        )
        self.narrow = nn.Conv2d(widths[-1], width, 1)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True), layers
        )
        self.decoder = nn.ModuleList(
            nn.TransformerDecoderLayer(width, heads, 4 * width, batch_first=True) for _ in range(layers)
        )
        self.norm, self.queries = nn.LayerNorm(width), nn.Embedding(queries, width)
        self.kinds = nn.Linear(width, classes + 1)
        self.boxes = nn.Sequential(
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4)
        )
        self.rows, self.columns = nn.Parameter(torch.rand(64, width // 2)), nn.Parameter(torch.rand(64, width // 2))

    def forward(self, images: Tensor) -> list[tuple[Tensor, Tensor]]:
        x = self.narrow(self.backbone(images))
        rows, columns = x.shape[2:]
        places = torch.cat([
            self.columns[:columns].repeat(rows, 1, 1), self.rows[:rows, None].repeat(1, columns, 1)], -1)  # fmt: skip
        x = self.encoder(x.flatten(2).transpose(1, 2) + places.flatten(0, 1))
        y, found = self.queries.weight.expand(len(x), -1, -1), []
        for layer in self.decoder:
            y = layer(y, x)
            state = self.norm(y)
            found.append((self.kinds(state), self.boxes(state).sigmoid()))
        return found


def corners(boxes: Tensor) -> tuple[Tensor, Tensor]:
    return boxes[..., :2] - boxes[..., 2:] / 2, boxes[..., :2] + boxes[..., 2:] / 2


def overlap(one: Tensor, other: Tensor) -> Tensor:
    """Returns the generalized overlap of boxes with others."""
    (low, high), (start, end) = corners(one), corners(other)
    common = (torch.minimum(high, end) - torch.maximum(low, start)).clamp(min=0).prod(-1)
    union = one[..., 2:].prod(-1) + other[..., 2:].prod(-1) - common
    around = (torch.maximum(high, end) - torch.minimum(low, start)).prod(-1)
    return common / (union + 1e-6) - (around - union) / (around + 1e-6)


def matched(cost: Tensor) -> Tensor:
    """Returns a query for each object, from a plan that Sinkhorn's algorithm makes fair."""
    plan = -cost / 0.05
    for _ in range(8):
        plan = plan - plan.logsumexp(1, keepdim=True)
        plan = plan - plan.logsumexp(2, keepdim=True).clamp(min=0)
    return plan.argmax(1)


def queries(setup: Setup) -> Step:
    (height, width), classes, objects = setup.pick(((448, 560), 80, 21), ((64, 96), 5, 3))
    sizes = setup.pick(((64, 64, 128, 256, 512), 256, 8, 4, 90), ((8, 8, 16, 16), 32, 2, 2, 7))
    model = setup.place(Queries(*sizes, classes))
    weights_of = torch.ones(classes + 1, device=setup.device)
    weights_of[-1] = 0.1

    def adamw(weights: list[nn.Parameter]) -> torch.optim.Optimizer:
        slow = {id(each) for each in model.backbone.parameters()}
        groups = [
            {"params": [each for each in weights if id(each) not in slow]},
            {"params": [each for each in weights if id(each) in slow], "lr": 1e-5},
        ]
        return torch.optim.AdamW(groups, 1e-4, weight_decay=1e-4)

    def make() -> Inputs:
        boxes = torch.rand(setup.batch, objects, 4, device=setup.device) * 0.4 + 0.3
        return setup.real(setup.batch, 3, height, width), setup.whole(classes, setup.batch, objects), boxes

    def loss_of(model: nn.Module, images: Tensor, kinds: Tensor, boxes: Tensor) -> Tensor:
        total = torch.zeros((), device=images.device)
        for scores, places in model(images):
            scores, places = scores.float(), places.float()
            with torch.no_grad():
                chance = scores.softmax(-1).gather(2, kinds[:, None].expand(-1, scores.size(1), -1))
                near = torch.cdist(places, boxes, p=1) - overlap(places[:, :, None], boxes[:, None])
                own = matched(near - chance)
            wanted = torch.full(scores.shape[:2], classes, device=scores.device).scatter(1, own, kinds)
            taken = places.gather(1, own[..., None].expand(-1, -1, 4))
            total = total + functional.cross_entropy(scores.transpose(1, 2), wanted, weights_of)
            total = total + 5 * functional.l1_loss(taken, boxes) + 2 * (1 - overlap(taken, boxes)).mean()
        return total

    return train(setup, model, make, loss_of, adamw, max_norm=0.1)


class Student(nn.Module):
    def __init__(self, side: int, patch: int, width: int, heads: int, layers: int, hidden: int, out: int) -> None:
        super().__init__()
        self.side, self.embed = side, nn.Conv2d(3, width, patch, patch)
        self.places, self.first = (
            nn.Parameter(0.02 * torch.randn(1, width, side, side)),
            nn.Parameter(torch.zeros(1, 1, width)),
        )
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Sequential(
            nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, width // 2)
        )
        self.last = nn.utils.parametrizations.weight_norm(nn.Linear(width // 2, out, bias=False))

    def forward(self, images: Tensor) -> Tensor:
        x = self.embed(images)
        places = self.places
        if x.size(2) != self.side:
            places = functional.interpolate(places, x.shape[2:], mode="bicubic", align_corners=False)
        x = (x + places).flatten(2).transpose(1, 2)
        x = self.body(torch.cat([self.first.expand(len(x), -1, -1).to(x.dtype), x], 1))[:, 0]
        return self.last(functional.normalize(self.head(x), dim=-1))


def crops(setup: Setup) -> Step:
    """DINO: small crops of an image are to say what a slow teacher says of large ones."""
    side, width, heads, layers, hidden, out = setup.pick((10, 384, 6, 9, 1536, 16000), (4, 16, 2, 2, 32, 50))
    large, small = 16 * side, 16 * (side // 2 - 1)
    model = setup.place(Student(side, 16, width, heads, layers, hidden, out))
    teacher = copy.deepcopy(model).requires_grad_(False)
    center = torch.zeros(1, out, device=setup.device)
    steps = torch.optim.AdamW(model.parameters(), 5e-4, weight_decay=0.04)

    def step() -> Tensor:
        views = [setup.real(setup.batch, 3, large, large) for _ in range(2)]
        views += [setup.real(setup.batch, 3, small, small) for _ in range(5)]
        with setup.autocast():
            with torch.no_grad():
                said = teacher(torch.cat(views[:2]))
                wanted = ((said.float() - center) / 0.04).softmax(-1).chunk(2)
            found = torch.cat([model(torch.cat(views[:2])), model(torch.cat(views[2:]))])
            chances = (found.float() / 0.1).log_softmax(-1).chunk(len(views))
            pairs = [(i, j) for i in range(2) for j in range(len(views)) if i != j]
            loss = torch.stack([-(wanted[i] * chances[j]).sum(-1).mean() for i, j in pairs]).mean()
        steps.zero_grad()
        loss.backward()
        for weight in model.parameters():
            nn.utils.clip_grad_norm_(weight, 3.0)
        steps.step()
        with torch.no_grad():
            center.lerp_(said.float().mean(0, keepdim=True), 0.1)
            for old, new in zip(teacher.parameters(), model.parameters(), strict=True):
                old.mul_(0.996).add_(new, alpha=0.004)
        return loss.detach()

    return step


class Stream(nn.Module):
    """The weights of one stream in a layer that two streams share."""

    def __init__(self, width: int, heads: int, condition: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width, elementwise_affine=False, eps=1e-6) for _ in range(2))
        self.sides = nn.ModuleList(nn.RMSNorm(width // heads, eps=1e-6) for _ in range(2))
        self.change, self.qkv = nn.Linear(condition, 6 * width), nn.Linear(width, 3 * width)
        self.out, self.inner = (
            nn.Linear(width, width),
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width)),
        )

    def before(self, x: Tensor, condition: Tensor) -> tuple[tuple[Tensor, Tensor, Tensor], tuple[Tensor, ...]]:
        changes = self.change(functional.silu(condition))[:, None].chunk(6, -1)
        y = self.norms[0](x) * (1 + changes[1]) + changes[0]
        q, k, v = self.qkv(y).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return (self.sides[0](q), self.sides[1](k), v), changes

    def after(self, x: Tensor, mixed: Tensor, changes: tuple[Tensor, ...]) -> Tensor:
        x = x + changes[2] * self.out(mixed)
        return x + changes[5] * self.inner(self.norms[1](x) * (1 + changes[4]) + changes[3])


class Pair(nn.Module):
    def __init__(self, width: int, heads: int, condition: int) -> None:
        super().__init__()
        self.image, self.text = Stream(width, heads, condition), Stream(width, heads, condition)

    def forward(self, image: Tensor, text: Tensor, condition: Tensor) -> tuple[Tensor, Tensor]:
        own, changes = self.image.before(image, condition)
        other, shifts = self.text.before(text, condition)
        q, k, v = (torch.cat([a.to(b.dtype), b], 2) for a, b in zip(other, own, strict=True))
        mixed = functional.scaled_dot_product_attention(q, k.to(q.dtype), v.to(q.dtype)).transpose(1, 2).flatten(2)
        said, seen = mixed.split([text.size(1), image.size(1)], 1)
        return self.image.after(image, seen, changes), self.text.after(text, said, shifts)


class Streams(nn.Module):
    def __init__(self, width: int, heads: int, layers: int, text: int, side: int) -> None:
        super().__init__()
        self.enter, self.text = nn.Conv2d(16, width, 2, 2), nn.Linear(text, width)
        self.places = nn.Parameter(0.02 * torch.randn(1, (side // 2) ** 2, width))
        self.times = nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width))
        self.pooled = nn.Sequential(nn.Linear(text, width), nn.SiLU(), nn.Linear(width, width))
        self.layers = nn.ModuleList(Pair(width, heads, width) for _ in range(layers))
        self.norm, self.leave = nn.LayerNorm(width, elementwise_affine=False), nn.Linear(width, 64)

    def forward(self, noisy: Tensor, times: Tensor, text: Tensor) -> Tensor:
        angles = 1000 * times[:, None] * torch.logspace(0, -4, 128, device=times.device)
        condition = self.times(torch.cat([angles.cos(), angles.sin()], 1).to(noisy.dtype)) + self.pooled(text.mean(1))
        x, y = self.enter(noisy).flatten(2).transpose(1, 2) + self.places, self.text(text)
        for i, layer in enumerate(self.layers):
            x, y = checkpoint(layer, x, y, condition, use_reentrant=False) if i % 3 == 1 else layer(x, y, condition)
        patches = self.leave(self.norm(x)).transpose(1, 2)
        return functional.fold(patches, noisy.shape[2:], 2, stride=2)


def streams(setup: Setup) -> Step:
    """Flow matching with a transformer of two streams (MMDiT), on latents of a frozen encoder; a third of the layers is recomputed."""
    width, heads, layers, side, words, text = setup.pick((448, 7, 9, 32, 77, 512), (32, 2, 4, 8, 5, 16))
    model = setup.place(Streams(width, heads, layers, text, side))
    wide = setup.pick(96, 16)
    encoder = nn.Sequential(
        nn.Conv2d(3, wide, 3, 2, 1), nn.GroupNorm(16, wide), nn.SiLU(), nn.Conv2d(wide, 2 * wide, 3, 2, 1),
        nn.GroupNorm(16, 2 * wide), nn.SiLU(), nn.Conv2d(2 * wide, 2 * wide, 3, 2, 1), nn.SiLU(), nn.Conv2d(2 * wide, 32, 1),
    )  # fmt: skip
    encoder = setup.place(encoder).requires_grad_(False).eval()

    def make() -> Inputs:
        return setup.real(setup.batch, 3, 8 * side, 8 * side), setup.real(setup.batch, words, text)

    def loss_of(model: nn.Module, images: Tensor, text: Tensor) -> Tensor:
        with torch.no_grad():
            mean, spread = encoder(images).chunk(2, 1)
            clear = mean + torch.randn_like(mean) * (0.5 * spread.clamp(-30, 20)).exp()
        times = torch.randn(len(images), device=images.device).sigmoid()
        share, noise = times[:, None, None, None].to(clear.dtype), torch.randn_like(clear)
        found = model((1 - share) * clear + share * noise, times, text)
        return functional.mse_loss(found.float(), (noise - clear).float())

    return train(setup, model, make, loss_of, "adamw_fused", max_norm=1.0)


class Slots(nn.Module):
    """Slot attention: slots compete for the places of an image, and each draws its part of it."""

    def __init__(self, width: int, slots: int, rounds: int) -> None:
        super().__init__()
        self.count, self.rounds, self.scale = slots, rounds, width**-0.5
        self.encoder = nn.Sequential(
            nn.Conv2d(3, width, 5, 2, 2), nn.LeakyReLU(), nn.Conv2d(width, width, 5, padding=2), nn.LeakyReLU(),
            nn.Conv2d(width, width, 5, padding=2), nn.LeakyReLU(), nn.Conv2d(width, width, 5, padding=2),
        )  # fmt: skip
        self.places, self.again = nn.Linear(4, width), nn.Linear(4, width)
        self.mean, self.spread = nn.Parameter(torch.randn(1, 1, width)), nn.Parameter(torch.zeros(1, 1, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.query, self.keys = nn.Linear(width, width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.cell, self.inner = (
            nn.GRUCell(width, width),
            nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width)),
        )
        parts = [each for _ in range(3) for each in (nn.ConvTranspose2d(width, width, 5, 2, 2, 1), nn.ELU())]
        self.decoder = nn.Sequential(*parts, nn.ConvTranspose2d(width, 4, 3, 1, 1))

    @staticmethod
    def grid(rows: int, columns: int, like: Tensor) -> Tensor:
        y, x = torch.meshgrid(
            torch.linspace(0, 1, rows, device=like.device),
            torch.linspace(0, 1, columns, device=like.device),
            indexing="ij",
        )
        return torch.stack([x, y, 1 - x, 1 - y], -1).to(like.dtype)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        x = self.encoder(images)
        x = self.norms[0](x.permute(0, 2, 3, 1) + self.places(self.grid(*x.shape[2:], images))).flatten(1, 2)
        keys, values = self.keys(x).chunk(2, -1)
        slots = self.mean + self.spread.exp() * torch.randn(
            len(x), self.count, x.size(2), device=x.device, dtype=self.mean.dtype
        )
        for _ in range(self.rounds):
            scores = torch.einsum("bsd,bnd->bsn", self.query(self.norms[1](slots)), keys) * self.scale
            share = scores.float().softmax(1) + 1e-8
            read = torch.einsum("bsn,bnd->bsd", (share / share.sum(2, keepdim=True)).to(values.dtype), values)
            slots = self.cell(read.flatten(0, 1), slots.flatten(0, 1)).view_as(slots).to(slots.dtype)
            slots = slots + self.inner(self.norms[2](slots))
        side = images.size(2) // 8
        wide = slots.flatten(0, 1)[:, None, None] + self.again(self.grid(side, side, images))
        drawn = self.decoder(wide.permute(0, 3, 1, 2)).unflatten(0, (-1, self.count))
        share = drawn[:, :, 3:].softmax(1)
        return (drawn[:, :, :3] * share).sum(1), share


def slots(setup: Setup) -> Step:
    size = setup.pick(104, 24)
    model = setup.place(Slots(setup.pick(72, 16), setup.pick(7, 3), 3))

    def loss_of(model: nn.Module, images: Tensor) -> Tensor:
        drawn, share = model(images)
        sharp = torch.special.entr(share.float() + 1e-6).sum(1).mean()
        return functional.mse_loss(drawn.float(), images.float()) + 0.01 * sharp

    return train(setup, model, lambda: (setup.real(setup.batch, 3, size, size),), loss_of, "adam_foreach", max_norm=1.0)


class Hashes(nn.Module):
    """A field of light: features from tables at several resolutions, whose rows are found by hashes, then small networks."""

    def __init__(self, levels: int, rows: int, features: int, width: int) -> None:
        super().__init__()
        self.rows, self.levels = rows, levels
        self.tables = nn.Parameter(1e-4 * (2 * torch.rand(levels * rows, features) - 1))
        self.register_buffer("sizes", (16 * 1.45 ** torch.arange(levels)).floor(), persistent=False)
        self.register_buffer("primes", torch.tensor([1, 2654435761, 805459861]), persistent=False)
        self.register_buffer("steps", torch.cartesian_prod(*[torch.arange(2)] * 3), persistent=False)
        self.density = nn.Sequential(nn.Linear(levels * features, width), nn.ReLU(), nn.Linear(width, 16))
        self.color = nn.Sequential(
            nn.Linear(16 + 9, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 3)
        )

    def features(self, points: Tensor) -> Tensor:
        scaled = points[:, None] * self.sizes[:, None]
        low = scaled.floor()
        part = (scaled - low)[:, :, None]
        corner = low.long()[:, :, None] + self.steps
        mixed = corner * self.primes
        found = (mixed[..., 0] ^ mixed[..., 1] ^ mixed[..., 2]) % self.rows
        found = found + self.rows * torch.arange(self.levels, device=points.device)[:, None]
        weights = torch.where(self.steps.bool(), part, 1 - part).prod(-1)
        return (functional.embedding(found, self.tables) * weights[..., None]).sum(2).flatten(1)

    def forward(self, points: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
        inner = self.density(self.features(points.flatten(0, 1))).view(*points.shape[:2], 16)
        x, y, z = directions.unbind(-1)
        seen = torch.stack([torch.ones_like(x), x, y, z, x * y, y * z, 3 * z * z - 1, x * z, x * x - y * y], -1)
        seen = seen[:, None].expand(-1, points.size(1), -1)
        color = self.color(torch.cat([inner, seen.to(inner.dtype)], -1)).float().sigmoid()
        return functional.softplus(inner[..., 0].float() - 1), color


def hashes(setup: Setup) -> Step:
    """A radiance field with hashed tables (Instant-NGP), rays with samples in layers, and a loss on their spread."""
    model = setup.place(Hashes(*setup.pick((14, 2**18, 2, 64), (3, 64, 2, 8))))
    count = setup.pick(72, 6)

    def make() -> Inputs:
        start = torch.rand(setup.batch, 3, device=setup.device) * 0.2
        directions = functional.normalize(torch.rand(setup.batch, 3, device=setup.device) + 0.05, dim=-1)
        return start, directions, torch.rand(setup.batch, 3, device=setup.device)

    def loss_of(model: nn.Module, start: Tensor, directions: Tensor, wanted: Tensor) -> Tensor:
        noise = torch.rand(len(start), count, device=start.device)
        far = (torch.arange(count, device=start.device) + noise) / count
        density, color = model(start[:, None] + 0.75 * far[..., None] * directions[:, None], directions)
        gaps = functional.pad(far.diff(dim=1), (0, 1), value=0.01)
        depth = density * gaps * 20
        weights = (1 - (-depth).exp()) * (-(depth.cumsum(1) - depth)).exp()
        pixel = torch.einsum("rs,rsc->rc", weights, color) + (1 - weights.sum(1, keepdim=True))
        spread = (weights[:, :, None] * weights[:, None] * (far[:, :, None] - far[:, None]).abs()).sum((1, 2)).mean()
        return functional.huber_loss(pixel, wanted, delta=0.1) + 0.001 * spread

    adam = lambda weights: torch.optim.Adam(weights, 1e-2, (0.9, 0.99), eps=1e-15)  # noqa: E731
    return train(setup, model, make, loss_of, adam)


class Turn(nn.Module):
    """One step of Glow: scale, mix channels by a matrix, and change one half by the other."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.zeros(1, width, 1, 1)), nn.Parameter(torch.zeros(1, width, 1, 1))
        self.mix = nn.Parameter(torch.linalg.qr(torch.randn(width, width))[0].contiguous())
        self.body = nn.Sequential(
            nn.Conv2d(width // 2, hidden, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(hidden, hidden, 1),
            nn.ReLU(inplace=True), nn.Conv2d(hidden, width, 3, padding=1),
        )  # fmt: skip
        nn.init.normal_(self.body[4].weight, 0, 1e-3)

    def forward(self, x: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
        pixels = x.size(2) * x.size(3)
        x = functional.conv2d((x + self.shift) * self.scale.exp(), self.mix[..., None, None])
        total = total + pixels * (self.scale.sum() + torch.linalg.slogdet(self.mix)[1])
        left, right = x.chunk(2, 1)
        shift, scale = self.body(left).chunk(2, 1)
        scale = (scale.float() + 2).sigmoid()
        return torch.cat([left, (right + shift) * scale], 1), total + scale.log().sum((1, 2, 3))


class Glow(nn.Module):
    def __init__(self, levels: int, turns: int, hidden: int) -> None:
        super().__init__()
        self.levels = nn.ModuleList(nn.ModuleList(Turn(12 * 2**i, hidden) for _ in range(turns)) for i in range(levels))

    def forward(self, x: Tensor) -> Tensor:
        total, rest = x.new_zeros(len(x)), []
        for level in self.levels:
            x = functional.pixel_unshuffle(x, 2)
            for turn in level:
                x, total = turn(x, total)
            x, out = x.chunk(2, 1)
            rest.append(out)
        for part in (*rest, x):
            total = total - 0.5 * (part.float().square() + math.log(2 * math.pi)).sum((1, 2, 3))
        return total


def flows(setup: Setup) -> Step:
    """Glow: the likelihood of images under a network that can be inverted, with Adamax and a warm-up."""
    size = setup.pick(56, 16)
    model = setup.place(Glow(setup.pick(3, 2), setup.pick(7, 2), setup.pick(320, 16)))
    schedules = []

    def adamax(weights: list[nn.Parameter]) -> torch.optim.Optimizer:
        made = torch.optim.Adamax(weights, 1e-3)
        schedules.append(torch.optim.lr_scheduler.LinearLR(made, 0.1, 1.0, 1000))
        return made

    def make() -> Inputs:
        whole = setup.whole(32, setup.batch, 3, size, size).to(setup.dtype)
        return ((whole + torch.rand_like(whole)) / 32 - 0.5,)

    def loss_of(model: nn.Module, images: Tensor) -> Tensor:
        return -model(images).mean() / (math.log(2) * 3 * size * size) + 5

    step = train(setup, model, make, loss_of, adamax, max_norm=50.0)

    def warmed() -> Tensor:
        loss = step()
        schedules[0].step()
        return loss

    return warmed
